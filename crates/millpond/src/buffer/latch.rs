//! The latch of a frame (a read-write lock): shared or exclusive, one word. Without conflict it
//! takes one compare-and-swap.
//!
//! ```text
//!  63            32 31        20   19       18       17      16   15         0
//!  +---------------+------------+--------+--------+--------+----+-------------+
//!  | version       | unused     | URGENT | W wait | R wait | X  | readers     |
//!  +---------------+------------+--------+--------+--------+----+-------------+
//! ```
//! Every release of the exclusive latch increments the version. A reader that remembers the version
//! can tell whether the page may have changed.
//!
//! Waiting. Readers sleep on one futex and writers on another; each futex is a count of wake-ups. A
//! sleeper reads the count, sets its flag in the word, and sleeps unless the count has changed. A
//! releaser clears the flags, then increments the counts and wakes one writer and all readers. So a
//! flag that was set before the clearing is answered, and one set after it stays for the next
//! release. Clearing the writers' flag wakes only one of them. Therefore a writer that has slept
//! sets the flag again when it takes the latch: others may still sleep.
//!
//! Fairness. A thread that comes while the latch is free takes it: if a releaser handed the latch
//! to a sleeper, the latch would stay idle for the time of a thread switch. New readers do not join
//! other readers while a writer waits. A writer that was woken twice without success sets URGENT,
//! which keeps all readers out until some writer has had the latch.

use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{futex_wait_for_latch, futex_wake, spin};

const READER: u64 = 1;
const READERS: u64 = 0xffff;
const WRITER: u64 = 1 << 16;
const READERS_WAIT: u64 = 1 << 17;
const WRITERS_WAIT: u64 = 1 << 18;
const URGENT: u64 = 1 << 19;
const VERSION: u64 = 1 << 32;

/// Steps of a spin before a sleep. A latch is held for about a microsecond; a sleep and its wake-up
/// cost twenty.
const SPINS: u32 = if cfg!(loom) { 0 } else { 48 };
/// A writer that was woken this often without success sets URGENT.
const PATIENCE: u32 = 2;
/// All sleepers, as the futex call counts them.
const ALL: u32 = i32::MAX as u32;

/// A shared/exclusive latch. It knows no owner. Each thread that takes it releases it once, in the
/// same mode.
#[derive(Debug)]
pub(super) struct Latch {
    word: AtomicU64,
    reader_wakes: AtomicU32,
    writer_wakes: AtomicU32,
}

/// Returns whether a reader may take the latch.
#[inline]
fn readable(word: u64) -> bool {
    // "Writers wait" alone on a free latch may be left over from a writer that found no other
    // writer asleep.
    word & (WRITER | URGENT) == 0 && (word & WRITERS_WAIT == 0 || word & READERS == 0)
}

impl Latch {
    /// Returns a free latch. All zeros are one, too.
    #[cfg(any(test, loom))]
    pub(super) fn new() -> Self {
        Latch { word: AtomicU64::new(0), reader_wakes: AtomicU32::new(0), writer_wakes: AtomicU32::new(0) }
    }

    /// Takes the shared latch if that is possible now.
    #[inline]
    pub(super) fn try_read(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while readable(word) {
            assert!(word & READERS != READERS, "more readers than the latch can count");
            match self.word.compare_exchange_weak(word, word + READER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the exclusive latch if that is possible now.
    #[inline]
    pub(super) fn try_write(&self) -> bool {
        self.try_write_keeping(0)
    }

    #[inline]
    fn try_write_keeping(&self, flags: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WRITER | READERS) == 0 {
            let taken = (word & !URGENT) | WRITER | flags;
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the shared latch; waits for it. Returns how often the thread slept.
    #[inline]
    pub(super) fn read(&self) -> u32 {
        if self.try_read() { 0 } else { self.read_slow() }
    }

    /// Takes the exclusive latch; waits for it. Returns how often the thread slept.
    #[inline]
    pub(super) fn write(&self) -> u32 {
        if self.try_write() { 0 } else { self.write_slow() }
    }

    #[cold]
    fn read_slow(&self) -> u32 {
        let mut spins = 0;
        let mut slept = 0;
        loop {
            let wakes = self.reader_wakes.load(Ordering::Acquire);
            if self.try_read() {
                return slept;
            }
            if spins < SPINS {
                spin(&mut spins);
                continue;
            }
            let word = self.word.load(Ordering::Relaxed);
            if !readable(word) && self.flag(word, READERS_WAIT) {
                futex_wait_for_latch(&self.reader_wakes, wakes);
                slept += 1;
            }
        }
    }

    #[cold]
    fn write_slow(&self) -> u32 {
        let mut spins = 0;
        let mut slept = 0;
        loop {
            let wakes = self.writer_wakes.load(Ordering::Acquire);
            if self.try_write_keeping(if slept > 0 { WRITERS_WAIT } else { 0 }) {
                return slept;
            }
            if spins < SPINS {
                spin(&mut spins);
                continue;
            }
            let word = self.word.load(Ordering::Relaxed);
            let urgent = if slept >= PATIENCE { URGENT } else { 0 };
            if word & (WRITER | READERS) != 0 && self.flag(word, WRITERS_WAIT | urgent) {
                futex_wait_for_latch(&self.writer_wakes, wakes);
                slept += 1;
            }
        }
    }

    /// Sets `flags` if the word is still `word`, so the holder of the latch will see them. Returns
    /// whether it did.
    fn flag(&self, word: u64, flags: u64) -> bool {
        self.word.compare_exchange(word, word | flags, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Releases the shared latch.
    #[inline]
    pub(super) fn release_read(&self) {
        let before = self.word.fetch_sub(READER, Ordering::Release);
        assert!(before & READERS != 0, "the shared latch is not held");
        if before & READERS == READER && before & (READERS_WAIT | WRITERS_WAIT) != 0 {
            self.wake();
        }
    }

    /// Releases the exclusive latch.
    #[inline]
    pub(super) fn release_write(&self) {
        let before = self.word.fetch_add(VERSION - WRITER, Ordering::Release);
        assert!(before & WRITER != 0, "the exclusive latch is not held");
        if before & (READERS_WAIT | WRITERS_WAIT) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let before = self.word.fetch_and(!(READERS_WAIT | WRITERS_WAIT), Ordering::AcqRel);
        if before & WRITERS_WAIT != 0 {
            self.writer_wakes.fetch_add(1, Ordering::Release);
            futex_wake(&self.writer_wakes, 1);
        }
        if before & READERS_WAIT != 0 {
            self.reader_wakes.fetch_add(1, Ordering::Release);
            futex_wake(&self.reader_wakes, ALL);
        }
    }

    /// Returns how often the exclusive latch was released, modulo 2^32; `None` while a thread holds
    /// it. If it is the same twice, the guarded data has not changed in between.
    #[inline]
    pub(super) fn version(&self) -> Option<u32> {
        let word = self.word.load(Ordering::Acquire);
        (word & WRITER == 0).then_some((word >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::spawn;
    use std::sync::Arc;

    #[test]
    fn shared_excludes_exclusive_only() {
        let latch = Latch::new();
        assert!(latch.try_read() && latch.try_read());
        assert!(!latch.try_write());
        latch.release_read();
        assert!(!latch.try_write());
        latch.release_read();
        assert!(latch.try_write());
        assert!(!latch.try_read() && !latch.try_write());
        assert_eq!(latch.version(), None, "what it guards may be changing");
        latch.release_write();
        assert_eq!(latch.version(), Some(1));
        assert!(latch.try_read());
    }

    #[test]
    #[should_panic(expected = "more readers than the latch can count")]
    fn one_reader_more_than_can_be_counted_panics() {
        let latch = Latch::new();
        latch.word.store(READERS - 1, Ordering::Relaxed);
        assert!(latch.try_read());
        latch.try_read();
    }

    #[test]
    fn the_version_wraps_and_leaves_the_rest_of_the_word() {
        let latch = Latch::new();
        latch.word.store(!0 << 32, Ordering::Relaxed);
        latch.write();
        latch.release_write();
        assert_eq!(latch.word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn new_readers_do_not_join_others_while_a_writer_waits() {
        let latch = Arc::new(Latch::new());
        latch.read();
        let writer = spawn("writer", {
            let latch = Arc::clone(&latch);
            move || {
                latch.write();
                latch.release_write();
            }
        })
        .unwrap();
        let mut spins = 0;
        while latch.try_read() {
            latch.release_read();
            spin(&mut spins);
        }
        latch.release_read();
        writer.join().unwrap();
        assert!(latch.try_read());
        assert_eq!(latch.version(), Some(1));
    }

    /// Writers keep two counters equal, and readers see them equal. All threads finish, so no
    /// wake-up is lost.
    #[test]
    fn no_wake_up_is_lost_and_no_reader_sees_half_a_change() {
        struct Shared {
            latch: Latch,
            a: AtomicU64,
            b: AtomicU64,
        }
        const ROUNDS: u64 = 4_000;
        let shared = Arc::new(Shared { latch: Latch::new(), a: AtomicU64::new(0), b: AtomicU64::new(0) });
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let s = Arc::clone(&shared);
                spawn("latch test", move || {
                    for round in 0..ROUNDS {
                        if i % 2 == 0 {
                            s.latch.write();
                            let a = s.a.load(Ordering::Relaxed);
                            s.a.store(a + 1, Ordering::Relaxed);
                            if round % 64 == 0 {
                                std::thread::yield_now(); // the other threads queue up
                            }
                            let b = s.b.load(Ordering::Relaxed);
                            s.b.store(b + 1, Ordering::Relaxed);
                            s.latch.release_write();
                        } else {
                            s.latch.read();
                            let a = s.a.load(Ordering::Relaxed);
                            if round % 64 == 0 {
                                std::thread::yield_now();
                            }
                            assert_eq!(a, s.b.load(Ordering::Relaxed));
                            s.latch.release_read();
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(shared.a.load(Ordering::Relaxed), 3 * ROUNDS);
        assert_eq!(shared.latch.version().map(u64::from), Some(3 * ROUNDS));
        assert!(shared.latch.try_write());
    }
}
