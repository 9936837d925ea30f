//! Opening, closing and looking after a database.

use crate::bytes::{Buffer, Bytes, c_text, exclusive, give, shared, take_back};
use crate::guard::{guard, guard_ok, guard_plain, log};
use crate::on_deadlock::{DeadlockListener, OnDeadlockFn};
use crate::rc::{Rc, misuse};
use millpond::{Doublewrite, Error, Options};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// The number of this interface. It grows with every change that breaks callers.
pub const MILLPOND_ABI: u32 = 1;

/// An open database.
#[derive(Debug)]
pub struct Db {
    pub(crate) db: millpond::Db,
}

/// How a database is opened. A zero takes the engine's default. Fill with zeros first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DbOptions {
    /// Its directory. Null: a database in memory, which ends with the process.
    pub dir: *const c_char,
    /// Another directory for the redo log, or null.
    pub redo_dir: *const c_char,
    /// Another directory for the doublewrite, or null.
    pub doublewrite_dir: *const c_char,
    /// Page size, 4096, 8192 or 16384 bytes; only when the database is created.
    pub page_bytes: u64,
    /// Memory for cached pages.
    pub buffer_pool_bytes: u64,
    /// Redo capacity; 0: as the recovery target says.
    pub redo_capacity_bytes: u64,
    /// How long recovery may take, milliseconds.
    pub recovery_target_ms: u64,
    /// Memory for the undo of transactions and for old versions.
    pub history_memory_bytes: u64,
    /// Disk space for old versions.
    pub history_disk_bytes: u64,
    /// Other than 0: pages are written without a copy in the doublewrite, and a power cut may tear
    /// them for good (`millpond_set_doublewrite`).
    pub unsafe_no_doublewrite: u32,
    /// Other than 0: the process is there for the database. Opening may raise its limit of open
    /// files, and freed memory goes back to the system by `malloc_trim`.
    pub own_process: u32,
    /// Memory for the locks of rows and ranges.
    pub lock_memory_bytes: u64,
    /// Is told of each deadlock while its transactions still wait, by any thread; or null.
    pub on_deadlock: OnDeadlockFn,
    /// The context of `on_deadlock`.
    pub on_deadlock_context: *mut c_void,
}

/// Gets a name, or other bytes, of a list. A result other than 0 ends the list.
pub type NameFn = Option<unsafe extern "C" fn(context: *mut c_void, name: Bytes) -> c_int>;

/// Returns `MILLPOND_ABI` of the library.
#[unsafe(no_mangle)]
pub extern "C" fn millpond_abi_version() -> u32 {
    MILLPOND_ABI
}

/// Returns the version of the library as text, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn millpond_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the engine's options. REQUIRES: the paths are null or valid.
unsafe fn options_of(options: &DbOptions) -> Result<Options, crate::rc::Failure> {
    let mut all =
        Options::new().on_failure(|error| log(&stopped(error))).own_process(options.own_process != 0);
    if options.page_bytes > 0 {
        all = all.page_bytes(
            usize::try_from(options.page_bytes).map_err(|_| misuse("the page size is too large"))?,
        );
    }
    if options.buffer_pool_bytes > 0 {
        all = all.buffer_pool_bytes(options.buffer_pool_bytes);
    }
    if options.recovery_target_ms > 0 {
        all = all.recovery_target(Duration::from_millis(options.recovery_target_ms));
    }
    // The later one counts.
    if options.redo_capacity_bytes > 0 {
        all = all.redo_capacity_bytes(options.redo_capacity_bytes);
    }
    if options.history_memory_bytes > 0 {
        all = all.history_memory_bytes(options.history_memory_bytes);
    }
    if options.lock_memory_bytes > 0 {
        all = all.lock_memory_bytes(options.lock_memory_bytes);
    }
    if options.history_disk_bytes > 0 {
        all = all.history_disk_bytes(options.history_disk_bytes);
    }
    if let Some(function) = options.on_deadlock {
        let listener = DeadlockListener { function, context: options.on_deadlock_context };
        all = all.on_deadlock(move |number, tags| listener.tell(number, tags));
    }
    if options.unsafe_no_doublewrite != 0 {
        all = all.doublewrite(Doublewrite::UnsafeOff);
    }
    // SAFETY: the caller guarantees it.
    if let Some(dir) = unsafe { c_text(options.redo_dir) }? {
        all = all.redo_dir(dir);
    }
    // SAFETY: as above.
    if let Some(dir) = unsafe { c_text(options.doublewrite_dir) }? {
        all = all.doublewrite_dir(dir);
    }
    Ok(all)
}

/// Says that the database has stopped, why, and what to do.
fn stopped(error: &Error) -> String {
    format!(
        "the database has stopped: {error}. Nothing is written and nothing is committed any more. See what the system \
         says about the device, then end the program and start it again: recovery keeps every commit that was \
         acknowledged"
    )
}

/// Puts into `text` why the database has stopped after a failed write or sync, and what to do; one
/// sentence, or nothing if it goes on. The function of `millpond_set_log` gets the same at once.
/// Works after closing too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_failure(db: *const Db, text: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        let failure = unsafe { shared(db) }?.db.failure();
        let says = failure.as_ref().map(stopped).unwrap_or_default();
        // SAFETY: the buffer is null or valid.
        unsafe { exclusive(text) }?.set(says.as_bytes())
    })
}

/// Opens the database in a directory, or creates it; recovers it if it was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_open(options: *const DbOptions, out: *mut *mut Db) -> c_int {
    guard_ok(|| {
        // SAFETY: the options and their paths are valid during the call.
        let options = unsafe { shared(options) }?;
        // SAFETY: as above.
        let engine = unsafe { options_of(options) }?;
        // SAFETY: as above.
        let db = match unsafe { c_text(options.dir) }? {
            Some(dir) => engine.open(dir)?,
            None => engine.open_in_memory()?,
        };
        // SAFETY: `out` is null or valid.
        unsafe { give(out, Db { db }) }
    })
}

/// Closes the database: open transactions roll back, the log is synced, all pages are written.
/// Later calls return `MILLPOND_RC_CLOSED`. The handle must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_close(db: *const Db) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.close()?))
}

/// Frees the handle. Closes the database if it is still open and no transaction uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_db_free(db: *mut Db) {
    // SAFETY: the handle is null or valid, and is not used any more.
    guard_plain(|| unsafe { take_back(db) });
}

/// Waits until every commit so far is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_sync(db: *const Db) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.sync()?))
}

/// Writes every dirty page and moves the checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_checkpoint(db: *const Db) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.checkpoint()?))
}

/// Sets how many bytes the redo log may hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_redo_capacity(db: *const Db, bytes: u64) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.set_redo_capacity(bytes)?))
}

/// Sets how long recovery may take, milliseconds. The redo capacity follows from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_recovery_target(db: *const Db, ms: u64) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.set_recovery_target(Duration::from_millis(ms))?))
}

/// Gives the buffer pool another size, bytes, while others use the database. Returns when that is
/// done; after an error the size is as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_buffer_pool_bytes(db: *const Db, bytes: u64) -> c_int {
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.set_buffer_pool_bytes(bytes)?))
}

/// Sets how much memory the locks of rows and ranges may take, bytes; 0: the default. Locks that
/// transactions have stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_lock_memory_bytes(db: *const Db, bytes: u64) -> c_int {
    let bytes = Some(bytes).filter(|bytes| *bytes > 0);
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.set_lock_memory_bytes(bytes)?))
}

/// Switches the doublewrite on (other than 0) or off (0) while others use the database. Without it
/// a power cut may tear pages, and they are lost. After an error pages are protected as before, or
/// better.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_doublewrite(db: *const Db, on: c_int) -> c_int {
    let wanted = if on == 0 { Doublewrite::UnsafeOff } else { Doublewrite::On };
    // SAFETY: the handle is null or valid.
    guard_ok(|| Ok(unsafe { shared(db) }?.db.set_doublewrite(wanted)?))
}

/// Moves the redo log to another directory, which exists and is empty, while others use the
/// database. New files of the log are made there from now on. After an error the log is where it
/// was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_redo_dir(db: *const Db, dir: *const c_char) -> c_int {
    guard_ok(|| {
        // SAFETY: the text is null or valid during the call.
        let dir = unsafe { c_text(dir) }?.ok_or_else(|| misuse("no directory"))?;
        // SAFETY: the handle is null or valid.
        Ok(unsafe { shared(db) }?.db.set_redo_dir(dir)?)
    })
}

/// Moves the doublewrite to another directory, as `millpond_set_redo_dir` moves the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_doublewrite_dir(db: *const Db, dir: *const c_char) -> c_int {
    guard_ok(|| {
        // SAFETY: the text is null or valid during the call.
        let dir = unsafe { c_text(dir) }?.ok_or_else(|| misuse("no directory"))?;
        // SAFETY: the handle is null or valid.
        Ok(unsafe { shared(db) }?.db.set_doublewrite_dir(dir)?)
    })
}

/// Puts the directory in which files of the redo log are made into `dir`. Puts into `before` the
/// one that `millpond_set_redo_dir` has left while files there are still needed, else nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_redo_dir(db: *const Db, dir: *mut Buffer, before: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        let db = &unsafe { shared(db) }?.db;
        let is_before = db.redo_dir_before().unwrap_or_default();
        // SAFETY: the buffers are null or valid.
        unsafe { exclusive(dir) }?.set(db.redo_dir().as_os_str().as_encoded_bytes())?;
        // SAFETY: as above.
        unsafe { exclusive(before) }?.set(is_before.as_os_str().as_encoded_bytes())
    })
}

/// Puts the directory of the doublewrite into `dir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_doublewrite_dir(db: *const Db, dir: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle is null or valid.
        let is = unsafe { shared(db) }?.db.doublewrite_dir();
        // SAFETY: the buffer is null or valid.
        unsafe { exclusive(dir) }?.set(is.as_os_str().as_encoded_bytes())
    })
}

/// Checks every page and every tree. Returns `MILLPOND_RC_CORRUPT` if something is wrong. Puts the
/// report, one line or one for each problem, into `report`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_check(db: *const Db, report: *mut Buffer) -> c_int {
    guard(|| {
        // SAFETY: the handle is null or valid.
        let found = unsafe { shared(db) }?.db.check()?;
        // SAFETY: the buffer is null or valid.
        if let Ok(report) = unsafe { exclusive(report) } {
            report.set(found.to_string().as_bytes())?;
        }
        Ok(if found.is_clean() { Rc::Ok } else { Rc::Corrupt })
    })
}
