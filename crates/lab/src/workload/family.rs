//! What the driver runs of a family of workloads: it loads a database, and each thread has a
//! session that attempts one transaction after the other.

use super::sysbench_tables::Loader;
use super::tpcc::Condition;
use millpond::Db;
use output::failure::{Failure, Outcome};
use std::time::Duration;

/// The kinds of errors after which a transaction may be tried again.
pub(crate) const DEADLOCK: &str = "deadlock";
pub(crate) const LOCK_TIMEOUT: &str = "lock_timeout";
pub(crate) const WRITE_CONFLICT: &str = "write_conflict";

/// Why an attempt to run a transaction failed.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The engine returned an error, which may be retryable.
    Engine(millpond::Error),
    /// A server returned an error after which the same transaction may be tried again: its kind.
    #[cfg(feature = "watch")]
    Retry(&'static str),
    /// A server returned another error, or broke the connection: a sentence.
    #[cfg(feature = "watch")]
    Server(String),
    /// The engine returned a wrong result.
    Wrong(String),
}

impl AttemptError {
    /// Returns the kind of an error after which the same transaction may be tried again; `None`
    /// for other errors.
    pub(crate) fn retryable(&self) -> Option<&'static str> {
        match self {
            AttemptError::Engine(millpond::Error::Deadlock) => Some(DEADLOCK),
            AttemptError::Engine(millpond::Error::LockTimeout) => Some(LOCK_TIMEOUT),
            AttemptError::Engine(error) => error.is_retryable().then_some(WRITE_CONFLICT),
            #[cfg(feature = "watch")]
            AttemptError::Retry(kind) => Some(kind),
            #[cfg(feature = "watch")]
            AttemptError::Server(_) => None,
            AttemptError::Wrong(_) => None,
        }
    }
}

impl From<millpond::Error> for AttemptError {
    fn from(error: millpond::Error) -> Self {
        AttemptError::Engine(error)
    }
}

impl From<AttemptError> for Failure {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Engine(error) => error.into(),
            #[cfg(feature = "watch")]
            AttemptError::Retry(kind) => Failure::failed(format!("the server gave up: {kind}")),
            #[cfg(feature = "watch")]
            AttemptError::Server(text) => Failure::failed(text),
            AttemptError::Wrong(text) => Failure::failed(format!("the engine gave a wrong answer: {text}")),
        }
    }
}

/// One family of workloads, ready for a database.
pub(crate) trait Workload: Sync {
    /// Loads an empty database with the tables of the measured phase.
    fn load(&self, loader: &Loader<'_>) -> Outcome;
    /// Returns the work of thread `thread` (from 0) in the loaded database.
    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>>;
    /// Returns whether the workload ends by itself, not by the clock.
    fn has_an_end(&self) -> bool {
        false
    }
    /// Says whether the tables meet the workload's own conditions, between transactions; `None` if
    /// it has none.
    fn conditions(&self, _db: &Db) -> Outcome<Option<Vec<Condition>>> {
        Ok(None)
    }
}

/// One thread of a workload.
pub(crate) trait Session: Send {
    /// Chooses the next transaction. Returns false if no work is left.
    fn draw(&mut self) -> bool;
    /// Returns how long a user would wait before the chosen transaction.
    fn pause(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Runs the chosen transaction from begin to commit and returns how many table rows it changed.
    /// A second call runs the same transaction again, after a retryable error.
    fn attempt(&mut self) -> Result<u64, AttemptError>;
    /// Returns the name of the chosen transaction, if the workload has several.
    fn kind(&self) -> Option<&'static str> {
        None
    }
    /// Returns whether the last attempt has committed. One that has rolled back, as it had to, is
    /// done too.
    fn has_committed(&self) -> bool {
        true
    }
}
