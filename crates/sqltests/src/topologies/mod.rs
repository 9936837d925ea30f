//! `cargo xtask mariadb topologies`: ways to set up replication, each as a short check. The tables
//! of a replica are compared with those of its primary every time.
//!
//! Most of them have a primary and a replica, and share them. The others start servers of their
//! own.

mod beside;
mod failover;
mod forms;
pub(super) mod group;
mod point_in_time;
pub(crate) mod rate;
mod reader;
mod semi_sync;
mod sources;
mod spider;

use super::steps::in_own_directory;
use group::{Group, Setting};
use std::time::Instant;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these
    names: Vec<String>,
    /// Only those that take seconds
    #[arg(long)]
    quick: bool,
    /// The engine of the tables. Another one than Millpond shows what the server itself does
    #[arg(long, default_value = "Millpond")]
    engine: String,
}

/// A check, and which servers it has.
#[derive(Clone, Copy)]
enum Check {
    /// A primary, 0, and a replica of it, 1, that it leaves as they were.
    Pair(fn(&Group) -> Result<(), String>),
    /// Its own.
    Own(fn(&Setting) -> Result<(), String>),
}

/// How long a check takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Seconds.
    Quick,
    /// Longer.
    Slow,
}

/// All checks.
const CHECKS: [(&str, Pace, Check); 15] = [
    ("row-images", Pace::Quick, Check::Pair(forms::row_images)),
    ("compressed", Pace::Quick, Check::Pair(forms::compressed)),
    ("temporary-tables", Pace::Quick, Check::Pair(forms::temporary_tables)),
    ("filtered", Pace::Quick, Check::Pair(sources::filtered)),
    ("sysbench", Pace::Quick, Check::Pair(beside::sysbench)),
    ("delayed", Pace::Quick, Check::Pair(sources::delayed)),
    ("statements", Pace::Quick, Check::Own(beside::statements)),
    ("encrypted", Pace::Slow, Check::Own(forms::encrypted)),
    ("multi-source", Pace::Slow, Check::Own(sources::multi_source)),
    ("point-in-time", Pace::Quick, Check::Own(point_in_time::restored)),
    ("change-reader", Pace::Slow, Check::Own(reader::read)),
    ("spider", Pace::Slow, Check::Own(spider::over_two_servers)),
    ("failover", Pace::Slow, Check::Own(failover::most_advanced)),
    ("semi-sync-after-sync", Pace::Quick, Check::Own(semi_sync::after_sync)),
    ("semi-sync-after-commit", Pace::Slow, Check::Own(semi_sync::after_commit)),
];

/// Options of the primary and the replica that checks share.
const PAIR: [&[&str]; 2] = [&[sources::NOT_LOGGED], &[]];

/// Runs the checks.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let wanted = wanted(options)?;
    in_own_directory(|dir| {
        let mut pair = None;
        for (name, check) in wanted {
            let began = Instant::now();
            let setting = |name| Setting { dir: dir.join(name), engine: options.engine.clone() };
            let done = match check {
                Check::Own(check) => check(&setting(name)),
                Check::Pair(check) => shared(&mut pair, &setting("pair")).and_then(check),
            };
            done.map_err(|why| format!("{name}: {why}"))?;
            println!("ok      {name}, {:.1} s", began.elapsed().as_secs_f64());
        }
        Ok(())
    })
}

/// Returns the servers that checks share; the first check starts them.
fn shared<'g>(pair: &'g mut Option<Group>, setting: &Setting) -> Result<&'g Group, String> {
    if pair.is_none() {
        let group = Group::start(setting, &PAIR)?;
        group.follow(1, 0, "")?;
        *pair = Some(group);
    }
    pair.as_ref().ok_or_else(|| "no servers".to_owned())
}

fn wanted(options: &Options) -> Result<Vec<(&'static str, Check)>, String> {
    if let Some(unknown) = options.names.iter().find(|name| CHECKS.iter().all(|(known, ..)| known != name)) {
        let names: Vec<&str> = CHECKS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("there is no {unknown}; there are {}", names.join(", ")));
    }
    let is_wanted = |name: &str, pace| {
        (options.names.is_empty() || options.names.iter().any(|one| one == name))
            && (!options.quick || pace == Pace::Quick)
    };
    let chosen = CHECKS.iter().filter(|(name, pace, _)| is_wanted(name, *pace));
    Ok(chosen.map(|&(name, _, check)| (name, check)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_name_and_by_pace() {
        let chosen = |names: &[&str], quick| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            wanted(&Options { names, quick, engine: "Millpond".into() }).map(|chosen| chosen.len())
        };
        assert_eq!(chosen(&[], false), Ok(CHECKS.len()));
        assert_eq!(chosen(&["delayed", "encrypted"], false), Ok(2));
        assert_eq!(chosen(&["delayed", "encrypted"], true), Ok(1));
        assert!(chosen(&["late"], false).is_err());
    }
}
