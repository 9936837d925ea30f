//! The transaction table (as in ARIES): the state of every transaction at a position of the log,
//! and which extents were freed since the segment began. It is computed from the records alone, and
//! written to a segment's digest beside the pages (Lo7).
//!
//! The table begins with a checkpoint's list and processes every group from the checkpoint on:
//! first while recovery reads the log, then while segments are digested. So at any position it
//! knows what `Rebuild` would know after reading up to there, except undo. If the records behind
//! that position are processed by the same rules, the result is the transactions at the log's end.
//! For a transaction that the list called unfinished, the table does not know whether a commit
//! leaves something to purge. It assumes so; purging without need does no harm.
//!
//! ```text
//! section 1, transactions, ascending:
//!   varint id - id before
//!   stage u8 (of a checkpoint's list, or 5: prepared, without undo)
//!   varint next LSN - last LSN
//!   xid prefixed (prepared only)
//! section 2, freed extents, ascending:
//!   varint number - number before
//!   varint next LSN - LSN
//! ```
//! The next LSN is the digest's. A distance of 0 says that the LSN is below the checkpoint whose
//! list was the beginning. The last LSN of a committed transaction is its commit LSN. An extent's
//! LSN is that of the last group that freed it: no redo of its pages below that counts any more.

use crate::checkpoint::list::{ABORTED, ACTIVE, COMMITTED, Listed, PREPARED, Stage};
use crate::log::digest::{DigestSource, Section};
use crate::log::group::{Record, Records, ids};
use crate::page::map::EXTENT_PAGES;
use crate::page::op::PageOp;
use crate::undo::{LeftToPurge, UndoEntry, decode_rewind};
use base::codec::{Put, Reader, Truncated};
use base::{Lsn, PageNo, TxnId};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

/// The section of the states of transactions.
pub(crate) const TRANSACTIONS: u8 = 1;
/// In place of a stage: prepared, and nothing is to be undone.
const PREPARED_IDLE: u8 = 5;
/// The section of freed extents.
pub(crate) const FREED: u8 = 2;

/// The state of one transaction.
#[derive(Debug)]
struct TxnEntry {
    stage: Stage,
    /// The LSN of the last group that names it; zero if that is below the beginning.
    last: Lsn,
    has_undo: bool,
    purge: LeftToPurge,
}

/// The states of all transactions at a position of the log.
#[derive(Debug, Default)]
pub(crate) struct TxnTable {
    txns: BTreeMap<TxnId, TxnEntry>,
    /// Extents freed since the segment began, by number.
    freed: BTreeMap<u32, Lsn>,
    /// Groups below this LSN have been processed.
    next: Lsn,
}

impl TxnTable {
    /// Begins with the list of a checkpoint. The groups from the checkpoint on must follow.
    pub(crate) fn begin(listed: &[Listed], checkpoint: Lsn) -> TxnTable {
        let entry = |listed: &Listed| TxnEntry {
            stage: match listed.stage {
                // The commit record follows.
                Stage::Committed(lsn) if lsn >= checkpoint => Stage::Active,
                _ => listed.stage.clone(),
            },
            last: match listed.stage {
                Stage::Committed(lsn) if lsn < checkpoint => lsn,
                _ => Lsn::ZERO,
            },
            has_undo: listed.hardened > 0,
            purge: if listed.hardened > 0 { LeftToPurge::unknown() } else { LeftToPurge::default() },
        };
        let txns = listed.iter().map(|listed| (listed.txn, entry(listed))).collect();
        TxnTable { txns, freed: BTreeMap::new(), next: checkpoint }
    }

    /// The log ended here in a crash or a close: active transactions are aborted.
    pub(crate) fn cut_off(&mut self) {
        for entry in self.txns.values_mut().filter(|entry| entry.stage == Stage::Active) {
            entry.stage = Stage::Aborted;
        }
        self.freed.clear();
    }

    /// Processes a group, and shows `each` its page changes. A group that was processed before is
    /// only shown.
    pub(crate) fn group(
        &mut self,
        lsn: Lsn,
        records: &[u8],
        each: &mut dyn FnMut(PageNo, &PageOp<'_>),
    ) -> Result<(), Truncated> {
        let new = lsn >= self.next;
        self.next = self.next.max(lsn.plus(1));
        for record in Records::new(records) {
            let record = record?;
            let op = match record {
                Record::Page { page, op, .. } => {
                    let op = PageOp::decode(op)?;
                    each(page, &op);
                    Some(op)
                }
                _ => None,
            };
            if new {
                self.record(lsn, &record, op.as_ref())?;
            }
        }
        Ok(())
    }

    /// Processes one record; `op` is the change of a page record.
    pub(super) fn record(
        &mut self,
        lsn: Lsn,
        record: &Record<'_>,
        op: Option<&PageOp<'_>>,
    ) -> Result<(), Truncated> {
        match (*record, op) {
            (Record::Page { .. }, Some(PageOp::Row(row))) => {
                self.undo(lsn, row.version.txn, row.version.undo_at, &UndoEntry::of(row));
            }
            (Record::Page { page, .. }, Some(&PageOp::InitOverflow { tree, owner, head: true, .. })) => {
                self.undo(lsn, owner.txn, owner.undo_at, &UndoEntry::Chain { tree, head: page });
            }
            (Record::Page { page, .. }, Some(&PageOp::MapRelease { extent })) => {
                // The map page is in the first extent that it describes. The first map page of all
                // is in the extent behind the header.
                self.freed.insert(page.0 / EXTENT_PAGES + u32::from(extent), lsn);
            }
            (Record::Undo { txn, at, entry }, _) => {
                let entry = decode_rewind(entry).map_err(|_| Truncated)?;
                self.undo(lsn, txn, at, &entry);
            }
            (Record::Commit { txn }, _) => match self.txns.get_mut(&txn) {
                Some(entry) if entry.purge.any() => {
                    entry.stage = Stage::Committed(lsn);
                    entry.last = lsn;
                }
                _ => drop(self.txns.remove(&txn)),
            },
            (Record::Prepare { txn, xid }, _) => {
                let blank = TxnEntry {
                    stage: Stage::Active,
                    last: lsn,
                    has_undo: false,
                    purge: LeftToPurge::default(),
                };
                let entry = self.txns.entry(txn).or_insert(blank);
                entry.stage = Stage::Prepared(xid.to_vec());
                entry.last = lsn;
            }
            (Record::Abort { txn }, _) => match self.txns.get_mut(&txn) {
                Some(entry) if entry.has_undo => {
                    entry.stage = Stage::Aborted;
                    entry.last = lsn;
                }
                // Nothing is to be reverted, and no record will say that it was.
                _ => drop(self.txns.remove(&txn)),
            },
            (Record::Reverted { txn }, _) => drop(self.txns.remove(&txn)),
            (Record::Purged { txns }, _) => {
                for txn in ids(txns) {
                    self.txns.remove(&txn?);
                }
            }
            (Record::Page { .. } | Record::Checkpoint { .. } | Record::Counter { .. }, _) => {}
        }
        Ok(())
    }

    fn undo(&mut self, lsn: Lsn, txn: TxnId, at: u64, undo: &UndoEntry<'_>) {
        let entry = match self.txns.entry(txn) {
            Slot::Occupied(known) => known.into_mut(),
            // Its first record is missing: it began below the checkpoint, whose list does not name
            // it, so it had ended before.
            Slot::Vacant(_) if txn == TxnId::NONE || at > 0 => return,
            Slot::Vacant(new) => {
                let purge = LeftToPurge::default();
                new.insert(TxnEntry { stage: Stage::Active, last: lsn, has_undo: true, purge })
            }
        };
        entry.last = lsn;
        entry.purge.note(at, undo);
    }

    /// Returns the sections of a segment behind which the next group begins at `next`. Then the
    /// next segment begins.
    fn sections(&mut self, next: Lsn) -> Vec<Section> {
        let distance = |lsn: Lsn| if lsn == Lsn::ZERO { 0 } else { next.since(lsn) };
        let mut txns = Vec::new();
        let mut before = 0;
        for (txn, entry) in &self.txns {
            txns.put_varint(txn.0 - before);
            before = txn.0;
            txns.put_u8(match entry.stage {
                Stage::Prepared(_) if !entry.has_undo => PREPARED_IDLE,
                _ => entry.stage.tag(),
            });
            txns.put_varint(distance(entry.last));
            if let Stage::Prepared(xid) = &entry.stage {
                txns.put_prefixed(xid);
            }
        }
        let mut freed = Vec::new();
        let mut before = 0;
        for (extent, lsn) in std::mem::take(&mut self.freed) {
            freed.put_varint(u64::from(extent - before));
            before = extent;
            freed.put_varint(next.since(lsn));
        }
        let sections = vec![Section { tag: TRANSACTIONS, bytes: txns }, Section { tag: FREED, bytes: freed }];
        base::verify!(
            Sections::decode(&sections, next).is_ok_and(|read| read.txns.keys().eq(self.txns.keys())),
            "the sections of a digest are not read back"
        );
        sections
    }
}

/// Feeds the log's groups to a `TxnTable` while segments are digested.
#[derive(Debug)]
pub(crate) struct Digested<'a> {
    /// The transaction table at the end of the last digest.
    pub(crate) txn_table: &'a mut TxnTable,
    /// The list of the checkpoint up to which groups may be left out.
    pub(crate) listed: &'a [Listed],
}

impl DigestSource for Digested<'_> {
    fn group(
        &mut self,
        lsn: Lsn,
        records: &[u8],
        touch: &mut dyn FnMut(PageNo, bool),
    ) -> Result<(), Truncated> {
        self.txn_table.group(lsn, records, &mut |page, op| touch(page, op.is_init()))
    }

    fn skip_to(&mut self, checkpoint: Lsn) {
        *self.txn_table = TxnTable::begin(self.listed, checkpoint);
    }

    fn sections(&mut self, next: Lsn) -> Vec<Section> {
        self.txn_table.sections(next)
    }
}

/// The decoded sections of a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    /// The states of transactions at the segment's end; their last LSN, zero if it is not known;
    /// whether they have undo.
    pub(crate) txns: BTreeMap<TxnId, (Stage, Lsn, bool)>,
    /// Extents that were freed in the segment, by number, and the LSN of the last time.
    pub(crate) freed: BTreeMap<u32, Lsn>,
}

impl Sections {
    /// Decodes the sections of a digest behind which the next group begins at `next`.
    pub(crate) fn decode(sections: &[Section], next: Lsn) -> Result<Sections, Truncated> {
        let mut all = Sections::default();
        let lsn = |distance: u64| next.0.checked_sub(distance).map(Lsn).ok_or(Truncated);
        for section in sections {
            let mut r = Reader::new(&section.bytes);
            let mut number = 0u64;
            while !r.is_empty() {
                number = number.checked_add(r.varint()?).ok_or(Truncated)?;
                match section.tag {
                    TRANSACTIONS => {
                        let (state, distance) = (r.u8()?, r.varint()?);
                        let last = if distance == 0 { Lsn::ZERO } else { lsn(distance)? };
                        let stage = match state {
                            ACTIVE => Stage::Active,
                            PREPARED | PREPARED_IDLE => Stage::Prepared(r.prefixed()?.to_vec()),
                            ABORTED => Stage::Aborted,
                            COMMITTED => Stage::Committed(last),
                            _ => return Err(Truncated),
                        };
                        all.txns.insert(TxnId(number), (stage, last, state != PREPARED_IDLE));
                    }
                    FREED => {
                        let extent = u32::try_from(number).map_err(|_| Truncated)?;
                        all.freed.insert(extent, lsn(r.varint()?)?);
                    }
                    _ => return Err(Truncated),
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rewound_records_need_no_purge_unless_a_delete_mark_is_restored() {
        let change = |old_flags, new_flags| UndoEntry::Replace {
            tree: base::TreeId(3),
            key: b"k",
            before: crate::page::node::Version { txn: TxnId(1), undo_at: 0 },
            old_flags,
            new_flags,
            front: 0,
            back: 0,
            old_middle: b"",
        };
        let (delete, revive) = (change(0, 1), change(1, 0));
        // The stream itself says what is expected.
        let cases: [&[UndoEntry<'_>]; 7] = [
            &[delete],
            &[change(0, 0), delete, UndoEntry::Rewind { end: 1, last: None }],
            &[delete, change(0, 0), UndoEntry::Rewind { end: 1, last: None }],
            &[revive, UndoEntry::Rewind { end: 0, last: None }],
            &[revive],
            &[revive, UndoEntry::Rewind { end: 0, last: None }, UndoEntry::Rewind { end: 0, last: None }],
            &[delete, UndoEntry::Rewind { end: 0, last: None }, delete],
        ];
        for (n, entries) in cases.iter().enumerate() {
            let streams = crate::undo::Streams::default();
            let stream = streams.begin(TxnId(9));
            let mut purge = LeftToPurge::default();
            for entry in *entries {
                purge.note(stream.append(*entry), entry);
            }
            assert_eq!(purge.any(), stream.needs_purge(), "case {n}");
        }
    }

    #[test]
    fn a_prepared_transaction_without_undo_is_gone_when_it_ends() {
        for end in [Record::Abort { txn: TxnId(4) }, Record::Commit { txn: TxnId(4) }] {
            let mut txn_table = TxnTable::default();
            txn_table.record(Lsn(1), &Record::Prepare { txn: TxnId(4), xid: b"x" }, None).unwrap();
            assert_eq!(txn_table.txns.len(), 1);
            txn_table.record(Lsn(2), &end, None).unwrap();
            assert!(txn_table.txns.is_empty(), "no record will say that it is reverted or purged");
        }
    }

    /// What a group costs in addition to the digest of its pages. Each transaction changes eight
    /// rows.
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_a_group() {
        use crate::log::group::put_record;
        use crate::page::op::{RowChange, RowOp};
        let mut groups = Vec::new();
        for n in 0..1_000_000u64 {
            let (txn, at) = (TxnId(1 + n / 9 * 8 + n % 8), n / 8 % 9 * 40);
            let version = crate::page::node::Version { txn: TxnId(1 + n / 72 * 8 + n % 8), undo_at: at };
            let mut group = Vec::new();
            if n / 8 % 9 == 8 {
                put_record(&mut group, &Record::Commit { txn: version.txn });
            } else {
                let change = RowChange::Insert { flags: 0, value: &[7; 150] };
                let key = txn.0.to_be_bytes();
                let row = RowOp { slot: 3, tree: base::TreeId(5), key: &key, version, change };
                let mut op = Vec::new();
                PageOp::Row(row).encode(&mut op);
                put_record(&mut group, &Record::Page { page: PageNo(9), prev: 0, op: &op });
            }
            groups.push(group);
        }
        for round in 0..3 {
            for idle in [0u64, 1000, 100_000] {
                let mut txn_table = TxnTable::default();
                for n in 0..idle {
                    let txn = TxnId((1 << 40) + n);
                    txn_table.record(Lsn(0), &Record::Prepare { txn, xid: b"" }, None).unwrap();
                }
                let begun = std::time::Instant::now();
                let mut seen = 0u64;
                for group in &groups {
                    for record in Records::new(group) {
                        if let Record::Page { op, .. } = record.unwrap() {
                            seen += u64::from(PageOp::decode(op).unwrap().is_init());
                        }
                    }
                }
                let pages = begun.elapsed().as_nanos() as u64 / groups.len() as u64;
                let begun = std::time::Instant::now();
                for (n, group) in groups.iter().enumerate() {
                    txn_table
                        .group(Lsn(n as u64 + 1), group, &mut |_, op| seen += u64::from(op.is_init()))
                        .unwrap();
                }
                let both = begun.elapsed().as_nanos() as u64 / groups.len() as u64;
                println!(
                    "round {round}, {idle} others: pages {pages} ns, with transactions {both} ns ({seen})"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn sections_of_any_bytes_are_read_without_a_panic(tag in 0u8..4, bytes: Vec<u8>, next: u64) {
            let _ = Sections::decode(&[Section { tag, bytes }], Lsn(next));
        }
    }
}
