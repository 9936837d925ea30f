//! The primitives that a program runs: parking_lot and the futex system call.

use super::atomic::{AtomicU32, Ordering};
use super::held::holds_no_latch;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Mutual exclusion without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: parking_lot::Mutex<T>,
}

/// Access to the value that a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    inner: parking_lot::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Makes a mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { inner: parking_lot::Mutex::new(value) }
    }

    /// Waits until the mutex is free, and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: self.inner.lock() }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { inner: self.inner.try_lock()? })
    }

    /// Returns the value of a mutex that no other thread shares any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable, for a condition that a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
}

impl Condvar {
    /// Makes a condition variable without waiters.
    pub const fn new() -> Self {
        Condvar { inner: parking_lot::Condvar::new() }
    }

    /// Releases the mutex, waits for a notification, takes the mutex again. May wake without a
    /// notification.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        holds_no_latch();
        self.inner.wait(&mut guard.inner);
    }

    /// As [`Condvar::wait`], for at most `timeout`. Returns true if the time has passed.
    #[track_caller]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        holds_no_latch();
        self.inner.wait_for(&mut guard.inner, timeout).timed_out()
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// Waits while `*word == expected`, at most `timeout`. May return early; callers loop. REQUIRES: no
/// page latch is held.
#[track_caller]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    holds_no_latch();
    wait_on(word, expected, timeout);
}

/// As [`futex_wait`], for a thread that waits for a page latch and may hold others.
pub fn futex_wait_for_latch(word: &AtomicU32, expected: u32) {
    wait_on(word, expected, None);
}

fn wait_on(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    if word.load(Ordering::Acquire) != expected {
        return;
    }
    let timespec = timeout.map(|t| rustix::thread::Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let _ =
        rustix::thread::futex::wait(word, rustix::thread::futex::Flags::PRIVATE, expected, timespec.as_ref());
}

/// Wakes up to `count` threads that wait on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::PRIVATE, count);
}

/// A running thread.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: std::thread::JoinHandle<T>,
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
        self.inner.join()
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

/// Starts a thread called `name`.
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Ok(JoinHandle { inner: std::thread::Builder::new().name(name.to_owned()).spawn(f)? })
}

/// Does one step of a short spin: for waits that end when another running thread takes a few more
/// steps. `spins` counts the spins so far. After 64 spins the thread yields its core.
#[inline]
pub fn spin(spins: &mut u32) {
    *spins += 1;
    if *spins < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Returns the number of cores that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// A scheduling point: the simulator may run another thread here. Costs nothing in a program.
#[inline]
pub fn point() {}

/// Tells the simulator of an event that a replay must repeat. Costs nothing in a program.
#[inline]
pub fn event(_: impl FnOnce() -> u64) {}

/// Lets simulated time pass that a device would take, about so many microseconds. Costs nothing in
/// a program.
#[inline]
pub fn device_time(_: u64) {}

/// Returns microseconds of simulated time; `None` outside a simulated world.
#[inline]
pub fn simulated_us() -> Option<u64> {
    None
}

/// Returns the flags that the simulated world of this thread was started with; 0 outside a world.
#[inline]
pub fn world_flags() -> u128 {
    0
}
