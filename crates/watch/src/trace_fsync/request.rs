//! What the user asks for: what is traced, and how.

use std::time::Duration;

/// What is traced, and how.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// A process number, a directory, or the URL of a server.
    pub(crate) target: String,
    /// For how long; of a directory, how much of the end of its recording.
    pub(crate) length: Duration,
    /// The width of a row of the histogram, microseconds.
    pub(crate) step_us: Option<u64>,
    /// By strace instead of tracepoints.
    pub(crate) strace: bool,
}
