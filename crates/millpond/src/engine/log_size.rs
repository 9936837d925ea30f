//! How many segment files the log has: files are made and removed as the
//! [capacity](super::capacity) says, and admission learns what room they are.

use super::admission::{Admission, Asker};
use super::call_threads::CallThreads;
use super::capacity::{Capacity, capacity_by_target, capacity_near};
use super::disk_space::DiskSpace;
use super::law_in_use::LawInUse;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Error, Poison, Result};
use crate::options::check_recovery_target;
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard, Unparker};
use pace::age_limits::{AgeLimits, age_limits};
use pace::constants::{
    LOG_FILES_AT_REST, LOG_FILES_MIN, LOG_FILES_PER_STEP, LOG_FILES_SHORT, LOG_GROWTH_PART,
    LOG_IDLE_BYTES_PER_S, LOG_KEPT_S, LOG_PAUSE_TIMES, LOG_PAUSE_US_MAX,
};
use pace::segments::{self, SegmentStep};
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// Redo that the log can hold, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedoRoom {
    /// In the files that exist. Admission uses this.
    pub(super) existing: u64,
    /// In as many files as are allowed. Cleaning uses this, because files are made as needed.
    pub(super) allowed: u64,
}

/// What the size of the log depends on, and what learns of it.
pub(super) struct LogSizeParts {
    pub(super) store: Arc<Store>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) admission: Arc<Admission>,
    pub(super) threads: Arc<CallThreads>,
    pub(super) disk: Arc<DiskSpace>,
    pub(super) poison: Arc<Poison>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cleaner: Unparker,
}

/// The size of the log, and what changes it.
pub(super) struct LogSize {
    capacity: Capacity,
    /// While files are being removed: how many stay at least. Admission counts no more.
    staying: AtomicU64,
    /// One change of the capacity or of the files at a time.
    changing: Mutex<()>,
    law: LawInUse,
    parts: LogSizeParts,
}

impl LogSize {
    /// A log of this capacity, under this law.
    pub(super) fn new(capacity: Capacity, law: LawInUse, parts: LogSizeParts) -> LogSize {
        LogSize { capacity, staying: AtomicU64::new(u64::MAX), changing: Mutex::new(()), law, parts }
    }

    /// Returns how many bytes of redo the log may hold, as it was set or follows from the target.
    pub(super) fn configured(&self) -> u64 {
        self.capacity.configured()
    }

    /// Notes beyond which size a longer log would not help.
    pub(super) fn set_helpful(&self, bytes: u64) {
        self.capacity.set_helpful(bytes);
    }

    /// Keeps the files as they are until the returned guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Returns how many files exist and how many are allowed, for a checkpoint at `checkpoint`.
    fn files(&self, now_us: u64, checkpoint: Lsn) -> (u64, u64) {
        let segments = self.parts.store.log.segments();
        let (have, most) = (segments.count(), self.capacity.max_files(segments, checkpoint));
        let full = self.parts.disk.was_full(now_us);
        (have, if full { most.min(have) } else { most })
    }

    /// Returns how much redo the log can hold.
    pub(super) fn room(&self, now_us: u64) -> RedoRoom {
        let payload = self.parts.store.log.segments().shape().payload_bytes();
        let (have, most) = self.files(now_us, self.parts.checkpointer.lsn());
        RedoRoom {
            existing: segments::redo_bytes(have, payload),
            allowed: segments::redo_bytes(most, payload),
        }
    }

    /// Gives admission the limits that follow from the files that exist.
    ///
    /// A file below the checkpoint is no room before it is recycled. Any thread may take a
    /// checkpoint, and only the cleaner recycles, some time later. If the machine is busy, that is
    /// time enough for writers to fill the log.
    pub(super) fn update_limits(&self, now_us: u64) -> AgeLimits {
        let (segments, threads) = (self.parts.store.log.segments(), self.parts.threads.active());
        let payload = segments.shape().payload_bytes();
        self.parts.admission.set_limits(self.parts.checkpointer.lsn(), |checkpoint| {
            let (have, most) = self.files(now_us, checkpoint);
            let usable = if planted(Bug::FilesBelowCounted) { have } else { segments.count_from(checkpoint) };
            let usable = usable.min(self.staying.load(Ordering::Relaxed));
            let mut limits = age_limits(segments::redo_bytes(usable, payload), threads);
            self.law.hold_back(&mut limits);
            base::check!(
                limits.soft <= limits.hard && limits.hard <= limits.capacity,
                "admission delays from {} on and stops at {}, in a log of {}",
                limits.soft,
                limits.hard,
                limits.capacity
            );
            base::verify!(
                checkpoint.0 + limits.capacity <= segments.end().0,
                "admission would let in {} bytes from {checkpoint} on, and the files end at {}",
                limits.capacity,
                segments.end()
            );
            let limits = self.law.law().limits(limits, segments::redo_bytes(most, payload));
            (limits, segments::grows_above(have, most, payload, self.capacity.has_recovered(checkpoint)))
        })
    }

    /// Makes the files that every log needs. If the disk has no space for them, the files of a log
    /// at rest are enough: admission adapts to the files that exist.
    pub(super) fn make_first_files(&self) -> Result {
        let log = &self.parts.store.log;
        match log.segments().at_least(LOG_FILES_MIN, log.reserved_lsn()) {
            Err(Error::DiskFull { .. }) if log.segments().count() >= LOG_FILES_AT_REST => Ok(()),
            made => made,
        }
    }

    /// Makes or removes segment files as `pace::segments` says, and tells admission after each.
    pub(super) fn adjust(&self, now_us: u64) -> Result {
        // While the capacity is being changed, the old one no longer counts.
        let Some(_changing) = self.changing.try_lock() else { return Ok(()) };
        self.parts.disk.refill(now_us)?;
        let log = &self.parts.store.log;
        let segments = log.segments();
        let have = segments.count();
        for _ in 0..if have < LOG_FILES_SHORT { LOG_FILES_PER_STEP } else { have / LOG_GROWTH_PART } {
            // Writers go on meanwhile, so each file is decided anew.
            let checkpoint = self.parts.checkpointer.lsn();
            let age = log.reserved_lsn().since(checkpoint);
            let most = self.capacity.max_files(segments, checkpoint);
            let replaying = self.capacity.has_recovered(checkpoint);
            match segments::step(segments.count(), most, age, segments.shape().payload_bytes(), replaying) {
                SegmentStep::Keep => break,
                // The log must not use what is left of the ballast.
                SegmentStep::Make(_) if self.parts.disk.is_ballast_spent() => break,
                SegmentStep::Make(_) if self.parts.disk.was_full(now_us) => {
                    break;
                }
                SegmentStep::Make(_) => match segments.make_more(1, log.reserved_lsn()) {
                    Ok(()) => {}
                    Err((_, error)) if error.may_pass() => {
                        self.parts.disk.note_full(now_us);
                        break;
                    }
                    Err((_, error)) => return Err(self.parts.poison.set(error)),
                },
                SegmentStep::Shrink(files) => {
                    self.shrink_to(files)?;
                    break;
                }
            }
            self.update_limits(now_us);
        }
        Ok(())
    }

    /// Removes files without redo while there are more than `files`. REQUIRES: no other thread
    /// changes the capacity.
    fn shrink_to(&self, mut files: u64) -> Result {
        let log = &self.parts.store.log;
        let segments = log.segments();
        // Before the first file goes, the redo of new operations must fit in the files that stay.
        // What was admitted until then decides how many these are.
        if !planted(Bug::ShrunkBeforeLimits) {
            let before = self.staying.swap(files, Ordering::Relaxed);
            base::check!(before == u64::MAX, "two threads remove log files, down to {before} and {files}");
            self.update_limits(self.parts.clock.now_us());
        }
        if !planted(Bug::LogShrunkTooFar) {
            let age = log.reserved_lsn().since(self.parts.checkpointer.lsn());
            files = files.max(segments::needed(age, segments.shape().payload_bytes()));
        }
        let removed = segments
            .shrink_to(files, self.parts.checkpointer.lsn(), || log.reserved_lsn())
            .map_err(|error| self.parts.poison.set(error));
        // A file below the checkpoint that stays is room at once. If it cannot be opened now, the
        // cleaner tries again.
        let recycled = removed.and_then(|()| {
            let below = segments.recycle_below(self.parts.checkpointer.lsn());
            below
                .map(drop)
                .or_else(|error| if error.may_pass() { Ok(()) } else { Err(self.parts.poison.set(error)) })
        });
        self.check_room();
        self.staying.store(u64::MAX, Ordering::Relaxed);
        self.update_limits(self.parts.clock.now_us());
        recycled
    }

    /// Checks that what admission lets in fits in the files that exist. Otherwise a flush has to
    /// make a file, and if the disk is full then, that stops the database.
    fn check_room(&self) {
        let (room, files) = (self.parts.admission.end_of_room(), self.parts.store.log.segments().end());
        base::verify!(room <= files, "admission lets in redo up to {room}, and the files end at {files}");
    }

    /// Gives disk space back that the next seconds do not need, if `redo_bytes_per_s` of redo are
    /// being written: log files without redo, and, if the database is idle, unused space at the end
    /// of `pages`. Both grow again when writers need them.
    pub(super) fn free_disk_space(&self, redo_bytes_per_s: u64) -> Result {
        if redo_bytes_per_s <= LOG_IDLE_BYTES_PER_S {
            self.parts.store.space.trim()?;
        }
        let _changing = self.changing.lock();
        // Growth of `pages` is stopped: it may have decided while the log's files existed, and must
        // not take the space that one of them leaves.
        let _stopped = self.parts.store.space.growth_stopped();
        let log = &self.parts.store.log;
        let payload = log.segments().shape().payload_bytes();
        let age = log.reserved_lsn().since(self.parts.checkpointer.lsn());
        let soon = age + redo_bytes_per_s * LOG_KEPT_S;
        if planted(Bug::LogShrunkTooFar) {
            return self.shrink_to(1);
        }
        self.shrink_to(segments::needed(age, payload).max(segments::files_for(soon, payload)))
    }

    /// Changes the capacity. A growth is done now, so a full disk is reported at once and the old
    /// size stays. A smaller log loses its files as the checkpoint moves.
    pub(super) fn set_capacity(&self, bytes: u64) -> Result {
        let _changing = self.changing.lock();
        self.parts.poison.check()?;
        let log = &self.parts.store.log;
        let segments = log.segments();
        let least = LOG_FILES_MIN * segments.block_bytes();
        if bytes < least {
            return Err(Error::Misuse(format!(
                "a redo capacity of {bytes} bytes: at least {least} are needed"
            )));
        }
        let (have, wanted) = (segments.count(), segments::files(bytes, segments.block_bytes()));
        if wanted > have
            && let Err((made, error)) = self.make_calmly(wanted - have)
        {
            if !error.may_pass() {
                return Err(self.parts.poison.set(error));
            }
            // The new files are empty, and others may need the space.
            let back = segments.count().saturating_sub(made).max(LOG_FILES_MIN);
            self.shrink_to(back)?;
            return Err(error);
        }
        self.capacity.set_target(None);
        self.capacity.set(bytes);
        self.parts.disk.forget_full();
        self.parts.cleaner.unpark();
        Ok(())
    }

    /// Makes so many files. A new file is written as fast as the device can, and commits wait for
    /// the same device: so after each file there is a pause, unless no other thread is in a call.
    /// An error comes with the number of files that were made.
    fn make_calmly(&self, count: u64) -> Result<(), (u64, Error)> {
        let log = &self.parts.store.log;
        for made in 0..count {
            let begun = self.parts.clock.now_us();
            log.segments().make_more(1, log.reserved_lsn()).map_err(|(_, error)| (made, error))?;
            let took_us = self.parts.clock.now_us().saturating_sub(begun);
            // The caller is one of them.
            if self.parts.threads.now() > 1 && made + 1 < count {
                let pause_us = took_us.saturating_mul(LOG_PAUSE_TIMES).min(LOG_PAUSE_US_MAX);
                self.parts.admission.sleep(pause_us, Asker::Caller);
            }
        }
        Ok(())
    }

    /// Sets another recovery target. The capacity follows from it, also if it was set before. Files
    /// are made and removed as needed, as after [`LogSize::set_capacity`].
    pub(super) fn set_target(&self, target: Duration) -> Result {
        let _changing = self.changing.lock();
        self.parts.poison.check()?;
        check_recovery_target(target)?;
        self.capacity.set_target(Some(target));
        let segment_bytes = self.parts.store.log.segments().block_bytes();
        self.capacity.set(capacity_by_target(target, self.parts.checkpointer.replay_rate(), segment_bytes));
        self.parts.cleaner.unpark();
        Ok(())
    }

    /// Sizes the log by the rate with which a recovery has replayed, unless the user has set a
    /// size. Keeps the size if the difference is small.
    pub(super) fn follow_replay_rate(&self, bytes_per_s: u64) {
        let _changing = self.changing.lock();
        let Some(target) = self.capacity.target() else { return };
        let segments = self.parts.store.log.segments();
        let (have, segment_bytes) = (segments.count() * segments.block_bytes(), segments.block_bytes());
        self.capacity.set(capacity_near(have, target, bytes_per_s, segment_bytes));
    }
}
