//! Torn pages: which pages are restored from the doublewrite when a database is opened, and what
//! its copies prove (To6).
//!
//! A page whose write was torn by a crash has a copy whose LSN is at or above the checkpoint. Until
//! a batch is synced in place, its pages hold the checkpoint back by their first-dirty LSN, and
//! that is at most the LSN of the copy. Redo brings any copy at or above the checkpoint up to date,
//! even an older one. A copy below the checkpoint is too old: the page was written and synced after
//! it, and may have been changed and written many times since, so its last content is unknown.
//! There is one exception. If the first redo of the page names the LSN of the copy as the LSN that
//! it found on the page, then the copy is that version.
//!
//! A bulk load writes pages without redo. So a copy or redo from before may restore the content
//! that the page had in an earlier use. That is correct for a page that is torn before the load has
//! written it. If the load has committed, the page then names another tree, and a descent that
//! reads it refuses it.

use crate::log::group::PREV_MASK;
use crate::planted::{Bug, planted};
use base::Lsn;

/// What the file holds in the place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageInPlace {
    /// A whole image with this LSN.
    Whole(Lsn),
    /// No whole image, or it cannot be read.
    Damaged,
    /// The file ends before it.
    Beyond,
}

/// The part of the log that recovery replays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBounds {
    /// Redo begins here.
    pub(crate) checkpoint: Lsn,
    /// The log ends here.
    pub(crate) end: Lsn,
}

/// What the redo of a page tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageRedo {
    /// Low bits of the LSN that its first change found on the page.
    pub(crate) before: Option<u64>,
}

/// What follows from the newest whole copy of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is done.
    Leave,
    /// The copy replaces the page; redo does the rest.
    Restore,
    /// The page was once written with the LSN of the copy and synced, but the file holds an older
    /// image.
    Stale,
    /// The file has lost its end: it was long enough when the copy was made.
    FileCut,
    /// The log has lost its end: the redo of the copy was durable before the copy was made.
    LogCut,
}

/// Judges the newest whole copy of a page, of LSN `copy`.
pub(super) fn judge(copy: Lsn, place: PageInPlace, redo: PageRedo, bounds: LogBounds) -> Verdict {
    let is_named = redo.before == Some(copy.0 & PREV_MASK);
    let is_too_old = copy < bounds.checkpoint && !is_named && !planted(Bug::RestoredStale);
    match place {
        _ if copy >= bounds.end => Verdict::LogCut,
        PageInPlace::Beyond => Verdict::FileCut,
        PageInPlace::Damaged if is_too_old => Verdict::Leave,
        PageInPlace::Damaged => Verdict::Restore,
        PageInPlace::Whole(lsn) if lsn < copy && copy < bounds.checkpoint => Verdict::Stale,
        PageInPlace::Whole(_) => Verdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_that_redo_brings_up_to_date_are_restored() {
        let bounds = LogBounds { checkpoint: Lsn(100), end: Lsn(200) };
        let whole = |lsn| PageInPlace::Whole(Lsn(lsn));
        let none = PageRedo::default();
        let found = |lsn| PageRedo { before: Some(lsn) };
        let cases = [
            // The copy of a torn page may have the LSN of the checkpoint itself.
            (100, PageInPlace::Damaged, none, Verdict::Restore),
            (199, PageInPlace::Damaged, none, Verdict::Restore),
            (99, PageInPlace::Damaged, none, Verdict::Leave),
            // Redo found the page as the copy has it, or newer.
            (99, PageInPlace::Damaged, found(99), Verdict::Restore),
            (98, PageInPlace::Damaged, found(99), Verdict::Leave),
            // A whole page is never overwritten. After a crash it may be older than a copy that
            // redo covers.
            (150, whole(120), none, Verdict::Leave),
            (150, whole(20), none, Verdict::Leave),
            (99, whole(99), none, Verdict::Leave),
            (99, whole(120), none, Verdict::Leave),
            // The write of 99 was synced before the checkpoint passed it.
            (99, whole(98), none, Verdict::Stale),
            (50, PageInPlace::Beyond, none, Verdict::FileCut),
            (200, whole(20), none, Verdict::LogCut),
            (200, PageInPlace::Damaged, none, Verdict::LogCut),
        ];
        for (copy, place, redo, wanted) in cases {
            assert_eq!(
                judge(Lsn(copy), place, redo, bounds),
                wanted,
                "a copy of LSN {copy}, {place:?}, {redo:?}"
            );
        }
    }
}
