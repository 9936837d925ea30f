//! Each thread's own copies of the roots that it goes through, so that a way down touches no line that all threads write.
//!
//! A root that is read by every thread is latched and pinned by every thread, and four read-modify-writes of one cache line
//! are most of what a way down costs with many cores. A copy needs neither: it says which child covers a key. What it
//! says is right if, *after* that child has been latched, the root still has the stamp that it had when it was copied
//! ([`Pool::stamp`](crate::buffer::Pool::stamp)): the root has not changed in between, so the child is latched just as if the
//! root had been latched until then. If the stamp has moved, the child is let go and the way begins at the root itself.
//!
//! A root that changes all the time is not worth copying: it is copied when its stamp has stood for a few ways.

use super::descend::Seek;
use crate::buffer::{PageRead, Stamp};
use crate::page::node::{Inner, common_prefix};
use base::PageNo;
use std::cell::RefCell;

/// Places for copies in each thread; trees whose roots share one take turns.
const CACHE_SLOTS: usize = 32;
/// Ways through an unchanged root before it is copied.
const VISITS_BEFORE_COPY: u8 = 4;

thread_local! {
    static COPIES: RefCell<[Option<CacheSlot>; CACHE_SLOTS]> = const { RefCell::new([const { None }; CACHE_SLOTS]) };
}

/// A root as this thread knows it.
struct CacheSlot {
    stamp: Stamp,
    /// Ways that visits the root with this stamp.
    visits: u8,
    copy: Option<RootCopy>,
}

/// Which child covers a key.
pub(super) struct RootCopy {
    level: u8,
    children: Box<[PageNo]>,
    /// What all keys but that of child 0 begin with.
    prefix: Box<[u8]>,
    /// For each child but child 0: the eight bytes after the prefix, as a number that orders as they do, zero-padded.
    heads: Box<[u64]>,
    /// For each child but child 0: where the rest of its key, from the prefix on, ends in `rests`.
    ends: Box<[u32]>,
    rests: Box<[u8]>,
}

/// What a copy says: the child to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextChild {
    pub(super) child: PageNo,
    pub(super) child_level: u8,
    /// What the root's stamp must still be when the child is latched.
    pub(super) stamp: Stamp,
}

fn head_of(rest: &[u8]) -> u64 {
    let mut head = [0; 8];
    let n = rest.len().min(8);
    head[..n].copy_from_slice(&rest[..n]);
    u64::from_be_bytes(head)
}

impl RootCopy {
    /// REQUIRES: `root` has no sibling.
    pub(super) fn of(root: &Inner<'_>) -> RootCopy {
        let count = root.len();
        let keys: Vec<Vec<u8>> = (1..count).map(|i| root.key(i).to_vec()).collect();
        let prefix = match (keys.first(), keys.last()) {
            (Some(first), Some(last)) => first[..common_prefix(first, last)].to_vec(),
            _ => Vec::new(),
        };
        let rest = |key: &Vec<u8>| key[prefix.len()..].to_vec();
        let mut end = 0;
        let ends = keys.iter().map(|key| {
            end += (key.len() - prefix.len()) as u32;
            end
        });
        RootCopy {
            level: root.level(),
            children: (0..count).map(|i| root.child(i)).collect(),
            heads: keys.iter().map(|key| head_of(&key[prefix.len()..])).collect(),
            ends: ends.collect(),
            rests: keys.iter().flat_map(rest).collect(),
            prefix: prefix.into(),
        }
    }

    fn rest(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.rests[from as usize..self.ends[i] as usize]
    }

    /// How many keys are below `key`, or equal to it if `equal_too`: the number of the child that covers it.
    fn below(&self, key: &[u8], equal_too: bool) -> usize {
        let n = self.prefix.len().min(key.len());
        match key[..n].cmp(&self.prefix[..n]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Equal if n < self.prefix.len() => return 0,
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => return self.heads.len(),
        }
        let rest = &key[n..];
        let head = head_of(rest);
        // By heads alone, which takes no branch that a processor could foresee wrongly; they decide most of the time.
        let low = self.heads.partition_point(|other| *other < head);
        if self.heads.get(low) != Some(&head) {
            return low;
        }
        let same = self.heads[low..].partition_point(|other| *other == head);
        let (mut low, mut high) = (low, low + same);
        while low < high {
            let mid = low.midpoint(high);
            let order = self.rest(mid).cmp(rest);
            if order.is_lt() || equal_too && order.is_eq() {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }

    pub(super) fn child(&self, seek: Seek<'_>) -> PageNo {
        self.children[match seek {
            Seek::At(key) => self.below(key, true),
            Seek::Before(key) => self.below(key, false),
            Seek::Last => self.heads.len(),
        }]
    }
}

fn slot_of(root: PageNo) -> usize {
    // Roots are the first pages of extents, so their low bits say little.
    (root.0.wrapping_mul(0x9e37_79b9) >> 16) as usize % CACHE_SLOTS
}

/// Where a copy of `root` says that the way goes on, if this thread has one with the stamp that the root has now, and the
/// root stands above `level`.
#[inline]
pub(super) fn next_child(root: PageNo, now: Stamp, seek: Seek<'_>, level: u8) -> Option<NextChild> {
    COPIES.with_borrow(|slots| {
        let slot = slots[slot_of(root)].as_ref().filter(|slot| slot.stamp == now)?;
        let copy = slot.copy.as_ref().filter(|copy| copy.level > level)?;
        Some(NextChild { child: copy.child(seek), child_level: copy.level - 1, stamp: now })
    })
}

/// Takes note of a root that a way has come to, and copies it if it seems to stay as it is. REQUIRES: it is the root of its
/// tree, and an inner page.
pub(super) fn note_visit(root: &PageRead<'_>) {
    COPIES.with_borrow_mut(|slots| {
        let stamp = root.stamp();
        let slot = &mut slots[slot_of(root.page_no())];
        match slot {
            Some(slot) if slot.stamp == stamp => {
                slot.visits = slot.visits.saturating_add(1);
                if slot.copy.is_none() && slot.visits >= VISITS_BEFORE_COPY {
                    slot.copy = Some(RootCopy::of(&Inner::new(root)));
                }
            }
            _ => *slot = Some(CacheSlot { stamp, visits: 1, copy: None }),
        }
    });
}
