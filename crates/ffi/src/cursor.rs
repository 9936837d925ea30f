//! Cursors: rows in key order, in both directions, from any place.

use crate::bytes::{Bytes, exclusive, give, shared, take_back};
use crate::ddl::Table;
use crate::guard::{guard, guard_plain};
use crate::rc::{Done, Rc, misuse};
use crate::row::{Wait, lock_of, wait_of};
use crate::txn::{Txn, running};
use millpond::{EntryView, IndexCursor, Seek as EngineSeek, Transaction};
use std::ffi::c_int;
use std::ops::Bound;

/// A position in a table. It survives changes of the transaction, and its end.
#[derive(Debug)]
pub struct Cursor {
    cursor: IndexCursor,
}

/// Which of a transaction's views has an index entry. While a transaction has not changed rows that
/// others had changed after its snapshot, it is `MILLPOND_VIEW_ANY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum View {
    /// The entry is shown, whatever its row.
    Any = 0,
    /// The snapshot alone: `millpond_shows` tells whether the entry is shown.
    Snapshot = 1,
    /// The newest rows alone: `millpond_shows` tells whether the entry is shown.
    Present = 2,
}

/// Rows that a cursor copies first if the caller does not say how many it will read.
const DEFAULT_ROWS: usize = 4;

/// Where a seek looks for the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Seek {
    /// The first row at `key` or after it.
    AtOrAfter = 0,
    /// The first row after `key`.
    After = 1,
    /// The first row after all keys that begin with `key`.
    AfterPrefix = 2,
    /// The last row at `key` or before it.
    AtOrBefore = 3,
    /// The last row before `key`, and so before all keys that begin with it.
    Before = 4,
    /// The last row whose key begins with `key` or lies before it.
    PrefixOrBefore = 5,
    /// The first row.
    First = 6,
    /// The last row.
    Last = 7,
}

/// Where a cursor goes, and how it reads from there on. Fill with zeros first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SeekTo {
    /// A `millpond_seek`.
    pub seek: u32,
    /// The key that the seek is about.
    pub key: Bytes,
    /// The cursor has no rows before this key; null: no such bound.
    pub lower: Bytes,
    /// The cursor has no rows at this key or after it; null: no such bound.
    pub upper: Bytes,
    /// The cursor has only rows whose keys begin with this; null: all.
    pub prefix: Bytes,
    /// A `millpond_lock`: each row that the cursor returns is locked so.
    pub lock: u32,
    /// A `millpond_wait`.
    pub wait: u32,
    /// About how many rows will be read; 0: unknown. A hint.
    pub rows: u32,
}

/// A row. Its bytes stay as they are until the next call with the cursor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Row {
    /// Its key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// For a cursor that locks: 1 if the transaction did not have the row's lock before.
    pub newly_locked: u32,
    /// 1 if another transaction has the row, which is shown as it was last committed. The cursor
    /// has not locked it.
    pub peeked: u32,
    /// A `millpond_view`.
    pub view: u32,
}

/// Returns the least key that is greater than all keys that begin with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return Bound::Excluded(key);
        }
    }
    Bound::Unbounded
}

/// Returns the bounds of a seek. REQUIRES: the bytes are valid during the call.
unsafe fn bounds_of(to: &SeekTo) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    // SAFETY: the caller guarantees it.
    let (lower, upper, prefix) = unsafe { (to.lower.optional(), to.upper.optional(), to.prefix.optional()) };
    if let Some(prefix) = prefix {
        return (Bound::Included(prefix.to_vec()), after_prefix(prefix));
    }
    let lower = lower.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
    let upper = upper.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
    (lower, upper)
}

/// The key and the value of a row of a cursor.
type Found = Option<(Bytes, Bytes)>;

fn found(row: Option<(&[u8], &[u8])>) -> Found {
    row.map(|(key, value)| (Bytes::of(key), Bytes::of(value)))
}

/// Shows the cursor's present row to the caller.
fn show(found: Found, transaction: &Transaction, cursor: &IndexCursor, row: &mut Row) -> Done<Rc> {
    let Some((key, value)) = found else { return Ok(Rc::NotFound) };
    let newly_locked = transaction.newly_locked().into();
    let view = match cursor.view() {
        EntryView::Any => View::Any,
        EntryView::Snapshot => View::Snapshot,
        EntryView::Present => View::Present,
    };
    *row = Row { key, value, newly_locked, peeked: cursor.is_peeked().into(), view: view as u32 };
    Ok(Rc::Ok)
}

/// Goes where `seek` says.
fn seek_in(cursor: &mut IndexCursor, transaction: &mut Transaction, seek: u32, key: &[u8]) -> Done<Found> {
    let after = match (seek, after_prefix(key)) {
        (2 | 5, Bound::Excluded(after)) => Some(after),
        _ => None,
    };
    let seek = match (seek, &after) {
        (0, _) => EngineSeek::AtOrAfter(key),
        (1, _) => EngineSeek::After(key),
        (2, Some(after)) => EngineSeek::AtOrAfter(after),
        // All keys of the table begin with these bytes or lie before them.
        (2, None) => return Ok(None),
        (3, _) => EngineSeek::AtOrBefore(key),
        (4, _) => EngineSeek::Before(key),
        (5, Some(after)) => EngineSeek::Before(after),
        (5, None) | (7, _) => EngineSeek::Last,
        (6, _) => EngineSeek::First,
        (other, _) => return Err(misuse(format!("{other} is no kind of seek"))),
    };
    Ok(found(cursor.seek(transaction, seek)?))
}

/// Makes a cursor of a table. `rows` is the table of the rows that its entries name; null: it has
/// rows itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_new(
    table: *const Table,
    rows: *const Table,
    out: *mut *mut Cursor,
) -> c_int {
    guard(|| {
        // SAFETY: the handles are null or valid.
        let (table, rows) = unsafe { (shared(table)?, shared(rows)) };
        let cursor = match rows {
            Ok(rows) => IndexCursor::new(&table.table, &rows.table),
            Err(_) => IndexCursor::of_rows(&table.table),
        };
        let cursor = Cursor { cursor };
        // SAFETY: `out` is null or valid.
        unsafe { give(out, cursor) }.map(|()| Rc::Ok)
    })
}

/// Frees a cursor. Locks of its rows stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_free(cursor: *mut Cursor) {
    // SAFETY: the handle is null or valid, and is not used any more.
    guard_plain(|| unsafe { take_back(cursor) });
}

/// Forgets the cursor's place and the rows that it has copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_reset(cursor: *mut Cursor) {
    guard_plain(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        if let Ok(cursor) = unsafe { exclusive(cursor) } {
            cursor.cursor.reset();
        }
    });
}

/// Goes to a row and returns it. `MILLPOND_RC_NOT_FOUND`: there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_seek(
    cursor: *mut Cursor,
    txn: *const Txn,
    to: *const SeekTo,
    row: *mut Row,
) -> c_int {
    guard(|| {
        // SAFETY: handles, bytes and results are null or valid; one thread uses the handles.
        let (cursor, transaction, to) = unsafe { (exclusive(cursor)?, running(txn)?, shared(to)?) };
        // SAFETY: as above.
        let row = unsafe { exclusive(row) }?;
        let cursor = &mut cursor.cursor;
        // SAFETY: as above.
        let (bounds, key) = unsafe { (bounds_of(to), to.key.get()) };
        cursor.set_bounds((bounds.0.as_ref().map(|key| &key[..]), bounds.1.as_ref().map(|key| &key[..])));
        let peeks = to.wait == Wait::Peek as u32;
        cursor.set_lock(lock_of(to.lock)?, wait_of(if peeks { Wait::Wait as u32 } else { to.wait })?);
        cursor.set_peeks(peeks);
        cursor.expect_rows(if to.rows == 0 { DEFAULT_ROWS } else { to.rows as usize });
        let found = seek_in(cursor, transaction, to.seek, key)?;
        show(found, transaction, cursor, row)
    })
}

/// REQUIRES: handles, bytes and results are null or valid; one thread uses the handles.
unsafe fn go_on(cursor: *mut Cursor, txn: *const Txn, row: *mut Row, backward: bool) -> Done<Rc> {
    // SAFETY: the caller guarantees it.
    let (cursor, transaction, row) = unsafe { (exclusive(cursor)?, running(txn)?, exclusive(row)?) };
    let found = match backward {
        false => found(cursor.cursor.next(transaction)?),
        true => found(cursor.cursor.prev(transaction)?),
    };
    show(found, transaction, &cursor.cursor, row)
}

/// Goes to the next row in key order and returns it. `MILLPOND_RC_NOT_FOUND`: there is none; the
/// cursor stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_next(cursor: *mut Cursor, txn: *const Txn, row: *mut Row) -> c_int {
    // SAFETY: the caller guarantees it.
    guard(|| unsafe { go_on(cursor, txn, row, false) })
}

/// Goes to the row before in key order and returns it. `MILLPOND_RC_NOT_FOUND`: there is none; the
/// cursor stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_prev(cursor: *mut Cursor, txn: *const Txn, row: *mut Row) -> c_int {
    // SAFETY: as above.
    guard(|| unsafe { go_on(cursor, txn, row, true) })
}

/// Returns 1 if the transaction has changed rows of one of these tables that others had changed
/// after its snapshot, else 0. If it has, the entry of a key in the index `table` of `rows` may
/// belong to one row in the snapshot and to another one now, and cursors find both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_has_overtaken(
    txn: *const Txn,
    table: *const Table,
    rows: *const Table,
) -> c_int {
    guard_plain(|| {
        // SAFETY: the handles are null or valid; one thread uses the transaction.
        let handles = unsafe { (running(txn), shared(table), shared(rows)) };
        let (Ok(transaction), Ok(table), Ok(rows)) = handles else { return 0 };
        transaction.has_overtaken(&table.table, &rows.table).into()
    })
}

/// Tells whether an index entry is to be shown that a plain read has found in `view`, a
/// `millpond_view`. `key` is the key of its row in `rows`. `MILLPOND_RC_NOT_FOUND`: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_shows(txn: *const Txn, rows: *const Table, key: Bytes, view: u32) -> c_int {
    guard(|| {
        // SAFETY: the handles are null or valid, the bytes are valid during the call; one thread
        // uses the transaction.
        let (transaction, rows, key) = unsafe { (running(txn)?, shared(rows)?, key.get()) };
        let view = match view {
            0 => EntryView::Any,
            1 => EntryView::Snapshot,
            2 => EntryView::Present,
            other => return Err(misuse(format!("{other} is no view"))),
        };
        Ok(if transaction.shows(view, &rows.table, key)? { Rc::Ok } else { Rc::NotFound })
    })
}
