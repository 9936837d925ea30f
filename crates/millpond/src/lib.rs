//! Millpond: a transactional storage engine with a calm write path.

mod error;
mod log;

pub use error::{Error, Result};
