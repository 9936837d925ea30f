//! Finds a transaction's stream by its id, for readers that follow an address from a page.

use super::fetch::{Access, Held};
use super::history::History;
use super::record::Record;
use super::stream::Stream;
use crate::page::Damage;
use base::TxnId;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

const SHARDS: usize = 16;

/// The streams of all transactions that are unfinished or not purged yet.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    shards: [Mutex<BTreeMap<TxnId, Arc<Stream>>>; SHARDS],
    memory: Arc<AtomicU64>,
}

/// Where the undo of every transaction is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo<'a> {
    pub(crate) streams: &'a Streams,
    pub(crate) history: &'a History,
}

impl Undo<'_> {
    /// Shows the record at `at` of `txn` to `look`, from memory or what is `held`.
    pub(crate) fn read<R>(
        &self,
        txn: TxnId,
        at: u64,
        held: &Held,
        look: impl FnOnce(&Record<'_>) -> R,
    ) -> Result<Access<R>, Damage> {
        if let Some(stream) = self.streams.get(txn) {
            return stream.read(at, held, look);
        }
        // A segment is known before its transactions' streams go.
        match self.history.piece_of(txn) {
            Some(piece) => held.record(piece, at, |record, _| look(record)),
            None => Err(Damage("the undo of a version is gone")),
        }
    }
}

impl Streams {
    /// Gives a transaction its stream, before its first change.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Stream> {
        let stream = Arc::new(Stream::new(txn, Arc::clone(&self.memory)));
        let before = self.shard(txn).insert(txn, Arc::clone(&stream));
        base::check!(before.is_none(), "{txn} has two undo streams");
        stream
    }

    /// A transaction's stream. `None`: it changed nothing, or nobody can need its undo any more.
    pub(crate) fn get(&self, txn: TxnId) -> Option<Arc<Stream>> {
        self.shard(txn).get(&txn).cloned()
    }

    /// Forgets a stream: its transaction is purged, or fully reverted. Who still reads it keeps it for so long.
    pub(crate) fn remove(&self, txn: TxnId) {
        self.shard(txn).remove(&txn);
    }

    /// All streams, in no order that means anything.
    pub(crate) fn list(&self) -> Vec<Arc<Stream>> {
        self.shards.iter().flat_map(|s| s.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Memory of all streams, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    fn shard(&self, txn: TxnId) -> MutexGuard<'_, BTreeMap<TxnId, Arc<Stream>>> {
        self.shards[txn.0 as usize % SHARDS].lock()
    }
}
