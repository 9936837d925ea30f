//! What the parent heard from a life, and what the life has promised with it.

use crate::crash::{Message, acknowledge};
use cuts::Left;
use output::failure::{Failure, Outcome};
use std::collections::VecDeque;

/// What was heard, and how the life ended.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The database was open.
    pub(super) opened: bool,
    /// The number of the last acknowledged transaction of each thread.
    pub(super) acknowledged: Vec<u32>,
    /// The process said why it ended.
    pub(super) failed: Option<String>,
    /// The process did what it must not do.
    pub(super) broken: Option<String>,
    /// Syncs of the file system that was cut.
    pub(super) syncs: u64,
    /// What the cut left.
    pub(super) left: Left,
    promised: Promised,
}

/// Which transactions survive a cut if commits may be late by some time.
///
/// A commit that returns promises that every commit that had returned that time before is durable.
/// When a thread calls its next commit, the last one has returned; and a commit returns after its
/// call. So of the times of calls the differences are enough.
#[derive(Debug, Default)]
struct Promised {
    late_ms: u32,
    last_call_ms: u32,
    /// By thread: transactions that had returned at a time, in order.
    returned: Vec<VecDeque<(u32, u32)>>,
    /// By thread: the last transaction that is promised.
    promised: Vec<u32>,
}

impl Promised {
    fn heard(&mut self, thread: u32, number: u32, called_ms: u32) {
        self.last_call_ms = self.last_call_ms.max(called_ms);
        if let Some(returned) = self.returned.get_mut(thread as usize) {
            returned.push_back((number - 1, called_ms));
        }
    }

    /// Returns the last promised transaction of each thread.
    fn all(&mut self) -> &[u32] {
        for (returned, promised) in self.returned.iter_mut().zip(&mut self.promised) {
            while let Some((number, _)) =
                returned.pop_front_if(|&mut (_, at_ms)| at_ms + self.late_ms <= self.last_call_ms)
            {
                *promised = number.max(*promised);
            }
        }
        &self.promised
    }
}

impl Heard {
    /// Begins to listen. `done` is the number of each thread's last transaction that is there.
    pub(super) fn new(done: &[u32], late_ms: u32) -> Heard {
        let returned = done.iter().map(|_| VecDeque::new()).collect();
        let promised = Promised { late_ms, last_call_ms: 0, returned, promised: done.to_vec() };
        Heard { acknowledged: done.to_vec(), promised, ..Heard::default() }
    }

    /// Takes a message of the process.
    pub(super) fn message(&mut self, message: Message) -> Outcome {
        match message {
            Message::Opened => self.opened = true,
            Message::Acknowledged { thread, number, called_ms } => {
                acknowledge(&mut self.acknowledged, thread, number)?;
                self.promised.heard(thread, number, called_ms);
                // So the queues stay short.
                self.promised.all();
            }
            Message::RedoLength(_) => {}
            Message::Failed(why) => self.failed = Some(why),
            other => return Err(Failure::failed(format!("the process sent an unexpected {other:?}"))),
        }
        Ok(())
    }

    /// Compares with the number of each thread's last transaction that was found.
    pub(super) fn wrong(&self, found: &[u32], keeps_all: bool) -> Vec<String> {
        let promised = if keeps_all { &self.acknowledged } else { &self.promised.promised };
        let mut wrong = Vec::new();
        for (thread, ((&promised, &acknowledged), &found)) in
            promised.iter().zip(&self.acknowledged).zip(found).enumerate()
        {
            if found < promised {
                wrong.push(format!("thread {thread} was promised transaction {promised}, found is {found}"));
            }
            if found > acknowledged + 1 {
                wrong.push(format!("thread {thread} has transaction {found} after {acknowledged}"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(late_ms: u32, messages: &[(u32, u32, u32)]) -> Heard {
        let mut heard = Heard::new(&[10, 0], late_ms);
        for &(thread, number, called_ms) in messages {
            heard.message(Message::Acknowledged { thread, number, called_ms }).unwrap();
        }
        heard
    }

    #[test]
    fn all_that_was_acknowledged_is_promised_and_one_more_may_be_there() {
        let heard = heard(0, &[(0, 11, 5), (1, 1, 6), (0, 12, 9)]);
        assert!(heard.wrong(&[12, 1], true).is_empty() && heard.wrong(&[13, 2], true).is_empty());
        assert_eq!(heard.wrong(&[11, 1], true).len(), 1);
        assert_eq!(heard.wrong(&[12, 3], true).len(), 1);
    }

    #[test]
    fn of_late_commits_those_are_promised_that_had_returned_long_before_the_last_call() {
        let heard = heard(100, &[(0, 11, 0), (0, 12, 50), (0, 13, 60), (1, 1, 155)]);
        // 11 had returned at 50, and a commit that was called at 155 returned; 12 returned by 60.
        assert!(heard.wrong(&[11, 0], false).is_empty());
        assert_eq!(heard.wrong(&[10, 0], false).len(), 1);
        assert!(heard.wrong(&[14, 2], false).is_empty());
    }
}
