//! Tables: changing the set of them, handles, metadata, sizes and counters.

use crate::bytes::{Buffer, Bytes, array, exclusive, give, shared, take_back};
use crate::db::{Db, NameFn};
use crate::guard::{guard_ok, guard_plain};
use crate::rc::{Done, misuse};
use crate::txn::{Txn, running};
use millpond::{CounterLock as EngineLock, CounterStep, Table as EngineTable, TableChange as EngineChange};
use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::time::Duration;

/// A table of an open database: an ordered map of byte keys to byte values. It is one tree; an
/// SQL table is several of them.
#[derive(Debug)]
pub struct Table {
    pub(crate) table: EngineTable,
}

/// What a change of the set of tables does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum TableOp {
    /// Creates the empty table `name`, with `metadata`.
    Create = 0,
    /// Drops the table `name`.
    Drop = 1,
    /// Gives the table `name` the name `new_name`.
    Rename = 2,
    /// Puts a new, empty table with `metadata` in place of the table `name`.
    Replace = 3,
    /// Gives the table `name` other `metadata`.
    SetMetadata = 4,
}

/// One change of the set of tables.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TableChange {
    /// A `millpond_table_op`.
    pub op: u32,
    /// The table.
    pub name: Bytes,
    /// Its new name, for a rename.
    pub new_name: Bytes,
    /// Bytes of the caller that are kept with the table.
    pub metadata: Bytes,
}

/// Sizes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TableStats {
    /// About how many rows it has.
    pub rows: u64,
    /// About how many pages its tree has, without those of long values.
    pub pages: u64,
    /// About how many pages its long values have.
    pub value_pages: u64,
    /// Free pages that only this table will use.
    pub free_pages: u64,
    /// The bytes of a page.
    pub page_bytes: u64,
}

/// What a key range has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RangeStats {
    /// About how many rows, with deleted ones that are not purged yet.
    pub rows: u64,
    /// About how many leaf pages it touches.
    pub leaves: u64,
    /// 1 if all these pages were counted, so that `rows` is no estimate.
    pub exact: u32,
}

/// A wish for values of a table's counter (auto-increment), and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Values are `offset` plus a multiple of `increment`. An offset above the increment counts as
    /// 0.
    pub offset: u64,
    /// The distance of two values; 0 counts as 1.
    pub increment: u64,
    /// How many values are wanted, at least 1.
    pub count: u64,
    /// The greatest value that the column can hold.
    pub max: u64,
    /// Result: the first value.
    pub first: u64,
    /// Result: how many values there are. 0: the next value would exceed `max`.
    pub granted: u64,
}

/// Makes changes of the set of tables, in their order: all or none, durable when the call returns.
/// It waits until no transaction uses the tables, at most `lock_wait_ms`.
///
/// `MILLPOND_RC_NO_SUCH_TABLE` and `MILLPOND_RC_TABLE_EXISTS` name the table in the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_change_tables(
    db: *const Db,
    changes: *const TableChange,
    count: usize,
    lock_wait_ms: u64,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the array are null or valid during the call.
        let (db, changes) = unsafe { (&shared(db)?.db, array(changes, count)?) };
        // SAFETY: the bytes of a change are valid during the call.
        let changes = changes.iter().map(|change| unsafe { change_of(change) });
        let changes = changes.collect::<Done<Vec<_>>>()?;
        Ok(db.change_tables(&changes, Duration::from_millis(lock_wait_ms))?)
    })
}

/// Returns a handle of a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_open(db: *const Db, name: Bytes, out: *mut *mut Table) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid, and the bytes are valid during the call.
        let (db, name) = unsafe { (&shared(db)?.db, name.text()?) };
        let table = db.open_table(name)?;
        // SAFETY: `out` is null or valid.
        unsafe { give(out, Table { table }) }
    })
}

/// Frees a handle of a table. The table stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_free(table: *mut Table) {
    // SAFETY: the handle is null or valid, and is not used any more.
    guard_plain(|| unsafe { take_back(table) });
}

/// Shows the names of all tables, sorted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_names(db: *const Db, show: NameFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        let names = unsafe { shared(db) }?.db.table_names()?;
        // SAFETY: the caller's function takes bytes that live during its call.
        unsafe { show_all(&names, show, context) }
    })
}

/// Shows the names of the tables that begin with `prefix`, sorted. What it costs depends on how
/// many these are, not on how many there are of all tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_names_with_prefix(
    db: *const Db,
    prefix: Bytes,
    show: NameFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid, and the bytes are valid during the call.
        let (db, prefix) = unsafe { (&shared(db)?.db, prefix.text()?) };
        let names = db.table_names_with_prefix(prefix)?;
        // SAFETY: the caller's function takes bytes that live during its call.
        unsafe { show_all(&names, show, context) }
    })
}

/// Shows a list of names. REQUIRES: `show` takes bytes that live during its call.
unsafe fn show_all(names: &[String], show: NameFn, context: *mut c_void) -> Done {
    let show = show.ok_or_else(|| misuse("no function to show the list to"))?;
    for name in names {
        // SAFETY: as above.
        if unsafe { show(context, Bytes::of(name.as_bytes())) } != 0 {
            break;
        }
    }
    Ok(())
}

/// Returns the present name of a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_name(table: *const Table, out: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the buffer are null or valid.
        let (table, out) = unsafe { (shared(table)?, exclusive(out)?) };
        out.set(table.table.name().as_bytes())
    })
}

/// Returns the metadata of a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_metadata(table: *const Table, out: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the buffer are null or valid.
        let (table, out) = unsafe { (shared(table)?, exclusive(out)?) };
        out.set(&table.table.metadata())
    })
}

/// Estimates the sizes of a table. It reads a few dozen pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_sizes(
    db: *const Db,
    table: *const Table,
    out: *mut TableStats,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handles and the result are null or valid.
        let (db, table, out) = unsafe { (shared(db)?, shared(table)?, exclusive(out)?) };
        let stats = db.db.table_stats(&table.table)?;
        let millpond::TableStats { rows, pages, value_pages, free_pages, page_bytes, .. } = stats;
        *out = TableStats { rows, pages, value_pages, free_pages, page_bytes };
        Ok(())
    })
}

/// Gets a key of a sample, and 1 if it follows the key before without a gap, else 0.
pub type KeyFn = Option<unsafe extern "C" fn(context: *mut c_void, key: Bytes, follows: c_int)>;

/// Shows keys of a table in order: those of at most `leaves` leaf pages, which are spread evenly,
/// each with the first key of the next page. A table that has no more leaves is shown whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_sample_keys(
    db: *const Db,
    table: *const Table,
    leaves: u16,
    show: KeyFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(|| misuse("no function to show the keys to"))?;
        // SAFETY: the handles are null or valid.
        let (db, table) = unsafe { (shared(db)?, shared(table)?) };
        // SAFETY: the caller's function takes bytes that live during its call.
        let visit = |key: &[u8], follows: bool| unsafe { show(context, Bytes::of(key), follows.into()) };
        Ok(db.db.sample_keys(&table.table, leaves, visit)?)
    })
}

/// Estimates what has keys from `lower` (inclusive; null: the first) to `upper` (exclusive; null:
/// after the last). It reads about two pages a level of the tree, and up to eight leaves more,
/// which it counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_estimate(
    db: *const Db,
    table: *const Table,
    lower: Bytes,
    upper: Bytes,
    out: *mut RangeStats,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handles and the result are null or valid.
        let (db, table, out) = unsafe { (shared(db)?, shared(table)?, exclusive(out)?) };
        // SAFETY: the bytes are valid during the call.
        let (lower, upper) = unsafe { (lower.optional(), upper.optional()) };
        let from = lower.map_or(Bound::Unbounded, Bound::Included);
        let to = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let millpond::RangeStats { rows, leaves, exact, .. } = db.db.range_stats(&table.table, (from, to))?;
        *out = RangeStats { rows, leaves, exact: exact.into() };
        Ok(())
    })
}

/// Takes values of a table's counter for rows that are about to be inserted. Other callers do not
/// get them any more, whatever becomes of the rows. They are not logged: the insert that uses them
/// says so in `millpond_row_changes.counter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_counter_take(table: *const Table, counter: *mut Counter) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the counter are null or valid.
        let (table, counter) = unsafe { (shared(table)?, exclusive(counter)?) };
        let Counter { offset, increment, count, max, .. } = *counter;
        let taken = table.table.take_values(CounterStep { offset, increment, count, max });
        (counter.first, counter.granted) = taken.map_or((0, 0), |taken| (taken.first, taken.count));
        Ok(())
    })
}

/// How a transaction shares a table's counter with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum CounterLock {
    /// It locks the counter only if another transaction has locked it or wants to.
    IfLocked = 0,
    /// It locks the counter: until the end of its statement, no other transaction that does so too,
    /// or that asks with `IF_LOCKED`, takes values.
    Always = 1,
}

fn counter_lock_of(number: u32) -> Done<EngineLock> {
    match number {
        0 => Ok(EngineLock::IfLocked),
        1 => Ok(EngineLock::Always),
        other => Err(misuse(format!("{other} is no way to lock a counter"))),
    }
}

/// Locks the counter of a table as `lock`, a `millpond_counter_lock_kind`, says, until the end of
/// the statement.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_counter_lock(txn: *const Txn, table: *const Table, lock: u32) -> c_int {
    guard_ok(|| {
        // SAFETY: the handles are null or valid; one thread uses the transaction.
        let (transaction, table) = unsafe { (running(txn)?, shared(table)?) };
        Ok(transaction.lock_counter(&table.table, counter_lock_of(lock)?)?)
    })
}

/// As `millpond_counter_take`, after the counter has been locked as by `millpond_counter_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_counter_take_locked(
    txn: *const Txn,
    table: *const Table,
    lock: u32,
    counter: *mut Counter,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handles and the counter are null or valid; one thread uses the transaction.
        let (transaction, table, counter) = unsafe { (running(txn)?, shared(table)?, exclusive(counter)?) };
        let Counter { offset, increment, count, max, .. } = *counter;
        let step = CounterStep { offset, increment, count, max };
        let taken = transaction.take_values(&table.table, step, counter_lock_of(lock)?)?;
        (counter.first, counter.granted) = taken.map_or((0, 0), |taken| (taken.first, taken.count));
        Ok(())
    })
}

/// Lets transactions read the table whose snapshots are older than the table. For a table that only
/// one session uses, all of whose rows it has written itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_table_allow_older_snapshots(table: *const Table) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        unsafe { shared(table) }?.table.allow_older_snapshots();
        Ok(())
    })
}

/// Returns the next value of a table's counter: the least that was neither taken nor used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_counter_next(table: *const Table, next: *mut u64) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the result are null or valid.
        let (table, next) = unsafe { (shared(table)?, exclusive(next)?) };
        *next = table.table.next_value();
        Ok(())
    })
}

/// Makes the next value of a table's counter at least `next`, durably. To make it less, replace the
/// table by a new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_counter_raise(db: *const Db, table: *const Table, next: u64) -> c_int {
    guard_ok(|| {
        // SAFETY: the handles are null or valid.
        let (db, table) = unsafe { (shared(db)?, shared(table)?) };
        Ok(db.db.raise_counter(&table.table, next)?)
    })
}

/// Returns a change as the engine has it. REQUIRES: its bytes are valid for `'a`.
unsafe fn change_of<'a>(change: &TableChange) -> Done<EngineChange<'a>> {
    // SAFETY: the caller guarantees it.
    let (name, metadata) = unsafe { (change.name.text()?, change.metadata.get()) };
    Ok(match change.op {
        0 => EngineChange::Create { name, metadata },
        1 => EngineChange::Drop { name },
        // SAFETY: as above.
        2 => EngineChange::Rename { from: name, to: unsafe { change.new_name.text() }? },
        3 => EngineChange::Replace { name, metadata },
        4 => EngineChange::SetMetadata { name, metadata },
        other => return Err(misuse(format!("{other} is no change of a table"))),
    })
}
