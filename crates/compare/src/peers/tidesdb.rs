//! TidesDB: a log-structured merge tree in C.

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Write};
use std::path::Path;
use tidesdb::{ColumnFamilyConfig, Config, ErrorCode, IsolationLevel, LogLevel, SyncMode, TidesDB};

pub const KIND: PeerKind = PeerKind {
    name: "tidesdb",
    package: "tidesdb",
    settings: "block cache of the common size, SyncMode::Full (None where nothing is synced), bloom filters, no \
               compression, read committed; otherwise by default",
    promise: "SyncMode::Full: \"fsync every commit; slowest, no commit loss on crash\" (docs.rs/tidesdb, SyncMode)",
    promises_at_open: true,
    submits: false,
    open,
};

struct Tides(TidesDB);

struct Thread<'p> {
    db: &'p TidesDB,
    rows: tidesdb::ColumnFamily<'p>,
}

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let sync = if settings.promise == Promise::Durable { SyncMode::Full } else { SyncMode::None };
    let config = Config::new(dir)
        .block_cache_size(usize::try_from(settings.cache_bytes)?)
        .memtable_sync_mode(sync)
        .log_level(LogLevel::None);
    let db = TidesDB::open(config)?;
    if !db.list_column_families()?.iter().any(|name| name == "rows") {
        db.create_column_family("rows", ColumnFamilyConfig::new().enable_bloom_filter(true))?;
    }
    Ok(Box::new(Tides(db)))
}

impl Peer for Tides {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread { db: &self.0, rows: self.0.get_column_family("rows")? }))
    }

    fn settle(&self) -> Result {
        self.0.flush_memtable()?;
        let rows = self.0.get_column_family("rows")?;
        while self.0.is_flushing() || rows.is_compacting() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], _: Promise) -> Result {
        let mut tx = self.db.begin_transaction_with_isolation(IsolationLevel::ReadCommitted)?;
        for write in writes {
            match write {
                Write::Put(key, value) => tx.put(&self.rows, key, value)?,
                Write::Delete(key) => tx.delete(&self.rows, key)?,
            }
        }
        Ok(tx.commit()?)
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        let tx = self.db.begin_transaction_with_isolation(IsolationLevel::ReadCommitted)?;
        for key in keys {
            match tx.get(&self.rows, key) {
                Ok(value) => seen(&value),
                Err(error) if error.code() == Some(ErrorCode::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let tx = self.db.begin_transaction_with_isolation(IsolationLevel::ReadCommitted)?;
        let mut at = tx.new_iterator(&self.rows)?;
        at.seek(&from)?;
        for _ in 0..rows {
            if !at.is_valid() {
                break;
            }
            let (key, value) = at.key_value()?;
            seen(&key, &value);
            at.next()?;
        }
        Ok(())
    }
}
