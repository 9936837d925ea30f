//! Rows: a read of one, and the change of one with all its index entries.

use crate::bytes::{Buffer, Bytes, array, exclusive, shared};
use crate::ddl::Table;
use crate::guard::guard;
use crate::rc::{Done, Rc, misuse};
use crate::txn::{Txn, running};
use millpond::{EntryChange, EntryOp, Error, LockWait, RowLock, RowOutcome, Transaction};
use smallvec::SmallVec;
use std::ffi::c_int;

/// The lock that a read leaves on what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Lock {
    /// None: a consistent read by the transaction's snapshot.
    None = 0,
    /// Shared; the newest committed row is read.
    Shared = 1,
    /// Exclusive; the newest committed row is read.
    Exclusive = 2,
}

/// What a locking read does with a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Wait {
    /// It waits, as long as the transaction's options say.
    Wait = 0,
    /// It fails with `MILLPOND_RC_LOCK_TIMEOUT` at once.
    NoWait = 1,
    /// It skips the row.
    SkipLocked = 2,
    /// A cursor shows the row as it was last committed and does not lock it: see
    /// `millpond_row.peeked`. Where ranges are locked it waits.
    Peek = 3,
}

/// What the change of an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum RowOp {
    /// Inserts an entry; there must be none with this key.
    Insert = 0,
    /// Inserts an entry, or replaces it.
    Put = 1,
    /// Deletes an entry. If there is none, nothing happens.
    Delete = 2,
    /// Replaces an entry. If there is none, nothing happens.
    Update = 3,
}

/// The change of one entry of one tree.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowChange {
    /// The tree.
    pub table: *const Table,
    /// A `millpond_row_op`.
    pub op: u32,
    /// The entry's key.
    pub key: Bytes,
    /// Its new value; not looked at for a delete.
    pub value: Bytes,
}

/// The change of one row: of its entry in the clustered index, and of those in all others.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowChanges {
    /// The entries, in the order in which they are changed.
    pub changes: *const RowChange,
    /// How many there are, at least one.
    pub count: usize,
    /// A `millpond_lock`: how an existing entry is locked that an insert finds.
    pub lock_existing: u32,
    /// Not 0: if the row is changed, the counter of the first entry's table becomes at least this,
    /// and that is logged before the transaction's commit.
    pub counter: u64,
}

/// What an insert found.
#[derive(Debug)]
#[repr(C)]
pub struct Conflict {
    /// The place in the list of changes of the insert that found an entry.
    pub index: usize,
    /// The value of that entry. Memory of the caller.
    pub value: Buffer,
}

pub(crate) fn lock_of(number: u32) -> Done<Option<RowLock>> {
    [None, Some(RowLock::Shared), Some(RowLock::Exclusive)]
        .get(number as usize)
        .copied()
        .ok_or_else(|| misuse(format!("{number} is no kind of lock")))
}

pub(crate) fn wait_of(number: u32) -> Done<LockWait> {
    [LockWait::Wait, LockWait::NoWait, LockWait::SkipLocked]
        .get(number as usize)
        .copied()
        .ok_or_else(|| misuse(format!("{number} is no way to wait")))
}

fn read(
    transaction: &mut Transaction,
    table: &millpond::Table,
    key: &[u8],
    lock: Option<RowLock>,
    wait: LockWait,
) -> Result<Option<Vec<u8>>, Error> {
    match lock {
        None => transaction.get(table, key),
        Some(RowLock::Shared) => transaction.get_for_share_with(table, key, wait),
        Some(RowLock::Exclusive) => transaction.get_for_update_with(table, key, wait),
    }
}

/// Reads the row of a key into `value`. `lock` is a `millpond_lock`, `wait` a `millpond_wait`. Sets
/// `newly_locked`, which may be null, to 1 if the transaction did not have the lock before.
///
/// `MILLPOND_RC_NOT_FOUND`: there is no row; with a lock its key is locked all the same.
/// `MILLPOND_RC_SKIPPED`: another transaction has it, and `wait` says to skip it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_get(
    txn: *const Txn,
    table: *const Table,
    key: Bytes,
    lock: u32,
    wait: u32,
    value: *mut Buffer,
    newly_locked: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: handles, bytes and results are null or valid; one thread uses the transaction.
        let (transaction, table, value) = unsafe { (running(txn)?, shared(table)?, exclusive(value)?) };
        // SAFETY: as above.
        let key = unsafe { key.get() };
        let lock = lock_of(lock)?;
        let found = read(transaction, &table.table, key, lock, wait_of(wait)?)?;
        // SAFETY: as above.
        if let Ok(newly_locked) = unsafe { exclusive(newly_locked) } {
            *newly_locked = (lock.is_some() && transaction.newly_locked()).into();
        }
        match found {
            Some(bytes) => value.set(&bytes).map(|()| Rc::Ok),
            None => Ok(Rc::NotFound),
        }
    })
}

/// Returns a change as the engine has it. REQUIRES: the table and the bytes are null or valid for
/// `'a`.
unsafe fn entry_of<'a>(change: &RowChange) -> Done<EntryChange<'a>> {
    // SAFETY: the caller guarantees it.
    let (table, key, value) = unsafe { (&shared(change.table)?.table, change.key.get(), change.value.get()) };
    let op = match change.op {
        0 => EntryOp::Insert(value),
        1 => EntryOp::Put(value),
        2 => EntryOp::Delete,
        3 => EntryOp::Update(value),
        other => return Err(misuse(format!("{other} is no change of a row"))),
    };
    Ok(EntryChange { table, key, op })
}

/// Changes a row: all its entries or none of them.
///
/// `MILLPOND_RC_KEY_EXISTS`: an insert found an entry. Nothing of this row was changed, and the
/// transaction goes on. `conflict`, which may be null, gets the place of the insert and the value
/// of the entry, which is locked as `lock_existing` says. After another error nothing of the row
/// was changed either; the code says whether the transaction goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_change_row(
    txn: *const Txn,
    row: *const RowChanges,
    conflict: *mut Conflict,
) -> c_int {
    guard(|| {
        // SAFETY: handles, bytes and results are null or valid; one thread uses the transaction.
        let (transaction, row) = unsafe { (running(txn)?, shared(row)?) };
        // SAFETY: as above.
        let changes = unsafe { array(row.changes, row.count) }?;
        let lock = lock_of(row.lock_existing)?;
        // SAFETY: as above.
        let entries = changes.iter().map(|change| unsafe { entry_of(change) });
        let entries = entries.collect::<Done<SmallVec<[EntryChange<'_>; 8]>>>()?;
        let RowOutcome::Exists { index, value } = transaction.change_row(&entries, lock)? else {
            if let (1.., Some(first)) = (row.counter, entries.first()) {
                transaction.raise_counter(first.table, row.counter)?;
            }
            return Ok(Rc::Ok);
        };
        // SAFETY: as above.
        if let Ok(conflict) = unsafe { exclusive(conflict) } {
            conflict.index = index;
            conflict.value.set(&value.unwrap_or_default())?;
        }
        Ok(Rc::KeyExists)
    })
}

/// Returns how many bytes of redo the changes of the calling thread have taken since it began: the
/// difference around a call is what that call has written.
#[unsafe(no_mangle)]
pub extern "C" fn millpond_redo_bytes_of_thread() -> u64 {
    millpond::redo_bytes_of_thread()
}

/// Releases the lock of a row that a locking read of this transaction has just newly locked, and
/// that it did not change. `MILLPOND_RC_NOT_FOUND`: the lock stays, which does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_unlock_row(txn: *const Txn, table: *const Table, key: Bytes) -> c_int {
    guard(|| {
        // SAFETY: the handles are null or valid, the bytes are valid during the call; one thread
        // uses the transaction.
        let (transaction, table, key) = unsafe { (running(txn)?, shared(table)?, key.get()) };
        Ok(if transaction.unlock_row(&table.table, key)? { Rc::Ok } else { Rc::NotFound })
    })
}
