//! The engine's metrics: levels are read on request, and counters that parts keep for themselves
//! are copied.

use super::log_size::LogSize;
use super::pool_size::PoolSize;
use crate::error::Poison;
use crate::tree_store::Store;
use crate::txn::Txns;
use metrics::{M, Snapshot};
use std::sync::Arc;
use vfs::Clock;

/// Where the figures come from.
pub(super) struct Figures {
    store: Arc<Store>,
    txns: Arc<Txns>,
    log_size: Arc<LogSize>,
    pool_size: Arc<PoolSize>,
    poison: Arc<Poison>,
    clock: Arc<dyn Clock>,
    /// When the database was opened, microseconds.
    opened_us: u64,
}

impl Figures {
    /// The figures of a database that was opened at `opened_us`.
    pub(super) fn new(
        (store, txns): (&Arc<Store>, &Arc<Txns>),
        (log_size, pool_size): (&Arc<LogSize>, &Arc<PoolSize>),
        poison: &Arc<Poison>,
        clock: &Arc<dyn Clock>,
        opened_us: u64,
    ) -> Figures {
        Figures {
            store: Arc::clone(store),
            txns: Arc::clone(txns),
            log_size: Arc::clone(log_size),
            pool_size: Arc::clone(pool_size),
            poison: Arc::clone(poison),
            clock: Arc::clone(clock),
            opened_us,
        }
    }

    /// Returns all metrics, with levels as they are now.
    pub(super) fn read(&self) -> Snapshot {
        let store = &self.store;
        let (metrics, log, pool) = (&store.metrics, &store.log, &store.pool);
        let now_us = self.clock.now_us();
        let reserved = log.reserved_lsn();
        metrics.set(M::CurrentLsn, reserved.0);
        metrics.set(M::DurableLsn, log.durable_lsn().0);
        // The checkpoint may have moved beyond the end of the log that was read above.
        let checkpoint = metrics.get(M::CheckpointLsn);
        let least_dirty = pool.min_first_dirty().unwrap_or(reserved);
        metrics.set(M::PagesFlushedLsn, least_dirty.0.min(reserved.0).max(checkpoint));
        metrics.set(M::CheckpointAgeBytes, reserved.0.saturating_sub(metrics.get(M::CheckpointLsn)));
        metrics.set(M::RedoCapacityBytes, self.log_size.configured());
        metrics.set(M::DirtyPages, pool.differing_pages() as u64);
        let (frames, free) = (pool.frame_count() as u64, pool.free_frames() as u64);
        metrics.set(M::BufferFrames, frames);
        metrics.set(M::FreeFrames, free);
        metrics.set(M::LruPages, frames.saturating_sub(free));
        metrics.set(M::FreeFramesReserve, pool.free_reserve() as u64);
        metrics.set(M::BufferOverheadBytes, pool.overhead() as u64);
        metrics.set(M::BufferPoolBytes, self.pool_size.bytes());
        metrics.set(M::FreePages, store.space.free_pages());
        metrics.set(M::SpaceMapBytes, store.space.map_bytes());
        let txns = &self.txns;
        metrics.set(M::AbortedTransactions, txns.ended.aborted() as u64);
        metrics.set(M::TransactionsSetAside, txns.ended.unreadable() as u64);
        metrics.set(M::TreesWithoutTable, txns.trees.tableless());
        metrics.set(M::PreparedTransactions, txns.two_phase().prepared_xids().len() as u64);
        metrics
            .set(M::HistoryTransactions, txns.ended.to_purge() as u64 + txns.versions.in_history_batches());
        metrics.set(M::OpenSnapshots, txns.versions.open_snapshots() as u64);
        let past = txns.history_keeper().past();
        metrics.set(M::UndoBytes, past.undo);
        metrics.set(M::UndoFetches, txns.versions.undo_fetches());
        metrics.set(M::StatusBytes, past.status + txns.versions.shortcut_bytes());
        metrics.set(M::LockBytes, past.locks);
        metrics.set(M::HistoryBudgetBytes, past.budget);
        metrics.set(M::LockWaits, txns.locks.waits());
        metrics.set(M::Deadlocks, txns.locks.deadlocks());
        let (searched_us, longest_us) = txns.locks.searched_us();
        metrics.set(M::DeadlockSearchUsTotal, searched_us);
        metrics.set(M::DeadlockStoodUsMax, longest_us);
        metrics.set(M::LocksHeld, txns.locks.held());
        metrics.set(M::RangeLocks, txns.locks.ranges_held());
        metrics.set(M::UptimeSeconds, now_us.saturating_sub(self.opened_us) / 1_000_000);
        metrics.set(M::Poisoned, u64::from(self.poison.is_set()));
        metrics.snapshot()
    }

    /// Records that the database is open: the first transaction may begin.
    pub(super) fn note_open(&self) {
        let took_us = self.clock.now_us().saturating_sub(self.opened_us);
        self.store.metrics.set(M::RecoveryOpenMs, took_us / 1000);
    }
}
