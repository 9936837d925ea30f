//! LMDB by heed: a copy-on-write B+tree in a memory map, one writer at a time.
#![allow(unsafe_code)]

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Value, Write};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};
use std::ops::Bound;
use std::path::Path;

pub const KIND: PeerKind = PeerKind {
    name: "lmdb",
    package: "lmdb-master-sys",
    settings: "default flags; its cache is the operating system's and has no size; MDB_NOSYNC where nothing is synced; bulk: one transaction with MDB_APPEND",
    promise: "only MDB_NOSYNC makes that it does not \"flush system buffers to disk when committing a transaction\" (lmdb.h, \
              mdb_env_open)",
    promises_at_open: true,
    submits: false,
    open,
};

/// Address space, not memory or disk.
const MAP_BYTES: usize = 1 << 40;

struct Lmdb {
    env: Env,
    rows: Database<'static, Bytes, Bytes>,
}

struct Thread<'p>(&'p Lmdb);

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(256);
    if settings.promise == Promise::Unsynced {
        // SAFETY: the flag only reduces durability; the database is not used after a crash of the
        // machine.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the files are in a directory that this process has made and that no other process
    // changes; it is on a local file system, and no transaction lives longer than a call of
    // `Session`.
    let env = unsafe { options.open(dir) }?;
    let tx = env.write_txn()?;
    let rows = env
        .create_databases_and_commit(tx, |opener, tx| {
            opener.create_database::<Bytes, Bytes>(tx, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, rows }))
}

impl Peer for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread(self)))
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], _: Promise) -> Result {
        let mut tx = self.0.env.write_txn()?;
        for write in writes {
            match write {
                Write::Put(key, value) => self.0.rows.put(&mut tx, &key[..], value)?,
                Write::Delete(key) => {
                    self.0.rows.delete(&mut tx, &key[..])?;
                }
            }
        }
        Ok(tx.commit()?)
    }

    fn bulk(&mut self, rows: &mut dyn Iterator<Item = (Key, Value)>) -> Result {
        let mut tx = self.0.env.write_txn()?;
        for (key, value) in rows {
            self.0.rows.put_with_flags(&mut tx, PutFlags::APPEND, &key[..], &value[..])?;
        }
        Ok(tx.commit()?)
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        let tx = self.0.env.read_txn()?;
        for key in keys {
            if let Some(value) = self.0.rows.get(&tx, &key[..])? {
                seen(value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let tx = self.0.env.read_txn()?;
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        for row in self.0.rows.range(&tx, &range)?.take(rows) {
            let (key, value) = row?;
            seen(key, value);
        }
        Ok(())
    }
}
