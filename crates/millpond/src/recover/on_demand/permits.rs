//! Permits to complete pages from the log: as many threads at a time as there are cores, each at
//! another page.
//!
//! A page that a thread completes itself costs ten times as much as in replay, which reads the log
//! in order. Without a limit hundreds of threads would keep replay from the cores, and none of them
//! would have all of its pages soon. After a crash all of them need the same pages first, like the
//! root of a tree: one thread completes such a page, and the others wait for it.
//!
//! A free permit goes to the thread that has begun to wait last. Most likely it has just had one,
//! so few transactions have all of their pages soon, instead of all of them late. Who has waited
//! long waits at most until replay is done.

use base::PageNo;
use base::sync::{Condvar, Mutex, Parker, Unparker};

/// The permits of all threads.
#[derive(Debug)]
pub(super) struct Permits {
    state: Mutex<PermitsState>,
    /// For each permit: the work with it has ended. Wakes the threads that need the same page.
    ended: Box<[Condvar]>,
}

#[derive(Debug)]
struct PermitsState {
    /// For each permit: the page that is completed with it.
    pages: Box<[Option<PageNo>]>,
    /// Threads that wait for a permit. A free one goes to the last.
    waiting: Vec<Unparker>,
}

impl Permits {
    pub(super) fn new(cores: u32) -> Permits {
        let most = cores.max(1) as usize;
        let state = PermitsState { pages: vec![None; most].into(), waiting: Vec::new() };
        let ended = (0..most).map(|_| Condvar::default()).collect();
        Permits { state: Mutex::new(state), ended }
    }

    /// Does `work`, which completes `page`, with a permit. Returns `None`, without the work, if the
    /// page is not `incomplete` any more. REQUIRES: the caller has no permit, and `work` waits for
    /// no thread that waits here.
    pub(super) fn with<T>(
        &self,
        page: PageNo,
        incomplete: impl Fn() -> bool,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let _permit = self.take(page, incomplete)?;
        Some(work())
    }

    /// Waits for a permit, or until the page is complete.
    fn take(&self, page: PageNo, incomplete: impl Fn() -> bool) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        // This thread was woken because a permit is free. If it takes none, another thread must.
        let mut woken = false;
        while incomplete() {
            if let Some(number) = state.pages.iter().position(|taken| *taken == Some(page)) {
                if std::mem::take(&mut woken) {
                    state.wake_last();
                }
                self.ended[number].wait(&mut state);
            } else if let Some(number) = state.pages.iter().position(Option::is_none) {
                state.pages[number] = Some(page);
                return Some(Permit { permits: self, number });
            } else {
                let parker = Parker::new();
                state.waiting.push(parker.unparker());
                drop(state);
                parker.park();
                state = self.state.lock();
                woken = true;
            }
        }
        if woken {
            state.wake_last();
        }
        None
    }

    /// Whether a thread waits for a permit.
    pub(super) fn are_awaited(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }
}

impl PermitsState {
    /// Wakes the thread that has begun to wait last.
    fn wake_last(&mut self) {
        if let Some(thread) = self.waiting.pop() {
            thread.unpark();
        }
    }
}

/// Given back when it is dropped, also after a panic.
struct Permit<'p> {
    permits: &'p Permits,
    number: usize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let Permit { permits, number } = *self;
        let mut state = permits.state.lock();
        state.pages[number] = None;
        permits.ended[number].notify_all();
        state.wake_last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use base::sync::spin;
    use std::sync::Arc;
    use std::thread::scope;

    impl Permits {
        /// Waits until so many threads wait for a permit, or more.
        fn until_awaited_by(&self, threads: usize) {
            let mut spins = 0;
            while self.state.lock().waiting.len() < threads {
                spin(&mut spins);
            }
        }
    }

    #[test]
    fn a_thousand_threads_get_their_permits_at_most_two_at_a_time() {
        let permits = Arc::new(Permits::new(2));
        let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..1000)
            .map(|n| {
                let (permits, inside, done) = (Arc::clone(&permits), Arc::clone(&inside), Arc::clone(&done));
                let work = move || {
                    for page in [3 * n, 3 * n + 1, 3 * n + 2] {
                        let did = permits.with(
                            PageNo(page),
                            || true,
                            || {
                                assert!(inside.fetch_add(1, Ordering::AcqRel) < 2, "three permits");
                                done.fetch_add(1, Ordering::AcqRel);
                                inside.fetch_sub(1, Ordering::AcqRel);
                            },
                        );
                        assert!(did.is_some(), "the work was not done");
                    }
                };
                base::sync::spawn("caller", work).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(done.load(Ordering::Acquire), 3000);
        let state = permits.state.lock();
        assert_eq!((&*state.pages, state.waiting.len()), (&[None; 2][..], 0));
    }

    /// After a crash all threads need the same pages first. Each took a permit, and all followed
    /// the same redo.
    #[test]
    fn threads_that_need_the_same_page_wait_for_the_one_that_completes_it() {
        const PAGES: usize = 20;
        let permits = Permits::new(3);
        let complete: [AtomicBool; PAGES] = Default::default();
        let (inside, done): ([AtomicU32; PAGES], [AtomicU32; PAGES]) = Default::default();
        let complete_page = |n: usize| {
            let incomplete = || !complete[n].load(Ordering::Acquire);
            permits.with(PageNo(n as u32), incomplete, || {
                assert_eq!(inside[n].fetch_add(1, Ordering::AcqRel), 0, "two threads complete page {n}");
                std::thread::yield_now();
                // The first try fails.
                let is_second = done[n].fetch_add(1, Ordering::AcqRel) > 0;
                complete[n].store(is_second, Ordering::Release);
                inside[n].fetch_sub(1, Ordering::AcqRel);
            })
        };
        scope(|threads| {
            for _ in 0..60 {
                threads.spawn(|| {
                    for (n, complete) in complete.iter().enumerate() {
                        while !complete.load(Ordering::Acquire) {
                            complete_page(n);
                        }
                    }
                });
            }
        });
        assert!(done.iter().all(|done| done.load(Ordering::Acquire) == 2), "{done:?}");
        assert!(permits.state.lock().pages.iter().all(Option::is_none));
    }

    /// The thread that waits for the first page is not one that waits for a permit. The one that is
    /// woken for the permit does not need it any more, and must not keep it from the next.
    #[test]
    fn a_permit_that_its_thread_does_not_need_any_more_goes_to_the_next() {
        let permits = Permits::new(1);
        let (holds, may_end, is_complete) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let until = |flag: &AtomicBool| {
            let mut spins = 0;
            while !flag.load(Ordering::Acquire) {
                spin(&mut spins);
            }
        };
        let incomplete = || !is_complete.load(Ordering::Acquire);
        scope(|threads| {
            threads.spawn(|| {
                permits.with(
                    PageNo(1),
                    || true,
                    || {
                        holds.store(true, Ordering::Release);
                        until(&may_end);
                        is_complete.store(true, Ordering::Release);
                    },
                )
            });
            until(&holds);
            let same = threads.spawn(|| permits.with(PageNo(1), incomplete, || ()));
            let third = threads.spawn(|| permits.with(PageNo(3), || true, || ()));
            permits.until_awaited_by(1);
            // It waits last, so it is woken first. Replay has completed its page meanwhile.
            let second = threads.spawn(|| permits.with(PageNo(2), incomplete, || ()));
            permits.until_awaited_by(2);
            may_end.store(true, Ordering::Release);
            assert_eq!(same.join().unwrap(), None);
            assert_eq!(second.join().unwrap(), None);
            assert_eq!(third.join().unwrap(), Some(()));
        });
        assert!(!permits.are_awaited());
    }

    /// Each thread of a load got a permit in turn, so after a kill all transactions had their pages
    /// late.
    #[test]
    fn a_free_permit_goes_to_the_thread_that_waits_since_the_last() {
        let permits = Permits::new(1);
        let (holds, may_end, order) =
            (AtomicBool::new(false), AtomicBool::new(false), Mutex::new(Vec::new()));
        let until = |flag: &AtomicBool| {
            let mut spins = 0;
            while !flag.load(Ordering::Acquire) {
                spin(&mut spins);
            }
        };
        let hold = || {
            holds.store(true, Ordering::Release);
            until(&may_end);
        };
        let take = |page: u32| permits.with(PageNo(page), || true, || order.lock().push(page));
        scope(|threads| {
            threads.spawn(|| permits.with(PageNo(9), || true, hold));
            until(&holds);
            for page in 1..=3 {
                let take = &take;
                threads.spawn(move || take(page));
                permits.until_awaited_by(page as usize);
            }
            may_end.store(true, Ordering::Release);
        });
        assert_eq!(*order.lock(), [3, 2, 1]);
    }

    #[test]
    fn a_panic_gives_the_permit_back() {
        let permits = Arc::new(Permits::new(1));
        let theirs = Arc::clone(&permits);
        let work = move || theirs.with(PageNo(1), || true, || panic!("with a permit"));
        base::sync::spawn("caller", work).unwrap().join().unwrap_err();
        assert_eq!(permits.with(PageNo(1), || true, || 5), Some(5));
    }
}
