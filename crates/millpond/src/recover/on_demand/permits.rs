//! Permits to complete pages from the log: as many threads at a time as there are cores.
//!
//! A page that a thread completes itself costs ten times as much as in replay, which reads the log
//! in order. Without a limit hundreds of threads would keep replay from the cores, and none of them
//! would have all of its pages soon.

use base::sync::{Condvar, Mutex};

/// The permits of all threads.
#[derive(Debug)]
pub(super) struct Permits {
    most: usize,
    state: Mutex<PermitsState>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct PermitsState {
    taken: usize,
    waiting: usize,
}

impl Permits {
    pub(super) fn new(cores: u32) -> Permits {
        Permits { most: cores.max(1) as usize, state: Mutex::default(), given_back: Condvar::default() }
    }

    /// Does `work` with a permit. REQUIRES: the caller has none, and `work` waits for no thread
    /// that waits for one.
    pub(super) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.taken == self.most {
            self.given_back.wait(&mut state);
        }
        (state.waiting, state.taken) = (state.waiting - 1, state.taken + 1);
        drop(state);
        let _permit = Permit(self);
        work()
    }

    /// Whether a thread waits for a permit.
    pub(super) fn are_awaited(&self) -> bool {
        self.state.lock().waiting > 0
    }
}

/// Given back when it is dropped, also after a panic.
struct Permit<'p>(&'p Permits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.state.lock().taken -= 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;

    #[test]
    fn a_thousand_threads_get_their_permits_at_most_two_at_a_time() {
        let permits = Arc::new(Permits::new(2));
        let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..1000)
            .map(|_| {
                let (permits, inside, done) = (Arc::clone(&permits), Arc::clone(&inside), Arc::clone(&done));
                let work = move || {
                    for _ in 0..3 {
                        permits.with(|| {
                            assert!(inside.fetch_add(1, Ordering::AcqRel) < 2, "three permits");
                            done.fetch_add(1, Ordering::AcqRel);
                            inside.fetch_sub(1, Ordering::AcqRel);
                        });
                    }
                };
                base::sync::spawn("caller", work).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(done.load(Ordering::Acquire), 3000);
        let state = permits.state.lock();
        assert_eq!((state.taken, state.waiting), (0, 0));
    }

    #[test]
    fn a_panic_gives_the_permit_back() {
        let permits = Arc::new(Permits::new(1));
        let theirs = Arc::clone(&permits);
        let thread = base::sync::spawn("caller", move || theirs.with(|| panic!("with a permit"))).unwrap();
        thread.join().unwrap_err();
        assert_eq!(permits.with(|| 5), 5);
    }
}
