//! Reads of leaves by a scan, which may read ahead: when a descent comes to a leaf that is not in
//! memory, it holds the latch of the parent, which names the next leaves too. The descent notes
//! them, releases its latches, and reads them all together. `pace::read_ahead` says how many.

use base::PageNo;
use pace::read_ahead::ReadAhead;

use crate::buffer::{FetchHint, PageRead, Siblings, room_ahead};
use crate::page::node::Inner;
use crate::tree_store::Store;

/// How the leaves of one read are read.
#[derive(Debug)]
pub(crate) struct LeafReads<'a> {
    /// How the pool treats them.
    pub(super) hint: FetchHint,
    scan: Option<Scan<'a>>,
}

/// The rest of a scan.
#[derive(Debug)]
struct Scan<'a> {
    state: &'a mut ReadAhead,
    backward: bool,
    /// The end of its range in its direction: leaves after it are not read ahead.
    end: Option<&'a [u8]>,
    /// To be read together, when no latch is held.
    noted: Option<Siblings>,
}

impl<'a> LeafReads<'a> {
    /// One leaf is read.
    pub(crate) fn one(hint: FetchHint) -> LeafReads<'a> {
        LeafReads { hint, scan: None }
    }

    /// A scan reads leaves in the order of their keys. `end` is where its range ends, exclusive.
    pub(crate) fn forward(hint: FetchHint, state: &'a mut ReadAhead, end: Option<&'a [u8]>) -> LeafReads<'a> {
        LeafReads { hint, scan: Some(Scan { state, backward: false, end, noted: None }) }
    }

    /// A scan reads leaves in falling order. `end` is the least key of its range.
    pub(crate) fn backward(hint: FetchHint, state: &'a mut ReadAhead, end: &'a [u8]) -> LeafReads<'a> {
        LeafReads { hint, scan: Some(Scan { state, backward: true, end: Some(end), noted: None }) }
    }

    /// The read has come to this leaf.
    #[inline]
    pub(super) fn at(&mut self, leaf: PageNo) {
        if let Some(scan) = &mut self.scan {
            scan.state.at(leaf.0);
        }
    }

    /// The child in `slot` of a latched page is not in memory. Notes it and the next ones, if they
    /// are to be read together.
    #[cold]
    pub(super) fn missed(&mut self, store: &Store, parent: &PageRead<'_>, slot: u16) {
        let Some(scan) = &mut self.scan else { return };
        let count = scan.state.missed(scan.backward, &room_ahead(&store.pool, self.hint));
        scan.state.read(1);
        let pages = siblings(&Inner::new(parent), slot, count, scan.backward, scan.end);
        let siblings = Siblings { pages, parent: parent.page_no(), stamp: parent.stamp() };
        scan.noted = Some(siblings).filter(|noted| noted.pages.len() > 1);
    }

    /// Reads what was noted. REQUIRES: no latch held.
    pub(super) fn read_noted(&mut self, store: &Store) {
        let Some(scan) = &mut self.scan else { return };
        if let Some(noted) = scan.noted.take() {
            scan.state.read(noted.read_ahead(&store.pool, self.hint) as u32);
        }
    }
}

/// Returns the child in `slot` and those after it in the direction of the scan, at most `count`,
/// and none that lies after the end of the range.
fn siblings(parent: &Inner<'_>, slot: u16, count: u32, backward: bool, end: Option<&[u8]>) -> Vec<PageNo> {
    let mut pages = vec![parent.child(slot)];
    let mut at = slot;
    while (pages.len() as u32) < count {
        let next = if backward { at.checked_sub(1) } else { Some(at + 1).filter(|at| *at < parent.len()) };
        let Some(next) = next else { break };
        // The key between the two.
        let key = parent.key(at.max(next));
        let in_range = end.is_none_or(|end| match backward {
            false => key.cmp(end).is_lt(),
            true => key.cmp(end).is_gt(),
        });
        if !in_range {
            break;
        }
        pages.push(parent.child(next));
        at = next;
    }
    pages
}
