//! What an administrator looks at: transactions, locks, which transaction waits for which, and the
//! last deadlocks.

use super::{Db, RowLock, Xid};
use crate::lock::{Mode, SeenDeadlock, SeenLock, SeenPlace};
use base::{TreeId, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction that has locked or changed something and has not ended, see [`Db::transactions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionInfo {
    /// Its number. Numbers grow in the order in which transactions first lock or change something.
    pub id: u64,
    /// What the program calls it, see [`TxnOptions::tag`](crate::TxnOptions::tag).
    pub tag: u64,
    /// Changes of rows that it would lose if it were rolled back.
    pub rows_changed: u64,
    /// Locks that it holds: rows, tables, counters, and one for its ranges in each table. Rows that
    /// it has changed count only if another transaction has waited for them.
    pub locks: u64,
    /// Bytes of its undo.
    pub undo_bytes: u64,
    /// Its name, if it is prepared.
    pub xid: Option<Xid>,
    /// The lock for which it waits.
    pub waits_for: Option<LockInfo>,
}

/// What a lock is of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockPlace {
    /// The whole table.
    Table,
    /// The table's counter.
    Counter,
    /// A key, with a row or without one.
    Row {
        /// The key.
        key: Vec<u8>,
    },
    /// Adjacent keys.
    Range {
        /// The first of them.
        from: Vec<u8>,
        /// The first key beyond, or none: to the end of the table.
        to: Option<Vec<u8>>,
        /// No other transaction can insert a row between those that there are.
        gaps: bool,
    },
    /// No lock: a scan lets transactions go first that have waited for its range.
    Turn,
}

/// A lock, or a request for one, see [`Db::locks`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The number of the transaction.
    pub transaction: u64,
    /// What the program calls the transaction.
    pub tag: u64,
    /// The name of the table; empty for one that is being made or was dropped.
    pub table: String,
    /// What the lock is of.
    pub place: LockPlace,
    /// Its mode.
    pub mode: RowLock,
    /// The request waits.
    pub waits: bool,
}

/// A request that waits, see [`Db::lock_waits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitInfo {
    /// The request.
    pub request: LockInfo,
    /// The transactions for which it waits: their numbers and their tags.
    pub blockers: Vec<(u64, u64)>,
}

/// A transaction of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockMember {
    /// The transaction as it was then.
    pub transaction: TransactionInfo,
    /// Its lock for which the member before it waits. None: it only stands before that one in the
    /// queue of a lock.
    pub holds: Option<LockInfo>,
    /// It is the one that was rolled back.
    pub victim: bool,
}

/// A deadlock: each member waits for the next one, and the last for the first. See
/// [`Db::deadlocks`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// Deadlocks are numbered from 1 on since the database was opened.
    pub number: u64,
    /// The transactions. Of very long cycles only the first ones and the victim.
    pub members: Vec<DeadlockMember>,
}

/// The names of tables by their trees.
struct Names(BTreeMap<TreeId, String>);

impl Names {
    fn lock(&self, lock: SeenLock) -> LockInfo {
        LockInfo {
            transaction: lock.txn.0,
            tag: lock.tag,
            table: self.0.get(&lock.tree).cloned().unwrap_or_default(),
            place: match lock.place {
                SeenPlace::Table => LockPlace::Table,
                SeenPlace::Counter => LockPlace::Counter,
                SeenPlace::Row(key) => LockPlace::Row { key },
                SeenPlace::Range { from, to, gaps } => LockPlace::Range { from, to, gaps },
                SeenPlace::Turn => LockPlace::Turn,
            },
            mode: match lock.mode {
                Mode::Shared => RowLock::Shared,
                Mode::Exclusive => RowLock::Exclusive,
            },
            waits: lock.waits,
        }
    }
}

impl Db {
    /// Returns the names of those tables in which there are locks.
    fn names_of(&self, trees: impl Iterator<Item = TreeId>) -> Names {
        let trees: BTreeSet<TreeId> = trees.collect();
        if trees.is_empty() {
            return Names(BTreeMap::new());
        }
        let tables = self.core.catalog.list().into_iter();
        let named = tables.filter(|entry| trees.contains(&entry.tree.id));
        Names(named.map(|entry| (entry.tree.id, entry.name())).collect())
    }

    /// Returns the transactions that have locked or changed something, by their numbers. It is no
    /// picture of one moment, and each may have ended meanwhile. Works after a failure too.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin_with(millpond::TxnOptions::new().tag(7))?;
    /// tx.put(&table, b"key", b"value")?;
    /// let [shown] = &db.transactions()[..] else { panic!("one transaction") };
    /// assert_eq!((shown.tag, shown.rows_changed, shown.waits_for.is_some()), (7, 1, false));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn transactions(&self) -> Vec<TransactionInfo> {
        if self.core.gate.is_in_child() {
            return Vec::new();
        }
        let txns = &self.core.engine.txns;
        let seen = txns.locks.transactions();
        let names = self.names_of(seen.iter().filter_map(|txn| txn.waits_for.as_ref()).map(|lock| lock.tree));
        let prepared = txns.two_phase().prepared_ids();
        let shown = seen.into_iter().map(|txn| TransactionInfo {
            id: txn.txn.0,
            tag: txn.tag,
            rows_changed: txn.rows_changed,
            locks: txn.locks,
            undo_bytes: txns.versions.undo_bytes_of(txn.txn),
            xid: prepared.get(&txn.txn).cloned(),
            waits_for: txn.waits_for.map(|lock| names.lock(lock)),
        });
        shown.collect()
    }

    /// Returns locks and requests that wait, at most `most`. It is no picture of one moment. Of the
    /// rows that a transaction has changed it shows those for which another one has waited; the
    /// others are locked by their new versions alone. Works after a failure too.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.get_for_update(&table, b"key")?;
    /// let [lock] = &db.locks(100)[..] else { panic!("one lock") };
    /// assert_eq!((&lock.table[..], lock.mode), ("t", millpond::RowLock::Exclusive));
    /// assert_eq!(lock.place, millpond::LockPlace::Row { key: b"key".to_vec() });
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn locks(&self, most: usize) -> Vec<LockInfo> {
        if self.core.gate.is_in_child() {
            return Vec::new();
        }
        let seen = self.core.engine.txns.locks.locks(most);
        let names = self.names_of(seen.iter().map(|lock| lock.tree));
        seen.into_iter().map(|lock| names.lock(lock)).collect()
    }

    /// Returns the requests that wait, at most `most`, each with the transactions for which it
    /// waits. It is no picture of one moment. Works after a failure too.
    #[must_use]
    pub fn lock_waits(&self, most: usize) -> Vec<WaitInfo> {
        if self.core.gate.is_in_child() {
            return Vec::new();
        }
        let seen = self.core.engine.txns.locks.waiting(most);
        let names = self.names_of(seen.iter().map(|wait| wait.request.tree));
        let shown = seen.into_iter().map(|wait| WaitInfo {
            request: names.lock(wait.request),
            blockers: wait.blockers.into_iter().map(|(TxnId(id), tag)| (id, tag)).collect(),
        });
        shown.collect()
    }

    /// Returns the last deadlocks, up to sixteen, the latest last. Works after a failure too.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<Deadlock> {
        if self.core.gate.is_in_child() {
            return Vec::new();
        }
        let seen = self.core.engine.txns.locks.last_deadlocks();
        let locks = seen.iter().flat_map(|deadlock| &deadlock.members);
        let locks = locks.flat_map(|member| member.txn.waits_for.iter().chain(&member.holds));
        let names = self.names_of(locks.map(|lock| lock.tree));
        seen.into_iter().map(|deadlock| report_of(deadlock, &names)).collect()
    }
}

fn report_of(deadlock: SeenDeadlock, names: &Names) -> Deadlock {
    let members = deadlock.members.into_iter().map(|member| DeadlockMember {
        transaction: TransactionInfo {
            id: member.txn.txn.0,
            tag: member.txn.tag,
            rows_changed: member.txn.rows_changed,
            locks: member.txn.locks,
            undo_bytes: 0,
            xid: None,
            waits_for: member.txn.waits_for.map(|lock| names.lock(lock)),
        },
        holds: member.holds.map(|lock| names.lock(lock)),
        victim: member.victim,
    });
    Deadlock { number: deadlock.number, members: members.collect() }
}
