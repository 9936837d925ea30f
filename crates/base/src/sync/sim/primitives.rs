//! The primitives of `base::sync`, for a thread of a simulated world and for any other.

use super::run::start;
use super::world::{BlockedOn, SimThread, WakeReason, World, current};
use crate::sync::atomic::AtomicU32;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as Plain, Ordering};
use std::time::Duration;

/// One wait in so many ends early, as a real futex may.
const SPURIOUS_ONE_IN: u64 = 64;
/// One device operation in so many takes very long.
const SLOW_ONE_IN: u64 = 48;

/// Mutual exclusion without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: parking_lot::Mutex<T>,
    /// The simulated thread that holds it, plus one; for the listing of a deadlock.
    owner: Plain,
}

/// Access to what a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while [`Condvar::wait`] has let go of it.
    inner: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { inner: parking_lot::Mutex::new(value), owner: Plain::new(0) }
    }

    /// Waits until the mutex is free and takes it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match current() {
            None => MutexGuard { mutex: self, inner: Some(self.inner.lock()) },
            Some(current) => {
                current.world.step(current.me, Location::caller());
                MutexGuard { mutex: self, inner: Some(self.lock_in(&current, Location::caller())) }
            }
        }
    }

    /// Takes the mutex if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let current = current();
        if let Some(current) = &current {
            current.world.step(current.me, Location::caller());
        }
        let inner = self.inner.try_lock()?;
        if let Some(current) = &current {
            self.owner.store(current.me as u32 + 1, Ordering::Relaxed);
        }
        Some(MutexGuard { mutex: self, inner: Some(inner) })
    }

    /// The value, when nobody shares the mutex any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }

    fn lock_in(&self, current: &SimThread, at: &'static Location<'static>) -> parking_lot::MutexGuard<'_, T> {
        loop {
            if let Some(inner) = self.inner.try_lock() {
                self.owner.store(current.me as u32 + 1, Ordering::Relaxed);
                return inner;
            }
            current.world.block(current.me, self.wait(), None, at);
        }
    }

    fn wait(&self) -> BlockedOn {
        BlockedOn::Mutex { at: &raw const self.owner as usize, owner: self.owner.load(Ordering::Relaxed) }
    }

    /// Says that the mutex is free. Returns whether anybody waited.
    fn released(&self, current: &SimThread) -> bool {
        self.owner.store(0, Ordering::Relaxed);
        current.world.wake(self.wait(), u32::MAX) > 0
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[track_caller]
    fn drop(&mut self) {
        drop(self.inner.take());
        if let Some(current) = current()
            && self.mutex.released(&current)
        {
            current.world.step(current.me, Location::caller());
        }
    }
}

/// A place to wait for a condition that a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    /// So that no two have the same address.
    place: Plain,
}

impl Condvar {
    /// A condition variable nobody waits on.
    pub const fn new() -> Self {
        Condvar { inner: parking_lot::Condvar::new(), place: Plain::new(0) }
    }

    /// Releases the mutex, waits for a notification, takes the mutex again. May wake without one.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match current() {
            None => self.inner.wait(guard.inner.as_mut().expect("held")),
            Some(current) => drop(self.wait_in(&current, guard, None, Location::caller())),
        }
    }

    /// As [`Condvar::wait`], for at most `timeout`. True if the time ran out.
    #[track_caller]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        match current() {
            None => self.inner.wait_for(guard.inner.as_mut().expect("held"), timeout).timed_out(),
            Some(current) => {
                self.wait_in(&current, guard, Some(micros(timeout)), Location::caller()) == WakeReason::ByTime
            }
        }
    }

    fn wait_in<T>(
        &self,
        current: &SimThread,
        guard: &mut MutexGuard<'_, T>,
        for_us: Option<u64>,
        at: &'static Location<'static>,
    ) -> WakeReason {
        let SimThread { world, me } = current;
        drop(guard.inner.take());
        guard.mutex.released(current);
        let woken = if spurious(world) {
            world.step(*me, at);
            WakeReason::ByThread
        } else {
            world.block(*me, self.place(), for_us, at)
        };
        guard.inner = Some(guard.mutex.lock_in(current, at));
        woken
    }

    fn place(&self) -> BlockedOn {
        BlockedOn::Condvar(&raw const self.place as usize)
    }

    fn notify(&self, count: u32, at: &'static Location<'static>) {
        match current() {
            None if count == 1 => drop(self.inner.notify_one()),
            None => drop(self.inner.notify_all()),
            Some(current) => {
                current.world.wake(self.place(), count);
                current.world.step(current.me, at);
            }
        }
    }

    /// Wakes one waiter.
    #[track_caller]
    pub fn notify_one(&self) {
        self.notify(1, Location::caller());
    }

    /// Wakes all waiters.
    #[track_caller]
    pub fn notify_all(&self) {
        self.notify(u32::MAX, Location::caller());
    }
}

fn micros(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX)
}

fn spurious(world: &World) -> bool {
    world.live().rng.one_in(SPURIOUS_ONE_IN)
}

/// Waits while `*word == expected`, at most `timeout`. May return early; callers loop.
#[track_caller]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    if let Some(SimThread { world, me }) = current() {
        let at = Location::caller();
        world.step(me, at);
        if word.0.load(Ordering::Acquire) == expected && !spurious(&world) {
            world.block(me, futex(word), timeout.map(micros), at);
        }
        return;
    }
    if word.0.load(Ordering::Acquire) != expected {
        return;
    }
    let timespec = timeout.map(|t| rustix::thread::Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let _ = rustix::thread::futex::wait(
        &word.0,
        rustix::thread::futex::Flags::PRIVATE,
        expected,
        timespec.as_ref(),
    );
}

fn futex(word: &AtomicU32) -> BlockedOn {
    BlockedOn::Futex(std::ptr::from_ref(word) as usize)
}

/// Wakes up to `count` threads that wait on `word`.
#[track_caller]
pub fn futex_wake(word: &AtomicU32, count: u32) {
    match current() {
        Some(SimThread { world, me }) => {
            world.wake(futex(word), count);
            world.step(me, Location::caller());
        }
        None => {
            let _ = rustix::thread::futex::wake(&word.0, rustix::thread::futex::Flags::PRIVATE, count);
        }
    }
}

/// A running thread.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: std::thread::JoinHandle<T>,
    simulated: Option<SimThread>,
}

impl<T> JoinHandle<T> {
    /// Whether it is the calling thread, which cannot wait for its own end.
    pub fn is_current(&self) -> bool {
        self.inner.thread().id() == std::thread::current().id()
    }

    /// Waits for the thread's end. `Err` holds its panic.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        if let (Some(thread), Some(SimThread { world, me })) = (self.simulated, current()) {
            world.step(me, Location::caller());
            while !world.is_finished(thread.me) {
                world.block(me, BlockedOn::Join(thread.me), None, Location::caller());
            }
        }
        self.inner.join()
    }

    /// Whether the thread has ended.
    #[track_caller]
    pub fn is_finished(&self) -> bool {
        match &self.simulated {
            Some(thread) => {
                point();
                thread.world.is_finished(thread.me)
            }
            None => self.inner.is_finished(),
        }
    }
}

/// Starts a thread called `name`.
#[track_caller]
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let Some(SimThread { world, me }) = current() else {
        let inner = std::thread::Builder::new().name(name.to_owned()).spawn(f)?;
        return Ok(JoinHandle { inner, simulated: None });
    };
    let at = Location::caller();
    let (inner, index) = start(&world, name, at, f)?;
    let simulated = Some(SimThread { world: Arc::clone(&world), me: index });
    world.step(me, at);
    Ok(JoinHandle { inner, simulated })
}

/// One turn of a short spin: for waits that end when another running thread takes a few more steps.
/// `turn` counts the turns so far; after some the thread yields its core.
#[track_caller]
pub fn spin(turn: &mut u32) {
    *turn += 1;
    if let Some(SimThread { world, me }) = current() {
        world.spin(me, Location::caller());
    } else if *turn < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Cores that this process may use.
pub fn cores() -> u32 {
    match current() {
        Some(current) => current.world.cores,
        None => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
    }
}

/// A place where the simulator may run another thread.
#[track_caller]
pub fn point() {
    if let Some(SimThread { world, me }) = current() {
        world.step(me, Location::caller());
    }
}

/// Tells the simulator of something that a replay must repeat.
pub fn event(value: impl FnOnce() -> u64) {
    if let Some(current) = current() {
        current.world.live().feed(value());
    }
}

/// Lets the simulated time pass that a device takes, about `us` microseconds, sometimes far more.
#[track_caller]
pub fn device_time(us: u64) {
    if let Some(SimThread { world, me }) = current() {
        let takes = {
            let rng = &mut world.live().rng;
            let factor = if rng.one_in(SLOW_ONE_IN) { 100 } else { 1 };
            rng.between(us / 2, us * 3 / 2) * factor
        };
        world.block(me, BlockedOn::Sleep, Some(takes), Location::caller());
    }
}

/// Sleeps for so many microseconds of simulated time. Does nothing outside a simulated world.
#[track_caller]
pub fn pause(us: u64) {
    if let Some(SimThread { world, me }) = current() {
        world.block(me, BlockedOn::Sleep, Some(us), Location::caller());
    }
}

/// Microseconds of simulated time; `None` outside a simulated world.
#[track_caller]
pub fn simulated_us() -> Option<u64> {
    let SimThread { world, me } = current()?;
    world.step(me, Location::caller());
    let now = world.state().now_us;
    Some(now)
}

/// What the simulated world that this thread belongs to was given by those who began it; 0 outside one.
pub fn world_flags() -> u64 {
    current().map_or(0, |current| current.world.flags)
}

/// Which thread of its world the calling one is; `None` outside one.
pub(in crate::sync) fn number_in_world() -> Option<usize> {
    current().map(|current| current.me)
}
