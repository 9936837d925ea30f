//! Rules about cost: how the work of an operation depends on what was written before. The tests
//! count delete marks that a scan passes, versions that a reader goes back, and reads of undo
//! files.

use super::history::HISTORY_BYTES;
use super::*;
use crate::LockWait;
use crate::txn::scan::{Next, Progress, Rows as Shown, ScanRange};

fn metric(db: &Db, name: &str) -> u64 {
    db.metrics().get(name).unwrap() as u64
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// How the next row of a queue is read.
#[derive(Clone, Copy, Debug)]
enum HeadRead {
    Range,
    Scan,
    ForUpdate,
    SkipLocked,
}

/// Returns the key of the first row, or of the last one.
fn head(tx: &mut Transaction, table: &Table, how: HeadRead, last: bool) -> Option<Vec<u8>> {
    let wait = if matches!(how, HeadRead::SkipLocked) { LockWait::SkipLocked } else { LockWait::Wait };
    let mut rows = match how {
        HeadRead::Range => tx.range(table, ..).unwrap(),
        HeadRead::Scan => {
            let mut first = None;
            tx.scan(table, .., |key, _| {
                first = Some(key.to_vec());
                std::ops::ControlFlow::Break(())
            })
            .unwrap();
            return first;
        }
        HeadRead::ForUpdate | HeadRead::SkipLocked => tx.range_for_update(table, .., wait).unwrap(),
    };
    let row = if last { rows.next_back() } else { rows.next() };
    row.map(|row| row.unwrap().0)
}

const LIVE: u32 = 50;

/// Takes `pops` rows from the head of a queue of fifty and appends as many, while a snapshot is
/// held. With `last`, takes them from the end and puts them in at the beginning. Returns how many
/// delete marks a pop passes on average in the last quarter.
fn marks_a_pop(isolation: Isolation, how: HeadRead, last: bool, pops: u32) -> u64 {
    let (_disk, db, t) = fresh();
    let name = |n: u32| key(if last { u32::MAX - n } else { n });
    let mut tx = db.begin().unwrap();
    (0..LIVE).for_each(|n| tx.insert(&t, &name(n), &[7; 20]).unwrap());
    tx.commit().unwrap();
    let held = db.begin().unwrap();
    assert_eq!(held.get(&t, &name(1)).unwrap(), Some(vec![7; 20]));
    let mut before = 0;
    for n in 0..pops {
        if n == pops - pops / 4 {
            before = metric(&db, "scan_marks");
        }
        let mut tx = db.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        assert_eq!(head(&mut tx, &t, how, last), Some(name(n).to_vec()));
        assert!(tx.delete(&t, &name(n)).unwrap());
        tx.insert(&t, &name(n + LIVE), &[7; 20]).unwrap();
        tx.commit().unwrap();
    }
    let marks = metric(&db, "scan_marks") - before;
    assert_eq!(held.range(&t, ..).unwrap().count(), LIVE as usize, "what the held snapshot sees");
    marks / u64::from(pops / 4)
}

#[test]
fn reading_the_head_of_a_queue_has_constant_cost() {
    for &isolation in Isolation::ALL.iter().filter(|level| !level.locks_reads()) {
        for how in [HeadRead::Range, HeadRead::Scan, HeadRead::ForUpdate, HeadRead::SkipLocked] {
            for last in [false, true] {
                if last && matches!(how, HeadRead::Scan) {
                    continue;
                }
                let marks = marks_a_pop(isolation, how, last, 1200);
                // A read from the end always reads the last leaf.
                let most = if last { 90 } else { 8 };
                assert!(marks <= most, "{marks} marks a pop: {isolation:?}, {how:?}, last {last}");
            }
        }
    }
}

/// Rows are put into a cleared range by transactions that commit and by others that roll back.
#[test]
fn a_row_put_into_a_cleared_range_is_found() {
    let (_disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..400).for_each(|n| tx.insert(&t, &key(n), b"v").unwrap());
    tx.commit().unwrap();
    let held = db.begin().unwrap();
    assert!(held.get(&t, &key(0)).unwrap().is_some());
    let mut tx = db.begin().unwrap();
    (0..390).for_each(|n| assert!(tx.delete(&t, &key(n)).unwrap()));
    tx.commit().unwrap();
    let first = |how| {
        let mut tx = db.begin().unwrap();
        (head(&mut tx, &t, how, false).unwrap(), head(&mut tx, &t, HeadRead::SkipLocked, false).unwrap())
    };
    let middle = |tx: &Transaction| tx.range(&t, &key(100)[..]..&key(300)[..]).unwrap().count();
    for how in [HeadRead::Range, HeadRead::Scan, HeadRead::SkipLocked] {
        assert_eq!(first(how), (key(390).to_vec(), key(390).to_vec()));
    }
    let before = metric(&db, "scan_marks");
    assert_eq!(first(HeadRead::Range).0, key(390));
    assert_eq!(metric(&db, "scan_marks"), before, "all of them were skipped");
    // A transaction that has not committed sees its own rows; others do not.
    let mut writer = db.begin().unwrap();
    writer.put(&t, &key(200), b"again").unwrap();
    assert_eq!(head(&mut writer, &t, HeadRead::Range, false).unwrap(), key(200));
    assert_eq!(middle(&writer), 1);
    assert_eq!(first(HeadRead::Range).0, key(390));
    let old = db.begin().unwrap();
    assert_eq!(middle(&old), 0);
    let savepoint = writer.savepoint();
    writer.put(&t, &key(201), b"again").unwrap();
    assert_eq!(middle(&writer), 2);
    writer.rollback_to(&savepoint).unwrap();
    assert_eq!(middle(&writer), 1);
    writer.commit().unwrap();
    assert_eq!((middle(&old), middle(&db.begin().unwrap())), (0, 1));
    assert_eq!(first(HeadRead::Range).0, key(200));
    // A transaction that rolls back.
    let mut writer = db.begin().unwrap();
    writer.put(&t, &key(50), b"never").unwrap();
    writer.rollback();
    assert_eq!(first(HeadRead::Scan).0, key(200));
    // A transaction that deletes the row again and rolls back, which restores the row.
    let mut writer = db.begin().unwrap();
    assert!(writer.delete(&t, &key(200)).unwrap());
    assert_eq!(head(&mut writer, &t, HeadRead::Range, false).unwrap(), key(390));
    assert_eq!(first(HeadRead::Range).0, key(200));
    writer.rollback();
    assert_eq!(first(HeadRead::Range).0, key(200));
    assert_eq!(held.range(&t, ..).unwrap().count(), 400);
}

/// Changes twenty rows again and again while a snapshot is held. Returns how many versions the
/// snapshot goes back for each row.
fn steps_of_an_old_reader(updates: u32) -> u64 {
    const ROWS: u32 = 20;
    HISTORY_BYTES.set(64 << 10);
    let (_disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..ROWS).for_each(|n| tx.insert(&t, &key(n), &[7; 40]).unwrap());
    tx.commit().unwrap();
    let held = db.begin().unwrap();
    assert!(held.get(&t, &key(0)).unwrap().is_some());
    let mut middle = None;
    for n in 0..updates {
        let mut tx = db.begin().unwrap();
        let mut value = [7; 40];
        value[(n % 30) as usize..][..4].copy_from_slice(&n.to_be_bytes());
        tx.put(&t, &key(n % ROWS), &value).unwrap();
        tx.commit().unwrap();
        if n % 200 == 199 {
            // Only durable transactions are moved to history batches.
            db.checkpoint().unwrap();
            while db.core.engine.txns.history_keeper().step().unwrap() {}
        }
        if n == updates / 2 {
            let tx = db.begin().unwrap();
            let rows = rows(&tx, &t);
            middle = Some((tx, rows));
        }
    }
    let before = metric(&db, "version_steps");
    assert!(held.range(&t, ..).unwrap().all(|row| row.unwrap().1 == [7; 40]));
    let steps = metric(&db, "version_steps") - before;
    let (tx, then) = middle.unwrap();
    assert_eq!(rows(&tx, &t), then);
    HISTORY_BYTES.set(0);
    steps / u64::from(ROWS)
}

#[test]
fn an_old_snapshot_reads_few_versions_of_a_hot_row() {
    let (some, many) = (steps_of_an_old_reader(2_000), steps_of_an_old_reader(8_000));
    assert!(some <= 40 && many <= 40, "{some} and {many} versions a row");
}

/// Rows are changed, deleted, put again and rolled back, while snapshots are taken and released.
/// Each snapshot always reads the rows of its own LSN, along versions, shortcuts or files.
#[test]
fn every_snapshot_keeps_its_view_during_random_changes() {
    for seed in 0..4 {
        let mut rng = Prng::new(seed);
        HISTORY_BYTES.set([128 << 10, 256 << 10][seed as usize % 2]);
        let (_disk, db, t) = fresh();
        let mut readers: Vec<(Transaction, Rows)> = Vec::new();
        for round in 0..1000u32 {
            let mut tx = db.begin().unwrap();
            for _ in 0..rng.between(1, 4) {
                let key = key(rng.below(12) as u32);
                let savepoint = tx.savepoint();
                if rng.below(4) == 0 {
                    tx.delete(&t, &key).unwrap();
                } else {
                    let mut value = tx.get(&t, &key).unwrap().unwrap_or_else(|| vec![0; 30]);
                    let at = rng.below(value.len() as u64 + 1) as usize;
                    let end = (at + rng.below(5) as usize).min(value.len());
                    value.splice(at..end, round.to_be_bytes()[..rng.below(5) as usize].iter().copied());
                    tx.put(&t, &key, &value).unwrap();
                }
                if rng.below(8) == 0 {
                    tx.rollback_to(&savepoint).unwrap();
                }
            }
            if rng.below(10) == 0 {
                tx.rollback();
            } else {
                tx.commit().unwrap();
            }
            if rng.below(30) == 0 {
                db.checkpoint().unwrap();
                while db.core.engine.txns.history_keeper().step().unwrap() {}
            }
            if rng.below(60) == 0 {
                let tx = db.begin().unwrap();
                let now = rows(&tx, &t);
                readers.push((tx, now));
            }
            if readers.len() > 6 {
                readers.swap_remove(rng.below(readers.len() as u64) as usize);
            }
            if rng.below(40) == 0 {
                for (tx, then) in &readers {
                    assert!(rows(tx, &t) == *then, "seed {seed}, round {round}");
                    let back: Rows = tx.range(&t, ..).unwrap().rev().map(Result::unwrap).collect();
                    assert!(back == *then, "seed {seed}, round {round}, backward");
                }
            }
        }
        HISTORY_BYTES.set(0);
    }
}

/// Returns in how many parts, each with its own descent, a scan passes 10,000 rows that an
/// uncommitted transaction has inserted or updated. Most of its undo is in files.
fn pieces_of_a_scan(update: bool) -> usize {
    const ROWS: u32 = 10_000;
    HISTORY_BYTES.set(256 << 10);
    let (_disk, db, t) = fresh();
    for part in 0..if update { 10 } else { 0 } {
        let mut tx = db.begin().unwrap();
        (0..ROWS / 10).for_each(|n| tx.insert(&t, &key(part * ROWS / 10 + n), &[7; 40]).unwrap());
        tx.commit().unwrap();
    }
    let mut writer = db.begin().unwrap();
    (0..ROWS).for_each(|n| writer.put(&t, &key(n), &[8; 40]).unwrap());
    while db.core.engine.txns.history_keeper().step().unwrap() {}
    let in_files = metric(&db, "undo_spilled_bytes") + metric(&db, "undo_hardened_bytes");
    assert!(!update || in_files > 128 << 10);
    let tx = db.begin().unwrap();
    let txns = &db.core.engine.txns;
    let (_inside, tree) = tx.enter_table(&t).unwrap();
    let (moment, _kept) = tx.read_position();
    let (mut rows, mut progress) = (Shown::default(), Progress::default());
    let (mut from, mut pieces, mut found) = (Vec::new(), 0, 0);
    loop {
        let view = txns.versions.view(moment, tx.txn().id());
        let next = txns
            .reader(tx.txn(), view)
            .scan_forward(ScanRange { tree, from: &from, to: None }, &mut progress, &mut rows)
            .unwrap();
        pieces += 1;
        found += rows.iter(&txns.store).filter(|row| row.is_ok()).count();
        match next {
            Next::At(key) => from = key,
            Next::End => break,
        }
    }
    assert_eq!(found, if update { ROWS as usize } else { 0 });
    HISTORY_BYTES.set(0);
    pieces
}

#[test]
fn a_scan_over_invisible_rows_descends_once_a_leaf() {
    let (inserted, updated) = (pieces_of_a_scan(false), pieces_of_a_scan(true));
    assert!(inserted < 500 && updated < 500, "{inserted} and {updated} pieces of 10,000 rows");
}
