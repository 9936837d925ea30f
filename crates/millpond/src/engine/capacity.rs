//! The redo capacity: how many segment files there may be, and how many there are (Lo8, Promise 3). The laws are
//! `pace::capacity` and `pace::segments`.

use super::{Shared, Worker};
use crate::error::{Error, Result};
use crate::log::segment::Segments;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::M;
use pace::segments::{self, SegmentStep};
use pace::thresholds::{Thresholds, thresholds};

/// After a growth that found no space the next one is tried this much later.
const TRY_AGAIN_US: u64 = 10_000_000;

/// Files that one step of the cleaner may make for a short log before it turns to what else there is to do; for a longer one an
/// eighth of those that there are.
const FILES_PER_STEP: u64 = 4;

/// Who writes no more than this is at rest, bytes of redo a second.
const IDLE_BYTES_PER_S: u64 = 1 << 20;
/// What is written in so many seconds finds its files in a log that was made shorter while others write.
const KEPT_SECONDS: u64 = 2;

/// What the redo log may take.
#[derive(Debug)]
pub(super) struct Capacity {
    /// Bytes of log blocks that the segments may hold.
    configured: AtomicU64,
    /// No growth before this time: the disk was full.
    no_growth_until_us: AtomicU64,
    /// How many roots had been written when there was no space for the reserve.
    reserve_failed_at: AtomicU64,
    /// Where the log of the last run ended, and how much redo of it there was. Until the checkpoint has passed it the
    /// log may be that much longer, so that writers do not wait for what recovery brought (Re4).
    recovered: (Lsn, u64),
    changing: Mutex<()>,
}

impl Capacity {
    pub(super) fn new(bytes: u64, recovered: (Lsn, u64)) -> Capacity {
        Capacity {
            configured: AtomicU64::new(bytes),
            no_growth_until_us: AtomicU64::new(0),
            reserve_failed_at: AtomicU64::new(u64::MAX),
            recovered,
            changing: Mutex::new(()),
        }
    }

    /// Allows another size; files follow need.
    pub(super) fn set(&self, bytes: u64) {
        self.configured.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of log blocks that the segments may hold.
    pub(super) fn configured(&self) -> u64 {
        self.configured.load(Ordering::Relaxed)
    }

    fn max_files(&self, segments: &Segments, checkpoint: Lsn) -> u64 {
        let asked = segments::files(self.configured(), segments.block_bytes());
        let (end, redo) = self.recovered;
        asked + if checkpoint < end { redo.div_ceil(segments.shape().payload_bytes()) } else { 0 }
    }
}

/// Redo that the log may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedoRoom {
    /// In the files that there are: what admission goes by.
    pub(super) existing: u64,
    /// In those that there may be: what cleaning goes by, for files follow need.
    pub(super) allowed: u64,
}

impl Shared {
    /// Files that there are and that there may be, while the checkpoint stands there.
    fn files(&self, now_us: u64, checkpoint: Lsn) -> (u64, u64) {
        let segments = self.store.log.segments();
        let (have, most) = (segments.count(), self.capacity.max_files(segments, checkpoint));
        let full = now_us < self.capacity.no_growth_until_us.load(Ordering::Relaxed);
        (have, if full { most.min(have) } else { most })
    }

    /// How much redo the log may hold.
    pub(super) fn redo_room(&self, now_us: u64) -> RedoRoom {
        let payload = self.store.log.segments().shape().payload_bytes();
        let (have, most) = self.files(now_us, self.checkpointer.lsn());
        RedoRoom {
            existing: segments::redo_bytes(have, payload),
            allowed: segments::redo_bytes(most, payload),
        }
    }

    /// Tells admission how much redo the files can hold that there are now.
    pub(super) fn update_marks(&self, now_us: u64) -> Thresholds {
        let (checkpoint, threads) = (self.checkpointer.lsn(), self.threads());
        let payload = self.store.log.segments().shape().payload_bytes();
        self.admission.set_marks(checkpoint, || {
            let (have, most) = self.files(now_us, checkpoint);
            let mut marks = thresholds(segments::redo_bytes(have, payload), threads);
            // While cleaning is held back, the age is meant to grow.
            marks.soft = marks.soft.max(self.hold_cleaning_until.min(marks.hard - marks.hard / 32));
            (marks, segments::grows_above(have, most, payload))
        })
    }

    /// Makes the files without which no log works. Nothing is lost if the disk has no room for them. On a full disk those must do
    /// that a log at rest has: admission goes by them.
    pub(super) fn make_first_files(&self) -> Result {
        let log = &self.store.log;
        match log.segments().at_least(segments::FILES_MIN, log.reserved_lsn()) {
            Err(Error::DiskFull { .. }) if log.segments().count() >= segments::FILES_AT_REST => Ok(()),
            made => made,
        }
    }

    /// Sets the reserve aside again that was spent while the disk was full.
    fn refill_reserve(&self, now_us: u64) -> Result {
        // Where writers wait for it, it waits for files that go with a root, so it is tried after each.
        let at = self.store.metrics.get(M::Checkpoints);
        let is_early = now_us < self.capacity.no_growth_until_us.load(Ordering::Relaxed);
        if is_early
            && (at == self.capacity.reserve_failed_at.load(Ordering::Relaxed) || !self.reserve_is_spent())
        {
            return Ok(());
        }
        match self.reserve.hold() {
            Err(error) if error.may_pass() => {
                self.capacity.reserve_failed_at.store(at, Ordering::Relaxed);
                self.capacity.no_growth_until_us.store(now_us + TRY_AGAIN_US, Ordering::Relaxed);
                Ok(())
            }
            held => held.map_err(|error| self.poison.set(error)),
        }
    }

    /// Makes or removes segment files as the law says, and lets admission know of each.
    pub(super) fn adjust_files(&self, now_us: u64) -> Result {
        // While the capacity is being changed, what was allowed a moment ago says nothing.
        let Some(_changing) = self.capacity.changing.try_lock() else { return Ok(()) };
        self.refill_reserve(now_us)?;
        let log = &self.store.log;
        let segments = log.segments();
        let have = segments.count();
        for _ in 0..if have < segments::FILES_SHORT { FILES_PER_STEP } else { have / 8 } {
            // Whoever writes meanwhile is not waited for, so each file is looked at anew.
            let checkpoint = self.checkpointer.lsn();
            let age = log.reserved_lsn().since(checkpoint);
            let most = self.capacity.max_files(segments, checkpoint);
            match segments::step(segments.count(), most, age, segments.shape().payload_bytes()) {
                SegmentStep::Keep => break,
                // What is left of the reserve is not for the log.
                SegmentStep::Make(_) if self.reserve_is_spent() => break,
                SegmentStep::Make(_) if now_us < self.capacity.no_growth_until_us.load(Ordering::Relaxed) => {
                    break;
                }
                SegmentStep::Make(_) => match segments.make_more(1, log.reserved_lsn()) {
                    Ok(()) => {}
                    Err((_, error)) if error.may_pass() => {
                        self.capacity.no_growth_until_us.store(now_us + TRY_AGAIN_US, Ordering::Relaxed);
                        break;
                    }
                    Err((_, error)) => return Err(self.poison.set(error)),
                },
                SegmentStep::Shrink(files) => {
                    self.shrink_to(files)?;
                    break;
                }
            }
            self.update_marks(now_us);
        }
        Ok(())
    }

    /// Removes files that hold no redo while there are more than so many. Requires that nobody else changes the capacity.
    fn shrink_to(&self, files: u64) -> Result {
        let log = &self.store.log;
        let shrunk = log.segments().shrink_to(files, self.checkpointer.lsn(), || log.reserved_lsn());
        shrunk.map_err(|error| self.poison.set(error))?;
        // At once: what is let in from here on must find room in the files that are left.
        self.update_marks(self.clock.now_us());
        Ok(())
    }

    /// Gives the disk back what the next seconds do not need, if `redo_bytes_per_s` are being written: files of the log that hold no
    /// redo, and what `pages` has grown ahead if hardly anybody writes. Both grow again as writers need them.
    pub(super) fn free_disk_space(&self, redo_bytes_per_s: u64) -> Result {
        if redo_bytes_per_s <= IDLE_BYTES_PER_S {
            self.store.space.trim()?;
        }
        let _changing = self.capacity.changing.lock();
        // A growth that has found the log's files there must not take what one of them leaves.
        let _stopped = self.store.space.growth_stopped();
        let log = &self.store.log;
        let payload = log.segments().shape().payload_bytes();
        let age = log.reserved_lsn().since(self.checkpointer.lsn());
        let soon = age + redo_bytes_per_s * KEPT_SECONDS;
        if planted(Bug::LogGivenAway) {
            return self.shrink_to(1);
        }
        self.shrink_to(segments::needed(age, payload).max(segments::files_for(soon, payload)))
    }

    /// Changes the capacity. A growth is made now, so that a full disk is known at once and the old size stays; a
    /// shrinking log lets its files go as cleaning permits.
    pub(super) fn set_redo_capacity(&self, bytes: u64) -> Result {
        let _changing = self.capacity.changing.lock();
        self.poison.check()?;
        let log = &self.store.log;
        let segments = log.segments();
        let least = segments::FILES_MIN * segments.block_bytes();
        if bytes < least {
            return Err(Error::Misuse(format!(
                "a redo capacity of {bytes} bytes: at least {least} are needed"
            )));
        }
        let (have, wanted) = (segments.count(), segments::files(bytes, segments.block_bytes()));
        if wanted > have
            && let Err((made, error)) = segments.make_more(wanted - have, log.reserved_lsn())
        {
            if !error.may_pass() {
                return Err(self.poison.set(error));
            }
            // What was made holds nothing yet, and others may need the space.
            let back = segments.count().saturating_sub(made).max(segments::FILES_MIN);
            self.shrink_to(back)?;
            return Err(error);
        }
        self.capacity.set(bytes);
        self.capacity.no_growth_until_us.store(0, Ordering::Relaxed);
        self.roster.wake(Worker::Cleaner);
        Ok(())
    }
}
