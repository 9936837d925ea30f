//! Two-phase commit: sessions that hold what they have prepared, decisions by name, crashes.

use super::rollback::until;
use super::*;
use crate::PreparedTransaction;

/// Returns the disk after a power cut that takes all that is not synced.
fn cut(disk: &MemDisk) -> MemDisk {
    let (mut walk, end) = (disk.walk(), disk.op_count());
    while walk.at() < end && walk.step() {}
    walk.image(CrashChoice::None)
}

fn held(db: &Db, table: &Table, name: &[u8]) -> PreparedTransaction {
    let mut tx = db.begin().unwrap();
    tx.put(table, name, b"new").unwrap();
    tx.prepare_held(name, Durability::Sync).unwrap()
}

fn log_syncs(db: &Db) -> u64 {
    let reasons = ["commit", "prepare", "bounded", "log_full_buffer"];
    reasons.iter().map(|reason| figure(db, &format!("fsyncs_by_reason.{reason}"))).sum()
}

#[test]
fn a_commit_that_the_coordinator_has_on_record_syncs_nothing() {
    let (disk, db, t) = fresh();
    let mut first = held(&db, &t, b"one");
    let mut other = db.begin().unwrap();
    assert!(matches!(other.put(&t, b"one", b"x"), Err(Error::LockTimeout)), "it is locked");
    assert!(matches!(db.commit_prepared(b"one"), Err(Error::Misuse(_))), "its session decides it");
    let before = log_syncs(&db);
    first.commit_ordered().unwrap();
    first.commit_ordered().unwrap();
    other.put(&t, b"one", b"changed").unwrap();
    drop(other);
    let reader = db.begin().unwrap();
    assert_eq!(text(reader.get(&t, b"one").unwrap()), "new");
    reader.commit().unwrap();
    let read_only = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert_eq!(text(read_only.get(&t, b"one").unwrap()), "new");
    read_only.commit().unwrap();
    assert_eq!(log_syncs(&db), before, "neither the commit nor its readers");
    // Before the commit is durable a crash leaves it to the coordinator.
    let image = cut(&disk);
    first.commit(Durability::None).unwrap();
    let after = open(&image);
    assert_eq!(after.prepared().unwrap(), [b"one"]);
    assert!(all(&after, "t").is_empty());
    after.commit_prepared(b"one").unwrap();
    assert_eq!(all(&after, "t").len(), 1);
    purge_and_check(&after);
    // Afterwards the coordinator may forget it.
    db.sync_async().unwrap().wait().unwrap();
    let after = open(&cut(&disk));
    assert!(after.prepared().unwrap().is_empty());
    assert_eq!(all(&after, "t").len(), 1);
}

#[test]
fn a_reader_waits_for_commits_that_no_coordinator_knows() {
    let (_disk, db, t) = fresh();
    held(&db, &t, b"one").commit_ordered().unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"two", b"new").unwrap();
    tx.commit_with(Durability::None).unwrap();
    held(&db, &t, b"three").commit_ordered().unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"four", b"new").unwrap();
    tx.commit_with(Durability::None).unwrap();
    held(&db, &t, b"five").commit_ordered().unwrap();
    let before = log_syncs(&db);
    let reader = db.begin().unwrap();
    assert_eq!(text(reader.get(&t, b"five").unwrap()), "new");
    reader.commit().unwrap();
    assert_eq!(log_syncs(&db), before, "what is older is durable since it was prepared");
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"six", b"new").unwrap();
    tx.commit_with(Durability::None).unwrap();
    let reader = db.begin().unwrap();
    assert_eq!(text(reader.get(&t, b"six").unwrap()), "new");
    reader.commit().unwrap();
    assert_eq!(log_syncs(&db), before + 1);
}

#[test]
fn a_session_that_leaves_lets_others_decide() {
    let (disk, db, t) = fresh();
    drop(held(&db, &t, b"one"));
    drop(held(&db, &t, b"two"));
    assert!(matches!(db.drop_table("t"), Err(Error::LockTimeout)), "it uses the table");
    let image = cut(&disk);
    for db in [db, open(&image)] {
        assert_eq!(db.prepared().unwrap(), [&b"one"[..], b"two"]);
        db.commit_prepared(b"one").unwrap();
        assert!(matches!(db.drop_table("t"), Err(Error::LockTimeout)));
        db.rollback_prepared(b"two").unwrap();
        assert_eq!(all(&db, "t").into_keys().collect::<Vec<_>>(), [b"one"]);
        purge_and_check(&db);
        db.drop_table("t").unwrap();
    }
}

#[test]
fn a_held_transaction_is_committed_or_rolled_back_by_its_session() {
    let (disk, db, t) = fresh();
    put(&db, &t, b"two", b"old");
    held(&db, &t, b"one").commit(Durability::Sync).unwrap();
    held(&db, &t, b"two").rollback(Durability::Sync).unwrap();
    let mut committed = held(&db, &t, b"six");
    committed.commit_ordered().unwrap();
    assert!(matches!(committed.rollback(Durability::None), Err(Error::Misuse(_))));
    let reads = db.begin().unwrap();
    assert!(reads.get(&t, b"none").unwrap().is_none());
    reads.prepare_held(b"reads", Durability::Sync).unwrap().commit(Durability::Sync).unwrap();
    for db in [open(&cut(&disk)), db] {
        assert!(db.prepared().unwrap().is_empty());
        let found: Vec<_> = all(&db, "t").into_iter().collect();
        let row = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        assert_eq!(found, [row(b"one", b"new"), row(b"six", b"new"), row(b"two", b"old")]);
        purge_and_check(&db);
    }
}

/// The undo of the larger one is in files when the database opens.
#[test]
fn tables_of_prepared_transactions_stay_after_a_crash() {
    let (disk, db, t) = fresh();
    let names = ["small", "large", "both", "free"];
    let tables = db.create_tables(&names).unwrap();
    drop(held(&db, &tables[0], b"small"));
    let mut large = db.begin().unwrap();
    large.put(&tables[2], b"k", b"v").unwrap();
    for n in 0..2_000u32 {
        large.put(&tables[1], &n.to_be_bytes(), &[7; 100]).unwrap();
    }
    large.prepare(b"large").unwrap();
    put(&db, &t, b"k", b"v");
    db.checkpoint().unwrap();
    let db = open(&cut(&disk));
    let stays = |name: &str| {
        assert!(matches!(db.drop_table(name), Err(Error::LockTimeout)), "{name} is dropped");
        assert!(matches!(db.rename_table(name, "x"), Err(Error::LockTimeout)), "{name} is renamed");
    };
    ["small", "large", "both"].into_iter().for_each(stays);
    db.drop_table("free").unwrap();
    // Others go on to use them.
    put(&db, &db.open_table("large").unwrap(), b"other", b"");
    db.rollback_prepared(b"large").unwrap();
    db.drop_tables(&["large", "both"]).unwrap();
    stays("small");
    db.commit_prepared(b"small").unwrap();
    db.rename_table("small", "x").unwrap();
    assert_eq!(all(&db, "x").len(), 1);
    purge_and_check(&db);
}

#[test]
fn prepared_transactions_stop_neither_purge_nor_the_checkpoint() {
    let (disk, db, t) = fresh();
    put(&db, &t, b"hot", b"0");
    let mut sessions = Vec::new();
    for n in 0..1_000u32 {
        let mut tx = db.begin().unwrap();
        // Its snapshot ends when it is prepared.
        assert!(tx.get(&t, b"hot").unwrap().is_some());
        let key = [&b"p"[..], &n.to_be_bytes()].concat();
        tx.put(&t, &key, b"prepared").unwrap();
        match n % 2 {
            0 => tx.prepare(&key).unwrap(),
            _ => sessions
                .push(tx.prepare_held(&key, Durability::Bounded { ms: 1000, bytes: 1 << 20 }).unwrap()),
        }
    }
    let checkpoint = || figure(&db, "checkpoint_lsn");
    let (began, written) = (checkpoint(), figure(&db, "redo_bytes_written"));
    // Several times the capacity of the log.
    let mut n = 0u64;
    while figure(&db, "redo_bytes_written") - written < 16 << 20 {
        let mut tx = db.begin().unwrap();
        tx.put(&t, b"hot", &[n as u8; 2_000]).unwrap();
        tx.put(&t, &(n % 100).to_be_bytes(), &[n as u8; 200]).unwrap();
        tx.delete(&t, &((n + 50) % 100).to_be_bytes()).unwrap();
        tx.commit_with(Durability::None).unwrap();
        n += 1;
    }
    until("purge", || db.core.engine.txns.history_len() == 0);
    assert!(
        checkpoint() - began > 12 << 20,
        "the checkpoint has moved from {began} to {} only",
        checkpoint()
    );
    db.sync().unwrap();
    sessions.iter_mut().for_each(|session| session.commit_ordered().unwrap());
    db.sync().unwrap();
    let db = open(&cut(&disk));
    let left = db.prepared().unwrap();
    assert_eq!(left.len(), 500);
    for (n, xid) in left.iter().enumerate() {
        if n % 2 == 0 { db.commit_prepared(xid).unwrap() } else { db.rollback_prepared(xid).unwrap() }
    }
    assert_eq!(all(&db, "t").keys().filter(|key| key.starts_with(b"p")).count(), 750);
    purge_and_check(&db);
}

#[test]
fn sessions_hold_as_many_as_the_log_keeps_room_for() {
    let (_disk, db, t) = fresh();
    let mut sessions = Vec::new();
    let refused = loop {
        let mut tx = db.begin().unwrap();
        let key = (sessions.len() as u64).to_be_bytes();
        tx.put(&t, &key, b"v").unwrap();
        match tx.prepare_held(&key, Durability::None) {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Limit { .. }), "{refused}");
    assert!(sessions.len() > 1_000, "{}", sessions.len());
    sessions.pop().unwrap().rollback(Durability::None).unwrap();
    let mut one_more = held(&db, &t, b"one more");
    one_more.commit_ordered().unwrap();
    sessions.iter_mut().for_each(|session| session.commit_ordered().unwrap());
    assert_eq!(all(&db, "t").len(), sessions.len() + 1);
    drop((sessions, one_more));
    purge_and_check(&db);
}

#[test]
fn a_session_that_holds_a_transaction_keeps_the_database_from_nothing() {
    let (disk, db, t) = fresh();
    let mut one = held(&db, &t, b"one");
    db.checkpoint().unwrap();
    db.close().unwrap();
    assert!(matches!(one.commit_ordered(), Err(Error::Closed)));
    drop(one);
    let db = open(&disk.fork());
    assert_eq!(db.prepared().unwrap(), [b"one"]);
    db.commit_prepared(b"one").unwrap();
    assert_eq!(all(&db, "t").len(), 1);
}

/// As durable as it becomes by itself.
const SOON: Durability = Durability::Bounded { ms: 1_000_000, bytes: u64::MAX };

fn repeatable(db: &Db, table: &Table, name: &[u8]) -> PreparedTransaction {
    let mut tx = db.begin().unwrap();
    tx.put(table, name, b"new").unwrap();
    tx.prepare_repeatable(name, SOON).unwrap()
}

#[test]
fn a_commit_that_its_coordinator_repeats_needs_no_sync() {
    let (disk, db, t) = fresh();
    db.sync().unwrap();
    repeatable(&db, &t, b"one").commit_ordered_at(b"1").unwrap();
    let before = log_syncs(&db);
    repeatable(&db, &t, b"two").commit_ordered_at(b"2").unwrap();
    assert_eq!(log_syncs(&db), before);
    assert_eq!(db.bookmark().unwrap().as_deref(), Some(&b"2"[..]));
    // The first has waited for the table, so it is prepared. Of the second the power cut leaves
    // nothing. The bookmark tells where the coordinator has to go on.
    let after = open(&cut(&disk));
    assert_eq!(after.prepared().unwrap(), [b"one"]);
    assert_eq!(after.bookmark().unwrap(), None);
    after.commit_prepared(b"one").unwrap();
    let mut tx = after.begin().unwrap();
    tx.put(&after.open_table("t").unwrap(), b"two", b"new").unwrap();
    tx.commit_with_bookmark(b"2", Durability::Sync).unwrap();
    purge_and_check(&after);
    assert_eq!(all(&after, "t").len(), 2);
}

#[test]
fn a_bookmark_is_that_of_the_last_commit_that_survives() {
    let (disk, db, t) = fresh();
    repeatable(&db, &t, b"one").commit_ordered_at(b"1").unwrap();
    db.sync().unwrap();
    repeatable(&db, &t, b"two").commit_ordered_at(b"2").unwrap();
    let after = open(&cut(&disk));
    assert_eq!(after.bookmark().unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(all(&after, "t").len(), 1);
    // A checkpoint keeps it, and so does a clean end.
    db.checkpoint().unwrap();
    assert_eq!(open(&cut(&disk)).bookmark().unwrap().as_deref(), Some(&b"2"[..]));
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(db.bookmark().unwrap().as_deref(), Some(&b"2"[..]));
    // One that belongs to no commit is durable by itself.
    db.set_bookmark(b"", Durability::Sync).unwrap();
    assert_eq!(open(&cut(&disk)).bookmark().unwrap(), None);
    // A transaction that has changed nothing moves it too.
    db.begin().unwrap().commit_with_bookmark(b"3", Durability::Sync).unwrap();
    assert_eq!(open(&cut(&disk)).bookmark().unwrap().as_deref(), Some(&b"3"[..]));
}

/// What the transaction has seen may be known to the log alone. Repeated without it, the
/// transaction would change rows that are not there.
#[test]
fn what_a_repeatable_transaction_may_have_seen_is_durable() {
    let (disk, db, t) = fresh();
    repeatable(&db, &t, b"one").commit_ordered_at(b"1").unwrap();
    let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
    tx.put(&t, b"alone", b"old").unwrap();
    tx.commit().unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"alone", b"new").unwrap();
    let mut prepared = tx.prepare_repeatable(b"x", SOON).unwrap();
    let image = cut(&disk);
    prepared.commit_ordered_at(b"2").unwrap();
    let after = open(&image);
    assert_eq!(all(&after, "t").len(), 2, "one and alone");
    assert_eq!(after.bookmark().unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn bookmarks_have_a_longest_length() {
    let (_, db, t) = fresh();
    assert!(matches!(db.set_bookmark(&vec![1; (64 << 10) + 1], Durability::None), Err(Error::Misuse(_))));
    db.set_bookmark(&vec![1; 64 << 10], Durability::None).unwrap();
    let mut prepared = repeatable(&db, &t, b"one");
    assert!(matches!(prepared.commit_ordered_at(&[1; 33]), Err(Error::Misuse(_))));
    prepared.commit_ordered_at(&[1; 32]).unwrap();
    assert_eq!(db.bookmark().unwrap(), Some(vec![1; 32]));
    let tx = db.begin().unwrap();
    assert!(matches!(
        tx.commit_with_bookmark(&vec![1; (64 << 10) + 1], Durability::None),
        Err(Error::Misuse(_))
    ));
}
