//! The free extents in memory.

use super::*;

/// A split may find that it needs no page after all. What it had set aside is the tree's for as long as that lives.
#[test]
fn an_extent_of_which_a_tree_took_no_page_is_free_when_the_tree_goes() {
    let (tree, other) = (TreeId(7), TreeId(8));
    let mut state = State { free: BTreeSet::from([3, 4, 5]), ..State::default() };
    let (extent, _) = state.pick_extent(tree).unwrap();
    state.give_back(tree, PageNo(16 * extent));
    let (kept, bits) = state.pick_extent(other).unwrap();
    assert_eq!((extent, kept, bits), (3, 4, u16::MAX));
    state.give_back(other, PageNo(16 * kept));
    state.forget(tree);
    assert_eq!(state.free, BTreeSet::from([3, 5]));
    assert!(state.room.keys().all(|(owner, _)| *owner == other));
}

/// A small tree takes pages of shared extents, a larger one extents of its own, and one that has room there no other.
#[test]
fn a_tree_takes_an_extent_when_it_has_many_shared_pages() {
    let (tree, other) = (TreeId(7), TreeId(8));
    let mut state = State { free: BTreeSet::from([4]), ..State::default() };
    assert_eq!(state.pick(tree), Picked::NoShared);
    state.shared.add(2, [TreeId::NONE; 16]);
    assert_eq!(state.pick(other), Picked::Page(PageNo(32)));
    (33..48).for_each(|page| assert_eq!(state.pick(tree), Picked::Page(PageNo(page))));
    assert_eq!(state.pick(tree), Picked::NoShared);
    state.shared.add(3, [TreeId::NONE; 16]);
    assert_eq!(state.pick(tree), Picked::Page(PageNo(48)));
    (64..80).for_each(|page| assert_eq!(state.pick(tree), Picked::Page(PageNo(page))));
    assert_eq!((state.pick(tree), state.pick(other)), (Picked::NoExtent, Picked::Page(PageNo(49))));
    // It has room of its own and takes that, though it has fewer shared pages by now.
    [33, 48].into_iter().for_each(|page| state.give_back(tree, PageNo(page)));
    state.give_back(tree, PageNo(70));
    assert_eq!(state.pick(tree), Picked::Page(PageNo(70)));
    assert_eq!(state.pick(tree), Picked::Page(PageNo(33)));
}
