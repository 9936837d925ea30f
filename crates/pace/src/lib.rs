//! Flow control as pure functions: numbers in, numbers out. No clock, no lock, no engine.

pub mod commit;
