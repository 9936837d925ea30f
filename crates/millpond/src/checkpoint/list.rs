//! The list of unfinished transactions of a checkpoint, as it is written in the log.
//!
//! ```text
//! next transaction u48 · next tree u32 · files varint { number u32, length u64 }
//!   · transactions varint { id u48 · state u8 · hardened u40
//!                           · LSN u64 (committed only) · xid prefixed (prepared only) }
//!   · history batches varint { file u32 · from u64 · to u64 · transactions varint }
//!   · counters varint { tree u32 · next value varint } · bookmark
//! ```
//! The bookmark takes the rest. The list is written in parts (`parts`).

use super::parts;
use base::codec::{Put, Reader, Truncated};
use base::{Lsn, TreeId, TxnId};

pub(crate) const ACTIVE: u8 = 1;
pub(crate) const PREPARED: u8 = 2;
pub(crate) const ABORTED: u8 = 3;
pub(crate) const COMMITTED: u8 = 4;

/// The state of a listed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Neither ended nor prepared.
    Active,
    /// Prepared, with this id of the outside coordinator.
    Prepared(Vec<u8>),
    /// Aborted, and not wholly reverted.
    Aborted,
    /// Committed at this LSN, and not yet purged.
    Committed(Lsn),
}

impl Stage {
    /// Returns the byte that encodes it.
    pub(crate) fn tag(&self) -> u8 {
        match self {
            Stage::Active => ACTIVE,
            Stage::Prepared(_) => PREPARED,
            Stage::Aborted => ABORTED,
            Stage::Committed(_) => COMMITTED,
        }
    }
}

/// An unfinished transaction in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its id.
    pub(crate) txn: TxnId,
    /// Its state.
    pub(crate) stage: Stage,
    /// Its undo is in the undo files up to this address.
    pub(crate) hardened: u64,
}

/// Everything that a checkpoint stores about transactions.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct List {
    /// Transaction ids at or above this have not been used.
    pub(crate) next_txn: TxnId,
    /// Tree ids at or above this have not been used.
    pub(crate) next_tree: TreeId,
    /// The undo files in use, and their lengths.
    pub(crate) files: Vec<(u32, u64)>,
    /// The unfinished transactions.
    pub(crate) txns: Vec<Listed>,
    /// History batches that are not wholly purged.
    pub(crate) history_batches: Vec<ListedBatches>,
    /// The counters of tables that are not 0.
    pub(crate) counters: Vec<(TreeId, u64)>,
    /// The program's bookmark; empty: none.
    pub(crate) bookmark: Vec<u8>,
}

/// Consecutive history batches in an undo file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedBatches {
    /// The number of the file.
    pub(crate) file: u32,
    /// Where the first batch begins.
    pub(crate) from: u64,
    /// Where the last batch ends.
    pub(crate) to: u64,
    /// How many transactions are in them.
    pub(crate) txns: u64,
}

impl List {
    /// Encodes the list in parts, each for one record.
    pub(crate) fn encode(&self, sequence: u64) -> Vec<Vec<u8>> {
        let mut body = Vec::new();
        body.put_u48(self.next_txn.0);
        body.put_u32(self.next_tree.0);
        body.put_varint(self.files.len() as u64);
        for &(number, len) in &self.files {
            body.put_u32(number);
            body.put_u64(len);
        }
        body.put_varint(self.txns.len() as u64);
        for listed in &self.txns {
            body.put_u48(listed.txn.0);
            body.put_u8(listed.stage.tag());
            body.put_u40(listed.hardened);
            match &listed.stage {
                Stage::Prepared(xid) => body.put_prefixed(xid),
                Stage::Committed(lsn) => body.put_u64(lsn.0),
                Stage::Active | Stage::Aborted => {}
            }
        }
        body.put_varint(self.history_batches.len() as u64);
        for listed in &self.history_batches {
            body.put_u32(listed.file);
            body.put_u64(listed.from);
            body.put_u64(listed.to);
            body.put_varint(listed.txns);
        }
        body.put_varint(self.counters.len() as u64);
        for &(tree, next) in &self.counters {
            body.put_u32(tree.0);
            body.put_varint(next);
        }
        body.extend_from_slice(&self.bookmark);
        base::verify!(List::decode(&body).is_ok_and(|list| list == *self), "the list is not read back");
        parts::divide(&body, sequence)
    }

    /// Decodes a list whose parts were put together.
    pub(crate) fn decode(body: &[u8]) -> Result<List, Truncated> {
        let mut r = Reader::new(body);
        let (next_txn, next_tree) = (TxnId(r.u48()?), TreeId(r.u32()?));
        let mut files = Vec::new();
        for _ in 0..r.varint()? {
            files.push((r.u32()?, r.u64()?));
        }
        let mut txns = Vec::new();
        for _ in 0..r.varint()? {
            let (txn, state, hardened) = (TxnId(r.u48()?), r.u8()?, r.u40()?);
            let stage = match state {
                ACTIVE => Stage::Active,
                PREPARED => Stage::Prepared(r.prefixed()?.to_vec()),
                ABORTED => Stage::Aborted,
                COMMITTED => Stage::Committed(Lsn(r.u64()?)),
                _ => return Err(Truncated),
            };
            txns.push(Listed { txn, stage, hardened });
        }
        let mut history_batches = Vec::new();
        for _ in 0..r.varint()? {
            history_batches.push(ListedBatches {
                file: r.u32()?,
                from: r.u64()?,
                to: r.u64()?,
                txns: r.varint()?,
            });
        }
        let mut counters = Vec::new();
        for _ in 0..r.varint()? {
            counters.push((TreeId(r.u32()?), r.varint()?));
        }
        let bookmark = r.rest().to_vec();
        Ok(List { next_txn, next_tree, files, txns, history_batches, counters, bookmark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::parts::Collector;

    fn list(n: u64) -> List {
        let stage = |i| match i % 4 {
            0 => Stage::Active,
            1 => Stage::Prepared(vec![b'x'; (i % 60) as usize + 1]),
            2 => Stage::Aborted,
            _ => Stage::Committed(Lsn(i * 1000)),
        };
        List {
            next_txn: TxnId(n + 5),
            next_tree: TreeId(12),
            files: (0..n as u32 / 10).map(|i| (i + 1, u64::from(i) * 4096)).collect(),
            txns: (0..n).map(|i| Listed { txn: TxnId(i + 1), stage: stage(i), hardened: i * 77 }).collect(),
            history_batches: (0..n % 7)
                .map(|i| ListedBatches { file: 3, from: i * 4096, to: i * 4096 + 4096, txns: i * 1000 })
                .collect(),
            counters: (0..n % 5).map(|i| (TreeId(i as u32 + 3), i * 1_000_000 + 1)).collect(),
            bookmark: vec![b'm'; (n % 4) as usize],
        }
    }

    #[test]
    fn a_list_of_any_length_is_assembled_among_parts_of_others() {
        for n in [0, 1, 30, 5000] {
            let (mine, other) = (list(n).encode(7), list(3).encode(8));
            assert_eq!(mine.len() > 1, n == 5000);
            let mut collector = Collector::default();
            let mut got = None;
            for part in &mine {
                assert_eq!(got, None);
                got = collector.push(part).unwrap();
                if got.is_none() {
                    assert_eq!(collector.push(&other[0]).unwrap(), None);
                }
            }
            assert_eq!(List::decode(&got.unwrap()), Ok(list(n)));
        }
    }

    #[test]
    fn missing_and_cut_parts_are_errors() {
        let parts = list(5000).encode(7);
        assert!(Collector::default().push(&parts[1]).is_err());
        let one = list(9).encode(7).remove(0);
        // The bookmark has no length of its own.
        for len in 12..one.len() - list(9).bookmark.len() {
            let body = Collector::default().push(&one[..len]).unwrap().unwrap();
            assert!(List::decode(&body).is_err(), "{len}");
        }
    }
}
