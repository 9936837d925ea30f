//! Locking reads with `NoWait` and `SkipLocked`.

use super::*;
use crate::LockWait::{NoWait, SkipLocked, Wait};

fn jobs(count: u8) -> (MemDisk, Db, Table) {
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    for n in 0..count {
        tx.insert(&t, &[n], b"job").unwrap();
    }
    tx.commit().unwrap();
    (disk, db, t)
}

fn keys(range: crate::Result<crate::Range<'_>>) -> Vec<u8> {
    range.unwrap().map(|row| row.unwrap().0[0]).collect()
}

#[test]
fn a_nowait_read_fails_without_ending_its_transaction() {
    let (_disk, db, t) = jobs(3);
    let mut holder = db.begin().unwrap();
    holder.put(&t, &[0], b"changed").unwrap(); // locked by its version
    holder.get_for_share(&t, &[1]).unwrap(); // locked by a request
    for &level in Isolation::ALL {
        let mut tx = db.begin_with(TxnOptions::new().isolation(level)).unwrap();
        assert!(matches!(tx.get_for_update_with(&t, &[0], NoWait), Err(Error::LockTimeout)));
        assert!(matches!(tx.get_for_share_with(&t, &[0], NoWait), Err(Error::LockTimeout)));
        assert!(matches!(tx.get_for_update_with(&t, &[1], NoWait), Err(Error::LockTimeout)));
        assert!(tx.get_for_share_with(&t, &[1], NoWait).unwrap().is_some());
        let mut rows = tx.range_for_update(&t, .., NoWait).unwrap();
        assert!(matches!(rows.next(), Some(Err(Error::LockTimeout))) && rows.next().is_none());
        drop(rows);
        assert!(tx.get_for_update_with(&t, &[2], NoWait).unwrap().is_some());
        tx.put(&t, &[2], b"goes on").unwrap();
        tx.rollback();
    }
}

#[test]
fn locked_rows_are_skipped() {
    let (_disk, db, t) = jobs(6);
    let mut holder = db.begin().unwrap();
    holder.put(&t, &[0], b"changed").unwrap();
    holder.get_for_update(&t, &[2]).unwrap();
    holder.delete(&t, &[3]).unwrap();
    holder.insert(&t, &[9], b"not yet").unwrap();
    for &level in Isolation::ALL {
        let mut tx = db.begin_with(TxnOptions::new().isolation(level)).unwrap();
        assert_eq!(tx.get_for_update_with(&t, &[0], SkipLocked).unwrap(), None);
        assert_eq!(keys(tx.range_for_update(&t, .., SkipLocked)), [1, 4, 5], "{level:?}");
        let backward = tx.range_for_share(&t, .., SkipLocked).unwrap().rev().map(|row| row.unwrap().0[0]);
        assert_eq!(backward.collect::<Vec<_>>(), [5, 4, 1]);
        // Skipped rows are not locked, and neither are the gaps between the rows.
        holder.put(&t, &[0], b"again").unwrap();
        let mut third = db.begin().unwrap();
        third.insert(&t, &[8, 1], b"").unwrap();
        assert_eq!(keys(third.range_for_update(&t, ..&[8][..], SkipLocked)), []);
        third.rollback();
        tx.rollback();
    }
}

#[test]
fn a_locking_range_locks_only_the_rows_it_returned() {
    let (_disk, db, t) = jobs(6);
    let mut tx = db.begin().unwrap();
    let (front, back) = {
        let mut rows = tx.range_for_update(&t, .., Wait).unwrap();
        (rows.next().unwrap().unwrap().0[0], rows.next_back().unwrap().unwrap().0[0])
    };
    assert_eq!((front, back), (0, 5));
    let mut other = db.begin().unwrap();
    assert_eq!(keys(other.range_for_update(&t, .., SkipLocked)), [1, 2, 3, 4]);
}

/// Several workers take jobs from one table. Each job is done once, and no worker waits.
#[test]
fn a_table_works_as_a_queue_for_many_workers() {
    const JOBS: u8 = 120;
    for &level in Isolation::ALL {
        let (_disk, db, t) = jobs(JOBS);
        let done: Vec<u8> = std::thread::scope(|scope| {
            let work = || {
                let options = TxnOptions::new().isolation(level).durability(Durability::None);
                let mut done = Vec::new();
                loop {
                    let mut tx = db.begin_with(options).unwrap();
                    let job = tx.range_for_update(&t, .., SkipLocked).unwrap().next();
                    let Some(job) = job else { return done };
                    let (key, _) = job.unwrap();
                    assert!(tx.delete(&t, &key).unwrap());
                    tx.commit().unwrap();
                    done.push(key[0]);
                }
            };
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
        });
        let mut sorted = done.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..JOBS).collect::<Vec<_>>(), "{level:?}");
        assert_eq!(db.metrics().get("deadlocks"), Some(0.0));
        assert_eq!(db.metrics().get("lock_waits"), Some(0.0), "{level:?}");
    }
}

#[test]
fn a_lock_wait_of_zero_never_waits() {
    let (_disk, db, t) = jobs(2);
    let mut holder = db.begin().unwrap();
    holder.put(&t, &[0], b"").unwrap();
    let mut tx = db.begin_with(TxnOptions::new().lock_wait(Duration::ZERO)).unwrap();
    assert!(matches!(tx.put(&t, &[0], b""), Err(Error::LockTimeout)));
    assert!(matches!(tx.get_for_update(&t, &[0]), Err(Error::LockTimeout)));
    tx.put(&t, &[1], b"").unwrap();
    tx.commit().unwrap();
    assert_eq!(db.metrics().get("lock_waits"), Some(0.0));
}

#[test]
fn a_locking_range_finds_a_newer_version() {
    let (_disk, db, t) = jobs(3);
    let mut tx = db.begin().unwrap();
    tx.get(&t, &[9]).unwrap();
    put(&db, &t, &[1], b"newer");
    let mut rows = tx.range_for_share(&t, .., Wait).unwrap();
    assert!(rows.next().unwrap().is_ok());
    assert!(matches!(rows.next(), Some(Err(Error::WriteConflict))) && rows.next().is_none());
    drop(rows);
    assert!(matches!(tx.get(&t, &[0]), Err(Error::Aborted)));
    let mut tx = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert!(matches!(tx.range_for_update(&t, .., Wait), Err(Error::Misuse(_))));
}

/// Transactions that wait for a row hold no space in the log. (Once their admitted space kept the
/// row's holder from finishing, and all of them stood still until the waits timed out.)
#[test]
fn a_transaction_that_waits_for_a_row_holds_no_log_space() {
    const WAITERS: u8 = 8;
    const OP: u64 = 1 + 100 + 128;
    let mut options = options().lock_wait(Duration::from_secs(20));
    // The test sets the limits of admission itself.
    options.tuning.no_threads = true;
    let vfs = Vfs { clock: Vfs::os().clock, ..MemDisk::default().vfs(1) };
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let t = db.create_table("t").unwrap();
    let mut holder = db.begin().unwrap();
    holder.put(&t, &[0], b"held").unwrap();
    let admission = db.core.engine.admission();
    admission.leave_room(u64::from(WAITERS) * OP + OP / 2);
    std::thread::scope(|scope| {
        let work = |n| {
            let mut tx = db.begin().unwrap();
            tx.put(&t, &[0], &[n; 100])?;
            tx.commit()
        };
        let waiters: Vec<_> = (0..WAITERS).map(|n| scope.spawn(move || work(n))).collect();
        while db.metrics().get("lock_waits") < Some(f64::from(WAITERS)) {
            std::thread::yield_now();
        }
        holder.put(&t, &[1], &[0; 100]).unwrap();
        holder.commit().unwrap();
        // After the wait a transaction is admitted again.
        admission.leave_room(1 << 20);
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
}

#[test]
fn a_row_that_was_just_locked_can_be_unlocked() {
    let (_disk, db, t) = jobs(200);
    let mut tx = db.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted)).unwrap();
    let mut other = db.begin().unwrap();
    tx.get_for_share(&t, &[0]).unwrap();
    assert!(tx.newly_locked());
    tx.get_for_share(&t, &[0]).unwrap();
    assert!(!tx.newly_locked(), "the lock was there");
    tx.put(&t, &[1], b"changed").unwrap();
    tx.get_for_update(&t, &[1]).unwrap();
    assert!(!tx.newly_locked(), "the version is the lock");
    // An upgrade is not new: the shared lock would be lost with it.
    tx.get_for_update(&t, &[0]).unwrap();
    assert!(!tx.newly_locked());
    let mut cursor = crate::Cursor::new(&t);
    cursor.set_lock(Some(crate::RowLock::Exclusive), Wait);
    assert_eq!(cursor.seek(&mut tx, crate::Seek::AtOrAfter(&[2])).unwrap().unwrap().0, [2]);
    assert!(tx.newly_locked());
    assert!(matches!(other.put(&t, &[2], b""), Err(Error::LockTimeout)));
    assert!(tx.unlock_row(&t, &[2]).unwrap());
    assert!(!tx.unlock_row(&t, &[2]).unwrap(), "it is gone");
    other.put(&t, &[2], b"free").unwrap();
    // A waiting transaction gets the lock.
    tx.get_for_update(&t, &[3]).unwrap();
    std::thread::scope(|scope| {
        let waits = db.core.engine.txns.locks.waits();
        let waiter = scope.spawn(|| {
            let patient = TxnOptions::new().lock_wait(Duration::from_secs(60));
            db.begin_with(patient).unwrap().put(&t, &[3], b"waited")
        });
        super::rollback::until("the wait", || db.core.engine.txns.locks.waits() > waits);
        assert!(tx.unlock_row(&t, &[3]).unwrap());
        waiter.join().unwrap().unwrap();
    });
    // Of many locks only the last are found; the others stay.
    for n in 10..200 {
        tx.get_for_update(&t, &[n]).unwrap();
    }
    assert!(!tx.unlock_row(&t, &[10]).unwrap() && tx.unlock_row(&t, &[199]).unwrap());
    assert!(matches!(other.put(&t, &[10], b""), Err(Error::LockTimeout)));
    tx.rollback();
    other.put(&t, &[10], b"").unwrap();
    drop(other);
    // Ranges protect more than the row.
    let mut tx = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).unwrap();
    tx.get_for_update(&t, &[5]).unwrap();
    assert!(!tx.unlock_row(&t, &[5]).unwrap());
    drop(tx);
    assert_eq!(db.core.engine.txns.locks.held(), 0);
    purge_and_check(&db);
}
