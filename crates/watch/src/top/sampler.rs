//! Samples of a target, once a second, from a thread of its own.

use crate::collect::next_second;
use crate::forecast::{Driver, Forecaster, Point};
use crate::sources::{self, About, MetricsOn, Sample, Source};
use client::{Access, LoginFlags, Target};
use output::failure::{Failure, Outcome};
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// What the thread says.
#[derive(Debug)]
pub(crate) enum Message {
    /// The target is there, for the first time or as another one than before.
    Opened(About),
    /// It cannot be opened.
    Failed(Failure),
    /// A sample.
    Sample(Sample),
    /// Who drives the checkpoint age, which is foretold to reach a limit.
    Driver(String),
    /// There is no sample now, because of this. The thread tries again.
    Trouble(String),
}

/// A target that is sampled.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// What it is.
    pub(crate) about: About,
    /// Samples, once a second.
    pub(crate) messages: Receiver<Message>,
    /// Metrics that are counted as long as this lives.
    pub(crate) metrics: Option<MetricsOn>,
}

/// Opens a target and samples it until nobody listens any more. With `enable_metrics` a server
/// counts meanwhile what it could count and does not.
pub(crate) fn start(target: String, login: LoginFlags, enable_metrics: bool) -> Outcome<Sampled> {
    let metrics = match enable_metrics {
        true => Some(MetricsOn::start(Access::to(&target, &login)?)?),
        false => None,
    };
    let access = metrics.as_ref().map(|metrics| metrics.access().clone());
    let open = move || match access {
        Some(access) => sources::of_access(&access),
        None => sources::open(&target, &login),
    };
    let (sender, messages) = mpsc::channel();
    std::thread::spawn(move || sample(open, &sender));
    match messages.recv() {
        Ok(Message::Opened(about)) => Ok(Sampled { about, messages, metrics }),
        Ok(Message::Failed(failure)) => Err(failure),
        _ => Err(Failure::failed("the target gives no samples")),
    }
}

/// A target that is not there is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Begins to sample several targets, of which some may not be there: one that is gone hinders no
/// other. Fails if one is no target.
pub(crate) fn start_all(targets: Vec<String>, login: &LoginFlags) -> Outcome<Vec<Sampled>> {
    if login.asks() {
        return Err(Failure::misuse(
            "--password asks for one password: those of several targets come from an option file",
        ));
    }
    let names = targets.iter().map(|target| name_of(target)).collect::<Outcome<BTreeSet<String>>>()?;
    if names.len() < targets.len() {
        return Err(Failure::misuse("a target is named twice"));
    }
    targets.into_iter().map(|target| start_waiting(target, login.clone())).collect()
}

/// Returns the name that a target has when it is open.
fn name_of(target: &str) -> Outcome<String> {
    Ok(match Target::parse(target).map_err(Failure::misuse)? {
        Target::Server(address) => address.to_string(),
        Target::Directory(dir) => dir.display().to_string(),
    })
}

/// Begins to sample a target that may not be there yet. Fails if it is no target.
pub(crate) fn start_waiting(target: String, login: LoginFlags) -> Outcome<Sampled> {
    let about = About {
        target: name_of(&target)?,
        version: "not there yet".to_owned(),
        configuration: Vec::new(),
        origins: Vec::new(),
        refusals: Vec::new(),
    };
    let (sender, messages) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            match sources::open(&target, &login) {
                Err(Failure::Failed(why)) => {
                    if sender.send(Message::Trouble(why)).is_err() {
                        return;
                    }
                    std::thread::sleep(AGAIN);
                }
                opened => return sample(|| opened, &sender),
            }
        }
    });
    Ok(Sampled { about, messages, metrics: None })
}

fn sample(open: impl FnOnce() -> Outcome<Box<dyn Source>>, sender: &Sender<Message>) {
    let mut source = match open() {
        Ok(source) => source,
        Err(failure) => {
            let _ = sender.send(Message::Failed(failure));
            return;
        }
    };
    let mut about = source.about().clone();
    let mut message = Message::Opened(about.clone());
    let (mut forecaster, mut driver) = (Forecaster::default(), Driver::default());
    while sender.send(message).is_ok() {
        let now_us = sources::now_us();
        std::thread::sleep(Duration::from_micros(next_second(now_us) - now_us));
        message = match source.sample() {
            Ok(sample) => {
                let is_foretold = forecaster.take(Point::of(&sample)).is_some();
                let seconds = sample.unix_us as f64 / 1e6;
                let found = driver.take(is_foretold, seconds, || source.row_changes());
                match found {
                    Some(found) => {
                        // The sample before it: with it the forecast begins there too.
                        if sender.send(Message::Sample(sample)).is_err() {
                            break;
                        }
                        Message::Driver(found)
                    }
                    None => Message::Sample(sample),
                }
            }
            Err(trouble) => Message::Trouble(trouble.to_string()),
        };
        // After a restart it may be another version with other settings.
        if *source.about() != about {
            about = source.about().clone();
            if sender.send(Message::Opened(about.clone())).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_there_is_one_failure() {
        let failure = start("nowhere".to_owned(), LoginFlags::default(), false).unwrap_err();
        assert!(failure.to_string().contains("nowhere"), "{failure}");
        let twice = ["mysql://a@h:1/", "mysql://a@h:1"].map(str::to_owned).to_vec();
        let failure = start_all(twice, &LoginFlags::default()).unwrap_err();
        assert!(failure.to_string().contains("named twice"), "{failure}");
        let failure = start("/".to_owned(), LoginFlags::default(), true).unwrap_err();
        assert!(failure.to_string().contains("no server"), "{failure}");
    }
}
