//! Admission (flow control, throttling): where a writer pays for cleaning that is behind (Fl6).
//! Every row operation asks here before its mini-transaction, with no latch held. Rollback and
//! purge ask too, with limits of their own (`undo_admission`). Commits do not ask. The redo between
//! the hard mark and the capacity is for commits and for operations that were already admitted.
//!
//! Below the soft mark this costs two relaxed loads. If the log needs more files, the cleaner is
//! told as well. Above the soft mark an operation pays for its redo with time, and waits for its
//! turn. The rule is `pace::admission`.

use super::undo_slice::UndoSlice;
use crate::context::Context;
use crate::error::{Error, Poison, Result};
use crate::log::{LAST_WRITE, Log};
use crate::txn::WriteAdmission;
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Condvar, Mutex, Unparker, futex_wait, futex_wake};
use base::{Lsn, TxnId};
use metrics::{Latency, M, Metrics};
use pace::admission::{AdmissionDecision, AdmissionView, admit, must_wait, price_ns, rate_after_silence};
use pace::thresholds::Thresholds;
use pace::undo_admission::stop_beside_waiting;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// Sleep of a hard wait before it checks again whether the database still works.
const RECHECK: Duration = Duration::from_millis(100);

/// On a full disk there may be space once purge and rollback have removed what a checkpoint has to
/// write. An operation waits while they make progress. It gives up after this time without
/// progress, if the cleaner has done this many rounds meanwhile, and after `FULL_WAIT_US` in any
/// case.
const FULL_NO_PROGRESS_US: u64 = 200_000;
const FULL_ROUNDS: u64 = 2;
const FULL_WAIT_US: u64 = 10_000_000;
/// The time between two checks of a wait on a full disk.
const FULL_RECHECK_US: u64 = 2_000;

/// An operation above the soft mark wakes the cleaner if it has not set the marks for this long.
const SILENCE_US: u64 = 1_000;

/// Transaction ids have 48 bits. From this id on no transaction may begin to write. About 10^12 ids
/// are left for transactions that only lock what they read.
const LAST_ID: TxnId = TxnId((1 << 48) - (1 << 40));

/// Admits operations.
pub(crate) struct Admission {
    log: Arc<Log>,
    clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    poison: Arc<Poison>,
    cleaner: Unparker,
    /// The slice of rollback and purge.
    pub(super) slice: UndoSlice,
    /// How often rollback and purge were admitted while row operations were delayed.
    pub(super) undo_grants: AtomicU64,
    /// Rounds of the cleaner so far.
    rounds: AtomicU64,
    /// An operation whose redo ends below this LSN is admitted at once, and does not wake the
    /// cleaner. It is the checkpoint LSN plus the soft mark, or plus the age above which the log
    /// needs more files.
    free_below: AtomicU64,
    checkpoint: AtomicU64,
    soft: AtomicU64,
    hard: AtomicU64,
    capacity: AtomicU64,
    clean_bytes_per_s: AtomicU64,
    /// When the cleaner last set the marks.
    marked_us: AtomicU64,
    /// Redo of operations that were admitted above the soft mark and are not done.
    credit: AtomicU64,
    /// When the next operation's turn begins, nanoseconds of the clock.
    next_ns: AtomicU64,
    /// No ids are left for transactions that write.
    no_ids: AtomicBool,
    /// The reserve is spent, so no more undo may be made that a checkpoint would have to write.
    reserve_spent: AtomicBool,
    /// The reserve is spent, and a rollback waits for pages that others may free.
    rollback_waits: AtomicBool,
    /// How much of the database is closed: [`OPEN`], [`CLOSING`] or [`CLOSED`]. Sleepers wait on
    /// this word.
    closed: AtomicU32,
    /// The file without space for what the checkpoint must write before it can move.
    at_limit: Mutex<Option<PathBuf>>,
    moved: Condvar,
}

const OPEN: u32 = 0;
/// No row operation is admitted any more. Rollback and purge are.
const CLOSING: u32 = 1;
/// Nothing is admitted any more.
const CLOSED: u32 = 2;

/// Who asks. Each is refused from a value of `Admission::closed` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A call of the program, which closing waits for.
    Caller = CLOSING as isize,
    /// Rollback and purge in the background. On a full disk closing needs their work.
    Background = CLOSED as isize,
}

/// An admitted operation. Its drop says that the operation's redo is in the log.
#[derive(Debug)]
#[must_use = "hold it until the operation's mini-transactions are done"]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    /// The redo that it was admitted for.
    redo_bytes: u64,
    /// The part of it that `Admission::credit` counts.
    credit: u64,
    /// How long the operation was held, microseconds.
    pub(crate) held_us: u64,
}

/// The last progress of anything that makes space on a full disk, and when it was seen.
#[derive(Clone, Copy, Debug)]
struct SpaceProgress {
    since_us: u64,
    rounds: u64,
    undo_grants: u64,
    checkpoint: u64,
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

impl Drop for Admitted<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.credit > 0 {
            self.admission.credit.fetch_sub(self.credit, Ordering::Relaxed);
        }
    }
}

/// An operation that waits for a lock holds no credit. Otherwise many such operations could leave
/// no room in the log for the holder of the lock, and all would wait until their time limits.
impl WriteAdmission for Admitted<'_> {
    fn admit_more(&mut self, redo_bytes: usize) -> Result {
        self.held_us += self.admission.admit(redo_bytes as u64)?.held_us;
        Ok(())
    }

    fn leave(&mut self) {
        if self.credit > 0 {
            self.admission.credit.fetch_sub(std::mem::take(&mut self.credit), Ordering::Relaxed);
        }
    }

    fn enter_again(&mut self) -> Result {
        if !self.admission.is_free(self.redo_bytes) {
            let mut again = self.admission.admit_above(self.redo_bytes, Payment::Done)?;
            self.held_us += again.held_us;
            self.credit = std::mem::take(&mut again.credit);
        }
        Ok(())
    }
}

impl Admission {
    /// Returns an admission that admits every operation until [`Admission::set_marks`] is called.
    pub(super) fn new(context: &Context, log: &Arc<Log>, cleaner: Unparker) -> Admission {
        let Context { vfs, metrics, poison } = context.clone();
        Admission {
            log: Arc::clone(log),
            clock: vfs.clock,
            metrics,
            poison,
            cleaner,
            slice: UndoSlice::default(),
            undo_grants: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            free_below: AtomicU64::new(u64::MAX),
            checkpoint: AtomicU64::new(0),
            soft: AtomicU64::new(u64::MAX),
            hard: AtomicU64::new(u64::MAX),
            capacity: AtomicU64::new(u64::MAX),
            clean_bytes_per_s: AtomicU64::new(0),
            marked_us: AtomicU64::new(0),
            credit: AtomicU64::new(0),
            next_ns: AtomicU64::new(0),
            no_ids: AtomicBool::new(false),
            reserve_spent: AtomicBool::new(false),
            rollback_waits: AtomicBool::new(false),
            closed: AtomicU32::new(OPEN),
            at_limit: Mutex::new(None),
            moved: Condvar::new(),
        }
    }

    /// Admits an operation that will write about `redo_bytes` of redo; first waits for its turn.
    /// REQUIRES: no latch held.
    #[inline]
    pub(crate) fn admit(&self, redo_bytes: u64) -> Result<Admitted<'_>> {
        if self.is_free(redo_bytes) {
            return Ok(Admitted { admission: self, redo_bytes, credit: 0, held_us: 0 });
        }
        self.admit_above(redo_bytes, Payment::Due)
    }

    /// Returns whether an operation with this much redo is admitted without a closer look.
    #[inline]
    pub(super) fn is_free(&self, redo_bytes: u64) -> bool {
        self.log.reserved_lsn().0 + redo_bytes <= self.free_below.load(Ordering::Relaxed)
    }

    /// Returns the age at which new operations stop: 0 while the reserve is spent. The undo of what
    /// is unfinished then can be hardened with the rest of the reserve. So rollback and purge
    /// continue, however long they take, and give the reserve's space back.
    fn stop(&self) -> u64 {
        if self.reserve_spent.load(Ordering::Relaxed) {
            0
        } else if self.rollback_waits.load(Ordering::Relaxed) {
            stop_beside_waiting(&self.marks())
        } else {
            self.hard.load(Ordering::Relaxed)
        }
    }

    pub(super) fn view(&self, now_us: u64) -> AdmissionView {
        let silent_us = now_us.saturating_sub(self.marked_us.load(Ordering::Relaxed));
        let checkpoint = Lsn(self.checkpoint.load(Ordering::Relaxed));
        AdmissionView {
            age: self.log.reserved_lsn().0.saturating_sub(checkpoint.0) + self.credit.load(Ordering::Relaxed),
            soft: self.soft.load(Ordering::Relaxed),
            hard: self.stop(),
            clean_bytes_per_s: rate_after_silence(
                self.clean_bytes_per_s.load(Ordering::Relaxed) as f64,
                silent_us,
            ),
        }
    }

    pub(super) fn check(&self, asker: Asker) -> Result {
        if self.is_closed(asker) {
            self.poison.check()?;
            return Err(Error::Closed);
        }
        if self.log.reserved_lsn() >= LAST_WRITE {
            return Err(Error::Limit { what: format!("the log is near its last position, {LAST_WRITE}") });
        }
        if self.no_ids.load(Ordering::Relaxed) {
            let what = "281 million million transactions have written, as many as there are ids for";
            return Err(Error::Limit { what: what.into() });
        }
        self.poison.check()
    }

    /// Notes which id the next transaction would get.
    pub(super) fn set_next_id(&self, next: TxnId) {
        self.no_ids.store(next >= LAST_ID, Ordering::Relaxed);
    }

    pub(super) fn check_poison(&self) -> Result {
        self.poison.check()
    }

    #[cold]
    fn admit_above(&self, redo_bytes: u64, payment: Payment) -> Result<Admitted<'_>> {
        let begun = self.clock.now_us();
        let (mut held, mut at_limit) = (false, false);
        let mut progress = self.space_progress(begun);
        if self.is_silent(begun) {
            // A burst after a quiet time: the cleaner sleeps long. When it is woken, it makes files
            // first.
            self.cleaner.unpark();
        }
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
                    self.wait_for_room(redo_bytes, begun, &mut progress)?;
                }
            }
        }
    }

    /// Returns whether the cleaner has not set the marks for a while.
    pub(super) fn is_silent(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.marked_us.load(Ordering::Relaxed)) > SILENCE_US
    }

    /// Asks once, without waiting.
    pub(super) fn ask(&self, redo_bytes: u64, payment: Payment) -> AdmitAnswer<'_> {
        loop {
            let now_us = self.clock.now_us();
            let view = self.view(now_us);
            if must_wait(&view, redo_bytes) {
                return AdmitAnswer::AtLimit;
            }
            let before = self.next_ns.load(Ordering::Relaxed);
            let price_ns = if payment == Payment::Due { price_ns(&view, redo_bytes) } else { 0 };
            match admit(before, now_us, price_ns) {
                AdmissionDecision::Retry { delay_us } => return AdmitAnswer::Later(delay_us),
                AdmissionDecision::Admitted { delay_us, next_ns } => {
                    let (done, seen) = (Ordering::Relaxed, Ordering::Relaxed);
                    if next_ns != before
                        && self.next_ns.compare_exchange(before, next_ns, done, seen).is_err()
                    {
                        continue;
                    }
                    self.credit.fetch_add(redo_bytes, Ordering::Relaxed);
                    let admitted = Admitted { admission: self, redo_bytes, credit: redo_bytes, held_us: 0 };
                    return AdmitAnswer::In(admitted, delay_us);
                }
            }
        }
    }

    /// Sleeps once. It may end early, which does no harm: the operation's turn is already taken.
    pub(super) fn sleep(&self, delay_us: u64, asker: Asker) {
        let closed = self.closed.load(Ordering::Acquire);
        if closed < asker as u32 {
            futex_wait(&self.closed, closed, Some(Duration::from_micros(delay_us)));
        }
    }

    /// Returns the progress of what could make space on a full disk.
    fn space_progress(&self, now_us: u64) -> SpaceProgress {
        // While the reserve is spent, the checkpoint moves as pages are cleaned, but that does not
        // refill the reserve.
        let spent = self.reserve_spent.load(Ordering::Relaxed);
        SpaceProgress {
            since_us: now_us,
            rounds: self.rounds.load(Ordering::Relaxed),
            undo_grants: self.undo_grants.load(Ordering::Relaxed),
            checkpoint: if spent { 0 } else { self.checkpoint.load(Ordering::Relaxed) },
        }
    }

    /// Waits for the checkpoint, once. If the checkpoint cannot move, fails with `DiskFull` some
    /// time after `begun_us`: the disk may stay full for any time. `progress` is the last progress
    /// that was seen.
    fn wait_for_room(&self, redo_bytes: u64, begun_us: u64, progress: &mut SpaceProgress) -> Result {
        let mut full = self.at_limit.lock();
        // The marks change under this mutex, so no change is missed.
        if must_wait(&self.view(0), redo_bytes) && self.check(Asker::Caller).is_ok() {
            self.cleaner.unpark();
            let Some(file) = &*full else {
                self.moved.wait_for(&mut full, RECHECK);
                return Ok(());
            };
            let now_us = self.clock.now_us();
            let now = self.space_progress(now_us);
            if (progress.undo_grants, progress.checkpoint) != (now.undo_grants, now.checkpoint) {
                *progress = now;
            }
            let (without_progress_us, all_us) =
                (now_us.saturating_sub(progress.since_us), now_us.saturating_sub(begun_us));
            let looked = now.rounds - progress.rounds > FULL_ROUNDS;
            if (without_progress_us >= FULL_NO_PROGRESS_US && looked) || all_us >= FULL_WAIT_US {
                return Err(Error::DiskFull { file: file.clone() });
            }
            drop(full);
            self.sleep(FULL_RECHECK_US, Asker::Caller);
        }
        Ok(())
    }

    /// Waits for the checkpoint, once, if `must` says so. The argument of `must` is whether the
    /// checkpoint cannot move.
    pub(super) fn wait_while(&self, asker: Asker, must: impl Fn(bool) -> bool) {
        let mut full = self.at_limit.lock();
        // As above: no change is missed.
        if must(full.is_some()) && self.check(asker).is_ok() {
            self.cleaner.unpark();
            self.moved.wait_for(&mut full, RECHECK);
        }
    }

    /// Returns the file without space for what the checkpoint must write before it can move, if
    /// there is one.
    pub(super) fn blocking_file(&self) -> Option<PathBuf> {
        self.at_limit.lock().clone()
    }

    /// Returns the LSN beyond which the log does not go: the end of what operations, commits,
    /// rollback and purge may write with the present marks.
    pub(super) fn end_of_room(&self) -> Lsn {
        let _marks = self.at_limit.lock();
        let checkpoint = self.checkpoint.load(Ordering::Relaxed);
        Lsn(checkpoint.saturating_add(self.capacity.load(Ordering::Relaxed)))
    }

    /// Wakes the cleaner, unless it has just set the marks.
    pub(super) fn wake_cleaner(&self) {
        if self.is_silent(self.clock.now_us()) {
            self.cleaner.unpark();
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// Returns the present marks.
    pub(super) fn marks(&self) -> Thresholds {
        let mark = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        Thresholds {
            target: 0,
            soft: mark(&self.soft),
            hard: mark(&self.hard),
            capacity: mark(&self.capacity),
        }
    }

    /// Sets whether the reserve is spent and will be refilled when unfinished transactions have
    /// ended, or is spent while one of them waits for pages that others may free.
    pub(super) fn set_reserve_spent(&self, spent: bool, rollback_waits: bool) {
        let known = self.at_limit.lock();
        self.reserve_spent.store(spent, Ordering::Relaxed);
        self.rollback_waits.store(rollback_waits, Ordering::Relaxed);
        if spent || rollback_waits {
            // From here on no operation is admitted at once. The next `set_marks` sets the limit
            // again.
            self.free_below.store(0, Ordering::Relaxed);
        }
        drop(known);
    }

    /// Ends a round of the cleaner: sets the file without whose space the checkpoint cannot move,
    /// if there is one.
    pub(super) fn set_blocking_file(&self, file: Option<&Path>) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let mut known = self.at_limit.lock();
        if known.as_deref() != file {
            *known = file.map(Path::to_owned);
            drop(known);
            self.moved.notify_all();
        }
    }

    /// Sets how fast cleaning lets the checkpoint advance.
    pub(super) fn set_clean_rate(&self, bytes_per_s: f64) {
        self.clean_bytes_per_s.store(bytes_per_s as u64, Ordering::Relaxed);
    }

    /// Sets the checkpoint LSN, the marks, and the age above which the log needs more files. `look`
    /// is called under the mutex, so of two threads that call this at once, the later one has the
    /// later values. Its argument is the checkpoint LSN that the marks count from: the latest that
    /// any thread has set.
    pub(super) fn set_marks(
        &self,
        checkpoint: Lsn,
        look: impl FnOnce(Lsn) -> (Thresholds, Option<u64>),
    ) -> Thresholds {
        let at_limit = self.at_limit.lock();
        let checkpoint = checkpoint.0.max(self.checkpoint.load(Ordering::Relaxed));
        let (marks, grows_above) = look(Lsn(checkpoint));
        self.marked_us.store(self.clock.now_us(), Ordering::Relaxed);
        self.checkpoint.store(checkpoint, Ordering::Relaxed);
        self.soft.store(marks.soft, Ordering::Relaxed);
        self.hard.store(marks.hard, Ordering::Relaxed);
        self.capacity.store(marks.capacity, Ordering::Relaxed);
        let free = grows_above.map_or(marks.soft, |age| age.min(marks.soft));
        let any = |flags: [&AtomicBool; 3]| flags.iter().any(|flag| flag.load(Ordering::Relaxed));
        let free_below = if any([&self.no_ids, &self.reserve_spent, &self.rollback_waits]) {
            0
        } else {
            (checkpoint + free).min(LAST_WRITE.0)
        };
        self.free_below.store(free_below, Ordering::Relaxed);
        drop(at_limit);
        self.moved.notify_all();
        marks
    }

    /// Delays operations from now on, and stops them after `bytes` more of redo.
    #[cfg(test)]
    pub(crate) fn leave_room(&self, bytes: u64) {
        let checkpoint = Lsn(self.checkpoint.load(Ordering::Relaxed));
        let soft = self.log.reserved_lsn().0 - checkpoint.0;
        self.set_clean_rate(1e12);
        let marks = Thresholds { target: 0, soft, hard: soft + bytes, capacity: u64::MAX };
        self.set_marks(checkpoint, |_| (marks, None));
    }

    /// Wakes all waiting threads; they check whether the database is poisoned.
    pub(super) fn wake(&self) {
        drop(self.at_limit.lock());
        self.moved.notify_all();
        futex_wake(&self.closed, u32::MAX >> 1);
    }

    /// Returns whether the asker is not admitted any more, because the database closes.
    pub(super) fn is_closed(&self, asker: Asker) -> bool {
        self.closed.load(Ordering::Acquire) >= asker as u32
    }

    /// Admits no more of this asker, and nothing that is refused before it. Those that wait get
    /// [`Error::Closed`].
    pub(super) fn close(&self, asker: Asker) {
        self.closed.fetch_max(asker as u32, Ordering::AcqRel);
        self.free_below.store(0, Ordering::Relaxed);
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
    use crate::log::LogStart;
    use crate::log::block::{block_of, block_start};
    use crate::log::tests::{LogDir, commit, start};
    use base::sync::Parker;
    use metrics::SyncReason;
    use pace::thresholds::thresholds;
    use vfs::Vfs;

    /// A transaction that has begun may end: there is a terabyte of log for that.
    #[test]
    fn near_the_last_position_of_the_log_no_operation_is_admitted() {
        let dir = LogDir::new("near-the-end");
        let from = block_start(block_of(LAST_WRITE) / 64 * 64 - 64);
        let log = Arc::new(dir.log(LogStart { lsn: from, end: from, ..start() }));
        let cleaner = Parker::new();
        let admission = Admission::new(&Context::new(Vfs::os()), &log, cleaner.unparker());
        admission.set_marks(from, |_| (thresholds(1 << 40, 4), None));
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

    #[test]
    fn with_the_last_ids_no_operation_is_admitted() {
        let dir = LogDir::new("last-ids");
        let log = Arc::new(dir.log(start()));
        let cleaner = Parker::new();
        let admission = Admission::new(&Context::new(Vfs::os()), &log, cleaner.unparker());
        let say = |next| {
            admission.set_next_id(TxnId(next));
            admission.set_marks(Lsn(0), |_| (thresholds(1 << 40, 4), None));
            admission.admit(1000).map(drop)
        };
        say(LAST_ID.0 - 1).unwrap();
        let error = say(LAST_ID.0).unwrap_err();
        assert!(matches!(&error, Error::Limit { what } if what.contains("ids")), "{error}");
    }
}
