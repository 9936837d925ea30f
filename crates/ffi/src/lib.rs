//! The C interface of Millpond (C ABI): what `include/millpond.h` declares.
//!
//! # Rules for callers
//!
//! - **Handles** are opaque pointers. The caller gives each of them back once, with the `_free`
//!   function of its kind, and does not use it afterwards. A transaction, a cursor or a load is
//!   used by one thread at a time; a database and a table by any number. Only
//!   [`txn::millpond_txn_cancel`] may be called for a transaction that another thread uses.
//! - **Order.** Cursors and tables are freed before the database is closed. Transactions are ended
//!   before.
//! - **Return codes.** Every function that can fail returns an [`rc::Rc`] as an `int`. Their
//!   numbers never change. [`rc::millpond_error_text`] has a sentence about the last failure of the
//!   thread.
//! - **Bytes in** are borrowed for the call. **Bytes out** are put into a buffer of the caller,
//!   which the call makes longer with `realloc` where needed, or they are memory of a cursor, which
//!   stays as it is until the next call with that cursor.
//! - **Panics.** A panic is a mistake in the engine. Latches may be held then, so nothing can go
//!   on: the panic is logged and the process aborts.
//!
//! A null pointer where a handle or a result is expected is `MILLPOND_RC_MISUSE`. All other
//! pointers must be valid, as C's rules have it.

// The one list of what a caller must guarantee stands above. It is the same for all functions.
#![allow(clippy::missing_safety_doc, reason = "the rules for callers stand at the top of the crate")]
#![allow(unsafe_code, reason = "C passes pointers; each use has its proof")]

pub mod bytes;
pub mod cursor;
pub mod db;
pub mod ddl;
pub mod guard;
pub mod load;
pub mod locks;
pub mod metrics;
pub mod on_deadlock;
pub mod rc;
pub mod row;
pub mod two_phase;
pub mod txn;
pub mod waits;
