//! [`Seek`]: where in its level the page lies that a descent looks for.

use crate::page::node::{Inner, Node};
use base::PageNo;
use base::key_order::order;

/// The target of a descent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek<'k> {
    /// The page that covers the key.
    At(&'k [u8]),
    /// The page that holds the greatest keys below the key.
    Before(&'k [u8]),
    /// The last page of the level.
    Last,
}

impl Seek<'_> {
    /// Returns whether the target lies to the right of `node`.
    pub(super) fn is_right_of(self, node: &Node<'_>) -> bool {
        let Some(high) = node.high_fence() else { return false };
        match self {
            Seek::At(key) => order(key, high).is_ge(),
            Seek::Before(key) => order(key, high).is_gt(),
            Seek::Last => true,
        }
    }

    /// Returns the child of `inner` to go to.
    pub(super) fn child(self, inner: &Inner<'_>) -> PageNo {
        inner.child(self.slot(inner))
    }

    /// Returns the slot of that child.
    pub(super) fn slot(self, inner: &Inner<'_>) -> u16 {
        match self {
            Seek::At(key) => inner.find(key),
            Seek::Before(key) => inner.find_before(key),
            Seek::Last => inner.len() - 1,
        }
    }
}
