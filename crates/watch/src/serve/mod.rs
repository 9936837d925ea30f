//! `millpond serve`: the views of servers and databases, live in a browser, and a page for
//! Prometheus.
//!
//! [`access`] judges each request, [`token`] keeps the secret, [`board`] is what is known and what
//! the page is told, [`exposition`] the text for Prometheus; all but `token` are pure. [`http`] is
//! the loop of connections, and [`probe`] what Kubernetes and others ask. One thread samples each
//! target, however many browsers look.

mod access;
mod board;
mod exposition;
mod http;
mod past;
mod probe;
mod token;

pub(crate) use access::{DEFAULT_LISTEN, parse_listen};

use crate::sources::{self, now_us};
use crate::top::sampler::{self, Message, Sampled};
use access::Rules;
use board::Board;
use client::LoginFlags;
use http::{Event, Shared, Watched};
use output::failure::{Failure, Outcome};
use output::stop;
use past::Past;
use probe::Places;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What the user asks for.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is looked at, at least one.
    pub(crate) targets: Vec<String>,
    /// How to log in.
    pub(crate) login: LoginFlags,
    /// Where browsers come to.
    pub(crate) listen: SocketAddr,
    /// Other machines may come too.
    pub(crate) network: bool,
    /// Names of this machine that browsers may use, besides its addresses.
    pub(crate) names: Vec<String>,
    /// A file with the token; a new token if there is none.
    pub(crate) token_file: Option<PathBuf>,
    /// Switch metrics of a server on meanwhile.
    pub(crate) enable_metrics: bool,
    /// Answer probes also while the target is not there yet.
    pub(crate) wait: bool,
    /// The error log of a server, which tells how far its recovery is.
    pub(crate) error_log: Option<PathBuf>,
    /// The past is shown: the hour before this moment, microseconds since 1970.
    pub(crate) at_us: Option<u64>,
}

/// Serves until Ctrl-C.
pub(crate) fn run(job: Job) -> Outcome {
    let past = |target: &String| Past::of(Path::new(target), job.at_us);
    let pasts: Vec<Past> = job.targets.iter().filter_map(past).collect();
    match pasts.len() {
        0 => run_live(job),
        all if all == job.targets.len() => run_past(&job, pasts),
        _ => Err(Failure::misuse(
            "some of the targets are recordings and some are live: show them apart, each with its --listen",
        )),
    }
}

/// Begins to listen. Returns what judges requests, too.
fn open(job: &Job) -> Outcome<(TcpListener, SocketAddr, Rules)> {
    access::check_listen(job.listen, job.network).map_err(Failure::misuse)?;
    let token = match &job.token_file {
        Some(file) => token::from_file(file)?,
        None => token::random()?,
    };
    let listener = TcpListener::bind(job.listen).map_err(|e| {
        let hint = "--listen with port 0 takes a free one";
        Failure::failed(format!("cannot listen on {}: {e}; {hint}", job.listen))
    })?;
    let broken = |e: std::io::Error| Failure::failed(format!("cannot listen on {}: {e}", job.listen));
    listener.set_nonblocking(true).map_err(broken)?;
    let listen = listener.local_addr().map_err(broken)?;
    let rules = Rules { token, names: job.names.clone(), listen: listen.ip(), targets: job.targets.len() };
    Ok((listener, listen, rules))
}

/// Shows what was recorded.
fn run_past(job: &Job, pasts: Vec<Past>) -> Outcome {
    if job.enable_metrics || job.wait || job.error_log.is_some() {
        return Err(Failure::misuse(format!(
            "{} is looked at as it was: --enable-metrics, --wait and --error-log are for a live target",
            job.targets.join(", ")
        )));
    }
    let watched = |past: Past| Ok(Watched::new(past.board(None)?).of(past));
    let targets = pasts.into_iter().map(watched).collect::<Outcome<Vec<Watched>>>()?;
    let (listener, listen, rules) = open(job)?;
    stop::install();
    let said = format!("{}Ctrl-C ends it\n", said_of_page(listen, &rules.token));
    let server = http::start(Arc::new(Shared::new(targets, rules)), listener)?;
    output::print(&said);
    while !stop::asked() {
        std::thread::sleep(LOOK);
    }
    server.end();
    Ok(())
}

/// Starts to sample the targets of a job.
fn sampled(job: &Job) -> Outcome<Vec<Sampled>> {
    let (targets, login) = (job.targets.clone(), job.login.clone());
    if targets.len() > 1 {
        if job.enable_metrics || job.error_log.is_some() {
            let why = "--enable-metrics and --error-log are for one server: name one target";
            return Err(Failure::misuse(why));
        }
        return sampler::start_all(targets, &login);
    }
    let one = |target: String| match job.wait {
        true => sampler::start_waiting(target, login.clone()),
        false => sampler::start(target, login.clone(), job.enable_metrics),
    };
    targets.into_iter().map(one).collect()
}

/// Shows targets as they are now.
fn run_live(mut job: Job) -> Outcome {
    let (listener, listen, rules) = open(&job)?;
    if job.enable_metrics {
        // So that a signal does not come before they are switched off again.
        stop::install();
    }
    // The metrics live until the end.
    let sampled = sampled(&job)?;
    if !job.enable_metrics {
        stop::install();
    }
    let mut error_log = job.error_log.take();
    let watched = job.targets.iter().zip(&sampled).map(|(target, sampled)| {
        let mut board = Board::new(sampled.about.clone());
        let dir = Path::new(target).to_owned();
        remember(&mut board, &dir);
        let error_log = error_log.take().or_else(|| error_log_of(board.about()));
        let watched = Watched::new(board);
        let database = (!target.contains("://")).then_some(dir);
        *watched.places() = Places { database, error_log };
        watched
    });
    let said = said(listen, &rules.token);
    let shared = Arc::new(Shared::new(watched.collect(), rules));
    let server = http::start(Arc::clone(&shared), listener)?;
    output::print(&said);
    while !stop::asked() {
        let messages = sampled.iter().map(|sampled| &sampled.messages);
        shared
            .targets()
            .iter()
            .zip(messages)
            .try_for_each(|(watched, messages)| take_all(watched, messages))?;
        std::thread::sleep(LOOK);
    }
    server.end();
    Ok(())
}

/// Takes all messages of a target that are there.
fn take_all(watched: &Watched, messages: &Receiver<Message>) -> Outcome {
    loop {
        match messages.try_recv() {
            Ok(message) => take(watched, message)?,
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::failed("the target gives no samples any more"));
            }
        }
    }
}

/// Returns what is printed when browsers may come.
fn said(listen: SocketAddr, token: &str) -> String {
    format!(
        "{}Prometheus: http://{listen}/metrics with `Authorization: Bearer {token}`\nCtrl-C ends it\n",
        said_of_page(listen, token)
    )
}

fn said_of_page(listen: SocketAddr, token: &str) -> String {
    format!("dashboard:  http://{listen}/{token}/\n")
}

/// Tells the board what a flight recorder knows of the last hour.
fn remember(board: &mut Board, dir: &Path) {
    if !dir.is_dir() {
        return;
    }
    let Ok(recording) = sources::recording(dir) else { return };
    let from_us = now_us().saturating_sub(board::KEPT_US);
    for sample in recording.samples().filter(|sample| sample.unix_us >= from_us) {
        let values = sources::schema_of_millpond(&sample.metrics);
        let engine = Some(Box::new(sample.metrics));
        let _ = board.take(sources::Sample { engine, ..sources::Sample::new(sample.unix_us, values) });
    }
}

/// Returns the path of a server's error log, if the server runs on this machine and has one.
fn error_log_of(about: &sources::About) -> Option<PathBuf> {
    let is_here = ["@localhost/", "@localhost:", "@127.0.0.1", "@[::1]", "socket="];
    if !is_here.iter().any(|part| about.target.contains(part)) {
        return None;
    }
    let of = |wanted: &str| about.configuration.iter().find(|(name, _)| name == wanted);
    let file = of("log_error").map(|(_, file)| file).filter(|file| !file.is_empty() && *file != "stderr")?;
    let dir = of("datadir").map_or("/", |(_, dir)| dir.as_str());
    Some(Path::new(dir).join(file))
}

fn take(watched: &Watched, message: Message) -> Outcome {
    match &message {
        Message::Sample(_) => watched.note_answer(true),
        Message::Trouble(_) => watched.note_answer(false),
        Message::Opened(about) => {
            let mut places = watched.places();
            places.error_log = places.error_log.take().or_else(|| error_log_of(about));
        }
        _ => {}
    }
    let event = match message {
        Message::Sample(sample) => match watched.board().take(sample) {
            board::Change::Nothing => return Ok(()),
            board::Change::Second(text) => Event::Told("second", text.into()),
            board::Change::Views => Event::Again,
        },
        Message::Trouble(why) => Event::Told("trouble", watched.board().fail(now_us(), why).into()),
        Message::Driver(driver) => {
            // The next second tells it.
            watched.board().is_driven_by(driver);
            return Ok(());
        }
        Message::Opened(about) => {
            watched.board().is_now(about);
            Event::Again
        }
        Message::Failed(failure) => return Err(failure),
    };
    watched.tell(event);
    Ok(())
}

#[cfg(test)]
mod tests;
