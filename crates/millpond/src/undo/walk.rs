//! Which records of a stream purge must read. No list of them is kept: a summary of fixed size says
//! where to look, and a walk over the records finds them when purge comes.

use super::record::{UndoEntry, UndoRecord};

/// A record that purge must look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgeItem {
    /// Its offset.
    pub(crate) at: u64,
    /// It was rolled back, and that restored a delete mark that perhaps no other transaction will
    /// remove.
    pub(crate) rewound: bool,
}

/// A summary of what would be left to purge of the records seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftToPurge {
    /// The oldest record with work for purge that no rewind has taken back.
    first: Option<u64>,
    /// The oldest and the newest record that cover a delete mark, rewound ones included.
    marks: Option<(u64, u64)>,
    /// A rewind has restored delete marks, so there is work whatever else is taken back.
    stays: bool,
}

impl LeftToPurge {
    /// Whether purge has work if the transaction commits.
    pub(super) fn any(&self) -> bool {
        self.stays || self.first.is_some()
    }

    /// Whether purge has work if the transaction is reverted as a whole.
    pub(super) fn any_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// Adds the record at `at`.
    pub(super) fn note(&mut self, at: u64, entry: &UndoEntry<'_>) {
        if let UndoEntry::Rewind { end, .. } = *entry {
            self.first = self.first.filter(|&first| first < end);
            // A restored mark stays in the summary: a later rewind either keeps it or restores it
            // again.
            self.stays |= self.marks.is_some_and(|(_, newest)| newest >= end);
        }
        if entry.needs_purge() {
            self.first.get_or_insert(at);
        }
        if entry.covers_mark() {
            self.marks = Some((self.marks.map_or(at, |(oldest, _)| oldest), at));
        }
    }
}

/// The parts of a stream that rollbacks to savepoints have taken back. They do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewinds(Vec<RewoundPart>);

#[derive(Clone, Copy, Debug)]
struct RewoundPart {
    /// Where the part begins.
    from: u64,
    /// Where its `Rewind` record is.
    at: u64,
}

/// The most rollbacks to savepoints of one transaction, 16 MiB of memory. A rollback whose whole
/// effect a later one has taken back does not count.
pub(crate) const REWINDS_MAX: usize = 1 << 20;

impl Rewinds {
    /// Whether one more rollback, to `from`, can be stored.
    pub(crate) fn has_room(&self, from: u64) -> bool {
        self.0.len() < REWINDS_MAX || self.0.last().is_some_and(|rewound| rewound.from >= from)
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.0.capacity() * size_of::<RewoundPart>()) as u64
    }

    /// Stores that the record at `at` has taken back all records from `from` on.
    pub(crate) fn push(&mut self, at: u64, from: u64) {
        while self.0.pop_if(|rewound| rewound.from >= from).is_some() {}
        self.0.push(RewoundPart { from, at });
    }

    /// Whether the record at `at` was taken back.
    pub(crate) fn covers(&self, at: u64) -> bool {
        let next = self.0.partition_point(|rewound| rewound.at <= at);
        self.0.get(next).is_some_and(|rewound| rewound.from <= at)
    }

    /// Whether a rollback can go back to `end`: that is not inside a part that was taken back.
    pub(crate) fn reach(&self, end: u64) -> bool {
        let next = self.0.partition_point(|rewound| rewound.at <= end);
        self.0.get(next).is_none_or(|rewound| rewound.from >= end)
    }
}

/// Walks over the records of a stream, oldest first, and finds those with work for purge.
#[derive(Clone, Debug)]
pub(crate) struct PurgeWalk {
    /// The next record to look at.
    pub(crate) at: u64,
    /// The walk ends before this offset.
    pub(crate) end: u64,
    rewinds: Rewinds,
    committed: bool,
}

impl PurgeWalk {
    /// A walk for a transaction that has committed, or else has been reverted as a whole.
    pub(crate) fn new(left: &LeftToPurge, rewinds: &Rewinds, end: u64, committed: bool) -> PurgeWalk {
        let (from, end) = match (committed, left.marks) {
            (false, None) => (end, end),
            (false, Some((oldest, newest))) => (oldest, newest + 1),
            (true, marks) => {
                let mark = marks.filter(|_| left.stays).map(|(oldest, _)| oldest);
                let first = [left.first, mark].into_iter().flatten().min();
                (first.unwrap_or(end), end)
            }
        };
        PurgeWalk { at: from, end, rewinds: rewinds.clone(), committed }
    }

    /// Returns the work of purge for the record at `self.at`, if there is any.
    pub(crate) fn judge(&self, record: &UndoRecord<'_>) -> Option<PurgeItem> {
        let rewound = !self.committed || self.rewinds.covers(self.at);
        let wanted = if rewound { record.entry.covers_mark() } else { record.entry.needs_purge() };
        wanted.then_some(PurgeItem { at: self.at, rewound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::node::{DELETED, OVERFLOW, Version};
    use base::prng::Prng;
    use base::{TreeId, TxnId};

    /// The lists that the summary and the walk replace, as a stream would have to keep them.
    #[derive(Default)]
    struct Lists {
        purge: Vec<PurgeItem>,
        marks: Vec<u64>,
        rewinds: Vec<(u64, u64)>,
    }

    impl Lists {
        fn saw(&mut self, at: u64, entry: &UndoEntry<'_>) {
            if let UndoEntry::Rewind { end, .. } = *entry {
                self.rewinds.push((at, end));
                self.purge.retain(|p| p.at < end);
                let back = self.marks.iter().filter(|&&at| at >= end);
                self.purge.extend(back.map(|&at| PurgeItem { at, rewound: true }));
            }
            if entry.needs_purge() {
                self.purge.push(PurgeItem { at, rewound: false });
            }
            if entry.covers_mark() {
                self.marks.push(at);
            }
        }
    }

    #[test]
    fn the_walk_finds_the_same_records_as_full_lists() {
        let mut rng = Prng::new(1);
        for round in 0..2000 {
            let (mut lists, mut left, mut rewinds) =
                (Lists::default(), LeftToPurge::default(), Rewinds::default());
            let mut entries = Vec::new();
            let end = rng.between(1, 30) * 10;
            for at in (0..end).step_by(10) {
                let entry = if rng.below(4) == 0 {
                    UndoEntry::Rewind { end: rng.below(at / 10 + 1) * 10, last: None }
                } else {
                    let flags = |rng: &mut Prng| [0, 0, 0, DELETED, OVERFLOW][rng.below(5) as usize];
                    UndoEntry::Replace {
                        tree: TreeId(1),
                        key: b"k",
                        before: Version { txn: TxnId(1), undo_at: 0 },
                        old_flags: flags(&mut rng),
                        new_flags: flags(&mut rng),
                        front: 0,
                        back: 0,
                        old_middle: b"",
                    }
                };
                lists.saw(at, &entry);
                left.note(at, &entry);
                if let UndoEntry::Rewind { end, .. } = entry {
                    rewinds.push(at, end);
                }
                entries.push((at, entry));
            }
            for (committed, mut wanted) in [
                (true, lists.purge),
                (false, lists.marks.iter().map(|&at| PurgeItem { at, rewound: true }).collect()),
            ] {
                wanted.sort_by_key(|purge| purge.at);
                let mut walk = PurgeWalk::new(&left, &rewinds, end, committed);
                let mut found = Vec::new();
                for (at, entry) in entries.iter().filter(|(at, _)| walk.at <= *at && *at < walk.end) {
                    let judge = PurgeWalk { at: *at, ..walk.clone() };
                    found.extend(judge.judge(&UndoRecord { owner: TxnId(2), prev: None, entry: *entry }));
                }
                walk.at = end;
                assert_eq!(found, wanted, "round {round}");
                assert_eq!(!wanted.is_empty(), if committed { left.any() } else { left.any_marks() });
            }
            for end in (0..end).step_by(5) {
                let reached = lists.rewinds.iter().all(|&(at, from)| end >= at || end <= from);
                assert_eq!(rewinds.reach(end), reached, "round {round}, {end}");
            }
        }
    }
}
