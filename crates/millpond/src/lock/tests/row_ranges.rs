//! Ranges that lock the rows in them, shared or exclusively, with or without the gaps: scripts, and
//! any calls against a naive model.

use super::script::UPDATE;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn a_range_of_exclusive_locks_keeps_readers_of_its_rows_out_and_not_those_of_its_gaps() {
    check(
        "
        1 takes b..d
        2 S c nowait
        2 S c gap
        2 may-read c
        3 S a
        3 X c skip
        4 inserts c nowait
        1 X c
        show c
        6 S b
        7 S b
        1 end
        show c
        ",
        &expect![[r#"
            1 takes b..d
            2 S c nowait: Timeout
            2 S c gap: granted
            2 may-read c: false
            3 S a: granted
            3 X c skip: Skipped
            4 inserts c nowait: Timeout
            1 X c: granted
            show c: T2:S
            6 S b: waits
            7 S b: waits
            1 end:  [6 granted] [7 granted]
            show c: T2:S
        "#]],
    );
}

#[test]
fn rows_without_gaps_let_others_insert_between_them() {
    check(
        "
        1 takes-row X b
        1 takes-row X d c
        2 inserts c
        2 X b nowait
        2 S d nowait
        2 inserts d
        2 X d
        1 frees b
        2 X b
        3 takes-row S e
        2 S e
        2 X e
        3 frees e
        1 takes-row X b
        1 end
        3 end
        ",
        &expect![[r#"
            1 takes-row X b: true, new
            1 takes-row X d c: true, new
            2 inserts c: granted
            2 X b nowait: Timeout
            2 S d nowait: Timeout
            2 inserts d: granted
            2 X d: granted
            1 frees b: true
            2 X b: granted
            3 takes-row S e: true, new
            2 S e: granted
            2 X e: waits
            3 frees e: true [2 granted]
            1 takes-row X b: true, new
            1 end
            3 end
        "#]],
    );
}

#[test]
fn a_new_lock_is_told_from_one_that_the_transaction_had() {
    check(
        "
        1 takes-row S a
        1 takes-row X a
        1 takes-row S a
        1 X b
        1 takes-row X b
        1 frees b
        1 frees b
        1 frees c
        1 frees a
        2 X a
        ",
        &expect![[r#"
            1 takes-row S a: true, new
            1 takes-row X a: true
            1 takes-row S a: true
            1 X b: granted
            1 takes-row X b: true
            1 frees b: true
            1 frees b: true
            1 frees c: false
            1 frees a: true
            2 X a: granted
        "#]],
    );
}

/// As requests in a queue, those that wait for a range go in order: a scan that begins later lets
/// them go first, unless it gets along with them.
#[test]
fn a_scan_lets_those_go_first_that_it_would_keep_waiting() {
    check(
        "
        1 takes b..d
        2 S c
        3 scans a..e
        4 scans-x a..e
        5 scans-x a..b
        1 end
        2 S c
        show c
        2 end
        4 takes a..e
        4 end
        3 keeps a..e
        ",
        &expect![[r#"
            1 takes b..d
            2 S c: waits
            3 scans a..e: goes on
            4 scans-x a..e: waits
            5 scans-x a..b: goes on
            1 end:  [2 granted]
            2 S c: granted
            show c: T2:S
            2 end:  [4 granted]
            4 takes a..e
            4 end
            3 keeps a..e
        "#]],
    );
}

#[test]
fn a_cycle_over_two_exclusive_ranges_is_broken() {
    check(
        "
        1 takes a..c
        2 takes c..e
        1 works 5
        1 S d
        1 looks
        2 S b
        2 looks
        2 end
        1 S d
        ",
        &expect![[r#"
            1 takes a..c
            2 takes c..e
            1 works 5
            1 S d: waits
            1 looks
            2 S b: waits
            2 looks:  [2 deadlock]
            2 end:  [1 granted]
            1 S d: granted
        "#]],
    );
}

#[test]
fn what_is_released_early_goes_to_those_who_wait_for_it() {
    check(
        "
        1 takes-row X a
        1 takes-row X b a
        2 takes-row S d
        3 S b
        4 X d
        1 frees b
        3 S b
        2 frees d
        4 X d
        5 X a
        1 end
        ",
        &expect![[r#"
            1 takes-row X a: true, new
            1 takes-row X b a: true, new
            2 takes-row S d: true, new
            3 S b: waits
            4 X d: waits
            1 frees b: true [3 granted]
            3 S b: granted
            2 frees d: true [4 granted]
            4 X d: granted
            5 X a: waits
            1 end:  [5 granted]
        "#]],
    );
}

const KEYS: u8 = 12;
const TXNS: u64 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A scan that locks rows and gaps.
    Scan(u64, u8, u8, Mode),
    /// A scan that locks one row by a range; it follows the one before in the same transaction.
    Row(u64, u8, Mode, bool),
    Lock(u64, u8, Mode),
    /// Inserts, updates, or (if true) deletes.
    Change(u64, u8, bool),
    Free(u64, u8),
    End(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let mode = || prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    prop_oneof![
        4 => (1..=TXNS, 0..KEYS, 0..=KEYS, mode()).prop_map(|(t, a, b, m)| Step::Scan(t, a, b, m)),
        8 => (1..=TXNS, 0..KEYS, mode(), any::<bool>()).prop_map(|(t, k, m, j)| Step::Row(t, k, m, j)),
        6 => (1..=TXNS, 0..KEYS, mode()).prop_map(|(t, k, m)| Step::Lock(t, k, m)),
        8 => (1..=TXNS, 0..KEYS, any::<bool>()).prop_map(|(t, k, d)| Step::Change(t, k, d)),
        3 => (1..=TXNS, 0..KEYS).prop_map(|(t, k)| Step::Free(t, k)),
        2 => (1..=TXNS).prop_map(Step::End),
    ]
}

/// What one transaction has at one key.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    gap: bool,
    /// As a row in a range.
    row: Option<Mode>,
    /// In the key's queue.
    queue: Option<Mode>,
    /// The lock of the row in a range, or in the queue, was its first there.
    new: bool,
}

/// Rows, their uncommitted writers, and locks, key by key.
#[derive(Default)]
struct Model {
    rows: BTreeSet<u8>,
    writers: BTreeMap<u8, u64>,
    locks: BTreeMap<(u64, u8), Has>,
}

impl Model {
    fn of(&mut self, txn: u64, key: u8) -> &mut Has {
        self.locks.entry((txn, key)).or_default()
    }

    /// Returns whether `txn` gets the lock of a key that no other transaction has written.
    fn admits(&self, txn: u64, key: u8, mode: Mode) -> bool {
        let is_row = self.rows.contains(&key);
        let clashes = |held: Option<Mode>| held.is_some_and(|held| mode.conflicts(held));
        let others = self.locks.iter().filter(|((other, k), _)| *other != txn && *k == key);
        !others.map(|(_, has)| has).any(|has| {
            clashes(has.queue) || (mode == Mode::Exclusive && has.gap) || (is_row && clashes(has.row))
        })
    }

    fn is_written_by_other(&self, txn: u64, key: u8) -> bool {
        self.writers.get(&key).is_some_and(|writer| *writer != txn)
    }

    fn is_own(&self, txn: u64, key: u8) -> bool {
        self.writers.get(&key) == Some(&txn)
    }
}

/// A lock table beside its model.
struct World {
    table: LockTable,
    model: Model,
    /// The transactions that run in the slots, and the number of the last one.
    owners: BTreeMap<u64, Arc<Owner>>,
    last: u64,
    /// The row that a slot's scan locked last.
    place: BTreeMap<u64, u8>,
}

impl World {
    fn owner(&mut self, slot: u64) -> Arc<Owner> {
        let World { table, owners, last, .. } = self;
        let begin = || {
            *last += 1;
            table.begin(TxnId(*last))
        };
        Arc::clone(owners.entry(slot).or_insert_with(begin))
    }

    /// Locks a row of a scan. Returns `None` if it must wait, else whether a range has to cover it.
    fn row(&mut self, owner: &Arc<Owner>, key: u8, mode: Mode) -> Option<bool> {
        let txn = owner.txn.0;
        if self.model.is_written_by_other(txn, key) {
            return None;
        }
        if self.model.is_own(txn, key) {
            return Some(false);
        }
        let admitted = self.model.admits(txn, key, mode);
        if self.table.row_is_free(owner, TREE, &[key], mode, true) {
            assert!(admitted, "T{txn} may not have {key}");
            return Some(true);
        }
        let granted = self.table.enqueue(owner, TREE, &[key], KeyState::Row, mode, Wait::NoWait).is_ok();
        assert_eq!(granted, admitted, "T{txn} and {key}");
        if admitted {
            self.note_queue(owner, key, mode);
        }
        admitted.then_some(false)
    }

    /// Notes what a granted request has done in the model. If the transaction's range is the lock
    /// already, the queue has no entry.
    fn note_queue(&mut self, owner: &Owner, key: u8, mode: Mode) {
        let is_row = self.model.rows.contains(&key);
        let has = self.model.of(owner.txn.0, key);
        let range = if has.gap { Some(has.row.unwrap_or(Mode::Shared)) } else { has.row };
        if is_row && range.is_some_and(|range| range.covers(mode)) {
            return;
        }
        has.new |= owner.has_new_lock();
        has.queue = has.queue.max(Some(mode));
    }

    fn scan(&mut self, owner: &Arc<Owner>, from: u8, to: u8, mode: Mode) {
        let mut end = to;
        for key in from..to {
            if self.model.rows.contains(&key) || self.model.writers.contains_key(&key) {
                let deleted = !self.model.rows.contains(&key);
                if deleted && self.model.is_own(owner.txn.0, key) {
                    continue;
                }
                if deleted || self.row(owner, key, mode).is_none() {
                    end = key;
                    break;
                }
            }
        }
        let (first, last) = ([from], [end]);
        let range = KeyRange::new(TREE, &first, Some(&last));
        let locks = RangeMode { rows: mode, gaps: true };
        self.table.cover(owner, range, locks, ScanStart::NoYield, false).unwrap();
        for key in from..end {
            let has = self.model.of(owner.txn.0, key);
            has.gap = true;
            has.new = false;
            if mode == Mode::Exclusive {
                has.row = Some(mode);
            }
        }
    }

    fn cover_row(&mut self, slot: u64, owner: &Arc<Owner>, key: u8, mode: Mode, follows: bool) {
        if !self.model.rows.contains(&key) || self.row(owner, key, mode) != Some(true) {
            return;
        }
        // Between the row of the scan before and this one there must be no row that was left out.
        let before = self.place.insert(slot, key);
        let before = before.filter(|b| *b < key && !(b + 1..key).any(|k| self.model.rows.contains(&k)));
        let joins = before.filter(|_| follows).map(|before| [before, 0]);
        let row = RangeRow { tree: TREE, key: &[key], joins: joins.as_ref().map(|key| &key[..]) };
        assert!(self.table.cover_row(owner, row, mode, ScanStart::NoYield).unwrap());
        let had = {
            let has = self.model.of(owner.txn.0, key);
            let had = has.gap || has.row.is_some() || has.queue.is_some();
            has.row = has.row.max(Some(mode));
            has.new = !had;
            had
        };
        // A range that has grown may cover keys between that have no row. No result shows that.
        if let (Some(before), Some(_)) = (before, joins)
            && self.model.of(owner.txn.0, before).row.is_some()
        {
            for between in before + 1..key {
                let locked = self.model.of(owner.txn.0, before).row.is_some_and(|row| row.covers(mode));
                if locked {
                    let has = self.model.of(owner.txn.0, between);
                    has.row = has.row.max(Some(mode));
                }
            }
        }
        assert_eq!(owner.has_new_lock(), !had, "T{} and {key}", owner.txn);
    }

    fn change(&mut self, owner: &Arc<Owner>, key: u8, deletes: bool) {
        let txn = owner.txn.0;
        let is_row = self.model.rows.contains(&key);
        if self.model.is_written_by_other(txn, key) || (deletes && !is_row) {
            return;
        }
        let own = self.model.is_own(txn, key);
        let state = if own { KeyState::OwnVersion } else { KeyState::of(is_row) };
        let admitted = self.model.admits(txn, key, Mode::Exclusive);
        let claimed = self.table.claim(owner, TREE, &[key], state, Wait::NoWait);
        assert_eq!(claimed.is_ok(), admitted, "T{txn} changes {key}, {state:?}");
        if !admitted {
            return;
        }
        if !is_row && !own {
            let others = self.model.locks.iter_mut().filter(|((other, k), _)| *other != txn && *k == key);
            others.for_each(|(_, has)| has.row = None);
        }
        self.model.writers.insert(key, txn);
        if deletes {
            self.model.rows.remove(&key);
        } else {
            self.model.rows.insert(key);
        }
    }

    /// Releases a row early: only what was new there, and not changed.
    fn free(&mut self, owner: &Arc<Owner>, key: u8) {
        let txn = owner.txn.0;
        if !self.model.of(txn, key).new || self.model.is_own(txn, key) || self.model.of(txn, key).gap {
            return;
        }
        assert!(self.table.release_row(owner, TREE, &[key]), "T{txn} frees {key}");
        let has = self.model.of(txn, key);
        // The queue's entry goes first.
        if has.queue.take().is_none() {
            has.row = None;
        }
        has.new = false;
    }

    fn step(&mut self, step: Step) {
        let (Step::Scan(slot, ..)
        | Step::Row(slot, ..)
        | Step::Lock(slot, ..)
        | Step::Change(slot, ..)
        | Step::Free(slot, _)
        | Step::End(slot)) = step;
        let owner = self.owner(slot);
        owner.expect_new_lock();
        match step {
            Step::Scan(_, from, to, mode) => self.scan(&owner, from, to.max(from), mode),
            Step::Row(_, key, mode, follows) => self.cover_row(slot, &owner, key, mode, follows),
            Step::Lock(_, key, mode) => {
                if self.model.writers.contains_key(&key) {
                    return;
                }
                let state = KeyState::of(self.model.rows.contains(&key));
                let admitted = self.model.admits(owner.txn.0, key, mode);
                let granted = self.table.enqueue(&owner, TREE, &[key], state, mode, Wait::NoWait).is_ok();
                assert_eq!(granted, admitted, "{} locks {key} {mode:?}, {state:?}", owner.txn);
                if admitted {
                    self.note_queue(&owner, key, mode);
                }
            }
            Step::Change(_, key, deletes) => self.change(&owner, key, deletes),
            Step::Free(_, key) => self.free(&owner, key),
            Step::End(_) => {
                self.table.release_all(&owner);
                self.model.locks.retain(|(txn, _), _| *txn != owner.txn.0);
                self.model.writers.retain(|_, txn| *txn != owner.txn.0);
                self.owners.remove(&slot);
                self.place.remove(&slot);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1500 }))]

    /// Scans, rows, locks, changes, early releases and ends in any order: each is let through
    /// exactly when no lock of another transaction at the same key is in its way. The model knows
    /// keys, not ranges.
    #[test]
    fn ranges_let_through_what_locks_key_by_key_would(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World {
            table: table(),
            model: Model::default(),
            owners: BTreeMap::new(),
            last: 0,
            place: BTreeMap::new(),
        };
        for step in steps {
            world.step(step);
        }
        world.owners.values().for_each(|owner| world.table.release_all(owner));
        prop_assert_eq!((world.table.bytes(), world.table.held()), (0, 0));
    }
}

/// The locks of a scan take the same memory however many rows it passes, and a row that was left
/// out or released takes what a row takes.
#[test]
fn a_scan_of_many_rows_is_one_range_and_takes_a_few_hundred_bytes() {
    for (mode, gaps) in [(Mode::Shared, true), (Mode::Exclusive, true), (Mode::Exclusive, false)] {
        let table = table();
        let owner = table.begin(TxnId(1));
        let mut joins: Option<Vec<u8>> = None;
        for n in 0..100_000u64 {
            let (key, next) = (n.to_be_bytes(), (n + 1).to_be_bytes());
            if gaps {
                let range = KeyRange::new(TREE, &key, Some(&next));
                let locks = RangeMode { rows: mode, gaps };
                assert_eq!(table.cover(&owner, range, locks, ScanStart::NoYield, false), Ok(None));
            } else {
                let row = RangeRow { tree: TREE, key: &key, joins: joins.as_deref() };
                assert!(table.cover_row(&owner, row, mode, ScanStart::NoYield).unwrap());
                joins = Some([&key[..], &[0]].concat());
                // The row is not wanted, and given back.
                if n % 10_000 == 0 {
                    assert!(table.release_row(&owner, TREE, &key));
                }
            }
        }
        assert!(table.bytes() < 4_000, "{} bytes for {mode:?}, {gaps}", table.bytes());
        let other = table.begin(TxnId(2));
        for n in [1, 777, 99_999u64] {
            assert!(!table.row_is_free(&other, TREE, &n.to_be_bytes(), Mode::Exclusive, true));
        }
        assert_eq!(table.row_is_free(&other, TREE, &0u64.to_be_bytes(), Mode::Exclusive, true), !gaps);
        table.release_all(&owner);
        table.release_all(&other);
        assert_eq!(table.bytes(), 0);
    }
}

/// Where locks take all the memory that they may, a range still grows; a new one is refused. A row
/// that another transaction inserts into it is locked with the others then.
#[test]
fn a_full_table_of_locks_lets_ranges_grow() {
    let table = LockTable::new(Arc::<Ticking>::default(), 1);
    let (one, other) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    let cover = |owner, from: &[u8], to: &[u8]| {
        table.cover(owner, KeyRange::new(TREE, from, Some(to)), UPDATE, ScanStart::NoYield, false)
    };
    assert_eq!(cover(&one, b"a", b"b"), Ok(None));
    assert_eq!(cover(&one, b"b", b"d"), Ok(None));
    assert_eq!(cover(&one, b"x", b"y"), Err(Denied::Full));
    assert_eq!(cover(&other, b"x", b"y"), Err(Denied::Full));
    table.release_all(&one);
    table.release_all(&other);
    assert_eq!(table.bytes(), 0);
}
