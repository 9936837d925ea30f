//! What a peer (an engine in the comparison) must do: [`Peer`] is an open database, [`Session`] the
//! operations of one thread.

use crate::random::VALUE_BYTES;
use std::path::Path;

/// Any error of a peer; shown as it is.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of a call on a peer.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// A key: 8 bytes, big-endian, so keys sort like numbers.
pub type Key = [u8; 8];

/// The value of a row.
pub type Value = [u8; VALUE_BYTES];

/// Rows of a transaction of the load.
pub const LOAD_BATCH: u64 = 10_000;

/// Returns the key of row `n`.
pub fn key(n: u64) -> Key {
    n.to_be_bytes()
}

/// A change of a row.
#[derive(Clone, Copy, Debug)]
pub enum Write<'v> {
    /// Inserts the row or replaces its value.
    Put(Key, &'v [u8]),
    /// Deletes the row.
    Delete(Key),
}

/// What a commit promises when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The change survives a power cut.
    Durable,
    /// The change is visible to others; it survives at least as long as the process.
    Unsynced,
}

/// Settings that are the same for all peers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of memory for pages or blocks.
    pub cache_bytes: u64,
    /// What commits promise; only for peers that choose this when the database is opened.
    pub promise: Promise,
}

/// An open database.
pub trait Peer: Send + Sync {
    /// Returns a session for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Waits for background work after a load, if the peer has a call for that.
    fn settle(&self) -> Result {
        Ok(())
    }
}

/// The operations of one thread on a database.
pub trait Session {
    /// Makes all changes or none.
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result;

    /// Calls `seen` with the value of each key that has a row, in one snapshot if the peer has
    /// snapshots.
    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result;

    /// Calls `seen` with up to `rows` rows in key order, beginning at `from`.
    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result;

    /// Fills an empty database with rows in key order; they are durable when it returns. Uses the
    /// peer's bulk load, or else transactions of [`LOAD_BATCH`] rows.
    fn bulk(&mut self, rows: &mut dyn Iterator<Item = (Key, Value)>) -> Result {
        loop {
            let batch: Vec<_> = rows.take(LOAD_BATCH as usize).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let writes: Vec<_> = batch.iter().map(|(key, value)| Write::Put(*key, value)).collect();
            self.write(&writes, Promise::Durable)?;
        }
    }

    /// Writes one row durably and does not wait for the commit.
    fn submit(&mut self, _: Key, _: &[u8]) -> Result {
        Err("commits cannot be left in flight".into())
    }

    /// Waits for the oldest submitted commit.
    fn acknowledge(&mut self) -> Result {
        Err("commits cannot be left in flight".into())
    }
}

/// An engine that is built in.
#[derive(Debug)]
pub struct PeerKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its crate, as named in Cargo.lock.
    pub package: &'static str,
    /// How it is set up.
    pub settings: &'static str,
    /// What its durable commit promises, according to its documentation.
    pub promise: &'static str,
    /// Its [`Promise`] is chosen when the database is opened.
    pub promises_at_open: bool,
    /// It can have commits in flight.
    pub submits: bool,
    /// Opens or creates a database in its own directory.
    pub open: fn(&Path, &Settings) -> Result<Box<dyn Peer>>,
}
