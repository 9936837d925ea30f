//! Tests of pages against a model, an ordered map.

use std::collections::BTreeMap;

use base::prng::Prng;
use base::{Lsn, PageNo, TreeId, TxnId};
use proptest::prelude::*;

use super::apply::content_bytes;
use super::edit::{body_of, push_row};
use super::node::{
    Inner, Key, Leaf, Node, OVERFLOW, ROW_OVERHEAD, Row, SETTLED, Version, row_head, separator,
};
use super::op::{NodeHead, PageOp, RowChange, RowOp, common_ends};
use super::overflow::{ChainRef, Overflow};
use super::{Damage, PAGE_SIZES, header, inline_limit, max_key, overflow, verify};

const TREE: TreeId = TreeId(7);
type Model = BTreeMap<Vec<u8>, (Version, u8, Vec<u8>)>;

/// A page and its copy, which gets every op through its encoding.
struct Twin {
    page: Vec<u8>,
    redone: Vec<u8>,
}

impl Twin {
    fn new(page_bytes: usize) -> Self {
        Twin { page: vec![0; page_bytes], redone: vec![0; page_bytes] }
    }

    fn apply(&mut self, op: PageOp<'_>) -> Result<(), Damage> {
        let mut bytes = Vec::new();
        op.encode(&mut bytes);
        let decoded = PageOp::decode(&bytes).expect("what was encoded is decoded");
        assert_eq!(decoded, op);
        let before = self.page.clone();
        let done = op.apply(&mut self.page);
        assert_eq!(decoded.redo(&mut self.redone).is_ok(), done.is_ok());
        assert!(self.page == self.redone, "redo gives other bytes");
        if done.is_err() {
            assert!(self.page == before, "a refused op left a trace");
        }
        assert_eq!(verify::problems(&self.page), [], "after {op:?}");
        done
    }
}

fn head<'a>(level: u8, low: &'a [u8], high: &'a [u8]) -> NodeHead<'a> {
    let right = if high.is_empty() { PageNo::NONE } else { PageNo(99) };
    NodeHead { tree: TREE, level, right, low, high }
}

fn rows(page: &[u8]) -> Model {
    let leaf = Leaf::new(page);
    let row = |i| {
        let Row { version, flags, value } = leaf.row(i);
        // Whether a row has the flag may change with its neighbours.
        assert!(flags & SETTLED == 0 || version == Version::default());
        (leaf.key(i).to_vec(), (version, flags & !SETTLED, value.to_vec()))
    };
    (0..leaf.len()).map(row).collect()
}

fn some_key(rng: &mut Prng, prefix: &[u8], max: usize) -> Vec<u8> {
    let mut key = prefix.to_vec();
    let len = match rng.below(10) {
        0 => rng.below((max - prefix.len()) as u64 + 1),
        _ => rng.below(6),
    };
    key.extend((0..len).map(|_| *rng.pick(&[0u8, 1, b'a', b'b', 255])));
    key
}

fn some_value(rng: &mut Prng, limit: usize) -> Vec<u8> {
    let len = if rng.one_in(8) { rng.below(limit as u64 + 1) } else { rng.below(60) };
    let mut value = vec![0; len as usize];
    rng.fill(&mut value);
    value
}

fn some_version(rng: &mut Prng) -> Version {
    Version { txn: TxnId(rng.below(1 << 48)), undo_at: rng.below(1 << 40) }
}

/// Makes the op that the engine makes for a put of `key`: an insert, or a replace of the bytes that
/// differ.
fn put<T>(
    page: &[u8],
    key: &[u8],
    (version, flags, value): (Version, u8, &[u8]),
    with: impl FnOnce(PageOp<'_>) -> T,
) -> T {
    let leaf = Leaf::new(page);
    let (slot, change) = match leaf.search(key) {
        Err(slot) => (slot, RowChange::Insert { flags, value }),
        Ok(slot) => {
            let old = leaf.row(slot);
            let (front, back) = common_ends(old.value, value);
            let middle = |v: &[u8]| usize::from(front)..v.len() - usize::from(back);
            let (old_middle, new_middle) = (&old.value[middle(old.value)], &value[middle(value)]);
            let (before, old_flags) = (old.version, old.flags);
            (
                slot,
                RowChange::Replace {
                    before,
                    old_flags,
                    new_flags: flags,
                    front,
                    back,
                    old_middle,
                    new_middle,
                },
            )
        }
    };
    let op = PageOp::Row(RowOp { slot, tree: TREE, key, version, change });
    with(op)
}

/// Makes the leaf with some rows, as a load does.
fn load(rng: &mut Prng, twin: &mut Twin, model: &mut Model, low: &[u8], high: &[u8]) {
    let prefix = head(0, low, high).prefix();
    for _ in 0..rng.below(8) {
        let key = some_key(rng, &low[..prefix], prefix + 8);
        if low <= &key[..] && (high.is_empty() || &key[..] < high) {
            model.insert(key, (Version::default(), 0, some_value(rng, 40)));
        }
    }
    let mut body = Vec::new();
    model.iter().for_each(|(key, (_, _, value))| push_row(&mut body, &key[prefix..], 0, value));
    twin.apply(PageOp::Init { head: head(0, low, high), body: &body }).unwrap();
    assert_eq!(rows(&twin.page), *model);
}

/// Restores an older version of a row, if there is a row.
fn restore(rng: &mut Prng, twin: &mut Twin, model: &mut Model) {
    let image = twin.page.clone();
    let leaf = Leaf::new(&image);
    if leaf.len() == 0 {
        return;
    }
    let slot = rng.below(leaf.len().into()) as u16;
    let (version, flags) = match rng.one_in(3) {
        true => (Version::default(), SETTLED | *rng.pick(&[0, OVERFLOW])),
        false => (some_version(rng), rng.below(4) as u8),
    };
    let middle = some_value(rng, 30);
    let old = leaf.row(slot).value;
    let front = rng.below(old.len() as u64 + 1) as u16;
    let back = rng.below(old.len() as u64 - u64::from(front) + 1) as u16;
    let rear = &old[old.len() - usize::from(back)..];
    let value = [&old[..usize::from(front)], &middle, rear].concat();
    let op = PageOp::Restore { slot, version, flags, front, back, middle: &middle };
    if twin.apply(op).is_ok() {
        model.insert(leaf.key(slot).to_vec(), (version, flags & !SETTLED, value));
    }
}

fn leaf_against_model(seed: u64, page_bytes: usize, low: &[u8], high: &[u8]) {
    let rng = &mut Prng::new(seed);
    let prefix = head(0, low, high).prefix();
    let (max, limit) = (max_key(page_bytes), inline_limit(page_bytes));
    let (mut twin, mut model) = (Twin::new(page_bytes), Model::new());
    load(rng, &mut twin, &mut model, low, high);
    for _ in 0..300 {
        let key = some_key(rng, &low[..prefix], max);
        let image = twin.page.clone();
        let leaf = Leaf::new(&image);
        let belongs = low <= &key[..] && (high.is_empty() || &key[..] < high);
        assert_eq!(leaf.covers(&key), belongs);
        match rng.below(10) {
            0..7 => {
                let (version, flags, value) = (some_version(rng), rng.below(4) as u8, some_value(rng, limit));
                let done = put(&image, &key, (version, flags, &value), |op| twin.apply(op));
                let needed = match leaf.search(&key) {
                    Ok(slot) => {
                        let old = leaf.row(slot);
                        (row_head(flags) + value.len()).saturating_sub(row_head(old.flags) + old.value.len())
                    }
                    Err(_) => ROW_OVERHEAD + key.len() - prefix.min(key.len()) + value.len(),
                };
                assert_eq!(done.is_ok(), belongs && needed <= leaf.free_bytes(), "{done:?}");
                if done.is_ok() {
                    model.insert(key, (version, flags, value));
                }
            }
            7..9 => {
                let found = leaf.search(&key).or_else(|i| if i < leaf.len() { Ok(i) } else { Err(i) });
                if let Ok(slot) = found {
                    twin.apply(PageOp::Remove { slot }).unwrap();
                    model.remove(&leaf.key(slot).to_vec()).unwrap();
                } else {
                    assert!(twin.apply(PageOp::Remove { slot: leaf.len() }).is_err());
                }
            }
            _ => restore(rng, &mut twin, &mut model),
        }
        assert_eq!(rows(&twin.page), model);
        let probe = some_key(rng, &low[..prefix], max);
        let leaf = Leaf::new(&twin.page);
        let below = model.range(..probe.clone()).count() as u16;
        let expect = if model.contains_key(&probe) { Ok(below) } else { Err(below) };
        assert_eq!(leaf.search(&probe), expect);
    }
    split_and_merge(rng, &twin.page, &model, low, high);
}

/// Splits a leaf as the tree does, and merges the halves again.
fn split_and_merge(rng: &mut Prng, whole: &[u8], model: &Model, low: &[u8], high: &[u8]) {
    let node = Node::new(whole);
    if node.len() < 2 {
        return;
    }
    let slot = rng.between(1, u64::from(node.len()) - 1) as u16;
    let (before, at) = (node.key(slot - 1).to_vec(), node.key(slot).to_vec());
    let sep = separator(&before, &at);
    assert!(before[..] < *sep && *sep <= at[..]);
    let right_head = NodeHead { low: sep, ..head(0, low, high) };
    let body = body_of(&node, slot..node.len(), right_head.prefix(), true);
    let mut right = Twin::new(whole.len());
    right.apply(PageOp::Init { head: right_head, body: &body }).unwrap();
    let mut left = Twin { page: whole.to_vec(), redone: whole.to_vec() };
    left.apply(PageOp::Cut { slot, right: PageNo(5), high: sep }).unwrap();
    let mut both = rows(&left.page);
    assert_eq!(both.len(), usize::from(slot));
    both.extend(rows(&right.page));
    assert_eq!(&both, model);

    let merged = head(0, low, high);
    let right_node = Node::new(&right.page);
    let body = body_of(&right_node, 0..right_node.len(), merged.prefix(), false);
    left.apply(PageOp::Absorb { right: merged.right, high, body: &body }).unwrap();
    assert_eq!(&rows(&left.page), model);
    assert_eq!(Node::new(&left.page).entry_bytes(), node.entry_bytes());
    let foretold = content_bytes(&merged, &[(node, 0..slot), (right_node, 0..right_node.len())]);
    assert_eq!(foretold, super::node::SLOTS + Node::new(&left.page).used_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_leaf_is_an_ordered_map(seed: u64, size in 0..3usize, fences in 0..3usize) {
        let (low, high): (&[u8], &[u8]) = [(&b""[..], &b""[..]), (b"aa", b"b"), (b"xyz\x00", b"xyz\xff\xff")][fences];
        leaf_against_model(seed, PAGE_SIZES[size], low, high);
    }

    #[test]
    fn an_inner_page_leads_to_the_right_child(seed: u64) {
        let rng = &mut Prng::new(seed);
        let mut twin = Twin::new(4096);
        let (low, high) = (&b"a"[..], &b"az"[..]);
        let mut body = Vec::new();
        super::edit::push_child(&mut body, &[], PageNo(1));
        twin.apply(PageOp::Init { head: head(1, low, high), body: &body }).unwrap();
        let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::from([(low.to_vec(), 1)]);
        for n in 2..200 {
            let key = some_key(rng, b"a", 896);
            let image = twin.page.clone();
            let node = Inner::new(&image);
            let below = model.range(..=key.clone()).next_back();
            if let Some((_, &child)) = below {
                prop_assert_eq!(node.child(node.find(&key)), PageNo(child));
            }
            if let Some((_, &child)) = model.range(..key.clone()).next_back() {
                prop_assert_eq!(node.child(node.find_before(&key)), PageNo(child));
            }
            match node.search(&key) {
                Ok(slot) if slot > 0 && rng.one_in(2) => {
                    twin.apply(PageOp::RemoveChild { slot }).unwrap();
                    model.remove(&key);
                }
                Err(slot) => {
                    if twin.apply(PageOp::PutChild { slot, child: PageNo(n), key: &key }).is_ok() {
                        model.insert(key, n);
                    }
                }
                Ok(slot) => prop_assert_eq!(node.key(slot).to_vec(), key),
            }
            let node = Inner::new(&twin.page);
            let now: Vec<_> = (0..node.len()).map(|i| (node.key(i).to_vec(), node.child(i).0)).collect();
            prop_assert_eq!(now, model.clone().into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_bytes_make_a_page_panic(seed: u64, flips in 1..40usize, inner: bool) {
        let rng = &mut Prng::new(seed);
        let mut page = filled(rng, inner);
        for _ in 0..flips {
            let at = match rng.below(4) {
                0 => rng.below(4096),
                1 => 56 + rng.below(32),
                2 => 88 + rng.below(300),
                _ => 4096 - 1 - rng.below(600),
            } as usize;
            page[at] = if rng.one_in(2) { rng.next_u64() as u8 } else { page[at].wrapping_add(1) };
        }
        let _ = verify::problems(&page);
        if verify::quick(&page).is_ok() {
            use_everything(rng, &mut page);
        }
    }

    #[test]
    fn no_bytes_make_an_op_panic(bytes: Vec<u8>, seed: u64, tag in 1..19u8, inner: bool) {
        let rng = &mut Prng::new(seed);
        let bytes = [&[tag][..], &bytes].concat();
        if let Ok(op) = PageOp::decode(&bytes) {
            let mut page = filled(rng, inner);
            if let PageOp::Row(row) = &op {
                // Redo trusts the page's LSN. Even if that is wrong, the page stays one.
                let (mut redone, same) = (page.clone(), op.apply(&mut page.clone()));
                if row.make(&mut redone, false).is_ok() {
                    prop_assert_eq!(verify::quick(&redone), Ok(()));
                } else {
                    prop_assert!(same.is_err(), "redo refuses what was done");
                }
            }
            if op.apply(&mut page).is_ok() {
                prop_assert_eq!(verify::quick(&page), Ok(()));
            }
        }
    }
}

fn filled(rng: &mut Prng, inner: bool) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let mut body = Vec::new();
    if inner {
        super::edit::push_child(&mut body, &[], PageNo(1));
    }
    PageOp::Init { head: head(u8::from(inner), b"ka", b"kx"), body: &body }.apply(&mut page).unwrap();
    for n in 2..80 {
        let key = some_key(rng, b"k", 40);
        let image = page.clone();
        if inner {
            if let Err(slot) = Inner::new(&image).search(&key) {
                let _ = PageOp::PutChild { slot, child: PageNo(n), key: &key }.apply(&mut page);
            }
        } else {
            let (version, value) = (some_version(rng), some_value(rng, 80));
            let _ = put(&image, &key, (version, 0, &value), |op| op.apply(&mut page));
        }
    }
    page
}

/// Reads a page that passed the quick check in every way, and changes it in many ways. Nothing may
/// panic.
fn use_everything(rng: &mut Prng, page: &mut [u8]) {
    let image = page.to_vec();
    let key = some_key(rng, b"k", 40);
    match header::kind(&image) {
        Some(header::PageKind::Leaf) => {
            let leaf = Leaf::new(&image);
            for i in 0..leaf.len() {
                let (_, key, row) = (leaf.entry_size(i), leaf.key(i), leaf.row(i));
                let _ = ChainRef::decode(row.value);
                let _ = (leaf.search(&key.to_vec()), key.skip(3));
            }
            let _ = put(&image, &key, (some_version(rng), 0, &some_value(rng, 300)), |op| op.apply(page));
        }
        Some(header::PageKind::Inner) => {
            let inner = Inner::new(&image);
            for i in 0..inner.len() {
                let _ = (inner.child(i), inner.find(&inner.key(i).to_vec()), inner.find_before(&key));
            }
            let slot = inner.search(&key).unwrap_or_else(|i| i);
            let _ = PageOp::PutChild { slot, child: PageNo(4), key: &key }.apply(page);
        }
        Some(header::PageKind::Overflow) => {
            let _ = Overflow::new(page).map(|o| (o.data().len(), o.next(), o.owner(), o.is_head()));
        }
        _ => {}
    }
    for _ in 0..20 {
        let slot = rng.below(90) as u16;
        let middle = some_value(rng, 700);
        let (front, back) = (rng.below(20) as u16, rng.below(20) as u16);
        let high = some_key(rng, b"k", 60);
        let body: &[u8] = if rng.one_in(2) { &[] } else { &middle };
        let _ = match rng.below(6) {
            0 => PageOp::Remove { slot }.apply(page),
            1 => PageOp::RemoveChild { slot }.apply(page),
            2 => PageOp::Cut { slot, right: PageNo(3), high: &high }.apply(page),
            3 => PageOp::Absorb { right: PageNo(3), high: &high, body }.apply(page),
            4 => PageOp::MapSet { extent: slot, page: 3 }.apply(page),
            _ => PageOp::Restore { slot, version: some_version(rng), flags: 1, front, back, middle: &middle }
                .apply(page),
        };
        assert_eq!(verify::quick(page), Ok(()), "an op broke what the accessors rely on");
    }
}

#[test]
fn a_row_change_costs_few_log_bytes() {
    let version = Version { txn: TxnId(1 << 27), undo_at: 100_000 };
    let change = RowChange::Replace {
        before: Version { txn: TxnId(1 << 26), undo_at: 50_000 },
        old_flags: 0,
        new_flags: 0,
        front: 200,
        back: 300,
        old_middle: b"old!",
        new_middle: b"new!",
    };
    let op = PageOp::Row(RowOp { slot: 200, tree: TreeId(1000), key: b"key8byte", version, change });
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    assert!(bytes.len() - 16 <= 30, "{}", bytes.len());
}

#[test]
fn runs_of_inserts_are_detected() {
    let mut page = vec![0; 4096];
    PageOp::Init { head: head(0, b"", b""), body: &[] }.apply(&mut page).unwrap();
    let mut add = |key: &[u8]| {
        let image = page.clone();
        put(&image, key, (Version::default(), 0, b"v"), |op| op.apply(&mut page)).unwrap();
        let node = Node::new(&page);
        let next = node.search(key).unwrap();
        (node.insert_run(next + 1, 3).is_gt(), node.insert_run(next, 3).is_lt())
    };
    assert_eq!(add(b"z"), (false, false));
    assert_eq!(add(b"f"), (false, false));
    assert_eq!(add(b"g"), (false, false));
    assert_eq!(add(b"h"), (true, false), "ascending in the middle");
    assert_eq!(add(b"i"), (true, false));
    assert_eq!(add(b"e"), (false, false));
    assert_eq!(add(b"d"), (false, false));
    assert_eq!(add(b"c"), (false, true), "descending");
}

#[test]
fn an_overflow_page_reads_back() {
    let mut twin = Twin::new(8192);
    let owner = Version { txn: TxnId(3), undo_at: 9 };
    let (data, following) = (vec![7; overflow::capacity(8192, 2)], [PageNo(12), PageNo(70_000)]);
    let numbers = overflow::numbers(&following);
    let init = |following| PageOp::InitOverflow { tree: TREE, owner, head: true, following, data: &data };
    twin.apply(init(&numbers)).unwrap();
    assert!(twin.apply(init(&[0; 12])).is_err() && twin.apply(init(&[0; 7])).is_err());
    twin.apply(PageOp::SetNext { next: PageNo(12) }).unwrap();
    let page = Overflow::new(&twin.page).unwrap();
    assert_eq!(
        (page.owner(), page.is_head(), page.next(), page.data()),
        (owner, true, PageNo(12), &data[..])
    );
    assert!(page.following().eq(following));
    let chain = ChainRef { head: PageNo(4), len: 1 << 20, owner };
    assert_eq!(ChainRef::decode(&chain.encode()), Ok(chain));
    twin.apply(PageOp::Free).unwrap();
    assert!(Overflow::new(&twin.page).is_none());
}

/// A chain names pages until all bytes have a page, and it uses every page that it names.
#[test]
fn a_chain_uses_every_page_that_it_names() {
    for page_bytes in [4096, 8192, 16384] {
        let all = overflow::capacity(page_bytes, 0);
        let lens =
            (1..200).flat_map(|pages| [pages * all - 5, pages * all, pages * all + 1, pages * (all - 4)]);
        for len in lens.chain([1, 3_000_000]) {
            // `named` includes the page that is written next.
            let (mut left, mut named, mut pages) = (len, 1, 0);
            while left > 0 {
                pages += 1;
                let names = if named == 1 { overflow::following_for(page_bytes, left) } else { 0 };
                named = named + names - 1;
                left = left.saturating_sub(overflow::capacity(page_bytes, names));
                assert!(
                    left > 0 || named == 0,
                    "{len} bytes in pages of {page_bytes}: {named} named but not used"
                );
                assert!(named > 0 || left == 0, "{len} bytes in pages of {page_bytes}: {left} left");
            }
            assert_eq!(pages, overflow::pages_for(page_bytes, len));
        }
    }
}

#[test]
fn init_keeps_number_and_lsn_and_a_key_compares_in_two_parts() {
    let mut page = vec![0; 4096];
    header::set_page_no(&mut page, PageNo(5));
    header::set_lsn(&mut page, Lsn(77));
    PageOp::Init { head: head(0, b"", b""), body: &[] }.apply(&mut page).unwrap();
    assert_eq!((header::page_no(&page), header::lsn(&page), header::tree(&page)), (PageNo(5), Lsn(77), TREE));
    let all: [&[u8]; 6] = [b"", b"a", b"ab", b"abc", b"abd", b"b"];
    for whole in all {
        for cut in 0..=whole.len() {
            let key = Key { prefix: &whole[..cut], suffix: &whole[cut..] };
            for other in all {
                assert_eq!(key.cmp(other), whole.cmp(other), "{whole:?} cut at {cut} against {other:?}");
            }
        }
    }
}

#[test]
fn two_slots_on_one_entry_are_damage() {
    let mut page = vec![0; 4096];
    PageOp::Init { head: head(0, b"", b""), body: &[] }.apply(&mut page).unwrap();
    for key in [b"a", b"b"] {
        let image = page.clone();
        put(&image, key, (Version::default(), 0, b"v"), |op| op.apply(&mut page)).unwrap();
    }
    assert_eq!(verify::quick(&page), Ok(()));
    let first = super::node::SLOTS;
    page.copy_within(first..first + super::node::SLOT_BYTES, first + super::node::SLOT_BYTES);
    assert_eq!(verify::quick(&page), Err(Damage("two entries overlap")));
}
