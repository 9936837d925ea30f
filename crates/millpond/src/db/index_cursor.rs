//! [`IndexCursor`]: a cursor of index entries, whose rows are in another table.
//!
//! While the transaction has not overtaken its snapshot, an index entry and its row are seen by one
//! view, and the cursor is a [`Cursor`]. Afterwards it merges two of them, see `txn::overtaken`.

use super::cursor::{CursorView, RunStamp};
use super::{Cursor, LockWait, RowLock, Seek, Transaction};
use crate::error::Result;
use crate::table_handle::Table;
use crate::txn::overtaken::is_own;
use std::cmp::Ordering;
use std::ops::RangeBounds;

/// Which of a transaction's views has an index entry, see [`IndexCursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryView {
    /// The entry is shown, whatever its row.
    Any,
    /// That of the snapshot alone. The entry is not shown if the transaction has changed its row.
    Snapshot,
    /// That of the newest rows alone. The entry is shown only if the transaction has changed its
    /// row.
    Present,
}

/// A [`Cursor`] of an index: a table of entries that name rows of another table.
///
/// With [current reads](super::TxnOptions::current_reads) a transaction may change a row that
/// others have changed after its snapshot. It sees its own version of the row then. Index entries
/// that this change left as they were are still younger than the snapshot, and entries that the
/// others have deleted are still in it. This cursor also finds the former. [`IndexCursor::view`]
/// says of each entry which of them it is, and [`Transaction::shows`] whether it is to be shown.
/// Then the program shows exactly the index entries that belong to the versions of rows which the
/// transaction sees.
///
/// ```
/// # let db = millpond::Db::open_in_memory()?;
/// use millpond::{EntryView, IndexCursor, Seek, TxnOptions};
/// let (users, by_age) = (db.create_table("users")?, db.create_table("users by age")?);
/// let mut tx = db.begin_with(TxnOptions::new().current_reads(true))?;
/// tx.draw_snapshot()?;
///
/// let mut other = db.begin()?;
/// other.put(&users, b"ada", b"36, London")?;
/// other.put(&by_age, b"36 ada", b"ada")?;
/// other.commit()?;
///
/// tx.put(&users, b"ada", b"36, Turin")?; // the entry in `by_age` stays as it is
/// let mut cursor = IndexCursor::new(&by_age, &users);
/// assert_eq!(cursor.seek(&mut tx, Seek::First)?, Some((&b"36 ada"[..], &b"ada"[..])));
/// assert_eq!(cursor.view(), EntryView::Present);
/// assert!(tx.shows(cursor.view(), &users, b"ada")?);
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Debug)]
pub struct IndexCursor {
    cursor: Cursor,
    /// None: the entries are rows themselves.
    rows: Option<Table>,
    /// While the transaction has overtaken its snapshot.
    merged: Option<Box<Merged>>,
}

/// Two cursors whose entries are merged, ordered by key and value.
#[derive(Debug)]
struct Merged {
    /// That of the snapshot, and that of the present view.
    sides: [Side; 2],
    backward: bool,
    /// What the positions of both sides depend on.
    stamp: Option<RunStamp>,
    /// The entry that was shown last.
    key: Vec<u8>,
    value: Vec<u8>,
    view: EntryView,
    positioned: bool,
}

#[derive(Debug)]
struct Side {
    cursor: Cursor,
    head: Head,
}

/// Where a side stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// On an entry that has not been shown.
    Next,
    /// On an entry that has been shown.
    Shown,
    /// On none: there is none further.
    End,
}

impl Head {
    fn of(found: bool) -> Head {
        if found { Head::Next } else { Head::End }
    }
}

impl IndexCursor {
    /// Returns a cursor of the entries of `index`, whose rows are in `rows`. It is for plain reads,
    /// and not positioned yet.
    #[must_use]
    pub fn new(index: &Table, rows: &Table) -> IndexCursor {
        IndexCursor { cursor: Cursor::new(index), rows: Some(rows.clone()), merged: None }
    }

    /// Returns a cursor of rows, which is a [`Cursor`], for a program that treats rows and index
    /// entries alike.
    #[must_use]
    pub fn of_rows(rows: &Table) -> IndexCursor {
        IndexCursor { cursor: Cursor::new(rows), rows: None, merged: None }
    }

    /// As [`Cursor::set_bounds`].
    pub fn set_bounds<'k>(&mut self, range: impl RangeBounds<&'k [u8]>) {
        self.merged = None;
        self.cursor.set_bounds(range);
    }

    /// As [`Cursor::set_lock`].
    pub fn set_lock(&mut self, lock: Option<RowLock>, wait: LockWait) {
        self.merged = None;
        self.cursor.set_lock(lock, wait);
    }

    /// As [`Cursor::set_peeks`].
    pub fn set_peeks(&mut self, peeks: bool) {
        self.merged = None;
        self.cursor.set_peeks(peeks);
    }

    /// As [`Cursor::is_peeked`].
    #[must_use]
    pub fn is_peeked(&self) -> bool {
        self.cursor.is_peeked()
    }

    /// As [`Cursor::expect_rows`].
    pub fn expect_rows(&mut self, rows: usize) {
        self.cursor.expect_rows(rows);
    }

    /// As [`Cursor::reset`].
    pub fn reset(&mut self) {
        self.merged = None;
        self.cursor.reset();
    }

    /// Returns which views of the transaction have the present entry.
    #[inline]
    #[must_use]
    pub fn view(&self) -> EntryView {
        self.merged.as_ref().map_or(EntryView::Any, |merged| merged.view)
    }

    /// As [`Cursor::seek`]. An index may have two entries with the same key here, in the order of
    /// their values: at most one for each [`EntryView`].
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek(&mut self, tx: &mut Transaction, to: Seek<'_>) -> Result<Option<(&[u8], &[u8])>> {
        self.merged = None;
        if self.merges(tx) {
            return self.merge(&[], &[]).seek(tx, to);
        }
        self.cursor.seek(tx, to)
    }

    /// As [`Cursor::next`].
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[inline]
    pub fn next(&mut self, tx: &mut Transaction) -> Result<Option<(&[u8], &[u8])>> {
        if self.merged.is_some() || tx.txn().snapshot.is_overtaken() {
            return self.step(tx, false);
        }
        self.cursor.next(tx)
    }

    /// As [`Cursor::prev`].
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[inline]
    pub fn prev(&mut self, tx: &mut Transaction) -> Result<Option<(&[u8], &[u8])>> {
        if self.merged.is_some() || tx.txn().snapshot.is_overtaken() {
            return self.step(tx, true);
        }
        self.cursor.prev(tx)
    }

    /// Returns whether a plain read of the transaction needs both views.
    fn merges(&self, tx: &Transaction) -> bool {
        let (index, locks) = self.cursor.reads();
        !locks && self.rows.as_ref().is_some_and(|rows| tx.has_overtaken(index, rows))
    }

    /// Makes a merged cursor that is on an entry.
    fn merge(&mut self, key: &[u8], value: &[u8]) -> &mut Merged {
        let side = |view| Side { cursor: self.cursor.with_view(view), head: Head::End };
        self.merged.insert(Box::new(Merged {
            sides: [side(CursorView::Snapshot), side(CursorView::Present)],
            backward: false,
            stamp: None,
            key: key.to_vec(),
            value: value.to_vec(),
            view: EntryView::Any,
            positioned: false,
        }))
    }

    /// Goes one entry on, where the transaction has overtaken its snapshot or the one before had.
    #[cold]
    fn step(&mut self, tx: &mut Transaction, backward: bool) -> Result<Option<(&[u8], &[u8])>> {
        let merges = self.merges(tx);
        if merges && self.merged.is_none() {
            let positioned = self.cursor.is_positioned();
            let (key, value) = self.cursor.present();
            let (key, value) = (key.to_vec(), value.to_vec());
            self.merge(&key, &value).positioned = positioned;
        }
        match self.merged.take_if(|_| !merges) {
            // Another transaction uses the cursor, and has not overtaken its snapshot.
            Some(merged) if merged.positioned => {
                let to = if backward { Seek::Before(&merged.key) } else { Seek::After(&merged.key) };
                self.cursor.seek(tx, to)
            }
            _ => match &mut self.merged {
                Some(merged) => merged.step(tx, backward),
                None if backward => self.cursor.prev(tx),
                None => self.cursor.next(tx),
            },
        }
    }
}

impl Merged {
    fn seek(&mut self, tx: &mut Transaction, to: Seek<'_>) -> Result<Option<(&[u8], &[u8])>> {
        self.backward = matches!(to, Seek::AtOrBefore(_) | Seek::Before(_) | Seek::Last);
        for side in &mut self.sides {
            side.head = Head::of(side.cursor.seek(tx, to)?.is_some());
        }
        self.stamp = Some(RunStamp::of(tx));
        Ok(self.show_next())
    }

    fn step(&mut self, tx: &mut Transaction, backward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if !self.positioned {
            return self.seek(tx, if backward { Seek::Last } else { Seek::First });
        }
        let goes_on = self.backward == backward && self.stamp == Some(RunStamp::of(tx));
        self.backward = backward;
        for side in &mut self.sides {
            match (goes_on, side.head) {
                (false, _) => side.seek_to(tx, backward, (&self.key, &self.value))?,
                (true, Head::Shown) => side.step(tx, backward)?,
                (true, Head::Next | Head::End) => {}
            }
        }
        self.stamp = Some(RunStamp::of(tx));
        Ok(self.show_next())
    }

    /// Shows the next entry of both sides. An entry that is the same in both is shown once: it
    /// belongs to the version of its row that the transaction sees, whichever that is.
    fn show_next(&mut self) -> Option<(&[u8], &[u8])> {
        let [snapshot, present] = &self.sides;
        let order = match (snapshot.next(), present.next()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) if self.backward => other.cmp(&one),
            (Some(one), Some(other)) => one.cmp(&other),
        };
        let (view, shown) = match order {
            Ordering::Less => (EntryView::Snapshot, [true, false]),
            Ordering::Equal => (EntryView::Any, [true, true]),
            Ordering::Greater => (EntryView::Present, [false, true]),
        };
        for (side, shown) in self.sides.iter_mut().zip(shown) {
            if shown {
                side.head = Head::Shown;
                let (key, value) = side.cursor.present();
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value.clear();
                self.value.extend_from_slice(value);
            }
        }
        (self.view, self.positioned) = (view, true);
        Some((&self.key, &self.value))
    }
}

impl Side {
    /// Returns the entry that comes next, if there is one.
    fn next(&self) -> Option<(&[u8], &[u8])> {
        (self.head == Head::Next).then(|| self.cursor.present())
    }

    fn step(&mut self, tx: &mut Transaction, backward: bool) -> Result {
        let found = if backward { self.cursor.prev(tx)? } else { self.cursor.next(tx)? };
        self.head = Head::of(found.is_some());
        Ok(())
    }

    /// Goes to the entry that follows `entry`, which need not be an entry of this side.
    fn seek_to(&mut self, tx: &mut Transaction, backward: bool, entry: (&[u8], &[u8])) -> Result {
        let to = if backward { Seek::AtOrBefore(entry.0) } else { Seek::AtOrAfter(entry.0) };
        let found = self.cursor.seek(tx, to)?;
        let passed = match backward {
            false => found.is_some_and(|found| found <= entry),
            true => found.is_some_and(|found| found >= entry),
        };
        self.head = Head::of(found.is_some());
        if passed { self.step(tx, backward) } else { Ok(()) }
    }
}

impl Transaction {
    /// Returns whether the transaction has changed rows of one of the tables that others had
    /// changed after its snapshot. An [`IndexCursor`] then says of entries in which view it has
    /// found them.
    #[must_use]
    pub fn has_overtaken(&self, index: &Table, rows: &Table) -> bool {
        self.txn().snapshot.is_overtaken_in([index.entry.tree.id, rows.entry.tree.id])
    }

    /// Returns whether an index entry is to be shown that an [`IndexCursor`] has found in `view`.
    /// `key` is the key of its row in `rows`.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn shows(&self, view: EntryView, rows: &Table, key: &[u8]) -> Result<bool> {
        let own = match view {
            EntryView::Any => return Ok(true),
            EntryView::Snapshot => false,
            EntryView::Present => true,
        };
        let (_inside, tree) = self.enter_table(rows)?;
        Ok(is_own(&self.core().engine.store, self.txn(), tree, key)? == own)
    }
}
