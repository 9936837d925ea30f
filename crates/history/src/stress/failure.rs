//! Why a transaction failed: the engine says so, or what it read is a finding.

use millpond::Error;

/// Why a transaction failed.
pub(super) enum TxnFailure {
    /// The engine returned an error.
    Engine(Error),
    /// A finding: what was read is inconsistent.
    Wrong(String),
}

impl From<Error> for TxnFailure {
    fn from(error: Error) -> TxnFailure {
        TxnFailure::Engine(error)
    }
}

impl From<String> for TxnFailure {
    fn from(what: String) -> TxnFailure {
        TxnFailure::Wrong(what)
    }
}
