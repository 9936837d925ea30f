//! The counters of tables across crashes.

use super::*;
use crate::{CounterLock, CounterStep};

const STEP: CounterStep = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };

/// Inserts a row with the next number.
fn numbered(db: &Db, t: &Table, durability: Durability) -> u64 {
    let mut tx = db.begin_with(TxnOptions::new().durability(durability)).unwrap();
    let id = t.take_values(STEP).unwrap().first;
    tx.raise_counter(t, id + 1).unwrap();
    tx.insert(t, &id.to_be_bytes(), &[7; 100]).unwrap();
    tx.commit().unwrap();
    id
}

fn greatest(db: &Db) -> u64 {
    all(db, "t").into_keys().next_back().map_or(0, |key| u64::from_be_bytes(key.try_into().unwrap()))
}

/// Whatever a power cut leaves: the counter is beyond every number that a row has. Checkpoints, a
/// second crash and closing keep it, also when the log before is gone.
#[test]
fn no_number_is_given_twice_whatever_a_crash_leaves() {
    let (disk, db, t) = fresh();
    let idle = db.create_table("idle").unwrap();
    db.raise_counter(&idle, 1000).unwrap();
    for n in 0..60 {
        numbered(&db, &t, if n % 3 == 0 { Durability::Sync } else { Durability::None });
        if n % 20 == 10 {
            db.checkpoint().unwrap();
        }
    }
    let end = disk.op_count();
    let (mut walk, mut states) = (disk.walk(), 0);
    while walk.step() && walk.at() <= end {
        if !walk.at().is_multiple_of(5) {
            continue;
        }
        for choice in [CrashChoice::None, CrashChoice::All, CrashChoice::Random(walk.at())] {
            let Ok(db) = try_open(&walk.image(choice)) else { continue };
            let Ok(t) = db.open_table("t") else { continue };
            assert!(t.next_value() > greatest(&db), "before operation {}, {choice:?}", walk.at());
            let last = greatest(&db);
            assert!(numbered(&db, &t, Durability::Sync) > last);
            states += 1;
        }
    }
    assert!(states > 20, "{states} states");
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop((db, t, idle));
    let db = open(&disk);
    assert_eq!(db.open_table("idle").unwrap().next_value(), 1000);
    assert_eq!((db.open_table("t").unwrap().next_value(), greatest(&db)), (61, 60));
    db.rename_table("t", "u").unwrap();
    db.drop_table("idle").unwrap();
    db.checkpoint().unwrap();
    drop(db);
    let db = open(&disk);
    assert_eq!(db.open_table("u").unwrap().next_value(), 61, "the counter goes with the table");
    assert_eq!(db.create_table("idle").unwrap().next_value(), 1, "a new table has a new one");
    purge_and_check(&db);
}

#[test]
fn many_threads_get_different_numbers() {
    let (_disk, db, t) = fresh();
    let work = || {
        let (db, t) = (db.clone(), t.clone());
        move || (0..100).map(|_| numbered(&db, &t, Durability::None)).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work())).collect();
    let mut taken: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, (1..=400).collect::<Vec<_>>());
    let mut reader = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert!(matches!(reader.raise_counter(&t, 1000), Err(Error::Misuse(_))));
    let other = Db::open_in_memory().unwrap();
    assert!(matches!(other.raise_counter(&t, 1000), Err(Error::Misuse(_))));
    assert!(matches!(other.begin().unwrap().raise_counter(&t, 5), Err(Error::Misuse(_))));
    assert_eq!(t.next_value(), 401);
}

/// Threads that load with the counter's lock, among threads that take single values.
#[test]
fn values_of_a_statement_that_locks_the_counter_are_consecutive() {
    const STATEMENTS: usize = 40;
    let (_disk, db, t) = fresh();
    let step = CounterStep { offset: 1, increment: 1, count: 2, max: u64::MAX };
    let waits = TxnOptions::new().lock_wait(Duration::from_secs(60));
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let (db, t) = (db.clone(), t.clone());
            std::thread::spawn(move || {
                let mut all = Vec::new();
                for _ in 0..STATEMENTS {
                    let mut tx = db.begin_with(waits).unwrap();
                    tx.begin_statement().unwrap();
                    let lock = if n < 2 { CounterLock::Always } else { CounterLock::IfLocked };
                    let mut of_statement = Vec::new();
                    for _ in 0..3 {
                        let taken = tx.take_values(&t, step, lock).unwrap().unwrap();
                        of_statement.extend(taken.first..taken.first + taken.count);
                        std::thread::yield_now();
                    }
                    if lock == CounterLock::Always {
                        assert!(of_statement.windows(2).all(|two| two[0] + 1 == two[1]), "{of_statement:?}");
                    }
                    all.extend(of_statement);
                    tx.end_statement();
                }
                all
            })
        })
        .collect();
    let mut all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=4 * STATEMENTS as u64 * 6).collect::<Vec<_>>());
}

/// The lock ends with the statement, with its rollback, and with the transaction.
#[test]
fn a_counters_lock_lasts_for_a_statement() {
    let (_disk, db, t) = fresh();
    let step = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };
    let options = TxnOptions::new().lock_wait(Duration::ZERO);
    let is_free = || {
        let mut other = db.begin_with(options).unwrap();
        match other.take_values(&t, step, CounterLock::IfLocked) {
            Err(Error::LockTimeout) => false,
            taken => taken.unwrap().is_some(),
        }
    };
    let mut tx = db.begin_with(options).unwrap();
    for ends in [Transaction::end_statement, |tx: &mut Transaction| tx.rollback_statement().unwrap()] {
        tx.begin_statement().unwrap();
        tx.lock_counter(&t, CounterLock::IfLocked).unwrap();
        assert!(is_free());
        tx.lock_counter(&t, CounterLock::Always).unwrap();
        tx.lock_counter(&t, CounterLock::Always).unwrap();
        assert!(tx.take_values(&t, step, CounterLock::IfLocked).unwrap().is_some());
        assert!(!is_free());
        ends(&mut tx);
        assert!(is_free());
    }
    tx.lock_counter(&t, CounterLock::Always).unwrap();
    assert!(!is_free());
    tx.rollback();
    assert!(is_free());
}

#[test]
fn a_deadlock_over_a_counter_is_found() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"a", b"1");
    let waits = TxnOptions::new().lock_wait(Duration::from_secs(60));
    let mut load = db.begin_with(waits).unwrap();
    load.begin_statement().unwrap();
    load.lock_counter(&t, CounterLock::Always).unwrap();
    let mut other = db.begin_with(waits).unwrap();
    other.put(&t, b"a", b"2").unwrap();
    let thread = std::thread::spawn({
        let t = t.clone();
        move || other.lock_counter(&t, CounterLock::IfLocked).map(|()| other)
    });
    let read = load.get_for_share(&t, b"a").map(drop);
    drop(load);
    let locked = thread.join().unwrap();
    let deadlocks = [read.err(), locked.err()].into_iter().flatten();
    assert!(deadlocks.map(|error| assert!(matches!(error, Error::Deadlock), "{error}")).count() == 1);
}
