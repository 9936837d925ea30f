//! SQLite by rusqlite: a B-tree with its WAL in another file, one writer at a time.

use crate::peer::{Error, Key, Peer, PeerKind, Promise, Result, Session, Settings, Write};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub const KIND: PeerKind = PeerKind {
    name: "sqlite",
    package: "libsqlite3-sys",
    settings: "WAL, synchronous=FULL (NORMAL where nothing is synced), a connection with a cache of the common size for \
               each thread, one mutex before the one writer that it allows; the key is its INTEGER PRIMARY KEY",
    promise: "with synchronous=FULL writers sync the WAL on every commit (sqlite.org/wal.html), with NORMAL only at \
              checkpoints",
    promises_at_open: false,
    submits: false,
    open,
};

struct Sqlite {
    file: PathBuf,
    cache_bytes: u64,
    /// SQLite lets one connection write at a time, and the others must retry. Waiting for this
    /// mutex is faster.
    writing: Mutex<()>,
}

struct Thread<'p> {
    peer: &'p Sqlite,
    connection: Connection,
    promise: Promise,
}

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let file = dir.join("rows.sqlite");
    let connection = Connection::open(&file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection
        .execute("CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, value BLOB NOT NULL)", ())?;
    Ok(Box::new(Sqlite { file, cache_bytes: settings.cache_bytes, writing: Mutex::new(()) }))
}

/// SQLite's integers are signed; the keys of a run are too small for this to matter.
fn number(key: Key) -> i64 {
    i64::from_be_bytes(key)
}

impl Sqlite {
    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.file)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.pragma_update(None, "cache_size", -i64::try_from(self.cache_bytes / 1024)?)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }
}

impl Peer for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread { peer: self, connection: self.connect()?, promise: Promise::Durable }))
    }

    fn settle(&self) -> Result {
        self.connect()?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        Ok(())
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result {
        if promise != self.promise {
            let level = if promise == Promise::Durable { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.promise = promise;
        }
        let _writing = self.peer.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = &self.connection;
        sql.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        for write in writes {
            match write {
                Write::Put(key, value) => sql
                    .prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?
                    .execute((number(*key), value))?,
                Write::Delete(key) => {
                    sql.prepare_cached("DELETE FROM rows WHERE key = ?1")?.execute((number(*key),))?
                }
            };
        }
        sql.prepare_cached("COMMIT")?.execute(())?;
        Ok(())
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        let sql = &self.connection;
        // A single statement is its own transaction.
        let together = keys.len() > 1;
        if together {
            sql.prepare_cached("BEGIN")?.execute(())?;
        }
        let mut read = sql.prepare_cached("SELECT value FROM rows WHERE key = ?1")?;
        for key in keys {
            let mut found = read.query((number(*key),))?;
            if let Some(row) = found.next()? {
                seen(row.get_ref(0)?.as_blob()?);
            }
        }
        if together {
            sql.prepare_cached("COMMIT")?.execute(())?;
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let sql = "SELECT key, value FROM rows WHERE key >= ?1 ORDER BY key LIMIT ?2";
        let mut read = self.connection.prepare_cached(sql)?;
        let mut found = read.query((number(from), i64::try_from(rows)?))?;
        while let Some(row) = found.next()? {
            let key: i64 = row.get(0)?;
            seen(&key.to_be_bytes(), row.get_ref(1)?.as_blob().map_err(Error::from)?);
        }
        Ok(())
    }
}
