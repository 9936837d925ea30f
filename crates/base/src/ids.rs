//! Identifiers that appear in files: log sequence number (LSN), page number, tree id, transaction
//! id. Each is its own type, so that a page number is never taken for a log position.

use std::fmt;

/// A log sequence number: a position in the redo stream, in bytes of payload since the database was
/// created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

/// A page's position in the `pages` file, counted in pages. Page 0 is the file's own header, so 0
/// also means "no page".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageNo(pub u32);

/// Names a tree. Never used again for another tree. 0 means "no tree".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreeId(pub u32);

/// Names a transaction. Never used again for another one, below 2^48. 0 means "no transaction": a
/// version that every transaction sees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TxnId(pub u64);

impl Lsn {
    /// Before the first byte of the log.
    pub const ZERO: Lsn = Lsn(0);
    /// Above every position that a log can reach.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// Returns how many bytes `self` is after `earlier`; 0 if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the position `bytes` after this one.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }
}

impl PageNo {
    /// No page.
    pub const NONE: PageNo = PageNo(0);

    /// Whether this is [`PageNo::NONE`].
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl TxnId {
    /// No transaction.
    pub const NONE: TxnId = TxnId(0);
}

impl TreeId {
    /// No tree.
    pub const NONE: TreeId = TreeId(0);
}

macro_rules! show {
    ($t:ty, $name:literal) => {
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($name, " {}"), self.0)
            }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
show!(Lsn, "lsn");
show!(PageNo, "page");
show!(TreeId, "tree");
show!(TxnId, "txn");
