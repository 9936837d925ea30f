//! `millpond torture`: one database lives many lives, each ended by a kill or by a power cut. After
//! each, everything that was promised must be there, nothing half, and the check must pass.
//!
//! The load and its verification are those of [`crate::crash`]. Each transaction also writes its
//! number to a table, so that the parent knows how far each thread came where a commit need not
//! survive a cut. [`life`] runs one life, [`heard`] knows what was promised, [`shown`] adds up all
//! lives, [`certificate`] tells what was shown and what was not.

mod certificate;
mod heard;
mod life;
mod shown;

use crate::crash::recipe::{ExpectedRows, Plan};
use crate::crash::{COUNTS, Verdict, verify};
use crate::own_process;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::whole::{check_database, wait_recovered};
use base::prng::Prng;
use certificate::Certificate;
use cuts::Left;
use heard::Heard;
use life::{End, Life, Setting};
use millpond::{Db, TxnOptions};
use output::failure::{Failure, Outcome};
use output::print;
use output::stop;
use output::units::show_count;
use shown::Shown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Examples of a finding that are told.
const EXAMPLES: usize = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Torture {
    /// How long.
    pub(crate) time: Duration,
    /// Of all random choices.
    pub(crate) seed: u64,
    /// For tests: the disk that is cut ignores syncs.
    pub(crate) ignore_syncs: bool,
}

impl Torture {
    /// Runs it in a directory, and prints the certificate. Fails with a finding; then the directory
    /// is kept.
    pub(crate) fn run(self, mut run_dir: RunDir) -> Outcome {
        let no_cuts = cuts::unavailable();
        if let Some(why) = &no_cuts {
            print(&format!("no power cuts, only kills: {why}\n"));
        }
        let dir = run_dir.dir().canonicalize();
        let dir = dir.map_err(|e| Failure::failed(format!("{}: {e}", run_dir.dir().display())))?;
        let began = Instant::now();
        let mut lives = Lives::begin(&dir, self, no_cuts.is_none())?;
        let mut progress = Progress::on_stderr();
        while began.elapsed() < self.time && lives.shown.findings.is_empty() && !stop::asked() {
            lives.live()?;
            let Shown { kills, cuts, acknowledged, .. } = lives.shown;
            progress.show(&format!(
                "{:>4.0} s   {kills} kills   {cuts} cuts   {} transactions acknowledged",
                began.elapsed().as_secs_f64(),
                show_count(acknowledged as f64)
            ));
        }
        progress.finish();
        let shown = &lives.shown;
        let certificate = Certificate {
            shown,
            dir: &dir,
            durable: run_dir.is_durable(),
            no_cuts: no_cuts.as_deref(),
            seed: self.seed,
            page_bytes: lives.page,
            seconds: began.elapsed().as_secs_f64(),
        };
        print(&certificate.text());
        if shown.findings.is_empty() {
            return Ok(());
        }
        run_dir.keep_if_asked();
        Err(Failure::failed(format!(
            "{} findings; the database is in {}",
            shown.findings.len(),
            dir.display()
        )))
    }
}

/// The database and what it must contain.
struct Lives {
    /// Where the database is, when no file system of ours is over it.
    disk: PathBuf,
    /// Where that file system is mounted.
    at: PathBuf,
    /// What the last life left, as no opening has changed it yet.
    before: PathBuf,
    plan: Plan,
    page: u32,
    expected: ExpectedRows,
    rng: Prng,
    can_cut: bool,
    ignore_syncs: bool,
    shown: Shown,
}

impl Lives {
    /// Makes the database.
    fn begin(dir: &Path, torture: Torture, can_cut: bool) -> Outcome<Lives> {
        let mut rng = Prng::new(torture.seed);
        let page = *rng.pick(&[4 << 10, 8 << 10, 16 << 10]);
        let plan = Plan { seed: torture.seed, threads: 32, tables: 3, rows: 4_000 };
        let [disk, at, before] = ["disk", "at", "before"].map(|name| dir.join(name));
        for dir in [&disk, &at] {
            std::fs::create_dir(dir)
                .map_err(|e| Failure::failed(format!("cannot create {}: {e}", dir.display())))?;
        }
        let db = own_process::options()
            .buffer_pool_bytes(32 << 20)
            .page_bytes(page as usize)
            .open(disk.join(life::DB))?;
        plan.load(&db)?;
        db.create_table(COUNTS)?;
        db.close()?;
        let ignore_syncs = torture.ignore_syncs;
        let expected = ExpectedRows::loaded(&plan);
        let shown = Shown::default();
        Ok(Lives { disk, at, before, plan, page, expected, rng, can_cut, ignore_syncs, shown })
    }

    /// One more life and its judgement. Fails if the life could not be made.
    fn live(&mut self) -> Outcome {
        let life = Life::choose(&mut self.rng, self.page, self.can_cut, self.ignore_syncs);
        let seed = self.rng.next_u64();
        let number = self.shown.kills + self.shown.cuts + 1;
        let setting = Setting { disk: &self.disk, at: &self.at, plan: self.plan, done: self.expected.done() };
        let heard = life.run(&setting, seed)?;
        if stop::asked() {
            // The process was asked too, so how it ended says nothing.
            return Ok(());
        }
        match life.end {
            End::Kill { .. } => self.shown.kills += 1,
            _ => self.shown.cuts += 1,
        }
        self.shown.in_opening += u64::from(!heard.opened);
        self.shown.syncs += heard.syncs;
        let Left { blocks, of_blocks, names, of_names } = heard.left;
        let left = &mut self.shown.left;
        left.blocks += blocks;
        left.of_blocks += of_blocks;
        left.names += names;
        left.of_names += of_names;
        if let Some(why) = &heard.broken {
            self.finding(number, &life, why);
        }
        copy(&self.disk, &self.before)?;
        let judged = self.judge(&life, &heard);
        match judged {
            Ok(wrong) => wrong.iter().for_each(|what| self.finding(number, &life, what)),
            Err(failure) => {
                // Being asked to stop is none.
                stop::check()?;
                self.finding(number, &life, &failure.to_string());
            }
        }
        if self.shown.findings.is_empty() {
            let _ = std::fs::remove_dir_all(&self.before);
        }
        Ok(())
    }

    fn finding(&mut self, number: u64, life: &Life, what: &str) {
        self.shown.findings.push(format!("life {number}, {life}: {what}"));
    }

    /// Opens the database, and returns what is wrong.
    fn judge(&mut self, life: &Life, heard: &Heard) -> Outcome<Vec<String>> {
        let db = life.engine.options().open(self.disk.join(life::DB))?;
        wait_recovered(&db)?;
        let found = self.counts(&db)?;
        let done = self.expected.done().to_vec();
        let mut wrong = heard.wrong(&found, life.keeps_all());
        self.shown.acknowledged +=
            heard.acknowledged.iter().zip(&done).map(|(&a, &d)| u64::from(a - d)).sum::<u64>();
        for (&acknowledged, &found) in heard.acknowledged.iter().zip(&found) {
            self.shown.allowed += u64::from(acknowledged.saturating_sub(found));
            self.shown.in_flight += u64::from(found.saturating_sub(acknowledged));
        }
        if found.iter().zip(&done).all(|(found, done)| found >= done) {
            self.expected.acknowledge(&self.plan, &found);
            let Verdict { lost, extra, in_flight_committed, examples } =
                verify(&db, &self.plan, &self.expected)?;
            if lost > 0 || extra > 0 || !in_flight_committed.is_empty() {
                wrong.push(format!(
                    "{lost} transactions are not whole, {extra} values are extra, {} transactions are there \
                     without their number: {}",
                    in_flight_committed.len(),
                    examples.join("; ")
                ));
            }
        }
        let check = check_database(&db)?;
        if check != "ok" {
            wrong.push(format!("the check finds {check}"));
        }
        db.close()?;
        wrong.truncate(EXAMPLES);
        Ok(wrong)
    }

    /// Returns the number of each thread's last transaction.
    fn counts(&self, db: &Db) -> Outcome<Vec<u32>> {
        let table = db.open_table(COUNTS)?;
        let tx = db.begin_with(TxnOptions::new().read_only(true))?;
        let count =
            |thread: u32| match tx.get(&table, &thread.to_be_bytes())?.as_deref().map(TryInto::try_into) {
                None => Ok(0),
                Some(Ok(bytes)) => Ok(u32::from_le_bytes(bytes)),
                Some(Err(_)) => Err(Failure::failed(format!("the number of thread {thread} is damaged"))),
            };
        (0..self.plan.threads).map(count).collect()
    }
}

/// Copies a tree of files, in place of what is there.
fn copy(from: &Path, to: &Path) -> Outcome {
    let all = |from: &Path, to: &Path| -> std::io::Result<()> {
        let mut dirs = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = dirs.pop() {
            std::fs::create_dir(&to)?;
            for entry in std::fs::read_dir(from)? {
                let entry = entry?;
                let to = to.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    dirs.push((entry.path(), to));
                } else {
                    std::fs::copy(entry.path(), to)?;
                }
            }
        }
        Ok(())
    };
    let _ = std::fs::remove_dir_all(to);
    all(from, to).map_err(|e| Failure::failed(format!("cannot copy {}: {e}", from.display())))
}
