//! Changes the bytes of a leaf or inner page. Only [`super::apply`] calls it, after it has checked
//! the change. Only free space is checked here; a change that does not fit is refused before any
//! byte changes.

use base::codec::Reader;
use base::codec::fixed::{get_u16, set_u16, set_u32, set_u40, set_u48};
use base::{PageNo, TreeId};

use super::header::{self, HEADER_BYTES, PageKind};
use super::node::{
    CHILD_HEAD, COUNT, DOWN, GARBAGE, HEAP_LOW, HIGH, Key, LAST, LEVEL, LOW, Leaf, Node, PREFIX, RIGHT,
    ROW_HEAD, RowAt, SETTLED, SLOT_BYTES, SLOTS, UP, VERSION_BYTES, Version, common_prefix, head_of,
    row_head,
};
use super::{Damage, ensure, inline_limit, max_key};

/// Compacts the heap, so that its dead bytes join the free space. `skip` is an entry to drop: its
/// slot stays, its bytes go.
fn compact(page: &mut [u8], skip: Option<u16>) {
    let old = page.to_vec();
    let node = Node::new(&old);
    let mut low = page.len();
    let mut put = |page: &mut [u8], field: usize, bytes: &[u8]| {
        low -= bytes.len();
        page[low..low + bytes.len()].copy_from_slice(bytes);
        set_u16(page, field, low as u16);
        set_u16(page, field + 2, bytes.len() as u16);
    };
    put(page, LOW, node.low_fence());
    put(page, HIGH, node.high_fence().unwrap_or_default());
    for i in 0..node.len() {
        let bytes = if skip == Some(i) { &[] } else { node.entry(i) };
        put(page, SLOTS + SLOT_BYTES * usize::from(i), bytes);
    }
    set_u16(page, HEAP_LOW, low as u16);
    set_u16(page, GARBAGE, 0);
}

/// Takes `len` bytes of the free space for the entry of slot `slot` and sets the slot, with `head`
/// as its head. Returns where the bytes start. REQUIRES: there is room.
fn allocate(page: &mut [u8], slot: u16, len: usize, head: u32) -> usize {
    let at = usize::from(get_u16(page, HEAP_LOW)) - len;
    set_u16(page, HEAP_LOW, at as u16);
    let field = SLOTS + SLOT_BYTES * usize::from(slot);
    set_u16(page, field, at as u16);
    set_u16(page, field + 2, len as u16);
    set_u32(page, field + 4, head);
    at
}

/// Marks `len` bytes at `at` as dead.
fn release_bytes(page: &mut [u8], at: usize, len: usize) {
    let low = usize::from(get_u16(page, HEAP_LOW));
    if at == low {
        set_u16(page, HEAP_LOW, (low + len) as u16);
    } else {
        let garbage = get_u16(page, GARBAGE) + len as u16;
        set_u16(page, GARBAGE, garbage);
    }
}

/// Inserts slot `slot` for an entry of `len` bytes. Returns where the entry's bytes start.
fn insert_slot(page: &mut [u8], slot: u16, len: usize, head: u32) -> Result<usize, Damage> {
    let node = Node::new(page);
    ensure!(node.free_bytes() >= len + SLOT_BYTES, "the page has no room for the entry");
    if node.contiguous() < len + SLOT_BYTES {
        compact(page, None);
    }
    let count = get_u16(page, COUNT);
    let from = SLOTS + SLOT_BYTES * usize::from(slot);
    let to = SLOTS + SLOT_BYTES * usize::from(count);
    page.copy_within(from..to, from + SLOT_BYTES);
    set_u16(page, COUNT, count + 1);
    Ok(allocate(page, slot, len, head))
}

/// Updates the insert run, from which the next split point is chosen.
fn note_insert(page: &mut [u8], slot: u16) {
    let last = get_u16(page, LAST);
    let (up, down) = if get_u16(page, COUNT) == 1 {
        (1, 1)
    } else if slot == last.saturating_add(1) {
        (page[UP].saturating_add(1), 1)
    } else if slot == last {
        (1, page[DOWN].saturating_add(1))
    } else {
        (1, 1)
    };
    (page[UP], page[DOWN]) = (up, down);
    set_u16(page, LAST, slot);
}

fn write_row_head(entry: &mut [u8], flags: u8, version: Version) {
    entry[0] = flags;
    if flags & SETTLED == 0 {
        set_u48(entry, 1, version.txn.0);
        set_u40(entry, 7, version.undo_at);
    }
}

/// Inserts a row at slot `slot`. `suffix` is its key without the page's prefix.
pub(super) fn insert_row(
    page: &mut [u8],
    slot: u16,
    suffix: &[u8],
    version: Version,
    flags: u8,
    value: &[u8],
) -> Result<(), Damage> {
    let head = row_head(flags);
    let len = head + suffix.len() + value.len();
    let at = insert_slot(page, slot, len, head_of(suffix))?;
    let entry = &mut page[at..at + len];
    write_row_head(entry, flags, version);
    set_u16(entry, head - 2, suffix.len() as u16);
    entry[head..head + suffix.len()].copy_from_slice(suffix);
    entry[head + suffix.len()..].copy_from_slice(value);
    note_insert(page, slot);
    Ok(())
}

/// Inserts a child at slot `slot`.
pub(super) fn insert_child(page: &mut [u8], slot: u16, suffix: &[u8], child: PageNo) -> Result<(), Damage> {
    let len = CHILD_HEAD + suffix.len();
    let at = insert_slot(page, slot, len, head_of(suffix))?;
    set_u32(page, at, child.0);
    page[at + CHILD_HEAD..at + len].copy_from_slice(suffix);
    note_insert(page, slot);
    Ok(())
}

/// Removes slot `slot`.
pub(super) fn remove(page: &mut [u8], slot: u16) {
    let node = Node::new(page);
    let (count, (at, len)) = (node.len(), node.slot(slot));
    release_bytes(page, at, len);
    let from = SLOTS + SLOT_BYTES * usize::from(slot);
    let to = SLOTS + SLOT_BYTES * usize::from(count);
    page.copy_within(from + SLOT_BYTES..to, from);
    set_u16(page, COUNT, count - 1);
}

/// Gives the row at `row` a version and flags, and writes `bytes` over its value from `front` on:
/// as [`replace_row`], for a row that keeps its length. REQUIRES: the value has these bytes, and
/// both the old flags and the new ones have [`SETTLED`], or neither.
#[inline]
pub(super) fn overwrite_row(
    page: &mut [u8],
    row: &RowAt,
    version: Version,
    flags: u8,
    front: usize,
    bytes: &[u8],
) {
    let entry = row.suffix.start - row_head(row.flags);
    write_row_head(&mut page[entry..], flags, version);
    page[row.value.start + front..][..bytes.len()].copy_from_slice(bytes);
}

/// Gives row `slot` a version, flags and the value `old[..front] + middle + old[len - back..]`.
/// REQUIRES: `front + back` is at most the old value's length.
#[inline]
pub(super) fn replace_row(
    page: &mut [u8],
    slot: u16,
    version: Version,
    flags: u8,
    (front, back): (usize, usize),
    middle: &[u8],
) -> Result<(), Damage> {
    let (node, head) = (Node::new(page), row_head(flags));
    let (mut at, mut len) = node.slot(slot);
    if (page[at] ^ flags) & SETTLED != 0 {
        let old_len = Leaf::new(page).row(slot).value.len();
        let longer = (front + middle.len() + back).saturating_sub(old_len);
        if flags & SETTLED != 0 || !name_versions(page, longer) {
            return replace_head_too(page, slot, version, flags, (front, back), middle);
        }
        (at, len) = Node::new(page).slot(slot);
    }
    let node = Node::new(page);
    let keep = head + node.suffix(slot).len() + front;
    let new_len = keep + middle.len() + back;
    if new_len > len && new_len - len > node.free_bytes() {
        return Err(Damage("the page has no room for the longer row"));
    }
    let new_at = if new_len <= len {
        // In place; the bytes left at the end are dead.
        if new_len < len {
            page.copy_within(at + len - back..at + len, at + keep + middle.len());
            set_u16(page, SLOTS + SLOT_BYTES * usize::from(slot) + 2, new_len as u16);
            let garbage = get_u16(page, GARBAGE) + (len - new_len) as u16;
            set_u16(page, GARBAGE, garbage);
        }
        at
    } else if new_len <= node.contiguous() {
        let head = head_of(node.suffix(slot));
        let new_at = allocate(page, slot, new_len, head);
        page.copy_within(at..at + keep, new_at);
        page.copy_within(at + len - back..at + len, new_at + keep + middle.len());
        let garbage = get_u16(page, GARBAGE) + len as u16;
        set_u16(page, GARBAGE, garbage);
        new_at
    } else {
        let head = head_of(node.suffix(slot));
        let old = page[at..at + len].to_vec();
        compact(page, Some(slot));
        let new_at = allocate(page, slot, new_len, head);
        page[new_at..new_at + keep].copy_from_slice(&old[..keep]);
        page[new_at + new_len - back..new_at + new_len].copy_from_slice(&old[len - back..]);
        new_at
    };
    page[new_at + keep..new_at + keep + middle.len()].copy_from_slice(middle);
    write_row_head(&mut page[new_at..], flags, version);
    Ok(())
}

/// Gives each row that names no version the version of transaction 0, which says the same, if the
/// page has room for all of them and `besides` bytes more. Returns false if it has not. So the rows
/// of a loaded leaf become longer at the first change of one of them, and not one after the other,
/// each leaving a hole.
fn name_versions(page: &mut [u8], besides: usize) -> bool {
    let node = Node::new(page);
    let Some(room) = node.free_bytes().checked_sub(besides) else { return false };
    let settled = |i: &u16| node.entry(*i)[0] & SETTLED != 0;
    if (0..node.len()).filter(settled).nth(room / VERSION_BYTES).is_some() {
        return false;
    }
    let old = page.to_vec();
    let node = Node::new(&old);
    let mut low = page.len() - node.low_fence().len() - node.high_fence().unwrap_or_default().len();
    page[low..].copy_from_slice(&[node.high_fence().unwrap_or_default(), node.low_fence()].concat());
    set_u16(page, LOW, (page.len() - node.low_fence().len()) as u16);
    set_u16(page, HIGH, low as u16);
    for i in 0..node.len() {
        let entry = node.entry(i);
        let added = ROW_HEAD - row_head(entry[0]);
        let len = entry.len() + added;
        low -= len;
        let new = &mut page[low..low + len];
        new[added..].copy_from_slice(entry);
        if added > 0 {
            write_row_head(new, entry[0] & !SETTLED, Version::default());
        }
        let field = SLOTS + SLOT_BYTES * usize::from(i);
        set_u16(page, field, low as u16);
        set_u16(page, field + 2, len as u16);
    }
    set_u16(page, HEAP_LOW, low as u16);
    set_u16(page, GARBAGE, 0);
    true
}

/// As [`replace_row`], where the old row has a head of another length.
fn replace_head_too(
    page: &mut [u8],
    slot: u16,
    version: Version,
    flags: u8,
    (front, back): (usize, usize),
    middle: &[u8],
) -> Result<(), Damage> {
    let node = Node::new(page);
    let (at, len) = node.slot(slot);
    let (suffix, head) = (node.suffix(slot), row_head(flags));
    let value = &node.entry(slot)[row_head(page[at]) + suffix.len()..];
    let mut entry = vec![0; head];
    write_row_head(&mut entry, flags, version);
    set_u16(&mut entry, head - 2, suffix.len() as u16);
    for part in [suffix, &value[..front], middle, &value[value.len() - back..]] {
        entry.extend_from_slice(part);
    }
    ensure!(entry.len() <= len + node.free_bytes(), "the page has no room for the longer row");
    let slot_head = head_of(suffix);
    let fits = entry.len() <= node.contiguous();
    let new_at = if entry.len() <= len {
        let garbage = get_u16(page, GARBAGE) + (len - entry.len()) as u16;
        set_u16(page, GARBAGE, garbage);
        set_u16(page, SLOTS + SLOT_BYTES * usize::from(slot) + 2, entry.len() as u16);
        at
    } else {
        if fits {
            let garbage = get_u16(page, GARBAGE) + len as u16;
            set_u16(page, GARBAGE, garbage);
        } else {
            compact(page, Some(slot));
        }
        allocate(page, slot, entry.len(), slot_head)
    };
    page[new_at..new_at + entry.len()].copy_from_slice(&entry);
    Ok(())
}

/// What a leaf or inner page is made with: owner, level, right sibling and fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeHead<'a> {
    /// Owner.
    pub(crate) tree: TreeId,
    /// 0 = leaf.
    pub(crate) level: u8,
    /// Right sibling; none means that the high fence is +infinity.
    pub(crate) right: PageNo,
    /// Low fence.
    pub(crate) low: &'a [u8],
    /// High fence; empty if `right` is none.
    pub(crate) high: &'a [u8],
}

impl NodeHead<'_> {
    /// Returns the length of the prefix that such a page does not store.
    #[must_use]
    pub(crate) fn prefix(&self) -> usize {
        if self.right.is_none() { 0 } else { common_prefix(self.low, self.high) }
    }
}

/// Builds the new content of a page in a buffer of its own, entry after entry. So a refusal leaves
/// the old content as it was.
pub(super) struct Builder {
    page: Vec<u8>,
    prefix: usize,
    inner: bool,
}

impl Builder {
    /// Starts a page of `page_bytes`.
    pub(super) fn new(page_bytes: usize, head: &NodeHead<'_>) -> Result<Builder, Damage> {
        let max = max_key(page_bytes);
        ensure!(head.low.len() <= max && head.high.len() <= max, "a fence is too long");
        ensure!(!head.right.is_none() || head.high.is_empty(), "a last page has a high fence");
        ensure!(head.right.is_none() || head.low < head.high, "the fences are out of order");
        let mut page = vec![0u8; page_bytes];
        let inner = head.level > 0;
        header::init(&mut page, if inner { PageKind::Inner } else { PageKind::Leaf }, head.tree);
        set_u32(&mut page, RIGHT, head.right.0);
        page[LEVEL] = head.level;
        let mut low = page_bytes;
        for (field, fence) in [(LOW, head.low), (HIGH, head.high)] {
            low -= fence.len();
            page[low..low + fence.len()].copy_from_slice(fence);
            set_u16(&mut page, field, low as u16);
            set_u16(&mut page, field + 2, fence.len() as u16);
        }
        set_u16(&mut page, HEAP_LOW, low as u16);
        let prefix = head.prefix();
        set_u16(&mut page, PREFIX, prefix as u16);
        Ok(Builder { page, prefix, inner })
    }

    /// Appends an entry in its stored form, whose suffix lacks this page's prefix.
    fn push_stored(&mut self, entry: &[u8]) -> Result<(), Damage> {
        let suffix = if self.inner {
            ensure!(entry.len() >= CHILD_HEAD, "an inner entry is too short");
            &entry[CHILD_HEAD..]
        } else {
            let head = row_head(entry.first().copied().unwrap_or_default());
            ensure!(entry.len() >= head, "a row is too short");
            let len = usize::from(get_u16(entry, head - 2));
            ensure!(entry.len() >= head + len, "a row is too short");
            ensure!(entry.len() - head - len <= inline_limit(self.page.len()), "a value is too long");
            &entry[head..head + len]
        };
        self.check_order(suffix)?;
        let slot = get_u16(&self.page, COUNT);
        let at = insert_slot(&mut self.page, slot, entry.len(), head_of(suffix))?;
        self.page[at..at + entry.len()].copy_from_slice(entry);
        Ok(())
    }

    /// Checks that `suffix` is above the entries so far and within the fences.
    fn check_order(&self, suffix: &[u8]) -> Result<(), Damage> {
        let node = Node::new(&self.page);
        let n = node.len();
        ensure!(self.prefix + suffix.len() <= max_key(self.page.len()), "a key is too long");
        if self.inner && n == 0 {
            ensure!(suffix.is_empty(), "the first separator is not the low fence");
            return Ok(());
        }
        let key = Key { prefix: node.prefix(), suffix };
        ensure!(node.high_fence().is_none_or(|high| key.cmp(high).is_lt()), "a key is above the high fence");
        let ordered = match n {
            0 => key.cmp(node.low_fence()).is_ge(),
            1 if self.inner => key.cmp(node.low_fence()).is_gt(),
            _ => suffix > node.suffix(n - 1),
        };
        ensure!(ordered, "the keys are out of order");
        Ok(())
    }

    /// Appends every entry of `body`: each a varint length, then the stored form.
    pub(super) fn push_body(&mut self, body: &[u8]) -> Result<(), Damage> {
        let mut rest = Reader::new(body);
        while !rest.is_empty() {
            let entry = rest.prefixed().map_err(|_| Damage("the entries of a page end early"))?;
            self.push_stored(entry)?;
        }
        Ok(())
    }

    /// Appends entry `i` of another page.
    pub(super) fn push_from(&mut self, from: &Node<'_>, i: u16, buf: &mut Vec<u8>) -> Result<(), Damage> {
        ensure!(self.inner == (from.level() > 0), "a leaf meets an inner page");
        let first = self.inner && get_u16(&self.page, COUNT) == 0;
        buf.clear();
        stored_form(from, i, self.prefix, first, buf);
        self.push_stored(buf)
    }

    /// Copies the insert run of the page that lost its upper part.
    pub(super) fn copy_insert_run(&mut self, old: &Node<'_>) {
        self.page[UP..=DOWN].copy_from_slice(&old.bytes()[UP..=DOWN]);
        self.page[LAST..LAST + 2].copy_from_slice(&old.bytes()[LAST..LAST + 2]);
    }

    /// Replaces the content of `page`; its number and LSN stay.
    pub(super) fn finish(self, page: &mut [u8]) -> Result<(), Damage> {
        let node = Node::new(&self.page);
        ensure!(!self.inner || node.len() > 0, "an inner page has no child");
        let kind = if self.inner { PageKind::Inner } else { PageKind::Leaf };
        header::init(page, kind, header::tree(&self.page));
        page[HEADER_BYTES..].copy_from_slice(&self.page[HEADER_BYTES..]);
        Ok(())
    }
}

/// Appends entry `i` of `from` in the form that a page with a common prefix of `prefix` bytes
/// stores. `first`: it becomes the first entry of an inner page, whose key is the low fence.
fn stored_form(from: &Node<'_>, i: u16, prefix: usize, first: bool, out: &mut Vec<u8>) {
    let key = if first { Key::whole(&[]) } else { from.key(i).skip(prefix) };
    let entry = from.entry(i);
    if from.level() > 0 {
        out.extend_from_slice(&entry[..CHILD_HEAD]);
        key.append_to(out);
    } else {
        let head = row_head(entry[0]);
        out.extend_from_slice(&entry[..head - 2]);
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        key.append_to(out);
        out.extend_from_slice(&entry[head + from.suffix(i).len()..]);
    }
}

/// Returns the entries `slots` of `from` as the body of an `Init` or `Absorb`, for a page with a
/// common prefix of `prefix` bytes. `first`: the first of them becomes slot 0.
#[must_use]
pub(crate) fn body_of(from: &Node<'_>, slots: std::ops::Range<u16>, prefix: usize, first: bool) -> Vec<u8> {
    let (mut body, mut entry) = (Vec::with_capacity(from.used_bytes()), Vec::new());
    let start = slots.start;
    for i in slots {
        entry.clear();
        stored_form(from, i, prefix, first && i == start && from.level() > 0, &mut entry);
        base::codec::Put::put_prefixed(&mut body, &entry);
    }
    body
}

/// Appends a row without a version to the body of a page, in its stored form. For bulk builds.
pub(crate) fn push_row(body: &mut Vec<u8>, suffix: &[u8], flags: u8, value: &[u8]) {
    use base::codec::Put;
    let flags = flags | SETTLED;
    body.put_varint((row_head(flags) + suffix.len() + value.len()) as u64);
    body.put_u8(flags);
    body.put_u16(suffix.len() as u16);
    body.extend_from_slice(suffix);
    body.extend_from_slice(value);
}

/// Appends a child to the body of a page, in its stored form. For bulk builds and a root that
/// grows.
pub(crate) fn push_child(body: &mut Vec<u8>, suffix: &[u8], child: PageNo) {
    use base::codec::Put;
    body.put_varint((CHILD_HEAD + suffix.len()) as u64);
    body.put_u32(child.0);
    body.extend_from_slice(suffix);
}
