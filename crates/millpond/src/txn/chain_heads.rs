//! Reads the first pages of the long values that purge frees next, many at once. Without that,
//! purge would wait for one read for each value, and for a frame of the pool each time.

use super::purge_work::work_of;
use super::trees::Trees;
use crate::buffer::PageImages;
use crate::tree_store::Store;
use crate::undo::{HeldPiece, Stream, UndoAccess};
use base::PageNo;

/// How many records of one transaction are looked at together.
const RECORDS_TOGETHER: usize = 16;

/// Reads the first pages of the long values that the records of `streams` have replaced, those that
/// are in no frame. Returns no errors: what cannot be read is left out. REQUIRES: no latch held;
/// only the calling thread frees these values.
pub(super) fn read_chain_heads<'a>(
    store: &Store,
    trees: &Trees,
    streams: impl Iterator<Item = &'a Stream>,
) -> PageImages {
    let mut images = PageImages::default();
    let heads: Vec<PageNo> = streams.flat_map(|stream| chain_heads(store, trees, stream)).collect();
    if !heads.is_empty() {
        images.read(&store.pool, heads);
    }
    images
}

/// Returns the first pages of values that a few records of the stream have replaced. Each is in use
/// now, so that [`crate::btree::OldChain`] can trust what is read of it.
fn chain_heads(store: &Store, trees: &Trees, stream: &Stream) -> Vec<PageNo> {
    let (mut walk, none, mut heads) = (stream.walk(true), HeldPiece::default(), Vec::new());
    for _ in 0..RECORDS_TOGETHER {
        let found = stream.walk_on(&mut walk, &none, |record, purge| work_of(&record.entry, purge));
        let Ok(UndoAccess::Here(Some(Ok(work)))) = found else { break };
        let head = work.chain.filter(|_| trees.get(work.tree).is_some()).map(|chain| chain.head);
        heads.extend(head.filter(|head| store.space.uses(*head).unwrap_or(false)));
    }
    heads
}
