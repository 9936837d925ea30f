//! Two-phase commit: prepare, decide in a session or by name, and hear when commits are durable.

use crate::bytes::{Bytes, shared};
use crate::db::{Db, NameFn};
use crate::guard::guard_ok;
use crate::rc::{Done, misuse};
use crate::txn::{Txn, durability_of, session};
use millpond::{CommitFuture, Durability, PreparedTransaction, Transaction};
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Is told that something is done. Any thread may call it.
pub type DoneFn = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Prepares the transaction for two-phase commit. `millpond_commit_prepared` or
/// `millpond_rollback_prepared` with `xid` ends it. The session has no transaction any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_prepare(txn: *const Txn, xid: Bytes) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it; the bytes live during the call.
        let (transaction, xid) = unsafe { (session(txn)?.take()?, xid.get()) };
        Ok(transaction.prepare(xid)?)
    })
}

/// Prepares the transaction for two-phase commit, as durably as `durability`, a
/// `millpond_durability`, says. The session keeps it: `millpond_txn_commit` or
/// `millpond_txn_rollback` ends it, perhaps after `millpond_txn_commit_ordered`.
/// `millpond_txn_free` leaves it prepared. After an error the session has no transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_prepare_held(
    txn: *const Txn,
    xid: Bytes,
    durability: u32,
    bounded_ms: u64,
    bounded_bytes: u64,
) -> c_int {
    let durability = durability_of(durability, bounded_ms, bounded_bytes);
    // SAFETY: the handle is null or valid; one thread uses it; the bytes live during the call.
    unsafe { prepare_and_keep(txn, xid, durability, Transaction::prepare_held) }
}

/// Prepares the session's transaction by `prepare`; the session keeps it. REQUIRES: as
/// `millpond_txn_prepare_held`.
unsafe fn prepare_and_keep(
    txn: *const Txn,
    xid: Bytes,
    durability: Done<Durability>,
    prepare: fn(Transaction, &[u8], Durability) -> millpond::Result<PreparedTransaction>,
) -> c_int {
    guard_ok(|| {
        let durability = durability?;
        // SAFETY: the caller guarantees it.
        let (session, xid) = unsafe { (session(txn)?, xid.get()) };
        session.prepare(|transaction| prepare(transaction, xid, durability))
    })
}

/// Prepares the transaction as `millpond_txn_prepare_held` does, for a coordinator whose record of
/// the commit holds all its changes: `durability` only says how soon it is durable here. The call
/// waits until all commits are durable that the transaction may have seen and that no coordinator
/// has on record. The coordinator commits it by `millpond_txn_commit_ordered_at`, in the order of
/// its records. After a crash it decides what is prepared, and then repeats its records after
/// `millpond_bookmark` but for those decided just now, each by `millpond_txn_commit_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_prepare_repeatable(
    txn: *const Txn,
    xid: Bytes,
    durability: u32,
    bounded_ms: u64,
    bounded_bytes: u64,
) -> c_int {
    let durability = durability_of(durability, bounded_ms, bounded_bytes);
    // SAFETY: the handle is null or valid; one thread uses it; the bytes live during the call.
    unsafe { prepare_and_keep(txn, xid, durability, Transaction::prepare_repeatable) }
}

/// Commits a transaction that the session has prepared, and whose commit the coordinator has
/// written down durably. Others see it from here on. Waits for nothing and syncs nothing: after a
/// crash the transaction may be prepared again, and the coordinator commits it again.
/// `millpond_sync_then` says when it need not any more. `millpond_txn_commit` is still to be
/// called. Another thread may call this while the session's own thread waits for it. Fails only if
/// the database is closed or has stopped; the transaction then stays prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_commit_ordered(txn: *const Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid, and the session's own thread does not use it while
        // another makes this call for it.
        Ok(unsafe { session(txn) }?.prepared()?.commit_ordered()?)
    })
}

/// Commits as `millpond_txn_commit_ordered` does, and makes `mark`, up to 32 bytes, the database's
/// bookmark.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_commit_ordered_at(txn: *const Txn, mark: Bytes) -> c_int {
    guard_ok(|| {
        // SAFETY: as in `millpond_txn_commit_ordered`; the bytes live during the call.
        let (session, mark) = unsafe { (session(txn)?, mark.get()) };
        Ok(session.prepared()?.commit_ordered_at(mark)?)
    })
}

/// Commits the running transaction, and makes `mark`, up to 64 KiB, the database's bookmark by the
/// same record of the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_commit_at(
    txn: *const Txn,
    mark: Bytes,
    durability: u32,
    bounded_ms: u64,
    bounded_bytes: u64,
) -> c_int {
    guard_ok(|| {
        let durability = durability_of(durability, bounded_ms, bounded_bytes)?;
        // SAFETY: the handle is null or valid; one thread uses it; the bytes live during the call.
        let (transaction, mark) = unsafe { (session(txn)?.take()?, mark.get()) };
        transaction.commit_with_bookmark(mark, durability)?;
        Ok(())
    })
}

/// Shows the bookmark: what was kept with the last commit of those that have one. Shows nothing if
/// there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_bookmark(db: *const Db, show: NameFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(|| misuse("no function to show the bookmark to"))?;
        // SAFETY: the handle is null or valid.
        if let Some(mark) = unsafe { shared(db) }?.db.bookmark()? {
            // SAFETY: the caller's function takes bytes that live during its call.
            unsafe { show(context, Bytes::of(&mark)) };
        }
        Ok(())
    })
}

/// Sets the bookmark apart from any commit; an empty one removes it. It is as durable as
/// `durability`, a `millpond_durability`, says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_bookmark(
    db: *const Db,
    mark: Bytes,
    durability: u32,
    bounded_ms: u64,
    bounded_bytes: u64,
) -> c_int {
    guard_ok(|| {
        let durability = durability_of(durability, bounded_ms, bounded_bytes)?;
        // SAFETY: the handle is null or valid, the bytes are valid during the call.
        Ok(unsafe { shared(db) }?.db.set_bookmark(unsafe { mark.get() }, durability)?)
    })
}

/// Shows the xid of each prepared transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_prepared(db: *const Db, show: NameFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(|| misuse("no function to show the list to"))?;
        // SAFETY: the handle is null or valid.
        for xid in unsafe { shared(db) }?.db.prepared()? {
            // SAFETY: the caller's function takes bytes that live during its call.
            if unsafe { show(context, Bytes::of(&xid)) } != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Commits the prepared transaction of this xid, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_commit_prepared(db: *const Db, xid: Bytes) -> c_int {
    // SAFETY: the handle is null or valid, the bytes are valid during the call.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.commit_prepared(unsafe { xid.get() })?))
}

/// Rolls the prepared transaction of this xid back, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_rollback_prepared(db: *const Db, xid: Bytes) -> c_int {
    // SAFETY: as above.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.rollback_prepared(unsafe { xid.get() })?))
}

/// What is to be told when commits are durable.
struct Listener {
    done: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
    /// None when it is over.
    future: Mutex<Option<CommitFuture>>,
}

// SAFETY: whoever gives the function guarantees that any thread may call it with its context.
unsafe impl Send for Listener {}
// SAFETY: as above; the rest is behind a mutex.
unsafe impl Sync for Listener {}

impl Listener {
    /// Tells it if the commits are durable now; else the thread that makes them durable will.
    fn look(self: &Arc<Self>) {
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = future.as_mut() else { return };
        let waker = Waker::from(Arc::clone(self));
        let Poll::Ready(end) = Pin::new(waiting).poll(&mut Context::from_waker(&waker)) else { return };
        let over = future.take();
        drop(future);
        // After a failure of the log nobody knows what is durable.
        if end.is_ok() {
            // SAFETY: the caller guarantees it.
            unsafe { (self.done)(self.context) }
        }
        drop(over);
    }
}

impl Wake for Listener {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

/// Calls `done` once when every commit so far is durable: at once, or later by a thread of the
/// database, which it must not keep waiting. It is never called if the database stops before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_sync_then(db: *const Db, done: DoneFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        let done = done.ok_or_else(|| misuse("no function to call"))?;
        // SAFETY: the handle is null or valid.
        let future = unsafe { shared(db) }?.db.sync_async()?;
        Arc::new(Listener { done, context, future: Mutex::new(Some(future)) }).look();
        Ok(())
    })
}
