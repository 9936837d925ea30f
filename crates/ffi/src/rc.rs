//! Return codes: the one table of them, and how an [`Error`] of the engine becomes one.

use millpond::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// What a call returns. The numbers never change; new ones are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Rc {
    /// Done.
    Ok = 0,
    /// There is no such row, or no further row. No text.
    NotFound = 1,
    /// Another transaction has the row, and the caller skips such rows. No text.
    Skipped = 2,
    /// A row to be inserted exists. Nothing of the row change was done.
    KeyExists = 3,
    /// Victim of a deadlock: the transaction has been rolled back.
    Deadlock = 4,
    /// A lock did not become free in time. Only this call has failed.
    LockTimeout = 5,
    /// The row was changed after the snapshot: the transaction has been rolled back.
    WriteConflict = 6,
    /// The transaction was cancelled from another thread. Only this call has failed.
    Cancelled = 7,
    /// An earlier error has rolled the transaction back.
    Aborted = 8,
    /// There is no such table, or it has been dropped.
    NoSuchTable = 9,
    /// A table of that name exists.
    TableExists = 10,
    /// The table was made after the transaction's snapshot.
    TableChanged = 11,
    /// The key is longer than a page can index.
    KeyTooLong = 12,
    /// The call makes no sense as it was made.
    Misuse = 13,
    /// The engine cannot do that yet.
    NotSupported = 14,
    /// The database is closed.
    Closed = 15,
    /// The database stopped after a failed write or sync; opening it again recovers it.
    Poisoned = 16,
    /// The database is open elsewhere.
    InUse = 17,
    /// The versions that the snapshot needs are gone.
    SnapshotTooOld = 18,
    /// The operating system refused an operation on a file.
    Io = 19,
    /// A limit was reached; the text names it.
    Limit = 20,
    /// No space is left.
    DiskFull = 21,
    /// A file is damaged; the text names file and place.
    Corrupt = 22,
    /// A file belongs to another program or format.
    Foreign = 23,
    /// No memory is left for a result.
    NoMemory = 24,
    /// A failure without a code of its own; see the text.
    Other = 25,
    /// The database was opened by the process from which `fork` has made this one. Only that one
    /// can use it.
    Forked = 26,
}

impl Rc {
    /// All codes, in the order of their numbers.
    ///
    /// cbindgen:ignore
    pub const ALL: [Rc; 27] = [
        Rc::Ok,
        Rc::NotFound,
        Rc::Skipped,
        Rc::KeyExists,
        Rc::Deadlock,
        Rc::LockTimeout,
        Rc::WriteConflict,
        Rc::Cancelled,
        Rc::Aborted,
        Rc::NoSuchTable,
        Rc::TableExists,
        Rc::TableChanged,
        Rc::KeyTooLong,
        Rc::Misuse,
        Rc::NotSupported,
        Rc::Closed,
        Rc::Poisoned,
        Rc::InUse,
        Rc::SnapshotTooOld,
        Rc::Io,
        Rc::Limit,
        Rc::DiskFull,
        Rc::Corrupt,
        Rc::Foreign,
        Rc::NoMemory,
        Rc::Other,
        Rc::Forked,
    ];

    /// Returns the code of an engine error.
    pub(crate) fn of(error: &Error) -> Rc {
        match error {
            Error::Deadlock => Rc::Deadlock,
            Error::LockTimeout => Rc::LockTimeout,
            Error::WriteConflict => Rc::WriteConflict,
            Error::Cancelled => Rc::Cancelled,
            Error::Misuse(_) => Rc::Misuse,
            Error::TableExists { .. } => Rc::TableExists,
            Error::NoSuchTable { .. } => Rc::NoSuchTable,
            Error::TableChanged { .. } => Rc::TableChanged,
            Error::KeyExists => Rc::KeyExists,
            Error::KeyTooLong { .. } => Rc::KeyTooLong,
            Error::Aborted => Rc::Aborted,
            Error::Closed => Rc::Closed,
            Error::Forked => Rc::Forked,
            Error::InUse { .. } => Rc::InUse,
            Error::SnapshotTooOld => Rc::SnapshotTooOld,
            Error::Io { .. } => Rc::Io,
            Error::Limit { .. } => Rc::Limit,
            Error::DiskFull { .. } => Rc::DiskFull,
            Error::Corrupt { .. } => Rc::Corrupt,
            Error::Foreign { .. } => Rc::Foreign,
            Error::Poisoned { .. } => Rc::Poisoned,
            _ => Rc::Other,
        }
    }
}

/// Why a call failed: a code, and a sentence unless the code says all.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) rc: Rc,
    pub(crate) text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { rc: Rc::of(&error), text: error.to_string() }
    }
}

/// Makes the failure of a call that makes no sense.
pub(crate) fn misuse(text: impl Into<String>) -> Failure {
    Failure { rc: Rc::Misuse, text: text.into() }
}

/// The result of the inside of a function.
pub(crate) type Done<T = ()> = Result<T, Failure>;

thread_local! {
    /// The text of the thread's last failure.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Remembers the text of a failure for the calling thread, and returns its code.
pub(crate) fn fail(failure: Failure) -> c_int {
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    // At the end of a thread there may be no place for it any more.
    let _ = TEXT.try_with(|last| last.replace(text));
    failure.rc as c_int
}

/// Returns a sentence about the last failed call of this thread. It stays valid until the next
/// failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn millpond_error_text() -> *const c_char {
    TEXT.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the name of a code, such as "KEY_EXISTS", or "UNKNOWN".
#[unsafe(no_mangle)]
pub extern "C" fn millpond_rc_name(rc: c_int) -> *const c_char {
    const NAMES: [&CStr; 27] = [
        c"OK",
        c"NOT_FOUND",
        c"SKIPPED",
        c"KEY_EXISTS",
        c"DEADLOCK",
        c"LOCK_TIMEOUT",
        c"WRITE_CONFLICT",
        c"CANCELLED",
        c"ABORTED",
        c"NO_SUCH_TABLE",
        c"TABLE_EXISTS",
        c"TABLE_CHANGED",
        c"KEY_TOO_LONG",
        c"MISUSE",
        c"NOT_SUPPORTED",
        c"CLOSED",
        c"POISONED",
        c"IN_USE",
        c"SNAPSHOT_TOO_OLD",
        c"IO",
        c"LIMIT",
        c"DISK_FULL",
        c"CORRUPT",
        c"FOREIGN",
        c"NO_MEMORY",
        c"OTHER",
        c"FORKED",
    ];
    let name = usize::try_from(rc).ok().and_then(|rc| NAMES.get(rc));
    name.unwrap_or(&c"UNKNOWN").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frozen table. A number here may never change.
    #[test]
    fn every_code_has_the_number_and_the_name_that_it_has_always_had() {
        for (number, rc) in Rc::ALL.into_iter().enumerate() {
            assert_eq!(rc as usize, number, "{rc:?}");
            // SAFETY: the function returns a string that lives as long as the program.
            let name = unsafe { CStr::from_ptr(millpond_rc_name(rc as c_int)) };
            let plain = name.to_str().unwrap().replace('_', "").to_lowercase();
            assert_eq!(plain, format!("{rc:?}").to_lowercase());
        }
        for unknown in [-1, Rc::ALL.len() as c_int] {
            // SAFETY: as above.
            assert_eq!(unsafe { CStr::from_ptr(millpond_rc_name(unknown)) }, c"UNKNOWN");
        }
    }

    #[test]
    fn a_failure_leaves_its_text_for_the_thread_that_made_the_call() {
        let text = || {
            // SAFETY: the text is valid until the next failure of this thread.
            unsafe { CStr::from_ptr(millpond_error_text()) }.to_str().unwrap().to_owned()
        };
        assert_eq!(fail(Error::KeyExists.into()), Rc::KeyExists as c_int);
        assert_eq!(text(), "the key already exists");
        let other = std::thread::spawn(move || {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(millpond_error_text()) }.to_str().unwrap().to_owned()
        });
        assert_eq!(other.join().unwrap(), "");
        fail(misuse("a\0b"));
        assert_eq!(text(), "a b");
    }
}
