//! The loop of a collection: it waits, samples and writes. Waits are those of a clock that never
//! goes back, whatever becomes of the machine's.

use super::input::{Extractor, Tally, WORKLOAD_UNIT};
use super::pipe::Lines;
use super::sink::Sink;
use super::timing;
use crate::sources::{self, Now, Sample, Source};
use client::Trouble;
use output::failure::{Failure, Outcome};
use output::samples::{ColumnKind, Values};
use output::stop;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often a wait looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// A clock that was set by more than this is noted, microseconds.
const STEP_US: u64 = 500_000;

/// Time, and whether the user wants to stop.
pub(crate) trait Clock {
    fn now(&mut self) -> Now;
    fn sleep(&mut self, length: Duration);
    fn stopped(&self) -> bool;
}

/// The clock of the machine.
#[derive(Debug)]
pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&mut self) -> Now {
        sources::now()
    }

    fn sleep(&mut self, length: Duration) {
        std::thread::sleep(length);
    }

    fn stopped(&self) -> bool {
        stop::asked()
    }
}

/// Waits so long, or until Ctrl-C.
pub(crate) fn pause(length: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < length && !stop::asked() {
        std::thread::sleep(LOOK);
    }
}

/// A collection that runs.
pub(crate) struct Collector<'s> {
    source: &'s mut dyn Source,
    clock: &'s mut dyn Clock,
    writer: &'s mut dyn Sink,
    limit: u64,
    samples: u64,
    last_us: u64,
    behind_us: u64,
    uptime: Option<f64>,
    /// Why there are no samples now.
    trouble: Option<String>,
    refusals: Vec<String>,
}

impl<'s> Collector<'s> {
    /// Begins with a source that has given a sample.
    pub(crate) fn new(
        source: &'s mut dyn Source,
        clock: &'s mut dyn Clock,
        writer: &'s mut dyn Sink,
        limit: u64,
    ) -> Collector<'s> {
        let (behind_us, refusals) = (clock.now().behind_us, source.about().refusals.clone());
        Collector {
            source,
            clock,
            writer,
            limit,
            samples: 0,
            last_us: 0,
            behind_us,
            uptime: None,
            trouble: None,
            refusals,
        }
    }

    /// Returns how many samples were written.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Takes a sample at each whole second.
    pub(crate) fn every_second(&mut self) -> Outcome {
        'samples: while self.samples < self.limit {
            let due_us = timing::next_second(self.clock.now().us);
            loop {
                if self.clock.stopped() {
                    break 'samples;
                }
                let now_us = self.clock.now().us;
                if now_us >= due_us {
                    break;
                }
                self.clock.sleep(LOOK.min(Duration::from_micros(due_us - now_us)));
            }
            self.take(Some(due_us), Vec::new())?;
        }
        self.some("it was stopped before the first second was over")
    }

    /// Takes a sample for each line that an expression fits. Passes the workload's output on.
    pub(super) fn every_line(&mut self, extractor: &Extractor, output: &Receiver<Vec<u8>>) -> Outcome {
        let (mut lines, mut tally) = (Lines::default(), Tally::new(extractor));
        while self.samples < self.limit && !self.clock.stopped() {
            let (found, ended) = match output.recv_timeout(LOOK) {
                Ok(chunk) => {
                    // What is read here would be lost to the user otherwise.
                    output::print_bytes(&chunk);
                    (lines.add(&chunk), false)
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => (lines.end().into_iter().collect(), true),
            };
            for line in found {
                let Some(values) = extractor.read(&line, &mut tally) else { continue };
                if self.samples < self.limit {
                    let value = |(name, value)| (name, WORKLOAD_UNIT, ColumnKind::Gauge, value);
                    self.take(None, values.into_iter().map(value).collect())?;
                }
            }
            if ended {
                break;
            }
        }
        let unfit = extractor.unfit(&tally);
        if tally.is_empty() {
            return Err(Failure::failed(format!("there is no sample: {}", unfit.join("; "))));
        }
        unfit.iter().for_each(|why| self.say(why));
        self.some("it was stopped first")
    }

    /// Fails if there is no sample.
    fn some(&self, otherwise: &str) -> Outcome {
        if self.samples > 0 {
            return Ok(());
        }
        let why = self.trouble.as_deref().unwrap_or(otherwise);
        Err(Failure::failed(format!("there is no sample: {why}")))
    }

    fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "millpond: {what}");
    }

    /// Takes a sample and writes it with more values. A target that is gone, or refuses, is noted
    /// once, and is asked again.
    fn take(&mut self, due_us: Option<u64>, more: Values) -> Outcome {
        self.note_step()?;
        match self.source.sample() {
            Ok(sample) => self.write(due_us, sample, more),
            Err(trouble) if trouble.is_final() => {
                let kept = if self.samples > 0 { "; what was collected before is whole" } else { "" };
                Err(Failure::failed(format!("{trouble}{kept}")))
            }
            Err(trouble) => {
                let why = trouble.to_string();
                if self.trouble.is_none() {
                    self.say(&format!("{why}; trying again"));
                    let event = if matches!(trouble, Trouble::Gone(_)) { "gone" } else { "refused" };
                    let now_us = self.clock.now().us;
                    self.writer.event(now_us, event, &why)?;
                }
                self.trouble = Some(why);
                Ok(())
            }
        }
    }

    fn write(&mut self, due_us: Option<u64>, mut sample: Sample, more: Values) -> Outcome {
        if self.trouble.take().is_some() {
            self.writer.event(sample.unix_us, "back", &self.source.about().version)?;
        }
        if self.source.about().refusals != self.refusals {
            self.refusals.clone_from(&self.source.about().refusals);
            for refusal in &self.refusals {
                self.say(&format!("not all figures are there: {refusal}"));
            }
        }
        if sample.unix_us == self.last_us && more.is_empty() {
            // The flight recorder has written no new one.
            return Ok(());
        }
        let uptime = sample.get("uptime_seconds");
        if self.uptime.zip(uptime).is_some_and(|(before, now)| now < before) {
            self.writer.event(sample.unix_us, "restarted", "counters begin again")?;
        }
        (self.uptime, self.last_us) = (uptime, sample.unix_us);
        sample.values.splice(0..0, more);
        let late = due_us.and_then(|due| timing::late_ms(due, self.clock.now().us));
        self.writer.sample(sample.unix_us, late, sample.values)?;
        self.samples += 1;
        Ok(())
    }

    /// Notes that the clock of the machine was set back, or forward again.
    fn note_step(&mut self) -> Outcome {
        let Now { us, behind_us } = self.clock.now();
        let by_us = behind_us.abs_diff(self.behind_us);
        if by_us <= STEP_US {
            return Ok(());
        }
        let back = behind_us > self.behind_us;
        self.behind_us = behind_us;
        let seconds = (by_us as f64 / 1e6).round();
        let why = match (back, behind_us > STEP_US) {
            (true, _) => format!("it was set back by {seconds} s; times here go on as before"),
            (false, true) => format!("it was set forward by {seconds} s; times here go on as before"),
            (false, false) => "it was set right again".to_owned(),
        };
        self.say(&format!("the clock of this machine: {why}"));
        self.writer.event(us, "clock", &why)
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::{Archive, Head, STATS, Writer};
    use super::*;
    use crate::scratch::Scratch;
    use crate::sources::{About, Steady};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::rc::Rc;

    const S: u64 = 1_000_000;

    /// A machine whose clock is set, and a target that has trouble.
    #[derive(Debug, Default)]
    struct World {
        measured_us: u64,
        /// What its clock shows beside the measured time.
        set_us: u64,
        steady: Steady,
        /// When the clock is set, and to what.
        sets: VecDeque<(u64, u64)>,
        stop_us: u64,
        /// What the target answers first.
        answers: VecDeque<Option<Trouble>>,
    }

    impl World {
        fn now(&mut self) -> Now {
            while let Some((_, set_us)) = self.sets.pop_front_if(|(at, _)| *at <= self.measured_us) {
                self.set_us = set_us;
            }
            self.steady.at(self.set_us + self.measured_us, self.measured_us)
        }
    }

    #[derive(Clone)]
    struct Shared(Rc<RefCell<World>>, Rc<About>);

    impl Clock for Shared {
        fn now(&mut self) -> Now {
            self.0.borrow_mut().now()
        }

        fn sleep(&mut self, length: Duration) {
            self.0.borrow_mut().measured_us += length.as_micros() as u64;
        }

        fn stopped(&self) -> bool {
            let world = self.0.borrow();
            world.measured_us >= world.stop_us
        }
    }

    impl Source for Shared {
        fn about(&self) -> &About {
            &self.1
        }

        fn sample(&mut self) -> Result<Sample, Trouble> {
            let mut world = self.0.borrow_mut();
            if let Some(Some(trouble)) = world.answers.pop_front() {
                return Err(trouble);
            }
            let values = vec![("n".to_owned(), "", ColumnKind::Gauge, world.measured_us as f64)];
            Ok(Sample::new(world.now().us, values))
        }
    }

    /// Collects, and returns the outcome and what was written.
    fn collected(
        world: World,
        limit: u64,
        work: impl FnOnce(&mut Collector<'_>) -> Outcome,
    ) -> (Outcome, Archive) {
        let scratch = Scratch::new("collector");
        let about = About {
            target: "t".into(),
            version: "v".into(),
            configuration: Vec::new(),
            origins: Vec::new(),
            refusals: Vec::new(),
        };
        let path = scratch.0.join(STATS);
        let mut writer = Writer::begin(File::create_new(&path).unwrap(), &path, &Head::new(&about)).unwrap();
        let shared = Shared(Rc::new(RefCell::new(world)), Rc::new(about));
        let (mut source, mut clock) = (shared.clone(), shared);
        let mut collector = Collector::new(&mut source, &mut clock, &mut writer, limit);
        let outcome = work(&mut collector);
        drop(collector);
        (outcome, Archive::read(&scratch.0, &|_, _| true).unwrap())
    }

    fn world(seconds: u64) -> World {
        World { set_us: 1_000_000 * S, stop_us: seconds * S, ..World::default() }
    }

    fn refused(code: u16) -> Option<Trouble> {
        Some(Trouble::Refused { code, why: format!("error {code}") })
    }

    /// It wrote nothing more, without a word, until the clock had come to the last sample again.
    #[test]
    fn a_clock_that_is_set_back_ends_no_collection() {
        let sets = [(3 * S + 200_000, 1_000_000 * S - 3600 * S), (6 * S + 500_000, 1_000_000 * S)];
        let (outcome, archive) = collected(World { sets: sets.into(), ..world(10) }, 8, |c| c.every_second());
        outcome.unwrap();
        let seconds = (1..=8).map(|n| 1_000_000.0 + f64::from(n));
        assert_eq!(archive.samples.seconds, seconds.collect::<Vec<_>>());
        let said: Vec<&str> = archive.events.iter().map(|(_, _, why)| why.as_str()).collect();
        assert_eq!(said, ["it was set back by 3600 s; times here go on as before", "it was set right again"]);
        assert!(archive.summary().contains("the clock was set 2 times"), "{}", archive.summary());
    }

    #[test]
    fn a_clock_that_is_set_forward_is_followed() {
        let sets = [(3 * S + 200_000, 1_000_000 * S + 3600 * S)];
        let (outcome, archive) = collected(World { sets: sets.into(), ..world(10) }, 6, |c| c.every_second());
        outcome.unwrap();
        assert!(archive.samples.seconds.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(
            archive.samples.seconds.last(),
            Some(&(1_000_005.0 + 3600.0)),
            "{:?}",
            archive.samples.seconds
        );
    }

    /// KILL QUERY and error 1226 ended a collection.
    #[test]
    fn what_passes_by_itself_ends_no_collection_and_what_does_not_is_said() {
        let gone = Some(Trouble::Gone("no answer".into()));
        let answers = [None, refused(1317), refused(1226), None, gone, None];
        let (outcome, archive) =
            collected(World { answers: answers.into(), ..world(10) }, 3, |c| c.every_second());
        outcome.unwrap();
        let events: Vec<(&str, &str)> =
            archive.events.iter().map(|(_, what, why)| (what.as_str(), why.as_str())).collect();
        assert_eq!(events, [("refused", "error 1317"), ("back", "v"), ("gone", "no answer"), ("back", "v")]);
        assert!(archive.summary().contains("; gone once; refused once"), "{}", archive.summary());
        let answers = [None, refused(1045)];
        let (outcome, _) = collected(World { answers: answers.into(), ..world(10) }, 3, |c| c.every_second());
        assert_eq!(outcome.unwrap_err().to_string(), "error 1045; what was collected before is whole");
    }

    #[test]
    fn a_collection_without_a_sample_is_a_failure_with_a_reason() {
        let why = |world: World| collected(world, 3, |c| c.every_second()).0.unwrap_err().to_string();
        assert!(why(world(0)).contains("there is no sample: it was stopped before the first second"));
        let answers = vec![refused(1226); 9];
        assert_eq!(why(World { answers: answers.into(), ..world(5) }), "there is no sample: error 1226");
    }

    /// An expression that fitted no line gave 0 samples and status 0.
    #[test]
    fn a_sample_is_taken_for_each_line_that_fits_and_none_is_a_failure() {
        let extractor = Extractor::new(&[r"tps: (\S+)".to_owned()], &["tps".to_owned()]).unwrap();
        let from = |text: &'static [u8]| {
            let (sender, output) = std::sync::mpsc::channel();
            text.chunks(5).for_each(|chunk| sender.send(chunk.to_vec()).unwrap());
            drop(sender);
            collected(world(10), 9, |collector| collector.every_line(&extractor, &output))
        };
        let (outcome, archive) = from(b"warming up\ntps: 5.5\n\xff\ntps: 6\ntps: 7");
        outcome.unwrap();
        assert_eq!(archive.samples.columns["tps"].values, [Some(5.5), Some(6.0), Some(7.0)]);
        let why = from(b"warming up\nTPS: 5.5\n").0.unwrap_err().to_string();
        assert!(why.contains("there is no sample: -r 'tps: (\\S+)' fits none of the 2 lines"), "{why}");
    }
}
