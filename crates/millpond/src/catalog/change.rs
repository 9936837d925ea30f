//! Several changes of the set of tables in one transaction.
//!
//! The changes are planned on the names that exist, without changing anything. The plan says which
//! tables must be locked, which trees are made, and what every name means afterwards. Names may
//! change while the locks are waited for, so the plan is made again under the catalog's mutex; if
//! it needs other locks then, everything starts again.

use super::{Catalog, CatalogEntry, check_metadata, check_name, encode};
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::txn::{New, Txn};
use base::sync::atomic::Ordering;
use base::{Lsn, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One change of the set of tables, see [`Db::change_tables`](crate::Db::change_tables).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange<'a> {
    /// Creates an empty table.
    Create {
        /// Its name, which no table may have.
        name: &'a str,
        /// Bytes of the caller that are kept with the table.
        metadata: &'a [u8],
    },
    /// Drops a table.
    Drop {
        /// Its name.
        name: &'a str,
    },
    /// Gives a table another name.
    Rename {
        /// Its name until now.
        from: &'a str,
        /// Its new name, which no table may have.
        to: &'a str,
    },
    /// Puts a new, empty table in place of a table.
    Replace {
        /// Its name.
        name: &'a str,
        /// Bytes of the caller that are kept with the new table.
        metadata: &'a [u8],
    },
    /// Replaces the metadata of a table.
    SetMetadata {
        /// Its name.
        name: &'a str,
        /// Bytes of the caller that are kept with the table.
        metadata: &'a [u8],
    },
}

/// What a name will mean.
#[derive(Clone, Debug)]
enum PlannedTable {
    /// A table that exists, under this name or another.
    Present(Arc<CatalogEntry>),
    /// The new table of this number.
    New(usize),
}

/// A table after the changes.
#[derive(Clone, Debug)]
struct Planned<'a> {
    table: PlannedTable,
    /// Its metadata, if it is new or changes.
    metadata: Option<&'a [u8]>,
}

/// What a list of changes comes to.
#[derive(Debug, Default)]
struct Plan<'a> {
    /// The names whose meaning may change; none for a name that will be free.
    names: BTreeMap<String, Option<Planned<'a>>>,
    /// The tables that must be locked, by tree.
    locks: BTreeMap<TreeId, Arc<CatalogEntry>>,
    drops: Vec<Arc<CatalogEntry>>,
    new: usize,
}

type Tables = BTreeMap<String, Arc<CatalogEntry>>;

impl<'a> Plan<'a> {
    fn of(tables: &Tables, changes: &[TableChange<'a>]) -> Result<Plan<'a>> {
        let mut plan = Plan::default();
        for change in changes {
            plan.add(tables, *change)?;
        }
        Ok(plan)
    }

    fn find(&self, tables: &Tables, name: &str) -> Option<Planned<'a>> {
        match self.names.get(name) {
            Some(planned) => planned.clone(),
            None => {
                let entry = tables.get(name)?;
                Some(Planned { table: PlannedTable::Present(Arc::clone(entry)), metadata: None })
            }
        }
    }

    /// Takes the table that a name means, to change it.
    fn take(&mut self, tables: &Tables, name: &str) -> Result<Planned<'a>> {
        let no_such = || Error::NoSuchTable { name: name.to_owned() };
        let planned = self.find(tables, name).ok_or_else(no_such)?;
        if let PlannedTable::Present(entry) = &planned.table {
            self.locks.insert(entry.tree.id, Arc::clone(entry));
        }
        self.names.insert(name.to_owned(), None);
        Ok(planned)
    }

    fn put(&mut self, tables: &Tables, name: &str, planned: Planned<'a>) -> Result {
        check_name(name)?;
        check_metadata(planned.metadata.unwrap_or_default())?;
        if self.find(tables, name).is_some() {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        self.names.insert(name.to_owned(), Some(planned));
        Ok(())
    }

    fn drop_table(&mut self, tables: &Tables, name: &str) -> Result {
        match self.take(tables, name)?.table {
            PlannedTable::Present(entry) => self.drops.push(entry),
            PlannedTable::New(_) => {
                return Err(Error::Misuse(format!("the list of changes creates and drops table {name:?}")));
            }
        }
        Ok(())
    }

    fn create(&mut self, tables: &Tables, name: &str, metadata: &'a [u8]) -> Result {
        let table = PlannedTable::New(self.new);
        self.put(tables, name, Planned { table, metadata: Some(metadata) })?;
        self.new += 1;
        Ok(())
    }

    fn add(&mut self, tables: &Tables, change: TableChange<'a>) -> Result {
        match change {
            TableChange::Create { name, metadata } => self.create(tables, name, metadata),
            TableChange::Drop { name } => self.drop_table(tables, name),
            TableChange::Rename { from, to } => {
                let planned = self.take(tables, from)?;
                self.put(tables, to, planned)
            }
            TableChange::Replace { name, metadata } => {
                self.drop_table(tables, name)?;
                self.create(tables, name, metadata)
            }
            TableChange::SetMetadata { name, metadata } => {
                let planned = self.take(tables, name)?;
                self.put(tables, name, Planned { metadata: Some(metadata), ..planned })
            }
        }
    }

    /// Returns the tables to be locked, in the order of their trees.
    fn to_lock(&self) -> Vec<Arc<CatalogEntry>> {
        self.locks.values().cloned().collect()
    }

    /// Returns whether the tables to be locked are those in `locked`.
    fn needs_only(&self, locked: &[Arc<CatalogEntry>]) -> bool {
        self.locks.keys().copied().eq(locked.iter().map(|entry| entry.tree.id))
    }
}

/// How a change waits for room in the log. It asks before each table, because the log may not hold
/// all of them together.
pub(crate) struct ChangeRoom<'r, G> {
    /// For a table that is made or gets another entry. What it returns is kept until that is done.
    pub(crate) to_write: &'r dyn Fn() -> Result<G>,
    /// For a table that goes.
    pub(crate) to_drop: &'r dyn Fn() -> Result,
}

/// The result of changes of the set of tables.
pub(crate) struct TablesChanged {
    /// The LSN of the commit, to be made durable; none if nothing was to be done.
    pub(crate) lsn: Option<Lsn>,
    /// The dropped tables, for [`Catalog::reclaim`].
    pub(crate) dropped: Vec<Arc<CatalogEntry>>,
}

impl Catalog {
    /// Makes changes of the set of tables, all or none. The caller makes the returned LSN durable,
    /// then calls [`Catalog::reclaim`].
    pub(crate) fn change_tables<G>(
        &self,
        changes: &[TableChange<'_>],
        wait: Duration,
        room: &ChangeRoom<'_, G>,
    ) -> Result<TablesChanged> {
        loop {
            let locks = Plan::of(&self.tables.lock(), changes)?.to_lock();
            let (txn, mut closed) = (Txn::default(), Vec::new());
            let changed = match self.lock_exclusively(&txn, &locks, wait, &mut closed) {
                // A table was dropped meanwhile: the next plan says so if it is still wanted.
                Err(Error::NoSuchTable { .. }) => Ok(None),
                Err(error) => Err(error),
                Ok(()) => self.change_locked(&txn, changes, &locks, room),
            };
            if let Ok(Some(changed)) = changed {
                return Ok(changed);
            }
            self.txns.rollbacks().rollback(&txn);
            drop(closed);
            changed?;
        }
    }

    /// Makes the changes, or returns none if other tables must be locked for them. REQUIRES: the
    /// transaction has locked the tables `locked`.
    fn change_locked<G>(
        &self,
        txn: &Txn,
        changes: &[TableChange<'_>],
        locked: &[Arc<CatalogEntry>],
        room: &ChangeRoom<'_, G>,
    ) -> Result<Option<TablesChanged>> {
        let _changing = self.changing.lock();
        let plan = Plan::of(&self.tables.lock(), changes)?;
        if !plan.needs_only(locked) {
            return Ok(None);
        }
        self.txns.trees.add_tableless(plan.new);
        let mut made = Vec::new();
        let written = self.write_plan(txn, &plan, room, &mut made).and_then(|()| {
            if plan.names.is_empty() {
                return Ok(None);
            }
            // Before the locks are released, because the next holder must see it.
            self.txns.trees.add_tableless(plan.drops.len());
            plan.drops.iter().for_each(|entry| entry.dropped.store(true, Ordering::Release));
            self.publish(&plan, &made);
            self.commit(txn).map(Some)
        });
        match written {
            Ok(lsn) => {
                self.txns.trees.sub_tableless(plan.new);
                Ok(Some(TablesChanged { lsn, dropped: plan.drops }))
            }
            Err(error) => {
                // The caller rolls the transaction back. No entry names these trees by then.
                self.txns.trees.sub_tableless(plan.new - made.len());
                made.iter().for_each(|entry| self.txns.releaser().release(entry.tree.id));
                Err(error)
            }
        }
    }

    /// Makes the new trees, and writes what changes into the catalog's tree.
    fn write_plan<G>(
        &self,
        txn: &Txn,
        plan: &Plan<'_>,
        room: &ChangeRoom<'_, G>,
        made: &mut Vec<Arc<CatalogEntry>>,
    ) -> Result {
        let mut metadata = vec![&[][..]; plan.new];
        for planned in plan.names.values().flatten() {
            if let (PlannedTable::New(n), Some(bytes)) = (&planned.table, planned.metadata) {
                metadata[*n] = bytes;
            }
        }
        for bytes in metadata {
            let _room = (room.to_write)()?;
            let tree = Tree::create(&self.txns.store, self.txns.trees.new_id()?)?;
            // The name follows when the change is published.
            made.push(CatalogEntry::new("", tree, self.txns.trees.counter_of(tree.id), bytes));
        }
        for (name, planned) in &plan.names {
            let present = self.tables.lock().contains_key(name);
            let Some(planned) = planned else {
                if present {
                    (room.to_drop)()?;
                    self.write(txn, name, New::Delete)?;
                }
                continue;
            };
            let _room = (room.to_write)()?;
            let entry = match &planned.table {
                PlannedTable::Present(entry) => entry,
                PlannedTable::New(n) => &made[*n],
            };
            let bytes = match planned.metadata {
                Some(metadata) => encode(entry.tree, metadata),
                None => encode(entry.tree, &entry.metadata()),
            };
            self.write(txn, name, New::Put(&bytes))?;
        }
        Ok(())
    }

    /// Makes the change visible in memory.
    fn publish(&self, plan: &Plan<'_>, made: &[Arc<CatalogEntry>]) {
        // Its commit follows: a snapshot drawn until then, below the commit, finds an empty table.
        let born = self.txns.store.log.reserved_lsn();
        for entry in made {
            entry.set_born(born);
            self.txns.trees.add(entry.tree);
        }
        let mut tables = self.tables.lock();
        for (name, planned) in &plan.names {
            let Some(planned) = planned else {
                tables.remove(name);
                continue;
            };
            let entry = match &planned.table {
                PlannedTable::Present(entry) => entry,
                PlannedTable::New(n) => &made[*n],
            };
            if let Some(metadata) = planned.metadata {
                *entry.metadata.lock() = metadata.into();
            }
            name.clone_into(&mut entry.name.lock());
            tables.insert(name.clone(), Arc::clone(entry));
        }
    }
}
