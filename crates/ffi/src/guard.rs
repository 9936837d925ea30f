//! The panic boundary: no panic leaves a function of the C interface.

use crate::rc::{Done, Rc, fail};
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Gets a line of text for the log of the program: that the database has stopped, and why; or what
/// failed, just before the process aborts. It must not call the database.
pub type LogFn = Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char)>;

/// Where lines for the log go.
#[derive(Clone, Copy)]
struct Logger {
    function: unsafe extern "C" fn(*mut c_void, *const c_char),
    context: *mut c_void,
}

// SAFETY: whoever sets a logger guarantees that any thread may call it.
unsafe impl Send for Logger {}

static LOGGER: Mutex<Option<Logger>> = Mutex::new(None);

/// Sets the function that gets lines for the log of the program; null takes it away. Any thread may
/// call it. Without it such lines go to the standard error stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_set_log(function: LogFn, context: *mut c_void) {
    let logger = function.map(|function| Logger { function, context });
    *LOGGER.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = logger;
}

/// Writes a line to the log of the program.
pub(crate) fn log(text: &str) {
    let logger = *LOGGER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match logger {
        Some(logger) => {
            let line = CString::new(text.replace('\0', " ")).unwrap_or_default();
            // SAFETY: the caller of `millpond_set_log` guarantees that the function may be called
            // by any thread with its context; the text lives during the call.
            unsafe { (logger.function)(logger.context, line.as_ptr()) }
        }
        None => eprintln!("{text}"),
    }
}

/// Logs a panic, then aborts the process. Latches may be held, so the process cannot go on.
#[cold]
fn abort(payload: &(dyn std::any::Any + Send)) -> ! {
    let what = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let what = what.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    log(&format!("millpond: a mistake in the engine, the process ends: {what}"));
    std::process::abort()
}

/// Runs the inside of a function and turns its result into a code.
#[inline]
pub(crate) fn guard(inside: impl FnOnce() -> Done<Rc>) -> c_int {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(rc)) => rc as c_int,
        Ok(Err(failure)) => fail(failure),
        Err(payload) => abort(&*payload),
    }
}

/// As [`guard`], for an inside without a code of its own.
#[inline]
pub(crate) fn guard_ok(inside: impl FnOnce() -> Done) -> c_int {
    guard(|| inside().map(|()| Rc::Ok))
}

/// Runs the inside of a function that cannot fail.
pub(crate) fn guard_plain<R>(inside: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(result) => result,
        Err(payload) => abort(&*payload),
    }
}
