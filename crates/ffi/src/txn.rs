//! Transactions: begin, statements, savepoints, end, cancel.

use crate::bytes::{exclusive, give, shared, take_back};
use crate::db::Db;
use crate::guard::{guard_ok, guard_plain};
use crate::rc::{Done, Failure, misuse};
use millpond::{Canceller, Error, PreparedTransaction, Transaction};
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::time::Duration;

/// A session's place for transactions: it has one transaction after the other.
pub struct Txn {
    db: millpond::Db,
    /// Used by any thread.
    canceller: Canceller,
    /// Used by one thread at a time, as the caller guarantees.
    inner: UnsafeCell<Session>,
}

// SAFETY: the caller uses a transaction from one thread at a time, but for `canceller`.
unsafe impl Sync for Txn {}

/// What of a session only its own calls touch.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The running transaction.
    transaction: Option<Transaction>,
    /// The transaction that the session has prepared and will decide.
    prepared: Option<PreparedTransaction>,
    /// Savepoints that the caller has named by number.
    savepoints: Vec<millpond::Savepoint>,
}

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Isolation {
    /// Each statement has a snapshot of its own.
    ReadCommitted = 0,
    /// One snapshot for all plain reads.
    RepeatableRead = 1,
    /// As if transactions ran one after the other.
    Serializable = 2,
}

/// What is durable when a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Durability {
    /// The commit is on disk.
    Sync = 0,
    /// The commit survives the end of the process; for the end of the machine it is as
    /// `MILLPOND_DURABILITY_BOUNDED`.
    Written = 1,
    /// The commit is on disk within `bounded_ms` milliseconds and `bounded_bytes` bytes of redo.
    Bounded = 2,
    /// Nothing.
    None = 3,
}

/// How a transaction begins. Fill with zeros first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TxnOptions {
    /// A `millpond_isolation`.
    pub isolation: u32,
    /// Not 0: changes and locking reads are refused, and only durable rows are shown.
    pub read_only: u32,
    /// Not 0, at `MILLPOND_ISOLATION_REPEATABLE_READ`: changes and locking reads use the newest
    /// committed row, and never get `MILLPOND_RC_WRITE_CONFLICT`; locking scans lock their gaps.
    pub current_reads: u32,
    /// How long a call waits for a lock, milliseconds; 0: not at all.
    pub lock_wait_ms: u64,
    /// The name by which `millpond_observe_waits` knows the transaction. 0: it has none.
    pub observed_as: u64,
    /// A number by which the caller knows the transaction: `millpond_transactions`,
    /// `millpond_locks` and others show it.
    pub tag: u64,
}

/// A point of a transaction, for `millpond_savepoint_rollback`. Memory of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Savepoint {
    /// The engine's; not for the caller.
    pub opaque: [u64; 4],
}

fn no_transaction() -> Failure {
    misuse("the session has no transaction")
}

impl Txn {
    /// Returns the session. REQUIRES: the calling thread alone uses the transaction now.
    #[expect(clippy::mut_from_ref, reason = "the caller of the C interface guarantees one user at a time")]
    unsafe fn session(&self) -> &mut Session {
        // SAFETY: the caller guarantees it.
        unsafe { &mut *self.inner.get() }
    }
}

impl Session {
    /// Returns the running transaction.
    pub(crate) fn running(&mut self) -> Done<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(no_transaction)
    }

    pub(crate) fn take(&mut self) -> Done<Transaction> {
        self.savepoints.clear();
        self.transaction.take().ok_or_else(no_transaction)
    }

    /// Prepares the running transaction by `prepare` and keeps it.
    pub(crate) fn prepare(
        &mut self,
        prepare: impl FnOnce(Transaction) -> millpond::Result<PreparedTransaction>,
    ) -> Done<()> {
        let transaction = self.take()?;
        self.prepared = Some(prepare(transaction)?);
        Ok(())
    }

    /// Returns the transaction that the session has prepared.
    pub(crate) fn prepared(&mut self) -> Done<&mut PreparedTransaction> {
        self.prepared.as_mut().ok_or_else(no_transaction)
    }
}

/// Returns the running transaction of a handle. REQUIRES: the handle is null or valid, and the
/// calling thread alone uses it now.
#[inline]
pub(crate) unsafe fn running<'a>(txn: *const Txn) -> Done<&'a mut Transaction> {
    // SAFETY: the caller guarantees it.
    unsafe { session(txn) }?.running()
}

/// Returns the session of a handle. REQUIRES: as [`running`].
pub(crate) unsafe fn session<'a>(txn: *const Txn) -> Done<&'a mut Session> {
    // SAFETY: the caller guarantees it.
    Ok(unsafe { shared::<Txn>(txn)?.session() })
}

fn isolation_of(number: u32) -> Done<millpond::Isolation> {
    match number {
        0 => Ok(millpond::Isolation::ReadCommitted),
        1 => Ok(millpond::Isolation::RepeatableRead),
        2 => Ok(millpond::Isolation::Serializable),
        _ => Err(misuse(format!("{number} is no isolation level"))),
    }
}

/// Returns the durability of a number. `bounded_ms` and `bounded_bytes` are for one that does
/// not wait for the disk.
pub(crate) fn durability_of(number: u32, bounded_ms: u64, bounded_bytes: u64) -> Done<millpond::Durability> {
    match number {
        // What is on disk survives the end of the process too.
        0 => Ok(millpond::Durability::Sync),
        1 => Ok(millpond::Durability::Written { ms: bounded_ms, bytes: bounded_bytes }),
        2 => Ok(millpond::Durability::Bounded { ms: bounded_ms, bytes: bounded_bytes }),
        3 => Ok(millpond::Durability::None),
        _ => Err(misuse(format!("{number} is no durability"))),
    }
}

/// Makes a session's place for transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_new(db: *const Db, out: *mut *mut Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        let db = unsafe { shared(db) }?.db.clone();
        let txn = Txn { canceller: db.canceller(), db, inner: UnsafeCell::default() };
        // SAFETY: `out` is null or valid.
        unsafe { give(out, txn) }
    })
}

/// Rolls back what runs, and frees the handle. A transaction that the session has prepared stays
/// prepared: `millpond_commit_prepared` or `millpond_rollback_prepared` ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_free(txn: *mut Txn) {
    // SAFETY: the handle is null or valid, and is not used any more.
    guard_plain(|| unsafe { take_back(txn) });
}

/// Begins a transaction. The session must have none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_begin(txn: *const Txn, options: *const TxnOptions) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the options are null or valid; one thread uses the handle.
        let (txn, options) = unsafe { (shared(txn)?, shared(options)?) };
        // SAFETY: as above.
        let session = unsafe { txn.session() };
        if session.transaction.is_some() || session.prepared.is_some() {
            return Err(misuse("the session has a transaction already"));
        }
        let engine = millpond::TxnOptions::new()
            .isolation(isolation_of(options.isolation)?)
            .read_only(options.read_only != 0)
            .current_reads(options.current_reads != 0)
            .lock_wait(Duration::from_millis(options.lock_wait_ms))
            .tag(options.tag)
            .observed_as(options.observed_as);
        let mut transaction = txn.db.begin_with(engine)?;
        transaction.cancel_by(&txn.canceller)?;
        session.transaction = Some(transaction);
        Ok(())
    })
}

/// Returns 1 if the session has a transaction, else 0. A transaction that an error has rolled back
/// counts until `millpond_txn_rollback`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_is_active(txn: *const Txn) -> c_int {
    // SAFETY: the handle is null or valid; one thread uses it.
    let session = |txn| unsafe { session(txn) };
    guard_plain(|| session(txn).is_ok_and(|s| s.transaction.is_some() || s.prepared.is_some()).into())
}

/// Draws the transaction's snapshot now, if all its plain reads see one and it is not drawn yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_snapshot(txn: *const Txn) -> c_int {
    // SAFETY: as above.
    guard_ok(|| Ok(unsafe { running(txn) }?.draw_snapshot()?))
}

/// Sets how long the transaction's calls wait for a lock from now on, milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_set_lock_wait(txn: *const Txn, lock_wait_ms: u64) -> c_int {
    guard_ok(|| {
        // SAFETY: as above.
        unsafe { running(txn) }?.set_lock_wait(Duration::from_millis(lock_wait_ms));
        Ok(())
    })
}

/// Commits. When the call returns, the commit is as durable as `durability`, a
/// `millpond_durability`, says. After an error other than a null pointer or no transaction, the
/// session has no transaction any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_commit(
    txn: *const Txn,
    durability: u32,
    bounded_ms: u64,
    bounded_bytes: u64,
) -> c_int {
    guard_ok(|| {
        let durability = durability_of(durability, bounded_ms, bounded_bytes)?;
        // SAFETY: the handle is null or valid; one thread uses it.
        let session = unsafe { session(txn) }?;
        if let Some(prepared) = session.prepared.take() {
            prepared.commit(durability)?;
            return Ok(());
        }
        session.take()?.commit_with(durability)?;
        Ok(())
    })
}

/// Rolls the transaction back. Without one it does nothing. The end of a transaction that the
/// session has prepared is not durable yet (`millpond_sync`): a crash may show it prepared again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_rollback(txn: *const Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        let session = unsafe { session(txn) }?;
        drop(session.take());
        match session.prepared.take() {
            Some(prepared) => Ok(prepared.rollback(millpond::Durability::None)?),
            None => Ok(()),
        }
    })
}

/// Makes the present wait and all later calls of the session fail with `MILLPOND_RC_CANCELLED`,
/// until `millpond_txn_clear_cancel`. Commit and rollback do not fail. Any thread may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_cancel(txn: *const Txn) {
    guard_plain(|| {
        // SAFETY: the handle is null or valid.
        if let Ok(txn) = unsafe { shared(txn) } {
            txn.canceller.cancel();
        }
    });
}

/// Ends the effect of `millpond_txn_cancel`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_clear_cancel(txn: *const Txn) {
    guard_plain(|| {
        // SAFETY: the handle is null or valid.
        if let Ok(txn) = unsafe { shared(txn) } {
            txn.canceller.clear();
        }
    });
}

/// Returns 1 if the session's transaction waits for a lock of another transaction now, else 0. Any
/// thread may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_is_waiting(txn: *const Txn) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_plain(|| unsafe { shared(txn) }.is_ok_and(|txn| txn.canceller.is_waiting()).into())
}

/// Begins a statement: the point to which `millpond_statement_rollback` returns, and at
/// `MILLPOND_ISOLATION_READ_COMMITTED` the reads from here on have one snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_statement_begin(txn: *const Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        Ok(unsafe { running(txn) }?.begin_statement()?)
    })
}

/// Ends a statement and keeps what it did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_statement_end(txn: *const Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        if let Some(transaction) = &mut unsafe { session(txn) }?.transaction {
            transaction.end_statement();
        }
        Ok(())
    })
}

/// Undoes what the statement did, and ends it. If that is not possible, the whole transaction has
/// been rolled back, and the code says why. `MILLPOND_RC_OK` if an earlier error had rolled it
/// back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_statement_rollback(txn: *const Txn) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        match unsafe { running(txn) }?.rollback_statement() {
            // An error has rolled back the transaction, and the statement with it.
            Err(Error::Aborted) => Ok(()),
            undone => Ok(undone?),
        }
    })
}

/// Marks this point of the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_savepoint_set(txn: *const Txn, out: *mut Savepoint) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the result are null or valid; one thread uses the handle.
        let (session, out) = unsafe { (session(txn)?, exclusive(out)?) };
        let point = session.running()?.savepoint();
        session.savepoints.push(point);
        *out = Savepoint { opaque: [session.savepoints.len() as u64, 0, 0, 0] };
        Ok(())
    })
}

/// Returns 1 if the transaction has locked or changed anything so far, else 0. Without a
/// transaction it is 0. If it is 0, a rollback to a savepoint also ends the use of tables: they can
/// be dropped then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_has_locks(txn: *const Txn) -> c_int {
    guard_plain(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        let running = unsafe { running(txn) };
        running.is_ok_and(|transaction| transaction.has_locks()).into()
    })
}

/// Ends the transaction's use of tables, so that they can be dropped and renamed, if it has locked
/// and changed nothing. Later reads use tables again. Without a transaction it does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_txn_release_tables(txn: *const Txn) {
    guard_plain(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        if let Ok(transaction) = unsafe { running(txn) } {
            transaction.release_tables();
        }
    });
}

/// Undoes what the transaction did since the savepoint. The savepoint can be used again, later ones
/// cannot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_savepoint_rollback(txn: *const Txn, to: *const Savepoint) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the savepoint are null or valid; one thread uses the handle.
        let (session, to) = unsafe { (session(txn)?, shared(to)?) };
        let known =
            usize::try_from(to.opaque[0]).ok().and_then(|n| session.savepoints.get(n.checked_sub(1)?));
        let point = known.cloned().ok_or_else(|| misuse("the session has no such savepoint"))?;
        session.running()?.rollback_to(&point)?;
        session.savepoints.truncate(to.opaque[0] as usize);
        Ok(())
    })
}
