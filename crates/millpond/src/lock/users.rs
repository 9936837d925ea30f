//! The users of a table, counted but not named. Using a table takes no shared mutex.
//!
//! A transaction that uses a table is counted in the stripe of its thread until it ends
//! ([`Using`]). A transaction that wants the table for itself *closes* the count. Later users then
//! ask for the shared lock in the table's queue, and the closer waits for the counted ones. Only
//! then does it ask for the exclusive lock. It must close and await **all** tables that it wants
//! before it asks for its first lock. This wait cannot deadlock: the waiter holds no lock.
//!
//! A user counts itself, then checks whether the count is closed. A closer closes the count, then
//! reads the counters. So at least one of them sees the other. These steps are sequentially
//! consistent.

use super::Denied;
use base::striped::stripes;
use base::sync::atomic::{AtomicU32, Ordering};
use base::sync::{futex_wait, futex_wake};
use base::{CachePadded, StripedArc};
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// How long a wait sleeps before it checks again whether it should end. The thread that poisons the
/// database does not know the tables.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// State shared by closers and users.
#[derive(Debug, Default)]
struct Door {
    /// Transactions that want the table for themselves.
    closers: AtomicU32,
    /// Changes when a user leaves while a closer waits, and when waits must end.
    left: AtomicU32,
}

/// The users in one stripe of threads.
#[derive(Debug)]
struct Counted {
    users: AtomicU32,
    door: Arc<Door>,
}

/// The transactions that use one table.
#[derive(Debug)]
pub(crate) struct Users {
    stripes: StripedArc<Counted, { stripes(8) }>,
    door: Arc<Door>,
}

/// One transaction uses the table. Dropped when the transaction has ended.
#[derive(Debug)]
pub(crate) struct Using(Arc<CachePadded<Counted>>);

/// While it lives no new user is counted.
#[derive(Debug)]
pub(crate) struct Closed<'u>(&'u Users);

impl Default for Users {
    fn default() -> Self {
        let door: Arc<Door> = Arc::default();
        let counted = || Counted { users: AtomicU32::new(0), door: Arc::clone(&door) };
        Users { stripes: StripedArc::new(counted), door }
    }
}

impl Users {
    /// Counts a user. Returns none if a transaction wants the table for itself; the caller then
    /// asks for the shared lock.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Using> {
        let stripe = self.stripes.own();
        stripe.users.fetch_add(1, Ordering::SeqCst);
        let using = Using(Arc::clone(stripe));
        (self.door.closers.load(Ordering::SeqCst) == 0).then_some(using)
    }

    /// Closes the count: from now on no new user is counted.
    pub(crate) fn close(&self) -> Closed<'_> {
        self.door.closers.fetch_add(1, Ordering::SeqCst);
        Closed(self)
    }

    /// Wakes the closers that wait for users, so that they check whether they still should.
    pub(crate) fn wake(&self) {
        self.door.wake();
    }
}

impl Door {
    fn wake(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
        futex_wake(&self.left, i32::MAX as u32);
    }
}

impl Closed<'_> {
    /// Waits until no user is counted. REQUIRES: the caller holds no lock and no latch. `stopped`
    /// ends the wait: soon, if the thread that makes it true calls [`Users::wake`] afterwards; else
    /// at the next check.
    pub(crate) fn wait(
        &self,
        clock: &dyn Clock,
        limit: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Denied> {
        let limit_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let deadline = clock.now_us().saturating_add(limit_us);
        let Users { stripes, door } = self.0;
        loop {
            let left = door.left.load(Ordering::SeqCst);
            // A stripe that was seen empty stays empty, except for users that count themselves, see
            // the closer, and leave.
            if stripes.iter().all(|stripe| stripe.users.load(Ordering::SeqCst) == 0) {
                return Ok(());
            }
            if stopped() {
                return Err(Denied::Stopped);
            }
            let left_us = deadline.saturating_sub(clock.now_us());
            if left_us == 0 {
                return Err(Denied::Timeout);
            }
            futex_wait(&door.left, left, Some(Duration::from_micros(left_us).min(LOOK_AGAIN)));
        }
    }
}

impl Drop for Using {
    #[inline]
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::SeqCst);
        if self.0.door.closers.load(Ordering::SeqCst) != 0 {
            self.0.door.wake();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.door.closers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::atomic::AtomicBool;
    use base::sync::spawn;
    use vfs::Vfs;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_closer_waits_for_those_counted_and_keeps_others_out() {
        let users = Arc::new(Users::default());
        let clock = Vfs::os().clock;
        let (one, two) = (users.enter().unwrap(), users.enter().unwrap());
        let closed = users.close();
        assert!(users.enter().is_none());
        assert_eq!(closed.wait(&*clock, Duration::ZERO, || false), Err(Denied::Timeout));
        assert_eq!(closed.wait(&*clock, LONG, || true), Err(Denied::Stopped));
        drop(one);
        let leaver = spawn("leaver", move || drop(two)).unwrap();
        assert_eq!(closed.wait(&*clock, LONG, || false), Ok(()));
        leaver.join().unwrap();
        let other = users.close();
        drop(closed);
        assert!(users.enter().is_none(), "the other closer counts too");
        drop(other);
        assert!(users.enter().is_some());
    }

    #[test]
    fn nobody_uses_what_somebody_has_for_itself() {
        const ROUNDS: u32 = 2_000;
        let shared = Arc::new((Users::default(), AtomicBool::new(false)));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let shared = Arc::clone(&shared);
                spawn("users", move || {
                    let (users, owned) = &*shared;
                    let clock = Vfs::os().clock;
                    for _ in 0..ROUNDS {
                        if n == 0 {
                            let closed = users.close();
                            closed.wait(&*clock, LONG, || false).unwrap();
                            owned.store(true, Ordering::SeqCst);
                            std::thread::yield_now();
                            owned.store(false, Ordering::SeqCst);
                        } else if let Some(_using) = users.enter() {
                            assert!(!owned.load(Ordering::SeqCst));
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
