//! The primitives of `base::sync`, for a thread of a simulated world and for any other thread.

use super::world::{BlockedOn, SimThread, WakeReason, World, current};
use super::world_run::start;
use crate::sync::atomic::AtomicU32;
use crate::sync::held::holds_no_latch;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as Plain, Ordering};
use std::time::Duration;

/// One wait in so many ends early (a spurious wakeup), as a real futex may.
const SPURIOUS_ONE_IN: u64 = 64;
/// One device operation in so many takes 100 times as long.
const SLOW_ONE_IN: u64 = 48;

/// Mutual exclusion without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: parking_lot::Mutex<T>,
    /// The number of the simulated thread that holds it, plus one; for the listing of a deadlock.
    owner: Plain,
}

/// Access to the value that a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while [`Condvar::wait`] has released it.
    inner: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Makes a mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { inner: parking_lot::Mutex::new(value), owner: Plain::new(0) }
    }

    /// Waits until the mutex is free, and takes it.
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

    /// Returns the value of a mutex that no other thread shares any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }

    fn lock_in(&self, current: &SimThread, at: &'static Location<'static>) -> parking_lot::MutexGuard<'_, T> {
        loop {
            if let Some(inner) = self.inner.try_lock() {
                self.owner.store(current.me as u32 + 1, Ordering::Relaxed);
                return inner;
            }
            current.world.block(current.me, self.blocked_on(), None, at);
        }
    }

    fn blocked_on(&self) -> BlockedOn {
        BlockedOn::Mutex { at: &raw const self.owner as usize, owner: self.owner.load(Ordering::Relaxed) }
    }

    /// Announces that the mutex is free. Returns whether a thread waited for it.
    fn released(&self, current: &SimThread) -> bool {
        self.owner.store(0, Ordering::Relaxed);
        current.world.wake(self.blocked_on(), u32::MAX) > 0
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

/// A condition variable, for a condition that a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    /// Gives each condition variable an address of its own.
    address: Plain,
}

impl Condvar {
    /// Makes a condition variable without waiters.
    pub const fn new() -> Self {
        Condvar { inner: parking_lot::Condvar::new(), address: Plain::new(0) }
    }

    /// Releases the mutex, waits for a notification, takes the mutex again. May wake without a
    /// notification.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        holds_no_latch();
        match current() {
            None => self.inner.wait(guard.inner.as_mut().expect("held")),
            Some(current) => drop(self.wait_in(&current, guard, None, Location::caller())),
        }
    }

    /// As [`Condvar::wait`], for at most `timeout`. Returns true if the time has passed.
    #[track_caller]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        holds_no_latch();
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
            world.block(*me, self.blocked_on(), for_us, at)
        };
        guard.inner = Some(guard.mutex.lock_in(current, at));
        woken
    }

    fn blocked_on(&self) -> BlockedOn {
        BlockedOn::Condvar(&raw const self.address as usize)
    }

    fn notify(&self, count: u32, at: &'static Location<'static>) {
        match current() {
            None if count == 1 => drop(self.inner.notify_one()),
            None => drop(self.inner.notify_all()),
            Some(current) => {
                current.world.wake(self.blocked_on(), count);
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

/// Waits while `*word == expected`, at most `timeout`. May return early; callers loop. REQUIRES: no
/// page latch is held.
#[track_caller]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    holds_no_latch();
    wait_on(word, expected, timeout);
}

/// As [`futex_wait`], for a thread that waits for a page latch and may hold others.
#[track_caller]
pub fn futex_wait_for_latch(word: &AtomicU32, expected: u32) {
    wait_on(word, expected, None);
}

#[track_caller]
fn wait_on(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
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
    /// Whether this is the calling thread. A thread cannot wait for its own end.
    pub fn is_current(&self) -> bool {
        self.inner.thread().id() == std::thread::current().id()
    }

    /// Waits for the thread's end. Returns its panic as `Err`.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        holds_no_latch();
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

/// Does one step of a short spin: for waits that end when another running thread takes a few more
/// steps. `spins` counts the spins so far. After 64 spins the thread yields its core.
#[track_caller]
pub fn spin(spins: &mut u32) {
    *spins += 1;
    if let Some(SimThread { world, me }) = current() {
        world.spin(me, Location::caller());
    } else if *spins < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Returns the number of cores that this process may use.
pub fn cores() -> u32 {
    match current() {
        Some(current) => current.world.cores,
        None => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
    }
}

/// A scheduling point: the simulator may run another thread here.
#[track_caller]
pub fn point() {
    if let Some(SimThread { world, me }) = current() {
        world.step(me, Location::caller());
    }
}

/// Tells the simulator of an event that a replay must repeat.
pub fn event(value: impl FnOnce() -> u64) {
    if let Some(current) = current() {
        current.world.live().feed(value());
    }
}

/// Lets simulated time pass that a device would take, about `us` microseconds, sometimes far more.
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

/// Sleeps for `us` microseconds of simulated time. Does nothing outside a simulated world.
#[track_caller]
pub fn pause(us: u64) {
    if let Some(SimThread { world, me }) = current() {
        world.block(me, BlockedOn::Sleep, Some(us), Location::caller());
    }
}

/// Returns microseconds of simulated time; `None` outside a simulated world.
#[track_caller]
pub fn simulated_us() -> Option<u64> {
    let SimThread { world, me } = current()?;
    world.step(me, Location::caller());
    let now = world.state().now_us;
    Some(now)
}

/// Returns the flags that the simulated world of this thread was started with; 0 outside a world.
pub fn world_flags() -> u128 {
    current().map_or(0, |current| current.world.flags)
}

/// Returns the number of the calling thread in its world; `None` outside a world.
pub(in crate::sync) fn number_in_world() -> Option<usize> {
    current().map(|current| current.me)
}
