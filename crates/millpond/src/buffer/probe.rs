//! [`PageProbe`]: where a page is, as the page table and its frame have it.

use super::frame::{AHEAD, CLAIMED, INCOMPLETE, LOADING};
use super::guard::Pin;
use super::pool::Pool;
use base::PageNo;

/// The state of a page according to the page table and the frame.
pub(super) enum PageProbe<'p> {
    /// No frame has it.
    Absent,
    /// A thread is moving this page or another one in or out: look again.
    Leaving,
    /// Being read.
    Loading(Pin<'p>),
    /// In memory, and it lacks redo.
    Incomplete(Pin<'p>),
    /// In memory.
    Resident(Pin<'p>),
}

impl<'p> PageProbe<'p> {
    /// Looks for a page, and pins it if it is there.
    pub(super) fn of(pool: &'p Pool, page: PageNo) -> PageProbe<'p> {
        let Some((index, frame)) = pool.table.hint(pool.frames(), page) else {
            // The lookup without the mutex may miss a page that is there, while other pages come
            // and go.
            let there = pool.table.get_locked(pool.frames(), page);
            return if there.is_some() { PageProbe::Leaving } else { PageProbe::Absent };
        };
        pool.frames().prefetch(index);
        let before = frame.pin();
        let pin = Pin::adopt(pool, index, page);
        if before & CLAIMED != 0 || frame.page_no() != page {
            return PageProbe::Leaving;
        }
        match before & (LOADING | INCOMPLETE | AHEAD) {
            0 => PageProbe::Resident(pin),
            AHEAD => {
                pool.frames().get(index).clear(AHEAD);
                PageProbe::Resident(pin)
            }
            _ if before & LOADING != 0 => PageProbe::Loading(pin),
            _ => {
                pool.frames().get(index).clear(AHEAD);
                PageProbe::Incomplete(pin)
            }
        }
    }
}
