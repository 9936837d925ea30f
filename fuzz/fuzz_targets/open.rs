//! Any damage to a database's files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond::fuzz::fuzz_open(data));
