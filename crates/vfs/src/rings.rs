//! A pool of io_urings of a disk. Each running batch has a ring of its own; the pool keeps idle
//! rings for the next batches. Checks once whether the system has io_uring at all.

use crate::uring::{Ring, RingJob};
use base::sync::Mutex;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// The most idle rings that are kept. Only a cleaner and a few readers ahead run batches at the
/// same time.
const IDLE_MAX: usize = 8;

/// The rings of a disk.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// Its initialiser waits for no other thread, so the cell is no hidden wait.
    support: OnceLock<Result<(), String>>,
    pool: Mutex<RingPool>,
}

#[derive(Debug, Default)]
struct RingPool {
    idle: Vec<Ring>,
    /// Lock files that every ring holds open.
    locks: Vec<Arc<OwnedFd>>,
    /// Counts the changes of `locks`. A ring with an older set is not used again.
    generation: u64,
}

impl Rings {
    /// Makes a pool without rings, for the reason `why`.
    #[cfg(test)]
    pub(crate) fn none(why: &str) -> Rings {
        Rings { support: OnceLock::from(Err(why.to_owned())), pool: Mutex::default() }
    }

    /// Whether batches use rings. If not, returns the reason.
    pub(crate) fn support(&self) -> Result<(), &str> {
        self.support.get_or_init(Ring::probe).as_ref().copied().map_err(String::as_str)
    }

    /// Adds a lock file: every new ring holds it open.
    pub(crate) fn add_lock(&self, lock: Arc<OwnedFd>) {
        self.change_locks(|locks| locks.push(lock));
    }

    /// Removes a lock file: no ring holds it any more after the rings in use are given back.
    pub(crate) fn remove_lock(&self, lock: &Arc<OwnedFd>) {
        self.change_locks(|locks| locks.retain(|held| !Arc::ptr_eq(held, lock)));
    }

    fn change_locks(&self, change: impl FnOnce(&mut Vec<Arc<OwnedFd>>)) {
        let outdated = {
            let mut pool = self.pool.lock();
            change(&mut pool.locks);
            pool.generation += 1;
            std::mem::take(&mut pool.idle)
        };
        drop(outdated);
    }

    /// Does all jobs on `fd`. Returns `None` if there is no ring.
    pub(crate) fn run(&self, fd: BorrowedFd<'_>, jobs: &mut [RingJob<'_>]) -> Option<io::Result<()>> {
        let mut ring = self.take()?;
        let done = ring.run(fd, jobs);
        self.give_back(ring);
        Some(done)
    }

    /// Returns a ring that no other batch uses.
    pub(crate) fn take(&self) -> Option<Ring> {
        self.support().ok()?;
        let (locks, generation) = {
            let mut pool = self.pool.lock();
            if let Some(ring) = pool.idle.pop() {
                return Some(ring);
            }
            (pool.locks.clone(), pool.generation)
        };
        // If memory or descriptors run out, this batch goes without a ring.
        Ring::new(&locks, generation).ok()
    }

    fn give_back(&self, ring: Ring) {
        let mut pool = self.pool.lock();
        if ring.is_sound() && ring.generation == pool.generation && pool.idle.len() < IDLE_MAX {
            pool.idle.push(ring);
            return;
        }
        drop(pool);
        drop(ring);
    }
}
