//! A process made by `fork` cannot use the database of its parent, and does it no harm.
#![allow(unsafe_code)]

mod process;

use millpond::{Db, Error, Options, Result};
use process::in_a_process;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A child that hangs is killed after so many seconds. It takes milliseconds.
const HANGS_SECONDS: u32 = 120;

/// Runs `work` in a child. Returns the child's wait status: 0 if `work` has returned.
fn in_a_child(work: impl FnOnce()) -> i32 {
    // SAFETY: of the parent's threads the child has only this one. It uses the allocator, whose
    // locks the C library keeps free across a fork, and the code under test, and then ends without
    // running anything else.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: the signal ends this process.
            unsafe { libc::alarm(HANGS_SECONDS) };
            let failed = catch_unwind(AssertUnwindSafe(work)).is_err();
            // SAFETY: it ends this process at once.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` is a valid place for the answer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status
        }
    }
}

fn is_forked<T>(what: &str, answer: Result<T>) {
    match answer {
        Err(Error::Forked) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} has done something in the child"),
    }
}

/// Each handle that a program can have is used and dropped in a child, while other threads of the
/// parent write.
#[test]
fn a_child_can_use_nothing_and_harms_nothing() {
    in_a_process("a_child_can_use_nothing_and_harms_nothing", |dir| {
        let path = dir.join("db");
        let db = Options::new().buffer_pool_bytes(8 << 20).open(&path).unwrap();
        let table = db.create_table("t").unwrap();
        let busy = db.create_table("busy").unwrap();
        let end = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0u64;
                while !end.load(Ordering::Relaxed) {
                    let mut tx = db.begin().unwrap();
                    tx.put(&busy, &written.to_be_bytes(), &[7; 500]).unwrap();
                    tx.commit().unwrap();
                    written += 1;
                }
                written
            });
            for round in 0..10u8 {
                one_fork(&db, &table, &path, round);
            }
            end.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        db.checkpoint().unwrap();
        db.close().unwrap();
        drop(db);
        let db = Db::open(&path).unwrap();
        let (table, busy) = (db.open_table("t").unwrap(), db.open_table("busy").unwrap());
        let tx = db.begin().unwrap();
        assert_eq!(tx.range(&busy, ..).unwrap().map(Result::unwrap).count() as u64, written);
        assert_eq!(tx.range(&table, ..).unwrap().map(Result::unwrap).count(), 20);
        assert!(db.check().unwrap().is_clean());
    });
}

fn one_fork(db: &Db, table: &millpond::Table, path: &Path, round: u8) {
    let name = format!("loaded {round}");
    let mut tx = db.begin().unwrap();
    tx.put(table, &[round, 0], b"open").unwrap();
    let mut asked = db.begin().unwrap();
    asked.put(table, &[round, 1], b"asked").unwrap();
    let future = asked.commit_async().unwrap();
    let mut load = db.begin_bulk_load(&name).unwrap();
    load.push(b"a", &[1; 5000]).unwrap();
    let (canceller, reader) = (db.canceller(), db.begin().unwrap());
    let mut handles = Some((tx, future, load, reader, canceller));
    let status = in_a_child(|| {
        let (mut tx, future, mut load, reader, canceller) = handles.take().unwrap();
        is_forked("begin", db.begin());
        is_forked("create_table", db.create_table("u"));
        is_forked("open_table", db.open_table("t"));
        is_forked("checkpoint", db.checkpoint());
        is_forked("check", db.check());
        is_forked("prepared", db.prepared());
        is_forked("set_buffer_pool_bytes", db.set_buffer_pool_bytes(16 << 20));
        is_forked("put", tx.put(table, b"child", b"child"));
        is_forked("get", tx.get(table, b"child"));
        is_forked("range", reader.range(table, ..).map(drop));
        is_forked("commit_async", reader.commit_async().map(drop));
        is_forked("wait", future.wait());
        is_forked("push", load.push(b"b", b"b"));
        is_forked("load", load.commit().map(drop));
        is_forked("begin_statement", tx.begin_statement());
        canceller.cancel();
        assert!(!canceller.is_waiting() && !tx.release_tables());
        assert!(db.metrics().get("commits") > Some(0.0));
        assert_eq!(db.redo_dir_before(), None);
        is_forked("commit", tx.commit());
        is_forked("close", db.close());
        is_forked("close", db.clone().close());
        drop(canceller);
        // It is the last handle.
        // SAFETY: in this child nobody uses the handle afterwards.
        drop(unsafe { std::ptr::read(db) });
    });
    assert_eq!(status, 0, "the child has failed; signal {}", status & 127);
    let (tx, future, load, reader, canceller) = handles.take().unwrap();
    assert!(matches!(Db::open(path), Err(Error::InUse { .. })), "the lock is held");
    drop((reader, load));
    future.wait().unwrap();
    tx.commit().unwrap();
    assert!(!canceller.is_cancelled());
}
