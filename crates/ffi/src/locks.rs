//! What an administrator looks at: transactions, locks, waits, deadlocks.

use crate::bytes::{Bytes, shared};
use crate::db::Db;
use crate::guard::guard_ok;
use crate::rc::{Done, misuse};
use millpond::{LockInfo as EngineLock, LockPlace as EnginePlace, RowLock, TransactionInfo};
use std::ffi::{c_int, c_void};

/// What a lock is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum LockPlace {
    /// The whole table.
    Table = 0,
    /// The table's counter.
    Counter = 1,
    /// A key, with a row or without one.
    Row = 2,
    /// The rows of adjacent keys.
    Rows = 3,
    /// The rows of adjacent keys and the gaps between them.
    RowsAndGaps = 4,
    /// No lock: a scan lets transactions go first that have waited for its range.
    Turn = 5,
}

/// A lock, or a request for one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LockInfo {
    /// The number of the transaction.
    pub transaction: u64,
    /// The transaction's `tag`.
    pub tag: u64,
    /// The name of the table; empty for one that is being made or was dropped.
    pub table: Bytes,
    /// A `millpond_lock_place`.
    pub place: u32,
    /// Not 0: exclusive, else shared.
    pub exclusive: u32,
    /// Not 0: the request waits.
    pub waits: u32,
    /// The key, or the first key of several.
    pub key: Bytes,
    /// The first key beyond several, or left out: to the end of the table.
    pub to: Bytes,
}

/// A transaction that has locked or changed something.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TxnInfo {
    /// Its number.
    pub transaction: u64,
    /// Its `tag`.
    pub tag: u64,
    /// Changes of rows that it would lose if it were rolled back.
    pub rows_changed: u64,
    /// Locks that it holds. Rows that it has changed count only if another transaction has waited
    /// for them.
    pub locks: u64,
    /// Bytes of its undo.
    pub undo_bytes: u64,
    /// Its xid, if it is prepared; else left out.
    pub xid: Bytes,
    /// The lock for which it waits, or null.
    pub waits_for: *const LockInfo,
}

/// A transaction of a deadlock. Each member waits for the next one, and the last for the first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeadlockMember {
    /// The number of the deadlock, from 1 on since the database was opened.
    pub deadlock: u64,
    /// Its place in the cycle, from 0 on.
    pub place: u32,
    /// Not 0: the one that was rolled back.
    pub victim: u32,
    /// The transaction as it was then; its undo is not counted.
    pub transaction: TxnInfo,
    /// Its lock for which the member before it waits, or null: it only stands before that one in
    /// the queue of a lock.
    pub holds: *const LockInfo,
}

/// Gets a lock. A result other than 0 ends the list.
pub type LockFn = Option<unsafe extern "C" fn(context: *mut c_void, lock: *const LockInfo) -> c_int>;

/// Gets a request that waits, and a transaction for which it waits: its number and its tag. A
/// result other than 0 ends the list.
pub type WaitFn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        request: *const LockInfo,
        blocker: u64,
        blocker_tag: u64,
    ) -> c_int,
>;

/// Gets a transaction. A result other than 0 ends the list.
pub type TxnInfoFn = Option<unsafe extern "C" fn(context: *mut c_void, txn: *const TxnInfo) -> c_int>;

/// Gets a member of a deadlock. A result other than 0 ends the list.
pub type DeadlockFn =
    Option<unsafe extern "C" fn(context: *mut c_void, member: *const DeadlockMember) -> c_int>;

fn no_function() -> crate::rc::Failure {
    misuse("no function to show the list to")
}

fn lock_of(lock: &EngineLock) -> LockInfo {
    let none = (Bytes::of(&[]), Bytes::NONE);
    let (place, (key, to)) = match &lock.place {
        EnginePlace::Table => (LockPlace::Table, none),
        EnginePlace::Counter => (LockPlace::Counter, none),
        EnginePlace::Row { key } => (LockPlace::Row, (Bytes::of(key), Bytes::NONE)),
        EnginePlace::Range { from, to, gaps } => {
            let to = to.as_ref().map_or(Bytes::NONE, |to| Bytes::of(to));
            (if *gaps { LockPlace::RowsAndGaps } else { LockPlace::Rows }, (Bytes::of(from), to))
        }
        _ => (LockPlace::Turn, none),
    };
    LockInfo {
        transaction: lock.transaction,
        tag: lock.tag,
        table: Bytes::of(lock.table.as_bytes()),
        place: place as u32,
        exclusive: u32::from(lock.mode == RowLock::Exclusive),
        waits: u32::from(lock.waits),
        key,
        to,
    }
}

fn txn_of(txn: &TransactionInfo, waits_for: Option<&LockInfo>) -> TxnInfo {
    TxnInfo {
        transaction: txn.id,
        tag: txn.tag,
        rows_changed: txn.rows_changed,
        locks: txn.locks,
        undo_bytes: txn.undo_bytes,
        xid: txn.xid.as_ref().map_or(Bytes::NONE, |xid| Bytes::of(xid)),
        waits_for: waits_for.map_or(std::ptr::null(), std::ptr::from_ref),
    }
}

/// Returns the database. REQUIRES: the handle is null or valid.
unsafe fn engine<'a>(db: *const Db) -> Done<&'a millpond::Db> {
    // SAFETY: the caller guarantees it.
    Ok(&unsafe { shared(db) }?.db)
}

/// Shows the transactions that have locked or changed something, by their numbers. It is no picture
/// of one moment. Works after a failure and after closing too, as do the calls below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_transactions(
    db: *const Db,
    show: TxnInfoFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(no_function)?;
        // SAFETY: the handle is null or valid.
        for txn in unsafe { engine(db) }?.transactions() {
            let waits_for = txn.waits_for.as_ref().map(lock_of);
            let shown = txn_of(&txn, waits_for.as_ref());
            // SAFETY: the caller's function takes what lives during its call.
            if unsafe { show(context, &raw const shown) } != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Shows locks and requests that wait, at most `most`. It is no picture of one moment. Of the rows
/// that a transaction has changed it shows those for which another one has waited.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_locks(
    db: *const Db,
    most: usize,
    show: LockFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(no_function)?;
        // SAFETY: the handle is null or valid.
        for lock in unsafe { engine(db) }?.locks(most) {
            let shown = lock_of(&lock);
            // SAFETY: the caller's function takes what lives during its call.
            if unsafe { show(context, &raw const shown) } != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Shows the requests that wait, at most `most`, once for each transaction for which they wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_lock_waits(
    db: *const Db,
    most: usize,
    show: WaitFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(no_function)?;
        // SAFETY: the handle is null or valid.
        for wait in unsafe { engine(db) }?.lock_waits(most) {
            let shown = lock_of(&wait.request);
            for (blocker, tag) in wait.blockers {
                // SAFETY: the caller's function takes what lives during its call.
                if unsafe { show(context, &raw const shown, blocker, tag) } != 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// Shows the members of the last deadlocks whose numbers are greater than `after`, deadlock by
/// deadlock. The engine remembers sixteen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_deadlocks(
    db: *const Db,
    after: u64,
    show: DeadlockFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(no_function)?;
        // SAFETY: the handle is null or valid.
        let deadlocks = unsafe { engine(db) }?.deadlocks();
        for deadlock in deadlocks.iter().filter(|deadlock| deadlock.number > after) {
            for (place, member) in (0..).zip(&deadlock.members) {
                let waits_for = member.transaction.waits_for.as_ref().map(lock_of);
                let holds = member.holds.as_ref().map(lock_of);
                let shown = DeadlockMember {
                    deadlock: deadlock.number,
                    place,
                    victim: member.victim.into(),
                    transaction: txn_of(&member.transaction, waits_for.as_ref()),
                    holds: holds.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                };
                // SAFETY: the caller's function takes what lives during its call.
                if unsafe { show(context, &raw const shown) } != 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}
