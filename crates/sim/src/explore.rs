//! Runs a workload in a world, then cuts the power at its disk operations and checks the state
//! after recovery.

use crate::driver::{Driver, Life, read_contents};
use crate::engine;
use crate::held::REPEATABLE;
use crate::history::{Contents, Crash, DbState, Effect, History, difference};
use crate::shape::{Copies, Shape};
use crate::workloads::Workload;
use base::prng::Prng;
use base::sync::sim::{self, Failure, WorldOptions};
use millpond::{Db, Error};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use vfs::mem::{CrashChoice, CrashWalker, MemDisk};

/// Random subsets of the writes that are not durable; so many are tried at every operation.
pub const SUBSETS: u64 = 8;
/// Crashes inside recovery, each in the recovery of the crash before it.
const NESTED_DEPTH: u64 = 4;
/// One state in so many is also crashed in its recovery.
const NESTED_ONE_IN: u64 = 24;
/// Background work that needs more pauses than this is a finding.
const DRAIN_TURNS: u32 = 50;
const DRAIN_PAUSE_US: u64 = 100_000;
/// Scheduling points that a run may take.
const MAX_STEPS: u64 = 20_000_000;

/// Words of cargo for a build that has the same assertions as this one. Without them a finding of
/// an assertion does not show again.
const RUN: &str = if cfg!(debug_assertions) { "cargo run" } else { "cargo run --release" };

/// What survives a power cut, by number: 0 nothing, 1 everything, from 2 on a random subset each.
/// Where everything survives, the process may as well have been killed.
pub type ChoiceNumber = u64;

/// What to explore, apart from the workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything: the order of threads, the script's random numbers, the cuts.
    pub seed: u64,
    /// The planted mistakes: see `base::sync::world_flags`.
    pub flags: u128,
    /// Print a backtrace when a thread panics.
    pub backtrace: bool,
}

/// Something that must not happen.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The workload.
    pub workload: &'static str,
    /// The seed.
    pub seed: u64,
    /// The operation before which the power was cut, and what survived; `None` if the run itself
    /// failed.
    pub cut: Option<(u64, ChoiceNumber)>,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { workload, seed, cut, what } = self;
        writeln!(f, "workload {workload}, seed {seed}: {what}")?;
        write!(f, "  replay: {RUN} -p sim -- --seed {seed} --workload {workload}")?;
        if let Some((step, choice)) = cut {
            write!(f, " --step {step} --choice {choice}")?;
        }
        Ok(())
    }
}

/// A finished run of a workload.
#[derive(Debug)]
pub struct FinishedRun {
    /// The disk, with its journal.
    pub disk: MemDisk,
    /// The effects of the run, which say what it promised.
    pub history: Arc<History>,
    /// The world's hash.
    pub hash: u64,
    /// Scheduling points.
    pub steps: u64,
    /// Simulated microseconds.
    pub now_us: u64,
    /// Operations of the disk when the database was open. If processes were killed before, what
    /// they left unsynced is durable from here on.
    pub opened_at: u64,
}

fn mix(values: &[u64]) -> u64 {
    values.iter().fold(0x51_7cc1_b727_220a, |h: u64, v| {
        let h = (h.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^ h >> 29
    })
}

impl Plan {
    fn world(&self, seed: u64) -> WorldOptions {
        WorldOptions {
            flags: self.flags,
            backtrace: self.backtrace,
            max_steps: MAX_STEPS,
            ..WorldOptions::new(seed)
        }
    }

    fn finding(&self, workload: &Workload, cut: Option<(u64, ChoiceNumber)>, what: String) -> Box<Finding> {
        Box::new(Finding { workload: workload.name, seed: self.seed, cut, what })
    }

    /// Runs a workload to its end. If it has several lives, all but the last one are killed
    /// somewhere, and the next one continues at once.
    pub fn run(&self, workload: &Workload) -> Result<FinishedRun, Box<Finding>> {
        let mut disk = workload.shape.disk();
        let mut life = Life::default();
        while life.number + 1 < workload.lives {
            let number = life.number;
            let ran = self.live(workload, &disk, life)?;
            let (stop, left, crash) = self.kill(workload, &ran, number);
            let found = |what: String| {
                self.finding(workload, None, format!("life {number}, killed before operation {stop}: {what}"))
            };
            let seed = mix(&[self.seed, workload.number(), number]);
            let promised = (&ran.history, stop, crash);
            let begin = self.judge(&workload.shape, &left.fork(), promised, seed).map_err(found)?;
            disk = left;
            life = Life { number: number + 1, begin };
        }
        self.live(workload, &disk, life)
    }

    /// Stops a life before an operation, mostly a kill and sometimes a power cut. Returns the
    /// operation, the disk that is left, and which it was. Half of the lives are stopped soon.
    fn kill(&self, workload: &Workload, ran: &FinishedRun, number: u64) -> (u64, MemDisk, Crash) {
        let mut rng = Prng::new(mix(&[self.seed, workload.number(), number, 7]));
        let left = ran.disk.op_count().saturating_sub(ran.opened_at);
        let most = if rng.one_in(2) { left / 4 } else { left };
        let stop = ran.opened_at + rng.below(most + 1);
        let mut walk = ran.disk.walk();
        while walk.at() < stop && walk.step() {}
        match rng.one_in(4) {
            true => (walk.at(), walk.image(CrashChoice::Random(rng.next_u64())), Crash::PowerCut),
            false => (walk.at(), walk.killed(), Crash::Kill),
        }
    }

    /// Runs one life of a workload.
    fn live(&self, workload: &Workload, disk: &MemDisk, life: Life) -> Result<FinishedRun, Box<Finding>> {
        let (inside, script, shape, seed) = (disk.clone(), workload.script, workload.shape, self.seed);
        let number = life.number;
        let world = sim::run(self.world(mix(&[seed, workload.number(), number])), move || {
            let driver = Driver::open(inside, shape, seed ^ number << 32, life);
            let opened_at = driver.at();
            script(&driver);
            (driver.finish(seed % 2 == 0), opened_at)
        });
        match world.result {
            Ok((history, opened_at)) => Ok(FinishedRun {
                disk: disk.clone(),
                history: Arc::new(history),
                hash: world.hash,
                steps: world.steps,
                now_us: world.now_us,
                opened_at: if number == 0 { 0 } else { opened_at },
            }),
            Err(failure) => Err(self.finding(workload, None, format!("life {number}: {failure}"))),
        }
    }

    /// Runs a workload again and compares. A difference is a finding.
    pub fn repeats(&self, workload: &Workload, ran: &FinishedRun) -> Result<(), Box<Finding>> {
        let again = self.run(workload)?;
        let same = again.hash == ran.hash && again.steps == ran.steps && again.now_us == ran.now_us;
        if same {
            return Ok(());
        }
        let what = format!(
            "two runs differ: hash {:x} and {:x}, {} and {} steps, {} and {} us",
            ran.hash, again.hash, ran.steps, again.steps, ran.now_us, again.now_us
        );
        Err(self.finding(workload, None, what))
    }

    /// Returns what a choice number means at a step.
    #[must_use]
    pub fn choice(&self, workload: &Workload, step: u64, number: ChoiceNumber) -> CrashChoice {
        match number {
            0 => CrashChoice::None,
            1 => CrashChoice::All,
            n => CrashChoice::Random(mix(&[self.seed, workload.number(), step, n])),
        }
    }

    /// Cuts the power before every operation that `take` selects, and judges each state. Calls
    /// `on_state` before each state; the walk ends when it returns false.
    pub fn cut(
        &self,
        workload: &Workload,
        ran: &FinishedRun,
        take: impl Fn(u64) -> bool,
        mut on_state: impl FnMut() -> bool,
    ) -> Result<(), Box<Finding>> {
        let mut walk = ran.disk.walk();
        let mut keys = BTreeSet::new();
        loop {
            let step = walk.at();
            for number in 0..2 + SUBSETS {
                let choice = self.choice(workload, step, number);
                // The same image at a later step may have to keep more promises.
                let promised = ran.history.promised_at(step, crash_of(number));
                if step >= ran.opened_at && take(step) && keys.insert((walk.image_key(choice), promised)) {
                    if !on_state() {
                        return Ok(());
                    }
                    let nested = mix(&[self.seed, step, number]).is_multiple_of(NESTED_ONE_IN);
                    self.state(workload, ran, &walk, number, nested)?;
                }
            }
            if !walk.step() {
                return Ok(());
            }
        }
    }

    /// Recovers and judges one state; if `nested`, also with crashes inside the recovery.
    pub fn state(
        &self,
        workload: &Workload,
        ran: &FinishedRun,
        walk: &CrashWalker,
        number: ChoiceNumber,
        nested: bool,
    ) -> Result<(), Box<Finding>> {
        let step = walk.at();
        let choice = self.choice(workload, step, number);
        let seed = mix(&[self.seed, workload.number(), step, number]);
        let found = |what: String| self.finding(workload, Some((step, number)), what);
        let image = walk.image(choice);
        let first = image.fork();
        let mut crash = crash_of(number);
        self.judge(&workload.shape, &first, (&ran.history, step, crash), seed).map_err(found)?;
        if !nested {
            return Ok(());
        }
        let mut rng = Prng::new(seed);
        // Sometimes only the process is killed first, and the power cut follows.
        let mut image = image;
        if rng.one_in(3) {
            (image, crash) = (walk.killed(), Crash::Kill);
        }
        for depth in 1..=NESTED_DEPTH {
            let before = image.op_count();
            let opened = self.recover(&workload.shape, &image, mix(&[seed, depth]));
            opened.map_err(|what| found(format!("recovery {depth}: {what}")))?;
            let mut inner = image.walk();
            let stop = rng.between(before, image.op_count());
            while inner.at() < stop && inner.step() {}
            let choice = match rng.below(4) {
                0 => CrashChoice::None,
                1 => CrashChoice::All,
                _ => CrashChoice::Random(rng.next_u64()),
            };
            image = inner.image(choice);
            if choice != CrashChoice::All {
                crash = Crash::PowerCut;
            }
            let promised = (&ran.history, step, crash);
            let result = self.judge(&workload.shape, &image.fork(), promised, mix(&[seed, 9, depth]));
            result.map_err(|what| found(format!("after {depth} crashes in recovery: {what}")))?;
        }
        Ok(())
    }

    /// Opens an image in a world and drops the database.
    fn recover(&self, shape: &Shape, image: &MemDisk, seed: u64) -> Result<(), String> {
        let (disk, shape) = (image.clone(), *shape);
        let world = sim::run(self.world(seed), move || {
            engine::open(&disk.vfs(seed), &shape).map(drop).map_err(|e| e.to_string())
        });
        unless_torn(flatten(world.result), &shape)
    }

    /// Opens an image in a world, compares it with what was promised, and does more work in it.
    /// Returns the state that recovery showed.
    fn judge(
        &self,
        shape: &Shape,
        image: &MemDisk,
        (history, at, crash): (&Arc<History>, u64, Crash),
        seed: u64,
    ) -> Result<DbState, String> {
        let (disk, history, shape) = (image.clone(), Arc::clone(history), *shape);
        let world =
            sim::run(self.world(seed), move || judge_inside(&disk, &shape, (&history, at, crash), seed));
        unless_torn(flatten(world.result), &shape)
    }
}

/// Returns how the process ended, by the number of what survives.
fn crash_of(number: ChoiceNumber) -> Crash {
    if number == 1 { Crash::Kill } else { Crash::PowerCut }
}

/// A page that was torn without a copy, and is named, is as good as can be.
fn unless_torn<T: Default>(result: Result<T, String>, shape: &Shape) -> Result<T, String> {
    result.or_else(|what| if shape.may_fail(&what) { Ok(T::default()) } else { Err(what) })
}

fn flatten<T>(result: Result<Result<T, String>, Failure>) -> Result<T, String> {
    result.map_err(|failure| failure.to_string()).and_then(|inner| inner)
}

fn judge_inside(
    disk: &MemDisk,
    shape: &Shape,
    (history, at, crash): (&History, u64, Crash),
    seed: u64,
) -> Result<DbState, String> {
    let said = |what: &str| {
        let what = what.to_owned();
        move |e: Error| format!("{what}: {e}")
    };
    // The snapshots of this function must not expire.
    let shape = &Shape { history_files: 0, ..*shape };
    let db = engine::open(&disk.vfs(seed), shape).map_err(said("open"))?;
    leave_repeatable(&db).map_err(said("roll a repeatable transaction back"))?;
    let found = read_contents(&db).map_err(said("read everything"))?;
    let possible = history.possible(at, crash);
    let Some(mut state) = possible.iter().find(|state| state.contents() == found).cloned() else {
        let expected = possible.first().expect("at least one state is possible").contents();
        return Err(format!(
            "recovery shows none of the {} possible states; the smallest of them differs in\n{}",
            possible.len(),
            difference(&found, &expected)
        ));
    };
    let shown = state.clone();
    let check = |when: &str| checked(&db, when);
    let mut rng = Prng::new(seed);
    // It waits for the end of replay. Without it the work below begins beside replay.
    if rng.one_in(2) {
        check("after recovery")?;
    }
    find_torn_pages(&db, shape).map_err(said("the first checkpoint"))?;
    for xid in std::mem::take(&mut state.prepared).keys() {
        // Decided at once. The comparison below checks the result.
        let commit = rng.one_in(2);
        let decided = if commit { db.commit_prepared(xid) } else { db.rollback_prepared(xid) };
        decided.map_err(said("decide a prepared transaction"))?;
        let prepared = possible.iter().find(|s| s.contents() == found).and_then(|s| s.prepared.get(xid));
        if let (true, Some(writes)) = (commit, prepared) {
            state.apply(&Effect::Commit(writes.clone()));
        }
    }
    let mut expected = state.contents();
    if !rng.one_in(3) {
        work_on(&db, &mut expected, &mut rng).map_err(said("work after recovery"))?;
    }
    let compare = |db: &Db, when: &str| {
        let found = read_contents(db).map_err(said(when))?;
        if found == expected {
            return Ok(());
        }
        Err(format!("{when}, the rows are wrong:\n{}", difference(&found, &expected)))
    };
    compare(&db, "after work that followed recovery")?;
    if rng.one_in(4) {
        drained(&db)?;
        check("after all background work")?;
    }
    if rng.one_in(4) {
        engine::close(&db).map_err(said("close"))?;
        drop(db);
        let db = engine::open(&disk.vfs(seed ^ 1), shape).map_err(said("open again"))?;
        compare(&db, "after closing and opening again")?;
    } else if rng.one_in(2) {
        db.checkpoint().map_err(said("checkpoint"))?;
        check("after a checkpoint")?;
    }
    Ok(shown)
}

/// Rolls back what its coordinator makes again, or has never heard of.
fn leave_repeatable(db: &Db) -> millpond::Result {
    let prepared = db.prepared()?;
    prepared.iter().filter(|xid| xid.starts_with(REPEATABLE)).try_for_each(|xid| db.rollback_prepared(xid))
}

fn checked(db: &Db, when: &str) -> Result<(), String> {
    match db.check() {
        Ok(report) if report.is_clean() => Ok(()),
        Ok(report) => Err(format!("the check {when} found: {:?}", report.problems)),
        Err(e) => Err(format!("the check {when}: {e}")),
    }
}

/// Finds every page that was torn without a copy: a checkpoint waits until all redo is applied.
fn find_torn_pages(db: &Db, shape: &Shape) -> millpond::Result {
    if shape.doublewrite == Copies::Missing { db.checkpoint() } else { Ok(()) }
}

/// Waits until everything is reverted and purged. Then every page in use must be reachable.
fn drained(db: &Db) -> Result<(), String> {
    for _ in 0..DRAIN_TURNS {
        match db.check().map(|report| report.unreachable_pages) {
            Ok(Some(0)) => return Ok(()),
            Ok(Some(n)) => return Err(format!("{n} pages are unreachable after all background work")),
            Ok(None) => sim::pause(DRAIN_PAUSE_US),
            Err(e) => return Err(format!("the check while background work goes on: {e}")),
        }
    }
    Err("background work does not end".to_owned())
}

/// Does a little work of every kind, in the database and in `expected`.
fn work_on(db: &Db, expected: &mut Contents, rng: &mut Prng) -> millpond::Result {
    let tables: Vec<_> = expected.tables.keys().cloned().collect();
    let name = if tables.is_empty() || rng.one_in(4) {
        let name = "after".to_owned();
        db.create_table(&name)?;
        expected.tables.insert(name.clone(), Default::default());
        name
    } else {
        rng.pick(&tables).clone()
    };
    let rows = expected.tables.get_mut(&name).expect("it is there");
    let mut tx = db.begin()?;
    for n in 0..rng.between(1, 12) {
        let old: Vec<_> = rows.keys().cloned().collect();
        if !old.is_empty() && rng.one_in(2) {
            let key = rng.pick(&old);
            tx.delete(&db.open_table(&name)?, key)?;
            rows.remove(key);
        } else {
            let key = if old.is_empty() || rng.one_in(2) {
                format!("zz{n}-{}", rng.below(1000)).into_bytes()
            } else {
                rng.pick(&old).clone()
            };
            let mut value = vec![0; rng.below(300) as usize];
            rng.fill(&mut value);
            tx.put(&db.open_table(&name)?, &key, &value)?;
            rows.insert(key, value);
        }
    }
    tx.commit().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CI explores with assertions, and printed the command of a build without them.
    #[test]
    fn a_finding_is_replayed_with_the_assertions_that_found_it() {
        let what = "attempt to subtract with overflow".to_owned();
        let finding = Finding { workload: "writers", seed: 7, cut: Some((118, 3)), what };
        let told = finding.to_string();
        let (profile, is_checked) = match told.split_once("replay: ").unwrap().1 {
            command if command.starts_with("cargo run -p sim -- --seed 7 ") => ("dev", true),
            command if command.starts_with("cargo run --release -p sim -- --seed 7 ") => ("release", false),
            command => panic!("{command}"),
        };
        assert_eq!(is_checked, cfg!(debug_assertions), "{told}");
        assert!(told.ends_with(" --workload writers --step 118 --choice 3"), "{told}");
        let manifest = include_str!("../../../Cargo.toml");
        let section = manifest.split_once(&format!("[profile.{profile}]\n")).unwrap().1;
        let section = section.split("\n[").next().unwrap();
        // The assertions are what cargo gives to a profile of this name.
        assert!(!section.contains("debug-assertions"), "{section}");
    }
}
