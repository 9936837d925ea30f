//! What a peer must be able to do, and nothing else: [`Peer`] is an open database, [`Session`] what one thread does in it.

use crate::random::VALUE_BYTES;
use crate::work::LOAD_BATCH;
use std::path::Path;

/// Whatever went wrong in a peer; shown as it is.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of a call on a peer.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Keys are 8 bytes, big-endian, so that they sort as numbers.
pub type Key = [u8; 8];

/// What a row holds.
pub type Value = [u8; VALUE_BYTES];

/// The key of row `n`.
pub fn key(n: u64) -> Key {
    n.to_be_bytes()
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub enum Write<'v> {
    /// Inserts the row or replaces its value.
    Put(Key, &'v [u8]),
    /// Removes the row.
    Delete(Key),
}

/// What a commit promises when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The change survives a power cut.
    Durable,
    /// The change is seen by others and survives as long as the process.
    Unsynced,
}

/// Choices that all peers get alike.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of memory for pages or blocks.
    pub cache_bytes: u64,
    /// What commits will ask for, for peers where that is chosen when the database is opened.
    pub promise: Promise,
}

/// An open database.
pub trait Peer: Send + Sync {
    /// What one thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Finishes what a load left to do in the background, as far as the peer lets itself be asked.
    fn settle(&self) -> Result {
        Ok(())
    }
}

/// One thread's way into a database.
pub trait Session {
    /// Makes all changes or none.
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result;

    /// Shows the value of each key that has a row, all of one moment where the peer has such a thing.
    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result;

    /// Shows up to `rows` rows in key order, from `from` on.
    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result;

    /// Fills an empty database with rows in key order, durable when it returns: by the way that the peer has for that, or else
    /// in transactions of [`LOAD_BATCH`].
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

    /// Begins to commit one row durably and does not wait.
    fn submit(&mut self, _: Key, _: &[u8]) -> Result {
        Err("commits cannot be left in flight".into())
    }

    /// Waits for the oldest commit that was submitted.
    fn acknowledge(&mut self) -> Result {
        Err("commits cannot be left in flight".into())
    }
}

/// A kind of database that was built in.
#[derive(Debug)]
pub struct Kind {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The crate that it comes from, as Cargo.lock has it.
    pub package: &'static str,
    /// How it is set up.
    pub settings: &'static str,
    /// What its durable commit promises, by its own documentation.
    pub promise: &'static str,
    /// What [`Promise`] its commits make is chosen when the database is opened.
    pub promises_at_open: bool,
    /// Commits can be left in flight.
    pub submits: bool,
    /// Opens or creates a database in a directory of its own.
    pub open: fn(&Path, &Settings) -> Result<Box<dyn Peer>>,
}
