//! The loop of `stalk`: takes samples, keeps the last ones in memory, and begins and ends events.

use super::asker::{self, Said};
use super::event::{Event, Kept};
use super::evidence::{Subject, Whom};
use super::pacing::{May, Pace, Pacing};
use super::place;
use super::stacks::Way;
use super::trigger::{Cause, Trigger, Wanted};
use crate::claimed::Claimed;
use crate::sources::{self, About, Sample, Source, now_us};
use crate::top::reading::Reading;
use crate::trace_fsync::beside;
use client::{Access, LoginFlags, Target, Trouble, Version};
use output::failure::{Failure, Outcome};
use output::stop;
use output::units::{show_date, show_micros};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often Ctrl-C and answers are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// A sample that does not come for so long more than a cause must hold is a cause, seconds.
const SILENT: u64 = 2;

/// What the user asks for.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) target: String,
    pub(crate) login: LoginFlags,
    pub(crate) dir: PathBuf,
    /// What is kept of the time before and after the moment.
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    pub(crate) wanted: Wanted,
    pub(crate) pace: Pace,
    /// It ends after so many events.
    pub(crate) events: Option<u64>,
    /// The most bytes of all events together.
    pub(crate) bytes: u64,
    pub(crate) stacks: Option<Way>,
}

/// Watches until Ctrl-C, or until there were enough events.
pub(crate) fn run(job: Job) -> Outcome {
    let (whom, open) = opener(&job)?;
    let place = place::claim(&job.dir, &job.target)?;
    stop::install();
    let said = asker::start(open);
    let mut watcher = Watcher::new(&job, place, whom);
    let outcome = loop {
        if stop::asked() || job.events.is_some_and(|most| watcher.cost.events >= most) {
            break Ok(());
        }
        let taken = match said.recv_timeout(LOOK) {
            Ok(said) => watcher.take(said),
            Err(RecvTimeoutError::Timeout) => {
                watcher.silent();
                Ok(())
            }
            // Ctrl-C while it waited for the target.
            Err(RecvTimeoutError::Disconnected) => Ok(()),
        };
        if let Err(failure) = taken {
            break Err(failure);
        }
        watcher.look(false);
    };
    watcher.look(true);
    // A misuse is one sentence.
    if outcome.is_ok() {
        watcher.say(&watcher.summary());
    }
    outcome
}

type Opener = Box<dyn Fn() -> Outcome<Box<dyn Source>> + Send>;

/// Returns how the target is asked and opened. The password is asked for once.
fn opener(job: &Job) -> Outcome<(Whom, Opener)> {
    match Target::parse(&job.target).map_err(Failure::misuse)? {
        Target::Server(address) => {
            let access = Access::find(&address, &job.login)?;
            let whom = Whom::Server(access.clone(), Version::parse("", ""));
            Ok((whom, Box::new(move || sources::of_access(&access))))
        }
        Target::Directory(dir) => {
            let (target, login) = (job.target.clone(), job.login.clone());
            Ok((Whom::Database(dir), Box::new(move || sources::open(&target, &login))))
        }
    }
}

/// What was done, and what the samples have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    events: u64,
    samples: u32,
    took: Duration,
    most: Duration,
}

struct Watcher<'j> {
    job: &'j Job,
    place: Claimed,
    subject: Subject,
    about: Option<About>,
    trigger: Trigger,
    pacing: Pacing,
    /// The samples of the time before now.
    recent: VecDeque<Kept>,
    /// Why there are no samples now.
    trouble: Option<String>,
    heard: Instant,
    event: Option<Event>,
    cost: Cost,
    /// Why no event began, as it was said last.
    held_back: Option<&'static str>,
}

impl<'j> Watcher<'j> {
    fn new(job: &'j Job, place: Claimed, whom: Whom) -> Watcher<'j> {
        Watcher {
            job,
            place,
            subject: Subject { whom, pid: None, stacks: job.stacks },
            about: None,
            trigger: Trigger::new(&job.wanted),
            pacing: Pacing::new(job.pace),
            recent: VecDeque::new(),
            trouble: None,
            heard: Instant::now(),
            event: None,
            cost: Cost::default(),
            held_back: None,
        }
    }

    fn say(&self, what: &str) {
        output::print(&format!("{} {what}\n", show_date(now_us())));
    }

    fn take(&mut self, said: Said) -> Outcome {
        self.heard = Instant::now();
        match said {
            Said::Opened(about) => self.opened(about),
            Said::Failed(failure) => return Err(failure),
            Said::Sample { sample, late_ms, took } => {
                self.cost.samples += 1;
                self.cost.took += took;
                self.cost.most = self.cost.most.max(took);
                self.sample(Kept { sample, late_ms })?;
            }
            Said::Trouble(trouble) if trouble.is_final() => return Err(Failure::failed(trouble.to_string())),
            Said::Trouble(trouble) => self.gone(&trouble),
        }
        Ok(())
    }

    /// Learns what the target is, and which process.
    fn opened(&mut self, about: About) {
        let pid = match &self.subject.whom {
            Whom::Server(access, _) => {
                let of = |name: &str| {
                    let found = about.configuration.iter().find(|(known, _)| known == name);
                    found.map_or("", |(_, value)| value.as_str())
                };
                let version = Version::parse(of("version"), of("version_comment"));
                let access = access.clone();
                let pid = beside::process_of_server(&access);
                self.subject.whom = Whom::Server(access, version);
                pid
            }
            Whom::Database(dir) => beside::process_of_database(dir),
        };
        self.subject.pid = pid;
        if self.about.is_none() {
            self.trouble = None;
            let here = pid.map_or(String::new(), |pid| format!(", process {pid} of this machine"));
            let learn = if self.job.wanted.bands {
                format!("; bands are known after {} s", self.job.wanted.learn)
            } else {
                String::new()
            };
            let (target, version, dir) = (&about.target, &about.version, self.place.dir.display());
            self.say(&format!("watching {target} ({version}{here}); events go to {dir}{learn}"));
        }
        self.about = Some(about);
    }

    fn sample(&mut self, kept: Kept) -> Outcome {
        let last = self.recent.back().map(|kept| &kept.sample);
        if last.is_some_and(|last| last.unix_us >= kept.sample.unix_us) {
            // The flight recorder has written no new one.
            return Ok(());
        }
        if last.is_none() && self.cost.samples == 1 {
            self.check(&kept.sample)?;
        }
        let reading = Reading::new(kept.sample.clone(), last);
        let restarted = last.is_some() && !reading.follows();
        if let Some(event) = &mut self.event {
            let outcome = event.sample(&kept);
            self.dropped(outcome);
        }
        let from = kept.sample.unix_us.saturating_sub(self.job.before.as_micros() as u64);
        // One is always kept: the next reading needs it.
        self.recent.push_back(kept);
        while self.recent.len() > 1 && self.recent[0].sample.unix_us < from {
            self.recent.pop_front();
        }
        let was_gone = self.trouble.take();
        if let Some(why) = &was_gone {
            self.happened("back", &format!("the target is back after: {why}"));
        }
        if restarted {
            self.trigger.restarted();
            let why = "the target was started again: its counters begin anew";
            match was_gone {
                Some(_) => self.happened("restarted", why),
                None => self.causes(vec![Cause::new("restarted", why)]),
            }
        }
        let causes = self.trigger.take(&reading);
        self.causes(causes);
        Ok(())
    }

    /// Fails if a condition names a figure that the target does not have.
    fn check(&self, sample: &Sample) -> Outcome {
        let names: Vec<String> = sample.values.iter().map(|value| value.0.clone()).collect();
        let conditions = &self.job.wanted.conditions;
        conditions.iter().try_for_each(|one| one.check(&names)).map_err(Failure::misuse)
    }

    /// Notes that there is no sample.
    fn gone(&mut self, trouble: &Trouble) {
        let why = trouble.to_string();
        let first = self.trouble.replace(why.clone()).is_none();
        if !first {
            return;
        }
        if self.recent.is_empty() {
            self.say(&format!("{why}; trying again"));
            return;
        }
        let word = if matches!(trouble, Trouble::Gone(_)) { "gone" } else { "refused" };
        self.causes(vec![Cause::new(word, why)]);
    }

    /// Looks whether the target has been silent for too long.
    fn silent(&mut self) {
        let patience = Duration::from_secs(self.job.wanted.held + SILENT);
        if self.event.is_none()
            && self.trouble.is_none()
            && !self.recent.is_empty()
            && self.heard.elapsed() > patience
        {
            let why = format!("the target has not answered for {} s", self.heard.elapsed().as_secs());
            self.trouble = Some(why.clone());
            self.causes(vec![Cause::new("silent", why)]);
        }
    }

    /// Begins an event, or notes the causes in the one that is kept.
    fn causes(&mut self, causes: Vec<Cause>) {
        let Some(first) = causes.first() else {
            self.held_back = None;
            return;
        };
        if self.event.is_some() {
            for Cause { word, why } in &causes {
                if !self.event.as_ref().is_some_and(|event| event.has(word)) {
                    self.happened(word, why);
                }
            }
            self.trigger.taken();
            return;
        }
        let now = now_us() / 1_000_000;
        let (word, why) = match self.pacing.may(now) {
            May::Begin => {
                self.begin(causes, now);
                return;
            }
            May::CoolDown(seconds) => {
                ("cool-down", format!("the last event was soon before; wait {seconds} s"))
            }
            May::Enough => ("enough", format!("there were {} events in a day", self.job.pace.a_day)),
        };
        // Once, not once a second.
        if self.held_back != Some(word) {
            self.say(&format!("no event ({why}): {}: {}", first.word, first.why));
        }
        self.held_back = Some(word);
    }

    fn begin(&mut self, causes: Vec<Cause>, now: u64) {
        let mut causes = causes.into_iter();
        let (Some(about), Some(cause)) = (&self.about, causes.next()) else { return };
        self.say(&format!("event {}: {}", cause.word, cause.why));
        let before: Vec<Kept> = self.recent.iter().cloned().collect();
        let (dir, subject) = (&self.place.dir, self.subject.clone());
        self.pacing.begins(now);
        self.trigger.taken();
        let event = Event::begin(dir, cause, about, &before, subject, self.job.after);
        match event {
            Ok(event) => self.event = Some(event),
            Err(failure) => {
                self.pacing.ends(now);
                self.say(&format!("the event is not kept: {failure}"));
            }
        }
        self.causes(causes.collect());
    }

    /// Notes in the event what happened meanwhile.
    fn happened(&mut self, word: &str, why: &str) {
        if let Some(event) = &mut self.event {
            let outcome = event.note(word, why);
            self.dropped(outcome);
        } else {
            self.say(why);
        }
    }

    /// Gives the event up if it cannot be written, such as on a full disk, and watches on.
    fn dropped(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.event = None;
            self.pacing.ends(now_us() / 1_000_000);
            self.say(&format!("the event is not complete: {failure}"));
        }
    }

    /// Lets the event ask and write; completes it when its time is over, or when the watching ends.
    fn look(&mut self, ends: bool) {
        let Some(event) = &mut self.event else { return };
        let outcome = event.look();
        self.dropped(outcome);
        let Some(event) = self.event.take_if(|event| ends || event.is_over()) else { return };
        match event.finish(ends) {
            Ok(page) => self.say(&format!("complete: {page}")),
            Err(failure) => self.say(&format!("the event has no page: {failure}")),
        }
        self.cost.events += 1;
        self.pacing.ends(now_us() / 1_000_000);
        self.heard = Instant::now();
        if let Err(failure) = place::trim(&self.place.dir, self.job.bytes) {
            self.say(&failure.to_string());
        }
    }

    /// Says what the watching has cost.
    fn summary(&self) -> String {
        let Cost { samples, took, most, .. } = self.cost;
        let each = |time: Duration| show_micros(time.as_micros() as f64 / f64::from(samples.max(1)));
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::new(used.tv_sec as u64, used.tv_nsec as u32);
        format!(
            "{} events of {samples} samples; a sample took the target {} (at most {}), and this program {} \
             of processor time, its events included",
            self.cost.events,
            each(took),
            show_micros(most.as_micros() as f64),
            each(used)
        )
    }
}
