//! Runs any bytes as parts of the log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond::fuzz::fuzz_log_record(data));
