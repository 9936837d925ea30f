//! When a commit may return.

/// What a commit's return promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// The transaction survives a power cut.
    #[default]
    Sync,
    /// It survives the end of the process, and a power cut loses at most what was committed in the last `ms` milliseconds
    /// and the last `bytes` bytes of redo: a commit waits while more than that is not durable.
    Bounded {
        /// The oldest commit that is not durable is at most this old, milliseconds.
        ms: u64,
        /// At most so many bytes of redo are not durable.
        bytes: u64,
    },
    /// Nothing: it becomes durable when the log is written for another reason.
    None,
}
