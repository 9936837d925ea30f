//! TPC-C over SQL, with the tables and columns of the standard under the names that other programs
//! use for them (`new_orders`, `orders`).
//!
//! `tables` are their definitions, `load` fills them, `statements` has the statements of the five
//! transactions, `conditions` asks whether the standard's consistency conditions hold.

mod conditions;
mod load;
mod statements;
mod tables;

pub(super) use conditions::check;
pub(super) use load::load;
pub(super) use statements::{STATEMENTS, SqlStatements};
pub(super) use tables::{NAMES, made};
