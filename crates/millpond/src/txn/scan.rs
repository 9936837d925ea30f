//! Scanning forward into memory that is used again: the rows' bytes one after the other, nothing allocated for a row.

use super::read::{Next, after};
use super::system::{Txn, Txns};
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::mvcc::{Seen, View};
use crate::page::node::{Key, Leaf, OVERFLOW};
use crate::page::overflow::ChainRef;

/// Rows that a scan found, in key order.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where a row stands in the bytes: its key, then its value. It begins where the row before it ends.
#[derive(Clone, Copy, Debug)]
struct Place {
    value: usize,
    end: usize,
    /// The value is the address of the real one.
    chain: bool,
}

/// A row's value as its leaf had it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'r> {
    /// All of it.
    Inline(&'r [u8]),
    /// In a chain of overflow pages.
    Chain(ChainRef),
}

impl Rows {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    #[inline]
    fn push(&mut self, key: Key<'_>, flags: u8, bytes: &[u8]) {
        key.append_to(&mut self.bytes);
        self.push_value(flags, bytes);
    }

    fn push_key(&mut self, key: &[u8], flags: u8, bytes: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.push_value(flags, bytes);
    }

    #[inline]
    fn push_value(&mut self, flags: u8, bytes: &[u8]) {
        let value = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.places.push(Place { value, end: self.bytes.len(), chain: flags & OVERFLOW != 0 });
    }

    /// Keys and values in order. Fails at a row whose long value has no address.
    pub(crate) fn iter<'r>(
        &'r self,
        txns: &'r Txns,
    ) -> impl Iterator<Item = Result<(&'r [u8], Shown<'r>)>> + 'r {
        let mut start = 0;
        self.places.iter().map(move |place| {
            let (key, value) = (&self.bytes[start..place.value], &self.bytes[place.value..place.end]);
            start = place.end;
            if !place.chain {
                return Ok((key, Shown::Inline(value)));
            }
            let chain = ChainRef::decode(value);
            let chain = chain
                .map_err(|_| Error::corrupt(txns.store.pages_path(), "a row's long value has no address"))?;
            Ok((key, Shown::Chain(chain)))
        })
    }
}

impl Txns {
    /// Puts into `out` the rows that `view` shows from `from` on and below `to`, in key order: those of one leaf, and of
    /// the leaves after it until there are `enough`. REQUIRES: no latch held; the view's snapshot is registered and stays
    /// so until long values are loaded.
    pub(crate) fn scan_rows(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        enough: usize,
        out: &mut Rows,
    ) -> Result<Next> {
        out.clear();
        let mut older = Vec::new();
        let mut page = tree.leaf_read(&self.store, from)?;
        let (Ok(mut first) | Err(mut first)) = Leaf::new(&page).search(from);
        'leaf: loop {
            let leaf = Leaf::new(&page);
            let high = leaf.high_fence();
            // Where the whole leaf lies below the end no key needs to be compared.
            let last = to.filter(|to| high.is_none_or(|high| high > *to));
            let slots = first..leaf.len();
            for slot in slots {
                let key = leaf.key(slot);
                if last.is_some_and(|to| key.cmp(to).is_ge()) {
                    return Ok(Next::End);
                }
                let row = leaf.row(slot);
                let seen = view.see(row, &mut older).map_err(|damage| self.damage(tree, damage))?;
                match seen {
                    Seen::Absent(commit) => txn.note_seen(commit),
                    Seen::Newest(commit) => {
                        txn.note_seen(commit);
                        out.push(key, row.flags, row.value);
                    }
                    Seen::Older { flags, commit } => {
                        txn.note_seen(commit);
                        out.push(key, flags, &older);
                    }
                    Seen::Away(rest) => {
                        let key = key.to_vec();
                        drop(page);
                        if let Some(flags) = self.see_rest(txn, view, tree, rest, &mut older)? {
                            out.push_key(&key, flags, &older);
                        }
                        let next = after(&key);
                        if out.len() >= enough {
                            return Ok(Next::At(next));
                        }
                        page = tree.leaf_read(&self.store, &next)?;
                        first = Leaf::new(&page).search(&next).unwrap_or_else(|slot| slot);
                        continue 'leaf;
                    }
                }
            }
            let Some(high) = high.filter(|high| to.is_none_or(|to| *high < to)) else {
                return Ok(Next::End);
            };
            if out.len() >= enough {
                return Ok(Next::At(high.to_vec()));
            }
            match tree.leaf_next(&self.store, page)? {
                Some(next) => (page, first) = next,
                None => return Ok(Next::End),
            }
        }
    }
}
