//! Idle transactions: open, but in no call.

use super::{DIR, fresh, options};
use crate::{Db, Isolation, TxnOptions};
use std::path::Path;
use vfs::mem::MemDisk;

/// The engine keeps frames and log space for threads that are at work. An open transaction
/// counts only while one of its calls runs, whatever its kind.
#[test]
fn an_idle_transaction_does_not_count_as_a_working_thread() {
    let (_disk, db, table) = fresh();
    let engine = &db.core.engine;
    assert_eq!(engine.threads_in_calls(), 0);
    let levels = Isolation::ALL;
    let mut idle = Vec::new();
    for n in 0..300u32 {
        let options = TxnOptions::new().isolation(levels[n as usize % levels.len()]).read_only(n % 5 == 0);
        let mut tx = db.begin_with(options).unwrap();
        assert_eq!(tx.get(&table, &n.to_be_bytes()).unwrap(), None);
        if n % 5 != 0 {
            tx.put(&table, &n.to_be_bytes(), b"locked").unwrap();
        }
        idle.push(tx);
    }
    assert_eq!(engine.threads_in_calls(), 0, "of {} transactions none is in a call", idle.len());
    let inside = db.core.enter().unwrap();
    let committing = engine.store.log.committing();
    assert_eq!(engine.threads_in_calls(), 2);
    drop((inside, committing));
    drop(idle);
    assert_eq!(engine.threads_in_calls(), 0);
}

/// So idle transactions do not change how many free frames the cleaner keeps.
#[test]
fn no_frames_are_kept_for_idle_transactions() {
    let mut options = options();
    options.tuning.frames = 1024;
    let db = Db::open_on(&MemDisk::default().vfs(1), Path::new(DIR), &options).unwrap();
    let table = db.create_table("t").unwrap();
    let idle: Vec<_> = (0..200)
        .map(|_| {
            let tx = db.begin().unwrap();
            assert_eq!(tx.get(&table, b"k").unwrap(), None);
            tx
        })
        .collect();
    // The cleaner's next step sets the reserve again.
    let pool = &db.core.engine.store.pool;
    pool.set_free_reserve(usize::MAX);
    while pool.free_reserve() == usize::MAX {
        std::thread::yield_now();
    }
    assert_eq!(pool.free_reserve(), 16);
    drop(idle);
}
