//! One world: its threads, the scheduler that picks the running one, and simulated time.
//!
//! Only the running thread has a permit. At a scheduling point it locks the state and lets the
//! policy pick a thread. If that is another thread, it grants the permit to that thread and waits
//! for its own. So all steps of a world happen one after the other. What the generator draws
//! depends only on the seed and on the steps before.

use super::failure::Failure;
use super::options::WorldOptions;
use super::policy::Policy;
use crate::prng::Prng;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::Location;
use std::sync::Arc;

/// The object that a thread waits for. An address identifies a mutex, a condition variable or a
/// futex word. No order and no hash depends on the addresses.
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

/// The permit to run: a thread waits here until another thread grants it.
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

/// A thread that can run and was not picked for so many steps gets a new priority. It is long, so
/// that a thread can still fall far behind the others.
const STARVED_STEPS: u64 = 50_000;

#[derive(Debug)]
struct ThreadState {
    name: String,
    status: ThreadStatus,
    woken: WakeReason,
    permit: Arc<RunPermit>,
    /// The source line of the last scheduling point.
    at: &'static Location<'static>,
    priority: u64,
    /// The value of [`WorldState::progress`] when the thread last spun.
    spun_at: u64,
    /// The value of [`WorldState::steps`] when the thread was last picked.
    picked_at: u64,
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
    /// Steps of spinning since the last step that was not spinning.
    idle_spins: usize,
    /// How many steps were not spinning.
    progress: u64,
    /// The last priority that a spinning thread got. Each one gets a lower priority than the one
    /// before.
    lowest: u64,
    unfinished: usize,
    pub(super) failure: Option<Failure>,
}

/// One world.
#[derive(Debug)]
pub(super) struct World {
    state: Mutex<WorldState>,
    ended: Condvar,
    pub(super) flags: u128,
    pub(super) cores: u32,
    pub(super) backtrace: bool,
    /// Whether atomics are scheduling points.
    atomics: bool,
}

/// A thread of a world: the world, and the thread's number in it.
#[derive(Clone, Debug)]
pub(super) struct SimThread {
    pub(super) world: Arc<World>,
    pub(super) me: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<SimThread>> = const { RefCell::new(None) };
}

/// Returns the calling thread's world and number; `None` outside all worlds.
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
            // A step of a spin reads the word that it waits for. That is no progress.
            world.step_without_progress(*me, at);
        }
    });
}

/// Makes the calling thread belong to a world, or to none.
pub(super) fn set_current_thread(thread: Option<SimThread>) {
    let _ = CURRENT.try_with(|current| *current.borrow_mut() = thread);
}

/// Parks a thread of a world that has failed, for ever.
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

    /// Wakes the threads whose timeout has passed.
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

    /// Moves time to the next timeout. Returns false if there is none.
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
        self.idle_spins = 0;
        self.progress += 1;
    }

    /// Whether only spinning threads can run, and have spun for long. Then the event that they wait
    /// for needs time to pass. They must have spun for long: many spinning threads may be picked
    /// again and again before the thread that they wait for.
    fn only_spins(&self) -> bool {
        self.idle_spins >= 64 * self.ready()
            && self.threads.iter().all(|t| t.status != ThreadStatus::Ready || t.spun_at == self.progress)
    }

    /// Counts a step and picks the thread that runs next. `me` is the thread at the scheduling
    /// point; `stay` says whether it may go on itself.
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
                    self.feed_starved();
                }
                let ready = self.threads.iter().enumerate().filter(|(_, t)| t.status == ThreadStatus::Ready);
                ready.max_by_key(|(_, t)| t.priority).expect("counted before").0
            }
        };
        self.threads[next].picked_at = self.steps;
        self.feed(next as u64);
        Ok(next)
    }

    /// Gives a new priority to each thread that could run for long and was never picked. A thread
    /// that has spun once has a priority below all others, and two threads that wake each other for
    /// ever would keep it from what both wait for. No scheduler of an operating system does that.
    fn feed_starved(&mut self) {
        for thread in &mut self.threads {
            if thread.status == ThreadStatus::Ready && self.steps - thread.picked_at > STARVED_STEPS {
                thread.priority = Policy::priority(&mut self.rng);
            }
        }
    }

    /// Returns what each thread does, one thread a line.
    pub(super) fn listing(&self) -> String {
        let mut out = String::new();
        let name = |n: usize| self.threads.get(n).map_or("no thread", |t| t.name.as_str());
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
                idle_spins: 0,
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

    /// Waits until the world has ended or `a_while` has passed. Returns whether it has ended.
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

    /// Adds a thread to the world. It runs when it gets the permit.
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
            picked_at: state.steps,
        };
        state.threads.push(thread);
        state.unfinished += 1;
        state.threads.len() - 1
    }

    /// Waits until the thread is picked for the first time.
    pub(super) fn wait_until_chosen(&self, me: usize) {
        let permit = Arc::clone(&self.state.lock().threads[me].permit);
        permit.wait();
    }

    /// Lets the first thread run.
    pub(super) fn begin(&self) {
        self.state.lock().threads[0].permit.grant();
    }

    /// A scheduling point: any thread that can run may go on.
    pub(super) fn step(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        state.progresses();
        self.pass(state, me, true);
    }

    /// A scheduling point that does not count as progress.
    fn step_without_progress(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        self.pass(state, me, true);
    }

    /// A step of a spin: another thread runs if one can.
    pub(super) fn spin(&self, me: usize, at: &'static Location<'static>) {
        let mut state = self.live();
        state.threads[me].at = at;
        state.lowest -= 1;
        state.threads[me].priority = state.lowest;
        state.idle_spins += 1;
        state.threads[me].spun_at = state.progress;
        if state.only_spins() && state.jump() {
            state.progresses();
        }
        self.pass(state, me, false);
    }

    /// Waits for `what`, for at most `for_us`. Other threads run meanwhile.
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

    /// Wakes up to `count` threads that wait for `what`, picked at random. Returns how many.
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

    /// Lets the policy pick a thread and grants it the permit. Returns when the calling thread has
    /// its own permit again.
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

    /// Removes the calling thread from the world, because it has ended.
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

    /// Ends the world with a failure. Never returns.
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

    /// Ends the world with a panic of thread `me`. That thread goes on to the next scheduling point
    /// in its destructors.
    pub(super) fn panicked(&self, me: usize, message: String) {
        let state = self.state.lock();
        if state.failure.is_some() {
            // A second panic, from a destructor: it would abort the process.
            drop(state);
            park_forever();
        }
        let thread = state.threads[me].name.clone();
        drop(state);
        self.end(Failure::Panic { thread, message });
    }

    /// Returns the state, for a thread of this world. Does not return once the world has ended.
    pub(super) fn live(&self) -> MutexGuard<'_, WorldState> {
        let state = self.state.lock();
        if state.failure.is_some() {
            drop(state);
            park_forever();
        }
        state
    }
}
