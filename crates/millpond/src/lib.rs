//! Millpond: a transactional storage engine with a calm write path.

mod error;
mod lock;

pub use error::{Error, Result};
