//! Finds a transaction's undo stream by its id, for readers that follow an address from a page.

use super::fetch::{HeldPiece, UndoAccess};
use super::history_batches::HistoryBatches;
use super::record::UndoRecord;
use super::spares::Spares;
use super::stream::Stream;
use crate::page::Damage;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{ByTxn, TxnId};
use std::sync::Arc;

/// The streams of all transactions that are unfinished or not purged yet, unless history batches
/// have them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: ByTxn<Arc<Stream>>,
    memory: Arc<AtomicU64>,
    spares: Spares,
}

/// All undo: where the records of any transaction are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoSource<'a> {
    pub(crate) streams: &'a Streams,
    pub(crate) history_batches: &'a HistoryBatches,
}

impl UndoSource<'_> {
    /// Shows `look` the record at `at` of `txn`, from memory or from the held piece.
    pub(crate) fn read<R>(
        &self,
        txn: TxnId,
        at: u64,
        held: &HeldPiece,
        look: impl FnOnce(&UndoRecord<'_>) -> R,
    ) -> Result<UndoAccess<R>, Damage> {
        if let Some(stream) = self.streams.get(txn) {
            return stream.read(at, held, look);
        }
        // A history batch is registered before the streams of its transactions are removed.
        match self.history_batches.piece_of(txn) {
            Some(piece) => held.record(piece, at, |record, _| look(record)),
            None => Err(Damage("the undo of a version is gone")),
        }
    }
}

impl Streams {
    /// Prefetches the memory that [`Streams::begin`] will need.
    #[inline]
    pub(crate) fn prefetch(&self, txn: TxnId) {
        self.all.prefetch(txn);
    }

    /// Creates the stream of a transaction, before its first change.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Stream> {
        let stream = self.spares.take().map(|mut spare| {
            Arc::get_mut(&mut spare).expect("no one else has a spare").begin(txn);
            spare
        });
        let stream = stream.unwrap_or_else(|| Arc::new(Stream::new(txn, Arc::clone(&self.memory))));
        let before = self.all.insert(txn, Arc::clone(&stream));
        base::check!(before.is_none(), "{txn} has two undo streams");
        stream
    }

    /// Returns a transaction's stream. `None`: it changed nothing, or no reader can need its undo
    /// any more.
    pub(crate) fn get(&self, txn: TxnId) -> Option<Arc<Stream>> {
        self.all.get(txn)
    }

    /// Removes a stream: its transaction is purged, or fully reverted. A reader that still has it
    /// may go on.
    pub(crate) fn remove(&self, txn: TxnId) {
        self.all.remove(txn);
    }

    /// Takes back removed streams, to be used again by any thread. Returns how much memory that
    /// frees.
    pub(crate) fn give_back(&self, streams: impl IntoIterator<Item = Arc<Stream>>) -> u64 {
        let counted = self.spares.give(streams);
        self.memory.fetch_sub(counted, Ordering::Relaxed);
        counted
    }

    /// Takes back a removed stream, for the next transaction of the caller's stripe.
    pub(crate) fn give_back_here(&self, stream: Arc<Stream>) {
        self.memory.fetch_sub(self.spares.give_here(stream), Ordering::Relaxed);
    }

    /// Returns all streams, in no particular order.
    pub(crate) fn list(&self) -> Vec<Arc<Stream>> {
        self.all.list()
    }

    /// Returns the memory of all streams, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Returns the number of streams.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
