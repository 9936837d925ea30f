//! Bodies for fuzzing: each takes any bytes, does with them what the engine does with bytes from a disk, and must come
//! back. `cargo test` runs them on seeds, kept inputs and mutations of both; `fuzz/` gives them to libFuzzer.

mod log;
mod open;
mod page;
#[cfg(test)]
mod tests;

pub use log::fuzz_log_record;
pub use open::fuzz_open;
pub use page::fuzz_page;
