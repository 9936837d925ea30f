//! fjall: a log-structured merge tree in Rust.

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Write};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use std::path::Path;

pub const KIND: PeerKind = PeerKind {
    name: "fjall",
    package: "fjall",
    settings: "cache of the common size, batches with PersistMode::SyncData, no compression; otherwise by default",
    promise: "PersistMode::SyncData \"flushes data using fdatasync\" (docs.rs/fjall, PersistMode); without it \"any operation \
              will flush to OS buffers, but not to disk\" (its README)",
    promises_at_open: false,
    submits: false,
    open,
};

struct Fjall {
    db: Database,
    rows: Keyspace,
}

struct Thread<'p>(&'p Fjall);

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let db = Database::builder(dir).cache_size(settings.cache_bytes).open()?;
    let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { db, rows }))
}

impl Peer for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread(self)))
    }

    fn settle(&self) -> Result {
        self.rows.rotate_memtable_and_wait()?;
        Ok(())
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result {
        let mut batch = self.0.db.batch().durability(match promise {
            Promise::Durable => Some(PersistMode::SyncData),
            Promise::Unsynced => None,
        });
        for write in writes {
            match write {
                Write::Put(key, value) => batch.insert(&self.0.rows, &key[..], *value),
                Write::Delete(key) => batch.remove(&self.0.rows, &key[..]),
            }
        }
        Ok(batch.commit()?)
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        if let [key] = keys {
            // A single read needs no snapshot.
            if let Some(value) = self.0.rows.get(key)? {
                seen(&value);
            }
            return Ok(());
        }
        let moment = self.0.db.snapshot();
        for key in keys {
            if let Some(value) = moment.get(&self.0.rows, key)? {
                seen(&value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        for row in self.0.rows.range(from..).take(rows) {
            let (key, value) = row.into_inner()?;
            seen(&key, &value);
        }
        Ok(())
    }
}
