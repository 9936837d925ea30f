//! Millpond: a transactional storage engine with a calm write path.

mod error;
#[allow(dead_code, unused_imports)]
mod lock;
#[allow(dead_code, unused_imports)]
mod mvcc;
#[allow(dead_code)]
mod page;
#[allow(dead_code, unused_imports)]
mod undo;

pub use error::{Error, Result};
