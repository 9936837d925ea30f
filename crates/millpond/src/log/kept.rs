//! Room in the log buffer that is kept for records which must not wait for any.
//!
//! Whoever is about to append waits first until half of the buffer is free ([`Log::make_room`]).
//! What is kept counts as taken there. So it is free when its record comes, as long as those that
//! append at once need less than half of the buffer.

use super::Log;
use super::group::{self, Record};
use crate::error::{Error, Result};
use base::TxnId;
use base::sync::atomic::Ordering;
use std::sync::Arc;

/// The longest bookmark of a commit that must not wait, bytes.
pub(crate) const KEPT_BOOKMARK_BYTES: usize = 32;

/// Room for one commit record and a bookmark. It is free again when this is dropped, after the
/// record.
#[derive(Debug)]
pub(crate) struct KeptRoom {
    log: Arc<super::KeptBytes>,
    bytes: u64,
}

/// Returns the length of a group that holds a commit record and the longest bookmark, bytes.
fn commit_bytes() -> u64 {
    let mut bytes = Vec::new();
    group::begin(&mut bytes);
    group::put_record(&mut bytes, &Record::Commit { txn: TxnId((1 << 48) - 1) });
    group::put_record(&mut bytes, &Record::Bookmark { mark: &[0; KEPT_BOOKMARK_BYTES] });
    bytes.len() as u64
}

impl Log {
    /// Keeps room for one commit record and its bookmark. Waits until the buffer has it. Errors:
    /// `Limit` if a quarter of the buffer is kept already; the log has failed. REQUIRES: no latch
    /// is held.
    pub(crate) fn keep_room(&self) -> Result<KeptRoom> {
        let (bytes, most) = (commit_bytes(), self.ring.capacity() / 4);
        let kept = KeptRoom { log: Arc::clone(&self.kept), bytes };
        if self.kept.0.fetch_add(bytes, Ordering::SeqCst) + bytes > most {
            let what = format!("{} prepared transactions are held by their sessions", most / bytes);
            return Err(Error::Limit { what });
        }
        // Now that it counts, this leaves it free.
        self.make_room()?;
        Ok(kept)
    }
}

impl Drop for KeptRoom {
    fn drop(&mut self) {
        self.log.0.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}
