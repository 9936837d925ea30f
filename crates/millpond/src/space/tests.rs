//! The space map in memory, against a model of the map pages.

use super::*;
use base::prng::Prng;
use state::Picked;

fn state(groups: u32, group_extents: u32) -> SpaceState {
    let mut state = SpaceState::new(group_extents, 0);
    state.extents.describe(groups);
    (0..groups * group_extents)
        .filter(|extent| extent % group_extents != 0)
        .for_each(|extent| state.extents.set_free(extent));
    state
}

/// A split may find that it needs no page after all. The extent that it had picked stays the tree's
/// as long as the tree exists.
#[test]
fn an_extent_of_which_a_tree_took_no_page_is_free_when_the_tree_goes() {
    let (tree, other) = (TreeId(7), TreeId(8));
    let mut state = state(1, 64);
    let all = state.free_pages();
    let extent = state.pick_extent(tree).unwrap();
    assert_eq!((extent, state.room.reserve(tree, extent, 0, 1)), (1, 1));
    state.give_back(tree, PageNo(16));
    let kept = state.pick_extent(other).unwrap();
    assert_eq!((kept, state.room.reserve(other, kept, 0, 1)), (2, 1));
    assert_eq!(state.free_pages(), all - 1);
    state.forget(tree);
    assert!(state.extents.is_free(1) && !state.extents.is_free(2));
    assert_eq!(state.pick_extent(other), Some(2));
    assert_eq!(state.free_pages(), all - 1);
}

/// A small tree takes pages of shared extents, and a larger one extents of its own. A tree with
/// free pages in its own extents takes no others.
#[test]
fn a_tree_takes_an_extent_when_it_has_many_shared_pages() {
    let (tree, other) = (TreeId(7), TreeId(8));
    let mut state = SpaceState::new(64, 0);
    state.extents.describe(1);
    state.extents.set_free(4);
    assert_eq!(state.pick(tree), Picked::NoSharedPage);
    state.shared.add(2, [TreeId::NONE; 16]);
    assert_eq!(state.pick(other), Picked::Page(PageNo(32)));
    (33..48).for_each(|page| assert_eq!(state.pick(tree), Picked::Page(PageNo(page))));
    assert_eq!(state.pick(tree), Picked::NoSharedPage);
    state.shared.add(3, [TreeId::NONE; 16]);
    assert_eq!(state.pick(tree), Picked::Page(PageNo(48)));
    for bit in 0..16 {
        assert_eq!((state.pick(tree), state.room.reserve(tree, 4, 0, 1)), (Picked::Extent(4), 1 << bit));
    }
    assert_eq!((state.pick(tree), state.pick(other)), (Picked::NoExtent, Picked::Page(PageNo(49))));
    // It has free pages of its own and takes these, though it has fewer shared pages by now.
    [33, 48, 70].into_iter().for_each(|page| state.give_back(tree, PageNo(page)));
    assert_eq!((state.pick(tree), state.room.reserve(tree, 4, 0, 16)), (Picked::Extent(4), 1 << 6));
    assert_eq!(state.pick(tree), Picked::Page(PageNo(33)));
}

/// What the map pages say, and which pages are reserved.
struct Model {
    state: SpaceState,
    map: Vec<(TreeId, u16)>,
    group_extents: u32,
    reserved: Vec<(TreeId, PageNo)>,
    used: Vec<(TreeId, PageNo)>,
}

impl Model {
    fn step(&mut self, rng: &mut Prng) {
        let tree = TreeId(1 + rng.below(5) as u32 * 40);
        match rng.below(40) {
            0..16 => self.pick(tree, 1 + rng.below(16) as usize),
            16..28 if !self.reserved.is_empty() => {
                let (tree, page) = self.reserved.swap_remove(rng.below(self.reserved.len() as u64) as usize);
                if self.owner(page) != SHARED {
                    let used = self.map[(page.0 / EXTENT_PAGES) as usize].1;
                    self.map[(page.0 / EXTENT_PAGES) as usize] = (tree, used | 1 << (page.0 % EXTENT_PAGES));
                    self.state.room.taken(page);
                }
                self.used.push((tree, page));
            }
            28..32 if !self.reserved.is_empty() => {
                let (tree, page) = self.reserved.swap_remove(rng.below(self.reserved.len() as u64) as usize);
                self.state.give_back(tree, page);
            }
            32..39 if !self.used.is_empty() => {
                let (tree, page) = self.used.swap_remove(rng.below(self.used.len() as u64) as usize);
                if self.owner(page) != SHARED {
                    self.map[(page.0 / EXTENT_PAGES) as usize].1 &= !(1 << (page.0 % EXTENT_PAGES));
                }
                self.state.freed(tree, page);
            }
            39 if rng.below(20) == 0 => self.drop_tree(tree),
            _ => {}
        }
    }

    fn owner(&self, page: PageNo) -> TreeId {
        self.map[(page.0 / EXTENT_PAGES) as usize].0
    }

    fn pick(&mut self, tree: TreeId, most: usize) {
        match self.state.pick(tree) {
            Picked::Page(page) => {
                assert_eq!(self.owner(page), SHARED);
                self.reserve_pages(tree, page);
            }
            Picked::Extent(extent) => {
                let (owner, used) = self.map[extent as usize];
                assert!(owner == tree || (owner, used) == (TreeId::NONE, 0), "{extent}: {owner:?}");
                let picked = self.state.room.reserve(tree, extent, used, most);
                assert_eq!(picked & used, 0);
                for bit in (0..EXTENT_PAGES).filter(|bit| picked & 1 << bit != 0) {
                    self.reserve_pages(tree, PageNo(extent * EXTENT_PAGES + bit));
                }
            }
            Picked::NoSharedPage => {
                let Some(extent) = self.state.extents.take_free() else { return };
                self.map[extent as usize] = (SHARED, 0);
                self.state.shared.add(extent, [TreeId::NONE; 16]);
            }
            Picked::NoExtent => self.unshare(),
        }
    }

    fn reserve_pages(&mut self, tree: TreeId, page: PageNo) {
        let others = self.reserved.iter().chain(&self.used);
        assert!(others.into_iter().all(|(_, other)| *other != page), "{page:?} is reserved twice");
        self.reserved.push((tree, page));
    }

    fn unshare(&mut self) {
        while let Some(extent) = self.state.shared.empty() {
            assert!(self.state.shared.take_if_empty(extent));
            self.map[extent as usize] = (TreeId::NONE, 0);
            self.state.extents.set_free(extent);
        }
    }

    fn drop_tree(&mut self, tree: TreeId) {
        for (_, page) in self.reserved.extract_if(.., |(owner, _)| *owner == tree) {
            self.state.give_back(tree, page);
        }
        for (_, page) in self.used.extract_if(.., |(owner, _)| *owner == tree) {
            if self.map[(page.0 / EXTENT_PAGES) as usize].0 == SHARED {
                self.state.freed(tree, page);
            }
        }
        for (extent, (owner, used)) in self.map.iter_mut().enumerate() {
            if *owner == tree {
                assert!(self.state.extents.may_own(tree, extent as u32 / self.group_extents));
                self.state.released(tree, extent as u32, *used);
                (*owner, *used) = (TreeId::NONE, 0);
            }
        }
        self.state.forget(tree);
        self.unshare();
    }
}

#[test]
fn no_page_is_given_out_twice_and_none_is_lost() {
    for (seed, group_extents) in [(1, 256), (2, 512), (3, 1024)] {
        let mut rng = Prng::new(seed);
        let groups = 3;
        let state = state(groups, group_extents);
        let all = state.free_pages();
        let map = vec![(TreeId::NONE, 0); (groups * group_extents) as usize];
        let mut model = Model { state, map, group_extents, reserved: Vec::new(), used: Vec::new() };
        for _ in 0..40_000 {
            model.step(&mut rng);
            let held = (model.reserved.len() + model.used.len()) as u64;
            assert_eq!(model.state.free_pages(), all - held);
        }
        assert!(model.used.len() > 200, "{}", model.used.len());
        // The last tree can get every page that is not in another tree's extent.
        (0..5).for_each(|n| model.drop_tree(TreeId(1 + n * 40)));
        let (tree, mut got) = (TreeId(9), 0);
        while let Some(extent) = model.state.pick_extent(tree) {
            got += u64::from(model.state.room.reserve(tree, extent, 0, 16).count_ones());
        }
        assert_eq!((got, model.state.free_pages()), (all, 0));
    }
}

/// `docs/limits.md` says how much memory the map of a gibibyte takes.
#[test]
fn the_map_of_a_gibibyte_takes_as_much_memory_as_limits_md_says() {
    for (page_bytes, most) in [(4096, 3 << 10), (8192, 1280), (16384, 576)] {
        let group_extents = extents_per_map(page_bytes);
        let groups = (64u64 << 30) / (u64::from(group_extents) * u64::from(EXTENT_PAGES) * page_bytes as u64);
        let full = state(groups as u32, group_extents);
        assert_eq!(full.bytes() / 64, most, "{page_bytes}");
    }
    // A thousand trees with free pages in each of eight groups.
    let mut state = state(8, 1024);
    let fixed = state.bytes();
    let mut owned = Vec::new();
    for n in 0.. {
        let tree = TreeId(1 + n % 1000);
        let Some(extent) = state.pick_extent(tree) else { break };
        assert_eq!(state.room.reserve(tree, extent, 0, 16), u16::MAX);
        owned.push((tree, extent));
    }
    for &(tree, extent) in &owned {
        (0..16).for_each(|bit| state.give_back(tree, PageNo(extent * EXTENT_PAGES + bit)));
    }
    let room = state.bytes() - fixed;
    assert!((1000 * 8 * 24..=1000 * 8 * 64).contains(&room), "{room}");
}
