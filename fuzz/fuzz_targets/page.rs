//! Runs any bytes as a page.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond::fuzz::fuzz_page(data));
