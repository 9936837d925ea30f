//! What the simulator needs of a database: the crate's API, with tables by name and errors by what follows from them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;

/// Why a call did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Deadlock, lock timeout, write conflict: the transaction may be tried again from its start.
    Retry(String),
    /// The snapshot has been given up; only this call failed.
    TooOld,
    /// The key exists; only this call failed.
    KeyExists,
    /// The table exists.
    TableExists,
    /// There is no such table.
    NoSuchTable,
    /// Anything else: nothing a workload expects.
    Other(String),
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fail::Retry(what) | Fail::Other(what) => f.write_str(what),
            Fail::TooOld => f.write_str("the snapshot is too old"),
            Fail::KeyExists => f.write_str("the key exists"),
            Fail::TableExists => f.write_str("the table exists"),
            Fail::NoSuchTable => f.write_str("no such table"),
        }
    }
}

/// The outcome of a call.
pub type Result<T = (), E = Fail> = std::result::Result<T, E>;

/// Rows in key order.
pub type RowList = Vec<(Vec<u8>, Vec<u8>)>;

/// How a transaction sees others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each read sees what is committed.
    ReadCommitted,
    /// Reads see one snapshot.
    RepeatableRead,
    /// As if alone.
    Serializable,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable.
    Sync,
    /// At most so long, or so many bytes, before it is.
    Bounded {
        /// Milliseconds.
        ms: u64,
        /// Bytes of log.
        bytes: u64,
    },
    /// At once.
    None,
}

/// How a transaction is begun.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// How it sees others.
    pub isolation: Isolation,
    /// When its commit is acknowledged.
    pub durability: Durability,
}

impl Default for How {
    fn default() -> How {
        How { isolation: Isolation::RepeatableRead, durability: Durability::Sync }
    }
}

/// How small a database is. Everything is tiny, so that a short script meets every mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Blocks of a log segment.
    pub segment_blocks: u64,
    /// Segments that the redo capacity makes.
    pub segments: u64,
    /// Pages in an area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Pages by which the file grows.
    pub grow_pages: u32,
    /// Memory for undo, status and locks, bytes; 0: as usual.
    pub history_memory: u64,
    /// What undo files may take before the oldest snapshot is given up, bytes; 0: as usual.
    pub history_files: u64,
    /// The disk can fill up, and have pages that cannot be read.
    pub faults: bool,
}

/// The usual shape.
pub const SMALL: Shape = Shape {
    page_bytes: 4096,
    frames: 64,
    segment_blocks: 16,
    segments: 8,
    doublewrite_pages: 8,
    grow_pages: 32,
    history_memory: 0,
    history_files: 0,
    faults: false,
};

/// A kind of database.
pub trait Subject: Send + Sync + fmt::Debug {
    /// Opens the database in `dir`, recovering it; creates it if there is none.
    fn open(&self, vfs: &Vfs, dir: &Path, shape: &Shape) -> Result<Arc<dyn Database>>;

    /// Whether it is the engine itself, of which more is asked than of what stands for one.
    fn is_engine(&self) -> bool {
        false
    }
}

/// An open database. The last drop closes it.
pub trait Database: Send + Sync {
    /// Creates a table.
    fn create_table(&self, name: &str) -> Result;
    /// Creates a table with these rows, in key order; or does all but the last step and gives up.
    fn load_table(&self, name: &str, rows: &RowList, commit: bool) -> Result;
    /// Drops a table.
    fn drop_table(&self, name: &str) -> Result;
    /// Renames a table.
    fn rename_table(&self, from: &str, to: &str) -> Result;
    /// All tables.
    fn table_names(&self) -> Result<Vec<String>>;
    /// Begins a transaction.
    fn begin(&self, how: How) -> Result<Box<dyn Tx>>;
    /// Prepared transactions that nobody has decided.
    fn prepared(&self) -> Result<Vec<Vec<u8>>>;
    /// Commits a prepared transaction.
    fn commit_prepared(&self, xid: &[u8]) -> Result;
    /// Rolls a prepared transaction back.
    fn rollback_prepared(&self, xid: &[u8]) -> Result;
    /// Writes all dirty pages and moves the checkpoint.
    fn checkpoint(&self) -> Result;
    /// What is wrong with the pages and trees, a line each.
    fn check(&self) -> Result<Vec<String>>;
    /// Pages that belong to a tree which does not lead to them; `None` while background work makes that impossible to
    /// tell.
    fn unreachable(&self) -> Result<Option<u64>>;
    /// One of its figures, by name.
    fn figure(&self, name: &str) -> u64;
    /// Closes it in order.
    fn close(&self) -> Result;
}

/// A transaction. Dropping it rolls it back.
pub trait Tx: Send {
    /// A row's value.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// A row's newest value, locked.
    fn get_for_update(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// A new row.
    fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result;
    /// A row, new or not.
    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result;
    /// Removes a row; whether it was there.
    fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool>;
    /// All rows.
    fn scan(&self, table: &str) -> Result<RowList>;
    /// A place to come back to, by number from 0.
    fn savepoint(&mut self) -> usize;
    /// Undoes what came after a savepoint.
    fn rollback_to(&mut self, savepoint: usize) -> Result;
    /// Commits. The commit's LSN.
    fn commit(self: Box<Self>) -> Result<u64>;
    /// Commits, and waits for the outcome as a future does. The commit's LSN.
    fn commit_async(self: Box<Self>) -> Result<u64>;
    /// Rolls back.
    fn rollback(self: Box<Self>);
    /// Makes the outcome a later decision that survives a crash.
    fn prepare(self: Box<Self>, xid: &[u8]) -> Result;
}
