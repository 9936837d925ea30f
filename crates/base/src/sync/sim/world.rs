//! One world: its threads, whose turn it is, its time.
//!
//! The running thread holds the permit. At a scheduling point it locks the state, lets the policy choose, and if another
//! thread was chosen gives it the permit and waits for its own. So everything here happens one after the other, and what
//! the generator draws depends on nothing but the seed and the steps before.

use super::failure::Failure;
use super::policy::Policy;
use super::run::WorldOptions;
use crate::prng::Prng;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::Location;
use std::sync::Arc;

/// What a thread waits for. Addresses tell waits apart; no order and no hash depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockedOn {
    Mutex { at: usize, owner: u32 },
    Condvar(usize),
    Futex(usize),
    Join(usize),
    Sleep,
}

impl BlockedOn {
    fn same(self, other: BlockedOn) -> bool {
        match (self, other) {
            (BlockedOn::Mutex { at: a, .. }, BlockedOn::Mutex { at: b, .. }) => a == b,
            _ => self == other,
        }
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    ByThread,
    ByTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadStatus {
    Ready,
    Waiting { what: BlockedOn, until: Option<u64> },
    Finished,
}

/// Where a thread waits for its turn.
#[derive(Debug, Default)]
struct RunPermit {
    granted: Mutex<bool>,
    changed: Condvar,
}

impl RunPermit {
    fn grant(&self) {
        *self.granted.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut granted = self.granted.lock();
        while !*granted {
            self.changed.wait(&mut granted);
        }
        *granted = false;
    }
}

#[derive(Debug)]
struct ThreadState {
    name: String,
    status: ThreadStatus,
    woken: WakeReason,
    permit: Arc<RunPermit>,
    /// The call that reached the last scheduling point.
    at: &'static Location<'static>,
    priority: u64,
    /// When it last spun, by [`WorldState::progress`].
    spun_at: u64,
}

#[derive(Debug)]
pub(super) struct WorldState {
    options: WorldOptions,
    policy: Policy,
    pub(super) rng: Prng,
    pub(super) hash: u64,
    pub(super) steps: u64,
    pub(super) now_us: u64,
    threads: Vec<ThreadState>,
    /// Turns of spinning since anything else happened.
    idle_turns: usize,
    /// How often anything else has happened.
    progress: u64,
    /// Priorities for those who spin, each below the one before.
    lowest: u64,
    unfinished: usize,
    pub(super) failure: Option<Failure>,
}

/// One world.
#[derive(Debug)]
pub(super) struct World {
    state: Mutex<WorldState>,
    ended: Condvar,
    pub(super) flags: u64,
    pub(super) cores: u32,
    pub(super) backtrace: bool,
    /// Whether atomics are scheduling points.
    atomics: bool,
}

/// The world that a thread belongs to, and its number there.
#[derive(Clone, Debug)]
pub(super) struct SimThread {
    pub(super) world: Arc<World>,
    pub(super) me: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<SimThread>> = const { RefCell::new(None) };
}

/// Where the calling thread is; `None` outside all worlds.
#[inline]
pub(super) fn current() -> Option<SimThread> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// A scheduling point at an atomic operation, in worlds that have them.
#[inline]
pub(super) fn atomic_point(at: &'static Location<'static>) {
    let _ = CURRENT.try_with(|current| {
        if let Some(SimThread { world, me }) = &*current.borrow()
            && world.atomics
        {
            // A turn of a spin reads what it waits for: that is no progress.
            world.step_without_progress(*me, at);
        }
    });
}

/// Makes the calling thread one of a world's, or one outside.
pub(super) fn set_current_thread(current: Option<SimThread>) {
    let _ = CURRENT.try_with(|h| *h.borrow_mut() = current);
}

/// Where the threads of a world that has failed end up.
fn park_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl WorldState {
    pub(super) fn feed(&mut self, value: u64) {
        self.hash = mix(self.hash, value);
    }

    fn ready(&self) -> usize {
        self.threads.iter().filter(|t| t.status == ThreadStatus::Ready).count()
    }

    fn nth_ready(&self, n: usize) -> usize {
        let mut ready = self.threads.iter().enumerate().filter(|(_, t)| t.status == ThreadStatus::Ready);
        ready.nth(n).expect("counted before").0
    }

    /// Wakes whose time has come.
    fn fire_timers(&mut self) {
        for thread in &mut self.threads {
            if let ThreadStatus::Waiting { until: Some(until), .. } = thread.status
                && until <= self.now_us
            {
                thread.status = ThreadStatus::Ready;
                thread.woken = WakeReason::ByTime;
            }
        }
    }

    /// Moves on to the next timeout. False if there is none.
    fn jump(&mut self) -> bool {
        let timers = self.threads.iter().filter_map(|t| match t.status {
            ThreadStatus::Waiting { until, .. } => until,
            _ => None,
        });
        let Some(next) = timers.min() else { return false };
        self.now_us = self.now_us.max(next);
        self.feed(self.now_us);
        self.fire_timers();
        true
    }

    fn progresses(&mut self) {
        self.idle_turns = 0;
        self.progress += 1;
    }

    /// Whether all who can run have spun, and nobody has done anything else, for so long that what they wait for must come with time. A
    /// crowd of spinners may pass the one that they wait for many times.
    fn only_spins(&self) -> bool {
        self.idle_turns >= 64 * self.ready()
            && self.threads.iter().all(|t| t.status != ThreadStatus::Ready || t.spun_at == self.progress)
    }

    /// Counts a step and says who goes on. `me` is who stands at the scheduling point, and whether it may stay.
    fn choose(&mut self, me: usize, stay: bool) -> Result<usize, Failure> {
        self.steps += 1;
        self.now_us += 1;
        if self.steps > self.options.max_steps {
            return Err(Failure::StepLimit(self.listing()));
        }
        self.fire_timers();
        let ready = match self.ready() {
            0 => {
                if !self.jump() {
                    return Err(Failure::Deadlock(self.listing()));
                }
                self.ready()
            }
            n => n,
        };
        if ready == 1 {
            return Ok(self.nth_ready(0));
        }
        let may_stay = stay && self.threads[me].status == ThreadStatus::Ready;
        let next = match self.policy {
            Policy::Random { one_in } => {
                if may_stay && !self.rng.one_in(one_in) {
                    me
                } else {
                    let n = self.rng.below(ready as u64) as usize;
                    self.nth_ready(n)
                }
            }
            Policy::Priority { one_in } => {
                if self.rng.one_in(one_in) {
                    self.threads[me].priority = Policy::priority(&mut self.rng);
                }
                let ready = self.threads.iter().enumerate().filter(|(_, t)| t.status == ThreadStatus::Ready);
                ready.max_by_key(|(_, t)| t.priority).expect("counted before").0
            }
        };
        self.feed(next as u64);
        Ok(next)
    }

    /// What each thread does, one a line.
    pub(super) fn listing(&self) -> String {
        let mut out = String::new();
        let name = |n: usize| self.threads.get(n).map_or("nobody", |t| t.name.as_str());
        for (n, thread) in self.threads.iter().enumerate() {
            let doing = match thread.status {
                ThreadStatus::Finished => continue,
                ThreadStatus::Ready => "can run".to_owned(),
                ThreadStatus::Waiting { what, until } => {
                    let what = match what {
                        BlockedOn::Mutex { owner: 0, .. } => "waits for a mutex".to_owned(),
                        BlockedOn::Mutex { owner, .. } => {
                            format!("waits for a mutex that {} holds", name(owner as usize - 1))
                        }
                        BlockedOn::Condvar(_) => "waits on a condition variable".to_owned(),
                        BlockedOn::Futex(_) => "waits on a futex".to_owned(),
                        BlockedOn::Join(thread) => format!("waits for the end of {}", name(thread)),
                        BlockedOn::Sleep => "sleeps".to_owned(),
                    };
                    until.map_or(what.clone(), |until| format!("{what}, until {until} us"))
                }
            };
            let _ = writeln!(out, "  {n} {}: {doing}, at {}", thread.name, thread.at);
        }
        let _ = write!(out, "  after {} steps and {} us", self.steps, self.now_us);
        out
    }
}

impl World {
    pub(super) fn new(options: WorldOptions) -> World {
        let mut rng = Prng::new(options.seed);
        let policy = Policy::draw(&mut rng);
        let atomics = rng.one_in(options.atomics_one_in);
        let cores = if options.cores == 0 { rng.between(1, 4) as u32 } else { options.cores };
        let (flags, hash, backtrace) = (options.flags, options.seed, options.backtrace);
        World {
            state: Mutex::new(WorldState {
                options,
                policy,
                rng,
                hash,
                steps: 0,
                now_us: 0,
                threads: Vec::new(),
                idle_turns: 0,
                progress: 1,
                lowest: 1 << 32,
                unfinished: 0,
                failure: None,
            }),
            ended: Condvar::new(),
            flags,
            cores,
            backtrace,
            atomics,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }

    /// Waits until the world has ended or a while has passed. True if it has ended.
    pub(super) fn wait_for_end(
        &self,
        state: &mut MutexGuard<'_, WorldState>,
        a_while: std::time::Duration,
    ) -> bool {
        if state.failure.is_none() && state.unfinished > 0 {
            self.ended.wait_for(state, a_while);
        }
        state.failure.is_some() || state.unfinished == 0
    }

    /// Enters a thread. It may run when it gets the permit.
    pub(super) fn enter(&self, name: &str, at: &'static Location<'static>) -> usize {
        let mut state = self.state.lock();
        let priority = Policy::priority(&mut state.rng);
        let thread = ThreadState {
            name: name.to_owned(),
            status: ThreadStatus::Ready,
            woken: WakeReason::ByThread,
            permit: Arc::default(),
            at,
            priority,
            spun_at: 0,
        };
        state.threads.push(thread);
        state.unfinished += 1;
        state.threads.len() - 1
    }

    /// Waits for the first turn.
    pub(super) fn wait_for_turn(&self, me: usize) {
        let permit = Arc::clone(&self.state.lock().threads[me].permit);
        permit.wait();
    }

    /// Gives the first thread its turn.
    pub(super) fn begin(&self) {
        self.state.lock().threads[0].permit.grant();
    }

    /// A scheduling point: anybody who can may run on.
    pub(super) fn step(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        state.progresses();
        self.pass(state, me, true);
    }

    /// A scheduling point that is no progress.
    fn step_without_progress(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        self.pass(state, me, true);
    }

    /// A turn of a spin: somebody else runs if anybody can.
    pub(super) fn spin(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        state.lowest -= 1;
        state.threads[me].priority = state.lowest;
        state.idle_turns += 1;
        state.threads[me].spun_at = state.progress;
        if state.only_spins() && state.jump() {
            state.progresses();
        }
        self.pass(state, me, false);
    }

    /// Waits for `what`, for at most `for_us`. Others run meanwhile.
    pub(super) fn block(
        &self,
        me: usize,
        what: BlockedOn,
        for_us: Option<u64>,
        at: &'static Location<'static>,
    ) -> WakeReason {
        let mut state = self.live();
        let until = for_us.map(|us| state.now_us.saturating_add(us));
        state.progresses();
        let thread = &mut state.threads[me];
        thread.at = at;
        thread.status = ThreadStatus::Waiting { what, until };
        self.pass(state, me, false);
        self.live().threads[me].woken
    }

    /// Lets up to `count` of those who wait for `what` run again, any of them. Returns how many.
    pub(super) fn wake(&self, what: BlockedOn, count: u32) -> u32 {
        let mut state = self.live();
        let waits =
            |t: &ThreadState| matches!(t.status, ThreadStatus::Waiting { what: w, .. } if w.same(what));
        let mut woken = 0;
        while woken < count {
            let waiting = state.threads.iter().filter(|t| waits(t)).count();
            if waiting == 0 {
                break;
            }
            let n = if waiting == 1 { 0 } else { state.rng.below(waiting as u64) as usize };
            let thread = state.threads.iter_mut().filter(|t| waits(t)).nth(n).expect("counted above");
            thread.status = ThreadStatus::Ready;
            thread.woken = WakeReason::ByThread;
            woken += 1;
        }
        woken
    }

    pub(super) fn is_finished(&self, thread: usize) -> bool {
        self.state.lock().threads[thread].status == ThreadStatus::Finished
    }

    /// Lets the policy choose and hands the permit over. Returns when it is back.
    fn pass(&self, mut state: MutexGuard<'_, WorldState>, me: usize, stay: bool) {
        match state.choose(me, stay) {
            Ok(next) if next == me => {}
            Ok(next) => {
                let mine = Arc::clone(&state.threads[me].permit);
                let theirs = Arc::clone(&state.threads[next].permit);
                drop(state);
                theirs.grant();
                mine.wait();
            }
            Err(failure) => {
                drop(state);
                self.fail(failure);
            }
        }
    }

    /// Ends the calling thread's part in the world.
    pub(super) fn leave(&self, me: usize) {
        self.wake(BlockedOn::Join(me), u32::MAX);
        let mut state = self.live();
        state.threads[me].status = ThreadStatus::Finished;
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.ended.notify_all();
            return;
        }
        match state.choose(me, false) {
            Ok(next) => {
                let theirs = Arc::clone(&state.threads[next].permit);
                drop(state);
                theirs.grant();
            }
            Err(failure) => {
                drop(state);
                self.fail(failure);
            }
        }
    }

    /// Ends the world. The calling thread never goes on.
    fn fail(&self, failure: Failure) -> ! {
        self.end(failure);
        park_forever();
    }

    fn end(&self, failure: Failure) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(failure);
        }
        self.ended.notify_all();
    }

    /// Ends the world with a panic of thread `me`, which goes on to the next scheduling point in its destructors.
    pub(super) fn panicked(&self, me: usize, message: String) {
        let state = self.state.lock();
        if state.failure.is_some() {
            // A second panic, out of a destructor: it would abort the process.
            drop(state);
            park_forever();
        }
        let thread = state.threads[me].name.clone();
        drop(state);
        self.end(Failure::Panic { thread, message });
    }

    /// The state for a thread of this world. Does not return once the world has ended.
    pub(super) fn live(&self) -> MutexGuard<'_, WorldState> {
        let state = self.state.lock();
        if state.failure.is_some() {
            drop(state);
            park_forever();
        }
        state
    }
}
