//! Admission (flow control, throttling): where a writer pays for cleaning that is behind (Fl6).
//! Every row operation asks here before its mini-transaction, with no latch held. Rollback and
//! purge ask too, with limits of their own (`undo`). Commits do not ask. The redo between the hard
//! limit and the capacity is for commits and for operations that were already admitted.
//!
//! Below the soft limit this costs two relaxed loads. If the log needs more files, the cleaner is
//! told as well. Above the soft limit an operation pays for its redo with time, and waits in a
//! queue. The rule is `pace::admission`.
//!
//! `current_limits` is the room in the log, `paid_queue` the queue of those that pay, `full_disk`
//! the rules of a full disk, and `gate` ends it all when the database closes.

mod current_limits;
mod full_disk;
mod gate;
mod paid_queue;
mod undo;
mod undo_slice;

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::txn::WriteAdmission;
use base::Lsn;
use base::sync::{Condvar, Mutex, Unparker};
use current_limits::CurrentLimits;
use full_disk::{FullDisk, SpaceProgress};
pub(super) use gate::Asker;
use gate::Gate;
use metrics::{Latency, M, Metrics};
use pace::admission::{AdmissionView, must_wait, price_ns};
use pace::age_limits::AgeLimits;
use pace::constants::FULL_DISK_RECHECK_US;
use paid_queue::{PaidQueue, Unwritten};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use undo_slice::UndoSlice;
use vfs::Clock;

/// Sleep of a hard wait before it checks again whether the database still works.
const RECHECK: Duration = Duration::from_millis(100);

/// Admits operations.
pub(crate) struct Admission {
    log: Arc<Log>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    cleaner: Unparker,
    gate: Gate,
    limits: CurrentLimits,
    queue: PaidQueue,
    full: FullDisk,
    /// The slice of rollback and purge.
    slice: UndoSlice,
    /// The file without space for what the checkpoint must write before it can move. The limits are
    /// set under this mutex.
    at_limit: Mutex<Option<PathBuf>>,
    moved: Condvar,
}

/// An admitted operation. Its drop says that the operation's redo is in the log.
#[derive(Debug)]
#[must_use = "hold it until the operation's mini-transactions are done"]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    /// The redo that it was admitted for.
    redo_bytes: u64,
    /// Is counted if it was admitted above the soft limit.
    unwritten: Option<Unwritten<'a>>,
    /// How long the operation was held, microseconds.
    pub(crate) held_us: u64,
}

/// The answer to an operation that asks for admission.
#[derive(Debug)]
pub(super) enum AdmitAnswer<'a> {
    /// It may continue after this many microseconds.
    In(Admitted<'a>, u64),
    /// The queue is too long: it asks again after this many microseconds.
    Later(u64),
    /// The log is at its limit: it waits for the checkpoint.
    AtLimit,
}

/// Whether an operation has still to pay for its redo with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payment {
    Due,
    /// It paid before.
    Done,
}

/// An operation that waits for a lock counts no redo. Otherwise many such operations could leave no
/// room in the log for the holder of the lock, and all would wait until their time limits.
impl WriteAdmission for Admitted<'_> {
    fn admit_more(&mut self, redo_bytes: usize) -> Result {
        self.held_us += self.admission.admit(redo_bytes as u64)?.held_us;
        Ok(())
    }

    fn leave(&mut self) {
        self.unwritten = None;
    }

    fn enter_again(&mut self) -> Result {
        if !self.admission.is_free(self.redo_bytes) {
            let mut again = self.admission.admit_above(self.redo_bytes, Payment::Done)?;
            self.held_us += again.held_us;
            self.unwritten = again.unwritten.take();
        }
        Ok(())
    }
}

impl Admission {
    /// Returns an admission that admits every operation until [`Admission::set_limits`] is called.
    pub(super) fn new(environment: &Environment, log: &Arc<Log>, cleaner: Unparker) -> Admission {
        let Environment { vfs, metrics, poison } = environment.clone();
        Admission {
            log: Arc::clone(log),
            clock: vfs.clock,
            metrics,
            cleaner,
            gate: Gate::new(poison),
            limits: CurrentLimits::new(),
            queue: PaidQueue::default(),
            full: FullDisk::default(),
            slice: UndoSlice::default(),
            at_limit: Mutex::new(None),
            moved: Condvar::new(),
        }
    }

    /// Admits an operation that will write about `redo_bytes` of redo; first waits in the queue.
    /// REQUIRES: no latch held.
    #[inline]
    pub(crate) fn admit(&self, redo_bytes: u64) -> Result<Admitted<'_>> {
        if self.is_free(redo_bytes) {
            return Ok(Admitted { admission: self, redo_bytes, unwritten: None, held_us: 0 });
        }
        self.admit_above(redo_bytes, Payment::Due)
    }

    /// Returns whether an operation with this much redo is admitted without a closer look.
    #[inline]
    pub(super) fn is_free(&self, redo_bytes: u64) -> bool {
        self.limits.is_free(self.log.reserved_lsn().0 + redo_bytes)
    }

    fn view(&self, now_us: u64) -> AdmissionView {
        let (checkpoint, limits) = (Lsn(self.limits.checkpoint()), self.limits.all());
        AdmissionView {
            age: self.log.reserved_lsn().0.saturating_sub(checkpoint.0) + self.queue.unwritten(),
            soft: limits.soft,
            hard: self.full.stop(&limits),
            clean_bytes_per_s: self.limits.clean_rate(now_us),
        }
    }

    fn check(&self, asker: Asker) -> Result {
        self.gate.check(asker)?;
        self.log.check_writable()
    }

    #[cold]
    fn admit_above(&self, redo_bytes: u64, payment: Payment) -> Result<Admitted<'_>> {
        let begun = self.clock.now_us();
        let (mut held, mut at_limit) = (false, false);
        let mut progress = self.full.progress(begun, self.limits.checkpoint());
        // A burst after a quiet time: the cleaner sleeps long. When it is woken, it makes files
        // first.
        self.wake_cleaner();
        loop {
            self.check(Asker::Caller)?;
            match self.ask(redo_bytes, payment) {
                AdmitAnswer::In(mut admitted, delay_us) => {
                    if delay_us > 0 {
                        held = true;
                        self.sleep(delay_us, Asker::Caller);
                        self.check(Asker::Caller)?;
                    }
                    if held {
                        admitted.held_us = self.clock.now_us().saturating_sub(begun);
                        self.metrics.add(M::ThrottledOps, 1);
                        self.metrics.add(M::ThrottledUsTotal, admitted.held_us);
                        self.metrics.time(Latency::Admission, admitted.held_us);
                    }
                    return Ok(admitted);
                }
                AdmitAnswer::Later(delay_us) => {
                    held = true;
                    self.sleep(delay_us, Asker::Caller);
                }
                AdmitAnswer::AtLimit => {
                    self.metrics.add(M::HardWaits, u64::from(!at_limit));
                    (held, at_limit) = (true, true);
                    self.wait_for_room(redo_bytes, &mut progress)?;
                }
            }
        }
    }

    /// Asks once, without waiting.
    pub(super) fn ask(&self, redo_bytes: u64, payment: Payment) -> AdmitAnswer<'_> {
        let now_us = self.clock.now_us();
        let view = self.view(now_us);
        if must_wait(&view, redo_bytes) {
            return AdmitAnswer::AtLimit;
        }
        let price_ns = if payment == Payment::Due { price_ns(&view, redo_bytes) } else { 0 };
        match self.queue.enter(now_us, price_ns) {
            Err(delay_us) => AdmitAnswer::Later(delay_us),
            Ok(delay_us) => {
                let unwritten = Some(self.queue.count(redo_bytes));
                AdmitAnswer::In(Admitted { admission: self, redo_bytes, unwritten, held_us: 0 }, delay_us)
            }
        }
    }

    /// Sleeps once. It may end early, which does no harm: the operation has its place in the queue
    /// already.
    pub(super) fn sleep(&self, delay_us: u64, asker: Asker) {
        self.gate.sleep(delay_us, asker);
    }

    /// Waits for the checkpoint, once. If the checkpoint cannot move, fails with `DiskFull` some
    /// time after the wait began: the disk may stay full for any time. `progress` is the last
    /// progress that was seen.
    fn wait_for_room(&self, redo_bytes: u64, progress: &mut SpaceProgress) -> Result {
        let mut full = self.at_limit.lock();
        // The limits change under this mutex, so no change is missed.
        if must_wait(&self.view(0), redo_bytes) && self.check(Asker::Caller).is_ok() {
            self.cleaner.unpark();
            let Some(file) = &*full else {
                self.moved.wait_for(&mut full, RECHECK);
                return Ok(());
            };
            if progress.gives_up(self.full.progress(self.clock.now_us(), self.limits.checkpoint())) {
                return Err(Error::DiskFull { file: file.clone() });
            }
            drop(full);
            self.sleep(FULL_DISK_RECHECK_US, Asker::Caller);
        }
        Ok(())
    }

    /// Waits for the checkpoint, once, if `must` says so. The argument of `must` is whether the
    /// checkpoint cannot move.
    fn wait_while(&self, asker: Asker, must: impl Fn(bool) -> bool) {
        let mut full = self.at_limit.lock();
        // As above: no change is missed.
        if must(full.is_some()) && self.check(asker).is_ok() {
            self.cleaner.unpark();
            self.moved.wait_for(&mut full, RECHECK);
        }
    }

    /// Returns the file without space for what the checkpoint must write before it can move, if
    /// there is one.
    fn blocking_file(&self) -> Option<PathBuf> {
        self.at_limit.lock().clone()
    }

    /// Returns the LSN beyond which the log does not go: the end of what operations, commits,
    /// rollback and purge may write with the present limits.
    pub(super) fn end_of_room(&self) -> Lsn {
        let _limits = self.at_limit.lock();
        self.limits.end_of_room()
    }

    /// Wakes the cleaner, unless it has just set the limits.
    fn wake_cleaner(&self) {
        if self.is_silent(self.clock.now_us()) {
            self.cleaner.unpark();
        }
    }

    /// Returns whether the cleaner has not set the limits for a while.
    pub(super) fn is_silent(&self, now_us: u64) -> bool {
        self.limits.is_silent(now_us)
    }

    /// Returns the present limits.
    pub(super) fn limits(&self) -> AgeLimits {
        self.limits.all()
    }

    /// Sets whether the ballast is spent and will be refilled when unfinished transactions have
    /// ended, or is spent while one of them waits for pages that others may free.
    pub(super) fn set_ballast_spent(&self, spent: bool, rollback_waits: bool) {
        let known = self.at_limit.lock();
        self.full.set_ballast_spent(spent, rollback_waits);
        if self.full.holds_operations() {
            self.limits.look_closer();
        }
        drop(known);
    }

    /// Ends a round of the cleaner: sets the file without whose space the checkpoint cannot move,
    /// if there is one.
    pub(super) fn set_blocking_file(&self, file: Option<&Path>) {
        self.full.count_round();
        let mut known = self.at_limit.lock();
        if known.as_deref() != file {
            *known = file.map(Path::to_owned);
            drop(known);
            self.moved.notify_all();
        }
    }

    /// Sets how fast cleaning lets the checkpoint advance.
    pub(super) fn set_clean_rate(&self, bytes_per_s: f64) {
        self.limits.set_clean_rate(bytes_per_s);
    }

    /// Sets the checkpoint LSN, the limits, and the age above which the log needs more files.
    /// `look` is called under the mutex, so of two threads that call this at once, the later one
    /// has the later values. Its argument is the checkpoint LSN that the limits count from: the
    /// latest that any thread has set.
    pub(super) fn set_limits(
        &self,
        checkpoint: Lsn,
        look: impl FnOnce(Lsn) -> (AgeLimits, Option<u64>),
    ) -> AgeLimits {
        let at_limit = self.at_limit.lock();
        let checkpoint = checkpoint.0.max(self.limits.checkpoint());
        let (limits, grows_above) = look(Lsn(checkpoint));
        let may_be_free = !self.full.holds_operations();
        self.limits.set(self.clock.now_us(), checkpoint, &limits, grows_above, may_be_free);
        drop(at_limit);
        self.moved.notify_all();
        limits
    }

    /// Delays operations from now on, and stops them after `bytes` more of redo.
    #[cfg(test)]
    pub(crate) fn leave_room(&self, bytes: u64) {
        let checkpoint = Lsn(self.limits.checkpoint());
        let soft = self.log.reserved_lsn().0 - checkpoint.0;
        self.set_clean_rate(1e12);
        let limits = AgeLimits { target: 0, soft, hard: soft + bytes, capacity: u64::MAX };
        self.set_limits(checkpoint, |_| (limits, None));
    }

    /// Wakes all waiting threads; they check whether the database is poisoned.
    pub(super) fn wake(&self) {
        drop(self.at_limit.lock());
        self.moved.notify_all();
        self.gate.wake();
    }

    /// Returns whether the asker is not admitted any more, because the database closes.
    pub(super) fn is_closed(&self, asker: Asker) -> bool {
        self.gate.is_closed(asker)
    }

    /// Admits no more of this asker, and nothing that is refused before it. Those that wait get
    /// [`Error::Closed`].
    pub(super) fn close(&self, asker: Asker) {
        self.gate.close(asker);
        self.limits.look_closer();
        self.wake();
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Admission({:?})", self.view(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::block::{block_of, block_start};
    use crate::log::tests::{LogDir, commit, start};
    use crate::log::{LAST_WRITE, LogStart};
    use base::sync::Parker;
    use metrics::SyncReason;
    use pace::age_limits::age_limits;
    use vfs::Vfs;

    /// A transaction that has begun may end: there is a terabyte of log for that.
    #[test]
    fn near_the_last_position_of_the_log_no_operation_is_admitted() {
        let dir = LogDir::new("near-the-end");
        let from = block_start(block_of(LAST_WRITE) / 64 * 64 - 64);
        let log = Arc::new(dir.log(LogStart { lsn: from, end: from, ..start() }));
        let cleaner = Parker::new();
        let admission = Admission::new(&Environment::new(Vfs::os()), &log, cleaner.unparker());
        admission.set_limits(from, |_| (age_limits(1 << 40, 4), None));
        let mut n = 0;
        let error = loop {
            n += 1;
            match admission.admit(3000) {
                Ok(admitted) => drop(admitted),
                Err(error) => break error,
            }
            let lsn = commit(&log, n, 3000);
            log.flush_to(lsn, SyncReason::Commit).unwrap();
        };
        assert!(n > 60 && log.reserved_lsn().0.abs_diff(LAST_WRITE.0) < 10_000, "{n} writes");
        assert!(matches!(&error, Error::Limit { what } if what.contains("last position")), "{error}");
        let lsn = commit(&log, n, 3000);
        log.flush_to(lsn, SyncReason::Commit).unwrap();
    }
}
