//! The bookmark of a database: bytes that a program keeps with a commit, in the commit's group of
//! the log. After a crash the bookmark is that of the last commit that has survived and has one, so
//! it tells the program up to where its own log is contained in the database.

use super::log_record::log_record;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::group::Record;
use crate::log::room::CREDIT_BYTES;
use base::Lsn;
use base::sync::Mutex;

/// The longest bookmark, bytes.
const BOOKMARK_BYTES_MAX: usize = 64 << 10;
// It fits in the room for a commit record.
const _: () = assert!(BOOKMARK_BYTES_MAX + 64 <= CREDIT_BYTES);

/// The newest bookmark, and the LSN of its group.
#[derive(Debug, Default)]
pub(crate) struct Bookmark(Mutex<(Lsn, Vec<u8>)>);

impl Bookmark {
    /// The bookmark that recovery has found.
    pub(super) fn recovered(bookmark: Vec<u8>) -> Bookmark {
        Bookmark(Mutex::new((Lsn::ZERO, bookmark)))
    }

    /// Returns the newest bookmark; empty: none.
    pub(crate) fn get(&self) -> Vec<u8> {
        self.0.lock().1.clone()
    }

    /// Notes the bookmark of the group at `lsn`. To be called before others can find the group: so
    /// a checkpoint that begins above it lists this bookmark or a newer one.
    pub(super) fn note(&self, lsn: Lsn, bookmark: &[u8]) {
        let mut newest = self.0.lock();
        if lsn >= newest.0 {
            newest.0 = lsn;
            newest.1.clear();
            newest.1.extend_from_slice(bookmark);
        }
    }

    /// Logs a bookmark that belongs to no commit. Returns the LSN of its group.
    pub(crate) fn log(&self, log: &Log, bookmark: &[u8]) -> Result<Lsn> {
        log.make_room()?;
        Ok(log_record(log, &Record::Bookmark { bookmark }, |lsn| self.note(lsn, bookmark)))
    }
}

/// Fails for a bookmark that is too long.
pub(crate) fn check(bookmark: &[u8]) -> Result {
    match bookmark.len() {
        len if len > BOOKMARK_BYTES_MAX => {
            Err(Error::Misuse(format!("a bookmark of {len} bytes: up to {BOOKMARK_BYTES_MAX} are allowed")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bookmark_of_the_last_group_stays_in_whatever_order_they_are_noted() {
        let bookmark = Bookmark::recovered(b"found".to_vec());
        assert_eq!(bookmark.get(), b"found");
        bookmark.note(Lsn(20), b"second");
        bookmark.note(Lsn(10), b"first");
        assert_eq!(bookmark.get(), b"second");
        bookmark.note(Lsn(30), b"");
        assert_eq!(bookmark.get(), b"");
    }
}
