//! What a checkpoint does for unfinished transactions: copies the undo that redo below the checkpoint could have rebuilt to
//! the undo files, then lists in the log who they are (INV-16).

use super::system::Txns;
use crate::checkpoint::list::{List, Listed, Stage};
use crate::checkpoint::{Hardened, Unfinished};
use crate::error::Result;
use crate::log::group::Record;
use crate::mvcc::State;
use crate::planted::{Bug, planted};
use crate::undo::journal::Chunk;
use base::{Lsn, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// Undo bytes that one batch takes at most, about.
const BATCH_BYTES: usize = 4 << 20;

impl Txns {
    /// How a transaction with undo stands for a checkpoint. `None`: what it left behind needs no undo after a crash.
    fn stage_of(&self, txn: TxnId, xids: &BTreeMap<TxnId, Vec<u8>>, needs_purge: bool) -> Option<Stage> {
        match self.status.state(txn) {
            // Who is deciding has its commit record above the checkpoint, where recovery finds it.
            State::Active | State::Committing => Some(Stage::Active),
            State::Prepared => Some(match xids.get(&txn) {
                Some(xid) => Stage::Prepared(xid.clone()),
                // It is just being decided, or just becoming prepared: the record of that lies above the checkpoint.
                None => Stage::Active,
            }),
            State::Aborted => Some(Stage::Aborted),
            State::Committed(lsn) => needs_purge.then_some(Stage::Committed(lsn)),
            State::Settled => None,
        }
    }
}

impl Unfinished for Txns {
    fn harden(&self, sequence: u64) -> Result<Hardened> {
        let xids: BTreeMap<TxnId, Vec<u8>> =
            self.prepared.lock().iter().map(|(xid, p)| (p.owner.txn(), xid.clone())).collect();
        // First the ids: whoever begins from here on has all its redo above the checkpoint.
        let mut list = List { next_txn: self.status.next(), next_tree: self.next_tree(), ..List::default() };
        let mut journal = self.journal.lock();
        let mut streams = Vec::new();
        for stream in self.streams.list() {
            if !stream.is_empty()
                && let Some(stage) = self.stage_of(stream.owner(), &xids, stream.needs_purge())
            {
                streams.push((stream, stage));
            }
        }
        for (txn, xid) in &xids {
            if self.status.state(*txn) == State::Prepared && !streams.iter().any(|(s, _)| s.owner() == *txn) {
                let stage = Stage::Prepared(xid.clone());
                list.txns.push(Listed { txn: *txn, stage, hardened: 0 });
            }
        }
        let owners: BTreeSet<TxnId> = streams.iter().map(|(stream, _)| stream.owner()).collect();
        journal.retain(&owners);
        let (mut chunks, mut gathered) = (Vec::new(), 0);
        for (stream, stage) in streams {
            let txn = stream.owner();
            let mut from = journal.hardened(txn);
            let end = if planted(Bug::NoHardening) { from } else { stream.end() };
            while from < end {
                let mut bytes = Vec::new();
                let to = stream.copy(from, BATCH_BYTES, &mut bytes);
                gathered += bytes.len();
                chunks.push(Chunk { txn, from, bytes });
                from = to;
                if gathered >= BATCH_BYTES {
                    journal.append(&std::mem::take(&mut chunks))?;
                    gathered = 0;
                }
            }
            list.txns.push(Listed { txn, stage, hardened: from });
        }
        journal.append(&chunks)?;
        list.files = journal.files();
        if planted(Bug::UnlistedLosers) {
            list.txns.clear();
        }
        drop(journal);
        let parts = list.encode(sequence);
        let mut hardened = Hardened { first: Lsn::MAX, last: Lsn::ZERO, listed: list.txns };
        for part in parts {
            self.store.log.make_room()?;
            let lsn = self.log_record(&Record::Checkpoint { body: &part }, |_| {});
            hardened.first = hardened.first.min(lsn);
            hardened.last = lsn;
        }
        Ok(hardened)
    }

    fn root_is_durable(&self) -> Result {
        self.journal.lock().remove_retired()
    }
}
