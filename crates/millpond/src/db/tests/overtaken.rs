//! Transactions that overtake their snapshots: an index shows the entries of the rows that the
//! transaction sees, whatever others have changed meanwhile.

use super::*;
use crate::{EntryChange, EntryOp, EntryView, IndexCursor, RowOutcome, Seek};

const KEYS: u64 = 8;

/// Rows `[id] -> [k, u, v]` with two indexes: `[k, id] -> []`, and `[u] -> [id]`, which is unique.
struct World {
    db: Db,
    rows: Table,
    by_k: Table,
    by_u: Table,
}

/// An entry's key and value.
type Entry = (Vec<u8>, Vec<u8>);

impl World {
    fn new() -> World {
        let (_, db, rows) = fresh();
        let (by_k, by_u) = (db.create_table("k").unwrap(), db.create_table("u").unwrap());
        World { db, rows, by_k, by_u }
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        let options = TxnOptions::new().isolation(isolation).current_reads(true).lock_wait(Duration::ZERO);
        self.db.begin_with(options).unwrap()
    }

    /// Gives the row `id` a value, or deletes it: with the index entries that differ. Nothing
    /// happens where a lock or a unique key is in the way. Returns whether it was done.
    fn change(&self, tx: &mut Transaction, id: u8, new: Option<[u8; 3]>) -> bool {
        let Ok(old) = tx.get_for_update(&self.rows, &[id]) else { return false };
        let old: Option<[u8; 3]> = old.map(|bytes| bytes.try_into().unwrap());
        let entries = |row: Option<[u8; 3]>| {
            row.map(|[k, u, _]| [(&self.by_k, vec![k, id], vec![]), (&self.by_u, vec![u], vec![id])])
        };
        let (before, after) = (entries(old), entries(new));
        let mut changes = Vec::new();
        let id_key = [id];
        let value = new.unwrap_or_default();
        let op = match (old, new) {
            (None, None) => return false,
            (None, Some(_)) => EntryOp::Insert(&value),
            (Some(_), Some(_)) => EntryOp::Put(&value),
            (Some(_), None) => EntryOp::Delete,
        };
        changes.push(EntryChange { table: &self.rows, key: &id_key, op });
        for n in 0..2 {
            let (old, new) = (before.as_ref().map(|b| &b[n]), after.as_ref().map(|a| &a[n]));
            if old.map(|e| &e.1) == new.map(|e| &e.1) {
                continue;
            }
            if let Some((table, key, _)) = old {
                changes.push(EntryChange { table, key, op: EntryOp::Delete });
            }
            if let Some((table, key, value)) = new {
                changes.push(EntryChange { table, key, op: EntryOp::Insert(value) });
            }
        }
        matches!(tx.change_row(&changes, None), Ok(RowOutcome::Changed))
    }

    fn change_any(&self, tx: &mut Transaction, rng: &mut Prng) -> bool {
        let mut random = || rng.below(KEYS) as u8;
        let (id, k, u, v) = (random(), random(), random(), random());
        let keeps = rng.one_in(2);
        let old = if keeps { tx.get_for_update(&self.rows, &[id]).unwrap_or_default() } else { None };
        let new = match old {
            Some(old) => Some([old[0], old[1], v]),
            None if rng.one_in(4) => None,
            None => Some([k, u, v]),
        };
        self.change(tx, id, new)
    }

    /// Each index must show what the rows have that the transaction sees.
    fn check(&self, tx: &mut Transaction, rng: &mut Prng, what: &str) {
        let seen = rows(tx, &self.rows);
        let of_k = seen.iter().map(|(id, row)| (vec![row[0], id[0]], vec![])).collect();
        let of_u = seen.iter().map(|(id, row)| (vec![row[1]], id.clone())).collect();
        self.check_index(tx, rng, &self.by_k, of_k, what);
        self.check_index(tx, rng, &self.by_u, of_u, what);
    }

    fn check_index(
        &self,
        tx: &mut Transaction,
        rng: &mut Prng,
        index: &Table,
        mut wanted: Vec<Entry>,
        what: &str,
    ) {
        wanted.sort();
        let mut cursor = IndexCursor::new(index, &self.rows);
        let forward = self.shown(tx, &mut cursor, false);
        assert_eq!(forward, wanted, "{what}");
        let mut backward = self.shown(tx, &mut cursor, true);
        backward.reverse();
        assert_eq!(backward, wanted, "{what}, backward");
        self.walk(tx, rng, &mut cursor, &wanted, what);
    }

    fn shown(&self, tx: &mut Transaction, cursor: &mut IndexCursor, backward: bool) -> Vec<Entry> {
        let mut shown = Vec::new();
        let mut entry = self.wanted(tx, cursor, Move::Seek(if backward { Seek::Last } else { Seek::First }));
        while let Some(found) = entry {
            shown.push(found);
            entry = self.wanted(tx, cursor, Move::Step { backward });
        }
        shown
    }

    /// Moves the cursor, and on until an entry is to be shown.
    fn wanted(&self, tx: &mut Transaction, cursor: &mut IndexCursor, how: Move<'_>) -> Option<Entry> {
        let mut how = how;
        loop {
            let (found, backward) = match how {
                Move::Seek(to) => {
                    let back = matches!(to, Seek::Last | Seek::Before(_) | Seek::AtOrBefore(_));
                    (cursor.seek(tx, to), back)
                }
                Move::Step { backward: false } => (cursor.next(tx), false),
                Move::Step { backward: true } => (cursor.prev(tx), true),
            };
            let (key, value) = found.unwrap()?;
            let (key, value) = (key.to_vec(), value.to_vec());
            let id = if value.is_empty() { &key[1..] } else { &value };
            if tx.shows(cursor.view(), &self.rows, id).unwrap() {
                return Some((key, value));
            }
            how = Move::Step { backward };
        }
    }

    /// Goes to and fro from a random place.
    fn walk(
        &self,
        tx: &mut Transaction,
        rng: &mut Prng,
        cursor: &mut IndexCursor,
        wanted: &[Entry],
        what: &str,
    ) {
        let key = [rng.below(KEYS) as u8];
        let (to, mut at) = match rng.below(2) {
            0 => (Seek::AtOrAfter(&key), wanted.iter().position(|entry| entry.0[..] >= key[..])),
            _ => (Seek::Before(&key), wanted.iter().rposition(|entry| entry.0[..] < key[..])),
        };
        let mut found = self.wanted(tx, cursor, Move::Seek(to));
        for _ in 0..8 {
            assert_eq!(found.as_ref(), at.map(|at| &wanted[at]), "{what}, after {to:?}");
            let Some(place) = at else { return };
            let backward = rng.one_in(2);
            found = self.wanted(tx, cursor, Move::Step { backward });
            at = match backward {
                false => Some(place + 1).filter(|&at| at < wanted.len()),
                true => place.checked_sub(1),
            };
        }
    }
}

#[derive(Clone, Copy)]
enum Move<'k> {
    Seek(Seek<'k>),
    Step { backward: bool },
}

/// What happened while a transaction and others took turns.
struct Seen {
    /// The transaction has overtaken its snapshot.
    overtakes: bool,
    /// Undo went to files.
    spills: bool,
}

/// A transaction whose changes alternate with commits of others.
fn alternate(seed: u64, isolation: Isolation) -> Seen {
    let rng = &mut Prng::new(seed);
    let world = World::new();
    let mut other = world.begin(Isolation::ReadCommitted);
    for _ in 0..12 {
        world.change_any(&mut other, rng);
    }
    other.commit().unwrap();
    let mut tx = world.begin(isolation);
    tx.begin_statement().unwrap();
    rows(&tx, &world.rows);
    let mut other = world.begin(Isolation::ReadCommitted);
    let mut savepoint = tx.savepoint();
    let mut overtakes = false;
    for step in 0..30 {
        match rng.below(12) {
            0..4 => {
                world.change_any(&mut tx, rng);
            }
            4..9 => {
                world.change_any(&mut other, rng);
            }
            9 => {
                std::mem::replace(&mut other, world.begin(Isolation::ReadCommitted)).commit().unwrap();
            }
            10 => {
                savepoint = tx.savepoint();
            }
            _ if rng.one_in(3) => tx.rollback_to(&savepoint).unwrap(),
            _ => {
                world.db.core.engine.txns.history_keeper().step().unwrap();
            }
        }
        world.check(&mut tx, rng, &format!("seed {seed}, step {step}"));
        overtakes |= tx.has_overtaken(&world.by_u, &world.rows);
    }
    tx.commit().unwrap();
    other.commit().unwrap();
    // The next one has a snapshot of its own.
    let mut tx = world.begin(Isolation::RepeatableRead);
    world.check(&mut tx, rng, &format!("seed {seed}, at the end"));
    assert!(!tx.has_overtaken(&world.by_u, &world.rows));
    drop(tx);
    purge_and_check(&world.db);
    let spills = world.db.metrics().get("undo_spilled_bytes").unwrap() > 0.0;
    Seen { overtakes, spills }
}

#[test]
fn an_index_shows_the_versions_of_rows_that_the_transaction_sees() {
    // With 4 KiB the bookkeeping of two transactions exceeds the budget, now and then: then a
    // snapshot expires, and rightly.
    for history_bytes in [0, 6 << 10] {
        history::HISTORY_BYTES.set(history_bytes);
        let seen: Vec<_> = (0..60).map(|seed| alternate(seed, Isolation::RepeatableRead)).collect();
        let overtakes = seen.iter().filter(|seen| seen.overtakes).count();
        assert!(overtakes > 20, "{overtakes} transactions have overtaken their snapshots");
        let spills = seen.iter().filter(|seen| seen.spills).count();
        assert!(history_bytes == 0 || spills > 20, "undo of {spills} databases went to files");
    }
    history::HISTORY_BYTES.set(0);
}

#[test]
fn a_statement_at_read_committed_may_overtake_its_snapshot_too() {
    let overtakes = (100..130).filter(|&seed| alternate(seed, Isolation::ReadCommitted).overtakes).count();
    assert!(overtakes > 10, "{overtakes} statements have overtaken their snapshots");
}

/// A lock changes nothing, so the row stays unseen.
#[test]
fn a_locking_read_overtakes_nothing() {
    let world = World::new();
    let tx = world.begin(Isolation::RepeatableRead);
    assert!(rows(&tx, &world.rows).is_empty());
    let mut other = world.begin(Isolation::RepeatableRead);
    assert!(world.change(&mut other, 1, Some([1, 1, 1])));
    other.commit().unwrap();
    let mut tx = tx;
    assert!(tx.get_for_update(&world.rows, &[1]).unwrap().is_some());
    assert!(!tx.has_overtaken(&world.by_k, &world.rows));
    let mut cursor = IndexCursor::new(&world.by_k, &world.rows);
    assert_eq!(cursor.seek(&mut tx, Seek::First).unwrap(), None);
}

/// A cursor that stands somewhere goes on from there when its transaction overtakes its snapshot,
/// and when another transaction uses it.
#[test]
fn a_cursor_goes_on_where_the_snapshot_is_overtaken() {
    let world = World::new();
    let mut other = world.begin(Isolation::RepeatableRead);
    for id in [1, 3, 5] {
        assert!(world.change(&mut other, id, Some([id, id, 0])));
    }
    other.commit().unwrap();
    let mut tx = world.begin(Isolation::RepeatableRead);
    let mut cursor = IndexCursor::new(&world.by_u, &world.rows);
    assert_eq!(cursor.seek(&mut tx, Seek::AtOrAfter(&[3])).unwrap(), Some((&[3][..], &[3][..])));
    let mut other = world.begin(Isolation::RepeatableRead);
    assert!(world.change(&mut other, 4, Some([4, 4, 0])));
    assert!(world.change(&mut other, 2, Some([2, 2, 0])));
    other.commit().unwrap();
    assert!(world.change(&mut tx, 4, Some([4, 4, 1])));
    assert_eq!(cursor.next(&mut tx).unwrap(), Some((&[4][..], &[4][..])));
    assert_eq!(cursor.view(), EntryView::Present);
    assert_eq!(cursor.prev(&mut tx).unwrap(), Some((&[3][..], &[3][..])));
    assert_eq!(cursor.view(), EntryView::Any);
    assert_eq!(cursor.prev(&mut tx).unwrap(), Some((&[2][..], &[2][..])));
    assert!(!tx.shows(cursor.view(), &world.rows, &[2]).unwrap());
    tx.commit().unwrap();
    let mut next = world.begin(Isolation::RepeatableRead);
    assert_eq!(cursor.next(&mut next).unwrap(), Some((&[3][..], &[3][..])));
    assert_eq!(cursor.next(&mut next).unwrap(), Some((&[4][..], &[4][..])));
    assert_eq!(cursor.view(), EntryView::Any);
}
