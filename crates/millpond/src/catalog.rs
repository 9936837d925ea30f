//! The catalog: which tables exist. It is a tree of its own, changed by transactions, with a copy
//! in memory.
//!
//! The catalog is tree 1; its root is the first page that a new database gives to a tree. Key: the
//! name of a table. Value:
//!
//! ```text
//!  format u8 = 2 · tree u32 · root page u32 · metadata, the rest
//! ```
//! The metadata is the caller's. Long metadata stands in overflow pages, as every long value does.
//!
//! Creating or dropping a table is one transaction on this tree, so a hundred of them cost a
//! handful of syncs (Fi3). The pages of a table are not transactional. A creation that did not
//! commit, or a drop that did, leaves a tree that no entry names. Opening finds such a tree as an
//! owner in the space map and releases its extents.

mod change;

pub(crate) use change::ChangeRoom;
pub use change::TableChange;

use crate::btree::{BulkBuilder, BulkSink, Tree, read_chain};
use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::lock::{Closed, TableLock, Users, Wait};
use crate::space::FIRST_TREE_PAGE;
use crate::txn::counters::Counter;
use crate::txn::lock_wait::denied;
use crate::txn::scan::{Next, Progress, Rows, ScanRange, Shown};
use crate::txn::{AlwaysAdmitted, New, Rules, Txn, Txns, Wrote};
use base::codec::{Put, Reader, Truncated};
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{Lsn, PageNo, TreeId};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The tree of the catalog itself.
pub(crate) const CATALOG: Tree = Tree { id: TreeId(1), root: FIRST_TREE_PAGE };
/// Length of the longest table name in bytes.
const NAME_BYTES_MAX: usize = 800;
/// Length of the longest metadata in bytes.
const METADATA_BYTES_MAX: usize = 1 << 20;
const FORMAT: u8 = 2;

/// A table that exists, or that existed when it was opened.
#[derive(Debug)]
pub(crate) struct CatalogEntry {
    /// The tree with its rows.
    pub(crate) tree: Tree,
    /// The transactions that share the table's lock without an entry in a lock queue.
    pub(crate) users: Users,
    /// Its counter, for programs that number rows.
    pub(crate) counter: Arc<Counter>,
    /// Snapshots at or below it do not know the table. 0 for a table that was there when the
    /// database was opened: all snapshots are younger.
    born: AtomicU64,
    name: Mutex<String>,
    metadata: Mutex<Arc<[u8]>>,
    dropped: AtomicBool,
}

impl CatalogEntry {
    fn new(name: &str, tree: Tree, counter: Arc<Counter>, metadata: &[u8]) -> Arc<CatalogEntry> {
        Arc::new(CatalogEntry {
            tree,
            users: Users::default(),
            counter,
            born: AtomicU64::new(0),
            name: Mutex::new(name.to_owned()),
            metadata: Mutex::new(metadata.into()),
            dropped: AtomicBool::new(false),
        })
    }

    /// Returns its present name.
    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Returns its present metadata.
    pub(crate) fn metadata(&self) -> Arc<[u8]> {
        Arc::clone(&self.metadata.lock())
    }

    /// Says that snapshots at or below `lsn` do not know the table.
    pub(crate) fn set_born(&self, lsn: Lsn) {
        self.born.store(lsn.0, Ordering::Release);
    }

    /// Returns whether the table was made after the snapshot.
    #[inline]
    pub(crate) fn is_younger_than(&self, snapshot: Lsn) -> bool {
        snapshot.0 <= self.born.load(Ordering::Acquire)
    }

    /// Fails if the table was made after the snapshot.
    #[inline]
    pub(crate) fn check_known_to(&self, snapshot: Lsn) -> Result {
        if self.is_younger_than(snapshot) {
            return Err(Error::TableChanged { name: self.name() });
        }
        Ok(())
    }

    /// Fails if the table has been dropped. The answer is valid as long as the caller shares the
    /// table's lock.
    pub(crate) fn check(&self) -> Result {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::NoSuchTable { name: self.name() });
        }
        Ok(())
    }
}

/// A new table that a transaction of its own is filling. No other code knows the table yet. Its
/// entry in the catalog's tree is inserted but not committed, which keeps the name for it.
#[derive(Debug)]
pub(crate) struct TableLoad {
    name: String,
    metadata: Vec<u8>,
    txn: Txn,
    bulk: BulkBuilder,
}

/// The tables of an open database.
#[derive(Debug)]
pub(crate) struct Catalog {
    txns: Arc<Txns>,
    /// Serialises changes. A holder never waits for a lock. It may wait for room in the log when it
    /// creates or drops many tables; that room becomes free without another change of the catalog.
    changing: Mutex<()>,
    tables: Mutex<BTreeMap<String, Arc<CatalogEntry>>>,
}

fn check_name(name: &str) -> Result {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let len = name.len();
        return Err(Error::Misuse(format!("a table name of {len} bytes: 1 to {NAME_BYTES_MAX} are allowed")));
    }
    Ok(())
}

fn check_metadata(metadata: &[u8]) -> Result {
    if metadata.len() > METADATA_BYTES_MAX {
        let len = metadata.len();
        let most = METADATA_BYTES_MAX;
        return Err(Error::Misuse(format!("metadata of a table of {len} bytes: {most} are allowed")));
    }
    Ok(())
}

fn encode(tree: Tree, metadata: &[u8]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    out.put_u32(tree.id.0);
    out.put_u32(tree.root.0);
    out.extend_from_slice(metadata);
    out
}

/// Returns the tree and the metadata of an entry.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Tree, &[u8]), Truncated> {
    let mut r = Reader::new(bytes);
    match r.u8()? {
        FORMAT => Ok((Tree { id: TreeId(r.u32()?), root: PageNo(r.u32()?) }, r.rest())),
        _ => Err(Truncated),
    }
}

impl Catalog {
    /// Reads the catalog, which it first makes in a new database. Releases the extents of trees
    /// that the catalog does not name. REQUIRES: no other thread works on the database yet.
    pub(crate) fn open(txns: &Arc<Txns>) -> Result<Catalog> {
        let store = &txns.store;
        let catalog =
            Catalog { txns: Arc::clone(txns), changing: Mutex::new(()), tables: Mutex::new(BTreeMap::new()) };
        let owners = store.space.owners_found();
        if owners.contains(&CATALOG.id) {
            drop(CATALOG.leaf_read(store, &[])?);
        } else {
            let made = Tree::create(store, CATALOG.id)?;
            base::check!(made == CATALOG, "the catalog's root is {:?}", made.root);
        }
        txns.trees.raise_ids_above(CATALOG.id);
        txns.trees.add(CATALOG);
        catalog.load()?;
        txns.trees.forget_dead_counters();
        for owner in owners {
            if txns.trees.get(owner).is_none() {
                txns.trees.add_tableless(1);
                txns.releaser().release(owner);
            }
        }
        Ok(catalog)
    }

    fn load(&self) -> Result {
        let (txns, store) = (&self.txns, &self.txns.store);
        let snapshot = txns.versions.draw_snapshot();
        let view = txns.versions.view(snapshot.lsn(), base::TxnId::NONE);
        let txn = Txn::default();
        let reader = txns.reader(&txn, view);
        let (mut rows, mut progress, mut next) = (Rows::default(), Progress::default(), Next::At(Vec::new()));
        let mut tables = self.tables.lock();
        while let Next::At(from) = next {
            let range = ScanRange { tree: CATALOG, from: &from, to: None };
            next = reader.scan_forward(range, &mut progress, &mut rows)?;
            for row in rows.iter(store) {
                let (key, value) = row?;
                let mut long = Vec::new();
                let bytes = match value {
                    Shown::Inline(bytes) => bytes,
                    Shown::Chain(chain) => {
                        read_chain(store, &chain, FetchHint::Normal, &mut long)?;
                        &long
                    }
                };
                let (Ok((tree, metadata)), Ok(name)) = (decode(bytes), String::from_utf8(key.to_vec()))
                else {
                    return Err(Error::corrupt(store.pages_path(), "an entry of the catalog is malformed"));
                };
                txns.trees.raise_ids_above(tree.id);
                txns.trees.add(tree);
                let entry = CatalogEntry::new(&name, tree, txns.trees.counter_of(tree.id), metadata);
                tables.insert(name, entry);
            }
        }
        Ok(())
    }

    fn no_wait() -> Rules {
        Rules {
            conflicts_after: None,
            younger: false,
            overtakes: Lsn::MAX,
            wait: Wait::NoWait,
            serializable: false,
        }
    }

    /// Makes one change of the catalog's tree. No other transaction changes it meanwhile, so
    /// nothing is waited for.
    fn write(&self, txn: &Txn, name: &str, new: New<'_>) -> Result {
        let wrote = self.txns.writer().write_row(
            txn,
            CATALOG,
            name.as_bytes(),
            new,
            Self::no_wait(),
            &mut AlwaysAdmitted,
        )?;
        base::check!(matches!(wrote, Wrote::Done { .. }), "the catalog in memory is not the one in the tree");
        Ok(())
    }

    fn commit(&self, txn: &Txn) -> Result<Lsn> {
        Ok(self.txns.commits().commit(txn, None)?.expect("the catalog was changed"))
    }

    /// Returns the table of that name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<CatalogEntry>> {
        let found = self.tables.lock().get(name).cloned();
        found.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })
    }

    /// Returns all names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tables.lock().keys().cloned().collect()
    }

    /// Returns the names that begin with a text, sorted. What it costs depends on how many these
    /// are, not on how many there are of all tables.
    pub(crate) fn names_with_prefix(&self, prefix: &str) -> Vec<String> {
        let tables = self.tables.lock();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let names = tables.range::<str, _>(from).map(|(name, _)| name);
        names.take_while(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// Returns all tables, sorted by name.
    pub(crate) fn list(&self) -> Vec<Arc<CatalogEntry>> {
        self.tables.lock().values().cloned().collect()
    }

    /// Returns the catalog's own tree, for checks.
    pub(crate) fn tree(&self) -> Tree {
        CATALOG
    }

    /// Creates tables, all or none. They can be used at once. The caller makes the returned LSN
    /// durable. Calls `room` before each table, for room in the log, and keeps what it returns
    /// until the table is made.
    pub(crate) fn create<G>(
        &self,
        names: &[&str],
        room: impl Fn() -> Result<G>,
    ) -> Result<(Vec<Arc<CatalogEntry>>, Lsn)> {
        names.iter().try_for_each(|name| check_name(name))?;
        let _changing = self.changing.lock();
        for (i, &name) in names.iter().enumerate() {
            if self.tables.lock().contains_key(name) || names[..i].contains(&name) {
                return Err(Error::TableExists { name: name.to_owned() });
            }
        }
        let txn = Txn::default();
        let mut made = Vec::new();
        self.txns.trees.add_tableless(names.len());
        let result = self.create_in(&txn, names, room, &mut made).and_then(|()| self.commit(&txn));
        match result {
            Ok(lsn) => {
                for entry in &made {
                    entry.set_born(lsn);
                    self.txns.trees.add(entry.tree);
                    self.tables.lock().insert(entry.name(), Arc::clone(entry));
                }
                self.txns.trees.sub_tableless(names.len());
                Ok((made, lsn))
            }
            Err(error) => {
                self.txns.rollbacks().rollback(&txn);
                self.txns.trees.sub_tableless(names.len() - made.len());
                made.iter().for_each(|entry| self.txns.releaser().release(entry.tree.id));
                Err(error)
            }
        }
    }

    fn create_in<G>(
        &self,
        txn: &Txn,
        names: &[&str],
        room: impl Fn() -> Result<G>,
        made: &mut Vec<Arc<CatalogEntry>>,
    ) -> Result {
        for &name in names {
            let _room = room()?;
            let tree = Tree::create(&self.txns.store, self.txns.trees.new_id()?)?;
            made.push(CatalogEntry::new(name, tree, self.txns.trees.counter_of(tree.id), &[]));
            self.write(txn, name, New::Insert(&encode(tree, &[])))?;
        }
        Ok(())
    }

    /// Begins to load a table.
    pub(crate) fn begin_load(&self, name: &str, metadata: &[u8]) -> Result<TableLoad> {
        check_name(name)?;
        check_metadata(metadata)?;
        let _changing = self.changing.lock();
        if self.tables.lock().contains_key(name) {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let (txn, id) = (Txn::default(), self.txns.trees.new_id()?);
        self.txns.trees.add_tableless(1);
        let begun = self.txns.loads().begin_load(&txn, id).and_then(|bulk| {
            self.write(&txn, name, New::Insert(&encode(bulk.tree(), metadata)))?;
            Ok(bulk)
        });
        match begun {
            Ok(bulk) => Ok(TableLoad { name: name.to_owned(), metadata: metadata.to_vec(), txn, bulk }),
            Err(error) => {
                self.discard_load(&txn, id);
                Err(error)
            }
        }
    }

    /// Adds a row to a table that is being loaded. After an error the caller must abandon the load.
    pub(crate) fn load_row(
        &self,
        loading: &mut TableLoad,
        key: &[u8],
        value: &[u8],
        sink: &dyn BulkSink,
    ) -> Result {
        self.txns.loads().load_row(&loading.txn, &mut loading.bulk, key, value, sink)
    }

    /// Ends a load and returns the table, its number of rows, and the LSN of its commit. The table
    /// can be used at once. The caller makes the LSN durable.
    pub(crate) fn finish_load(
        &self,
        mut loading: TableLoad,
        sink: &dyn BulkSink,
    ) -> Result<(Arc<CatalogEntry>, u64, Lsn)> {
        let finished = loading.bulk.finish(&self.txns.store, sink);
        let _changing = self.changing.lock();
        match finished.and_then(|()| self.commit(&loading.txn)) {
            Ok(lsn) => {
                let (tree, metadata) = (loading.bulk.tree(), &loading.metadata);
                let counter = self.txns.trees.counter_of(tree.id);
                let entry = CatalogEntry::new(&loading.name, tree, counter, metadata);
                entry.set_born(lsn);
                self.txns.trees.add(entry.tree);
                self.tables.lock().insert(loading.name, Arc::clone(&entry));
                self.txns.trees.sub_tableless(1);
                Ok((entry, loading.bulk.rows(), lsn))
            }
            Err(error) => {
                self.abandon_load(&loading, sink);
                Err(error)
            }
        }
    }

    /// Ends a load without leaving anything of it.
    pub(crate) fn abandon_load(&self, loading: &TableLoad, sink: &dyn BulkSink) {
        // A page written after its extent was released could overwrite a page of another tree. The
        // result of the writes does not matter.
        drop(sink.wait_for_writes());
        self.discard_load(&loading.txn, loading.bulk.tree().id);
    }

    /// Releases a tree that did not become a table. Its pages are released before the transaction
    /// ends: a check that finds no unfinished transaction reports every page that no table leads to
    /// as lost.
    fn discard_load(&self, txn: &Txn, tree: TreeId) {
        self.txns.releaser().release(tree);
        self.txns.rollbacks().rollback(txn);
    }

    /// Waits until no other transaction uses the tables, then locks them for `txn`. The caller
    /// keeps `closed` until `txn` has ended. REQUIRES: `txn` has no lock.
    fn lock_exclusively<'e>(
        &self,
        txn: &Txn,
        entries: &'e [Arc<CatalogEntry>],
        wait: Duration,
        closed: &mut Vec<Closed<'e>>,
    ) -> Result {
        // All of them are closed and waited for before the first lock; see `lock::users`.
        closed.extend(entries.iter().map(|entry| entry.users.close()));
        let (clock, locks) = (&*self.txns.clock, &self.txns.locks);
        for table in &*closed {
            table.wait(clock, wait, || locks.stopped()).map_err(denied)?;
        }
        let owner = self.txns.owner(txn);
        for entry in entries {
            let (tree, wait) = (entry.tree.id, Wait::Until(wait));
            let owned = locks.lock_table(owner, tree, TableLock::Exclusive, wait);
            self.txns.waits.await_lock(owned)?;
            entry.check()?;
        }
        Ok(())
    }

    /// Ends all waits for users of tables. REQUIRES: the lock table has been told to stop.
    pub(crate) fn stop(&self) {
        self.list().iter().for_each(|entry| entry.users.wake());
    }

    /// Drops tables, all or none, after no other transaction uses them. The caller makes the
    /// returned LSN durable, then calls [`Catalog::reclaim`]. Calls `room` before each table, for
    /// room in the log.
    pub(crate) fn drop_tables(
        &self,
        names: &[&str],
        wait: Duration,
        room: impl Fn() -> Result,
    ) -> Result<(Vec<Arc<CatalogEntry>>, Lsn)> {
        let mut entries = names.iter().map(|name| self.find(name)).collect::<Result<Vec<_>>>()?;
        // In one order, so that two transactions that drop the same tables cannot deadlock.
        entries.sort_by_key(|entry| entry.tree.id);
        if let Some(twice) = entries.windows(2).find(|pair| pair[0].tree.id == pair[1].tree.id) {
            return Err(Error::NoSuchTable { name: twice[0].name() });
        }
        let txn = Txn::default();
        let mut closed = Vec::new();
        let dropped = self.lock_exclusively(&txn, &entries, wait, &mut closed).and_then(|()| {
            let _changing = self.changing.lock();
            for entry in &entries {
                room()?;
                self.write(&txn, &entry.name(), New::Delete)?;
            }
            self.txns.trees.add_tableless(entries.len());
            // Before the locks are released, because the next holder must see it.
            for entry in &entries {
                entry.dropped.store(true, Ordering::Release);
                self.tables.lock().remove(&entry.name());
            }
            self.commit(&txn)
        });
        if dropped.is_err() {
            self.txns.rollbacks().rollback(&txn);
        }
        drop(closed);
        dropped.map(|lsn| (entries, lsn))
    }

    /// Releases the pages of dropped tables, or leaves that for later if something prevents it.
    pub(crate) fn reclaim(&self, dropped: &[Arc<CatalogEntry>]) {
        for entry in dropped {
            self.txns.trees.remove(entry.tree.id);
            self.txns.versions.forget_tree(entry.tree.id);
            self.txns.trees.forget_counter(entry.tree.id);
            self.txns.releaser().release(entry.tree.id);
        }
    }

    /// Renames a table after no other transaction uses it. The caller makes the returned LSN
    /// durable.
    pub(crate) fn rename(&self, from: &str, to: &str, wait: Duration) -> Result<Lsn> {
        check_name(to)?;
        let entry = self.find(from)?;
        let txn = Txn::default();
        let mut closed = Vec::new();
        let renamed =
            self.lock_exclusively(&txn, std::slice::from_ref(&entry), wait, &mut closed).and_then(|()| {
                let _changing = self.changing.lock();
                if entry.name() != from {
                    return Err(Error::NoSuchTable { name: from.to_owned() });
                }
                if self.tables.lock().contains_key(to) {
                    return Err(Error::TableExists { name: to.to_owned() });
                }
                self.write(&txn, from, New::Delete)?;
                self.write(&txn, to, New::Insert(&encode(entry.tree, &entry.metadata())))?;
                let lsn = self.commit(&txn)?;
                let mut tables = self.tables.lock();
                tables.remove(from);
                to.clone_into(&mut entry.name.lock());
                tables.insert(to.to_owned(), Arc::clone(&entry));
                Ok(lsn)
            });
        if renamed.is_err() {
            self.txns.rollbacks().rollback(&txn);
        }
        drop(closed);
        renamed
    }
}
