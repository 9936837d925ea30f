//! Consistent reads of rows by a snapshot.

use super::transaction::Txn;
use super::versions::Versions;
use crate::btree::{Tree, read_chain};
use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::mvcc::{RemainingWalk, SeenVersion, View};
use crate::page::node::{Leaf, OVERFLOW, Row};
use crate::page::overflow::ChainRef;
use crate::tree_store::Store;
use crate::undo::HeldPiece;

/// A row's value as its leaf has it: the bytes, or their address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The whole value.
    Inline(Vec<u8>),
    /// In a chain of overflow pages.
    Chain(ChainRef),
}

/// A row that a scan found.
#[derive(Clone, Debug)]
pub(crate) struct FoundRow {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Value,
    /// It is shown as it was last committed, and is not locked: another transaction has it.
    pub(crate) peeked: bool,
}

/// A transaction that reads by a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) txn: &'a Txn,
    pub(super) view: View<'a>,
}

/// What a reader is shown of a row.
enum Show {
    /// The value, if there is a row.
    Row(Option<Value>),
    /// Not known until more undo has been fetched, without the latch.
    Away(RemainingWalk),
}

/// Returns the address of a long value, which its row holds in place of the bytes.
pub(super) fn chain_of(store: &Store, bytes: &[u8]) -> Result<ChainRef> {
    ChainRef::decode(bytes)
        .map_err(|_| Error::corrupt(store.pages_path(), "a row's long value has no address"))
}

/// Returns the least key that is greater than `key`.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Value {
    /// Makes a value from the bytes that a row has.
    pub(crate) fn of(store: &Store, flags: u8, bytes: &[u8]) -> Result<Value> {
        if flags & OVERFLOW == 0 {
            return Ok(Value::Inline(bytes.to_vec()));
        }
        Ok(Value::Chain(chain_of(store, bytes)?))
    }

    /// Returns the bytes. REQUIRES: no latch held; the version that has this value cannot be purged
    /// meanwhile.
    pub(crate) fn load(self, store: &Store, hint: FetchHint) -> Result<Vec<u8>> {
        match self {
            Value::Inline(bytes) => Ok(bytes),
            Value::Chain(chain) => {
                let mut bytes = Vec::with_capacity(chain.len as usize);
                read_chain(store, &chain, hint, &mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Reader<'_> {
    /// Returns the value that `view` shows for `key`. REQUIRES: no latch held; the view's snapshot
    /// is registered and stays so until the value is loaded.
    pub(crate) fn read_row(&self, tree: Tree, key: &[u8]) -> Result<Option<Value>> {
        let page = tree.leaf_read(self.store, key)?;
        let leaf = Leaf::new(&page);
        let Ok(slot) = leaf.search(key) else { return Ok(None) };
        let mut older = Vec::new();
        match self.show(tree, leaf.row(slot), &mut older)? {
            Show::Row(value) => Ok(value),
            Show::Away(rest) => {
                drop(page);
                self.show_rest(tree, rest, &mut older)
            }
        }
    }

    /// Returns what the reader is shown of a row. REQUIRES: the row's leaf is latched.
    fn show(&self, tree: Tree, row: Row<'_>, older: &mut Vec<u8>) -> Result<Show> {
        let Reader { store, versions, txn, view } = *self;
        let seen = view.see(row, older, HeldPiece::NONE).map_err(|damage| versions.damage(tree, damage))?;
        let value = match seen {
            SeenVersion::Deleted(commit) | SeenVersion::Absent(commit) => {
                txn.note_seen(commit);
                None
            }
            SeenVersion::Newest(commit) => {
                txn.note_seen(commit);
                Some(Value::of(store, row.flags, row.value)?)
            }
            SeenVersion::Older { flags, commit } => {
                txn.note_seen(commit);
                Some(Value::of(store, flags, older)?)
            }
            SeenVersion::Away(rest) => return Ok(Show::Away(rest)),
        };
        Ok(Show::Row(value))
    }

    /// Goes on where [`View::see`] had to stop. Returns the flags of the visible version, and
    /// leaves its value in `older`; none if there is no such version. `held` keeps the undo that
    /// was fetched last. REQUIRES: no latch held.
    pub(super) fn see_rest(
        &self,
        tree: Tree,
        rest: RemainingWalk,
        older: &mut Vec<u8>,
        held: &mut HeldPiece,
    ) -> Result<Option<u8>> {
        let Reader { versions, txn, view, .. } = *self;
        let mut rest = rest;
        loop {
            versions.fetch(&rest.piece, held)?;
            match view.walk(rest.at, older, held).map_err(|damage| versions.damage(tree, damage))? {
                SeenVersion::Away(more) => rest = more,
                SeenVersion::Newest(_) | SeenVersion::Deleted(_) => {
                    unreachable!("the walk has left the newest version")
                }
                SeenVersion::Absent(commit) => {
                    txn.note_seen(commit);
                    return Ok(None);
                }
                SeenVersion::Older { flags, commit } => {
                    txn.note_seen(commit);
                    return Ok(Some(flags));
                }
            }
        }
    }

    fn show_rest(&self, tree: Tree, rest: RemainingWalk, older: &mut Vec<u8>) -> Result<Option<Value>> {
        let flags = self.see_rest(tree, rest, older, &mut HeldPiece::default())?;
        flags.map(|flags| Value::of(self.store, flags, older)).transpose()
    }
}
