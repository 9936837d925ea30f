//! The free extents in memory.

use super::*;

/// A split may find that it needs no page after all. What it had set aside is the tree's for as long as that lives.
#[test]
fn an_extent_of_which_a_tree_took_no_page_is_free_when_the_tree_goes() {
    let (tree, other) = (TreeId(7), TreeId(8));
    let mut state = State { free: BTreeSet::from([3, 4, 5]), ..State::default() };
    let page = state.pick(tree).unwrap();
    state.give_back(tree, page);
    let kept = state.pick(other).unwrap();
    assert_eq!((page, kept), (PageNo(48), PageNo(64)));
    state.forget(tree);
    assert_eq!(state.free, BTreeSet::from([3, 5]));
    assert!(state.room.keys().all(|(owner, _)| *owner == other));
}
