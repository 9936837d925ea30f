//! Finds a transaction's stream by its id, for readers that follow an address from a page.

use super::fetch::{HeldPiece, UndoAccess};
use super::history::History;
use super::record::UndoRecord;
use super::spares::Spares;
use super::stream::Stream;
use crate::page::Damage;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{ByTxn, TxnId};
use std::sync::Arc;

/// The streams of all transactions that are unfinished or not purged yet.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: ByTxn<Arc<Stream>>,
    memory: Arc<AtomicU64>,
    spares: Spares,
}

/// Where the undo of every transaction is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoSource<'a> {
    pub(crate) streams: &'a Streams,
    pub(crate) history: &'a History,
}

impl UndoSource<'_> {
    /// Shows the record at `at` of `txn` to `look`, from memory or what is `held`.
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
        // A segment is known before its transactions' streams go.
        match self.history.piece_of(txn) {
            Some(piece) => held.record(piece, at, |record, _| look(record)),
            None => Err(Damage("the undo of a version is gone")),
        }
    }
}

impl Streams {
    /// Asks the processor for what [`Streams::begin`] will want.
    #[inline]
    pub(crate) fn prefetch(&self, txn: TxnId) {
        self.all.prefetch(txn);
    }

    /// Gives a transaction its stream, before its first change.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Stream> {
        let stream = self.spares.take().map(|mut spare| {
            Arc::get_mut(&mut spare).expect("a spare is nobody's").begin(txn);
            spare
        });
        let stream = stream.unwrap_or_else(|| Arc::new(Stream::new(txn, Arc::clone(&self.memory))));
        let before = self.all.insert(txn, Arc::clone(&stream));
        base::check!(before.is_none(), "{txn} has two undo streams");
        stream
    }

    /// A transaction's stream. `None`: it changed nothing, or nobody can need its undo any more.
    pub(crate) fn get(&self, txn: TxnId) -> Option<Arc<Stream>> {
        self.all.get(txn)
    }

    /// Forgets a stream: its transaction is purged, or fully reverted. Who still reads it keeps it for so long.
    pub(crate) fn remove(&self, txn: TxnId) {
        self.all.remove(txn);
    }

    /// Takes back streams that were removed, for whoever needs one. How much memory that gives back.
    pub(crate) fn give_back(&self, streams: impl IntoIterator<Item = Arc<Stream>>) -> u64 {
        let counted = self.spares.give(streams);
        self.memory.fetch_sub(counted, Ordering::Relaxed);
        counted
    }

    /// Takes back a stream that was removed, for the caller's own next transaction.
    pub(crate) fn give_back_here(&self, stream: Arc<Stream>) {
        self.memory.fetch_sub(self.spares.give_here(stream), Ordering::Relaxed);
    }

    /// All streams, in no order that means anything.
    pub(crate) fn list(&self) -> Vec<Arc<Stream>> {
        self.all.list()
    }

    /// Memory of all streams, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
