//! Reading rows as one moment shows them.

use super::system::{Txn, Txns};
use crate::btree::{Tree, read_chain};
use crate::error::{Error, Result};
use crate::mvcc::{Rest, Seen, View};
use crate::page::Damage;
use crate::page::node::{Leaf, OVERFLOW, Row};
use crate::page::overflow::ChainRef;
use crate::store::Store;
use crate::undo::Held;
use base::Lsn;

/// A row's value as its leaf has it: the bytes, or where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// All of it.
    Inline(Vec<u8>),
    /// In a chain of overflow pages.
    Chain(ChainRef),
}

/// A row that a scan found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Value,
}

/// What a reader is shown of a row.
enum Show {
    /// The value, if there is a row.
    Row(Option<Value>),
    /// Not known before more undo has been fetched, without the latch.
    Away(Rest),
}

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At this key: the first one (forward) or the end (backward, exclusive) of what is left.
    At(Vec<u8>),
    /// Nowhere: the tree has no more.
    End,
}

/// The least key that is greater than `key`.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Value {
    /// A value from the bytes that a row has.
    pub(crate) fn of(store: &Store, flags: u8, bytes: &[u8]) -> Result<Value> {
        if flags & OVERFLOW == 0 {
            return Ok(Value::Inline(bytes.to_vec()));
        }
        let chain = ChainRef::decode(bytes);
        let chain =
            chain.map_err(|_| Error::corrupt(store.pages_path(), "a row's long value has no address"))?;
        Ok(Value::Chain(chain))
    }

    /// The bytes. REQUIRES: no latch held; the version that has this value cannot be purged meanwhile.
    pub(crate) fn load(self, store: &Store) -> Result<Vec<u8>> {
        match self {
            Value::Inline(bytes) => Ok(bytes),
            Value::Chain(chain) => {
                let mut bytes = Vec::with_capacity(chain.len as usize);
                read_chain(store, &chain, &mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Txns {
    pub(super) fn damage(&self, tree: Tree, damage: Damage) -> Error {
        Error::corrupt(self.store.pages_path(), format!("{:?}: {damage}", tree.id))
    }

    pub(super) fn undo_damage(&self, damage: Damage) -> Error {
        Error::corrupt(self.store.pages_path(), damage.to_string())
    }

    /// The value that `view` shows for `key`. REQUIRES: no latch held; the view's snapshot is registered and stays so
    /// until the value is loaded.
    pub(crate) fn read_row(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        key: &[u8],
    ) -> Result<Option<Value>> {
        let page = tree.leaf_read(&self.store, key)?;
        let leaf = Leaf::new(&page);
        let Ok(slot) = leaf.search(key) else { return Ok(None) };
        let mut older = Vec::new();
        match self.show(txn, view, tree, leaf.row(slot), &mut older)? {
            Show::Row(value) => Ok(value),
            Show::Away(rest) => {
                drop(page);
                self.show_rest(txn, view, tree, rest, &mut older)
            }
        }
    }

    /// What `view` shows of a row. REQUIRES: the row's leaf is latched.
    fn show(&self, txn: &Txn, view: View<'_>, tree: Tree, row: Row<'_>, older: &mut Vec<u8>) -> Result<Show> {
        let value = match view.see(row, older).map_err(|damage| self.damage(tree, damage))? {
            Seen::Absent(commit) => {
                txn.note_seen(commit);
                None
            }
            Seen::Newest(commit) => {
                txn.note_seen(commit);
                Some(Value::of(&self.store, row.flags, row.value)?)
            }
            Seen::Older { flags, commit } => {
                txn.note_seen(commit);
                Some(Value::of(&self.store, flags, older)?)
            }
            Seen::Away(rest) => return Ok(Show::Away(rest)),
        };
        Ok(Show::Row(value))
    }

    /// Goes on where [`View::see`] had to stop. The flags of the version that is seen, whose value is left in `older`; `None` if there
    /// is none. REQUIRES: no latch held.
    pub(super) fn see_rest(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        rest: Rest,
        older: &mut Vec<u8>,
    ) -> Result<Option<u8>> {
        let mut rest = rest;
        let mut held = Held::default();
        loop {
            self.fetched.fetch(&rest.piece, &mut held)?;
            match view.walk(rest.at, older, &held).map_err(|damage| self.damage(tree, damage))? {
                Seen::Away(more) => rest = more,
                Seen::Newest(_) => unreachable!("the walk has left the newest version"),
                Seen::Absent(commit) => {
                    txn.note_seen(commit);
                    return Ok(None);
                }
                Seen::Older { flags, commit } => {
                    txn.note_seen(commit);
                    return Ok(Some(flags));
                }
            }
        }
    }

    fn show_rest(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        rest: Rest,
        older: &mut Vec<u8>,
    ) -> Result<Option<Value>> {
        let flags = self.see_rest(txn, view, tree, rest, older)?;
        flags.map(|flags| Value::of(&self.store, flags, older)).transpose()
    }

    /// Adds to `out` the rows that `view` shows from `from` on, in key order, up to the end of a leaf and below `to`.
    /// Requirements as for [`Txns::read_row`].
    pub(crate) fn scan_forward(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let page = tree.leaf_read(&self.store, from)?;
        let leaf = Leaf::new(&page);
        let (Ok(first) | Err(first)) = leaf.search(from);
        let mut older = Vec::new();
        for slot in first..leaf.len() {
            let key = leaf.key(slot);
            if to.is_some_and(|to| key.cmp(to).is_ge()) {
                return Ok(Next::End);
            }
            match self.show(txn, view, tree, leaf.row(slot), &mut older)? {
                Show::Row(None) => {}
                Show::Row(Some(value)) => out.push(Found { key: key.to_vec(), value }),
                Show::Away(rest) => {
                    let key = key.to_vec();
                    let next = after(&key);
                    drop(page);
                    let value = self.show_rest(txn, view, tree, rest, &mut older)?;
                    out.extend(value.map(|value| Found { key, value }));
                    return Ok(Next::At(next));
                }
            }
        }
        Ok(match leaf.high_fence() {
            Some(high) if to.is_none_or(|to| high < to) => Next::At(high.to_vec()),
            _ => Next::End,
        })
    }

    /// Adds to `out` the rows that `view` shows below `to`, in falling key order, down to the beginning of a leaf and to
    /// `from`. `to` none: from the tree's end. Requirements as for [`Txns::read_row`].
    pub(crate) fn scan_backward(
        &self,
        txn: &Txn,
        view: View<'_>,
        tree: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let (page, count) = match to {
            None => {
                let page = tree.leaf_read_last(&self.store)?;
                let count = Leaf::new(&page).len();
                (page, count)
            }
            Some(to) => match tree.leaf_read_before(&self.store, to)? {
                Some(found) => found,
                None => return Ok(Next::End),
            },
        };
        let leaf = Leaf::new(&page);
        let mut older = Vec::new();
        for slot in (0..count).rev() {
            let key = leaf.key(slot);
            if key.cmp(from).is_lt() {
                return Ok(Next::End);
            }
            match self.show(txn, view, tree, leaf.row(slot), &mut older)? {
                Show::Row(None) => {}
                Show::Row(Some(value)) => out.push(Found { key: key.to_vec(), value }),
                Show::Away(rest) => {
                    let key = key.to_vec();
                    drop(page);
                    let value = self.show_rest(txn, view, tree, rest, &mut older)?;
                    out.extend(value.map(|value| Found { key: key.clone(), value }));
                    return Ok(Next::At(key));
                }
            }
        }
        let low = leaf.low_fence();
        Ok(if low.is_empty() || low <= from { Next::End } else { Next::At(low.to_vec()) })
    }

    /// Waits until what the transaction was shown is durable (Co10). Nothing to do for one whose own commit lies above.
    pub(crate) fn wait_seen_durable(&self, txn: &Txn) -> Result {
        let seen = txn.seen.get();
        if seen > Lsn::ZERO {
            self.store.log.flush_to(seen, metrics::SyncReason::Commit)?;
        }
        Ok(())
    }
}
