//! Changing the set of tables in one step; the metadata and the counters of tables.

use super::{Db, TABLE_REDO, Transaction};
use crate::catalog::{ChangeRoom, TableChange};
use crate::error::{Error, Result};
use crate::table::Table;
use crate::txn::counters::{CounterStep, TakenValues};
use crate::txn::{UndoAdmission, UndoWait};
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
        match self.core.engine.txns.raise_counter(&table.entry.counter, next)? {
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

impl Transaction {
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
        self.core.engine.txns.raise_counter(&table.entry.counter, next).map(drop)
    }
}
