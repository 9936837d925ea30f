//! Group commit: who flushes the log, how much, and who waits.
//!
//! Leader–follower, greedy (Co1): a thread that needs a position durable and finds a free flush slot writes all that is
//! published and syncs it, holding no lock; everyone covered wakes; the next waiter leads. There is no timer and no
//! relay thread. Several flushes may be in flight (Co2) as long as no two write one block (Co4): the later ones *seal*
//! their range at a block's start. With none in flight a flush may rewrite the partial tail block instead.
//!
//! ```text
//!   durable        from                              reserved
//!      |  flight 1   |  flight 2 |                       |
//!   ---+-------------+-----------+------ unflushed ------+----> LSN
//! ```
//! The durable LSN is the end of the finished contiguous prefix of flights.

use super::block::{
    BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block,
};
use super::completed::FlushInfo;
use super::segment::file_offset;
use super::waiters::{Ticket, Waiters, Wake};
use super::{LSN_END, Log};
use crate::duty;
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::sync::atomic::Ordering;
use base::sync::{MutexGuard, Parker, spin};
use metrics::{FileKind, Latency, M, SyncReason};
use pace::commit::{FlushView, may_start, should_seal};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use vfs::WriteOp;

/// Flushes of at most this many blocks are gathered into one write; longer ones are written from the ring.
const GATHER_BLOCKS: u64 = 16;

#[derive(Debug)]
struct InFlightFlush {
    from: Lsn,
    end: Lsn,
    /// What it came to, once it is done.
    done: Option<FlushInfo>,
    /// It ends inside a block, which no other flush may touch until it is done.
    open_tail: bool,
    started_us: u64,
    /// When commits that it covers and that did not wait are promised to be durable; microseconds of the clock.
    deadline_us: u64,
}

/// Everything about flushes that the log's mutex guards.
pub(crate) struct FlushState {
    /// First position that no flight has taken.
    pub(super) from: Lsn,
    /// `prev_used` of the block that holds `from`.
    from_prev_used: u16,
    in_flight: VecDeque<InFlightFlush>,
    waiters: Waiters,
    scratch: Vec<Scratch>,
    /// Smoothed duration of a flush, microseconds.
    pub(super) usual_us: u64,
}

/// Where a short flush is put together.
struct Scratch {
    bytes: AlignedBuf,
    /// From here on each block is zero. Most flushes end near the last one's end, so there is little to clear.
    used: [usize; GATHER_BLOCKS as usize],
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            bytes: AlignedBuf::zeroed(GATHER_BLOCKS as usize * BLOCK_BYTES),
            used: [0; GATHER_BLOCKS as usize],
        }
    }
}

/// A flush that has been given its range.
pub(super) struct FlushPlan {
    from: Lsn,
    to: Lsn,
    prev_used: u16,
    durable: Lsn,
    depth: u64,
    waiters: u64,
    scratch: Scratch,
    started_us: u64,
}

impl FlushState {
    pub(crate) fn new(start: Lsn, prev_used: u16) -> FlushState {
        assert!(offset_in_block(start) == 0);
        FlushState {
            from: start,
            from_prev_used: prev_used,
            in_flight: VecDeque::new(),
            waiters: Waiters::default(),
            scratch: Vec::new(),
            usual_us: 0,
        }
    }

    pub(super) fn none_in_flight(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether somebody waits for what no flight has taken.
    pub(super) fn has_uncovered(&self) -> bool {
        self.waiters.beyond(self.from).len() > 0
    }
}

impl Log {
    /// The end of the finished contiguous prefix: everything below survives a power cut.
    #[inline]
    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// What a block that is written now may vouch for. Before anything of this epoch is durable those are the groups of the
    /// last one: what lies between is told by this epoch's first block, which may be lost while a later one survives.
    fn vouched(&self) -> Lsn {
        let durable = self.durable_lsn();
        if durable == self.start.lsn { self.start.end } else { durable }
    }

    /// Returns when the group that starts at `lsn`, which has been appended, is durable. Leads a flush where nobody else
    /// covers it.
    pub(crate) fn flush_to(&self, lsn: Lsn, reason: SyncReason) -> Result<FlushInfo> {
        if self.durable_lsn() > lsn {
            return Ok(FlushInfo::default());
        }
        thread_local! {
            static PARKER: Parker = Parker::new();
        }
        PARKER.with(|parker| self.wait_durable(lsn, reason, parker))
    }

    fn wait_durable(&self, lsn: Lsn, reason: SyncReason, parker: &Parker) -> Result<FlushInfo> {
        let mut state = self.flush.lock();
        loop {
            if self.durable_lsn() > lsn {
                return Ok(self.flush_info(lsn));
            }
            self.poison.check()?;
            // Nothing would ever make a position durable that nobody has reserved.
            base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
            if lsn >= state.from
                && self.slot_free(&state, 1)
                && let Some(plan) = self.plan_flush(&mut state)
            {
                state = self.run_flush(state, plan, reason)?;
                continue;
            }
            let ticket = state.waiters.add(lsn, Wake::Thread(parker.unparker()));
            drop(state);
            parker.park();
            if self.durable_lsn() > lsn {
                // Whoever moved the durable LSN has taken this waiter off the list.
                return Ok(self.flush_info(lsn));
            }
            state = self.flush.lock();
            state.waiters.remove(ticket);
        }
    }

    /// Ready when the group that starts at `lsn` is durable or the log has failed; until then `waker` is called when that has
    /// changed, by the log thread and with nothing held. `ticket` is the caller's place among those who wait, at first none. REQUIRES: [`Log::flush_soon`] was
    /// called after the group was appended; the log thread leads.
    pub(crate) fn poll_durable(&self, lsn: Lsn, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Result> {
        if self.durable_lsn() > lsn {
            return Poll::Ready(Ok(()));
        }
        // A waker is a caller's code: it is neither cloned nor dropped under the mutex, which goes before it.
        let wake = Wake::Task(waker.clone());
        let mut state = self.flush.lock();
        if self.durable_lsn() > lsn {
            return Poll::Ready(Ok(()));
        }
        self.poison.check()?;
        base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
        let renewed = match *ticket {
            Some(ticket) => state.waiters.replace(ticket, wake),
            None => Err(wake),
        };
        let old = match renewed {
            Ok(old) => Some(old),
            Err(wake) => {
                *ticket = Some(state.waiters.add(lsn, wake));
                None
            }
        };
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// What the flush came to that made the group at `lsn` durable; nothing, but for the moment, if that is long ago.
    /// REQUIRES: it is durable.
    pub(crate) fn flush_info(&self, lsn: Lsn) -> FlushInfo {
        self.completed
            .find(lsn)
            .unwrap_or_else(|| FlushInfo { done_us: self.vfs.clock.now_us(), ..FlushInfo::default() })
    }

    /// Says how many flights are in the air, after each change.
    fn count_in_flight(&self, state: &FlushState) {
        let count = state.in_flight.len() as u32;
        self.in_flight.store(count, Ordering::SeqCst);
        self.metrics.set(M::LogFlushesInFlight, u64::from(count));
    }

    fn view(&self, state: &FlushState, own: u32) -> FlushView {
        FlushView {
            in_flight: state.in_flight.len() as u32,
            depth_max: self.options.flush_depth,
            waiting: state.waiters.beyond(state.from).len() as u32 + own,
            busy_committers: self.busy.load(Ordering::Relaxed),
            elapsed_of_running_us: state
                .in_flight
                .back()
                .map_or(0, |f| self.vfs.clock.now_us().saturating_sub(f.started_us)),
            usual_us: state.usual_us,
        }
    }

    pub(super) fn slot_free(&self, state: &FlushState, own: u32) -> bool {
        match state.in_flight.back() {
            None => true,
            Some(last) => !last.open_tail && may_start(&self.view(state, own)),
        }
    }

    /// Takes a range for a new flight. `None` if nothing is ready for one.
    pub(super) fn plan_flush(&self, state: &mut FlushState) -> Option<FlushPlan> {
        // Before the end is read: whoever relied on the promise has reserved by then.
        let taken = self.deadlines.take();
        let Some((to, next_prev_used)) = self.range_end(state) else {
            // What is promised and was already taken goes with the flight that took it.
            match state.in_flight.back_mut().filter(|_| self.ring.reserved() == state.from) {
                Some(last) => last.deadline_us = last.deadline_us.min(taken.deadline_us),
                None if state.from > self.durable_lsn() => self.deadlines.put_back(taken),
                None => {}
            }
            self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
            return None;
        };
        let now = self.vfs.clock.now_us();
        let plan = FlushPlan {
            from: state.from,
            to,
            prev_used: state.from_prev_used,
            durable: self.vouched(),
            depth: state.in_flight.len() as u64 + 1,
            // Those who wait for less wait for a flight before.
            waiters: (state.waiters.below(to) - state.waiters.below(state.from)) as u64 + duty::callers(),
            scratch: state.scratch.pop().unwrap_or_else(Scratch::new),
            started_us: now,
        };
        base::check!(plan.from < to, "a flight of nothing at {to}");
        // INV-7: each begins where the one before ends, and no block is in two of them.
        base::check!(
            state.in_flight.back().is_none_or(|last| last.end == plan.from && !last.open_tail),
            "a flight from {} does not adjoin {:?}",
            plan.from,
            state.in_flight.back()
        );
        // INV-8: nothing unflushed lies beyond the window.
        base::verify!(
            to <= block_start(block_of(self.durable_lsn())).plus(self.ring.capacity()),
            "a flight ends at {to}, beyond the window behind {}",
            self.durable_lsn()
        );
        state.from = to;
        self.planned.store(to.0, Ordering::Relaxed);
        state.from_prev_used = next_prev_used;
        let open_tail = offset_in_block(to) != 0;
        state.in_flight.push_back(InFlightFlush {
            from: plan.from,
            end: to,
            done: None,
            open_tail,
            started_us: now,
            deadline_us: taken.deadline_us,
        });
        self.count_in_flight(state);
        self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
        self.metrics.max(M::LogFlushDepthMax, state.in_flight.len() as u64);
        Some(plan)
    }

    /// Where a flight that starts now ends, and the bytes in use in that block if it ends there.
    fn range_end(&self, state: &FlushState) -> Option<(Lsn, u16)> {
        if self.ring.reserved() <= state.from {
            return None;
        }
        if !state.in_flight.is_empty() || should_seal(&self.view(state, 1)) {
            if let Some(seal) = self.ring.seal(self.durable_lsn()) {
                self.metrics.add(M::RedoPadBytes, seal.pad);
                return Some((seal.end, seal.used));
            }
            if !state.in_flight.is_empty() {
                return None;
            }
        }
        // Not only what is published: those who have reserved are copying, which takes no time.
        let to = self.ring.reserved();
        let same_block = block_of(to) == block_of(state.from);
        Some((to, if same_block { state.from_prev_used } else { PAYLOAD_BYTES as u16 }))
    }

    /// Writes and syncs a planned range without the lock, then settles it. A failure poisons the database.
    pub(super) fn run_flush<'a>(
        &'a self,
        state: MutexGuard<'a, FlushState>,
        mut plan: FlushPlan,
        reason: SyncReason,
    ) -> Result<MutexGuard<'a, FlushState>> {
        drop(state);
        let mut turn = 0;
        while self.ring.published() < plan.to {
            spin(&mut turn);
        }
        base::check!(
            self.durable_lsn() <= plan.from || planted(Bug::DurableOutOfOrder),
            "{} is durable before it is written",
            plan.from
        );
        let commits = self.unflushed_commits.swap(0, Ordering::Relaxed);
        let done = self.write_and_sync(&mut plan, reason);
        let mut state = self.flush.lock();
        if let Err(error) = done {
            let poisoned = self.poison.set(error);
            self.wake_all(state);
            return Err(poisoned);
        }
        let done_us = self.vfs.clock.now_us();
        let took = done_us.saturating_sub(plan.started_us);
        self.metrics.time(Latency::LogSync, took);
        state.usual_us = if state.usual_us == 0 { took } else { (state.usual_us * 7 + took) / 8 };
        state.scratch.push(plan.scratch);
        self.complete_flush(
            state,
            plan.to,
            FlushInfo { batch_commits: commits, flush_depth: plan.depth, done_us },
        )
    }

    /// Marks the flight that ends at `end` as done, moves the durable LSN, and wakes whom that serves.
    fn complete_flush<'a>(
        &'a self,
        mut state: MutexGuard<'a, FlushState>,
        end: Lsn,
        info: FlushInfo,
    ) -> Result<MutexGuard<'a, FlushState>> {
        // A neighbour's failure poisons this flight too: the durable LSN must not move any more. Who waits for this flight, or to
        // lead the next, would never hear of it from anybody else.
        if let Err(poisoned) = self.poison.check() {
            self.wake_all(state);
            return Err(poisoned);
        }
        let flush = state.in_flight.iter_mut().find(|f| f.end == end).expect("the flight is in the air");
        flush.done = Some(info);
        let mut durable = None;
        let mut prefix = self.durable_lsn();
        while let Some(flush) = state.in_flight.pop_front_if(|flush| flush.done.is_some()) {
            // INV-7: the finished prefix has no hole, and never shrinks.
            base::check!(
                flush.from == prefix && flush.from < flush.end || planted(Bug::DurableOutOfOrder),
                "a flight {}..{} behind the durable LSN {prefix}",
                flush.from,
                flush.end
            );
            prefix = flush.end;
            // Who sees that it is durable finds the flight. A flight that overtook another is of use when that is done.
            let carried = flush.done.unwrap_or_default();
            self.completed.record(flush.from, flush.end, FlushInfo { done_us: info.done_us, ..carried });
            durable = Some(flush.end);
        }
        if planted(Bug::DurableOutOfOrder) {
            durable = Some(end.max(self.durable_lsn()));
        }
        self.count_in_flight(&state);
        if let Some(durable) = durable {
            base::verify!(durable <= self.ring.published(), "{durable} is durable and not published");
            self.durable.store(durable.0, Ordering::Release);
            self.ring.follow(durable);
            self.metrics.set(M::DurableLsn, durable.0);
            self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
        }
        let served = state.waiters.take_below(self.durable_lsn());
        let mut next = None;
        let mut log_thread = false;
        if self.slot_free(&state, 0) {
            log_thread = self.flush_due_in(&state) == Some(0);
            for wake in state.waiters.beyond(state.from) {
                match wake {
                    Wake::Thread(unparker) => {
                        next = Some(unparker.clone());
                        break;
                    }
                    Wake::Task(_) => log_thread = true,
                }
            }
        }
        // With another thread to lead, the log thread has only the tasks to tell.
        log_thread = state.waiters.has_ready() || (log_thread && next.is_none());
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
        if log_thread {
            self.log_thread.unpark();
        }
        served.into_iter().for_each(|thread| thread.unpark());
        if planted(Bug::ToldByLeader) {
            self.wake_tasks();
        }
        Ok(self.flush.lock())
    }

    /// Sends everybody away who waits: the database is poisoned. Tasks hear of it from the log thread.
    fn wake_all(&self, mut state: MutexGuard<'_, FlushState>) {
        base::check!(self.poison.is_set(), "those who wait for the log are sent away for nothing");
        if planted(Bug::FailureUnheard) {
            return;
        }
        let threads = state.waiters.take_all();
        let tasks = state.waiters.has_ready();
        drop(state);
        threads.into_iter().for_each(|thread| thread.unpark());
        if tasks {
            self.log_thread.unpark();
        }
    }

    /// Sends everybody away who waits for a flush, where the database is poisoned: whoever came before they could see that is on
    /// the list, and whoever comes later sees it.
    pub(crate) fn wake_all_waiters(&self) {
        self.wake_all(self.flush.lock());
    }

    /// Tells the tasks that have been served. REQUIRES: nothing is held, no call is under way that closing waits for; a waker may
    /// close the database.
    pub(crate) fn wake_tasks(&self) {
        let served = self.flush.lock().waiters.take_ready();
        for waker in served {
            // A caller's panic is reported by its own message. The others shall hear all the same.
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }

    fn write_and_sync(&self, plan: &mut FlushPlan, reason: SyncReason) -> Result {
        if plan.to >= LSN_END {
            return Err(Error::Limit { what: format!("the log has reached its last position, {LSN_END}") });
        }
        let shape = self.segments.shape();
        let first = block_of(plan.from);
        let last = block_of(Lsn(plan.to.0 - 1));
        self.metrics.add(M::LogFlushes, 1);
        self.metrics.add(M::LogBlocksWritten, last - first + 1);
        let mut at = first;
        while at <= last {
            let segment_last = (shape.segment_of(at) + 1) * shape.blocks - 1;
            let upto = last.min(segment_last);
            let segment = self.segments.get(shape.segment_of(at), plan.waiters)?;
            base::check!(segment.number == shape.segment_of(upto), "{at}..={upto} lie in two segments");
            self.write_blocks(plan, first, at, upto, &segment)?;
            let start = self.vfs.clock.now_us();
            let unsynced = planted(Bug::NoLogSync) || (planted(Bug::OneSegmentSynced) && upto < last);
            if !unsynced {
                segment.file.sync().map_err(|e| Error::io("sync", &segment.path, e))?;
            }
            let took = self.vfs.clock.now_us() - start;
            self.metrics.fsync(FileKind::Log, reason, took, plan.waiters);
            at = upto + 1;
        }
        Ok(())
    }

    /// Writes blocks `at..=upto` of the plan, which lie in one segment.
    fn write_blocks(
        &self,
        plan: &mut FlushPlan,
        first: u64,
        at: u64,
        upto: u64,
        segment: &Arc<super::segment::Segment>,
    ) -> Result {
        let header = |block: u64| BlockHeader {
            db_id: self.segments.shape().db_id,
            number: block,
            epoch: self.epoch,
            prev_used: if block == first { plan.prev_used } else { PAYLOAD_BYTES as u16 },
            durable: plan.durable,
        };
        let io = |e| Error::io("write", &segment.path, e);
        let offset = |block| file_offset(self.segments.shape(), block);
        let whole = |block: u64| block_start(block + 1) <= plan.to;
        if upto - at < GATHER_BLOCKS {
            for block in at..=upto {
                let part = self.gather(block, plan.to, &mut plan.scratch, (block - at) as usize);
                header(block).encode(part);
            }
            let bytes = &plan.scratch.bytes[..(upto - at + 1) as usize * BLOCK_BYTES];
            return segment.file.write_at(bytes, offset(at)).map_err(io);
        }
        let mut block = at;
        while block <= upto && whole(block) {
            let whole_count = (upto - block + 1).min(self.ring.contiguous(block));
            let count = whole_count - u64::from(!whole(block + whole_count - 1));
            let bytes = self.ring_blocks(block, count, &header);
            let op = WriteOp { offset: offset(block), bytes };
            segment.file.write_at(op.bytes, op.offset).map_err(io)?;
            block += count;
        }
        if block <= upto {
            let part = self.gather(block, plan.to, &mut plan.scratch, 0);
            header(block).encode(part);
            segment.file.write_at(part, offset(block)).map_err(io)?;
        }
        Ok(())
    }

    /// Copies the published payload of `block` below `to` to the place of block `n` in `scratch`, and zeros behind it.
    fn gather<'s>(&self, block: u64, to: Lsn, scratch: &'s mut Scratch, n: usize) -> &'s mut [u8] {
        let end = to.min(block_start(block + 1));
        let out = &mut scratch.bytes[n * BLOCK_BYTES..][..BLOCK_BYTES];
        self.ring.read_into(block_start(block), end, out);
        let used = HEADER_BYTES + end.since(block_start(block)) as usize;
        let before = std::mem::replace(&mut scratch.used[n], used);
        if used < before {
            out[used..before].fill(0);
        }
        out
    }

    #[allow(unsafe_code)]
    fn ring_blocks(&self, first: u64, count: u64, header: &dyn Fn(u64) -> BlockHeader) -> &[u8] {
        // SAFETY: flights never share a block: a flight with an open tail is alone, the others end at a block's start,
        // and `plan` hands out ranges one after the other. The slice is used for this flight's write only.
        let bytes = unsafe { self.ring.blocks_mut(first, count) };
        for (n, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            header(first + n as u64).encode(block);
        }
        bytes
    }
}
