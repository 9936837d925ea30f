//! Changing a row: locks first, then undo, then the page with its redo, all under one exclusive
//! latch of the row's leaf.

use super::admission::WriteAdmission;
use super::ended_txns::EndedTxns;
use super::history::HistoryKeeper;
use super::lock::{Conflict, Locked, RowLocks, conflict_of};
use super::overtaken::note_if_overtaken;
use super::rollback::Rollbacks;
use super::rules::Rules;
use super::transaction::Txn;
use super::undo_space::UndoSpace;
use crate::btree::{Tree, row_bytes, write_chain};
use crate::buffer::PageWrite;
use crate::error::{Error, Result};
use crate::lock::{KeyState, Mode};
use crate::mtr::Mtr;
use crate::page::node::{DELETED, FRESH, Leaf, OVERFLOW, Row, SETTLED, VERSION_BYTES, Version};
use crate::page::op::{PageOp, RowChange, RowOp, common_ends};
use crate::page::{inline_limit, max_key};
use crate::planted::{Bug, planted};
use crate::undo::{HeldPiece, Stream, UndoEntry};
use smallvec::SmallVec;

/// The change that a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum New<'a> {
    /// Insert a row with this value; there must be no row.
    Insert(&'a [u8]),
    /// Give the row this value, whether or not there is one.
    Put(&'a [u8]),
    /// Give the row this value; there must be a row.
    Update(&'a [u8]),
    /// Delete the row.
    Delete,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// The change was made.
    Done {
        /// Whether there was a row before.
        replaced: bool,
    },
    /// An insert found a row, or an update or delete found none: nothing was changed.
    Nothing,
}

/// Fails for a value whose length does not fit 32 bits.
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

/// A change of one row.
#[derive(Clone, Copy, Debug)]
struct RowWrite<'a> {
    txn: &'a Txn,
    tree: Tree,
    key: &'a [u8],
    new: New<'a>,
    /// The row's new content; none for a delete.
    image: Option<Image<'a>>,
    rules: Rules,
}

/// What a row change does next, as judged under the latch of the leaf.
enum Judged<'t> {
    /// Another transaction is in the way.
    Conflict(Conflict<'t>),
    /// There is nothing to change.
    Nothing,
    /// The row may be changed; the transaction has the lock.
    Change {
        /// Whether there is a row.
        replaced: bool,
    },
}

/// What a change does to the bytes of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowPlan<'a> {
    /// Inserts a row; the leaf has no entry for the key.
    Insert { flags: u8 },
    /// Replaces `old`. Its first `front` and its last `back` bytes stay.
    Replace { old: Row<'a>, new_flags: u8, front: u16, back: u16 },
}

/// Returns whether a change does nothing: an insert where a row is present, or an update or delete
/// where none is.
#[inline]
fn changes_nothing(new: New<'_>, present: bool) -> bool {
    match new {
        New::Insert(_) => present,
        New::Put(_) => false,
        New::Update(_) | New::Delete => !present,
    }
}

/// Plans how the wanted `image` (none for a delete) replaces the entry `row` of the leaf.
#[inline]
fn plan_row<'a>(image: Option<Image<'_>>, row: Option<Row<'a>>) -> RowPlan<'a> {
    let Some(old) = row else {
        return RowPlan::Insert { flags: image.map_or(0, |image| image.flags) | FRESH };
    };
    let chain = old.flags & OVERFLOW != 0;
    let (front, back) = match image {
        // The undo must hold the whole address of a chain.
        None if chain => (0, 0),
        // A delete keeps the bytes, which costs no redo.
        None => (old.value.len() as u16, 0),
        Some(image) if chain || image.flags & OVERFLOW != 0 => (0, 0),
        Some(image) => common_ends(old.value, image.bytes),
    };
    RowPlan::Replace { old, new_flags: image.map_or(DELETED, |image| image.flags), front, back }
}

/// Builds the change that is logged. Copies the old bytes that it replaces into `old_middle`,
/// because the page is changed while the change is in use.
#[inline]
fn build<'b>(
    plan: RowPlan<'_>,
    image: Option<Image<'b>>,
    old_middle: &'b mut SmallVec<[u8; 256]>,
) -> RowChange<'b> {
    match plan {
        RowPlan::Insert { flags } => {
            RowChange::Insert { flags, value: image.map_or(&[][..], |image| image.bytes) }
        }
        RowPlan::Replace { old, new_flags, front, back } => {
            let middle = |bytes: &[u8]| usize::from(front)..bytes.len() - usize::from(back);
            old_middle.extend_from_slice(&old.value[middle(old.value)]);
            RowChange::Replace {
                before: old.version,
                old_flags: old.flags,
                new_flags,
                front,
                back,
                old_middle: &old_middle[..],
                new_middle: match image {
                    Some(image) => &image.bytes[middle(image.bytes)],
                    None => &[],
                },
            }
        }
    }
}

/// Returns how many bytes besides its key a row needs that has no version yet and gets one, if the
/// leaf lacks room for a version. A delete keeps the row's bytes, so it asks for no room itself.
#[inline]
fn room_for_version(leaf: Leaf<'_>, found: Result<u16, u16>) -> Option<usize> {
    let row = leaf.row(found.ok()?);
    let lacks_room = row.flags & SETTLED != 0 && leaf.free_bytes() < VERSION_BYTES;
    lacks_room.then(|| row_bytes(0, row.value.len()))
}

/// Changes rows, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct RowWriter<'a> {
    pub(super) rows: RowLocks<'a>,
    /// For room for the undo.
    pub(super) undo_space: &'a UndoSpace,
    /// Takes a transaction whose partial rollback fails; has those whose undo can go to files.
    pub(super) ended: &'a EndedTxns,
}

impl RowWriter<'_> {
    /// Changes the row of `key`. REQUIRES: no latch held; the transaction holds the table's lock,
    /// and `admission` has admitted the operation.
    pub(crate) fn write_row(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        new: New<'_>,
        rules: Rules,
        admission: &mut dyn WriteAdmission,
    ) -> Result<Wrote> {
        let page_bytes = self.rows.store.pool.page_bytes();
        let max = max_key(page_bytes);
        if key.len() > max {
            return Err(Error::KeyTooLong { len: key.len(), max });
        }
        let mut write = RowWrite { txn, tree, key, new, image: None, rules };
        let value = match new {
            New::Insert(value) | New::Put(value) | New::Update(value) => value,
            New::Delete => return self.write_image(&write, admission),
        };
        if value.len() <= inline_limit(page_bytes) {
            write.image = Some(Image { flags: 0, bytes: value });
            return self.write_image(&write, admission);
        }
        refuse_long(value.len())?;
        // The chain is written before the row that links it. So the row is locked first: a conflict
        // then costs nothing.
        admission.leave();
        let owner = self.rows.owner(txn);
        owner.expect_new_lock();
        let nothing = if matches!(new, New::Insert(_)) && self.finds_row(&write)? {
            true
        } else {
            let locked = self.rows.lock_row(txn, tree, key, Mode::Exclusive, rules)?;
            changes_nothing(new, matches!(locked, Locked::Present(_)))
        };
        admission.enter_again()?;
        if nothing {
            return Ok(Wrote::Nothing);
        }
        let newly_locked = owner.has_new_lock();
        let stream = txn.stream_or_begin(self.rows.versions, self.rows.locks)?;
        let mut begin = |_: &mut Mtr<'_>, head| {
            let undo_at = stream.append(UndoEntry::Chain { tree: tree.id, head });
            Version { txn: stream.owner(), undo_at }
        };
        let position = stream.position();
        let mut admit = || admission.admit_more(page_bytes);
        let chain = write_chain(self.rows.store, tree.id, value, &mut begin, &mut admit);
        stream.add_pages(value.len().div_ceil(page_bytes) as u64);
        let wrote = chain.and_then(|chain| {
            let bytes = &chain.encode();
            let write = RowWrite { image: Some(Image { flags: OVERFLOW, bytes }), ..write };
            self.write_image(&write, admission)
        });
        match wrote {
            // The caller rolls the whole transaction back.
            Err(Error::Deadlock | Error::WriteConflict) => wrote,
            // No row links the chain. If the transaction goes on and commits, that undo is never
            // read again. If the pages cannot be freed, the transaction does not go on.
            Err(_) => self.rollbacks().rollback_to(txn, position, rules).and(wrote),
            Ok(_) => {
                // The row's version is the lock now, as that of a short value. If the statement is
                // undone, nothing stays locked.
                if newly_locked {
                    self.rows.locks.release_row_for_version(owner, tree.id, key);
                }
                wrote
            }
        }
    }

    fn rollbacks(&self) -> Rollbacks<'_> {
        Rollbacks { reverter: self.rows.reverter(), ended: self.ended }
    }

    /// Called before a transaction adds to its undo: frees memory if that is needed. REQUIRES: no
    /// latch held.
    #[inline]
    fn room_for_undo(&self) -> Result {
        let RowLocks { store, versions, locks, .. } = self.rows;
        match self.undo_space.limits.above_threshold(versions.streams.bytes()) {
            0 => Ok(()),
            above => {
                let (purge_queue, undo_space) = (&self.ended.purge_queue, self.undo_space);
                HistoryKeeper { store, versions, purge_queue, undo_space, locks }.over_threshold(above)
            }
        }
    }

    /// Tells whether an insert finds a row. Such a row need not be locked exclusively, so the
    /// insert does not wait for transactions that read it. REQUIRES: no latch held.
    fn finds_row(&self, write: &RowWrite<'_>) -> Result<bool> {
        let RowWrite { txn, tree, key, .. } = *write;
        let mut held = HeldPiece::default();
        loop {
            let guess = txn.leaf_cache.get(tree, key);
            let page = tree.leaf_read_cached(self.rows.store, guess, key)?;
            let leaf = Leaf::new(&page);
            let present = |slot: &u16| leaf.row(*slot).flags & DELETED == 0;
            let Some(slot) = leaf.search(key).ok().filter(present) else { return Ok(false) };
            match self.judge_write(write, leaf, Ok(slot))? {
                Judged::Conflict(conflict) => {
                    drop(page);
                    self.rows.wait_out(txn, tree, key, conflict, &mut held)?;
                }
                Judged::Nothing | Judged::Change { .. } => return Ok(true),
            }
        }
    }

    /// Makes a change whose long value, if any, is written: judges the row under the latch of its
    /// leaf, waits and begins again on a conflict, else changes it.
    fn write_image(&self, write: &RowWrite<'_>, admission: &mut dyn WriteAdmission) -> Result<Wrote> {
        let RowWrite { txn, tree, key, image, .. } = *write;
        // The processor fetches the leaf from memory while the transaction gets its id and undo.
        let guess = match txn.leaf_cache.get(tree, key) {
            Some(leaf) => Some(leaf),
            None => tree.prefetch_leaf(self.rows.store, key)?,
        };
        let owner = self.rows.owner(txn);
        let mut room = image.map_or(0, |image| row_bytes(key.len(), image.bytes.len()));
        self.room_for_undo()?;
        let stream = txn.stream_or_begin(self.rows.versions, self.rows.locks)?;
        loop {
            let (page, found) = tree.leaf_write_cached(self.rows.store, guess, key, room)?;
            txn.leaf_cache.set(tree, key, page.page_no());
            match self.judge_write(write, Leaf::new(&page), found)? {
                Judged::Conflict(conflict) => {
                    drop(page);
                    admission.leave();
                    self.rows.wait_out(txn, tree, key, conflict, &mut HeldPiece::default())?;
                    admission.enter_again()?;
                }
                Judged::Nothing => return Ok(Wrote::Nothing),
                Judged::Change { replaced } => {
                    if image.is_none()
                        && let Some(needed) = room_for_version(Leaf::new(&page), found)
                    {
                        room = key.len() + needed;
                        continue;
                    }
                    if !self.apply_write(write, stream, page, found)? {
                        self.rows.store.log.await_credit()?;
                        continue;
                    }
                    owner.add_work(1);
                    return Ok(Wrote::Done { replaced });
                }
            }
        }
    }

    /// Judges the row that was `found` in a leaf, and takes the lock that the change needs.
    /// REQUIRES: the leaf is latched.
    #[inline]
    fn judge_write(
        &self,
        write: &RowWrite<'_>,
        leaf: Leaf<'_>,
        found: Result<u16, u16>,
    ) -> Result<Judged<'_>> {
        let RowWrite { txn, tree, key, new, rules, .. } = *write;
        let owner = self.rows.owner(txn);
        let (mut present, mut own, mut conflict) = (false, false, None);
        if let Ok(slot) = found {
            let row = leaf.row(slot);
            let newest = row.version.txn;
            present = row.flags & DELETED == 0;
            own = newest == owner.txn();
            conflict = match changes_nothing(new, present) {
                true => self.rows.check_found(txn, tree, key, row, Mode::Exclusive, rules)?,
                false => self.rows.check_conflict(txn, tree, key, newest, Mode::Exclusive, rules)?,
            };
            // The check has noted the commit that it saw.
            if txn.seen.get() >= rules.overtakes {
                note_if_overtaken(self.rows.versions, txn, tree, newest, rules.overtakes);
            }
        }
        let nothing = changes_nothing(new, present);
        if conflict.is_none() {
            conflict = match nothing {
                false => {
                    let state = if own { KeyState::OwnVersion } else { KeyState::of(present) };
                    conflict_of(self.rows.locks.claim(owner, tree.id, key, state, rules.wait))?
                }
                // A serializable transaction relies on what it has found.
                true if rules.serializable && !own => {
                    let (state, mode) = (KeyState::of(present), Mode::Shared);
                    conflict_of(self.rows.locks.enqueue(owner, tree.id, key, state, mode, rules.wait))?
                }
                true => None,
            };
        }
        if let Some(conflict) = conflict {
            return Ok(Judged::Conflict(conflict));
        }
        // Under the latch, after everything that depends on the snapshot has been read.
        self.rows.versions.check_rules_not_expired(rules, Ok(()))?;
        Ok(if nothing { Judged::Nothing } else { Judged::Change { replaced: present } })
    }

    /// Appends the undo record of a change and applies the change to the page, with its redo.
    /// Returns false, and has done nothing, if the log has no room now.
    #[inline]
    fn apply_write(
        &self,
        write: &RowWrite<'_>,
        stream: &Stream,
        page: PageWrite<'_>,
        found: Result<u16, u16>,
    ) -> Result<bool> {
        let RowWrite { tree, key, image, .. } = *write;
        let Some(mut mtr) = Mtr::try_begin(&self.rows.store.log, &self.rows.store.pool) else {
            return Ok(false);
        };
        if image.is_some() && !planted(Bug::ClearedForEver) {
            self.rows.versions.cleared.cut(tree.id, key);
        }
        let undo = stream.begin_row();
        undo.check_room()?;
        let version = undo.version();
        let held = mtr.add(page);
        let leaf = Leaf::new(mtr.page(held));
        let plan = plan_row(image, found.ok().map(|slot| leaf.row(slot)));
        let mut old_middle = SmallVec::new();
        let change = build(plan, image, &mut old_middle);
        let (Ok(slot) | Err(slot)) = found;
        let op = RowOp { slot, tree: tree.id, key, version, change };
        undo.append(&op);
        mtr.apply(held, &PageOp::Row(op));
        mtr.commit();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TxnId;

    #[test]
    fn a_value_of_four_gibibytes_is_one_byte_too_long() {
        let most = u32::MAX as usize;
        refuse_long(most).unwrap();
        let error = refuse_long(most + 1).unwrap_err();
        assert!(matches!(&error, Error::Misuse(what) if what.contains("4294967296 bytes")), "{error}");
    }

    #[test]
    fn an_insert_needs_that_there_is_no_row_and_an_update_or_delete_that_there_is_one() {
        for (new, absent, present) in [
            (New::Insert(b"v"), false, true),
            (New::Put(b"v"), false, false),
            (New::Update(b"v"), true, false),
            (New::Delete, true, false),
        ] {
            assert_eq!(
                (changes_nothing(new, false), changes_nothing(new, true)),
                (absent, present),
                "{new:?}"
            );
        }
    }

    fn image(flags: u8, bytes: &[u8]) -> Option<Image<'_>> {
        Some(Image { flags, bytes })
    }

    fn row(flags: u8, value: &[u8]) -> Option<Row<'_>> {
        Some(Row { version: Version { txn: TxnId(7), undo_at: 3 }, flags, value })
    }

    /// By wanted image and present row: the new flags, and the bytes that stay at both ends of a
    /// row that is replaced.
    #[test]
    fn every_wanted_image_against_every_kind_of_row() {
        let table = [
            (image(0, b"one"), None, FRESH, None),
            (image(OVERFLOW, b"address"), None, OVERFLOW | FRESH, None),
            (image(0, b"12-34"), row(0, b"12+34"), 0, Some((2, 2))),
            (image(0, b"12-34"), row(FRESH, b"12+34"), 0, Some((2, 2))),
            (image(0, b"12"), row(DELETED, b"12"), 0, Some((2, 0))),
            (image(0, b"abc"), row(OVERFLOW, b"abc"), 0, Some((0, 0))),
            (image(0, b"abc"), row(DELETED | OVERFLOW, b"abc"), 0, Some((0, 0))),
            (image(OVERFLOW, b"abc"), row(0, b"abc"), OVERFLOW, Some((0, 0))),
            (None, row(0, b"abc"), DELETED, Some((3, 0))),
            (None, row(OVERFLOW, b"abc"), DELETED, Some((0, 0))),
        ];
        for (image, present, flags, ends) in table {
            let expected = match (present, ends) {
                (Some(old), Some((front, back))) => RowPlan::Replace { old, new_flags: flags, front, back },
                _ => RowPlan::Insert { flags },
            };
            assert_eq!(plan_row(image, present), expected, "{image:?} over {present:?}");
        }
    }

    #[test]
    fn a_change_holds_only_the_bytes_that_differ() {
        let wanted = image(0, b"12-34");
        let mut kept = SmallVec::new();
        let RowChange::Replace { front, back, old_middle, new_middle, .. } =
            build(plan_row(wanted, row(0, b"12+34")), wanted, &mut kept)
        else {
            panic!("the row is replaced");
        };
        assert_eq!((front, back, old_middle, new_middle), (2, 2, &b"+"[..], &b"-"[..]));
    }
}
