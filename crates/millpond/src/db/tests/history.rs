//! Little memory for undo: undo moves to files and is read back when needed.

use super::*;
use std::cell::Cell;
use std::io::ErrorKind;
use vfs::fault::{Fault, FaultRule, OpKind};

thread_local! {
    /// `history_memory_bytes` of the databases that the test opens; 0: the default.
    pub(super) static HISTORY_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Runs `test` with so little memory that nearly all undo goes to files.
fn small(test: impl Fn()) {
    for bytes in [4 << 10, 16 << 10] {
        HISTORY_BYTES.set(bytes);
        test();
    }
    HISTORY_BYTES.set(0);
}

/// Everything works as with enough memory.
#[test]
fn rows_with_little_memory_for_undo() {
    small(inserts_updates_and_deletes_of_one_row);
    small(the_first_plain_read_takes_the_snapshot);
    small(the_first_updater_wins);
    small(savepoints_nest_and_locks_stay);
    small(long_values_are_written_replaced_and_purged_with_their_pages);
    small(ranges_run_from_both_ends);
}

#[test]
fn ends_of_transactions_with_little_memory_for_undo() {
    small(one_transaction_of_a_deadlock_is_rolled_back);
    small(prepared_transactions_survive_a_crash);
    small(closing_rolls_open_transactions_back_and_ends_every_call);
    small(a_commit_can_be_awaited_or_detached);
}

#[test]
fn power_cuts_with_little_memory_for_undo() {
    small(power_cuts::every_power_cut_leaves_whole_transactions);
}

fn step(db: &Db) {
    db.core.engine.txns.history_keeper().step().unwrap();
}

fn metric(db: &Db, name: &str) -> u64 {
    db.metrics().get(name).unwrap() as u64
}

/// The disk after a power cut now.
fn cut(disk: &MemDisk, choice: CrashChoice) -> MemDisk {
    let (mut walk, end) = (disk.walk(), disk.op_count());
    while walk.at() < end && walk.step() {}
    walk.image(choice)
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// A transaction with far more undo than memory has room for. Others read meanwhile, a part is
/// rolled back, then `end` ends it.
fn large(end: impl FnOnce(&Db, Transaction)) -> (MemDisk, Db, Table) {
    HISTORY_BYTES.set(64 << 10);
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..1000).for_each(|n| tx.put(&t, &key(n), &[1; 100]).unwrap());
    tx.commit().unwrap();
    let before = all(&db, "t");
    let mut tx = db.begin().unwrap();
    for n in 0..3000 {
        tx.put(&t, &key(n % 1500), &vec![n as u8; 60 + n as usize % 90]).unwrap();
    }
    let savepoint = tx.savepoint();
    let there = rows(&tx, &t);
    for n in 0..2000 {
        match n % 3 {
            0 => drop(tx.delete(&t, &key(n)).unwrap()),
            _ => tx.put(&t, &key(n), b"short").unwrap(),
        }
    }
    step(&db);
    assert!(metric(&db, "undo_bytes") < 64 << 10, "{}", metric(&db, "undo_bytes"));
    assert!(metric(&db, "undo_file_bytes") > 200 << 10);
    assert_eq!(all(&db, "t"), before);
    assert!(metric(&db, "undo_fetches") > 0);
    assert_eq!(rows(&db.begin().unwrap(), &t).into_iter().rev().collect::<Vec<_>>(), backward(&db, &t));
    tx.rollback_to(&savepoint).unwrap();
    assert_eq!(rows(&tx, &t), there);
    end(&db, tx);
    HISTORY_BYTES.set(0);
    (disk, db, t)
}

fn backward(db: &Db, t: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let tx = db.begin().unwrap();
    tx.range(t, ..).unwrap().rev().map(Result::unwrap).collect()
}

#[test]
fn a_large_transaction_commits() {
    let (_disk, db, t) = large(|_, tx| assert!(tx.commit().unwrap().durable));
    assert_eq!(rows(&db.begin().unwrap(), &t).len(), 1500);
    purge_and_check(&db);
    step(&db);
    db.checkpoint().unwrap();
    put(&db, &t, b"more", b"");
    db.checkpoint().unwrap();
    step(&db);
    assert!(metric(&db, "undo_file_bytes") < 64 << 10, "{}", metric(&db, "undo_file_bytes"));
}

#[test]
fn a_large_transaction_rolls_back() {
    let (_disk, db, t) = large(|_, tx| tx.rollback());
    purge_and_check(&db);
    let found = rows(&db.begin().unwrap(), &t);
    assert!(found.len() == 1000 && found.values().all(|value| *value == [1; 100]));
}

#[test]
fn a_large_prepared_transaction_survives_a_crash() {
    for commits in [true, false] {
        let (disk, db, _) = large(|db, tx| {
            tx.prepare(b"x").unwrap();
            db.checkpoint().unwrap();
        });
        let image = cut(&disk, CrashChoice::None);
        drop(db);
        HISTORY_BYTES.set(64 << 10);
        let db = open(&image);
        HISTORY_BYTES.set(0);
        assert_eq!(all(&db, "t").len(), 1000);
        match commits {
            true => db.commit_prepared(b"x").unwrap(),
            false => db.rollback_prepared(b"x").unwrap(),
        }
        purge_and_check(&db);
        assert_eq!(all(&db, "t").len(), if commits { 1500 } else { 1000 });
    }
}

#[test]
fn a_large_transaction_is_reverted_after_a_crash() {
    let (disk, db, _) = large(|db, tx| {
        db.checkpoint().unwrap();
        std::mem::forget(tx);
    });
    let image = cut(&disk, CrashChoice::None);
    drop(db);
    HISTORY_BYTES.set(64 << 10);
    let db = open(&image);
    HISTORY_BYTES.set(0);
    purge_and_check(&db);
    assert!(all(&db, "t").values().all(|value| *value == [1; 100]));
}

/// Snapshots are taken every few commits and held, while the undo that they need moves to history
/// batches.
#[test]
fn old_snapshots_read_undo_from_history_batches() {
    HISTORY_BYTES.set(64 << 10);
    let (_disk, db, t) = fresh();
    let (mut model, mut held, mut rng) = (Rows::new(), Vec::new(), Prng::new(1));
    for n in 0..2000 {
        let mut tx = db.begin().unwrap();
        for _ in 0..rng.between(1, 3) {
            let key = key(rng.below(50));
            if rng.one_in(4) {
                tx.delete(&t, &key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![n as u8; rng.below(40) as usize];
                tx.put(&t, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        tx.commit().unwrap();
        if n % 100 == 7 || (500..505).contains(&n) {
            let reader = db.begin().unwrap();
            assert_eq!(rows(&reader, &t), model);
            held.push((reader, model.clone()));
        }
        if rng.one_in(20) {
            step(&db);
        }
    }
    let history = metric(&db, "history_transactions");
    assert!(history > 1500 && metric(&db, "undo_bytes") < 64 << 10, "{history} transactions in the history");
    assert!(db.core.engine.txns.versions.streams().len() < 160);
    while !held.is_empty() {
        for (reader, model) in &held {
            assert_eq!(rows(reader, &t), *model);
            let key = key(rng.below(50));
            assert_eq!(reader.get(&t, &key).unwrap(), model.get(&key).cloned());
        }
        held.remove(rng.below(held.len() as u64) as usize);
    }
    purge_and_check(&db);
    assert_eq!(metric(&db, "history_transactions"), 0);
    HISTORY_BYTES.set(0);
}

/// History batches are purged after a crash, and do not come back.
#[test]
fn history_batches_are_purged_after_a_crash() {
    [false, true].into_iter().for_each(purged_after_a_crash);
}

/// `each`: history is moved to files after each commit, so that there are many small batches.
fn purged_after_a_crash(each: bool) {
    // Undo takes twice this. Batches of one transaction each, made by a step after every commit,
    // take less: with 4 KiB they took more, and the reader's snapshot expired.
    HISTORY_BYTES.set(64 << 10);
    let (disk, db, t) = fresh();
    (0..300).for_each(|n| put(&db, &t, &key(n), &[1; 5000]));
    let reader = db.begin().unwrap();
    assert_eq!(rows(&reader, &t).len(), 300);
    for n in 0..300 {
        let mut tx = db.begin().unwrap();
        match n % 2 {
            0 => drop(tx.delete(&t, &key(n)).unwrap()),
            _ => tx.put(&t, &key(n), b"short").unwrap(),
        }
        tx.commit().unwrap();
        if each {
            step(&db);
        }
    }
    step(&db);
    assert_eq!(metric(&db, "snapshots_too_old"), 0);
    assert!(!db.core.engine.txns.versions.history_batches().list().is_empty());
    assert_eq!(db.check().unwrap().rows, 150, "deleted rows that the reader still sees are no rows");
    db.checkpoint().unwrap();
    let images = [cut(&disk, CrashChoice::None), cut(&disk, CrashChoice::All)];
    drop((reader, db));
    for image in images {
        let db = open(&image);
        purge_and_check(&db);
        let report = db.check().unwrap();
        assert_eq!((report.rows, report.unreachable_pages), (150, Some(0)), "{report}");
        db.checkpoint().unwrap();
        drop(db);
        let db = open(&image);
        assert!(db.core.engine.txns.versions.history_batches().is_empty());
        purge_and_check(&db);
    }
    HISTORY_BYTES.set(0);
}

#[test]
fn a_snapshot_that_needs_too_much_undo_expires() {
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let options = options().history_memory_bytes(8 << 10).history_disk_bytes(300 << 10);
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let t = db.create_table("t").unwrap();
    (0..50).for_each(|n| put(&db, &t, &key(n), &[1; 3000]));
    let mut old = db.begin().unwrap();
    assert_eq!(rows(&old, &t).len(), 50);
    put(&db, &t, b"between", b"x");
    let young = db.begin().unwrap();
    assert_eq!(rows(&young, &t).len(), 51);
    let scanned = old.range(&t, ..).unwrap();
    drop(scanned);
    let mut rounds = 0;
    while metric(&db, "snapshots_too_old") == 0 {
        rounds += 1;
        assert!(rounds < 100_000);
        put(&db, &t, &key(rounds % 40), &vec![rounds as u8; 300]);
    }
    let error = old.get(&t, &key(1)).unwrap_err();
    assert!(matches!(error, Error::SnapshotTooOld) && !error.is_retryable(), "{error}");
    assert!(matches!(old.range(&t, ..).unwrap().next(), Some(Err(Error::SnapshotTooOld))));
    assert!(matches!(old.put(&t, &key(45), b"x"), Err(Error::SnapshotTooOld)));
    assert!(matches!(old.get_for_update(&t, &key(45)), Err(Error::SnapshotTooOld)));
    let scan = old.scan(&t, .., |_, _| std::ops::ControlFlow::Continue(()));
    assert!(matches!(scan, Err(Error::SnapshotTooOld)));
    drop((old, young));
    purge_and_check(&db);
    for _ in 0..3 {
        step(&db);
        put(&db, &t, b"between", b"y");
        db.checkpoint().unwrap();
    }
    // Two growing files stay until replacing them pays off.
    assert!(metric(&db, "undo_file_bytes") < 600 << 10, "{}", metric(&db, "undo_file_bytes"));
}

/// A database whose disk can be made to fail, with a transaction that has much undo.
fn faulty() -> (FaultDisk, MemDisk, Db, Table, Transaction) {
    let disk = MemDisk::default();
    let faults = FaultDisk::new(disk.vfs(1).disk);
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: Vfs::os().clock };
    let options = Options { tuning: Tuning { frames: 2000, ..options().tuning }, ..options() };
    let db = Db::open_on(&vfs, Path::new(DIR), &options.history_memory_bytes(64 << 10)).unwrap();
    let t = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    (0..1000).for_each(|n| tx.put(&t, &key(n), &[1; 100]).unwrap());
    tx.commit().unwrap();
    let mut tx = db.begin().unwrap();
    (0..1000).for_each(|n| tx.put(&t, &key(n), &[2; 100]).unwrap());
    step(&db);
    (faults, disk, db, t, tx)
}

#[test]
fn unreadable_undo_fails_only_the_reads_that_need_it() {
    let (faults, _disk, db, t, tx) = faulty();
    let refused = Fault::Refused(ErrorKind::Other);
    faults.fail(FaultRule { kind: OpKind::Read, nth: 1, for_ever: true, fault: refused });
    let error = db.begin().unwrap().get(&t, &key(3)).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /db/undo/"), "{error}");
    put(&db, &t, b"another", b"row");
    faults.heal();
    assert_eq!(db.begin().unwrap().get(&t, &key(3)).unwrap(), Some(vec![1; 100]));
    tx.rollback();
    purge_and_check(&db);
    assert_eq!(all(&db, "t").len(), 1001);
}

#[test]
fn a_full_disk_refuses_changes_and_loses_nothing() {
    let (faults, _disk, db, t, mut tx) = faulty();
    faults.limit_space("/db/undo", 0);
    let mut done = 0;
    let error = loop {
        match tx.put(&t, &key(done % 1000), &[3; 100]) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 100_000, "memory never fills");
    };
    assert!(matches!(&error, Error::DiskFull { file } if file.starts_with("/db/undo")), "{error}");
    assert!(metric(&db, "undo_bytes") < 3 * (64 << 10), "{}", metric(&db, "undo_bytes"));
    faults.heal();
    tx.put(&t, &key(0), b"last").unwrap();
    tx.commit().unwrap();
    assert_eq!(all(&db, "t").len(), 1000);
    assert_eq!(db.begin().unwrap().get(&t, &key(0)).unwrap(), Some(b"last".to_vec()));
    purge_and_check(&db);
}

#[test]
fn a_failed_write_of_undo_poisons_and_reopening_recovers() {
    let (faults, disk, db, t, mut tx) = faulty();
    let refused = Fault::Refused(ErrorKind::Other);
    faults.fail(FaultRule { kind: OpKind::Write, nth: 1, for_ever: true, fault: refused });
    let failed = (0..100_000).find_map(|n| tx.put(&t, &key(n % 1000), &[3; 100]).err());
    assert!(matches!(failed, Some(Error::Poisoned { .. })), "{failed:?}");
    drop((tx, db));
    let db = open(&cut(&disk, CrashChoice::All));
    purge_and_check(&db);
    assert!(all(&db, "t").values().all(|value| *value == [1; 100]));
}

/// Recovery rebuilds, from redo, the undo that no checkpoint has hardened. What does not fit into
/// memory goes to files while the log is still being read.
#[test]
fn recovery_stays_within_the_memory_for_undo() {
    const MEMORY: u64 = 64 << 10;
    HISTORY_BYTES.set(MEMORY);
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..1000).for_each(|n| tx.put(&t, &key(n), &[1; 100]).unwrap());
    tx.commit().unwrap();
    db.checkpoint().unwrap();
    let mut tx = db.begin().unwrap();
    (0..3000).for_each(|n| tx.put(&t, &key(n % 1000), &[n as u8; 100]).unwrap());
    // Makes all of that durable.
    put(&db, &t, b"other", b"");
    let image = cut(&disk, CrashChoice::None);
    let mut before = all(&db, "t");
    drop(tx);

    let vfs = Vfs { clock: Vfs::os().clock, ..image.vfs(1) };
    let engine = crate::engine::Engine::open(&vfs, Path::new(DIR), &options()).unwrap();
    let streams = engine.txns.versions.streams();
    let undo: u64 = streams.list().iter().map(|stream| stream.end()).sum();
    assert!(undo > 4 * MEMORY, "{undo} bytes of undo");
    assert!(streams.bytes() <= MEMORY, "{} bytes of it in memory", streams.bytes());
    // As if killed: these files are not hardened undo, and the next recovery makes them again.
    drop(engine);
    let db = open(&image);
    purge_and_check(&db);
    before.insert(b"other".to_vec(), Vec::new());
    assert!(all(&db, "t") == before);
    db.checkpoint().unwrap();
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
    HISTORY_BYTES.set(0);
}

/// Many transactions that delete one row each have little undo, but recovery keeps a record for
/// each. These records must fit into the memory too.
#[test]
fn recovery_of_many_small_transactions_stays_within_the_memory() {
    const MEMORY: u64 = 256 << 10;
    const ROWS: u64 = 4000;
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..ROWS).for_each(|n| tx.put(&t, &key(n), b"v").unwrap());
    tx.commit().unwrap();
    db.close().unwrap();
    let (mut options, vfs) = (options(), Vfs { clock: Vfs::os().clock, ..disk.vfs(1) });
    // Nothing is purged.
    options.tuning.no_threads = true;
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let t = db.open_table("t").unwrap();
    for n in 0..ROWS - 1 {
        let mut tx = db.begin_with(crate::TxnOptions::new().durability(crate::Durability::None)).unwrap();
        assert!(tx.delete(&t, &key(n)).unwrap());
        tx.commit().unwrap();
    }
    put(&db, &t, b"other", b"");
    let image = cut(&disk, CrashChoice::None);

    let vfs = Vfs { clock: Vfs::os().clock, ..image.vfs(1) };
    let options = options.history_memory_bytes(MEMORY);
    let engine = crate::engine::Engine::open(&vfs, Path::new(DIR), &options).unwrap();
    let figures = engine.metrics();
    let figure = |name: &str| figures.get(name).unwrap() as u64;
    // Memory has room for about half of them, so the others went to files. How many those are
    // depends on how far purge is by now.
    assert!(figure("undo_spilled_bytes") > ROWS, "{}", figure("undo_spilled_bytes"));
    assert!(figure("undo_bytes") <= MEMORY, "{} bytes in memory", figure("undo_bytes"));
    // The checkpoint lists them. After a power cut they are purged by the next opening.
    engine.checkpoint().unwrap();
    let image = cut(&image, CrashChoice::None);
    drop(engine);
    let db = open(&image);
    purge_and_check(&db);
    let left: Vec<_> = all(&db, "t").into_keys().collect();
    assert_eq!(left, [key(ROWS - 1).to_vec(), b"other".to_vec()]);
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
}
