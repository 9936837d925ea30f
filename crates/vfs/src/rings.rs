//! The rings of a disk: one for each batch that is under way, kept for the next. Says once whether the system has
//! io_uring at all.

use crate::uring::{Ring, RingJob};
use base::sync::Mutex;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// Idle rings kept. A cleaner and a few readers ahead are all that run at once.
const IDLE_MAX: usize = 8;

/// The rings of a disk.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// Filled by an initialiser that waits for nobody, so the cell is no hidden wait.
    support: OnceLock<Result<(), String>>,
    pool: Mutex<RingPool>,
}

#[derive(Debug, Default)]
struct RingPool {
    idle: Vec<Ring>,
    /// Lock files that every ring holds.
    locks: Vec<Arc<OwnedFd>>,
    /// Counts the changes of `locks`; a ring of an older set is not used again.
    generation: u64,
}

impl Rings {
    /// Rings that are never used, and why.
    pub(crate) fn none(why: &str) -> Rings {
        Rings { support: OnceLock::from(Err(why.to_owned())), pool: Mutex::default() }
    }

    /// Whether batches go through rings; if not, why.
    pub(crate) fn support(&self) -> Result<(), &str> {
        self.support.get_or_init(Ring::probe).as_ref().copied().map_err(String::as_str)
    }

    /// Has every ring from now on hold `lock`.
    pub(crate) fn add_lock(&self, lock: Arc<OwnedFd>) {
        self.change_locks(|locks| locks.push(lock));
    }

    /// Has no ring hold `lock` any more, once those in use are given back.
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

    /// Does all jobs on `fd`, or `None` if no ring is to be had.
    pub(crate) fn run(&self, fd: BorrowedFd<'_>, jobs: &mut [RingJob<'_>]) -> Option<io::Result<()>> {
        let mut ring = self.take()?;
        let done = ring.run(fd, jobs);
        self.give_back(ring);
        Some(done)
    }

    /// A ring that nobody else uses.
    pub(crate) fn take(&self) -> Option<Ring> {
        self.support().ok()?;
        let (locks, generation) = {
            let mut pool = self.pool.lock();
            if let Some(ring) = pool.idle.pop() {
                return Some(ring);
            }
            (pool.locks.clone(), pool.generation)
        };
        // Out of memory or of descriptors: this batch does without.
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
