//! redb: copy-on-write B+trees in one file, one writer at a time.

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Write};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

pub const KIND: PeerKind = PeerKind {
    name: "redb",
    package: "redb",
    settings: "cache of the common size, Durability::Immediate, one-phase commit (the default)",
    promise: "Durability::Immediate: \"guaranteed to be persistent as soon as WriteTransaction::commit returns\" \
              (docs.rs/redb, Durability)",
    promises_at_open: false,
    submits: false,
    open,
};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

struct Redb(Database);

struct Thread<'p>(&'p Database);

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(settings.cache_bytes)?);
    let db = builder.create(dir.join("rows.redb"))?;
    let tx = db.begin_write()?;
    tx.open_table(ROWS)?;
    tx.commit()?;
    Ok(Box::new(Redb(db)))
}

impl Peer for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread(&self.0)))
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result {
        let mut tx = self.0.begin_write()?;
        tx.set_durability(match promise {
            Promise::Durable => Durability::Immediate,
            Promise::Unsynced => Durability::None,
        })?;
        {
            let mut rows = tx.open_table(ROWS)?;
            for write in writes {
                match write {
                    Write::Put(key, value) => drop(rows.insert(&key[..], value)?),
                    Write::Delete(key) => drop(rows.remove(&key[..])?),
                }
            }
        }
        Ok(tx.commit()?)
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        let rows = self.0.begin_read()?.open_table(ROWS)?;
        for key in keys {
            if let Some(value) = rows.get(&key[..])? {
                seen(value.value());
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let table = self.0.begin_read()?.open_table(ROWS)?;
        for row in table.range(&from[..]..)?.take(rows) {
            let (key, value) = row?;
            seen(key.value(), value.value());
        }
        Ok(())
    }
}
