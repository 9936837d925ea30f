//! `millpond stalk TARGET --dir DIR`: keeps the minutes around each stall.

use super::background;
use crate::stalk::{self, Condition, Job, Pace, Wanted, Way};
use client::LoginFlags;
use output::failure::Outcome;
use output::print;
use output::units::{parse_size, parse_time};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const NOTES: &str = "\
An event begins when the checkpoint age, the rate of transactions or the time of a statement leaves
the band that was learned from the last five minutes, when a condition of --when holds, or when the
target is gone. Each is a directory with all samples, the process list, transactions, who waits for
whom, and a page. `millpond plot DIR/EVENT --out PLOTS` draws its samples.";

/// Watch a server or a database, and keep the minutes around each stall
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Stalk {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    /// The directory of the events; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// What is kept of the time before the moment
    #[arg(long, value_name = "S", value_parser = parse_time, default_value = "30")]
    before: Duration,
    /// What is kept of the time after it
    #[arg(long, value_name = "S", value_parser = parse_time, default_value = "60")]
    after: Duration,
    /// An event too, such as 'age > 90%', 'tps < 100', 'latency > 50ms' or 'threads_running > 40';
    /// may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    when: Vec<Condition>,
    #[command(flatten)]
    bands: Bands,
    #[command(flatten)]
    limits: Limits,
    /// Keep the stacks of all threads too, if the process runs here: of the kernel, from /proc, or
    /// by gdb, which stops the process for a moment
    #[arg(long, value_name = "WAY", num_args = 0..=1, default_missing_value = "proc", require_equals = true)]
    stacks: Option<Way>,
    /// Go on in the background; DIR/stalk.log has what it says
    #[arg(long, conflicts_with = "password")]
    daemon: bool,
    #[command(flatten)]
    login: LoginFlags,
}

/// How bands are learned.
#[derive(Clone, Debug, clap::Args)]
struct Bands {
    /// Learn no bands: only --when, and a target that is gone
    #[arg(long)]
    no_band: bool,
    /// A band is used after so many seconds, at most 300
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=300))]
    learn: u64,
    /// What makes an event must last for so many seconds
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    held: u64,
}

/// How many events there may be.
#[derive(Clone, Debug, clap::Args)]
struct Limits {
    /// End after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// After an event none begins for so many seconds; twice as long while events repeat
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    cool_down: u64,
    /// The most events in 24 hours
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..))]
    a_day: u64,
    /// How much is kept: the oldest event goes first
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512MiB")]
    size: u64,
}

impl Stalk {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if self.daemon {
            return self.in_background();
        }
        let Stalk { target, dir, before, after, when, bands, limits, stacks, login, .. } = self;
        let wanted =
            Wanted { conditions: when, bands: !bands.no_band, learn: bands.learn as usize, held: bands.held };
        let a_day = usize::try_from(limits.a_day).unwrap_or(usize::MAX);
        let pace = Pace { cool_down: limits.cool_down, a_day };
        let (events, bytes) = (limits.events, limits.size);
        stalk::run(Job { target, login, dir, before, after, wanted, pace, events, bytes, stacks })
    }

    fn in_background(&self) -> Outcome {
        // What is wrong is said here, not in a file.
        stalk::try_place(&self.dir, &self.target)?;
        let number = background::start(&self.args(), &self.dir.join("stalk.log"))?;
        print(&format!("stalk {number} writes to {}; kill -INT ends it\n", self.dir.display()));
        Ok(())
    }

    /// Returns the arguments of the same command in the foreground.
    fn args(&self) -> Vec<OsString> {
        let Stalk { bands, limits, .. } = self;
        let mut args: Vec<OsString> = vec!["stalk".into(), (&self.target).into()];
        args.extend(["--dir".into(), (&self.dir).into()]);
        let mut add = |text: String| args.push(text.into());
        add(format!("--before={}", self.before.as_secs_f64()));
        add(format!("--after={}", self.after.as_secs_f64()));
        self.when.iter().for_each(|when| add(format!("--when={when}")));
        add(format!("--learn={}", bands.learn));
        add(format!("--held={}", bands.held));
        add(format!("--cool-down={}", limits.cool_down));
        add(format!("--a-day={}", limits.a_day));
        add(format!("--size={}", limits.size));
        if bands.no_band {
            add("--no-band".to_owned());
        }
        limits.events.iter().for_each(|events| add(format!("--events={events}")));
        match self.stacks {
            Some(Way::Proc) => add("--stacks=proc".to_owned()),
            Some(Way::Gdb) => add("--stacks=gdb".to_owned()),
            None => {}
        }
        self.login.args().into_iter().for_each(add);
        args
    }
}
