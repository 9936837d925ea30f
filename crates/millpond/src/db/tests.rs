//! Tests of the public API on the simulated disk, where a power cut is a method call.

mod bulk_load;
mod came_and_went;
mod cost_rules;
mod counters;
mod cursors;
mod doublewrite;
mod drops;
mod figures;
mod full_disk;
mod growth;
mod history;
mod hogs;
mod idle;
mod limits;
mod locking;
mod locks;
mod long_values;
mod memory;
mod moves;
mod overtaken;
mod peeks;
mod pool_size;
mod power_cuts;
mod read_ahead;
mod rollback;
mod row_changes;
mod scan_locks;
mod scans;
mod serializable;
mod small_pool;
mod small_tables;
mod statements;
mod stopped;
mod table_changes;
mod two_phase;

use crate::error::Error;
use crate::options::{Options, Tuning};
use crate::{Db, Durability, Isolation, Table, Transaction, TxnOptions};
use base::prng::Prng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::Vfs;
use vfs::fault::FaultDisk;
use vfs::mem::{CrashChoice, MemDisk};

const DIR: &str = "/db";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let mut options =
        Options::new().page_bytes(4096).redo_capacity_bytes(4 << 20).lock_wait(Duration::from_millis(200));
    options.tuning = Tuning {
        segment_blocks: 64,
        ring_blocks: 64,
        grow_pages: 64,
        doublewrite_pages: 16,
        frames: 64,
        head_bytes: 200 << 10,
        ..Tuning::default()
    };
    // Its writes would fall between those that tests count, and into space that tests measure.
    let options = options.recorder_interval(Duration::ZERO);
    match history::HISTORY_BYTES.get() {
        0 => options,
        bytes => options.history_memory_bytes(bytes),
    }
}

fn open(disk: &MemDisk) -> Db {
    try_open(disk).unwrap()
}

fn try_open(disk: &MemDisk) -> crate::Result<Db> {
    // The machine's clock, so that lock waits time out. No test depends on its speed.
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    Db::open_on(&vfs, Path::new(DIR), &options())
}

fn fresh() -> (MemDisk, Db, Table) {
    let disk = MemDisk::default();
    let db = open(&disk);
    let table = db.create_table("t").unwrap();
    (disk, db, table)
}

/// The same on a disk that can fail and fill up.
fn fresh_with_faults() -> (FaultDisk, Db, Table) {
    let faults = FaultDisk::new(MemDisk::default().vfs(1).disk);
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: Vfs::os().clock };
    let db = Db::open_on(&vfs, Path::new(DIR), &options()).unwrap();
    let table = db.create_table("t").unwrap();
    (faults, db, table)
}

fn rows(tx: &Transaction, table: &Table) -> Rows {
    tx.range(table, ..).unwrap().map(Result::unwrap).collect()
}

fn all(db: &Db, name: &str) -> Rows {
    let table = db.open_table(name).unwrap();
    rows(&db.begin().unwrap(), &table)
}

fn text(value: Option<Vec<u8>>) -> String {
    value.map_or("-".to_owned(), |v| String::from_utf8(v).unwrap())
}

fn put(db: &Db, table: &Table, key: &[u8], value: &[u8]) {
    let mut tx = db.begin().unwrap();
    tx.put(table, key, value).unwrap();
    tx.commit().unwrap();
}

fn figure(db: &Db, name: &str) -> u64 {
    db.metrics().get(name).unwrap_or_else(|| panic!("no figure {name}")) as u64
}

/// Runs a scenario in two simulated worlds: it must pass in the one without a mistake, and fail in
/// the one with the bug planted. Returns that failure.
#[cfg(feature = "planted")]
fn failure_of(bug: crate::planted::Bug, scenario: fn()) -> String {
    use base::sync::sim::{WorldOptions, run};
    let in_a_world = |flags| {
        let options = WorldOptions { flags, max_steps: 60_000_000, ..WorldOptions::new(1) };
        run(options, scenario).result
    };
    in_a_world(0).unwrap_or_else(|failure| panic!("without a mistake: {failure}"));
    match in_a_world(bug.flag()) {
        Ok(()) => panic!("{bug:?} was not found"),
        Err(failure) => failure.to_string(),
    }
}

/// Waits until all ended transactions are purged, then checks the database and demands a clean
/// report.
fn purge_and_check(db: &Db) {
    let txns = &db.core.engine.txns;
    while txns.history_len() > 0 || txns.versions.streams().len() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn inserts_updates_and_deletes_of_one_row() {
    let (_disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    tx.insert(&t, b"k", b"one").unwrap();
    assert!(matches!(tx.insert(&t, b"k", b"two"), Err(Error::KeyExists)));
    assert_eq!(text(tx.get(&t, b"k").unwrap()), "one");
    tx.put(&t, b"k", b"three").unwrap();
    let receipt = tx.commit().unwrap();
    assert!(receipt.durable && receipt.lsn > 0 && receipt.batch_commits > 0);
    let stages = receipt.locks_us + receipt.admission_us + receipt.log_us + receipt.sync_us;
    assert_eq!(stages, receipt.total_us);
    let mut tx = db.begin().unwrap();
    assert_eq!(text(tx.get(&t, b"k").unwrap()), "three");
    assert!(tx.delete(&t, b"k").unwrap());
    assert!(!tx.delete(&t, b"k").unwrap());
    assert_eq!(text(tx.get(&t, b"k").unwrap()), "-");
    tx.insert(&t, b"k", b"again").unwrap();
    tx.rollback();
    assert_eq!(text(db.begin().unwrap().get(&t, b"k").unwrap()), "three");
    purge_and_check(&db);
}

#[test]
fn the_first_plain_read_takes_the_snapshot() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"k", b"1");
    let early = db.begin().unwrap();
    put(&db, &t, b"k", b"2");
    assert_eq!(text(early.get(&t, b"k").unwrap()), "2", "no read came before");
    put(&db, &t, b"k", b"3");
    put(&db, &t, b"new", b"x");
    assert_eq!(text(early.get(&t, b"k").unwrap()), "2");
    assert_eq!(rows(&early, &t).len(), 1);
    let committed = db.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted)).unwrap();
    assert_eq!(text(committed.get(&t, b"k").unwrap()), "3");
    put(&db, &t, b"k", b"4");
    assert_eq!(text(committed.get(&t, b"k").unwrap()), "4");
    drop((early, committed));
    purge_and_check(&db);
}

#[test]
fn the_first_updater_wins() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"k", b"1");
    let mut late = db.begin().unwrap();
    assert_eq!(text(late.get(&t, b"k").unwrap()), "1");
    put(&db, &t, b"k", b"2");
    put(&db, &t, b"unseen", b"x");
    let error = late.put(&t, b"k", b"3").unwrap_err();
    assert!(matches!(error, Error::WriteConflict) && error.is_retryable());
    assert!(matches!(late.get(&t, b"k"), Err(Error::Aborted)));
    assert!(matches!(late.commit(), Err(Error::Aborted)));
    let mut late = db.begin().unwrap();
    late.get(&t, b"k").unwrap();
    put(&db, &t, b"unseen too", b"x");
    assert!(matches!(late.insert(&t, b"unseen too", b"y"), Err(Error::WriteConflict)));
    // Without a snapshot a change applies to the newest data.
    let mut fresh = db.begin().unwrap();
    fresh.put(&t, b"k", b"4").unwrap();
    fresh.commit().unwrap();
    purge_and_check(&db);
}

#[test]
fn a_lock_wait_ends_with_the_lock_or_with_a_timeout() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"k", b"1");
    let mut first = db.begin().unwrap();
    assert_eq!(text(first.get_for_update(&t, b"k").unwrap()), "1");
    let mut second = db.begin().unwrap();
    second.put(&t, b"other", b"mine").unwrap();
    assert!(matches!(second.put(&t, b"k", b"2"), Err(Error::LockTimeout)));
    let waiter = std::thread::spawn({
        let (db, t) = (db.clone(), t.clone());
        move || {
            let mut tx = db.begin_with(TxnOptions::new().lock_wait(Duration::from_secs(20))).unwrap();
            let seen = tx.get_for_update(&t, b"k").unwrap();
            tx.put(&t, b"k", b"waited").unwrap();
            tx.commit().unwrap();
            seen
        }
    });
    first.put(&t, b"k", b"first").unwrap();
    first.commit().unwrap();
    assert_eq!(text(waiter.join().unwrap()), "first");
    second.commit().unwrap();
    assert_eq!(all(&db, "t").len(), 2);
    purge_and_check(&db);
}

#[test]
fn one_transaction_of_a_deadlock_is_rolled_back() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"a", b"0");
    put(&db, &t, b"b", b"0");
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
    let threads: Vec<_> = [(b"a", b"b"), (b"b", b"a")]
        .into_iter()
        .map(|(one, two)| {
            let (db, t, barrier) = (db.clone(), t.clone(), barrier.clone());
            std::thread::spawn(move || {
                let options = TxnOptions::new().lock_wait(Duration::from_secs(60));
                let mut tx = db.begin_with(options).unwrap();
                tx.put(&t, one, b"x").unwrap();
                barrier.wait();
                let result = tx.put(&t, two, b"x");
                let won = result.is_ok();
                match result {
                    Ok(()) => drop(tx.commit().unwrap()),
                    Err(e) => assert!(matches!(e, Error::Deadlock), "{e}"),
                }
                won
            })
        })
        .collect();
    let won: Vec<bool> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    purge_and_check(&db);
}

#[test]
fn savepoints_nest_and_locks_stay() {
    let (disk, db, t) = fresh();
    put(&db, &t, b"old", b"value");
    put(&db, &t, b"gone", b"value");
    let mut tx = db.begin().unwrap();
    tx.delete(&t, b"gone").unwrap();
    tx.put(&t, b"a", b"1").unwrap();
    let one = tx.savepoint();
    tx.put(&t, b"a", b"2").unwrap();
    tx.insert(&t, b"gone", b"back").unwrap();
    let two = tx.savepoint();
    tx.put(&t, b"old", &vec![b'x'; 9000]).unwrap();
    tx.delete(&t, b"a").unwrap();
    tx.rollback_to(&two).unwrap();
    assert_eq!(text(tx.get(&t, b"a").unwrap()), "2");
    tx.rollback_to(&one).unwrap();
    assert!(matches!(tx.rollback_to(&two), Err(Error::Misuse(_))));
    assert_eq!(
        (text(tx.get(&t, b"a").unwrap()), text(tx.get(&t, b"gone").unwrap())),
        ("1".into(), "-".into())
    );
    tx.put(&t, b"b", b"3").unwrap();
    tx.rollback_to(&one).unwrap();
    let mut other = db.begin().unwrap();
    assert!(matches!(other.rollback_to(&one), Err(Error::Misuse(_))));
    tx.commit().unwrap();
    drop(other);
    let expected: Rows = [(b"a".to_vec(), b"1".to_vec()), (b"old".to_vec(), b"value".to_vec())].into();
    assert_eq!(all(&db, "t"), expected);
    purge_and_check(&db);
    drop(db);
    assert_eq!(all(&open(&disk), "t"), expected);
}

#[test]
fn long_values_are_written_replaced_and_purged_with_their_pages() {
    let (_disk, db, t) = fresh();
    let long = |n: u8, len: usize| vec![n; len];
    let mut tx = db.begin().unwrap();
    for n in 0..10u8 {
        tx.put(&t, &[n], &long(n, 5000 + usize::from(n) * 3000)).unwrap();
    }
    assert!(matches!(tx.insert(&t, &[3], &long(9, 50_000)), Err(Error::KeyExists)));
    tx.commit().unwrap();
    purge_and_check(&db);
    let reader = db.begin().unwrap();
    assert_eq!(reader.get(&t, &[9]).unwrap(), Some(long(9, 32_000)));
    let mut tx = db.begin().unwrap();
    tx.put(&t, &[1], b"short now").unwrap();
    tx.delete(&t, &[2]).unwrap();
    tx.put(&t, &[3], &long(3, 7000)).unwrap();
    let savepoint = tx.savepoint();
    tx.put(&t, &[4], &long(44, 60_000)).unwrap();
    tx.rollback_to(&savepoint).unwrap();
    tx.commit().unwrap();
    let mut undone = db.begin().unwrap();
    undone.put(&t, &[5], &long(55, 10_000)).unwrap();
    undone.delete(&t, &[6]).unwrap();
    undone.rollback();
    for n in 0..10u8 {
        assert_eq!(reader.get(&t, &[n]).unwrap(), Some(long(n, 5000 + usize::from(n) * 3000)));
    }
    drop(reader);
    purge_and_check(&db);
    let now = all(&db, "t");
    assert_eq!(now.len(), 9);
    assert_eq!(
        (&now[&vec![1]][..], now[&vec![3]].len(), now[&vec![5]].len()),
        (&b"short now"[..], 7000, 20_000)
    );
}

#[test]
fn ranges_run_from_both_ends() {
    let (_disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    let mut model = Rows::new();
    for n in 0..600u32 {
        let (key, value) = (n.to_be_bytes().to_vec(), vec![n as u8; 40]);
        tx.put(&t, &key, &value).unwrap();
        model.insert(key, value);
    }
    for n in (0..600u32).step_by(3) {
        tx.delete(&t, &n.to_be_bytes()).unwrap();
        model.remove(n.to_be_bytes().as_slice());
    }
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    let forward: Vec<_> = tx.range(&t, ..).unwrap().map(Result::unwrap).collect();
    assert!(forward.iter().map(|(k, v)| (k, v)).eq(model.iter()));
    let backward: Vec<_> = tx.range(&t, ..).unwrap().rev().map(Result::unwrap).collect();
    assert!(backward.iter().rev().eq(forward.iter()));
    let (low, high) = (100u32.to_be_bytes(), 500u32.to_be_bytes());
    for (range, wanted) in [
        (tx.range(&t, &low[..]..&high[..]).unwrap(), model.range(low.to_vec()..high.to_vec())),
        (tx.range(&t, &low[..]..=&high[..]).unwrap(), model.range(low.to_vec()..=high.to_vec())),
    ] {
        assert!(range.map(Result::unwrap).eq(wanted.map(|(k, v)| (k.clone(), v.clone()))));
    }
    // Both ends meet in the middle; each row is returned once.
    let mut rng = Prng::new(5);
    let (mut range, mut front, mut back) = (tx.range(&t, ..).unwrap(), Vec::new(), Vec::new());
    loop {
        let end = rng.one_in(2);
        let Some(row) = (if end { range.next_back() } else { range.next() }) else { break };
        if end { back.push(row.unwrap()) } else { front.push(row.unwrap()) }
    }
    front.extend(back.into_iter().rev());
    assert_eq!(front, forward);
    assert_eq!(tx.range(&t, &high[..]..&low[..]).unwrap().count(), 0);
    drop_and_check(tx, &db);
}

fn drop_and_check(tx: Transaction, db: &Db) {
    drop(tx);
    purge_and_check(db);
}

#[test]
fn tables_are_made_renamed_and_dropped_durably() {
    let disk = MemDisk::default();
    let db = open(&disk);
    let a = db.create_table("a").unwrap();
    assert!(matches!(db.create_table("a"), Err(Error::TableExists { .. })));
    assert!(matches!(db.open_table("b"), Err(Error::NoSuchTable { .. })));
    assert!(matches!(db.create_table(""), Err(Error::Misuse(_))));
    put(&db, &a, b"k", b"v");
    db.rename_table("a", "b").unwrap();
    assert_eq!(a.name(), "b");
    put(&db, &a, b"k2", b"v");
    let c = db.create_table("c").unwrap();
    let mut user = db.begin().unwrap();
    user.put(&c, b"k", b"v").unwrap();
    assert!(matches!(db.drop_table("c"), Err(Error::LockTimeout)), "it is in use");
    user.rollback();
    for n in 0..2000u32 {
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
        tx.put(&c, &n.to_be_bytes(), &[1; 100]).unwrap();
        tx.commit().unwrap();
    }
    let before = db.metrics().get("free_pages").unwrap();
    db.drop_table("c").unwrap();
    assert!(db.metrics().get("free_pages").unwrap() > before);
    let mut tx = db.begin().unwrap();
    assert!(matches!(tx.put(&c, b"k", b"v"), Err(Error::NoSuchTable { .. })));
    drop(tx);
    assert_eq!(db.table_names().unwrap(), ["b"]);
    purge_and_check(&db);
    let image = disk.fork();
    drop(db);
    for disk in [disk, image] {
        let db = open(&disk);
        assert_eq!(db.table_names().unwrap(), ["b"]);
        assert_eq!(all(&db, "b").len(), 2);
        purge_and_check(&db);
    }
}

/// A transaction that has read a table uses it until its end, at every level and for every kind of
/// read; a prepared one until it is decided.
#[test]
fn a_table_in_use_cannot_be_dropped_or_renamed() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"k", b"v");
    let stays = |why: &str| {
        let dropped = db.drop_table("t");
        assert!(matches!(dropped, Err(Error::LockTimeout)), "{why}: {dropped:?}");
        let renamed = db.rename_table("t", "u");
        assert!(matches!(renamed, Err(Error::LockTimeout)), "{why}: {renamed:?}");
    };
    let reads: [&dyn Fn(&Transaction); 3] = [
        &|tx| assert!(tx.get(&t, b"k").unwrap().is_some()),
        &|tx| assert_eq!(tx.range(&t, ..).unwrap().count(), 1),
        &|tx| tx.scan(&t, .., |_, _| std::ops::ControlFlow::Break(())).unwrap(),
    ];
    for &isolation in Isolation::ALL {
        for (n, read) in reads.iter().enumerate() {
            let tx = db.begin_with(TxnOptions::new().isolation(isolation).read_only(n == 0)).unwrap();
            read(&tx);
            stays(&format!("{isolation:?}, read {n}"));
            tx.commit().unwrap();
        }
        let mut tx = db.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        assert!(tx.get_for_share(&t, b"k").unwrap().is_some());
        tx.prepare(b"x").unwrap();
        stays(&format!("{isolation:?}, prepared"));
        db.rollback_prepared(b"x").unwrap();
    }
    db.rename_table("t", "u").unwrap();
    db.drop_table("u").unwrap();
    assert!(matches!(db.begin().unwrap().get(&t, b"k"), Err(Error::NoSuchTable { .. })));
}

#[test]
fn a_hundred_tables_are_created_or_dropped_with_few_syncs() {
    // Small growth steps, or a pool with fewer frames than tables, would add syncs for each table.
    let mut options = Options::new().page_bytes(4096);
    options.tuning.frames = 1024;
    let db = Db::open_on(&MemDisk::default().vfs(1), Path::new(DIR), &options).unwrap();
    let names: Vec<String> = (0..100).map(|n| format!("table {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let syncs = || db.metrics().fsyncs_by_reason().into_iter().map(|f| f.1).sum::<u64>();
    let before = syncs();
    db.create_tables(&names).unwrap();
    let made = syncs() - before;
    let before = syncs();
    db.drop_tables(&names).unwrap();
    let dropped = syncs() - before;
    assert!(made <= 10 && dropped <= 10, "{made} syncs to create them, {dropped} to drop them");
    assert!(db.table_names().unwrap().is_empty());
    purge_and_check(&db);
}

#[test]
fn prepared_transactions_survive_a_crash() {
    let (disk, db, t) = fresh();
    let prepare = |name: &[u8]| {
        let mut tx = db.begin().unwrap();
        tx.put(&t, name, b"prepared").unwrap();
        tx.prepare(name).unwrap();
    };
    for name in [b"one", b"two", b"six"] {
        prepare(name);
    }
    assert!(matches!(db.begin().unwrap().prepare(b"one"), Err(Error::Misuse(_))));
    db.checkpoint().unwrap();
    db.commit_prepared(b"six").unwrap();
    let image = disk.fork();
    let db2 = open(&image);
    assert_eq!(db2.prepared().unwrap(), [b"one", b"two"]);
    let t2 = db2.open_table("t").unwrap();
    let mut tx = db2.begin().unwrap();
    assert!(matches!(tx.put(&t2, b"one", b"x"), Err(Error::LockTimeout)), "it is still locked");
    drop(tx);
    db2.commit_prepared(b"one").unwrap();
    db2.rollback_prepared(b"two").unwrap();
    assert!(matches!(db2.commit_prepared(b"two"), Err(Error::Misuse(_))));
    let left: Vec<_> = all(&db2, "t").into_keys().collect();
    assert_eq!(left, [b"one", b"six"]);
    purge_and_check(&db2);
    let third = open(&image.fork());
    assert!(third.prepared().unwrap().is_empty());
    assert_eq!(all(&third, "t").len(), 2);
}

#[test]
fn closing_rolls_open_transactions_back_and_ends_every_call() {
    let (disk, db, t) = fresh();
    put(&db, &t, b"k", b"kept");
    let mut open_tx = db.begin().unwrap();
    open_tx.put(&t, b"k", b"lost").unwrap();
    db.close().unwrap();
    assert!(matches!(db.close(), Err(Error::Closed)));
    assert!(matches!(open_tx.put(&t, b"k", b"x"), Err(Error::Closed)));
    assert!(matches!(open_tx.commit(), Err(Error::Closed)));
    assert!(matches!(db.begin(), Err(Error::Closed)));
    assert!(db.metrics().get("commits").unwrap() >= 1.0);
    let again = open(&disk);
    assert_eq!(again.metrics().get("recovery_redo_bytes"), Some(0.0));
    assert_eq!(text(again.begin().unwrap().get(&again.open_table("t").unwrap(), b"k").unwrap()), "kept");
    purge_and_check(&again);
    // A handle from an earlier opening does not belong to this database.
    assert!(matches!(again.begin().unwrap().get(&t, b"k"), Err(Error::Misuse(_))));
}

#[test]
fn a_commit_can_be_awaited_or_detached() {
    let (disk, db, t) = fresh();
    let mut futures = Vec::new();
    for n in 0..20u8 {
        let mut tx = db.begin().unwrap();
        tx.put(&t, &[n], b"v").unwrap();
        futures.push(tx.commit_async().unwrap());
    }
    drop(futures.split_off(10));
    for future in futures {
        assert!(future.wait().unwrap().durable);
    }
    while db.metrics().get("durable_lsn") < db.metrics().get("current_lsn") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(all(&open(&disk.fork()), "t").len(), 20, "also the commits whose futures were dropped");
}

#[test]
fn misuse_is_named_and_changes_nothing() {
    let (_disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    assert!(matches!(tx.put(&t, &[0; 897], b""), Err(Error::KeyTooLong { len: 897, max: 896 })));
    tx.put(&t, &[0; 896], b"").unwrap();
    tx.put(&t, b"", b"the empty key").unwrap();
    assert_eq!(text(tx.get(&t, b"").unwrap()), "the empty key");
    let mut reader = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert!(matches!(reader.put(&t, b"k", b"v"), Err(Error::Misuse(_))));
    drop(reader);
    tx.commit().unwrap();
    assert_eq!(all(&db, "t").len(), 2);
}
