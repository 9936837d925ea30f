//! The history of a run: its transactions, their operations and results.

/// The unique number of a write. [`INITIAL`] is the state before the first write.
pub type Version = u64;

/// The state before the first write: there is no row.
pub const INITIAL: Version = 0;

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// There is no row.
    Nothing,
    /// A row, which this write made.
    Version(Version),
    /// A list of writes: each write appends its number.
    List(Vec<Version>),
}

impl ReadResult {
    /// Returns the write that was seen; none if there was no row.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self {
            ReadResult::Nothing => None,
            ReadResult::Version(version) => Some(*version),
            ReadResult::List(list) => list.last().copied(),
        }
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// It read a key.
    Read(u64, ReadResult),
    /// It read the rows from one key to another; the second key is exclusive.
    Range(u64, u64, Vec<(u64, Version)>),
    /// It wrote a key.
    Write(u64, Version),
    /// It deleted a row. The key is not used again.
    Delete(u64, Version),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The commit was acknowledged. Its LSN; 0 if the transaction wrote nothing.
    Committed(u64),
    /// It was rolled back.
    Aborted,
    /// A power cut came during the commit.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Txn {
    /// The client; it runs one transaction at a time.
    pub client: u64,
    /// When it began, on a clock that ticks at every begin and end of a transaction.
    pub begun: u64,
    /// When the client knew the outcome.
    pub ended: u64,
    /// What it did, in order.
    pub ops: Vec<Op>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Txn {
    /// Returns whether it committed: it was acknowledged, or its writes were found after a power
    /// cut.
    #[must_use]
    pub fn committed(&self) -> bool {
        matches!(self.outcome, Outcome::Committed(_))
    }
}

/// All transactions of a run, and the broken rules that they saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In no particular order.
    pub txns: Vec<Txn>,
    /// For lists: the final value of each key. For other values the order of writes follows from
    /// LSNs.
    pub lists: Option<std::collections::BTreeMap<u64, Vec<Version>>>,
    /// Broken rules of the workload that a committed transaction saw.
    pub broken: Vec<String>,
    /// How many power cuts there were.
    pub cuts: u64,
}
