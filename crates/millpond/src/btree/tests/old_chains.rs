//! Chains of replaced values are freed through the space map alone, in steps that a crash may cut
//! off.

use super::fixture::TestStore;
use super::{ID, version};
use crate::btree::{OldChain, Tree, read_chain, write_chain};
use crate::buffer::{FetchHint, PageImages};
use crate::page::map::EXTENT_PAGES;
use crate::page::overflow::ChainRef;
use base::prng::Prng;
use std::sync::Arc;

struct Chains {
    fixture: TestStore,
    written: u64,
}

impl Chains {
    fn new(frames: usize) -> Chains {
        let fixture = TestStore::new(4096, frames);
        Tree::create(&fixture.store, ID).unwrap();
        Chains { fixture, written: 0 }
    }

    fn value(seed: u64, bytes: usize) -> Vec<u8> {
        let mut value = vec![0; bytes];
        Prng::new(seed).fill(&mut value);
        value
    }

    /// Writes a chain whose value follows from its owner.
    fn write(&mut self, bytes: usize) -> ChainRef {
        self.written += 1;
        let n = self.written;
        let value = Self::value(n, bytes);
        write_chain(&self.fixture.store, ID, &value, &mut |_, _| version(n), &mut || Ok(())).unwrap()
    }

    fn find(&self, chain: &ChainRef) -> OldChain {
        OldChain::find(&self.fixture.store, ID, chain, &PageImages::default()).unwrap()
    }

    fn assert_whole(&self, chain: &ChainRef) {
        let mut found = Vec::new();
        read_chain(&self.fixture.store, chain, FetchHint::Normal, &mut found).unwrap();
        assert!(found == Self::value(chain.owner.undo_at, chain.len as usize));
    }

    fn used(&self) -> usize {
        self.fixture.used_pages().len()
    }
}

/// A tree's first 16 pages are single ones, described by a page of owners; the others are in
/// extents, described by a map page. In so small a pool a step changes one of these, so this chain
/// is freed in two.
#[test]
fn what_is_freed_in_steps_is_found_again_without_the_freed_pages() {
    let mut chains = Chains::new(48);
    let (first, second) = (chains.write(11 * 4000), chains.write(30 * 4000));
    let whole = chains.used();
    let store = &chains.fixture.store;
    chains.find(&second).free_last(store).unwrap();
    let left = chains.used();
    assert!(left < whole && left > whole - 30, "{whole} pages, then {left}");

    // Another value gets the freed pages before purge goes on.
    let third = chains.write(28 * 4000);
    let mut rest = chains.find(&second);
    let store = &chains.fixture.store;
    while !rest.is_empty() {
        rest.free_last(store).unwrap();
    }
    chains.assert_whole(&first);
    chains.assert_whole(&third);
    assert!(chains.find(&second).is_empty());
    let fourth = chains.write(20_000);
    assert!(chains.find(&second).is_empty(), "its head has another owner now");
    for chain in [first, third, fourth] {
        let mut rest = chains.find(&chain);
        while !rest.is_empty() {
            rest.free_last(&chains.fixture.store).unwrap();
        }
    }
    assert_eq!(chains.used(), 1, "only the root is left");
    chains.fixture.assert_redo_gives_the_same_pages();
}

#[test]
fn a_long_chain_is_freed_with_few_reads_and_few_changed_pages() {
    let mut chains = Chains::new(512);
    chains.write(16 * 4000);
    let long = chains.write(1500 * 4000);
    let store = &chains.fixture.store;
    let read = || store.metrics.get(metrics::M::PagesRead);
    let (before, mut rest, mut steps) = (read(), chains.find(&long), 0);
    while !rest.is_empty() {
        rest.free_last(store).unwrap();
        steps += 1;
    }
    let read = read() - before;
    assert!(steps == 2 && read <= 30, "{steps} steps, {read} pages read");
    assert_eq!(chains.used(), 1 + 16);
    chains.fixture.assert_redo_gives_the_same_pages();
}

/// In a large file that is nearly full the pages of a value are far apart. A step that freed them
/// latched more pages of the map than a mini-transaction was said to latch, and purge stopped the
/// database where that is checked.
#[test]
fn a_chain_that_ten_pages_of_the_map_describe_is_freed_in_four_steps() {
    const MAPS: u32 = 10;
    const EXTENTS_PER_MAP: u32 = 256;
    const EXTENTS_LEFT: u32 = 2;
    let mut chains = Chains::new(512);
    chains.write(16 * 4000);
    let filled = Arc::clone(&chains.fixture.store);
    let (mut held, mut left) = (Vec::new(), Vec::new());
    while left.len() < (MAPS * EXTENTS_LEFT) as usize {
        let extent = filled.space.reserve_extent(ID).unwrap();
        let in_map = extent.pages()[0].0 / EXTENT_PAGES % EXTENTS_PER_MAP;
        if (100..100 + EXTENTS_LEFT).contains(&in_map) { left.push(extent) } else { held.push(extent) }
    }
    drop(left);
    let far_apart = chains.write((MAPS * EXTENTS_LEFT * EXTENT_PAGES - 8) as usize * 4000);
    let store = &chains.fixture.store;
    let (mut rest, mut steps) = (chains.find(&far_apart), 0);
    while !rest.is_empty() {
        rest.free_last(store).unwrap();
        steps += 1;
    }
    assert_eq!(steps, 4);
    drop(held);
    assert_eq!(chains.used(), 1 + 16);
    chains.fixture.assert_redo_gives_the_same_pages();
}

#[test]
fn a_chain_that_names_pages_of_others_is_refused() {
    let mut chains = Chains::new(512);
    chains.write(16 * 4000);
    let chain = chains.write(20 * 4000);
    let store = &chains.fixture.store;
    let mut early = chains.find(&chain);
    let mut rest = chains.find(&chain);
    while !rest.is_empty() {
        rest.free_last(store).unwrap();
    }
    // The pages are free: as if the map were damaged.
    let refused = early.free_last(store).unwrap_err().to_string();
    assert!(refused.contains("its table has no such page"), "{refused}");
    let longer = ChainRef { len: 1, ..chains.write(20 * 4000) };
    let refused =
        OldChain::find(&chains.fixture.store, ID, &longer, &PageImages::default()).unwrap_err().to_string();
    assert!(refused.contains("more pages than its length says"), "{refused}");
}
