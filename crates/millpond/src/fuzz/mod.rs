//! Fuzz targets. Each takes any bytes, does with them what the engine does with bytes from a disk,
//! and must return. `cargo test` runs them on seeds, on stored inputs and on mutations of both;
//! `fuzz/` runs them under libFuzzer.

mod log;
mod open;
mod page;
#[cfg(test)]
mod tests;

pub use log::fuzz_log_record;
pub use open::fuzz_open;
pub use page::fuzz_page;
