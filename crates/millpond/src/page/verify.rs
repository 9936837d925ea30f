//! Checks of a page's content. [`quick`] runs once, when a page comes from a file, and covers
//! everything that the accessors rely on. [`problems`] checks everything.

use base::codec::fixed::get_u16;

use super::header::{self, PageKind};
use super::node::{
    CHILD_HEAD, DELETED, FRESH, GARBAGE, HEAP_LOW, HIGH, Inner, LOW, Leaf, Node, PREFIX, ROW_FLAGS, SETTLED,
    SLOT_BYTES, SLOTS, head_of, row_head,
};
use super::{Damage, ensure, inline_limit, map, max_key, overflow};

/// Checks what makes reading the page safe: bounds and lengths. Takes time linear in the number of
/// slots.
pub(crate) fn quick(page: &[u8]) -> Result<(), Damage> {
    ensure!(super::PAGE_SIZES.contains(&page.len()), "the page has an odd size");
    header::check_format(page)?;
    match header::kind(page) {
        Some(PageKind::Leaf | PageKind::Inner) => quick_node(page),
        Some(PageKind::Overflow) => overflow::check(page),
        Some(PageKind::Free | PageKind::Map | PageKind::File | PageKind::Owners) => Ok(()),
        None => Err(Damage("the page has an unknown kind")),
    }
}

const MAX_PAGE: usize = super::PAGE_SIZES[super::PAGE_SIZES.len() - 1];

/// A bitmap: one bit for each byte of a page, set if an entry holds the byte.
struct UsedBytes([u64; MAX_PAGE / 64]);

impl UsedBytes {
    /// Marks a range as used; false if a part of it is already used.
    fn add(&mut self, at: usize, len: usize) -> bool {
        let end = at + len;
        let mut from = at;
        while from < end {
            let (word, bit) = (from / 64, from % 64);
            let n = (64 - bit).min(end - from);
            let mask = (u64::MAX >> (64 - n)) << bit;
            if self.0[word] & mask != 0 {
                return false;
            }
            self.0[word] |= mask;
            from += n;
        }
        true
    }
}

fn quick_node(page: &[u8]) -> Result<(), Damage> {
    let at = |field| usize::from(get_u16(page, field));
    let node = Node::new(page);
    let (count, heap, max) = (usize::from(node.len()), at(HEAP_LOW), max_key(page.len()));
    ensure!(SLOTS + SLOT_BYTES * count <= heap && heap <= page.len(), "the slots and the heap overlap");
    let is_leaf = header::kind(page) == Some(PageKind::Leaf);
    ensure!(is_leaf == (node.level() == 0), "the level does not suit the kind");
    ensure!(is_leaf || count > 0, "an inner page has no child");
    for field in [LOW, HIGH] {
        let (from, len) = (at(field), at(field + 2));
        ensure!(from >= heap && from + len <= page.len() && len <= max, "a fence lies outside the heap");
    }
    let (low, high, prefix) = (at(LOW + 2), at(HIGH + 2), at(PREFIX));
    ensure!(!node.right().is_none() || (high == 0 && prefix == 0), "a last page has a high fence");
    ensure!(prefix <= low && prefix <= high, "the prefix is longer than a fence");
    let mut used = UsedBytes([0; MAX_PAGE / 64]);
    ensure!(used.add(at(LOW), low) && used.add(at(HIGH), high), "two entries overlap");
    let mut live = low + high;
    for i in 0..node.len() {
        let (from, len) = node.slot(i);
        ensure!(from >= heap && from + len <= page.len(), "an entry lies outside the heap");
        // Otherwise an edit of one entry could change another, whose lengths were checked already.
        ensure!(used.add(from, len), "two entries overlap");
        live += len;
        let key = if is_leaf {
            ensure!(len > 0, "a row is too short");
            let head = row_head(page[from]);
            ensure!(len >= head, "a row is too short");
            let key = usize::from(get_u16(page, from + head - 2));
            ensure!(head + key <= len, "a row's key is longer than the row");
            ensure!(len - head - key <= inline_limit(page.len()), "a value is too long");
            key
        } else {
            ensure!(len >= CHILD_HEAD, "an inner entry is too short");
            ensure!(i > 0 || len == CHILD_HEAD, "the first child has a key");
            len - CHILD_HEAD
        };
        ensure!(prefix + key <= max, "a key is too long");
    }
    ensure!(live + at(GARBAGE) == page.len() - heap, "the heap's bytes do not add up");
    Ok(())
}

/// Returns all problems of a page's content; empty for a sound page.
#[must_use]
pub(crate) fn problems(page: &[u8]) -> Vec<Damage> {
    let mut found = Vec::new();
    if let Err(damage) = quick(page) {
        found.push(damage);
        return found;
    }
    match header::kind(page) {
        Some(PageKind::Map) => map::check(page, &mut |damage| found.push(damage)),
        Some(PageKind::Leaf | PageKind::Inner) => node_problems(page, &mut found),
        _ => {}
    }
    found
}

fn node_problems(page: &[u8], found: &mut Vec<Damage>) {
    let node = Node::new(page);
    let mut expect = |ok: bool, what| {
        if !ok && !found.contains(&Damage(what)) {
            found.push(Damage(what));
        }
    };
    if let Some(high) = node.high_fence() {
        expect(node.low_fence() < high, "the fences are out of order");
        let common = super::node::common_prefix(node.low_fence(), high);
        expect(node.prefix().len() == common, "the prefix is not what the fences share");
    }
    let first = u16::from(node.level() > 0);
    for i in first..node.len() {
        let key = node.key(i);
        let slot = SLOTS + SLOT_BYTES * usize::from(i);
        let head = base::codec::fixed::get_u32(page, slot + 4);
        expect(head == head_of(node.suffix(i)), "a key head does not match its key");
        expect(i == first || node.suffix(i - 1) < node.suffix(i), "the keys are out of order");
        let above = key.cmp(node.low_fence());
        expect(if first == 0 { above.is_ge() } else { above.is_gt() }, "a key lies below the low fence");
        expect(node.high_fence().is_none_or(|high| key.cmp(high).is_lt()), "a key lies above the high fence");
    }
    if node.level() == 0 {
        let leaf = Leaf::new(page);
        let flags = |i| leaf.row(i).flags;
        expect((0..leaf.len()).all(|i| flags(i) & !ROW_FLAGS == 0), "a row has unknown flags");
        let is_right = |i| flags(i) & SETTLED == 0 || flags(i) & (DELETED | FRESH) == 0;
        expect((0..leaf.len()).all(is_right), "a row without a version is deleted");
    } else {
        let inner = Inner::new(page);
        expect((0..inner.len()).all(|i| !inner.child(i).is_none()), "a child has no page number");
    }
}
