//! Bulk load: fills a new table in key order, without undo.

use crate::bytes::{Bytes, exclusive, give, shared, take_back};
use crate::db::Db;
use crate::guard::{guard_ok, guard_plain};
use crate::rc::misuse;
use millpond::BulkLoad;
use std::ffi::c_int;

/// A table that is being filled. Others do not see it before its commit.
#[derive(Debug)]
pub struct Load {
    load: Option<BulkLoad>,
}

/// Begins to fill a new table with `metadata`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_load_begin(
    db: *const Db,
    name: Bytes,
    metadata: Bytes,
    out: *mut *mut Load,
) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid, the bytes are valid during the call.
        let (db, name, metadata) = unsafe { (&shared(db)?.db, name.text()?, metadata.get()) };
        let load = Load { load: Some(db.begin_bulk_load_with(name, metadata)?) };
        // SAFETY: `out` is null or valid.
        unsafe { give(out, load) }
    })
}

/// Adds a row. Its key must be greater than that of the row before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_load_row(load: *mut Load, key: Bytes, value: Bytes) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it; the bytes are valid.
        let (load, key, value) = unsafe { (exclusive(load)?, key.get(), value.get()) };
        let load = load.load.as_mut().ok_or_else(|| misuse("the load has ended"))?;
        Ok(load.push(key, value)?)
    })
}

/// Makes the table: it is durable and visible when the call returns. The handle must still be
/// freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_load_commit(load: *mut Load) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid; one thread uses it.
        let load = unsafe { exclusive(load) }?.load.take();
        load.ok_or_else(|| misuse("the load has ended"))?.commit()?;
        Ok(())
    })
}

/// Frees the handle. A load that was not committed leaves nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_load_free(load: *mut Load) {
    // SAFETY: the handle is null or valid, and is not used any more.
    guard_plain(|| unsafe { take_back(load) });
}
