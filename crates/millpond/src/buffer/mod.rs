//! The buffer pool: pages in memory. It reads the `pages` file and never writes this file.
//!
//! Access rules:
//!
//! 1. A page's bytes are reached only through [`PageRead`] (shared latch) and [`PageWrite`]
//!    (exclusive latch). Both hold a pin, and a pinned page keeps its frame.
//! 2. A thread that holds a latch never waits for a frame or for I/O. It may call
//!    [`Pool::try_pin`], [`Pool::try_create`] with a frame that it took before, and nothing
//!    else here that can wait. It waits for further latches only in the order that the caller's
//!    structure defines (Tr1).
//! 3. Only the mini-transaction and redo change a page. They mark it dirty under the latch of the
//!    change, before the change's log range is published.
//! 4. A frame is given to another page only when it is unpinned and clean, and no copy of it is
//!    being written.
//! 5. A thread that needs a frame never writes a page. It waits for the cleaner.
//! 6. A thread that keeps a frame or a pin while it waits for another frame is a [`FrameHolder`].

mod arena;
mod audit;
mod batch;
mod dirty;
mod dirty_set;
mod fetch;
mod frame;
mod free;
mod free_list;
mod guard;
mod latch;
mod lsn_buckets;
mod page_table;
mod pool;
mod probe;
mod read_hook;
mod resize;
#[cfg(test)]
mod tests;
mod uncached;

pub(crate) use audit::audit;
pub(crate) use batch::{Siblings, fetch_many, room_ahead};
pub(crate) use dirty::FlushTicket;
pub(crate) use free::{FrameHolder, FreeFrame};
pub(crate) use guard::{PageRead, PageWrite, Pin};
pub(crate) use pool::{FetchHint, Pool, PoolOptions, Stamp};
#[cfg(test)]
pub(crate) use read_hook::RefuseDamage;
pub(crate) use read_hook::{Arrival, ReadHook};
pub(crate) use resize::{Shrink, ShrinkStep, grow};
pub(crate) use uncached::PageImages;
