//! The experiment: old value, new value, old value, new value; then the verdict decides which one
//! the server has.
//!
//! Before the first change the statements that undo it are in a file, and durable. Whatever fails
//! afterwards, the old values are put back, or the error names the file.

use super::blocks::Blocks;
use super::plan::{Plan, plan, rule_named};
use super::proof::{PROOF, Proof};
use super::verdict::judge;
use super::{guard, measure};
use crate::advise::{gather, look, rules};
use crate::sources::{self, now_us};
use client::{Access, LoginFlags, Settings, Target, UNDO};
use output::failure::{Failure, Outcome};
use output::samples::Samples;
use output::units::show_date;
use output::{stop, write_json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a block is if nothing else is asked for, seconds.
const BLOCK_S: u64 = 30;
/// A shorter one has too few seconds to decide, seconds.
const LEAST_S: u64 = 5;
/// How often a server that is gone is asked to take its old values back, and how long after.
const ATTEMPTS: usize = 15;
const AGAIN: Duration = Duration::from_secs(2);

/// What is tried.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The rule, as the user has written it.
    pub(crate) rule: String,
    /// The length of a block.
    pub(crate) watch: Option<Duration>,
    /// Where the proof goes.
    pub(crate) out: Option<PathBuf>,
}

/// What has come of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tried {
    /// For people.
    pub(crate) text: String,
    /// For scripts.
    pub(crate) json: String,
    /// Whether the server has the new values.
    pub(crate) kept: bool,
}

/// Tries a rule on a server.
pub(crate) fn run(target: &str, login: &LoginFlags, request: &Request) -> Outcome<Tried> {
    let rule = rule_named(&request.rule).map_err(Failure::misuse)?;
    let block_s = request.watch.map_or(BLOCK_S, |watch| watch.as_secs());
    if block_s < LEAST_S {
        return Err(Failure::misuse(format!(
            "--try needs a --watch of {LEAST_S} s or more: that is a block"
        )));
    }
    let access = match Target::parse(target).map_err(Failure::misuse)? {
        Target::Server(address) => Access::find(&address, login)?,
        Target::Directory(dir) => {
            let why = format!("{} is a directory, and --try changes the settings of a server", dir.display());
            return Err(Failure::misuse(why));
        }
    };
    guard::check(&access)?;
    let mut source = sources::of_access(&access)?;
    let dir = Dir::make(request.out.clone().unwrap_or_else(|| default_dir(rule, now_us())))?;
    stop::install();
    let mut blocks = Blocks::new(source.as_mut(), &dir.path, block_s);
    let (first, plan, settings) = match begin(&access, &mut blocks, rule) {
        Ok(begun) => begun,
        Err(failure) => {
            dir.take_back();
            return Err(failure);
        }
    };
    let undo = dir.path.join(UNDO);
    eprintln!("millpond: the server's settings change now; {} puts them back", undo.display());
    let tried = compare(&plan, settings, &mut blocks, first, &undo)?;
    finish(tried, &blocks, &dir.path)
}

/// Watches the first block and makes the plan of it. Nothing is changed yet, but the way back is
/// written.
fn begin(access: &Access, blocks: &mut Blocks<'_>, rule: &'static str) -> Outcome<(Samples, Plan, Settings)> {
    let first = blocks.watch()?;
    if measure::mean(&measure::transactions(&first)) <= 0.0 {
        return Err(Failure::misuse("the server ends no transactions now: --try needs a load"));
    }
    let seen = look::seen(blocks.source, first.clone());
    let plan = plan(rule, &rules::all(&gather::facts(&seen))).map_err(Failure::misuse)?;
    let names: Vec<&str> = plan.names.iter().map(String::as_str).collect();
    let settings = Settings::remember(access, blocks.dir, &names)?;
    Ok((first, plan, settings))
}

/// Makes the experiment, and leaves the server as the verdict says.
fn compare(
    plan: &Plan,
    mut settings: Settings,
    blocks: &mut Blocks<'_>,
    first: Samples,
    undo: &Path,
) -> Outcome<Proof> {
    let proof = rest(plan, &mut settings, blocks, first);
    if proof.as_ref().is_ok_and(|proof| proof.kept) {
        return proof;
    }
    let back = put_back(&settings);
    match (proof, back) {
        (proof, Ok(())) => proof.map_err(|why| Failure::failed(format!("{why}; the old settings are back"))),
        (Ok(_), Err(back)) => Err(Failure::failed(format!(
            "the old settings could not be put back: {back}; {} has the statements",
            undo.display()
        ))),
        (Err(why), Err(back)) => Err(Failure::failed(format!(
            "{why}; then the old settings could not be put back: {back}; {} has the statements",
            undo.display()
        ))),
    }
}

/// Watches the other three blocks, and judges.
fn rest(plan: &Plan, settings: &mut Settings, blocks: &mut Blocks<'_>, first: Samples) -> Outcome<Proof> {
    settings.set(&plan.statements)?;
    let second = after_settling(blocks)?;
    settings.restore()?;
    let third = after_settling(blocks)?;
    settings.set(&plan.statements)?;
    let fourth = after_settling(blocks)?;
    let judgement = judge(&[first, second, third, fourth], plan.fewer_pages);
    Ok(Proof::new(plan, settings.undo(), blocks.block_s, judgement))
}

fn after_settling(blocks: &mut Blocks<'_>) -> Outcome<Samples> {
    blocks.settle()?;
    blocks.watch()
}

/// Puts the old values back, and makes sure that the server has them. One that is gone, or that
/// still works on the last change, is asked again.
fn put_back(settings: &Settings) -> Outcome {
    let mut last = Ok(());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(AGAIN);
        }
        last = settings.restore().and_then(|()| settings.check());
        if last.is_ok() {
            return settings.put_back();
        }
    }
    last
}

/// Writes the proof.
fn finish(mut proof: Proof, blocks: &Blocks<'_>, dir: &Path) -> Outcome<Tried> {
    let about = blocks.source.about();
    (proof.target, proof.version) = (about.target.clone(), about.version.clone());
    proof.blocks = blocks.done();
    let json = proof.json();
    write_json(&dir.join(PROOF), &json)?;
    Ok(Tried { text: proof.text(&dir.display().to_string()), json, kept: proof.kept })
}

/// Names a directory after a rule and a moment: `try-log-size-2026-11-24T14-03-20Z`.
fn default_dir(rule: &str, unix_us: u64) -> PathBuf {
    PathBuf::from(format!("try-{}-{}", rule.replace(' ', "-"), show_date(unix_us).replace(':', "-")))
}

/// The directory of a proof.
struct Dir {
    path: PathBuf,
    /// It was made, and not only found empty.
    made: bool,
}

impl Dir {
    fn make(path: PathBuf) -> Outcome<Dir> {
        let cannot = |e: std::io::Error| Failure::misuse(format!("cannot write to {}: {e}", path.display()));
        let made = !path.exists();
        fs::create_dir_all(&path).map_err(cannot)?;
        if fs::read_dir(&path).map_err(cannot)?.next().is_some() {
            let why = format!("{} is not empty: --out names a new directory", path.display());
            return Err(Failure::misuse(why));
        }
        Ok(Dir { path, made })
    }

    /// Removes what an experiment wrote that has not begun.
    fn take_back(self) {
        let _ = fs::remove_dir_all(self.path.join(super::proof::BLOCKS[0]));
        let _ = fs::remove_file(self.path.join(UNDO));
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn directories_have_the_rule_and_the_time_in_their_name() {
        let dir = default_dir("log size", 1_764_000_000_000_000);
        assert_eq!(dir, Path::new("try-log-size-2025-11-24T16-00-00Z"));
    }

    #[test]
    fn what_cannot_be_tried_is_refused_before_anything_is_made() {
        let scratch = Scratch::new("try-refused");
        let why = |target: &str, rule: &str, seconds: u64| {
            let watch = Some(Duration::from_secs(seconds));
            let out = Some(scratch.0.join("out"));
            let request = Request { rule: rule.into(), watch, out };
            let failure = run(target, &LoginFlags::default(), &request).unwrap_err();
            assert!(matches!(failure, Failure::Misuse(_)), "{failure}");
            failure.to_string()
        };
        let dir = scratch.0.to_str().unwrap();
        assert!(why(dir, "log size", 30).contains("is a directory, and --try changes the settings"));
        assert!(why(dir, "nosuch", 30).contains("is no rule of advise"));
        assert!(why("mysql://root@localhost/", "log size", 4).contains("a --watch of 5 s or more"));
        assert!(!scratch.0.join("out").exists());
        fs::write(scratch.0.join("file"), "").unwrap();
        assert!(Dir::make(scratch.0.clone()).is_err_and(|why| why.to_string().contains("is not empty")));
    }
}
