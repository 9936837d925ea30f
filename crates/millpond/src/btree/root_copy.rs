//! Root copies: each thread copies the roots that it descends through, so that its descents write
//! no cache line that other threads use.
//!
//! Otherwise every descent of every thread latches and pins the root. With many cores these four
//! read-modify-writes of one cache line are most of the cost of a descent. A root copy needs
//! neither latch nor pin; it says which child covers a key. The answer is right if the root still
//! has the stamp of the copy ([`Pool::stamp`](crate::buffer::Pool::stamp)) *after* that child has
//! been latched. Then the root has not changed in between, so the child is latched as if the root
//! had been latched until then. If the stamp has changed, the child is released and the descent
//! begins at the root itself.
//!
//! A root that changes often is not worth a copy. It is copied after its stamp has stayed the same
//! for a few descents.

use super::seek::Seek;
use crate::buffer::{PageRead, Stamp};
use crate::page::node::{Inner, common_prefix};
use base::PageNo;
use base::key_order::order;
use std::cell::RefCell;

/// Slots for copies in each thread. Roots that share a slot replace each other's copies.
const CACHE_SLOTS: usize = 32;
/// Descents through an unchanged root before it is copied, at least.
const VISITS_BEFORE_COPY: u16 = 4;
/// And at least one for so many children: the copy of a large root takes as long as many descents.
/// It would never pay where many threads share a tree in which leaves are split.
const CHILDREN_A_VISIT: u16 = 16;

thread_local! {
    static COPIES: RefCell<[Option<CacheSlot>; CACHE_SLOTS]> = const { RefCell::new([const { None }; CACHE_SLOTS]) };
}

/// One slot of a thread's cache: a root, and its copy if there is one.
struct CacheSlot {
    stamp: Stamp,
    /// Descents through the root while it had this stamp.
    visits: u16,
    copy: Option<RootCopy>,
}

/// A copy of a root: the children and the keys between them.
pub(super) struct RootCopy {
    level: u8,
    children: Box<[PageNo]>,
    /// The common prefix of all keys; child 0 has none.
    prefix: Box<[u8]>,
    /// For each child but child 0: the eight bytes after the prefix as a number of the same order,
    /// padded with zeros.
    heads: Box<[u64]>,
    /// For each child but child 0: where its key without the prefix ends in `rests`.
    ends: Box<[u32]>,
    rests: Box<[u8]>,
}

/// The child that a copy leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextChild {
    pub(super) child: PageNo,
    pub(super) child_level: u8,
    /// The stamp that the root must still have when the child is latched.
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
        let (mut key, mut last) = (Vec::new(), Vec::new());
        if count > 1 {
            root.key(1).copy_to(&mut key);
            root.key(count - 1).copy_to(&mut last);
        }
        let prefix = key[..common_prefix(&key, &last)].to_vec();
        let keys = usize::from(count).saturating_sub(1);
        let (mut heads, mut ends) = (Vec::with_capacity(keys), Vec::with_capacity(keys));
        let mut rests = Vec::with_capacity(keys * (last.len() - prefix.len()));
        for i in 1..count {
            root.key(i).copy_to(&mut key);
            let rest = &key[prefix.len()..];
            heads.push(head_of(rest));
            rests.extend_from_slice(rest);
            ends.push(rests.len() as u32);
        }
        RootCopy {
            level: root.level(),
            children: (0..count).map(|i| root.child(i)).collect(),
            prefix: prefix.into(),
            heads: heads.into(),
            ends: ends.into(),
            rests: rests.into(),
        }
    }

    fn rest(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.rests[from as usize..self.ends[i] as usize]
    }

    /// Returns how many keys are below `key`, or also equal to it if `equal_too`. That is the
    /// number of the child to go to.
    fn below(&self, key: &[u8], equal_too: bool) -> usize {
        let n = self.prefix.len().min(key.len());
        match order(&key[..n], &self.prefix[..n]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Equal if n < self.prefix.len() => return 0,
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => return self.heads.len(),
        }
        let rest = &key[n..];
        let head = head_of(rest);
        // Compares heads only, without branches that the processor could mispredict. Most of the
        // time heads decide.
        let low = self.heads.partition_point(|other| *other < head);
        if self.heads.get(low) != Some(&head) {
            return low;
        }
        let same = self.heads[low..].partition_point(|other| *other == head);
        let (mut low, mut high) = (low, low + same);
        while low < high {
            let mid = low.midpoint(high);
            let below = order(self.rest(mid), rest);
            if below.is_lt() || equal_too && below.is_eq() {
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
    // Mixes the bits: page numbers of roots are often neighbours, or multiples of 16 apart.
    (root.0.wrapping_mul(0x9e37_79b9) >> 16) as usize % CACHE_SLOTS
}

/// Returns the child of `root` on the way to `seek`, if this thread has a copy with the stamp `now`
/// and the root is above `level`.
#[inline]
pub(super) fn next_child(root: PageNo, now: Stamp, seek: Seek<'_>, level: u8) -> Option<NextChild> {
    COPIES.with_borrow(|slots| {
        let slot = slots[slot_of(root)].as_ref().filter(|slot| slot.stamp == now)?;
        let copy = slot.copy.as_ref().filter(|copy| copy.level > level)?;
        Some(NextChild { child: copy.child(seek), child_level: copy.level - 1, stamp: now })
    })
}

/// Counts a descent through a root, and copies the root if it seems to stay unchanged. REQUIRES: it
/// is the root of its tree, and an inner page.
pub(super) fn note_visit(root: &PageRead<'_>) {
    COPIES.with_borrow_mut(|slots| {
        let stamp = root.stamp();
        let slot = &mut slots[slot_of(root.page_no())];
        match slot {
            Some(slot) if slot.stamp == stamp => {
                slot.visits = slot.visits.saturating_add(1);
                let inner = Inner::new(root);
                let enough = VISITS_BEFORE_COPY.max(inner.len() / CHILDREN_A_VISIT);
                if slot.copy.is_none() && slot.visits >= enough {
                    slot.copy = Some(RootCopy::of(&inner));
                }
            }
            _ => *slot = Some(CacheSlot { stamp, visits: 1, copy: None }),
        }
    });
}
