//! The layout of a leaf or inner page, and reading it. A sorted slot directory points into a heap
//! of entries. Keys are stored without their common prefix (prefix compression).
//!
//! ```text
//! 56  right      u32   right sibling; 0 in the last page of a level, whose high fence is +infinity
//! 60  spare      u32   0
//! 64  level      u8    0 = leaf
//! 65  up         u8    ascending run: inserts, each right after the one before (saturating)
//! 66  down       u8    descending run: inserts, each right before the one before (saturating)
//! 67  spare      u8    0
//! 68  count      u16   entries
//! 70  heap_low   u16   lowest used byte of the heap, which ends with the page
//! 72  garbage    u16   dead bytes inside the heap
//! 74  prefix     u16   length of the common prefix of both fences; 0 if the high one is +infinity
//! 76  low_at     u16   \ low fence: the least key that belongs here, empty = -infinity
//! 78  low_len    u16   /
//! 80  high_at    u16   \ high fence: the least key that no longer belongs here
//! 82  high_len   u16   /
//! 84  last       u16   slot of the last insert
//! 86  spare      u16   0
//! 88  slots      count x { offset u16, len u16, head u32 }
//!                head: first 4 bytes of the key suffix, big-endian, zero-padded
//!  …  free space
//!  …  heap       entries and fences, in any order
//! ```
//! Leaf entry: `flags u8, txn u48, undo_at u40, suffix_len u16, key suffix, value`; without `txn`
//! and `undo_at` if the flag [`SETTLED`] is set. Inner entry: `child u32, key suffix`. The key of
//! slot 0 of an inner page is the low fence, and its suffix is stored empty. Key i is the least key
//! below child i.
//!
//! Pages have no left sibling. A backward scan finds its next page by key, so a split changes no
//! third page of its level.

use std::cmp::Ordering;
use std::ops::Range;

use base::codec::fixed::{get_u16, get_u32, get_u40, get_u48};
use base::{PageNo, TxnId, key_order::order};

use super::header::HEADER_BYTES;
use super::{PAGE_SIZES, inline_limit, max_key};

pub(super) const RIGHT: usize = 56;
pub(super) const LEVEL: usize = 64;
pub(super) const UP: usize = 65;
pub(super) const DOWN: usize = 66;
pub(super) const COUNT: usize = 68;
pub(super) const HEAP_LOW: usize = 70;
pub(super) const GARBAGE: usize = 72;
pub(super) const PREFIX: usize = 74;
pub(super) const LOW: usize = 76;
pub(super) const HIGH: usize = 80;
pub(super) const LAST: usize = 84;
/// Where the slots begin: the bytes that the header of every leaf and inner page takes.
pub(crate) const SLOTS: usize = 88;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 8;
const HEAD_IN_SLOT: usize = 4;
/// Bytes of a leaf entry before its key suffix.
pub(super) const ROW_HEAD: usize = 14;
/// The same for a row with the flag [`SETTLED`].
pub(super) const SETTLED_HEAD: usize = 3;
/// Bytes of an inner entry before its key suffix.
pub(super) const CHILD_HEAD: usize = 4;
/// Bytes that a row's version takes in its head.
pub(crate) const VERSION_BYTES: usize = ROW_HEAD - SETTLED_HEAD;
/// Bytes that a row takes in a leaf besides its key and value.
pub(crate) const ROW_OVERHEAD: usize = SLOT_BYTES + ROW_HEAD;
/// The same for a row with the flag [`SETTLED`].
pub(crate) const SETTLED_OVERHEAD: usize = SLOT_BYTES + SETTLED_HEAD;
/// Bytes that a child takes in an inner page besides its key.
pub(crate) const CHILD_OVERHEAD: usize = SLOT_BYTES + CHILD_HEAD;

/// Cache lines of an entry that a search prefetches together.
const PREFETCHED_LINES: usize = 5;

/// Row flag: the row is deleted. It is kept for readers that still see it.
pub(crate) const DELETED: u8 = 1;
/// Row flag: the value bytes are a reference to an overflow chain.
pub(crate) const OVERFLOW: u8 = 2;
/// Row flag: when the version was made, the key had no row, not even a deleted one. So no older
/// version exists: a reader that does not see this version sees no row.
pub(crate) const FRESH: u8 = 4;
/// Row flag: the row was loaded into a new table and not changed since, so it names no version.
/// Every snapshot that may read the table sees it.
pub(crate) const SETTLED: u8 = 8;
/// All flags of a row.
pub(super) const ROW_FLAGS: u8 = DELETED | OVERFLOW | FRESH | SETTLED;

const _: () = assert!(RIGHT == HEADER_BYTES && SLOTS <= 96 && SLOTS.is_multiple_of(SLOT_BYTES));
// These bounds make every split succeed. An entry of any allowed size fits a page with any two
// fences, and a full inner page has at least three children.
const _: () = {
    let mut i = 0;
    while i < PAGE_SIZES.len() {
        let (page, key) = (PAGE_SIZES[i], max_key(PAGE_SIZES[i]));
        assert!(SLOTS + 2 * key + ROW_OVERHEAD + key + inline_limit(page) <= page);
        assert!(SLOTS + 2 * key + CHILD_OVERHEAD + 2 * (CHILD_OVERHEAD + key) <= page);
        assert!(SLOTS + 2 * (page / 64) + 4 * (ROW_OVERHEAD + page / 64 + inline_limit(page)) <= page);
        i += 1;
    }
};

/// The transaction that made a row version, and the address of the version's undo record in that
/// transaction's undo stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Version {
    /// The transaction; below 2^48.
    pub(crate) txn: TxnId,
    /// The address: offset of the undo record; below 2^40.
    pub(crate) undo_at: u64,
}

/// Returns the bytes of a leaf entry with these flags before its key suffix.
#[inline]
pub(super) fn row_head(flags: u8) -> usize {
    if flags & SETTLED == 0 { ROW_HEAD } else { SETTLED_HEAD }
}

/// One row of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The version, as the row's header names it; the default one for a [`SETTLED`] row.
    pub(crate) version: Version,
    /// The flags [`DELETED`], [`OVERFLOW`], [`FRESH`], [`SETTLED`].
    pub(crate) flags: u8,
    /// The value, or a reference to its chain.
    pub(crate) value: &'a [u8],
}

/// One row of a leaf, its key and value as ranges of bytes of the page.
#[derive(Clone, Debug)]
pub(crate) struct RowAt {
    /// The version, as the row's header names it; the default one for a [`SETTLED`] row.
    pub(crate) version: Version,
    /// Its flags.
    pub(crate) flags: u8,
    /// The stored part of the key.
    pub(crate) suffix: Range<usize>,
    /// The value, or a reference to its chain.
    pub(crate) value: Range<usize>,
}

/// A key in two parts, as a page stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// The common prefix of all keys of the page.
    pub(crate) prefix: &'a [u8],
    /// The rest.
    pub(crate) suffix: &'a [u8],
}

impl<'a> Key<'a> {
    /// Makes a key in one part.
    #[must_use]
    pub(crate) fn whole(key: &'a [u8]) -> Key<'a> {
        Key { prefix: &[], suffix: key }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Returns the key in one part. A key in two parts is put together in `room`.
    #[inline]
    pub(crate) fn whole_in<'b>(self, room: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.prefix.is_empty() {
            return self.suffix;
        }
        room.clear();
        self.append_to(room);
        room
    }

    /// Returns a copy in one part.
    #[must_use]
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.append_to(&mut out);
        out
    }

    /// Copies the key into `out`, in place of what that holds.
    #[inline]
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        out.clear();
        self.append_to(out);
    }

    /// Appends the key to `out`.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(self.suffix);
    }

    /// Returns the key without its first `n` bytes; nothing is left of a shorter key.
    #[must_use]
    pub(crate) fn skip(&self, n: usize) -> Key<'a> {
        let in_prefix = n.min(self.prefix.len());
        let in_suffix = (n - in_prefix).min(self.suffix.len());
        Key { prefix: &self.prefix[in_prefix..], suffix: &self.suffix[in_suffix..] }
    }

    /// Compares the key with a key in one part.
    #[inline]
    #[must_use]
    pub(crate) fn cmp(&self, other: &[u8]) -> Ordering {
        let n = self.prefix.len().min(other.len());
        match order(&self.prefix[..n], &other[..n]) {
            Ordering::Equal if n < self.prefix.len() => Ordering::Greater,
            Ordering::Equal => order(self.suffix, &other[n..]),
            unequal => unequal,
        }
    }
}

/// Returns the head: the first four bytes of a key suffix as a number of the same order. A short
/// suffix is padded with zeros, so equal heads decide nothing.
#[inline]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            let mut head = [0; 4];
            head[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(head)
        }
    }
}

/// Returns the head in a slot.
#[inline]
fn head_in(slot: &[u8; SLOT_BYTES]) -> u32 {
    get_u32(slot, HEAD_IN_SLOT)
}

/// Returns how many bytes two keys share at the front.
#[must_use]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Returns the shortest key that is greater than `left` and not greater than `right`. REQUIRES:
/// `left < right`.
#[must_use]
pub(crate) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    &right[..(common_prefix(left, right) + 1).min(right.len())]
}

/// A view of the parts that a leaf and an inner page share. Made only of bytes that passed
/// [`super::verify::quick`].
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    page: &'a [u8],
}

impl<'a> Node<'a> {
    /// Views a leaf or inner page.
    #[inline]
    #[must_use]
    pub(crate) fn new(page: &'a [u8]) -> Self {
        Node { page }
    }

    #[inline]
    fn at(&self, field: usize) -> usize {
        usize::from(get_u16(self.page, field))
    }

    /// Returns the page's bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.page
    }

    /// Returns the height above the leaves.
    #[inline]
    #[must_use]
    pub(crate) fn level(&self) -> u8 {
        self.page[LEVEL]
    }

    /// Returns the number of entries.
    #[inline]
    #[must_use]
    pub(crate) fn len(&self) -> u16 {
        get_u16(self.page, COUNT)
    }

    /// Returns the right sibling, which holds the keys from the high fence on; none in the last
    /// page of a level.
    #[inline]
    #[must_use]
    pub(crate) fn right(&self) -> PageNo {
        PageNo(get_u32(self.page, RIGHT))
    }

    /// Returns the low fence: the least key that belongs here.
    #[inline]
    #[must_use]
    pub(crate) fn low_fence(&self) -> &'a [u8] {
        &self.page[self.at(LOW)..][..self.at(LOW + 2)]
    }

    /// Returns the high fence: the least key that no longer belongs here; `None` is +infinity.
    #[inline]
    #[must_use]
    pub(crate) fn high_fence(&self) -> Option<&'a [u8]> {
        (!self.right().is_none()).then(|| &self.page[self.at(HIGH)..][..self.at(HIGH + 2)])
    }

    /// Returns whether `key` is below the high fence.
    #[inline]
    #[must_use]
    pub(super) fn below_high(&self, key: &[u8]) -> bool {
        self.high_fence().is_none_or(|high| order(key, high).is_lt())
    }

    /// Returns whether `key` belongs here.
    #[inline]
    #[must_use]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        order(self.low_fence(), key).is_le() && self.below_high(key)
    }

    /// Returns the common prefix of all keys here.
    #[inline]
    #[must_use]
    pub(crate) fn prefix(&self) -> &'a [u8] {
        &self.low_fence()[..self.at(PREFIX)]
    }

    /// Returns the bytes that are free for new entries and their slots, if the heap is compacted.
    #[inline]
    #[must_use]
    pub(crate) fn free_bytes(&self) -> usize {
        self.contiguous() + self.at(GARBAGE)
    }

    /// Returns the bytes of entries, slots and fences.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> usize {
        self.page.len() - SLOTS - self.free_bytes()
    }

    /// Returns the bytes of entries and slots, without the fences.
    #[must_use]
    pub(crate) fn entry_bytes(&self) -> usize {
        self.used_bytes() - self.at(LOW + 2) - self.at(HIGH + 2)
    }

    /// Returns the bytes between the slots and the heap.
    #[inline]
    pub(super) fn contiguous(&self) -> usize {
        self.at(HEAP_LOW) - (SLOTS + SLOT_BYTES * usize::from(self.len()))
    }

    /// Returns offset and length of entry `i`.
    #[inline]
    pub(super) fn slot(&self, i: u16) -> (usize, usize) {
        let both = get_u32(self.page, SLOTS + SLOT_BYTES * usize::from(i)) as usize;
        (both & 0xffff, both >> 16)
    }

    /// Returns the bytes of entry `i`.
    #[inline]
    pub(super) fn entry(&self, i: u16) -> &'a [u8] {
        let (at, len) = self.slot(i);
        &self.page[at..at + len]
    }

    /// Returns how many bytes entry `i` and its slot take.
    #[must_use]
    pub(crate) fn entry_size(&self, i: u16) -> usize {
        self.slot(i).1 + SLOT_BYTES
    }

    #[inline]
    fn head(&self, i: u16) -> u32 {
        get_u32(self.page, SLOTS + SLOT_BYTES * usize::from(i) + HEAD_IN_SLOT)
    }

    /// Returns the stored part of key `i`.
    #[inline]
    pub(super) fn suffix(&self, i: u16) -> &'a [u8] {
        let entry = self.entry(i);
        if self.level() == 0 {
            let head = row_head(entry[0]);
            &entry[head..head + usize::from(get_u16(entry, head - 2))]
        } else {
            &entry[CHILD_HEAD..]
        }
    }

    /// Compares the stored part of key `i` with `suffix`. Most of the time the head in the slot
    /// decides.
    #[inline]
    pub(super) fn order(&self, i: u16, suffix: &[u8]) -> Ordering {
        self.head(i).cmp(&head_of(suffix)).then_with(|| order(self.suffix(i), suffix))
    }

    /// Returns the key of entry `i`.
    #[inline]
    #[must_use]
    pub(crate) fn key(&self, i: u16) -> Key<'a> {
        if self.level() > 0 && i == 0 {
            return Key::whole(self.low_fence());
        }
        Key { prefix: self.prefix(), suffix: self.suffix(i) }
    }

    /// Searches `key` among the entries from `first` on. Returns its slot, or the slot where it
    /// would be inserted.
    #[inline]
    fn search_from(&self, first: u16, key: &[u8]) -> Result<u16, u16> {
        let prefix = self.prefix();
        let n = prefix.len().min(key.len());
        match order(&key[..n], &prefix[..n]) {
            Ordering::Less => return Err(first),
            Ordering::Equal if n < prefix.len() => return Err(first),
            Ordering::Equal => {}
            Ordering::Greater => return Err(self.len().max(first)),
        }
        let suffix = &key[n..];
        let head = head_of(suffix);
        // Compares heads only, without branches that the processor could mispredict. Most of the
        // time heads decide.
        let slots = self.slots_from(first);
        let at = first + slots.partition_point(|slot| head_in(slot) < head) as u16;
        if at == self.len() || self.head(at) != head {
            return Err(at);
        }
        // Probably the entry that is searched for, and its reader needs all of it.
        base::prefetch::to_read(self.entry(at), PREFETCHED_LINES);
        match order(self.suffix(at), suffix) {
            Ordering::Equal => Ok(at),
            Ordering::Greater => Err(at),
            Ordering::Less => self.search_equal_heads(at + 1, head, suffix),
        }
    }

    /// Searches `suffix` among the entries whose head is `head`. The first of them is at `first`.
    #[cold]
    fn search_equal_heads(&self, first: u16, head: u32, suffix: &[u8]) -> Result<u16, u16> {
        let same = self.slots_from(first).partition_point(|slot| head_in(slot) == head) as u16;
        let (mut lo, mut hi) = (first, first + same);
        while lo < hi {
            let mid = lo.midpoint(hi);
            match order(self.suffix(mid), suffix) {
                Ordering::Less => lo = mid + 1,
                Ordering::Greater => hi = mid,
                Ordering::Equal => return Ok(mid),
            }
        }
        Err(lo)
    }

    /// Returns the slots from `first` on; none if there are no more.
    #[inline]
    fn slots_from(&self, first: u16) -> &'a [[u8; SLOT_BYTES]] {
        let (first, len) = (usize::from(first), usize::from(self.len()));
        let slots = &self.page[SLOTS + SLOT_BYTES * first.min(len)..SLOTS + SLOT_BYTES * len];
        slots.as_chunks().0
    }

    /// Searches `key`. Returns its slot, or the slot where it would be inserted. In an inner page
    /// slot 0 covers all keys below key 1.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<u16, u16> {
        if self.level() == 0 {
            return self.search_from(0, key);
        }
        match self.search_from(1, key) {
            Err(1) if key == self.low_fence() => Ok(0),
            found => found,
        }
    }

    /// Returns the direction of the last inserts if at least `run` of them came in a row: `Greater`
    /// if they ascended and the next one belongs at slot `next`, `Less` if they descended, else
    /// `Equal`.
    #[must_use]
    pub(crate) fn insert_run(&self, next: u16, run: u8) -> Ordering {
        let last = get_u16(self.page, LAST);
        if self.page[UP] >= run && next == last.saturating_add(1) {
            Ordering::Greater
        } else if self.page[DOWN] >= run && next == last {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    }
}

/// A view of a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Leaf<'a>(Node<'a>);

impl<'a> Leaf<'a> {
    /// Views a leaf page.
    #[inline]
    #[must_use]
    pub(crate) fn new(page: &'a [u8]) -> Self {
        Leaf(Node::new(page))
    }

    /// Returns the range of bytes of the page in which the entries in `slots` lie. Other entries
    /// may lie there too.
    #[must_use]
    pub(crate) fn span(&self, slots: Range<u16>) -> Range<usize> {
        let (mut from, mut to) = (usize::MAX, 0);
        for (at, len) in slots.map(|i| self.slot(i)) {
            (from, to) = (from.min(at), to.max(at + len));
        }
        from.min(to)..to
    }

    /// Returns row `i`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn row(&self, i: u16) -> Row<'a> {
        let RowAt { version, flags, value, .. } = self.row_at(i);
        Row { version, flags, value: &self.0.page[value] }
    }

    /// Returns row `i`, its parts as ranges of the page. Always inlined: a scan asks for each row.
    #[inline(always)]
    #[must_use]
    pub(crate) fn row_at(&self, i: u16) -> RowAt {
        let (at, len) = self.0.slot(i);
        let entry = &self.0.page[at..];
        let (flags, head, suffix, version) = match entry.first_chunk::<ROW_HEAD>() {
            Some(head) if head[0] & SETTLED == 0 => {
                let version = Version { txn: TxnId(get_u48(head, 1)), undo_at: get_u40(head, 7) };
                (head[0], ROW_HEAD, get_u16(head, ROW_HEAD - 2), version)
            }
            _ => (entry[0], SETTLED_HEAD, get_u16(entry, SETTLED_HEAD - 2), Version::default()),
        };
        let value = at + head + usize::from(suffix);
        RowAt { version, flags, suffix: at + head..value, value: value..at + len }
    }
}

impl<'a> std::ops::Deref for Leaf<'a> {
    type Target = Node<'a>;
    fn deref(&self) -> &Node<'a> {
        &self.0
    }
}

/// A view of an inner page.
#[derive(Clone, Copy)]
pub(crate) struct Inner<'a>(Node<'a>);

impl<'a> Inner<'a> {
    /// Views an inner page.
    #[inline]
    #[must_use]
    pub(crate) fn new(page: &'a [u8]) -> Self {
        Inner(Node::new(page))
    }

    /// Returns child `i`.
    #[inline]
    #[must_use]
    pub(crate) fn child(&self, i: u16) -> PageNo {
        PageNo(get_u32(self.0.entry(i), 0))
    }

    /// Returns the slot of the child that covers `key`.
    #[inline]
    #[must_use]
    pub(crate) fn find(&self, key: &[u8]) -> u16 {
        match self.0.search_from(1, key) {
            Ok(i) => i,
            Err(i) => i - 1,
        }
    }

    /// Returns the slot of the child that holds the greatest keys below `key`.
    #[inline]
    #[must_use]
    pub(crate) fn find_before(&self, key: &[u8]) -> u16 {
        let (Ok(i) | Err(i)) = self.0.search_from(1, key);
        i - 1
    }
}

impl<'a> std::ops::Deref for Inner<'a> {
    type Target = Node<'a>;
    fn deref(&self) -> &Node<'a> {
        &self.0
    }
}
