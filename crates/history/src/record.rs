//! What a history holds.

/// A write, by a number that no other write has; [`INITIAL`] is the state before the first.
pub type Version = u64;

/// No row yet.
pub const INITIAL: Version = 0;

/// What a read was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// There is no row.
    Nothing,
    /// A row that this write left.
    Version(Version),
    /// A list of writes, each of which added itself at the end.
    List(Vec<Version>),
}

impl Told {
    /// The write that was seen; none if there was no row.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self {
            Told::Nothing => None,
            Told::Version(version) => Some(*version),
            Told::List(list) => list.last().copied(),
        }
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// It read a key.
    Read(u64, Told),
    /// It read the rows from one key to another, exclusive.
    Range(u64, u64, Vec<(u64, Version)>),
    /// It wrote a key.
    Write(u64, Version),
    /// It deleted a row for ever.
    Delete(u64, Version),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged. The LSN of its commit; 0 if it wrote nothing.
    Committed(u64),
    /// It did not happen.
    Aborted,
    /// A power cut came while it committed.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Txn {
    /// Which client; one transaction at a time.
    pub client: u64,
    /// When it was begun, on a clock that ticks at every beginning and end.
    pub begun: u64,
    /// When the client knew its end.
    pub ended: u64,
    /// What it did, in order.
    pub ops: Vec<Op>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Txn {
    /// Whether it counts: it was acknowledged, or turned out to have happened.
    #[must_use]
    pub fn committed(&self) -> bool {
        matches!(self.outcome, Outcome::Committed(_))
    }
}

/// All transactions of a run, and what it found broken by itself.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In no particular order.
    pub txns: Vec<Txn>,
    /// For lists: what each key holds at the end. Else the order of writes follows from LSNs.
    pub lists: Option<std::collections::BTreeMap<u64, Vec<Version>>>,
    /// Rules of the workload that a committed transaction saw broken.
    pub broken: Vec<String>,
    /// Power cuts.
    pub cuts: u64,
}
