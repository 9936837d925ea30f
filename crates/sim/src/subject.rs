//! What the simulator needs of a database: the API of the crate `millpond`, with tables by name and
//! errors grouped by what the caller does about them.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Deadlock, lock timeout, write conflict: the transaction may be tried again from its start.
    Retry(String),
    /// The snapshot has expired; only this call failed.
    TooOld,
    /// The key exists; only this call failed.
    KeyExists,
    /// The table exists.
    TableExists,
    /// There is no such table.
    NoSuchTable,
    /// Any other error. No workload expects one.
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

/// The result of a call.
pub type Result<T = (), E = Fail> = std::result::Result<T, E>;

/// Rows in key order.
pub type RowList = Vec<(Vec<u8>, Vec<u8>)>;

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each read sees what is committed when it begins.
    ReadCommitted,
    /// All reads see one snapshot.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable.
    Sync,
    /// When it outlives the process. It becomes durable as a bounded one.
    Written {
        /// Milliseconds.
        ms: u64,
        /// Bytes of log.
        bytes: u64,
    },
    /// Before it is durable, by at most so many milliseconds or bytes of log.
    Bounded {
        /// Milliseconds.
        ms: u64,
        /// Bytes of log.
        bytes: u64,
    },
    /// At once; it becomes durable later.
    None,
}

/// The settings of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// What it sees of others.
    pub isolation: Isolation,
    /// When its commit is acknowledged.
    pub durability: Durability,
}

impl Default for How {
    fn default() -> How {
        How { isolation: Isolation::RepeatableRead, durability: Durability::Sync }
    }
}

/// A change of the set of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// A new table with metadata.
    Create(String, Vec<u8>),
    /// A table is dropped.
    Drop(String),
    /// A table gets another name.
    Rename(String, String),
    /// A new table with metadata takes the place of a table.
    Replace(String, Vec<u8>),
    /// A table gets other metadata.
    SetMetadata(String, Vec<u8>),
}

/// A change of an entry, one of those of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// The table.
    pub table: &'static str,
    /// The key.
    pub key: Vec<u8>,
    /// What is done.
    pub op: EntryOp,
}

/// What is done with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOp {
    /// A new entry with this value; an existing key is a conflict.
    Insert(Vec<u8>),
    /// A new value, whether or not the entry exists.
    Put(Vec<u8>),
    /// The entry is deleted if it exists.
    Delete,
}

/// A scan that locks the rows that it shows.
#[derive(Clone, Copy, Debug)]
pub struct LockRows {
    /// For update, not for share.
    pub exclusive: bool,
    /// From the last row to the first.
    pub backward: bool,
    /// Rows that others have are left out.
    pub skip: bool,
    /// It ends after so many rows.
    pub most: usize,
}

/// The error of a call that only the engine has.
fn only_the_engine<T>() -> Result<T> {
    Err(Fail::Other("only the engine does that".into()))
}

/// The sizes of a database. Everything is tiny, so a short script reaches every mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Blocks of a log segment.
    pub segment_blocks: u64,
    /// Segments of log that the redo capacity allows.
    pub segments: u64,
    /// Pages in an area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Pages by which the file `pages` grows at once.
    pub grow_pages: u32,
    /// Memory for undo, transaction status and locks, bytes; 0 is the default size.
    pub history_memory: u64,
    /// Bytes that undo files may take before the oldest snapshot expires; 0 is the default size.
    pub history_files: u64,
    /// The disk can be full, or have pages that cannot be read.
    pub faults: bool,
    /// Copies of pages.
    pub doublewrite: Copies,
}

/// Whether there are copies of pages while they are written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// There are.
    On,
    /// There are none, or only at times. A page may be lost; then it must be named.
    Missing,
    /// There are none, and the disk writes a whole page or nothing.
    NotNeeded,
}

impl Shape {
    /// Returns an empty disk for a database of this shape.
    #[must_use]
    pub fn disk(&self) -> vfs::mem::MemDisk {
        match self.doublewrite {
            Copies::NotNeeded => vfs::mem::MemDisk::with_sectors(self.page_bytes),
            Copies::On | Copies::Missing => vfs::mem::MemDisk::default(),
        }
    }

    /// Returns whether a recovery may fail with this error: it names a page that was torn without a
    /// copy.
    #[must_use]
    pub fn may_fail(&self, what: &str) -> bool {
        self.doublewrite == Copies::Missing
            && what.contains("may have been torn while the doublewrite was off")
    }
}

/// The shape of most workloads.
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
    doublewrite: Copies::On,
};

/// A kind of database.
pub trait Subject: Send + Sync + fmt::Debug {
    /// Opens the database in `dir` and recovers it; creates it if there is none.
    fn open(&self, vfs: &Vfs, dir: &Path, shape: &Shape) -> Result<Arc<dyn Database>>;

    /// Returns whether it is the engine. Some workloads demand more of the engine than of the toy.
    fn is_engine(&self) -> bool {
        false
    }
}

/// An open database. The last drop closes it.
pub trait Database: Send + Sync {
    /// Creates a table.
    fn create_table(&self, name: &str) -> Result;
    /// Creates a table with these rows, which are in key order, by a bulk load. Without `commit` it
    /// abandons the load before the last step.
    fn load_table(&self, name: &str, rows: &RowList, commit: bool) -> Result;
    /// Drops a table.
    fn drop_table(&self, name: &str) -> Result;
    /// Renames a table.
    fn rename_table(&self, from: &str, to: &str) -> Result;
    /// Makes changes of the set of tables, all or none. Only the engine does that.
    fn change_tables(&self, _changes: &[TableChange]) -> Result {
        only_the_engine()
    }
    /// Returns the metadata of a table.
    fn metadata(&self, _table: &str) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Takes a value of the counter of a table. Only the engine does that.
    fn take_number(&self, _table: &str) -> Result<u64> {
        only_the_engine()
    }
    /// Returns the next value of the counter of a table; `u64::MAX` if it has none.
    fn next_number(&self, _table: &str) -> Result<u64> {
        Ok(u64::MAX)
    }
    /// Returns the names of all tables.
    fn table_names(&self) -> Result<Vec<String>>;
    /// Begins a transaction.
    fn begin(&self, how: How) -> Result<Box<dyn Tx>>;
    /// Returns the names (xids) of the prepared transactions.
    fn prepared(&self) -> Result<Vec<Vec<u8>>>;
    /// Commits a prepared transaction.
    fn commit_prepared(&self, xid: &[u8]) -> Result;
    /// Rolls a prepared transaction back.
    fn rollback_prepared(&self, xid: &[u8]) -> Result;
    /// Returns the bookmark; empty: none.
    fn bookmark(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Writes all dirty pages and moves the checkpoint.
    fn checkpoint(&self) -> Result;
    /// Switches the doublewrite on or off. Only the engine does that.
    fn set_doublewrite(&self, _on: bool) -> Result {
        only_the_engine()
    }
    /// Moves the redo log to another directory. Only the engine does that.
    fn set_redo_dir(&self, _dir: &Path) -> Result {
        only_the_engine()
    }
    /// Moves the doublewrite to another directory. Only the engine does that.
    fn set_doublewrite_dir(&self, _dir: &Path) -> Result {
        only_the_engine()
    }
    /// Whether the log still needs the directory that it has left. Only the engine has one.
    fn redo_is_moving(&self) -> bool {
        false
    }
    /// Gives the buffer pool so many frames. Only the engine does that.
    fn set_frames(&self, _frames: usize) -> Result {
        only_the_engine()
    }
    /// Returns what is wrong with the pages and trees, a line each.
    fn check(&self) -> Result<Vec<String>>;
    /// Returns how many pages belong to a tree but cannot be reached from its root. `None` while
    /// background work makes that impossible to tell.
    fn unreachable(&self) -> Result<Option<u64>>;
    /// Returns the value of a metric.
    fn figure(&self, name: &str) -> u64;
    /// Closes the database.
    fn close(&self) -> Result;
}

/// A transaction. Dropping it rolls it back.
pub trait Tx: Send {
    /// Reads a row's value.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Locks a row and reads its newest value.
    fn get_for_update(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Inserts a row; an existing key is an error.
    fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result;
    /// Inserts or replaces a row.
    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result;
    /// Deletes a row. Returns whether there was one.
    fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool>;
    /// Reads all rows of a table.
    fn scan(&self, table: &str) -> Result<RowList>;
    /// Reads rows of a table whose keys are in `keys`, and locks them. Only the engine does that.
    fn lock_rows(&mut self, _table: &str, _keys: Range<&[u8]>, _how: LockRows) -> Result<RowList> {
        only_the_engine()
    }
    /// Changes several entries as one row: all or none. Returns the place of the insert that found
    /// its key, if there is one. Only the engine does that.
    fn change_row(&mut self, _changes: &[EntryChange]) -> Result<Option<usize>> {
        only_the_engine()
    }
    /// Says that the counter of a table is at least at this value. Only the engine does that.
    fn raise_counter(&mut self, _table: &str, _next: u64) -> Result {
        only_the_engine()
    }
    /// Begins a statement. Only the engine does that.
    fn begin_statement(&mut self) -> Result {
        only_the_engine()
    }
    /// Undoes the statement. Only the engine does that.
    fn rollback_statement(&mut self) -> Result {
        only_the_engine()
    }
    /// Sets a savepoint. Returns its number, counted from 0.
    fn savepoint(&mut self) -> usize;
    /// Undoes all changes since a savepoint.
    fn rollback_to(&mut self, savepoint: usize) -> Result;
    /// Commits. Returns the commit LSN.
    fn commit(self: Box<Self>) -> Result<u64>;
    /// Commits and waits on a future. Returns the commit LSN.
    fn commit_async(self: Box<Self>) -> Result<u64>;
    /// Rolls back.
    fn rollback(self: Box<Self>);
    /// Prepares the transaction under this name (two-phase commit). Its fate is decided later, also
    /// after a crash.
    fn prepare(self: Box<Self>, xid: &[u8]) -> Result;
    /// Prepares the transaction durably and keeps it for this session. Only the engine does that.
    fn prepare_held(self: Box<Self>, _xid: &[u8]) -> Result<Box<dyn Held>> {
        only_the_engine()
    }
    /// Commits with a bookmark. Returns the commit LSN. Only the engine does that.
    fn commit_with_bookmark(self: Box<Self>, _mark: &[u8], _durability: Durability) -> Result<u64> {
        only_the_engine()
    }
    /// Prepares the transaction for a coordinator that can make its changes again, and keeps it for
    /// this session. Only the engine does that.
    fn prepare_repeatable(self: Box<Self>, _xid: &[u8]) -> Result<Box<dyn Held>> {
        only_the_engine()
    }
}

/// A prepared transaction that its session holds. After it is dropped, any thread that
/// knows its name can decide it.
pub trait Held: Send {
    /// Commits without waiting. The coordinator has the commit on record.
    fn commit_ordered(&mut self) -> Result;
    /// As [`Held::commit_ordered`], with a bookmark.
    fn commit_ordered_at(&mut self, mark: &[u8]) -> Result;
    /// Commits, if that is not done, as durably as asked for. Returns the commit LSN.
    fn commit(self: Box<Self>, durability: Durability) -> Result<u64>;
    /// Rolls back, durably.
    fn rollback(self: Box<Self>) -> Result;
}
