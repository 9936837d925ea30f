//! Gathers texts while an event is kept: each in a thread and on a connection of its own, with a
//! time limit, so that a server that stands still holds up nothing. What did not come is said.

use super::questions::{Question, hint, limit, questions, text};
use super::stacks::{self, Way};
use crate::trace_fsync::beside;
use client::{Access, Row, Trouble, Version};
use output::failure::Failure;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long an answer is waited for. The server ends the statement itself before.
const PATIENCE: Duration = Duration::from_secs(8);
/// How much longer than its time a trace of syncs is waited for.
const MORE: Duration = Duration::from_secs(3);
/// gdb may take long; it has a limit of its own.
const STACKS: Duration = Duration::from_secs(25);

/// Whom to ask.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) whom: Whom,
    /// Its process, if it runs here and is visible.
    pub(super) pid: Option<u32>,
    /// How stacks are taken, if they are wanted.
    pub(super) stacks: Option<Way>,
}

#[derive(Clone, Debug)]
pub(super) enum Whom {
    Server(Access, Version),
    Database(PathBuf),
}

/// A text and the rows that it was made of, or why it did not come.
pub(super) type Answer = Result<(String, Vec<Row>), String>;

/// What was gathered.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    /// A word for names of files.
    pub(super) name: &'static str,
    pub(super) title: String,
    /// How long after the moment it was asked, seconds.
    pub(super) after_s: u64,
    pub(super) answer: Answer,
}

/// What is waited for.
#[derive(Debug)]
struct Pending {
    number: usize,
    name: &'static str,
    title: String,
    after_s: u64,
    begun: Instant,
    patience: Duration,
}

/// All that is gathered for an event.
#[derive(Debug)]
pub(super) struct Gathering {
    subject: Subject,
    /// Answers, by the number of the question.
    sender: Sender<(usize, Answer)>,
    receiver: Receiver<(usize, Answer)>,
    pending: Vec<Pending>,
    begun: usize,
}

impl Gathering {
    pub(super) fn new(subject: Subject) -> Gathering {
        let (sender, receiver) = channel();
        Gathering { subject, sender, receiver, pending: Vec::new(), begun: 0 }
    }

    /// Starts to gather what changes from second to second. What has not yet come from the last
    /// time is not asked again.
    pub(super) fn round(&mut self, after_s: u64) {
        if let Whom::Server(access, version) = &self.subject.whom {
            let (access, version) = (access.clone(), *version);
            for question in questions(version) {
                let access = access.clone();
                self.start(question.name, question.title.to_owned(), after_s, PATIENCE, move || {
                    ask(&access, version, &question)
                });
            }
        }
    }

    /// Starts to gather the stacks, if they are wanted.
    pub(super) fn stacks(&mut self, after_s: u64) {
        let (Some(way), pid) = (self.subject.stacks, self.subject.pid) else { return };
        let by = if way == Way::Gdb { "by gdb" } else { "from /proc" };
        self.start("stacks", format!("Stacks of all threads, {by}"), after_s, STACKS, move || match pid {
            Some(pid) => Ok((stacks::of(pid, way)?, Vec::new())),
            None => Err("its process does not run on this machine, or is not visible here".to_owned()),
        });
    }

    /// Starts to trace the syncs of so much time.
    pub(super) fn syncs(&mut self, length: Duration) {
        let pid = self.subject.pid;
        let title = format!("Syncs of the {} s after the moment", length.as_secs());
        let said = |failure: Failure| format!("{failure}; the plot of syncs has the counters of the target");
        let here = pid.ok_or("its process does not run on this machine, or is not visible here");
        // The flight recorder of a database knows them, and asks for no rights.
        if let Whom::Server(..) = self.subject.whom {
            self.start("syncs", title, 0, length + MORE, move || {
                let pid = here.map_err(|why| said(Failure::failed(why)))?;
                beside::of_process(pid, length).map(|text| (text, Vec::new())).map_err(said)
            });
        }
    }

    /// Reads the syncs of a database, which its flight recorder knows, when the time is over.
    pub(super) fn syncs_of_recorder(&mut self, length: Duration) -> Option<Gathered> {
        let Whom::Database(dir) = &self.subject.whom else { return None };
        let title = format!("Syncs of the last {} s, by the flight recorder", length.as_secs());
        let answer = beside::of_database(dir, length).map(|text| (text, Vec::new()));
        Some(Gathered { name: "syncs", title, after_s: 0, answer: answer.map_err(|e| e.to_string()) })
    }

    fn start(
        &mut self,
        name: &'static str,
        title: String,
        after_s: u64,
        patience: Duration,
        work: impl FnOnce() -> Answer + Send + 'static,
    ) {
        if self.pending.iter().any(|pending| pending.name == name) {
            return;
        }
        let (number, sender) = (self.begun, self.sender.clone());
        self.begun += 1;
        self.pending.push(Pending { number, name, title, after_s, begun: Instant::now(), patience });
        std::thread::spawn(move || {
            // Nobody listens any more if the event has ended.
            let _ = sender.send((number, work()));
        });
    }

    /// Returns what has come, and what is not waited for any longer.
    pub(super) fn take(&mut self) -> Vec<Gathered> {
        let mut out = Vec::new();
        while let Ok((number, answer)) = self.receiver.try_recv() {
            if let Some(at) = self.pending.iter().position(|pending| pending.number == number) {
                out.push(self.pending.swap_remove(at).with(answer));
            }
        }
        let late = |pending: &mut Pending| pending.begun.elapsed() > pending.patience;
        let late: Vec<Pending> = self.pending.extract_if(.., late).collect();
        out.extend(late.into_iter().map(|pending| {
            let why = format!("it did not come within {} s", pending.patience.as_secs());
            pending.with(Err(why))
        }));
        out
    }

    /// Returns whether something is still waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns what has not come: nobody waits for it any more.
    pub(super) fn give_up(&mut self) -> Vec<Gathered> {
        let why = || "it had not come when the event was ended".to_owned();
        std::mem::take(&mut self.pending).into_iter().map(|pending| pending.with(Err(why()))).collect()
    }
}

impl Pending {
    fn with(self, answer: Answer) -> Gathered {
        Gathered { name: self.name, title: self.title, after_s: self.after_s, answer }
    }
}

/// Asks a server on a connection of its own.
fn ask(access: &Access, version: Version, question: &Question) -> Answer {
    let said = |trouble: Trouble| match &trouble {
        Trouble::Refused { code, why } => format!("{why}{}", hint(question, *code)),
        Trouble::Gone(why) => why.clone(),
    };
    let mut connection = access.try_connect().map_err(said)?;
    // A server that does not know the limit is old; the connection has one too.
    let _ = connection.rows(&limit(version));
    let rows = connection.rows(question.statement).map_err(said)?;
    Ok((text(question, &rows), rows))
}
