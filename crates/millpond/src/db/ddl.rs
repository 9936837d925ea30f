//! Changing the set of tables in one step; the metadata and the counters of tables.

use super::{Db, TABLE_REDO, Transaction};
use crate::catalog::{ChangeRoom, TableChange};
use crate::error::{Error, Result};
use crate::table_handle::Table;
use crate::txn::counters::{CounterStep, Take, TakenValues};
use crate::txn::{UndoAdmission, UndoWait};
use base::Lsn;
use std::time::Duration;

impl Db {
    /// Makes several changes of the set of tables, in their order: all or none, with one sync. Each
    /// change sees those before it, so two tables can exchange their names. Waits until no
    /// transaction uses the tables, each at most `wait`. The changes are durable when the call
    /// returns; open handles follow.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// use millpond::TableChange;
    /// db.change_tables(
    ///     &[
    ///         TableChange::Create { name: "orders", metadata: b"version 1" },
    ///         TableChange::Create { name: "orders by date", metadata: b"" },
    ///     ],
    ///     Duration::from_secs(1),
    /// )?;
    /// let old = db.open_table("orders")?;
    /// db.change_tables(
    ///     &[
    ///         TableChange::Rename { from: "orders", to: "orders 2025" },
    ///         TableChange::Create { name: "orders", metadata: b"version 2" },
    ///         TableChange::Replace { name: "orders by date", metadata: b"" },
    ///     ],
    ///     Duration::from_secs(1),
    /// )?;
    /// assert_eq!(old.name(), "orders 2025");
    /// assert_eq!(db.open_table("orders")?.metadata(), b"version 2");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_table`], [`Db::drop_table`] and [`Db::rename_table`]; the error names the
    /// table. [`Error::Misuse`] also for metadata of more than 1 MiB, and for a list that creates
    /// and drops the same table.
    pub fn change_tables(&self, changes: &[TableChange<'_>], wait: Duration) -> Result<()> {
        let core = &self.core;
        let _inside = core.enter()?;
        let admission = core.engine.admission();
        let room = ChangeRoom {
            to_write: &|| admission.admit(TABLE_REDO),
            // Freeing space is admitted even where other work finds no room.
            to_drop: &|| admission.admit_undo(TABLE_REDO, UndoWait::AsCaller).map(drop),
        };
        let changed = core.or_poisoned(core.catalog.change_tables(changes, wait, &room))?;
        if let Some(lsn) = changed.lsn {
            core.flush(lsn)?;
        }
        core.catalog.reclaim(&changed.dropped);
        Ok(())
    }

    /// Raises the counter of a table: the next value is at least `next`. That is durable when the
    /// call returns. See [`Table::take_values`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a table of another database; [`Error::Closed`], [`Error::Poisoned`].
    pub fn raise_counter(&self, table: &Table, next: u64) -> Result<()> {
        if table.db != self.core.id {
            return Err(Error::Misuse("the table belongs to another database".into()));
        }
        let _inside = self.core.enter()?;
        match table.entry.counter.raise(&self.core.engine.store.log, next)? {
            Some(lsn) => self.core.flush(lsn),
            None => Ok(()),
        }
    }
}

impl Table {
    /// Returns the bytes that the table was created with, or that
    /// [`TableChange::SetMetadata`] gave it since.
    #[must_use]
    pub fn metadata(&self) -> Vec<u8> {
        self.entry.metadata().to_vec()
    }

    /// Lets transactions read the table whose snapshots are older than the table; see
    /// [`Error::TableChanged`]. For a table that only one session uses, all of whose rows it has
    /// written itself, such as a temporary one. They see the rows that were loaded into it. This
    /// lasts until the database is closed.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.draw_snapshot()?;
    /// let results = db.create_table("results")?;
    /// assert!(matches!(tx.get(&results, b"1"), Err(millpond::Error::TableChanged { .. })));
    /// results.allow_older_snapshots();
    /// assert_eq!(tx.get(&results, b"1")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    pub fn allow_older_snapshots(&self) {
        self.entry.set_born(Lsn::ZERO);
    }

    /// Takes values of the table's counter, for rows that are about to be inserted
    /// (auto-increment). No other caller gets them any more, whatever becomes of the rows. `None`
    /// if the next value would be beyond the greatest.
    ///
    /// Values that no committed row has used may be given again after a crash. So that no value is
    /// used twice, the transaction that inserts the row also calls [`Transaction::raise_counter`].
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let orders = db.create_table("orders")?;
    /// let step = millpond::CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };
    /// let mut tx = db.begin()?;
    /// let id = orders.take_values(step).expect("the range is not used up").first;
    /// tx.raise_counter(&orders, id + 1)?;
    /// tx.insert(&orders, &id.to_be_bytes(), b"tea")?;
    /// tx.commit()?;
    /// assert_eq!((id, orders.next_value()), (1, 2));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn take_values(&self, step: CounterStep) -> Option<TakenValues> {
        self.entry.counter.take(step)
    }

    /// Returns the next value of the table's counter: the least that was neither taken nor used.
    #[must_use]
    pub fn next_value(&self) -> u64 {
        self.entry.counter.next()
    }
}

/// How a transaction shares the counter of a table with others, see
/// [`Transaction::take_values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterLock {
    /// The transaction locks the counter only if another one has locked it or wants to.
    IfLocked,
    /// The transaction locks the counter: no other one that does so too, or that asks with
    /// `IfLocked`, takes values until the end of the statement.
    Always,
}

impl Transaction {
    /// Locks the counter of a table until the end of the [statement](Transaction::begin_statement),
    /// or of the transaction if it is in none. Values that are taken meanwhile by
    /// [`Transaction::take_values`] are consecutive.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let orders = db.create_table("orders")?;
    /// use millpond::{CounterLock, CounterStep, Error, TxnOptions};
    /// let mut load = db.begin()?;
    /// load.begin_statement()?;
    /// load.lock_counter(&orders, CounterLock::Always)?;
    ///
    /// let step = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };
    /// let mut other = db.begin_with(TxnOptions::new().lock_wait(std::time::Duration::ZERO))?;
    /// let taken = other.take_values(&orders, step, CounterLock::IfLocked);
    /// assert!(matches!(taken, Err(Error::LockTimeout)));
    /// load.end_statement();
    /// assert!(other.take_values(&orders, step, CounterLock::IfLocked)?.is_some());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`]; [`Error::Misuse`] in a read-only transaction;
    /// and those of [`Transaction::get`].
    pub fn lock_counter(&mut self, table: &Table, lock: CounterLock) -> Result<()> {
        let counter = &table.entry.counter;
        if lock == CounterLock::IfLocked && !counter.is_locked() {
            return Ok(());
        }
        let (_inside, tree) = self.enter_table(table)?;
        self.writable()?;
        if self.counters.borrow().iter().any(|hold| hold.tree() == tree.id) {
            return Ok(());
        }
        let locked = self.core.engine.txns.table_locks().lock_counter(&self.txn, counter, self.rules());
        let hold = self.roll_back_if_required(locked)?;
        self.counters.borrow_mut().push(hold);
        Ok(())
    }

    /// Takes values of the table's counter as [`Table::take_values`] does, and locks the counter
    /// first if `lock` says so, as [`Transaction::lock_counter`] does.
    ///
    /// # Errors
    /// As [`Transaction::lock_counter`].
    pub fn take_values(
        &mut self,
        table: &Table,
        step: CounterStep,
        lock: CounterLock,
    ) -> Result<Option<TakenValues>> {
        let counter = &table.entry.counter;
        if lock == CounterLock::IfLocked
            && table.db == self.core.id
            && let Take::Values(taken) = counter.take_unless_locked(step)
        {
            return Ok(taken);
        }
        self.lock_counter(table, CounterLock::Always)?;
        Ok(counter.take(step))
    }

    /// Raises the counter of a table: the next value is at least `next`, also after a crash if this
    /// transaction commits. It stays so if the transaction rolls back. See [`Table::take_values`].
    ///
    /// # Errors
    /// [`Error::Misuse`] in a read-only transaction; and those of [`Transaction::get`].
    pub fn raise_counter(&mut self, table: &Table, next: u64) -> Result<()> {
        if table.entry.counter.is_logged(next) && table.db == self.core.id {
            return Ok(());
        }
        let (_inside, _tree) = self.enter_table(table)?;
        self.writable()?;
        table.entry.counter.raise(&self.core.engine.store.log, next).map(drop)
    }
}
