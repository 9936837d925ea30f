//! Servers of MariaDB and MySQL as a client sees them: how to get in, statements in, rows out, and
//! errors that say what to do.
//!
//! `target` reads what a user names, `login` finds user and password, also in an `option_file`.
//! [`Access`] is both together, and makes a [`Connection`], whose `session` has settings of its
//! own, or a [`Worker`], which works as an application does. [`Settings`] are changed for a time,
//! and put back. `trouble` is why there is no answer,
//! `version` which server answers.

mod access;
mod connection;
mod login;
mod option_file;
#[cfg(test)]
#[path = "../../output/src/scratch.rs"]
mod scratch;
mod session;
mod settings;
mod target;
mod trouble;
mod version;
mod worker;

pub use access::Access;
pub use connection::{Connection, Row};
pub use login::LoginFlags;
pub use settings::{SETTINGS_NEED, Settings, UNDO, set_to};
pub use target::{Address, Target};
pub use trouble::Trouble;
pub use version::{Maker, Version};
pub use worker::{Param, Prepared, Worker};
