//! Damages the files of a database in any way and opens it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond::fuzz::fuzz_open(data));
