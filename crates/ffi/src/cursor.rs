//! Cursors: rows in key order, in both directions, from any place.

use crate::bytes::{Bytes, exclusive, give, shared, take_back};
use crate::ddl::Table;
use crate::guard::{guard, guard_plain};
use crate::rc::{Done, Rc, misuse};
use crate::row::{Lock, lock_of, wait_of};
use crate::txn::{Txn, running};
use millpond::{LockWait, Transaction};
use std::ffi::c_int;
use std::ops::Bound;

/// A position in a table. It survives changes of the transaction.
#[derive(Debug)]
pub struct Cursor {
    table: millpond::Table,
    /// Rows lie in these bounds.
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    lock: Lock,
    wait: LockWait,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Where a seek looks for the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Seek {
    /// The first row at `key` or behind it.
    AtOrAfter = 0,
    /// The first row behind `key`.
    After = 1,
    /// The first row behind all keys that begin with `key`.
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
    /// The cursor has no rows at this key or behind it; null: no such bound.
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
    /// 1 if the transaction did not have the row's lock before.
    pub newly_locked: u32,
}

/// Returns the least key that is greater than all keys that begin with `prefix`, if there is one.
fn behind_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return Bound::Excluded(key);
        }
    }
    Bound::Unbounded
}

impl Cursor {
    /// Reads the first or the last row between the bounds, and makes it the present row.
    fn step(
        &mut self,
        transaction: &mut Transaction,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        backward: bool,
    ) -> Done<bool> {
        let slices = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
        let mut range = match self.lock {
            Lock::None => transaction.range(&self.table, slices)?,
            Lock::Shared => transaction.range_for_share(&self.table, slices, self.wait)?,
            Lock::Exclusive => transaction.range_for_update(&self.table, slices, self.wait)?,
        };
        match if backward { range.next_back() } else { range.next() } {
            Some(row) => {
                (self.key, self.value) = row?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn show(&self, row: &mut Row) {
        let (key, value) = (Bytes::of(&self.key), Bytes::of(&self.value));
        *row = Row { key, value, newly_locked: 0 };
    }

    fn seek(&mut self, transaction: &mut Transaction, to: &Target<'_>) -> Done<bool> {
        let bound = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        let mut lower = bound(to.lower).map_or(Bound::Unbounded, Bound::Included);
        let mut upper = bound(to.upper).map_or(Bound::Unbounded, Bound::Excluded);
        if let Some(prefix) = to.prefix {
            (lower, upper) = (Bound::Included(prefix.to_vec()), behind_prefix(prefix));
        }
        self.bounds = (lower.clone(), upper.clone());
        let key = to.key.to_vec();
        let (from, until, backward) = match to.seek {
            0 => (Bound::Included(key), upper, false),
            1 => (Bound::Excluded(key), upper, false),
            2 => match behind_prefix(&key) {
                Bound::Excluded(key) => (Bound::Included(key), upper, false),
                _ => return Ok(false),
            },
            3 => (lower, Bound::Included(key), true),
            4 => (lower, Bound::Excluded(key), true),
            5 => (lower, behind_prefix(&key), true),
            6 => (lower, upper, false),
            7 => (lower, upper, true),
            other => return Err(misuse(format!("{other} is no kind of seek"))),
        };
        self.step(transaction, (from, until), backward)
    }
}

/// A seek whose bytes have been looked at.
struct Target<'a> {
    seek: u32,
    key: &'a [u8],
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    prefix: Option<&'a [u8]>,
}

/// Makes a cursor of a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_cursor_new(table: *const Table, out: *mut *mut Cursor) -> c_int {
    guard(|| {
        // SAFETY: the handle is null or valid.
        let table = unsafe { shared(table) }?.table.clone();
        let (bounds, key, value) = ((Bound::Unbounded, Bound::Unbounded), Vec::new(), Vec::new());
        let cursor = Cursor { table, bounds, lock: Lock::None, wait: LockWait::Wait, key, value };
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
            (cursor.key, cursor.value) = (Vec::new(), Vec::new());
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
        (cursor.lock, cursor.wait) = (lock_of(to.lock)?, wait_of(to.wait)?);
        // SAFETY: as above.
        let target = unsafe {
            Target {
                seek: to.seek,
                key: to.key.get(),
                lower: to.lower.optional(),
                upper: to.upper.optional(),
                prefix: to.prefix.optional(),
            }
        };
        if !cursor.seek(transaction, &target)? {
            return Ok(Rc::NotFound);
        }
        cursor.show(row);
        Ok(Rc::Ok)
    })
}

/// REQUIRES: handles, bytes and results are null or valid; one thread uses the handles.
unsafe fn go_on(cursor: *mut Cursor, txn: *const Txn, row: *mut Row, backward: bool) -> Done<Rc> {
    // SAFETY: the caller guarantees it.
    let (cursor, transaction, row) = unsafe { (exclusive(cursor)?, running(txn)?, exclusive(row)?) };
    let (lower, upper) = cursor.bounds.clone();
    let here = Bound::Excluded(cursor.key.clone());
    let bounds = if backward { (lower, here) } else { (here, upper) };
    if !cursor.step(transaction, bounds, backward)? {
        return Ok(Rc::NotFound);
    }
    cursor.show(row);
    Ok(Rc::Ok)
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
