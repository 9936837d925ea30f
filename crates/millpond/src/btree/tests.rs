//! Tests of the tree against an ordered map, with one thread and with many; loads in key order;
//! splits cut off half-way; long values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::prng::Prng;
use base::{TreeId, TxnId};

use super::leaf::row_bytes;
use super::*;
use crate::buffer::{FetchHint, PageWrite};
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::node::{Inner, Leaf, Node, OVERFLOW, Version};
use crate::page::op::{PageOp, RowChange, RowOp, common_ends};
use crate::page::{inline_limit, max_key};
use crate::tree_store::Store;
use fixture::TestStore;

mod fixture;
mod old_chains;
mod root_copy;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const ID: TreeId = TreeId(3);

fn version(undo_at: u64) -> Version {
    Version { txn: TxnId(77), undo_at }
}

fn put(store: &Store, tree: Tree, key: &[u8], value: &[u8], flags: u8) {
    let (page, mut mtr) = latched(store, tree, key, row_bytes(key.len(), value.len()));
    let leaf = Leaf::new(&page);
    let (slot, old) = match leaf.search(key) {
        Ok(slot) => {
            (slot, Some((leaf.row(slot).version, leaf.row(slot).flags, leaf.row(slot).value.to_vec())))
        }
        Err(slot) => (slot, None),
    };
    let change = match &old {
        None => RowChange::Insert { flags, value },
        Some((before, old_flags, old)) => {
            let (front, back) = common_ends(old, value);
            RowChange::Replace {
                before: *before,
                old_flags: *old_flags,
                new_flags: flags,
                front,
                back,
                old_middle: &old[front.into()..old.len() - usize::from(back)],
                new_middle: &value[front.into()..value.len() - usize::from(back)],
            }
        }
    };
    let page = mtr.add(page);
    mtr.apply(page, &PageOp::Row(RowOp { slot, tree: tree.id, key, version: version(1), change }));
    mtr.commit();
}

/// Returns the leaf for a change of `key`, and room in the log for it.
fn latched<'s>(store: &'s Store, tree: Tree, key: &[u8], room: usize) -> (PageWrite<'s>, Mtr<'s>) {
    loop {
        let page = tree.leaf_write(store, key, room).unwrap();
        if let Some(mtr) = Mtr::try_begin(&store.log, &store.pool) {
            return (page, mtr);
        }
        drop(page);
        store.log.await_credit().unwrap();
    }
}

/// Removes a row as purge does, and merges the pages that become small.
fn remove(store: &Store, tree: Tree, key: &[u8]) -> bool {
    let (page, mut mtr) = latched(store, tree, key, 0);
    let Ok(slot) = Leaf::new(&page).search(key) else { return false };
    let page = mtr.add(page);
    mtr.apply(page, &PageOp::Remove { slot });
    let small = is_small(mtr.page(page));
    mtr.commit();
    if small {
        tree.try_merge(store, key).unwrap();
    }
    true
}

fn get(store: &Store, tree: Tree, key: &[u8]) -> Option<Vec<u8>> {
    let page = tree.leaf_read(store, key).unwrap();
    let leaf = Leaf::new(&page);
    assert!(leaf.covers(key));
    leaf.search(key).ok().map(|i| leaf.row(i).value.to_vec())
}

fn forward(store: &Store, tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut next = Some((tree.leaf_read(store, &[]).unwrap(), 0));
    while let Some((page, first)) = next {
        let leaf = Leaf::new(&page);
        rows.extend((first..leaf.len()).map(|i| (leaf.key(i).to_vec(), leaf.row(i).value.to_vec())));
        next = tree.leaf_next(store, page).unwrap();
    }
    rows
}

fn backward(store: &Store, tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let last = tree.leaf_read_last(store, &mut LeafReads::one(FetchHint::Normal)).unwrap();
    let len = Leaf::new(&last).len();
    let mut next = Some((last, len));
    while let Some((page, end)) = next {
        let leaf = Leaf::new(&page);
        rows.extend((0..end).rev().map(|i| (leaf.key(i).to_vec(), leaf.row(i).value.to_vec())));
        let low = leaf.low_fence().to_vec();
        drop(page);
        next = tree.leaf_read_before(store, &low, &mut LeafReads::one(FetchHint::Normal)).unwrap();
    }
    rows
}

fn assert_sound(fixture: &TestStore, tree: Tree) -> TreeCheck {
    let report = tree.check(&fixture.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let mut reached: Vec<_> = report.pages.iter().map(|no| no.0).collect();
    reached.sort_unstable();
    assert_eq!(reached, fixture.used_pages(), "the pages that the root leads to are those in use");
    report
}

fn assert_equals(fixture: &TestStore, tree: Tree, model: &Model) -> TreeCheck {
    let expect: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(forward(&fixture.store, tree), expect);
    let mut back = backward(&fixture.store, tree);
    back.reverse();
    assert_eq!(back, expect);
    let report = assert_sound(fixture, tree);
    assert_eq!(report.rows, model.len() as u64);
    report
}

fn some_key(rng: &mut Prng, page_bytes: usize, long: bool) -> Vec<u8> {
    let mut key = rng.below(3000).to_be_bytes()[6..].to_vec();
    if long {
        // Neighbours of the greatest length that differ only at their ends: the longest possible
        // separators.
        let fill = rng.below(2) as u8;
        key.truncate(1);
        key.resize(max_key(page_bytes) - 1, fill);
        key.push(rng.below(6) as u8);
    } else if rng.one_in(20) {
        let len = rng.below(max_key(page_bytes) as u64 - 2) as usize;
        key.resize(2 + len, 7);
    }
    key
}

fn some_value(rng: &mut Prng, page_bytes: usize) -> Vec<u8> {
    let most = if rng.one_in(10) { inline_limit(page_bytes) } else { 100 };
    let mut value = vec![0; rng.below(most as u64 + 1) as usize];
    rng.fill(&mut value);
    value
}

fn grow_and_shrink(seed: u64, page_bytes: usize, long: bool) {
    let rng = &mut Prng::new(seed);
    let fixture = TestStore::new(page_bytes, 4096);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let mut model = Model::new();
    // Grow, stay, shrink to nothing.
    for percent_puts in [90, 50, 10] {
        for _ in 0..4000 {
            let key = some_key(rng, page_bytes, long);
            if rng.percent(percent_puts) {
                let value = some_value(rng, page_bytes);
                put(&fixture.store, tree, &key, &value, 0);
                model.insert(key, value);
            } else {
                assert_eq!(remove(&fixture.store, tree, &key), model.remove(&key).is_some());
            }
            let key = some_key(rng, page_bytes, long);
            assert_eq!(get(&fixture.store, tree, &key).as_ref(), model.get(&key));
        }
        let report = assert_equals(&fixture, tree, &model);
        assert_eq!(report.unposted, 0);
    }
    for key in model.keys() {
        assert!(remove(&fixture.store, tree, key));
    }
    model.clear();
    assert_equals(&fixture, tree, &model);
    // An empty page stays only if its neighbour has another parent.
    let left = fixture.used_pages().len();
    assert!(left <= 3, "{left} pages are left of an empty tree");
    fixture.assert_redo_gives_the_same_pages();
}

#[test]
fn a_tree_is_an_ordered_map() {
    for (seed, page_bytes) in [(1, 4096), (2, 8192), (3, 16384)] {
        grow_and_shrink(seed, page_bytes, false);
    }
}

/// A guess saves the descent or is ignored, even if the page has become another: freed, another
/// leaf, an inner page, a page of another tree.
#[test]
fn a_wrong_guess_is_ignored() {
    let rng = &mut Prng::new(5);
    let fixture = TestStore::new(4096, 4096);
    let store = &fixture.store;
    let (tree, other) = (Tree::create(store, ID).unwrap(), Tree::create(store, TreeId(4)).unwrap());
    let (mut right, mut seen) = (0, vec![tree.root, other.root]);
    for round in 0..6000 {
        let key = some_key(rng, 4096, false);
        let value = some_value(rng, 4096);
        match round / 2000 {
            1 => drop(remove(store, tree, &key)),
            _ => put(store, if rng.percent(80) { tree } else { other }, &key, &value, 0),
        }
        let key = some_key(rng, 4096, false);
        let leaf = tree.leaf_read(store, &key).unwrap().page_no();
        let guess = if rng.percent(50) { leaf } else { seen[rng.below(seen.len() as u64) as usize] };
        right += usize::from(guess == leaf);
        assert_eq!(tree.leaf_read_cached(store, Some(guess), &key).unwrap().page_no(), leaf);
        let needed = row_bytes(key.len(), value.len());
        let (page, _) = tree.leaf_write_cached(store, Some(guess), &key, needed).unwrap();
        assert!(Leaf::new(&page).covers(&key) && crate::page::header::tree(&page) == ID);
        assert!(super::leaf::slot_with_room(&page, &key, needed).is_some());
        seen.push(page.page_no());
        drop(page);
        seen.push(other.leaf_read(store, &key).unwrap().page_no());
    }
    assert!(right > 2000, "{right}");
}

#[test]
fn the_longest_keys_and_separators_find_room() {
    grow_and_shrink(4, 4096, true);
    grow_and_shrink(5, 16384, true);
}

fn fill(fixture: &TestStore, tree: Tree) -> f64 {
    let (mut used, mut pages) = (0, 0);
    let mut next = Some((tree.leaf_read(&fixture.store, &[]).unwrap(), 0));
    while let Some((page, _)) = next {
        used += Node::new(&page).used_bytes();
        pages += 1;
        next = tree.leaf_next(&fixture.store, page).unwrap();
    }
    used as f64 / (pages * (fixture.store.pool.page_bytes() - 88)) as f64
}

fn load(keys: impl Iterator<Item = u64>) -> f64 {
    let fixture = TestStore::new(4096, 4096);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    for key in keys {
        put(&fixture.store, tree, &key.to_be_bytes(), &[7; 50], 0);
    }
    assert_sound(&fixture, tree);
    fill(&fixture, tree)
}

#[test]
fn loads_in_key_order_fill_their_pages() {
    // The last leaf stores whole keys. The space that a prefix saves once it has both fences stays
    // free.
    let ascending = load(0..10_000);
    assert!(ascending > 0.9, "{ascending}");
    let descending = load((0..10_000).rev());
    assert!(descending > 0.9, "{descending}");
    // Eight loads side by side, each ascending in its own range.
    let side_by_side = load((0..10_000).map(|i| ((i % 8) << 32) | (i / 8)));
    assert!(side_by_side > 0.85, "{side_by_side}");
    // One row more fits than while the keys of the last leaf share no prefix.
    let fixture = TestStore::new(8192, 2048);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    (0..8000u64).for_each(|key| put(&fixture.store, tree, &key.to_be_bytes(), &[7; 200], 0));
    let leaves = tree.check(&fixture.store).unwrap().pages.len() as f64;
    assert!(8000.0 / leaves > 35.7, "{} rows a page", 8000.0 / leaves);
    let mut rng = Prng::new(1);
    let random = load((0..10_000).map(|_| rng.next_u64()));
    assert!((0.6..0.8).contains(&random), "{random}");
}

/// Makes a tree with many unposted splits, at the leaves and above.
fn with_unposted_splits() -> (TestStore, Tree, Model) {
    let fixture = TestStore::new(4096, 1024);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let mut model = Model::new();
    for i in 0..3000u32 {
        let key = (i * 7919 % 3000).to_be_bytes().to_vec();
        put(&fixture.store, tree, &key, &[1; 60], 0);
        model.insert(key, vec![1; 60]);
    }
    // Some pages are split twice.
    let full = 2 * 4096;
    let mut split = 0;
    for key in (0..3000u32).step_by(23) {
        let key = key.to_be_bytes();
        split += u64::from(tree.split_page(&fixture.store, 0, &key, full).unwrap().is_some());
    }
    for key in (0..3000u32).step_by(700) {
        let key = key.to_be_bytes();
        split += u64::from(tree.split_page(&fixture.store, 1, &key, full).unwrap().is_some());
    }
    assert!(split > 100);
    let report = assert_equals(&fixture, tree, &model);
    assert!(report.unposted > 50, "{}", report.unposted);
    (fixture, tree, model)
}

#[test]
fn an_unposted_split_is_found_and_posted() {
    let (fixture, tree, model) = with_unposted_splits();
    for key in model.keys() {
        drop(tree.leaf_write(&fixture.store, key, 0).unwrap());
    }
    let report = assert_equals(&fixture, tree, &model);
    assert_eq!(report.unposted, 0);
    fixture.assert_redo_gives_the_same_pages();
}

#[test]
fn merges_keep_unposted_pages_in_the_tree() {
    let (fixture, tree, mut model) = with_unposted_splits();
    // In descending order, so that a descent to a page to be merged does not pass the unposted page
    // to its right.
    for key in model.clone().keys().rev() {
        assert!(remove(&fixture.store, tree, key));
        model.remove(key);
        if model.len() % 500 == 0 {
            assert_equals(&fixture, tree, &model);
        }
    }
}

#[test]
fn a_bulk_build_fills_fifteen_sixteenths_of_every_page() {
    for (rows, page_bytes) in [(0, 4096), (1, 4096), (30, 4096), (20_000, 4096), (20_000, 16384)] {
        let fixture = TestStore::new(page_bytes, 4096);
        let tree = Tree::create(&fixture.store, ID).unwrap();
        let rng = &mut Prng::new(rows);
        let model: Model = (0..rows)
            .map(|i| {
                let key = format!("{}/{:08}", ["customers", "orders"][(i % 2) as usize], i / 2).into_bytes();
                (key, vec![5; rng.below(60) as usize])
            })
            .collect();
        build(&fixture, tree, &model);
        assert_equals(&fixture, tree, &model);
        if rows > 1000 {
            let fill = fill(&fixture, tree);
            // A page that crosses from one prefix of its keys to another is a little emptier.
            assert!((0.91..0.96).contains(&fill), "{fill}");
        }
        for key in model.keys().step_by(3) {
            put(&fixture.store, tree, key, &[9; 70], 0);
        }
        assert_sound(&fixture, tree);
    }
    let fixture = TestStore::new(4096, 64);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    for (second, says) in [(b"b", "row 2 has the key of"), (b"a", "row 2 belongs before")] {
        let mut bulk = BulkBuilder::begin(tree);
        let mut push = |key: &[u8]| bulk.push(&fixture.store, key, 0, b"", &fixture);
        push(b"b").unwrap();
        let error = push(second).unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}");
    }
}

/// Builds `tree` from the rows of `model`.
fn build(fixture: &TestStore, tree: Tree, model: &Model) {
    let mut bulk = BulkBuilder::begin(tree);
    for (key, value) in model {
        bulk.push(&fixture.store, key, 0, value, fixture).unwrap();
    }
    bulk.finish(&fixture.store, fixture).unwrap();
}

#[test]
fn a_bulk_build_accepts_all_key_lengths() {
    let rng = &mut Prng::new(8);
    let fixture = TestStore::new(4096, 4096);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let mut model = Model::new();
    for _ in 0..3000 {
        let long = rng.one_in(4);
        model.insert(some_key(rng, 4096, long), some_value(rng, 4096));
    }
    build(&fixture, tree, &model);
    assert_equals(&fixture, tree, &model);
}

/// Inner pages are filled completely. Otherwise a page with the longest keys would have one child,
/// and there would be levels without end.
#[test]
fn a_bulk_build_with_the_longest_keys_terminates() {
    for page_bytes in [4096, 8192, 16384] {
        let fixture = TestStore::new(page_bytes, 4096);
        let tree = Tree::create(&fixture.store, ID).unwrap();
        // Two keys that differ in the last byte only, then two that differ from them in the first
        // bytes. So separators are long and pages have no prefix.
        let key = |n: u32| {
            let mut key = vec![b'k'; max_key(page_bytes)];
            key[..4].copy_from_slice(&(n / 2).to_be_bytes());
            *key.last_mut().unwrap() = (n % 2) as u8;
            key
        };
        let model: Model = (0..300).map(|n| (key(n), Vec::new())).collect();
        build(&fixture, tree, &model);
        assert_equals(&fixture, tree, &model);
    }
}

/// Frees at most `most` pages of a chain. Returns how many it freed.
fn free_chain(store: &crate::tree_store::Store, head: base::PageNo, owner: Version, most: usize) -> usize {
    let mut pages = chain_to_free(store, head, owner).unwrap();
    let freed = pages.len().min(most);
    free_last(store, &mut pages, most).unwrap();
    freed
}

/// Lets `n` steps pass and fails the next.
fn stop_after(mut n: usize) -> impl FnMut() -> Result {
    move || {
        if n == 0 {
            return Err(Error::Closed);
        }
        n -= 1;
        Ok(())
    }
}

#[test]
fn a_long_value_is_written_read_and_freed() {
    let fixture = TestStore::new(4096, 256);
    let store = &fixture.store;
    let tree = Tree::create(store, ID).unwrap();
    let mut value = vec![0; 50_000];
    Prng::new(1).fill(&mut value);
    let mut heads = Vec::new();
    let mut write = |at: u64, steps: usize| {
        let begin = &mut |_: &mut Mtr<'_>, head| {
            heads.push((head, version(at)));
            version(at)
        };
        write_chain(store, ID, &value, begin, &mut stop_after(steps))
    };
    let chain = write(1, 100).unwrap();
    assert!(write(2, 5).is_err(), "cut off after five pages");
    put(store, tree, b"long", &chain.encode(), OVERFLOW);
    let mut out = b"kept".to_vec();
    read_chain(store, &chain, FetchHint::Normal, &mut out).unwrap();
    assert!(out[..4] == *b"kept" && out[4..] == value);
    let wrong = crate::page::overflow::ChainRef { len: 49_999, ..chain };
    assert!(matches!(read_chain(store, &wrong, FetchHint::Normal, &mut out), Err(Error::Corrupt { .. })));

    assert_eq!(fixture.used_pages().len(), 1 + 13 + 5);
    assert_eq!(tree.check(store).unwrap().pages.len(), 1 + 13);
    // The pages that it names and never used may belong to another owner by now, so they are not
    // fetched.
    let (part, owner) = heads[1];
    let named: Vec<_> = {
        let page = store.pool.fetch(part).unwrap().read();
        crate::page::overflow::Overflow::new(&page).unwrap().following().collect()
    };
    assert_eq!(named.len(), 12);
    assert_eq!(free_chain(store, part, owner, 100), 5);
    assert!(named[4..].iter().all(|page| !store.pool.holds(*page)));
    assert_sound(&fixture, tree);

    // Freeing that is cut off leaves a shorter chain. Freeing again or too often does no harm.
    assert_eq!(free_chain(store, chain.head, chain.owner, 6), 6);
    assert_eq!(fixture.used_pages().len(), 1 + 7);
    assert_ne!(tree.check(store).unwrap().problems, Vec::<String>::new());
    assert!(matches!(read_chain(store, &chain, FetchHint::Normal, &mut out), Err(Error::Corrupt { .. })));
    assert_eq!(free_chain(store, chain.head, version(3), 100), 0);
    assert_eq!(fixture.used_pages().len(), 1 + 7, "another owner's chain stays");
    assert_eq!(free_chain(store, chain.head, chain.owner, 100), 7);
    assert_eq!(free_chain(store, chain.head, chain.owner, 100), 0);
    assert_eq!(fixture.used_pages().len(), 1);
    fixture.assert_redo_gives_the_same_pages();
}

#[test]
fn damage_is_reported() {
    let fixture = TestStore::new(4096, 256);
    let store = &fixture.store;
    let tree = Tree::create(store, ID).unwrap();
    for i in 0..2000u32 {
        put(store, tree, &i.to_be_bytes(), &[1; 60], 0);
    }
    let root = store.pool.fetch(tree.root).unwrap().read();
    let inner = Inner::new(&root);
    let (second, third) = (inner.child(1), inner.child(2));
    drop(root);
    // The content of the third child replaces that of the second.
    let image = store.pool.fetch(third).unwrap().read().to_vec();
    let mut page = store.pool.fetch(second).unwrap().write();
    page.copy_from_slice(&image);
    drop(page);
    let problems = tree.check(store).unwrap().problems;
    assert!(problems.iter().any(|p| p.contains("does not begin where")), "{problems:?}");
    // A page of another tree is an error for every descent that reaches it.
    let other = Tree::create(store, TreeId(4)).unwrap();
    let image = store.pool.fetch(other.root).unwrap().read().to_vec();
    let mut page = store.pool.fetch(second).unwrap().write();
    page.copy_from_slice(&image);
    drop(page);
    let key = (0..2000u32).map(u32::to_be_bytes).find(|key| tree.leaf_read(store, key).is_err());
    assert!(matches!(tree.leaf_read(store, &key.unwrap()), Err(Error::Corrupt { .. })));
    assert_ne!(tree.check(store).unwrap().problems, Vec::<String>::new());
}

/// Threads that write, remove, merge, scan and check at once, in a pool far smaller than the tree.
#[test]
fn many_threads_keep_the_tree_sound() {
    const THREADS: u64 = 4;
    let fixture = Arc::new(TestStore::new(4096, 96));
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (fixture, stop) = (Arc::clone(&fixture), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let rows = forward(&fixture.store, tree);
                assert!(rows.windows(2).all(|w| w[0].0 < w[1].0), "a scan goes back");
                let rows = backward(&fixture.store, tree);
                assert!(rows.windows(2).all(|w| w[0].0 > w[1].0), "a backward scan goes forward");
                assert_eq!(tree.check(&fixture.store).unwrap().problems, Vec::<String>::new());
            }
        })
    };
    let writers: Vec<_> = (0..THREADS)
        .map(|me| {
            let fixture = Arc::clone(&fixture);
            std::thread::spawn(move || {
                let rng = &mut Prng::new(me);
                let mut mine = Model::new();
                for round in 0..6000u64 {
                    let key = (rng.below(1500) * THREADS + me).to_be_bytes().to_vec();
                    // In waves, so that the tree grows and shrinks.
                    let percent = if round / 1500 % 2 == 0 { 85 } else { 10 };
                    if rng.percent(percent) {
                        let value = some_value(rng, 4096);
                        put(&fixture.store, tree, &key, &value, 0);
                        mine.insert(key, value);
                    } else {
                        assert_eq!(remove(&fixture.store, tree, &key), mine.remove(&key).is_some());
                    }
                    let key = (rng.below(1500) * THREADS + me).to_be_bytes();
                    assert_eq!(get(&fixture.store, tree, &key).as_ref(), mine.get(&key[..]));
                }
                mine
            })
        })
        .collect();
    let model: Model = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    stop.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    assert_equals(&fixture, tree, &model);
    assert!(fixture.store.metrics.get(metrics::M::PagesRead) > 100, "the pool was to be too small");
    fixture.assert_redo_gives_the_same_pages();
}
