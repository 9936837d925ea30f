//! Samples of a target, one a second, from a thread of its own: a server that hangs stops nothing
//! else.

use crate::collect::{next_second, pause};
use crate::sources::{self, About, Sample, Source};
use client::Trouble;
use output::failure::{Failure, Outcome};
use output::stop;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A target that is not there is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// A sample that is complete later than this after its second is late, milliseconds.
const LATE_MS: u64 = 100;

/// What the thread says.
#[derive(Debug)]
pub(super) enum Said {
    /// The target is there, for the first time or as another one than before.
    Opened(About),
    /// It can never be opened.
    Failed(Failure),
    Sample {
        sample: Sample,
        /// By how much it is late.
        late_ms: Option<u64>,
        /// How long the target took to answer.
        took: Duration,
    },
    /// There is no sample now. The thread tries again.
    Trouble(Trouble),
}

/// Samples what `open` opens, until nobody listens any more.
pub(super) fn start(open: impl Fn() -> Outcome<Box<dyn Source>> + Send + 'static) -> Receiver<Said> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || ask(&open, &sender));
    receiver
}

fn ask(open: &dyn Fn() -> Outcome<Box<dyn Source>>, sender: &Sender<Said>) {
    let Some(mut source) = wait_for(open, sender) else { return };
    let mut about = source.about().clone();
    let mut said = Said::Opened(about.clone());
    while sender.send(said).is_ok() {
        let now_us = sources::now_us();
        let due_us = next_second(now_us);
        std::thread::sleep(Duration::from_micros(due_us - now_us));
        let begun = Instant::now();
        said = match source.sample() {
            Ok(sample) => {
                let late_ms = sources::now_us().saturating_sub(due_us) / 1000;
                let late_ms = Some(late_ms).filter(|ms| *ms > LATE_MS);
                Said::Sample { sample, late_ms, took: begun.elapsed() }
            }
            Err(trouble) => Said::Trouble(trouble),
        };
        // After a restart it may be another version with other settings.
        if *source.about() != about {
            about = source.about().clone();
            if sender.send(Said::Opened(about.clone())).is_err() {
                return;
            }
        }
    }
}

/// Opens the target as soon as it is there.
fn wait_for(open: &dyn Fn() -> Outcome<Box<dyn Source>>, sender: &Sender<Said>) -> Option<Box<dyn Source>> {
    while !stop::asked() {
        match open() {
            Ok(source) => return Some(source),
            Err(Failure::Failed(why)) => sender.send(Said::Trouble(Trouble::Gone(why))).ok()?,
            Err(misuse) => {
                let _ = sender.send(Said::Failed(misuse));
                return None;
            }
        }
        pause(AGAIN);
    }
    None
}
