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
//! A checkpoint bounds the table. A transaction had ended if the checkpoint's list does not name
//! it, and no group from the checkpoint on names it. Recovery from this checkpoint would not know
//! it, so the table forgets it ([`TxnTable::forget_ended`]). Very many committed transactions may
//! wait for purge beside a snapshot. Their undo is in history batches, which the list names
//! instead. So the table grows with the log above the checkpoint, and not with what waits.
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
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

/// The section of the states of transactions.
pub(crate) const TRANSACTIONS: u8 = 1;
/// In place of a stage: prepared, and nothing is to be undone.
const PREPARED_IDLE: u8 = 5;
/// The section of freed extents.
pub(crate) const FREED: u8 = 2;

/// How many entries [`TxnTable::forget_ended`] looks at in one call: a few milliseconds of work.
const SWEEP_ENTRIES: usize = if cfg!(test) { 1000 } else { 1 << 16 };
/// A smaller table is not swept.
const SWEEP_LEAST: usize = if cfg!(test) { 1 } else { 1 << 16 };

/// The state of one transaction that has not committed.
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
    /// Transactions that have not committed.
    txns: BTreeMap<TxnId, TxnEntry>,
    /// Committed transactions that are not purged, with their commit LSNs. There may be millions,
    /// so their entries are small.
    committed: BTreeMap<TxnId, Lsn>,
    /// The newest checkpoint whose list has been applied to the whole table.
    checkpoint: Lsn,
    /// Entries from this id on have still to be compared with a newer list.
    sweep: Option<TxnId>,
    /// How many entries the last sweep left.
    kept: usize,
    /// Extents freed since the segment began, by number.
    freed: BTreeMap<u32, Lsn>,
    /// Groups below this LSN have been processed.
    next: Lsn,
}

impl TxnTable {
    /// Begins with the list of a checkpoint. The groups from the checkpoint on must follow.
    pub(crate) fn begin(listed: &[Listed], checkpoint: Lsn) -> TxnTable {
        let mut table = TxnTable { checkpoint, next: checkpoint, ..TxnTable::default() };
        for Listed { txn, stage, hardened } in listed {
            let stage = match stage {
                Stage::Committed(lsn) if *lsn < checkpoint => {
                    table.committed.insert(*txn, *lsn);
                    continue;
                }
                // The commit record follows.
                Stage::Committed(_) => Stage::Active,
                _ => stage.clone(),
            };
            let has_undo = *hardened > 0;
            let purge = if has_undo { LeftToPurge::unknown() } else { LeftToPurge::default() };
            table.txns.insert(*txn, TxnEntry { stage, last: Lsn::ZERO, has_undo, purge });
        }
        table.kept = table.len();
        table
    }

    fn len(&self) -> usize {
        self.txns.len() + self.committed.len()
    }

    /// Returns about how much memory the table takes, bytes. The nodes of its maps are half full:
    /// ascending ids leave them so.
    pub(crate) fn bytes(&self) -> u64 {
        let map = |len: usize, entry: usize| 2 * (len * entry) as u64;
        map(self.txns.len(), size_of::<(TxnId, TxnEntry)>())
            + map(self.committed.len(), size_of::<(TxnId, Lsn)>())
            + map(self.freed.len(), size_of::<(u32, Lsn)>())
    }

    /// Forgets transactions that had ended by the list of a checkpoint. Does a slice of the work.
    /// Does nothing while the table has not doubled since all of it was done. REQUIRES: the root
    /// names the checkpoint, and `listed` is its list.
    pub(crate) fn forget_ended(&mut self, checkpoint: Lsn, listed: &[Listed]) {
        let grown = self.len() >= SWEEP_LEAST.max(2 * self.kept);
        if checkpoint <= self.checkpoint || (self.sweep.is_none() && !grown) {
            return;
        }
        let listed: BTreeSet<TxnId> = listed.iter().map(|listed| listed.txn).collect();
        let ended = |txn: &TxnId, last: Lsn| last < checkpoint && !listed.contains(txn);
        // Both maps are swept over the same range of ids.
        let from = self.sweep.unwrap_or(TxnId::NONE);
        let open = self.txns.range(from..).nth(SWEEP_ENTRIES).map(|(txn, _)| *txn);
        let committed = self.committed.range(from..).nth(SWEEP_ENTRIES).map(|(txn, _)| *txn);
        let to = open.into_iter().chain(committed).min();
        let range = from..to.unwrap_or(TxnId(u64::MAX));
        self.txns.extract_if(range.clone(), |txn, entry| ended(txn, entry.last)).for_each(drop);
        self.committed.extract_if(range, |txn, lsn| ended(txn, *lsn)).for_each(drop);
        self.sweep = to;
        if to.is_none() {
            (self.checkpoint, self.kept) = (checkpoint, self.len());
        }
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
            (Record::Commit { txn }, _) => {
                if self.txns.remove(&txn).is_some_and(|entry| entry.purge.any()) {
                    self.committed.insert(txn, lsn);
                }
            }
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
                    let txn = txn?;
                    if self.committed.remove(&txn).is_none() {
                        self.txns.remove(&txn);
                    }
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
        let (mut open, mut committed) = (self.txns.iter().peekable(), self.committed.iter().peekable());
        loop {
            let next = committed.next_if(|(txn, _)| open.peek().is_none_or(|(other, _)| txn < other));
            let next = next.map(|(txn, lsn)| (txn, None, *lsn));
            let next = next.or_else(|| open.next().map(|(txn, entry)| (txn, Some(entry), entry.last)));
            let Some((txn, entry, last)) = next else { break };
            txns.put_varint(txn.0 - before);
            before = txn.0;
            txns.put_u8(match entry.map(|entry| (&entry.stage, entry.has_undo)) {
                None => COMMITTED,
                Some((Stage::Prepared(_), false)) => PREPARED_IDLE,
                Some((stage, _)) => stage.tag(),
            });
            txns.put_varint(distance(last));
            if let Some(TxnEntry { stage: Stage::Prepared(xid), .. }) = entry {
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
            Sections::decode(&sections, next).is_ok_and(|read| {
                let known = |txn| self.txns.contains_key(txn) || self.committed.contains_key(txn);
                read.txns.len() == self.len() && read.txns.keys().all(known)
            }),
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

    fn row_change(txn: TxnId) -> Vec<u8> {
        use crate::page::op::{RowChange, RowOp};
        let version = crate::page::node::Version { txn, undo_at: 0 };
        let change = RowChange::Insert { flags: 0, value: b"" };
        let row = RowOp { slot: 0, tree: base::TreeId(5), key: b"", version, change };
        let mut op = Vec::new();
        PageOp::Row(row).encode(&mut op);
        op
    }

    /// A transaction that inserts a row, and rolls back to a savepoint so that there is something
    /// to purge.
    fn change(table: &mut TxnTable, lsn: u64, txn: u64) {
        let (lsn, txn) = (Lsn(lsn), TxnId(txn));
        let op = row_change(txn);
        let record = Record::Page { page: PageNo(9), prev: 0, op: &op };
        table.record(lsn, &record, Some(&PageOp::decode(&op).unwrap())).unwrap();
        table.txns.get_mut(&txn).unwrap().purge = LeftToPurge::unknown();
    }

    fn forget(table: &mut TxnTable, checkpoint: u64, listed: &[Listed]) {
        table.forget_ended(Lsn(checkpoint), listed);
        while table.sweep.is_some() {
            table.forget_ended(Lsn(checkpoint), listed);
        }
    }

    /// As many transactions as you like may wait for purge in history batches. The table holds
    /// those of the log above the checkpoint, and those in the checkpoint's list.
    #[test]
    fn a_checkpoint_bounds_the_table() {
        let mut table = TxnTable::default();
        let listed = |txn, stage| Listed { txn: TxnId(txn), stage, hardened: 1 };
        let list = [listed(1, Stage::Active), listed(77, Stage::Committed(Lsn(77)))];
        change(&mut table, 1, 1);
        let mut most = 0;
        for n in 2..100_000 {
            change(&mut table, n, n);
            table.record(Lsn(n), &Record::Commit { txn: TxnId(n) }, None).unwrap();
            if n % 10 == 0 {
                // A checkpoint is taken now and then.
                table.forget_ended(Lsn((n / 5000 * 5000).saturating_sub(2000)), &list);
            }
            most = most.max(table.len());
        }
        assert!(most < 20_000, "{most} transactions");
        forget(&mut table, 99_000, &list);
        assert_eq!(table.len(), 1000 + 2, "the log above the checkpoint, and the list");
        assert!(table.txns.contains_key(&TxnId(1)) && table.committed.contains_key(&TxnId(77)));
        assert!((32_000..35_000).contains(&table.bytes()), "{} bytes", table.bytes());
        let sections = Sections::decode(&table.sections(Lsn(200_000)), Lsn(200_000)).unwrap();
        let committed = |txn: &u64| (TxnId(*txn), (Stage::Committed(Lsn(*txn)), Lsn(*txn), true));
        let mut expected: BTreeMap<_, _> = (99_000..100_000).map(|txn| committed(&txn)).collect();
        expected.extend([committed(&77), (TxnId(1), (Stage::Active, Lsn(1), true))]);
        assert_eq!(sections.txns, expected);
    }

    /// How much memory a transaction takes in the table, measured from outside.
    #[test]
    #[ignore = "a measurement"]
    fn memory_of_a_transaction() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
        };
        for commit in [false, true] {
            let mut table = TxnTable::default();
            // Memory that the round before has freed would be used again.
            base::memory::give_back();
            let before = resident();
            for n in 1..=2_000_000 {
                change(&mut table, n, n);
                if commit {
                    table.record(Lsn(n), &Record::Commit { txn: TxnId(n) }, None).unwrap();
                }
            }
            let (took, counted) = (resident().saturating_sub(before), table.bytes());
            println!("committed: {commit}, {} bytes each, {} counted", took / 2_000_000, counted / 2_000_000);
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
