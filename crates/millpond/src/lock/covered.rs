//! What the ranges of one transaction in one tree keep others from. Pure.
//!
//! A range locks the rows in it, shared or exclusively, and mostly the gaps between them too. The
//! gaps are locked against new rows only: any number of transactions may hold the same gap. So
//! three sets are enough: the keys whose rows and gaps stay as they are, and the keys whose rows
//! are locked shared or exclusively. A range of the second kind says nothing about keys without a
//! row.

use super::Mode;
use super::range::RangeSet;

/// How a range locks its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeMode {
    /// The lock of each row.
    pub(crate) rows: Mode,
    /// No other transaction can insert a row.
    pub(crate) gaps: bool,
}

impl RangeMode {
    /// The lock of a read that must stay as it is: rows and gaps do not change.
    #[cfg(any(test, loom))]
    pub(crate) const READ: RangeMode = RangeMode { rows: Mode::Shared, gaps: true };
}

/// What the leaf has for a key that a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyState {
    /// A row, which is not deleted.
    Row,
    /// No row, or a deleted one.
    NoRow,
    /// An uncommitted version of the transaction that asks. No other transaction has a lock there.
    OwnVersion,
}

impl KeyState {
    /// The state of a key that has a row of another transaction, or none.
    pub(crate) fn of(has_row: bool) -> KeyState {
        if has_row { KeyState::Row } else { KeyState::NoRow }
    }
}

/// What a transaction asks for at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) mode: Mode,
    pub(super) state: KeyState,
}

impl Want {
    /// Returns whether a range of this mode keeps it waiting.
    pub(super) fn blocked_by(self, range: RangeMode) -> bool {
        match (self.mode, self.state) {
            (_, KeyState::OwnVersion) => false,
            (Mode::Shared, KeyState::NoRow) => false,
            (Mode::Exclusive, KeyState::NoRow) => range.gaps,
            (mode, KeyState::Row) => mode.conflicts(range.rows),
        }
    }
}

/// The ranges of one transaction in one tree.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Rows and gaps stay as they are.
    all: RangeSet,
    /// Rows are locked shared.
    shared: RangeSet,
    /// Rows are locked exclusively.
    exclusive: RangeSet,
}

impl Covered {
    /// Adds the keys from `from` on and below `to`.
    pub(super) fn add(&mut self, from: &[u8], to: Option<&[u8]>, mode: RangeMode) {
        if mode.gaps {
            self.all.add(from, to);
        }
        if let Some(rows) = self.rows_of(mode) {
            rows.add(from, to);
        }
    }

    /// Returns the set of rows that a range of this mode needs besides `all`, which locks its rows
    /// shared.
    fn rows_of(&mut self, mode: RangeMode) -> Option<&mut RangeSet> {
        match mode.rows {
            Mode::Exclusive => Some(&mut self.exclusive),
            Mode::Shared if mode.gaps => None,
            Mode::Shared => Some(&mut self.shared),
        }
    }

    /// Adds the row of `key` alone, whose least greater key is `after`. If a range ends (or
    /// begins, for a scan in falling order) at the boundary `joins`, it grows: no row of another
    /// kind lies between. Returns false, and adds nothing, if `only_grows` and there is no such
    /// range.
    pub(super) fn add_row(
        &mut self,
        key: &[u8],
        after: &[u8],
        joins: Option<&[u8]>,
        rows: Mode,
        only_grows: bool,
    ) -> bool {
        let Some(set) = self.rows_of(RangeMode { rows, gaps: false }) else { return true };
        match joins {
            Some(place) if place <= key && set.ends_at(place) => set.add(place, Some(after)),
            Some(place) if place >= after && set.begins_at(place) => set.add(key, Some(place)),
            _ if only_grows => return false,
            _ => set.add(key, Some(after)),
        }
        true
    }

    /// Returns whether adding these keys takes next to no memory: ranges only grow.
    pub(super) fn grows(&mut self, from: &[u8], to: Option<&[u8]>, mode: RangeMode) -> bool {
        let all = !mode.gaps || self.all.touches(from, to);
        all && self.rows_of(mode).is_none_or(|rows| rows.touches(from, to))
    }

    /// Returns whether another transaction that wants this must wait.
    pub(super) fn blocks(&self, key: &[u8], want: Want) -> bool {
        match (want.mode, want.state) {
            (_, KeyState::OwnVersion) | (Mode::Shared, KeyState::NoRow) => false,
            (Mode::Shared, KeyState::Row) => self.exclusive.covers(key),
            (Mode::Exclusive, KeyState::NoRow) => self.all.covers(key),
            (Mode::Exclusive, KeyState::Row) => self.covers(key),
        }
    }

    /// Returns whether the lock of one of these rows, wanted by another transaction, may have to
    /// wait.
    pub(super) fn may_block(&self, from: &[u8], to: Option<&[u8]>, mode: Mode) -> bool {
        let sets: &[&RangeSet] = match mode {
            Mode::Shared => &[&self.exclusive],
            Mode::Exclusive => &[&self.all, &self.shared, &self.exclusive],
        };
        sets.iter().any(|set| set.touches(from, to))
    }

    /// Returns whether a range covers `key`, in whatever way.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.all.covers(key) || self.shared.covers(key) || self.exclusive.covers(key)
    }

    /// Returns whether the ranges lock a row of this key at least so.
    pub(super) fn locks_row(&self, key: &[u8], mode: Mode) -> bool {
        match mode {
            Mode::Shared => self.covers(key),
            Mode::Exclusive => self.exclusive.covers(key),
        }
    }

    /// Takes one key, whose least greater key is `after`, out of the ranges that lock rows.
    /// Returns whether it was in one. REQUIRES: the key has no row, or the transaction no longer
    /// wants its lock.
    pub(super) fn cut_row(&mut self, key: &[u8], after: &[u8]) -> bool {
        let shared = self.shared.covers(key) && self.shared.cut(key, after);
        let exclusive = self.exclusive.covers(key) && self.exclusive.cut(key, after);
        shared || exclusive
    }

    fn sets(&self) -> [&RangeSet; 3] {
        [&self.all, &self.shared, &self.exclusive]
    }

    /// The ranges, with the lock of their rows, and whether gaps are locked.
    pub(super) fn list(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>, Mode, bool)> {
        let all = self.all.iter().map(|(from, to)| (from, to, Mode::Shared, true));
        let shared = self.shared.iter().map(|(from, to)| (from, to, Mode::Shared, false));
        let exclusive = self.exclusive.iter().map(|(from, to)| (from, to, Mode::Exclusive, false));
        all.chain(shared).chain(exclusive)
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.sets().iter().map(|set| set.len()).sum()
    }

    /// Memory that the ranges take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.sets().iter().map(|set| set.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::KeyState::{NoRow, OwnVersion, Row};
    use super::Mode::{Exclusive, Shared};
    use super::*;

    /// Each wish against each kind of range, both as a set and as a range that is about to be
    /// added.
    #[test]
    fn what_a_range_keeps_others_from() {
        let wants = [(Shared, Row), (Shared, NoRow), (Exclusive, Row), (Exclusive, NoRow)];
        for (rows, gaps, expected) in [
            (Shared, true, [false, false, true, true]),
            (Exclusive, true, [true, false, true, true]),
            (Shared, false, [false, false, true, false]),
            (Exclusive, false, [true, false, true, false]),
        ] {
            let (mode, mut covered) = (RangeMode { rows, gaps }, Covered::default());
            covered.add(b"b", Some(b"d"), mode);
            let want = |(mode, state)| Want { mode, state };
            assert_eq!(wants.map(|w| covered.blocks(b"c", want(w))), expected, "{mode:?}");
            assert_eq!(wants.map(|w| want(w).blocked_by(mode)), expected, "{mode:?}");
            assert_eq!(wants.map(|w| covered.blocks(b"d", want(w))), [false; 4], "{mode:?}");
            for mode in [Shared, Exclusive] {
                assert!(!covered.blocks(b"c", want((mode, OwnVersion))));
                let may = wants.iter().zip(expected).any(|(w, waits)| *w == (mode, Row) && waits);
                assert_eq!(covered.may_block(b"a", Some(b"c"), mode), may);
            }
            assert_eq!([Shared, Exclusive].map(|m| covered.locks_row(b"c", m)), [true, rows == Exclusive]);
        }
    }

    /// Rows that follow each other make one range, in both directions. A row that was left out, or
    /// released, parts it.
    #[test]
    fn rows_without_gaps_grow_one_range() {
        for falling in [false, true] {
            let mut covered = Covered::default();
            let mut keys: Vec<u16> = (0..1000).collect();
            if falling {
                keys.reverse();
            }
            let mut joins: Option<Vec<u8>> = None;
            for n in keys {
                let (key, after) = (n.to_be_bytes(), [&n.to_be_bytes()[..], &[0]].concat());
                if n == 500 {
                    joins = None;
                    continue;
                }
                assert!(covered.add_row(
                    &key,
                    &after,
                    joins.as_deref(),
                    Exclusive,
                    joins.is_some() && n % 2 == 0
                ));
                joins = Some(if falling { key.to_vec() } else { after.clone() });
                if n == 700 {
                    assert!(covered.cut_row(&key, &after));
                }
            }
            assert_eq!(covered.len(), 3);
            let locked = (0..1000u16).filter(|n| covered.locks_row(&n.to_be_bytes(), Exclusive));
            assert_eq!(locked.count(), 998);
        }
    }
}
