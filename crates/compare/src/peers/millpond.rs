//! Millpond itself.

use crate::peer::{Key, Peer, PeerKind, Promise, Result, Session, Settings, Value, Write};
use millpond::{CommitFuture, Db, Durability, Options, Table, Transaction, TxnOptions};
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

pub const KIND: PeerKind = PeerKind {
    name: "millpond",
    package: "millpond",
    settings: "pool of the common size, everything else by default: pages of 8 KiB, O_DIRECT, doublewrite, \
               recovery in 10 s; reads in read-only transactions; bulk: Db::bulk_load",
    promise: "Durability::Sync: when commit returns the redo log is synced beyond the commit record (crate \
              documentation of Durability)",
    promises_at_open: false,
    submits: true,
    open,
};

struct Millpond {
    db: Db,
    table: Table,
}

struct Thread<'p> {
    peer: &'p Millpond,
    in_flight: VecDeque<CommitFuture>,
}

fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Peer>> {
    let db = Options::new().buffer_pool_bytes(settings.cache_bytes).open(dir)?;
    let table = match db.create_table("rows") {
        Err(millpond::Error::TableExists { .. }) => db.open_table("rows")?,
        made => made?,
    };
    Ok(Box::new(Millpond { db, table }))
}

impl Peer for Millpond {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread { peer: self, in_flight: VecDeque::new() }))
    }

    fn settle(&self) -> Result {
        Ok(self.db.checkpoint()?)
    }
}

impl Thread<'_> {
    fn write_once(&self, writes: &[Write<'_>], options: TxnOptions) -> millpond::Result<Transaction> {
        let mut tx = self.peer.db.begin_with(options)?;
        for write in writes {
            match write {
                Write::Put(key, value) => tx.put(&self.peer.table, key, value)?,
                Write::Delete(key) => {
                    tx.delete(&self.peer.table, key)?;
                }
            }
        }
        Ok(tx)
    }

    fn reader(&self) -> millpond::Result<Transaction> {
        self.peer.db.begin_with(TxnOptions::new().read_only(true))
    }
}

impl Session for Thread<'_> {
    fn write(&mut self, writes: &[Write<'_>], promise: Promise) -> Result {
        let durability = match promise {
            Promise::Durable => Durability::Sync,
            Promise::Unsynced => Durability::None,
        };
        let options = TxnOptions::new().durability(durability);
        loop {
            match self.write_once(writes, options).and_then(Transaction::commit) {
                Ok(_) => return Ok(()),
                // Transactions that lock the same rows in different orders: the victim begins
                // again.
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn bulk(&mut self, rows: &mut dyn Iterator<Item = (Key, Value)>) -> Result {
        self.peer.db.bulk_load("sorted", rows)?;
        Ok(())
    }

    fn get(&mut self, keys: &[Key], seen: &mut dyn FnMut(&[u8])) -> Result {
        let tx = self.reader()?;
        for key in keys {
            if let Some(value) = tx.get(&self.peer.table, key)? {
                seen(&value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, from: Key, rows: usize, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let mut left = rows;
        if left == 0 {
            return Ok(());
        }
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        self.reader()?.scan(&self.peer.table, range, |key, value| {
            seen(key, value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }

    fn submit(&mut self, key: Key, value: &[u8]) -> Result {
        let tx = self.write_once(&[Write::Put(key, value)], TxnOptions::new())?;
        self.in_flight.push_back(tx.commit_async()?);
        Ok(())
    }

    fn acknowledge(&mut self) -> Result {
        if let Some(oldest) = self.in_flight.pop_front() {
            oldest.wait()?;
        }
        Ok(())
    }
}
