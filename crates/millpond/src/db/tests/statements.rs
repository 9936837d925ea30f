//! Statements, current reads and cancelled calls.

use super::*;
use crate::{LockWait, RowLock, Seek};

fn at(db: &Db, isolation: Isolation) -> Transaction {
    db.begin_with(TxnOptions::new().isolation(isolation)).unwrap()
}

/// At READ COMMITTED all reads of a statement see one snapshot: index and row agree.
#[test]
fn the_reads_of_a_statement_see_one_snapshot() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"a", b"1");
    put(&db, &t, b"b", b"1");
    let mut tx = at(&db, Isolation::ReadCommitted);
    for round in 1..3u8 {
        let now = text(Some(vec![b'0' + round]));
        tx.begin_statement().unwrap();
        assert_eq!(text(tx.get(&t, b"a").unwrap()), now);
        let next = [b'1' + round];
        put(&db, &t, b"a", &next);
        put(&db, &t, b"b", &next);
        assert_eq!(text(tx.get(&t, b"b").unwrap()), now);
        assert_eq!(rows(&tx, &t).into_values().collect::<Vec<_>>(), [now.as_bytes(), now.as_bytes()]);
        let mut cursor = crate::Cursor::new(&t);
        assert_eq!(cursor.seek(&mut tx, Seek::Last).unwrap().unwrap().1, now.as_bytes());
        // A locking read and a change see the newest row all the same.
        assert_eq!(tx.get_for_update(&t, b"b").unwrap().unwrap(), next);
        tx.end_statement();
        assert_eq!(tx.get(&t, b"a").unwrap().unwrap(), next);
        tx.commit().unwrap();
        tx = at(&db, Isolation::ReadCommitted);
    }
    drop(tx);
    purge_and_check(&db);
}

/// A serializable transaction that only reads sees one snapshot too. The call drew none, so the
/// transaction began later than its caller believed: START TRANSACTION WITH CONSISTENT SNAPSHOT.
#[test]
fn a_snapshot_is_drawn_where_all_plain_reads_see_one() {
    let (_disk, db, t) = fresh();
    for &isolation in Isolation::ALL {
        for read_only in [false, true] {
            let options = TxnOptions::new().isolation(isolation).read_only(read_only);
            let mut tx = db.begin_with(options).unwrap();
            tx.draw_snapshot().unwrap();
            let later = format!("{isolation:?}, read_only: {read_only}");
            put(&db, &t, later.as_bytes(), b"");
            let is_seen = tx.get(&t, later.as_bytes()).unwrap().is_some();
            let sees_newest = !isolation.repeats_reads() || isolation.locks_reads() && !read_only;
            assert_eq!(is_seen, sees_newest, "{later}");
        }
    }
    purge_and_check(&db);
}

#[test]
fn a_statement_is_undone_alone() {
    let (_disk, db, t) = fresh();
    for &isolation in Isolation::ALL {
        let mut tx = at(&db, isolation);
        assert!(matches!(tx.rollback_statement(), Err(Error::Misuse(_))));
        tx.put(&t, b"a", b"1").unwrap();
        let savepoint = tx.savepoint();
        for n in 0..5u8 {
            tx.begin_statement().unwrap();
            tx.put(&t, b"a", &[n]).unwrap();
            tx.put(&t, &[n], &[7; 3000]).unwrap();
            if n % 2 == 0 { tx.rollback_statement().unwrap() } else { tx.end_statement() }
        }
        assert_eq!(rows(&tx, &t).into_keys().collect::<Vec<_>>(), [vec![1], vec![3], b"a".to_vec()]);
        // A rollback to a savepoint inside of a statement, then one of the statement.
        tx.begin_statement().unwrap();
        tx.rollback_to(&savepoint).unwrap();
        tx.put(&t, b"z", b"").unwrap();
        tx.rollback_statement().unwrap();
        tx.rollback();
        assert!(all(&db, "t").is_empty());
    }
    purge_and_check(&db);
}

/// A statement whose changes cannot be undone takes the transaction with it: no part of it stays.
#[test]
fn a_statement_that_cannot_be_undone_ends_the_transaction() {
    let (faults, db, t) = fresh_with_faults();
    let long = vec![7; 700];
    let others = db.create_table("others").unwrap();
    for n in 0..800u32 {
        put(&db, &others, &super::rollback::key(n.into(), 0), &[9; 150]);
        if n < 200 {
            put(&db, &t, &n.to_be_bytes(), &long);
        }
    }
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"kept?", b"").unwrap();
    tx.begin_statement().unwrap();
    (0..200u32).for_each(|n| tx.put(&t, &n.to_be_bytes(), b"").unwrap());
    // The pages go to the file, and cannot be read back.
    db.checkpoint().unwrap();
    super::rollback::evict(&db);
    faults.refuse_reads(Path::new(DIR).join("pages"), 0..u64::MAX);
    let undone = tx.rollback_statement();
    faults.heal();
    if undone.is_err() {
        assert!(matches!(tx.get(&t, b"kept?"), Err(Error::Aborted)));
        assert!(matches!(tx.rollback_statement(), Err(Error::Aborted)));
    }
    drop(tx);
    super::rollback::until("the rollback", || all(&db, "t").into_values().all(|value| value == long));
    purge_and_check(&db);
}

#[test]
fn current_reads_lock_their_gaps_and_have_no_conflict() {
    let (_disk, db, t) = fresh();
    put(&db, &t, &[1], b"1");
    put(&db, &t, &[5], b"1");
    let mut tx = db.begin_with(TxnOptions::new().current_reads(true)).unwrap();
    assert_eq!(rows(&tx, &t).len(), 2);
    put(&db, &t, &[1], b"2");
    put(&db, &t, &[3], b"2");
    assert_eq!(rows(&tx, &t).len(), 2, "plain reads stay with the snapshot");
    assert!(matches!(tx.insert(&t, &[3], b""), Err(Error::KeyExists)), "an invisible row is no conflict");
    let locked = |tx: &mut Transaction| {
        let found = tx.range_for_update(&t, &[1][..]..&[5][..], LockWait::Wait).unwrap();
        found.map(|row| row.unwrap().0[0]).collect::<Vec<_>>()
    };
    assert_eq!(locked(&mut tx), [1, 3]);
    let mut other = db.begin().unwrap();
    assert!(matches!(other.insert(&t, &[4], b""), Err(Error::LockTimeout)), "the gap is locked");
    assert!(matches!(other.put(&t, &[1], b""), Err(Error::LockTimeout)));
    other.insert(&t, &[6], b"").unwrap();
    other.commit().unwrap();
    // A cursor locks the gaps too.
    let mut cursor = crate::Cursor::new(&t);
    cursor.set_lock(Some(RowLock::Shared), LockWait::Wait);
    assert_eq!(cursor.seek(&mut tx, Seek::AtOrAfter(&[6])).unwrap().unwrap().0, [6]);
    assert_eq!(cursor.next(&mut tx).unwrap(), None);
    let mut other = db.begin().unwrap();
    assert!(matches!(other.insert(&t, &[9], b""), Err(Error::LockTimeout)));
    drop(other);
    tx.put(&t, &[1], b"3").unwrap();
    tx.commit().unwrap();
    assert_eq!(all(&db, "t")[&vec![1]], b"3");
    purge_and_check(&db);
}

/// The flag is set before the wait, during it, and between two calls, for waits for rows, for
/// ranges and for a scan that lets writers pass.
#[test]
fn a_cancelled_wait_ends_and_the_transaction_goes_on() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"k", b"1");
    let mut holder = at(&db, Isolation::Serializable);
    holder.put(&t, b"k", b"2").unwrap();
    assert!(holder.range(&t, &b"r"[..]..).unwrap().next().is_none());
    let canceller = db.canceller();
    let patient = TxnOptions::new().lock_wait(Duration::from_secs(60));
    type Call = fn(&mut Transaction, &Table) -> crate::Result<()>;
    let calls: [Call; 4] = [
        |tx, t| tx.put(t, b"k", b"3"),
        |tx, t| tx.get_for_share(t, b"k").map(drop),
        |tx, t| tx.insert(t, b"s", b"in the range"),
        |tx, t| crate::Cursor::new(t).seek(tx, Seek::First).map(drop),
    ];
    for (n, call) in calls.into_iter().enumerate() {
        let level = if n == 3 { Isolation::Serializable } else { Isolation::RepeatableRead };
        let mut tx = db.begin_with(patient.isolation(level)).unwrap();
        tx.cancel_by(&canceller).unwrap();
        tx.put(&t, b"mine", &[n as u8]).unwrap();
        assert!(!canceller.is_waiting());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (call(&mut tx, &t), tx));
            super::rollback::until("the wait", || canceller.is_waiting());
            canceller.cancel();
            let (result, mut tx) = waiter.join().unwrap();
            assert!(!canceller.is_waiting());
            assert!(matches!(result, Err(Error::Cancelled)), "call {n}: {result:?}");
            // It is sticky, also for calls that would not wait.
            assert!(matches!(tx.get(&t, b"mine"), Err(Error::Cancelled)));
            assert!(matches!(call(&mut tx, &t), Err(Error::Cancelled)));
            canceller.clear();
            assert_eq!(tx.get(&t, b"mine").unwrap(), Some(vec![n as u8]));
            tx.commit().unwrap();
        });
    }
    // Set before the wait begins, by the flag alone.
    let mut tx = db.begin_with(patient).unwrap();
    tx.cancel_by(&canceller).unwrap();
    canceller.cancel();
    let locks = db.core.engine.txns.row_locks();
    let rules = crate::txn::Rules {
        conflicts_after: None,
        younger: false,
        overtakes: base::Lsn::MAX,
        wait: crate::lock::Wait::Until(Duration::from_secs(60)),
        serializable: false,
    };
    let tree = t.entry.tree;
    let waited = locks.lock_row(&tx.txn, tree, b"k", crate::lock::Mode::Exclusive, rules);
    assert!(matches!(waited, Err(Error::Cancelled)));
    tx.rollback();
    assert!(canceller.is_cancelled());
    holder.commit().unwrap();
    let other = Db::open_in_memory().unwrap();
    let mut foreign = db.begin().unwrap();
    assert!(matches!(foreign.cancel_by(&other.canceller()), Err(Error::Misuse(_))));
    drop(foreign);
    purge_and_check(&db);
}
