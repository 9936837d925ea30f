//! Which pages are restored from the doublewrite when a database is opened, and what its copies prove (To6).
//!
//! A page that tore in flight has a copy whose LSN lies at or above the checkpoint: until a batch is synced in place its
//! pages hold the checkpoint back by their first-dirty LSN, which is at most the copy's. Whatever older copy at or above
//! the checkpoint is taken, redo brings it up to date. A copy below the checkpoint is history: the page was written and
//! synced after it, and may have been changed and written many times since, so nobody knows what stood in its place. But
//! where the first redo of the page names the copy's LSN as the one that it found, the copy is that version.
//!
//! A bulk load writes pages without redo, so a copy or redo from before may bring back what the page was in an earlier life. A
//! page that tears before the load has written it needs just that; in a load that has committed the page then names another
//! tree, and whoever descends to it refuses it.

use crate::log::group::PREV_MASK;
use crate::planted::{Bug, planted};
use base::Lsn;

/// What stands in a page's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageInPlace {
    /// A whole image of the page with this LSN.
    Whole(Lsn),
    /// No image of it, or nothing that can be read.
    Damaged,
    /// The file ends before it.
    Beyond,
}

/// What the log says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBounds {
    /// From here on there is redo.
    pub(crate) checkpoint: Lsn,
    /// Here it ends.
    pub(crate) end: Lsn,
}

/// What redo says of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageRedo {
    /// Low bits of the LSN that the first change found on it.
    pub(crate) before: Option<u64>,
}

/// What follows from a page's newest whole copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Leave,
    /// The copy belongs in the page's place; redo does the rest.
    Restore,
    /// The page was once written with the copy's LSN and synced, and an older image stands there.
    Stale,
    /// The file has lost its end: it was long enough when the copy was made.
    FileCut,
    /// The log has lost its end: the copy's redo was durable before the copy was made.
    LogCut,
}

/// Judges the newest whole copy of a page, of LSN `copy`.
pub(super) fn judge(copy: Lsn, place: PageInPlace, redo: PageRedo, bounds: LogBounds) -> Verdict {
    let is_named = redo.before == Some(copy.0 & PREV_MASK);
    let is_history = copy < bounds.checkpoint && !is_named && !planted(Bug::RestoredStale);
    match place {
        _ if copy >= bounds.end => Verdict::LogCut,
        PageInPlace::Beyond => Verdict::FileCut,
        PageInPlace::Damaged if is_history => Verdict::Leave,
        PageInPlace::Damaged => Verdict::Restore,
        PageInPlace::Whole(lsn) if lsn < copy && copy < bounds.checkpoint => Verdict::Stale,
        PageInPlace::Whole(_) => Verdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_redo_brings_up_to_date_is_restored() {
        let bounds = LogBounds { checkpoint: Lsn(100), end: Lsn(200) };
        let whole = |lsn| PageInPlace::Whole(Lsn(lsn));
        let none = PageRedo::default();
        let found = |lsn| PageRedo { before: Some(lsn) };
        let cases = [
            // A torn page's copy may have the checkpoint's own LSN.
            (100, PageInPlace::Damaged, none, Verdict::Restore),
            (199, PageInPlace::Damaged, none, Verdict::Restore),
            (99, PageInPlace::Damaged, none, Verdict::Leave),
            // Redo found the page as the copy has it, or newer.
            (99, PageInPlace::Damaged, found(99), Verdict::Restore),
            (98, PageInPlace::Damaged, found(99), Verdict::Leave),
            // A whole page is never overwritten. One that is behind a copy that redo covers is what a crash leaves.
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
