//! Snapshots, and the oldest one that somebody holds.
//!
//! A snapshot is the log's reservation point, read and registered under the mutex of one shard. The horizon reads the
//! reservation point first and looks through the shards after: a snapshot drawn meanwhile is either seen in its shard or
//! lies at or above that first reading. So nobody sees less than the horizon shows, now or later.

use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

const SHARDS: usize = 8;

/// The live snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// How many snapshots there are at each LSN.
    shards: [Mutex<BTreeMap<Lsn, usize>>; SHARDS],
    next_shard: AtomicUsize,
}

/// A moment in commit order; sees every commit below its LSN. Versions that it needs are kept until it is dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    lsn: Lsn,
    shard: usize,
    all: Arc<Snapshots>,
}

impl Snapshots {
    /// Draws a snapshot; `reserved` reads the log's reservation point and must not wait.
    pub(crate) fn draw(self: &Arc<Self>, reserved: impl FnOnce() -> Lsn) -> Snapshot {
        let shard = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut live = self.shards[shard].lock();
        let lsn = reserved();
        *live.entry(lsn).or_insert(0) += 1;
        Snapshot { lsn, shard, all: Arc::clone(self) }
    }

    /// Commits below this LSN are seen by every snapshot, those held now and those drawn later.
    pub(crate) fn horizon(&self, reserved: impl FnOnce() -> Lsn) -> Lsn {
        let now = reserved();
        self.shards.iter().filter_map(|s| s.lock().keys().next().copied()).fold(now, Lsn::min)
    }

    /// How many snapshots are held.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().values().sum::<usize>()).sum()
    }
}

impl Snapshot {
    /// Commits below it are seen.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut live = self.all.shards[self.shard].lock();
        let count = live.get_mut(&self.lsn).expect("registered when it was drawn");
        *count -= 1;
        if *count == 0 {
            live.remove(&self.lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_snapshot_holds_the_horizon() {
        let all = Arc::new(Snapshots::default());
        assert_eq!(all.horizon(|| Lsn(5)), Lsn(5));
        let a = all.draw(|| Lsn(10));
        let b = all.draw(|| Lsn(10));
        let c = all.draw(|| Lsn(20));
        assert_eq!((all.horizon(|| Lsn(30)), all.len()), (Lsn(10), 3));
        drop(a);
        assert_eq!(all.horizon(|| Lsn(30)), Lsn(10));
        drop(b);
        assert_eq!(all.horizon(|| Lsn(30)), Lsn(20));
        drop(c);
        assert_eq!((all.horizon(|| Lsn(30)), all.len()), (Lsn(30), 0));
    }
}
