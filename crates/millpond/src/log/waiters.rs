//! The threads and tasks that wait for a flush of the log, sorted by position.
//!
//! Commits arrive nearly in that order. So a new waiter goes at or near the end, the waiters that a
//! flush covers are a prefix, and a binary search counts the waiters beyond a position. With a
//! thousand commits in flight no thread walks the whole list.

use base::Lsn;
use base::sync::Unparker;
use std::collections::VecDeque;
use std::task::Waker;

/// How a waiter is woken.
#[derive(Debug)]
pub(super) enum Wake {
    /// A parked thread. It may also lead a flush.
    Thread(Unparker),
    /// The task of a future. The log thread leads for it, and calls its waker.
    Task(Waker),
}

/// A waiter's place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    lsn: Lsn,
    number: u64,
}

/// The list of waiters.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Ascending by ticket.
    queue: VecDeque<(Ticket, Wake)>,
    next: u64,
    /// Tasks whose wait is over and whose wakers have not been called. A waker is a caller's code:
    /// it may drop the last handle on the database, or close it. The leader of a flush may be
    /// inside a call that closing waits for, so the log thread calls the wakers.
    ready: Vec<Waker>,
}

impl Waiters {
    /// Adds a waiter for the group that starts at `lsn`.
    pub(super) fn add(&mut self, lsn: Lsn, wake: Wake) -> Ticket {
        let ticket = Ticket { lsn, number: self.next };
        self.next += 1;
        let at = self.queue.partition_point(|(other, _)| *other < ticket);
        self.queue.insert(at, (ticket, wake));
        ticket
    }

    /// Removes a waiter, if it is still in the list.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Ok(at) = self.queue.binary_search_by_key(&ticket, |(other, _)| *other) {
            self.queue.remove(at);
        }
    }

    /// Replaces the wake-up of a waiter and returns the old one. `Err(wake)` if it no longer waits.
    pub(super) fn replace(&mut self, ticket: Ticket, wake: Wake) -> Result<Wake, Wake> {
        match self.queue.binary_search_by_key(&ticket, |(other, _)| *other) {
            Ok(at) => Ok(std::mem::replace(&mut self.queue[at].1, wake)),
            Err(_) => Err(wake),
        }
    }

    /// Counts the waiters for groups that start below `lsn`.
    pub(super) fn below(&self, lsn: Lsn) -> usize {
        self.queue.partition_point(|(ticket, _)| ticket.lsn < lsn)
    }

    /// Returns the waiters for groups that start at `lsn` or later.
    pub(super) fn beyond(&self, lsn: Lsn) -> impl ExactSizeIterator<Item = &Wake> {
        self.queue.range(self.below(lsn)..).map(|(_, wake)| wake)
    }

    /// Removes the waiters for groups that start below `lsn`. Returns the threads in order; the
    /// tasks become ready.
    pub(super) fn take_below(&mut self, lsn: Lsn) -> Vec<Unparker> {
        let count = self.below(lsn);
        self.take(count)
    }

    /// Removes all waiters, as [`Waiters::take_below`] does.
    pub(super) fn take_all(&mut self) -> Vec<Unparker> {
        self.take(self.queue.len())
    }

    fn take(&mut self, count: usize) -> Vec<Unparker> {
        let mut threads = Vec::with_capacity(count);
        for (_, wake) in self.queue.drain(..count) {
            match wake {
                Wake::Thread(unparker) => threads.push(unparker),
                Wake::Task(waker) => self.ready.push(waker),
            }
        }
        threads
    }

    /// Whether a task is ready and its waker has not been called.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the wakers of the ready tasks, each once.
    pub(super) fn take_ready(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::Parker;

    fn thread() -> Wake {
        Wake::Thread(Parker::new().unparker())
    }

    #[test]
    fn waiters_are_sorted_by_position_then_by_arrival() {
        let mut waiters = Waiters::default();
        let tickets: Vec<_> = [30, 10, 20, 10, 40].map(|lsn| waiters.add(Lsn(lsn), thread())).into();
        let order: Vec<_> = waiters.queue.iter().map(|(ticket, _)| *ticket).collect();
        assert_eq!(order, [1, 3, 2, 0, 4].map(|n| tickets[n]));
        assert_eq!((waiters.below(Lsn(10)), waiters.below(Lsn(11)), waiters.below(Lsn(99))), (0, 2, 5));
        assert_eq!((waiters.beyond(Lsn(20)).len(), waiters.beyond(Lsn(41)).len()), (3, 0));
        waiters.remove(tickets[2]);
        waiters.remove(tickets[2]);
        assert_eq!(waiters.take_below(Lsn(30)).len(), 2);
        waiters.remove(tickets[1]);
        assert_eq!(waiters.take_all().len(), 2);
    }

    #[test]
    fn a_replaced_waker_is_called_instead_of_the_old_one() {
        let mut waiters = Waiters::default();
        let (old, new) = (Waker::noop(), Waker::from(std::sync::Arc::new(NoopWake)));
        let ticket = waiters.add(Lsn(1), Wake::Task(old.clone()));
        assert!(matches!(waiters.replace(ticket, Wake::Task(new.clone())), Ok(Wake::Task(_))));
        assert!(!waiters.has_ready() && waiters.take_all().is_empty() && waiters.has_ready());
        assert!(matches!(&waiters.take_ready()[..], [waker] if waker.will_wake(&new)));
        assert!(!waiters.has_ready());
        assert!(waiters.replace(ticket, thread()).is_err(), "it has been woken");
    }

    struct NoopWake;

    impl std::task::Wake for NoopWake {
        fn wake(self: std::sync::Arc<Self>) {}
    }
}
