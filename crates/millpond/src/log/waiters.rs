//! Who waits for which position of the log, in the order of the positions.
//!
//! Commits come nearly in that order, so a new waiter stands at or near the end, those whom a flush serves are the front, and
//! how many wait beyond a position is a binary search: with a thousand in flight nobody walks over all of them.

use base::Lsn;
use base::sync::Unparker;
use std::collections::VecDeque;
use std::task::Waker;

/// How a waiter hears of it.
#[derive(Debug)]
pub(super) enum Wake {
    /// A thread that is parked. It may lead a flush as well.
    Thread(Unparker),
    /// A future's task. The log thread leads for it, and calls its waker.
    Task(Waker),
}

/// A waiter's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    lsn: Lsn,
    number: u64,
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Ascending by ticket.
    queue: VecDeque<(Ticket, Wake)>,
    next: u64,
    /// Tasks that need not wait any more and have not heard of it. A waker is a caller's code: it may end the last use of the
    /// database, or close it. Who leads a flush may be in the midst of a call that closing waits for; so the log thread calls it.
    ready: Vec<Waker>,
}

impl Waiters {
    /// Adds one that waits for the group that starts at `lsn`.
    pub(super) fn add(&mut self, lsn: Lsn, wake: Wake) -> Ticket {
        let ticket = Ticket { lsn, number: self.next };
        self.next += 1;
        let at = self.queue.partition_point(|(other, _)| *other < ticket);
        self.queue.insert(at, (ticket, wake));
        ticket
    }

    /// Takes one off, if it still waits.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Ok(at) = self.queue.binary_search_by_key(&ticket, |(other, _)| *other) {
            self.queue.remove(at);
        }
    }

    /// Has `wake` told instead of what the ticket was drawn with, which comes back. `Err` if it no longer waits.
    pub(super) fn replace(&mut self, ticket: Ticket, wake: Wake) -> Result<Wake, Wake> {
        match self.queue.binary_search_by_key(&ticket, |(other, _)| *other) {
            Ok(at) => Ok(std::mem::replace(&mut self.queue[at].1, wake)),
            Err(_) => Err(wake),
        }
    }

    /// How many wait for groups that start below `lsn`.
    pub(super) fn below(&self, lsn: Lsn) -> usize {
        self.queue.partition_point(|(ticket, _)| ticket.lsn < lsn)
    }

    /// Those who wait for groups that start at `lsn` or later.
    pub(super) fn beyond(&self, lsn: Lsn) -> impl ExactSizeIterator<Item = &Wake> {
        self.queue.range(self.below(lsn)..).map(|(_, wake)| wake)
    }

    /// Takes off those who wait for groups that start below `lsn`. The threads come back, the first of them first; the tasks are
    /// served.
    pub(super) fn take_below(&mut self, lsn: Lsn) -> Vec<Unparker> {
        let count = self.below(lsn);
        self.take(count)
    }

    /// Takes all of them off, as [`Waiters::take_below`] does.
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

    /// Whether a task is to be told.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The tasks that are to be told, each once.
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
    fn they_stand_by_position_then_by_arrival() {
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
    fn a_task_that_moved_is_woken_where_it_is() {
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
