//! From the newest version in a page back to the one that a snapshot sees.
//!
//! Each undo record on the way belongs to a transaction that the snapshot does not see, so purge keeps it. An aborted
//! transaction's undo is kept too while the caller holds the leaf's latch: its stream goes only after this row has been
//! reverted, and below an aborted version stands none (Un6).
//!
//! Undo that stands in a file is not waited for under the latch (INV-9). The walk stops there and gives the caller a [`RemainingWalk`],
//! which goes on without the latch: what it has of the row so far was true of one moment, the older versions never change,
//! and it holds the stream of the transaction that it stands at, so that an abort meanwhile takes nothing away.

use super::status::{StatusTable, TxnState};
use super::visible::{Sight, WriterState, sight, writer_state};
use crate::page::Damage;
use crate::page::node::{DELETED, FRESH, Row, Version};
use crate::undo::{Access, Entry, Held, Passed, Piece, Record, Stream, Undo};
use base::sync::spin;
use base::{Lsn, TxnId};
use metrics::{M, Metrics};
use std::sync::Arc;

/// What a reader is: which moment it sees, and as whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) status: &'a StatusTable,
    pub(crate) undo: Undo<'a>,
    /// Commits below it are seen; from a registered [`super::Snapshot`], so that the undo on the way stays.
    pub(crate) snapshot: Lsn,
    /// The reader's own transaction; `NONE` if it has not changed anything.
    pub(crate) own: TxnId,
    /// Where its steps back are counted.
    pub(crate) metrics: &'a Metrics,
}

/// Which version a reader sees. The LSN is that of the version's commit, if it may not be durable yet.
#[derive(Debug)]
pub(crate) enum SeenVersion {
    /// None, and the newest version is the mark that says so.
    Deleted(Option<Lsn>),
    /// None: the row was deleted before, or is not there yet.
    Absent(Option<Lsn>),
    /// The one in the page.
    Newest(Option<Lsn>),
    /// The one whose value the walk has left in the buffer.
    Older {
        /// Its flags, see `page::node`.
        flags: u8,
        /// Its commit.
        commit: Option<Lsn>,
    },
    /// Not known before more undo has been fetched; the buffer holds the value that the walk has come to.
    Away(RemainingWalk),
}

/// What is left of a walk.
#[derive(Debug)]
pub(crate) struct RemainingWalk {
    pub(crate) at: WalkPosition,
    /// What must be fetched first.
    pub(crate) piece: Piece,
}

/// A version on the way back, and the stream that its undo stands in, if that is one of its own.
#[derive(Debug)]
pub(crate) struct WalkPosition {
    version: Version,
    stream: Option<Arc<Stream>>,
}

impl WalkPosition {
    /// A walk that begins at `version`. REQUIRES: the leaf that shows it is latched.
    pub(crate) fn begin(undo: Undo<'_>, version: Version) -> WalkPosition {
        WalkPosition { version, stream: undo.streams.get(version.txn) }
    }

    /// The version that it has come to.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Takes `value` past versions of which the view sees none, this one among them, if that is known to lead somewhere: to the flags of the
    /// version there, or where there was no row.
    fn pass(&mut self, view: &View<'_>, value: &mut Vec<u8>) -> Result<Option<Option<u8>>, Damage> {
        if self.stream.is_some() {
            return Ok(None);
        }
        Ok(match view.undo.history.pass(self.version, view.snapshot, value)? {
            None => None,
            Some(Passed::Nothing) => Some(None),
            Some(Passed::To(version, flags)) => {
                self.version = version;
                self.stream = view.undo.streams.get(version.txn);
                Some(Some(flags))
            }
        })
    }

    /// Takes `value` one version back, from memory or what is `held`. That one's flags, or `None`: there was no row before.
    pub(crate) fn back(
        &mut self,
        undo: Undo<'_>,
        held: &Held,
        value: &mut Vec<u8>,
    ) -> Result<Access<Option<u8>>, Damage> {
        let look = |record: &Record<'_>| step_back(&record.entry, value);
        let Version { txn, undo_at } = self.version;
        let older = match &self.stream {
            Some(stream) => stream.read(undo_at, held, look)?,
            None => undo.read(txn, undo_at, held, look)?,
        };
        match older {
            Access::Away(piece) => Ok(Access::Away(piece)),
            Access::Here(older) => Ok(Access::Here(older?.map(|(before, flags)| {
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
    /// How a transaction stands, for who asks only whether it committed below `seen`. One that the status table has left to a
    /// segment of history counts as committed there; below `seen` that is as good as settled, for segments are durable.
    #[inline]
    fn state(&self, txn: TxnId, seen: Lsn) -> TxnState {
        match self.status.state(txn) {
            TxnState::Settled => {
                self.undo.history.commit_of(txn, seen).map_or(TxnState::Settled, TxnState::Committed)
            }
            state => state,
        }
    }

    /// Judges one version.
    #[inline]
    fn judge(&self, txn: TxnId) -> Result<Option<Lsn>, ()> {
        let own = txn == self.own && txn != TxnId::NONE;
        let mut turn = 0;
        loop {
            let state = if own { TxnState::Active } else { self.state(txn, self.snapshot) };
            match sight(state, own, self.snapshot) {
                Sight::Visible(commit) => return Ok(commit),
                Sight::Older => return Err(()),
                Sight::Undecided => spin(&mut turn),
            }
        }
    }

    /// Finds what the reader sees of a row whose newest version is `row`, as far as undo is in memory or `held`. An older value is
    /// left in `value`. REQUIRES: the leaf that holds the row is latched, and the snapshot is registered.
    ///
    /// Fails if the undo that the snapshot needs is gone.
    pub(crate) fn see(&self, row: Row<'_>, value: &mut Vec<u8>, held: &Held) -> Result<SeenVersion, Damage> {
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

    /// Goes on from `at`, a version that the reader does not see, with what is `held`. REQUIRES: the snapshot is registered.
    pub(crate) fn walk(
        &self,
        at: WalkPosition,
        value: &mut Vec<u8>,
        held: &Held,
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
        held: &Held,
        steps: &mut u64,
    ) -> Result<SeenVersion, Damage> {
        loop {
            let not_seen = at.version.txn;
            let flags = match at.pass(self, value)? {
                Some(flags) => flags,
                None => match at.back(self.undo, held, value)? {
                    Access::Away(piece) => return Ok(SeenVersion::Away(RemainingWalk { at, piece })),
                    Access::Here(older) => older,
                },
            };
            *steps += 1;
            let Some(flags) = flags else { return Ok(SeenVersion::Absent(None)) };
            // Who was not seen a step before is not seen now. Without the latch an aborted transaction may have been settled
            // meanwhile, which would make its other versions look like those of a commit.
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

    /// Whether all see what `txn` did, and see it committed, where commits below `horizon` are seen by all.
    pub(crate) fn seen_by_all(&self, txn: TxnId, horizon: Lsn) -> bool {
        match self.state(txn, horizon) {
            TxnState::Settled => true,
            TxnState::Committed(lsn) => lsn < horizon,
            TxnState::Active | TxnState::Committing | TxnState::Prepared | TxnState::Aborted => false,
        }
    }

    /// Judges a row's newest version for who wants to lock or change it; `conflicts_after` is the snapshot that
    /// first-updater-wins measures by, if there is one.
    pub(crate) fn writer_state(&self, newest: TxnId, conflicts_after: Option<Lsn>) -> WriterState {
        let own = newest == self.own && newest != TxnId::NONE;
        let seen = conflicts_after.unwrap_or(Lsn::MAX);
        let mut turn = 0;
        loop {
            let state = if own { TxnState::Active } else { self.state(newest, seen) };
            match writer_state(state, own, conflicts_after) {
                WriterState::Undecided => spin(&mut turn),
                decided => return decided,
            }
        }
    }
}

/// Turns a value into the one before the change that `entry` undoes; tells that one's version and flags. `None`: there
/// was no row.
fn step_back(entry: &Entry<'_>, value: &mut Vec<u8>) -> Result<Option<(Version, u8)>, Damage> {
    match *entry {
        Entry::Insert { .. } => Ok(None),
        Entry::Replace { before, old_flags, front, back, old_middle, .. } => {
            let (front, back) = (usize::from(front), usize::from(back));
            let end = value.len().checked_sub(back).filter(|&end| end >= front);
            let end = end.ok_or(Damage("an undo record keeps more than the value has"))?;
            value.splice(front..end, old_middle.iter().copied());
            Ok(Some((before, old_flags)))
        }
        Entry::Chain { .. } | Entry::Rewind { .. } => Err(Damage("a version names undo of another kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::op::{RowChange, RowOp};
    use crate::undo::{History, Streams};
    use base::TreeId;
    use expect_test::expect;
    use std::collections::BTreeMap;
    use std::fmt::Write;

    /// One row of a page, changed as a table would.
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
            let undo = Undo { streams: &self.streams, history: &History::default() };
            let metrics = &Metrics::default();
            let view = View { status: &self.status, undo, snapshot, own, metrics };
            let mut old = Vec::new();
            let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
            match view.see(Row { version: *version, flags: *flags, value }, &mut old, Held::NONE).unwrap() {
                SeenVersion::Deleted(_) | SeenVersion::Absent(_) => "nothing".to_owned(),
                SeenVersion::Newest(_) => format!("{} (newest)", text(value)),
                SeenVersion::Older { .. } => text(&old),
                SeenVersion::Away(rest) => panic!("{rest:?}: nothing here goes to files"),
            }
        }
    }

    /// Names are transactions. `a put V`, `a delete`, `a commit`, `a abort`, `s snapshot`; `s reads`, `a reads s`.
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
    fn each_snapshot_sees_its_moment() {
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
    fn an_aborted_version_is_looked_through() {
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
    fn undo_that_is_gone_is_an_error_not_a_wrong_answer() {
        let status = StatusTable::new(TxnId(1), []);
        let undo = Undo { streams: &Streams::default(), history: &History::default() };
        let metrics = &Metrics::default();
        let view = View { status: &status, undo, snapshot: Lsn(1), own: TxnId::NONE, metrics };
        let row = Row { version: Version { txn: status.begin(), undo_at: 0 }, flags: 0, value: b"v" };
        assert!(view.see(row, &mut Vec::new(), Held::NONE).is_err());
    }
}
