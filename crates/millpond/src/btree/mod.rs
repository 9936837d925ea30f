//! The ordered map of byte keys: a B-link tree over latched pages.
//!
//! Rules of every file here:
//!
//! 1. Latches are taken from the root down and from left to right, the space map last, never more
//!    than four (Tr1).
//! 2. A thread that holds a latch waits for nothing but another latch in that order. For a page
//!    that is not in memory, a frame, a page number or log room, it first releases all latches.
//!    Then it fetches or reserves, and the descent starts again.
//! 3. A page is reached only from a latched parent, from a latched left sibling, or as the root,
//!    whose number never changes (Tr3). So no thread waits for a page that is being freed, and no
//!    descent reaches a freed page. A thread's copy of the root and a guess at the leaf are
//!    shortcuts. Each names a page. The thread latches this page, and uses it only if it is the
//!    page that the descent would have found.
//! 4. A split is complete as soon as the left page names its right sibling (the B-link). The
//!    separator in the parent is a shortcut that is posted later (Tr2). A writer that had to go
//!    right posts it; a reader only goes right.
//! 5. Changes of structure carry no undo. They stay even if the transaction that caused them is
//!    aborted (Tr4).

mod bulk;
mod chain_reader;
mod descend;
mod estimate;
mod leaf;
mod merge;
mod old_chain;
mod overflow;
mod read_ahead;
mod root_copy;
mod seek;
mod split;
mod tree;
mod tree_check;

#[cfg(test)]
mod tests;

pub(crate) use bulk::{BulkBuilder, BulkSink, PageBatch};
pub(crate) use estimate::Estimates;
pub(crate) use leaf::{LeafTarget, row_bytes};
pub(crate) use merge::is_small;
pub(crate) use old_chain::OldChain;
pub(crate) use overflow::{FREED_TOGETHER, chain_to_free, free_last, read_chain, write_chain};
pub(crate) use read_ahead::LeafReads;
pub(crate) use tree::Tree;
#[cfg(test)]
pub(crate) use tree_check::TreeCheck;
