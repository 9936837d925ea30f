//! Scans that lock the rows that they pass, beside lookups that lock single rows, inserts and
//! deletes. A lock that two transactions think they have, a change that is lost and a row that
//! appears in a locked gap each end the run.

use super::key;
use crate::driver::{Driver, How, Txn};
use crate::engine::RowList;
use base::prng::Prng;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::sim::pause;
use millpond::{Cursor, Durability, Error, Isolation, LockWait, Result, RowLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Rows with even keys are always there, and count what was added to them. Between them others come
/// and go.
const ROWS: u64 = 6;
/// After about so many locks a transaction's rows join ranges also where it locks no gaps.
const MANY: u64 = 2_050;
/// Of [`Rows::held`]: a transaction has the row for update.
const FOR_UPDATE: u64 = u64::MAX;
const FREE: &str = "there is no conflict";

/// What the clients know of the rows with even keys.
struct Rows {
    /// Who has the row now: so many for share, or [`FOR_UPDATE`].
    held: [AtomicU64; ROWS as usize],
    /// What was added by transactions that committed.
    added: [AtomicU64; ROWS as usize],
}

impl Rows {
    /// The client has locked these rows. No other client may think the same of a row, unless both
    /// share it. No call of the database is made meanwhile: a victim of a deadlock loses its locks
    /// before it learns of that.
    fn hold(&self, shown: &RowList, exclusive: bool, us: u64) {
        let rows = || shown.iter().filter_map(|(key, _)| counted(key));
        for n in rows() {
            let held = &self.held[n];
            let is_free = match exclusive {
                true => held.swap(FOR_UPDATE, Ordering::AcqRel) == 0,
                false => held.fetch_add(1, Ordering::AcqRel) != FOR_UPDATE,
            };
            assert!(is_free, "row {n} is locked by two transactions");
        }
        pause(us);
        for n in rows() {
            let held = &self.held[n];
            let is_ours = match exclusive {
                true => held.swap(0, Ordering::AcqRel) == FOR_UPDATE,
                false => (1..FOR_UPDATE).contains(&held.fetch_sub(1, Ordering::AcqRel)),
            };
            assert!(is_ours, "row {n} is locked by two transactions");
        }
    }
}

/// Returns the place of a row that is always there.
fn counted(key: &[u8]) -> Option<usize> {
    let n: usize = str::from_utf8(&key[1..]).expect("digits").parse().expect("a number");
    n.is_multiple_of(2).then_some(n / 2)
}

fn count(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Runs `work` in new transactions until one commits. Returns what the last one returned.
fn commit<T>(d: &Driver, isolation: Isolation, mut work: impl FnMut(&mut Txn) -> Result<T>) -> T {
    loop {
        let mut tx = d.tx_with(How { isolation, durability: Durability::None });
        match work(&mut tx) {
            Ok(done) => {
                tx.commit();
                return done;
            }
            Err(Error::Deadlock) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// A scan that locks the rows that it shows.
#[derive(Clone, Copy)]
struct LockScan {
    lock: RowLock,
    wait: LockWait,
    /// From the last row to the first.
    backward: bool,
    /// It ends after so many rows.
    most: usize,
}

const SHARED: LockScan =
    LockScan { lock: RowLock::Shared, wait: LockWait::Wait, backward: false, most: usize::MAX };

impl LockScan {
    fn run(self, tx: &mut Txn, table: &str, keys: Range<&[u8]>) -> Result<RowList> {
        let mut cursor = Cursor::new(&tx.table(table)?);
        cursor.set_bounds(keys);
        cursor.set_lock(Some(self.lock), self.wait);
        let mut shown = RowList::new();
        while shown.len() < self.most {
            let next = if self.backward { cursor.prev(&mut tx.inner) } else { cursor.next(&mut tx.inner) };
            let Some((key, value)) = next? else { break };
            shown.push((key.to_vec(), value.to_vec()));
        }
        Ok(shown)
    }
}

/// Adds one to each counting row that a scan locks.
fn add(d: &Driver, rows: &Rows, rng: &mut Prng, isolation: Isolation, many: bool) {
    let backward = rng.one_in(2);
    let skips = isolation == Isolation::ReadCommitted && rng.one_in(3);
    let scan = LockScan {
        lock: RowLock::Exclusive,
        wait: if skips { LockWait::SkipLocked } else { LockWait::Wait },
        backward,
        most: if rng.one_in(3) { 3 } else { usize::MAX },
    };
    let (from, to) = (rng.below(ROWS), ROWS + rng.below(ROWS));
    let us = rng.below(300);
    let added = commit(d, isolation, |tx| {
        if many {
            let locked = SHARED.run(tx, "many", &key(0)..&key(MANY))?;
            assert!(locked.len() as u64 == MANY, "a scan shows {} rows", locked.len());
        }
        let shown = scan.run(tx, "t", &key(from)..&key(to))?;
        rows.hold(&shown, true, us);
        let mut added = Vec::new();
        for (key, value) in &shown {
            if let Some(n) = counted(key) {
                tx.put("t", key, &(count(value) + 1).to_be_bytes())?;
                added.push(n);
            }
        }
        Ok(added)
    });
    for n in added {
        rows.added[n].fetch_add(1, Ordering::AcqRel);
    }
}

/// Locks rows for share and reads them twice.
fn read_twice(d: &Driver, rows: &Rows, rng: &mut Prng, isolation: Isolation) {
    let scan = LockScan { backward: rng.one_in(2), ..SHARED };
    let (from, to) = (rng.below(ROWS), ROWS + rng.below(ROWS));
    let us = rng.below(300);
    commit(d, isolation, |tx| {
        let shown = scan.run(tx, "t", &key(from)..&key(to))?;
        rows.hold(&shown, false, us);
        let again = scan.run(tx, "t", &key(from)..&key(to))?;
        if isolation.locks_reads() {
            assert!(shown == again, "a locked range has changed");
        } else {
            assert!(shown.iter().all(|row| again.contains(row)), "a locked row has changed");
        }
        Ok(())
    });
}

/// Locks one row by its key and adds one to it.
fn add_to_one(d: &Driver, rows: &Rows, rng: &mut Prng) {
    let (n, us) = (rng.below(ROWS), rng.below(300));
    commit(d, Isolation::ReadCommitted, |tx| {
        let value = tx.get_for_update("t", &key(2 * n))?.expect("the row is always there");
        rows.hold(&vec![(key(2 * n), value.clone())], true, us);
        tx.put("t", &key(2 * n), &(count(&value) + 1).to_be_bytes())
    });
    rows.added[n as usize].fetch_add(1, Ordering::AcqRel);
}

/// Inserts rows between the others and deletes some.
fn come_and_go(d: &Driver, rng: &mut Prng) {
    let keys: Vec<_> = (0..rng.between(1, 3)).map(|_| 2 * rng.below(ROWS) + 1).collect();
    commit(d, Isolation::ReadCommitted, |tx| {
        for n in &keys {
            if !tx.insert("t", &key(*n), &0u64.to_be_bytes())? {
                tx.delete("t", &key(*n))?;
            }
        }
        Ok(())
    });
}

pub(super) fn scans(d: &Driver) {
    d.create("t");
    let mut tx = d.tx();
    (0..ROWS).for_each(|n| tx.put("t", &key(2 * n), &0u64.to_be_bytes()).expect(FREE));
    tx.commit();
    let many = d.rng(ROWS).one_in(4);
    if many {
        d.load("many", (0..MANY).map(|n| (key(n), Vec::new())).collect());
    }
    let [held, added] = [(); 2].map(|()| [const { AtomicU64::new(0) }; ROWS as usize]);
    let rows = Arc::new(Rows { held, added });
    let shared = Arc::clone(&rows);
    d.threads(8, move |d, id| {
        let mut rng = d.rng(id);
        for round in 0..4 {
            match id {
                0 => add(d, &shared, &mut rng, Isolation::Serializable, false),
                1 => add(d, &shared, &mut rng, Isolation::ReadCommitted, many && round == 2),
                2 => read_twice(d, &shared, &mut rng, Isolation::Serializable),
                3 => read_twice(d, &shared, &mut rng, Isolation::ReadCommitted),
                4..7 => add_to_one(d, &shared, &mut rng),
                _ => come_and_go(d, &mut rng),
            }
            pause(rng.below(200));
        }
    });
    let shown: BTreeMap<_, _> = d.tx().scan("t").expect("a snapshot").into_iter().collect();
    for (n, added) in rows.added.iter().enumerate() {
        let found = shown.get(&key(2 * n as u64)[..]).map(|value| count(value));
        assert!(found == Some(added.load(Ordering::Acquire)), "additions to row {n} are lost: {found:?}");
    }
}
