//! The version chain: from the newest version, in a page, back to the version that a snapshot sees.
//!
//! Each undo record on the way belongs to a transaction that the snapshot does not see, so purge
//! keeps it. An aborted transaction's undo stays too while the caller holds the leaf's latch: its
//! stream is removed only after this row has been reverted, and no version is ever put on top of an
//! aborted one (Un6).
//!
//! Undo in a file is not waited for under the latch (INV-9). The walk stops there and returns a
//! [`RemainingWalk`], which goes on without the latch. That is safe: what has been read of the row
//! so far was true at one time, and the older versions never change. The walk holds the stream of
//! the transaction that it has come to, so an abort meanwhile frees nothing that it needs.

use super::status::{StatusTable, TxnState};
use super::visible::{Sight, WriterState, sight, writer_state};
use crate::page::Damage;
use crate::page::node::{DELETED, FRESH, Row, SETTLED, Version};
use crate::undo::{HeldPiece, ShortcutEnd, Stream, UndoAccess, UndoEntry, UndoPiece, UndoRecord, UndoSource};
use base::sync::spin;
use base::{Lsn, TxnId};
use metrics::{M, Metrics};
use std::sync::Arc;

/// What a reader sees: its snapshot and its own changes. (A read view.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) status: &'a StatusTable,
    pub(crate) undo: UndoSource<'a>,
    /// The snapshot LSN: commits below it are seen. It is that of a registered [`super::Snapshot`],
    /// which keeps the undo on the way.
    pub(crate) snapshot: Lsn,
    /// The reader's own transaction; `NONE` if it has changed nothing.
    pub(crate) own: TxnId,
    /// Counts the steps back.
    pub(crate) metrics: &'a Metrics,
}

/// The version that a reader sees. The LSN is that of the version's commit, if it may not be
/// durable yet.
#[derive(Debug)]
pub(crate) enum SeenVersion {
    /// None: the newest version is a delete mark that the reader sees.
    Deleted(Option<Lsn>),
    /// None: the row was deleted earlier, or is not there yet.
    Absent(Option<Lsn>),
    /// The version in the page.
    Newest(Option<Lsn>),
    /// An older version; its value is in the buffer.
    Older {
        /// The version's flags, see `page::node`.
        flags: u8,
        /// The version's commit.
        commit: Option<Lsn>,
    },
    /// Not known until more undo has been fetched. The buffer holds the value that the walk has
    /// come to.
    Away(RemainingWalk),
}

/// The rest of a walk, from `at` on.
#[derive(Debug)]
pub(crate) struct RemainingWalk {
    pub(crate) at: WalkPosition,
    /// The undo that must be fetched first.
    pub(crate) piece: UndoPiece,
}

/// A version on the way back. Also the stream that its undo is in, if it has a stream of its own.
#[derive(Debug)]
pub(crate) struct WalkPosition {
    version: Version,
    stream: Option<Arc<Stream>>,
}

impl WalkPosition {
    /// Begins a walk at `version`. REQUIRES: the leaf that shows it is latched.
    pub(crate) fn begin(undo: UndoSource<'_>, version: Version) -> WalkPosition {
        WalkPosition { version, stream: undo.streams.get(version.txn) }
    }

    /// Returns the version that the walk has come to.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Takes a shortcut, if one is known: takes `value` past several versions that the view does
    /// not see, this one among them. Returns the flags of the version there, or that there was no
    /// row.
    fn pass(&mut self, view: &View<'_>, value: &mut Vec<u8>) -> Result<Option<Option<u8>>, Damage> {
        if self.stream.is_some() {
            return Ok(None);
        }
        Ok(match view.undo.history_batches.pass(self.version, view.snapshot, value)? {
            None => None,
            Some(ShortcutEnd::Nothing) => Some(None),
            Some(ShortcutEnd::To(version, flags)) => {
                self.version = version;
                self.stream = view.undo.streams.get(version.txn);
                Some(Some(flags))
            }
        })
    }

    /// Takes `value` one version back, with undo in memory or in `held`. Returns the flags of that
    /// version; none if there was no row before.
    pub(crate) fn back(
        &mut self,
        undo: UndoSource<'_>,
        held: &HeldPiece,
        value: &mut Vec<u8>,
    ) -> Result<UndoAccess<Option<u8>>, Damage> {
        let look = |record: &UndoRecord<'_>| step_back(&record.entry, value);
        let Version { txn, undo_at } = self.version;
        let older = match &self.stream {
            Some(stream) => stream.read(undo_at, held, look)?,
            None => undo.read(txn, undo_at, held, look)?,
        };
        match older {
            UndoAccess::Away(piece) => Ok(UndoAccess::Away(piece)),
            UndoAccess::Here(older) => Ok(UndoAccess::Here(older?.map(|(before, flags)| {
                if before.txn != txn {
                    self.stream = undo.streams.get(before.txn);
                }
                self.version = before;
                flags
            }))),
        }
    }
}

impl View<'_> {
    /// Returns the state of a transaction for a caller that only asks whether it committed below
    /// `seen`. If the status table has left a transaction to a history batch, its commit LSN
    /// is looked up there. Below `seen` such a commit is as good as settled, because history
    /// batches are durable.
    #[inline]
    fn state(&self, txn: TxnId, seen: Lsn) -> TxnState {
        match self.status.state(txn) {
            TxnState::Settled => {
                self.undo.history_batches.commit_of(txn, seen).map_or(TxnState::Settled, TxnState::Committed)
            }
            state => state,
        }
    }

    /// Judges one version: the commit LSN, as in [`Sight::Visible`], if the reader sees it, else an
    /// error.
    #[inline]
    fn judge(&self, txn: TxnId) -> Result<Option<Lsn>, ()> {
        let own = txn == self.own && txn != TxnId::NONE;
        let mut spins = 0;
        loop {
            let state = if own { TxnState::Active } else { self.state(txn, self.snapshot) };
            match sight(state, own, self.snapshot) {
                Sight::Visible(commit) => return Ok(commit),
                Sight::Older => return Err(()),
                Sight::Committing => spin(&mut spins),
            }
        }
    }

    /// Finds what the reader sees of a row whose newest version is `row`, with undo in memory or in
    /// `held`. Leaves an older value in `value`. REQUIRES: the leaf that holds the row is latched,
    /// and the snapshot is registered.
    ///
    /// Fails if undo that the snapshot needs is gone.
    pub(crate) fn see(
        &self,
        row: Row<'_>,
        value: &mut Vec<u8>,
        held: &HeldPiece,
    ) -> Result<SeenVersion, Damage> {
        if row.flags & SETTLED != 0 {
            return Ok(SeenVersion::Newest(None));
        }
        if let Ok(commit) = self.judge(row.version.txn) {
            let gone = row.flags & DELETED != 0;
            return Ok(if gone { SeenVersion::Deleted(commit) } else { SeenVersion::Newest(commit) });
        }
        if row.flags & FRESH != 0 {
            return Ok(SeenVersion::Absent(None));
        }
        value.clear();
        value.extend_from_slice(row.value);
        self.walk(WalkPosition::begin(self.undo, row.version), value, held)
    }

    /// Goes on from `at`, a version that the reader does not see, with the undo in `held`.
    /// REQUIRES: the snapshot is registered.
    pub(crate) fn walk(
        &self,
        at: WalkPosition,
        value: &mut Vec<u8>,
        held: &HeldPiece,
    ) -> Result<SeenVersion, Damage> {
        let mut steps = 0;
        let seen = self.walk_counting(at, value, held, &mut steps);
        self.metrics.add(M::VersionSteps, steps);
        seen
    }

    fn walk_counting(
        &self,
        mut at: WalkPosition,
        value: &mut Vec<u8>,
        held: &HeldPiece,
        steps: &mut u64,
    ) -> Result<SeenVersion, Damage> {
        loop {
            let not_seen = at.version.txn;
            let flags = match at.pass(self, value)? {
                Some(flags) => flags,
                None => match at.back(self.undo, held, value)? {
                    UndoAccess::Away(piece) => return Ok(SeenVersion::Away(RemainingWalk { at, piece })),
                    UndoAccess::Here(older) => older,
                },
            };
            *steps += 1;
            let Some(flags) = flags else { return Ok(SeenVersion::Absent(None)) };
            // A transaction that was not visible one step before is not visible now. Without the
            // latch, an aborted transaction may have been settled meanwhile; then its other
            // versions would look committed.
            if at.version.txn != not_seen
                && let Ok(commit) = self.judge(at.version.txn)
            {
                let gone = flags & DELETED != 0;
                return Ok(if gone {
                    SeenVersion::Absent(commit)
                } else {
                    SeenVersion::Older { flags, commit }
                });
            }
            if flags & FRESH != 0 {
                return Ok(SeenVersion::Absent(None));
            }
        }
    }

    /// Returns whether every snapshot sees `txn` as committed, where commits below `horizon` are
    /// seen by all.
    pub(crate) fn seen_by_all(&self, txn: TxnId, horizon: Lsn) -> bool {
        match self.state(txn, horizon) {
            TxnState::Settled => true,
            TxnState::Committed(lsn) => lsn < horizon,
            TxnState::Active | TxnState::Committing | TxnState::Prepared | TxnState::Aborted => false,
        }
    }

    /// Returns how a transaction that wants to lock or change a row must treat its newest version.
    /// `conflicts_after` is the snapshot LSN that first-updater-wins measures by, if there is one.
    /// The caller asks only whether the version was committed below `seen`.
    pub(crate) fn writer_state(&self, newest: TxnId, conflicts_after: Option<Lsn>, seen: Lsn) -> WriterState {
        let own = newest == self.own && newest != TxnId::NONE;
        let mut spins = 0;
        loop {
            let state = if own { TxnState::Active } else { self.state(newest, seen) };
            match writer_state(state, own, conflicts_after) {
                WriterState::Committing => spin(&mut spins),
                known => return known,
            }
        }
    }
}

/// Turns a value into the one before the change that `entry` undoes. Returns that version and its
/// flags; none if there was no row.
fn step_back(entry: &UndoEntry<'_>, value: &mut Vec<u8>) -> Result<Option<(Version, u8)>, Damage> {
    match *entry {
        UndoEntry::Insert { .. } => Ok(None),
        UndoEntry::Replace { before, old_flags, front, back, old_middle, .. } => {
            let (front, back) = (usize::from(front), usize::from(back));
            let end = value.len().checked_sub(back).filter(|&end| end >= front);
            let end = end.ok_or(Damage("an undo record keeps more than the value has"))?;
            value.splice(front..end, old_middle.iter().copied());
            Ok(Some((before, old_flags)))
        }
        UndoEntry::Chain { .. } | UndoEntry::Rewind { .. } => {
            Err(Damage("a version names undo of another kind"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::op::{RowChange, RowOp};
    use crate::undo::{HistoryBatches, Streams};
    use base::TreeId;
    use expect_test::expect;
    use std::collections::BTreeMap;
    use std::fmt::Write;

    /// One row of a page, changed as a table would change it.
    struct World {
        status: StatusTable,
        streams: Streams,
        row: Option<(Version, u8, Vec<u8>)>,
        next_lsn: u64,
    }

    impl World {
        fn change(&mut self, txn: TxnId, new: Option<&[u8]>) {
            let stream = self.streams.get(txn).unwrap_or_else(|| self.streams.begin(txn));
            let version = Version { txn, undo_at: stream.end() };
            let value = new.unwrap_or_default();
            let flags = if new.is_none() { DELETED } else { 0 };
            let change = match &self.row {
                None => RowChange::Insert { flags, value },
                Some((before, old_flags, old)) => {
                    let front = crate::page::node::common_prefix(old, value);
                    RowChange::Replace {
                        before: *before,
                        old_flags: *old_flags,
                        new_flags: flags,
                        front: front as u16,
                        back: 0,
                        old_middle: &old[front..],
                        new_middle: &value[front..],
                    }
                }
            };
            stream.append_row(&RowOp { slot: 0, tree: TreeId(1), key: b"k", version, change });
            self.row = Some((version, flags, value.to_vec()));
        }

        fn see(&self, own: TxnId, snapshot: Lsn) -> String {
            let Some((version, flags, value)) = &self.row else { return "nothing".to_owned() };
            let undo = UndoSource { streams: &self.streams, history_batches: &HistoryBatches::default() };
            let metrics = &Metrics::default();
            let view = View { status: &self.status, undo, snapshot, own, metrics };
            let mut old = Vec::new();
            let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
            match view
                .see(Row { version: *version, flags: *flags, value }, &mut old, HeldPiece::NONE)
                .unwrap()
            {
                SeenVersion::Deleted(_) | SeenVersion::Absent(_) => "nothing".to_owned(),
                SeenVersion::Newest(_) => format!("{} (newest)", text(value)),
                SeenVersion::Older { .. } => text(&old),
                SeenVersion::Away(rest) => panic!("{rest:?}: nothing here goes to files"),
            }
        }
    }

    /// Names are transactions. `a put V`, `a delete`, `a commit`, `a abort`, `s snapshot`; `s
    /// reads`, `a reads s`.
    fn check(script: &str, expected: &expect_test::Expect) {
        let mut w = World {
            status: StatusTable::new(TxnId(1), []),
            streams: Streams::default(),
            row: None,
            next_lsn: 100,
        };
        let (mut txns, mut snapshots, mut out) = (BTreeMap::new(), BTreeMap::new(), String::new());
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let name = words[0];
            w.next_lsn += 1;
            let lsn = Lsn(w.next_lsn);
            if words[1] == "snapshot" {
                snapshots.insert(name, lsn);
                continue;
            }
            if words[1] == "reads" {
                let own = txns.get(name).copied().unwrap_or(TxnId::NONE);
                let snapshot = snapshots[words.get(2).unwrap_or(&name)];
                writeln!(out, "{line}: {}", w.see(own, snapshot)).unwrap();
                continue;
            }
            let txn = *txns.entry(name).or_insert_with(|| w.status.begin());
            match words[1] {
                "put" => w.change(txn, Some(words[2].as_bytes())),
                "delete" => w.change(txn, None),
                "commit" => {
                    w.status.set(txn, TxnState::Committing);
                    w.status.set(txn, TxnState::Committed(lsn));
                }
                "abort" => w.status.set(txn, TxnState::Aborted),
                other => panic!("what is {other:?}"),
            }
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn each_snapshot_sees_the_commits_below_it() {
        check(
            "
            s0 snapshot
            a put one
            a commit
            s1 snapshot
            b put onetwo
            b put three
            b commit
            s2 snapshot
            c delete
            c commit
            s3 snapshot
            d put four
            s4 snapshot
            s0 reads
            s1 reads
            s2 reads
            s3 reads
            s4 reads
            d reads s4
            d commit
            s5 snapshot
            s4 reads
            s5 reads
            ",
            &expect![[r#"
                s0 reads: nothing
                s1 reads: one
                s2 reads: three
                s3 reads: nothing
                s4 reads: nothing
                d reads s4: four (newest)
                s4 reads: nothing
                s5 reads: four (newest)
            "#]],
        );
    }

    #[test]
    fn a_reader_skips_an_aborted_version() {
        check(
            "
            a put one
            a commit
            b put two
            b put three
            s snapshot
            b abort
            s reads
            t snapshot
            t reads
            ",
            &expect![[r#"
                s reads: one
                t reads: one
            "#]],
        );
    }

    #[test]
    fn missing_undo_is_an_error_and_not_a_wrong_answer() {
        let status = StatusTable::new(TxnId(1), []);
        let undo = UndoSource { streams: &Streams::default(), history_batches: &HistoryBatches::default() };
        let metrics = &Metrics::default();
        let view = View { status: &status, undo, snapshot: Lsn(1), own: TxnId::NONE, metrics };
        let row = Row { version: Version { txn: status.begin(), undo_at: 0 }, flags: 0, value: b"v" };
        assert!(view.see(row, &mut Vec::new(), HeldPiece::NONE).is_err());
    }
}
