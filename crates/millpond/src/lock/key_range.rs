//! [`KeyRange`]: adjacent keys of a tree.

use base::TreeId;

/// Adjacent keys of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    pub(crate) tree: TreeId,
    pub(crate) from: &'a [u8],
    /// The first key beyond. None: the tree's end.
    pub(crate) to: Option<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    pub(crate) fn new(tree: TreeId, from: &'a [u8], to: Option<&'a [u8]>) -> KeyRange<'a> {
        KeyRange { tree, from, to }
    }

    /// Whether no key lies in it.
    pub(super) fn is_empty(self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }
}
