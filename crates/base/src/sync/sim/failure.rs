//! Why a world ended before its threads did.

use std::fmt;

/// Why a world ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A thread panicked.
    Panic {
        /// The thread's name.
        thread: String,
        /// The message of the panic, and its source line.
        message: String,
    },
    /// No thread can run and no timeout is pending. The text says what each thread waits for.
    Deadlock(String),
    /// More steps than the options allow. The text says where each thread is.
    StepLimit(String),
    /// A thread runs without reaching a scheduling point. The text says where each thread was last
    /// seen.
    Hung(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic { thread, message } => write!(f, "thread {thread} panicked: {message}"),
            Failure::Deadlock(threads) => write!(f, "deadlock, no thread can run:\n{threads}"),
            Failure::StepLimit(threads) => write!(f, "more steps than allowed:\n{threads}"),
            Failure::Hung(threads) => write!(f, "a thread no longer reaches a scheduling point:\n{threads}"),
        }
    }
}
