//! RocksDB: a log-structured merge tree in C++.

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Write};
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch, WriteOptions};
use std::path::Path;
use std::time::Duration;

pub const KIND: PeerKind = PeerKind {
    name: "rocksdb",
    package: "librocksdb-sys",
    settings: "block cache of the common size, bloom filters of 10 bits a key, index and filters in memory, background \
               jobs for every core, WriteBatch with sync=true, no compression; otherwise by default",
    promise: "WriteOptions.sync: as \"a write() system call followed by fdatasync()\" (rocksdb/options.h)",
    promises_at_open: false,
    submits: false,
    open,
};

struct Rocks(DB);

struct Thread<'p>(&'p DB);

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(usize::try_from(settings.cache_bytes)?));
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    options.increase_parallelism(i32::try_from(cores)?);
    Ok(Box::new(Rocks(DB::open(&options, dir)?)))
}

impl Peer for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread(&self.0)))
    }

    fn settle(&self) -> Result {
        self.0.flush()?;
        loop {
            let number = |name| self.0.property_int_value(name).map(|n| n.unwrap_or(0));
            if number("rocksdb.compaction-pending")? + number("rocksdb.num-running-compactions")? == 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result {
        let mut batch = WriteBatch::default();
        for write in writes {
            match write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(promise == Promise::Durable);
        Ok(self.0.write_opt(batch, &options)?)
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        // Its fastest read: the value stays in the block, and no snapshot is taken.
        for key in keys {
            if let Some(value) = self.0.get_pinned(key)? {
                seen(&value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let mut at = self.0.raw_iterator();
        at.seek(from);
        for _ in 0..rows {
            let Some((key, value)) = at.item() else { break };
            seen(key, value);
            at.next();
        }
        Ok(at.status()?)
    }
}
