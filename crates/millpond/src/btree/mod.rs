//! The ordered map of byte keys: a B-link tree over latched pages.
//!
//! Rules that every file here keeps:
//!
//! 1. Latches are taken from the root down and from left to right, the space map last, never more than four (Tr1).
//! 2. Who holds a latch waits for nothing but another latch in that order. A page that is not in memory, a frame, a page
//!    number, log room: everything is let go first, then fetched or reserved, then the descent starts again.
//! 3. A page is reached only from a latched parent, a latched left sibling, or as the root, whose number never changes
//!    (Tr3). So nobody waits for a page that is being freed, and no descent meets a freed one. A thread's copy of the root
//!    and a guess at the leaf are shortcuts: what they lead to is believed only if, once it is latched, it proves to be what
//!    the way down would have found.
//! 4. A split is complete as soon as the left page names its right sibling; the separator in the parent is a shortcut that
//!    comes later (Tr2). A writer that had to go right posts it; a reader just goes right.
//! 5. Structure changes carry no undo and stay whatever becomes of the transaction that caused them (Tr4).

mod bulk;
mod chain_reader;
mod check;
mod descend;
mod merge;
mod overflow;
mod root_copy;
mod split;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use bulk::{BulkBuilder, BulkSink, PageBatch};
#[cfg(test)]
pub(crate) use check::TreeCheck;
pub(crate) use merge::is_small;
pub(crate) use overflow::{FREED_TOGETHER, chain_to_free, free_last, read_chain, write_chain};
pub(crate) use tree::{Tree, row_bytes};
