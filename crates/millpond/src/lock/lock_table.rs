//! [`LockTable`]: the locks of a database. Here is how transactions begin and end, how waits end,
//! and what is shown; `requests` has the requests.

use super::deadlock::Deadlocks;
use super::key::LockKey;
use super::owner::WakeList;
use super::queue_table::QueueTable;
use super::ranges::Ranges;
use super::report::LockView;
use super::seen::{SeenDeadlock, SeenLock, SeenTxn, SeenWait, Told};
use super::shared::{LockMemory, Shared, Waits};
use super::{CancelFlag, Owner, WaitObserver, wait_state};
use base::{ByTxn, Spread, TreeId, TxnId};
use std::sync::Arc;
use vfs::Clock;

/// All locks of a database.
#[derive(Debug)]
pub(crate) struct LockTable {
    pub(super) owners: ByTxn<Arc<Owner>>,
    pub(super) queues: QueueTable,
    pub(super) ranges: Ranges,
    pub(super) shared: Shared,
    deadlocks: Deadlocks,
    clock: Arc<dyn Clock>,
}

impl LockTable {
    /// An empty table. Its locks may take about `bytes_most` bytes of memory.
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_most: u64) -> LockTable {
        LockTable {
            owners: ByTxn::default(),
            queues: QueueTable::new(Spread::from(clock.random_u64())),
            ranges: Ranges::default(),
            shared: Shared { memory: LockMemory::new(bytes_most), waits: Waits::default() },
            deadlocks: Deadlocks::new(Arc::clone(&clock)),
            clock,
        }
    }

    /// Registers a transaction. REQUIRES: called before its first lock and its first uncommitted
    /// version, also for a transaction that recovery found prepared.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Owner> {
        self.begin_as(txn, 0)
    }

    /// As [`LockTable::begin`], for a transaction that the observer of waits knows by `name`.
    pub(crate) fn begin_as(&self, txn: TxnId, name: u64) -> Arc<Owner> {
        let owner = Arc::new(Owner::new(txn, name));
        let before = self.owners.insert(txn, Arc::clone(&owner));
        base::check!(before.is_none(), "{txn} begins twice");
        owner
    }

    /// Releases all locks of a transaction that ends, and grants them to waiting requests.
    /// REQUIRES: its state is final, so that a transaction that reads it now finds it ended.
    pub(crate) fn release_all(&self, owner: &Owner) {
        let (urgent, chunks) = owner.close();
        self.owners.remove(owner.txn);
        urgent.iter().for_each(|key| self.release(owner, key));
        self.release_chunks(owner, chunks);
    }

    pub(super) fn release_chunks(&self, owner: &Owner, chunks: Vec<Vec<LockKey>>) {
        for chunk in chunks {
            self.memory().drop_chunk(&chunk, |key| self.release(owner, key));
        }
    }

    /// Releases one lock, under its shard's mutex alone. The lock may be gone already.
    pub(super) fn release(&self, owner: &Owner, key: &LockKey) {
        if key.in_queue() {
            return self.queues.release(self.memory(), owner, key);
        }
        let mut woken = WakeList::default();
        self.memory().give(self.ranges.release(owner, key, &mut woken));
    }

    /// Releases a row lock whose work the row's version does from now on, unless another
    /// transaction waits in its queue: that one would get the lock, and the version would exclude
    /// it all the same. REQUIRES: as [`LockTable::release_row`].
    pub(crate) fn release_row_for_version(&self, owner: &Owner, tree: TreeId, key: &[u8]) {
        self.queues.release_unless_awaited(self.memory(), owner, &LockKey::row(tree, key));
    }

    /// Releases a row lock before the end of its transaction. Returns false, and keeps the lock, if
    /// it is neither one of the last that the transaction has got nor in a range that locks rows
    /// without their gaps. REQUIRES: the transaction's own request made the lock, and nothing
    /// relies on it.
    pub(crate) fn release_row(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let row = LockKey::row(tree, key);
        if !self.memory().forget(owner, &row) {
            return self.ranges.cut_row(self.memory(), owner, tree, key);
        }
        self.release(owner, &row);
        true
    }

    /// Releases the lock on a table's counter, if `owner` has it.
    pub(crate) fn release_counter(&self, owner: &Owner, tree: TreeId) {
        let key = LockKey::counter(tree);
        if owner.forget_counter(&key) {
            self.release(owner, &key);
        }
    }

    /// Makes every wait fail, now and later: the database closes or is poisoned.
    pub(crate) fn stop(&self) {
        self.shared.waits.stop();
        self.ranges.stop();
        self.queues.stop(self.memory());
    }

    /// Returns whether every wait fails.
    pub(crate) fn stopped(&self) -> bool {
        self.shared.waits.stopped()
    }

    /// Sets the flag, and ends the wait of the transaction that it can reach.
    pub(crate) fn cancel(&self, flag: &CancelFlag) {
        // If this wait has ended meanwhile, the key is of an old wait, and nothing happens.
        if let Some(owner) = flag.set()
            && let Some(key) = owner.waits_for()
        {
            self.withdraw(&owner, &key, wait_state::CANCELLED);
        }
    }

    /// Ends the wait of a request with the reason `why`. Returns false if it does not wait.
    pub(super) fn withdraw(&self, owner: &Arc<Owner>, key: &LockKey, why: u32) -> bool {
        if key.in_queue() {
            return self.queues.withdraw(self.memory(), owner, key, why);
        }
        let mut woken = WakeList::default();
        let freed = self.ranges.withdraw(owner, key, why, &mut woken);
        self.memory().give(freed.unwrap_or(0));
        freed.is_some()
    }

    /// Breaks every deadlock cycle through `start`, whose wait began at `begun_us`.
    pub(super) fn break_cycles(&self, start: &Arc<Owner>, begun_us: u64) {
        let withdraw = |owner: &Arc<Owner>, key: &LockKey, why| self.withdraw(owner, key, why);
        self.deadlocks.break_cycles(self.view(), start, begun_us, withdraw);
    }

    /// The time of waits, microseconds.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// What can be read of queues and ranges.
    fn view(&self) -> LockView<'_> {
        LockView::new(&self.queues, &self.ranges)
    }

    #[inline]
    fn memory(&self) -> &LockMemory {
        &self.shared.memory
    }

    /// Memory that locks may take, in bytes.
    pub(crate) fn bytes_most(&self) -> u64 {
        self.memory().bytes_most()
    }

    /// Sets how much memory locks may take. Locks that are held stay.
    pub(crate) fn set_bytes_most(&self, bytes: u64) {
        self.memory().set_bytes_most(bytes);
    }

    /// Memory that locks take, in bytes: queues with the capacity of their maps, ranges, and the
    /// lists of transactions.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory().bytes()
    }

    /// Capacity of the maps of transactions with few locks, bytes.
    #[cfg(test)]
    pub(super) fn bytes_of_few(&self) -> usize {
        self.queues.bytes_of_few()
    }

    /// Victims of deadlocks that were in no cycle.
    #[cfg(test)]
    pub(super) fn wrong_victims(&self) -> u64 {
        self.deadlocks.wrong_victims()
    }

    /// Explicit row locks that are held.
    pub(crate) fn held(&self) -> u64 {
        self.memory().held()
    }

    /// Ranges held.
    pub(crate) fn ranges_held(&self) -> u64 {
        self.ranges.count()
    }

    /// Requests that had to wait, since the start.
    pub(crate) fn waits(&self) -> u64 {
        self.shared.waits.count()
    }

    /// Deadlocks broken, since the start.
    pub(crate) fn deadlocks(&self) -> u64 {
        self.deadlocks.count()
    }

    /// Time spent in deadlock searches, and the longest time from the wait that closed a cycle
    /// until the cycle was broken, microseconds.
    pub(crate) fn searched_us(&self) -> (u64, u64) {
        self.deadlocks.took_us()
    }

    /// Sets the observer of waits. Returns false if there is one already.
    pub(crate) fn observe(&self, observer: Arc<dyn WaitObserver>) -> bool {
        self.shared.waits.observe(observer)
    }

    /// Sets the function that is told of each deadlock. It is called while all members of the cycle
    /// still wait, and must not use locks. REQUIRES: called at most once.
    pub(crate) fn tell_deadlocks(&self, to: Told) {
        self.deadlocks.tell(to);
    }

    /// Returns the last deadlocks, the latest last.
    pub(crate) fn last_deadlocks(&self) -> Vec<SeenDeadlock> {
        self.deadlocks.last()
    }

    /// Returns the transactions that have or want locks, in order of their ids.
    pub(crate) fn transactions(&self) -> Vec<SeenTxn> {
        self.owners_in_order().iter().map(|owner| self.view().seen(owner)).collect()
    }

    /// Returns locks and waiting requests, at most `most`, those of one transaction together.
    pub(crate) fn locks(&self, most: usize) -> Vec<SeenLock> {
        let mut shown = Vec::new();
        for owner in self.owners_in_order() {
            self.view().locks_of(&owner, most, &mut shown);
            if shown.len() >= most {
                break;
            }
        }
        shown
    }

    /// Returns the requests that wait, at most `most`.
    pub(crate) fn waiting(&self, most: usize) -> Vec<SeenWait> {
        let owners = self.owners_in_order();
        owners.iter().filter_map(|owner| self.view().wait_of(owner)).take(most).collect()
    }

    fn owners_in_order(&self) -> Vec<Arc<Owner>> {
        let mut owners = self.owners.list();
        owners.sort_unstable_by_key(|owner| owner.txn);
        owners
    }
}
