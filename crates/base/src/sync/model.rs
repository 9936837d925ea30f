//! The same primitives on loom, for `--cfg loom`. Loom tries every order of the steps of a few
//! threads (see `loom/`). Only the primitives that the modelled parts use are here.

use super::atomic::{AtomicU32, Ordering};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Mutual exclusion without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: loom::sync::Mutex<T>,
}

/// Access to the value that a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    inner: loom::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Makes a mutex around `value`.
    pub fn new(value: T) -> Self {
        Mutex { inner: loom::sync::Mutex::new(value) }
    }

    /// Waits until the mutex is free, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: self.inner.lock().expect("a model that panics has failed") }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { inner: self.inner.try_lock().ok()? })
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

type Queues = Vec<(usize, Arc<loom::sync::Condvar>)>;

loom::lazy_static! {
    /// The waiters of each word, by its address.
    static ref FUTEX: loom::sync::Mutex<Queues> = loom::sync::Mutex::new(Vec::new());
}

fn queue(queues: &mut Queues, word: &AtomicU32) -> Arc<loom::sync::Condvar> {
    let address = std::ptr::from_ref(word) as usize;
    if let Some((_, queue)) = queues.iter().find(|(of, _)| *of == address) {
        return Arc::clone(queue);
    }
    let queue = Arc::new(loom::sync::Condvar::new());
    queues.push((address, Arc::clone(&queue)));
    queue
}

/// Waits while `*word == expected`. May return early; callers loop. A model has no time, so the
/// timeout never passes.
pub fn futex_wait(word: &AtomicU32, expected: u32, _: Option<Duration>) {
    let mut queues = FUTEX.lock().expect("a model that panics has failed");
    if word.load(Ordering::SeqCst) == expected {
        let queue = queue(&mut queues, word);
        drop(queue.wait(queues).expect("a model that panics has failed"));
    }
}

/// The same: a model counts no latches.
pub fn futex_wait_for_latch(word: &AtomicU32, expected: u32) {
    futex_wait(word, expected, None);
}

/// Wakes one waiter of `word`, or all.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let mut queues = FUTEX.lock().expect("a model that panics has failed");
    let queue = queue(&mut queues, word);
    if count == 1 { queue.notify_one() } else { queue.notify_all() }
}

/// One step of a spin: lets another thread run.
pub fn spin(spins: &mut u32) {
    *spins += 1;
    loom::thread::yield_now();
}

loom::thread_local! {
    static THREAD_NUMBER: Cell<usize> = Cell::new(0);
}

/// Returns the calling thread's number. It is 0, so that threads share a stripe, until
/// [`set_thread_number`].
#[must_use]
pub fn thread_number() -> usize {
    THREAD_NUMBER.with(Cell::get)
}

/// Gives the calling thread a number of its own.
pub fn set_thread_number(number: usize) {
    THREAD_NUMBER.with(|own| own.set(number));
}

/// A scheduling point. Does nothing here: in a model every atomic operation is one.
pub fn point() {}
