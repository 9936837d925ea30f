//! Changing a row: locks, then undo, then the page with its redo, all under one latch of its leaf.

use super::admission::WriteAdmission;
use super::lock::{Locked, conflict_of};
use super::system::{Rules, Txn, Txns};
use crate::btree::{Tree, row_bytes, write_chain};
use crate::error::{Error, Result};
use crate::lock::Mode;
use crate::mtr::Mtr;
use crate::page::node::{DELETED, FRESH, Leaf, OVERFLOW, Version};
use crate::page::op::{PageOp, RowChange, RowOp, common_ends};
use crate::page::{inline_limit, max_key};
use crate::planted::{Bug, planted};
use crate::undo::{Entry, Held};

/// What a row is to become.
#[derive(Clone, Copy, Debug)]
pub(crate) enum New<'a> {
    /// A row with this value, where none is.
    Insert(&'a [u8]),
    /// A row with this value, whether or not one is there.
    Put(&'a [u8]),
    /// No row.
    Delete,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// It was made; told is whether there was a row before.
    Done {
        /// Whether there was a row before.
        replaced: bool,
    },
    /// An insert met a row, or a delete met none: nothing was changed.
    Nothing,
}

/// Fails for a value that is longer than its length can say.
pub(super) fn refuse_long(len: usize) -> Result {
    match u32::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Misuse(format!("a value of {len} bytes: 4 GiB - 1 is the most"))),
    }
}

/// The bytes and flags that the leaf gets.
#[derive(Clone, Copy, Debug)]
struct Image<'a> {
    flags: u8,
    bytes: &'a [u8],
}

impl Txns {
    /// Changes the row of `key`. REQUIRES: no latch held, the tree is shared by the transaction, and `admission` has let it in.
    pub(crate) fn write_row(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        new: New<'_>,
        rules: Rules,
        admission: &mut dyn WriteAdmission,
    ) -> Result<Wrote> {
        let page_bytes = self.store.pool.page_bytes();
        let max = max_key(page_bytes);
        if key.len() > max {
            return Err(Error::KeyTooLong { len: key.len(), max });
        }
        let value = match new {
            New::Insert(value) | New::Put(value) => value,
            New::Delete => return self.write_image(txn, tree, key, new, None, rules, admission),
        };
        if value.len() <= inline_limit(page_bytes) {
            let image = Image { flags: 0, bytes: value };
            return self.write_image(txn, tree, key, new, Some(image), rules, admission);
        }
        refuse_long(value.len())?;
        // The chain is written before the row that links it, so the row is locked first: a conflict then costs nothing.
        admission.leave();
        let locked = self.lock_row(txn, tree, key, Mode::Exclusive, rules)?;
        admission.enter_again()?;
        if matches!((new, locked), (New::Insert(_), Locked::Present(_))) {
            return Ok(Wrote::Nothing);
        }
        let stream = self.stream_of(txn);
        let mut begin = |_: &mut Mtr<'_>, head| {
            let undo_at = stream.append(Entry::Chain { tree: tree.id, head });
            Version { txn: stream.owner(), undo_at }
        };
        let mark = stream.mark();
        let chain =
            write_chain(&self.store, tree.id, value, &mut begin, &mut || admission.admit_more(page_bytes));
        stream.has_pages(value.len().div_ceil(page_bytes) as u64);
        let wrote = chain.and_then(|chain| {
            let image = Image { flags: OVERFLOW, bytes: &chain.encode() };
            self.write_image(txn, tree, key, new, Some(image), rules, admission)
        });
        match wrote {
            // The caller rolls all of it back.
            Err(Error::Deadlock | Error::WriteConflict) => wrote,
            // No row links the chain. If the transaction goes on and commits, nobody looks at that undo again; where the pages
            // cannot be freed, it does not go on.
            Err(_) => self.rollback_to(txn, mark, rules).and(wrote),
            Ok(_) => wrote,
        }
    }

    fn write_image(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        new: New<'_>,
        image: Option<Image<'_>>,
        rules: Rules,
        admission: &mut dyn WriteAdmission,
    ) -> Result<Wrote> {
        // The leaf is on its way from memory while the transaction gets what it needs.
        let guess = match txn.leaf_cache.get(tree, key) {
            Some(leaf) => Some(leaf),
            None => tree.prefetch_leaf(&self.store, key)?,
        };
        let owner = self.owner(txn);
        let room = image.map_or(0, |image| row_bytes(key.len(), image.bytes.len()));
        self.room_for_undo()?;
        let stream = self.stream_of(txn);
        loop {
            self.store.log.make_room()?;
            let (page, place) = tree.leaf_write_cached(&self.store, guess, key, room)?;
            txn.leaf_cache.set(tree, key, page.page_no());
            let leaf = Leaf::new(&page);
            let (slot, found) = match place {
                Ok(slot) => (slot, true),
                Err(slot) => (slot, false),
            };
            let (mut present, mut own, mut conflict) = (false, false, None);
            if found {
                let row = leaf.row(slot);
                let newest = row.version.txn;
                present = row.flags & DELETED == 0;
                own = newest == owner.txn();
                conflict = self.check_conflict(txn, tree, key, newest, Mode::Exclusive, rules)?;
            }
            let nothing = present == matches!(new, New::Insert(_)) && !matches!(new, New::Put(_));
            if conflict.is_none() {
                conflict = match nothing {
                    false => conflict_of(self.locks.claim(owner, tree.id, key, rules.wait))?,
                    true if rules.serializable && !own => {
                        conflict_of(self.locks.enqueue(owner, tree.id, key, Mode::Shared, rules.wait))?
                    }
                    true => None,
                };
            }
            if let Some(conflict) = conflict {
                drop(page);
                admission.leave();
                self.wait_out(txn, tree, key, conflict, &mut Held::default())?;
                admission.enter_again()?;
                continue;
            }
            // Under the latch, after everything that the snapshot decides has been looked at.
            self.check_rules_not_expired(rules, Ok(()))?;
            if nothing {
                return Ok(Wrote::Nothing);
            }
            if image.is_some() && !planted(Bug::ClearedForEver) {
                self.cleared.cut(tree.id, key);
            }
            let undo = stream.begin_row();
            undo.check_room()?;
            let version = undo.version();
            let mut mtr = Mtr::begin(&self.store.log, &self.store.pool);
            let held = mtr.add(page);
            let leaf = Leaf::new(mtr.page(held));
            let old_row = found.then(|| leaf.row(slot));
            let mut old_middle = smallvec::SmallVec::<[u8; 256]>::new();
            let change = match old_row {
                None => {
                    let image = image.unwrap_or(Image { flags: 0, bytes: &[] });
                    RowChange::Insert { flags: image.flags | FRESH, value: image.bytes }
                }
                Some(old) => {
                    // A delete keeps the bytes, which costs no redo; a chain's address must stand whole in the undo.
                    let chain = old.flags & OVERFLOW != 0;
                    let (new_flags, bytes) = match image {
                        Some(image) => (image.flags, image.bytes),
                        None if chain => (DELETED, &[][..]),
                        None => (DELETED, old.value),
                    };
                    let (front, back) = if chain || new_flags & OVERFLOW != 0 {
                        (0, 0)
                    } else if image.is_none() {
                        (bytes.len() as u16, 0)
                    } else {
                        common_ends(old.value, bytes)
                    };
                    let middle = |bytes: &[u8]| usize::from(front)..bytes.len() - usize::from(back);
                    old_middle.extend_from_slice(&old.value[middle(old.value)]);
                    let new_middle = match image {
                        Some(image) => &image.bytes[middle(image.bytes)],
                        None => &[],
                    };
                    RowChange::Replace {
                        before: old.version,
                        old_flags: old.flags,
                        new_flags,
                        front,
                        back,
                        old_middle: &old_middle,
                        new_middle,
                    }
                }
            };
            let op = RowOp { slot, tree: tree.id, key, version, change };
            undo.append(&op);
            mtr.apply(held, &PageOp::Row(op));
            mtr.commit();
            owner.add_work(1);
            return Ok(Wrote::Done { replaced: present });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_four_gibibytes_is_one_byte_too_long() {
        let most = u32::MAX as usize;
        refuse_long(most).unwrap();
        let error = refuse_long(most + 1).unwrap_err();
        assert!(matches!(&error, Error::Misuse(what) if what.contains("4294967296 bytes")), "{error}");
    }
}
