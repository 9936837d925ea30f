//! `millpond bench stalls`: the loads under which other engines stall, one after the other.

use super::filled_database::{self, Database};
use super::steadiness::{self, Measured, heads};
use crate::own_process;
use output::failure::{Failure, Outcome};
use output::units::{parse_seconds, parse_size};

use crate::workload::{WorkloadKind, table_names};
use clap::ValueEnum;
use millpond::Db;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NOTES: &str = "\
A write-heavy load runs with a short log, and something beside it that is known to stall engines.

alone: nothing. checkpoints: another thread takes a checkpoint each two seconds (WiredTiger and
MongoDB). small-pool: the pool is a quarter of the data, so that free frames and room in the log are
both scarce (MariaDB's MDEV-33053, MDEV-34265 and MDEV-36226). snapshot: a transaction is open for five
seconds of ten, and purge has everything to do afterwards (MDEV-32050). great-delete: another thread
deletes all rows of a table in one transaction, again and again (MDEV-34515). great-rollback: the
same, rolled back. drop: another thread loads a table and drops it. log: the log's size changes every
two seconds between the short one and eight times that. pool: the pool's size changes every four
seconds between all and half of it.

worst: the commits of the worst second, of the median one. 99 %: as many or more in 99 % of the
seconds. delayed: the part of the threads' time for which admission held them. stops: operations that
waited for the checkpoint. dips: seconds in which the device itself was slow. cpu: the processor's
speed in 99 % of the seconds, of the median one. by cpu: the figure of 99 % for commits divided by that
speed.

The benchmark fails if an operation waited for the checkpoint, or if a second had less than half of
the median's commits and the device was not slow.";

/// The loads under which other engines stall, one after the other
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Stalls {
    /// Only these
    #[arg(value_enum, value_name = "NAME")]
    only: Vec<Scene>,
    /// Length of the measured phase of each
    #[arg(long, value_name = "S", default_value = "20", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that each goes before it is measured
    #[arg(long, value_name = "S", default_value = "4", value_parser = parse_seconds)]
    warmup: Duration,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
    /// Rows of the tables that are deleted and dropped beside the load
    #[arg(long, value_name = "R", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    great: u32,
    /// The short log
    #[arg(long, value_name = "SIZE", default_value = "96MiB", value_parser = parse_size)]
    log: u64,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pool: u64,
}

/// What happens beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scene {
    Alone,
    Checkpoints,
    SmallPool,
    Snapshot,
    GreatDelete,
    GreatRollback,
    Drop,
    Log,
    Pool,
}

const VALUE_BYTES: usize = 120;
/// No pool is smaller, bytes.
const POOL_MIN: u64 = 16 << 20;

impl Stalls {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds < Duration::from_secs(1) {
            return Err(Failure::misuse("--seconds: a run of less than a second has no steadiness"));
        }
        let params = filled_database::uniform(self.tables, self.rows);
        let options = own_process::options().buffer_pool_bytes(self.pool).redo_capacity_bytes(self.log);
        let database = Database::filled(options, WorkloadKind::WriteHeavy, params)?;
        let db = &database.db;
        let scenes = if self.only.is_empty() { Scene::value_variants() } else { &self.only };
        let mut stalled = Vec::new();
        say!("{}", heads("beside the load"));
        for &scene in scenes {
            let name = name(scene);
            // A quarter of the rows' 240 bytes with their keys.
            let quarter = (u64::from(self.tables) * u64::from(self.rows) * 60).max(POOL_MIN);
            db.set_buffer_pool_bytes(if scene == Scene::SmallPool { quarter } else { self.pool })?;
            db.set_redo_capacity(self.log)?;
            db.checkpoint()?;
            let over = AtomicBool::new(false);
            let measured = std::thread::scope(|scope| {
                let beside = scope.spawn(|| self.disturb(db, scene, &over));
                let pace = filled_database::full_speed(self.threads, self.warmup, self.seconds);
                let measured =
                    steadiness::measure(db, WorkloadKind::WriteHeavy, params, pace, &database.probe());
                over.store(true, Ordering::Relaxed);
                super::joined(beside)?;
                measured
            })?;
            say!("{}", measured.line(&name));
            if is_stall(&measured) {
                stalled.push(name);
            }
        }
        database.check_and_close("the loads")?;
        if stalled.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(format!("writers stalled beside: {}", stalled.join(", "))))
    }

    /// Does what the scene has beside the load until it is over.
    fn disturb(&self, db: &Db, scene: Scene, over: &AtomicBool) -> millpond::Result<()> {
        let mut round = 0;
        while !over.load(Ordering::Relaxed) {
            round += 1;
            match scene {
                Scene::Alone | Scene::SmallPool => rest(over, 1),
                Scene::Checkpoints => {
                    db.checkpoint()?;
                    rest(over, 2);
                }
                Scene::Snapshot => {
                    let reader = db.begin()?;
                    reader.get(&db.open_table(&table_names(1).0)?, &[])?;
                    rest(over, 5);
                    drop(reader);
                    rest(over, 5);
                }
                Scene::GreatDelete | Scene::GreatRollback => self.delete_all(db, scene, round)?,
                Scene::Drop => {
                    self.make(db, round)?;
                    db.drop_table(&table_name(round))?;
                }
                Scene::Log => {
                    db.set_redo_capacity(if round % 2 == 1 { self.log * 8 } else { self.log })?;
                    rest(over, 2);
                }
                Scene::Pool => {
                    db.set_buffer_pool_bytes(if round % 2 == 1 { self.pool / 2 } else { self.pool })?;
                    rest(over, 4);
                }
            }
        }
        Ok(())
    }

    fn make(&self, db: &Db, round: u32) -> millpond::Result<millpond::Table> {
        db.bulk_load(&table_name(round), (0..self.great).map(|n| (n.to_be_bytes(), [1; VALUE_BYTES])))
    }

    /// Loads a table, deletes its rows in one transaction, ends that, and drops the table.
    fn delete_all(&self, db: &Db, scene: Scene, round: u32) -> millpond::Result<()> {
        let table = self.make(db, round)?;
        let mut tx = db.begin()?;
        for n in 0..self.great {
            tx.delete(&table, &n.to_be_bytes())?;
        }
        if scene == Scene::GreatDelete {
            tx.commit()?;
        } else {
            tx.rollback();
        }
        drop(table);
        db.drop_table(&table_name(round))
    }
}

/// Returns the scene's name on the command line.
fn name(scene: Scene) -> String {
    scene.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Whether an operation waited for the checkpoint, or a second had less than half of the median's
/// commits though the device was not slow.
fn is_stall(run: &Measured) -> bool {
    run.stops > 0 || (run.steadiness().0 < 0.5 && run.dips == 0)
}

/// Sleeps for so many seconds, or until all is over.
fn rest(over: &AtomicBool, seconds: u64) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end && !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn table_name(round: u32) -> String {
    format!("great{round}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_stop_or_a_bad_second_of_a_good_device() {
        let calm = Measured { seconds: vec![100.0, 90.0, 60.0], ..Measured::default() };
        assert!(!is_stall(&calm));
        assert!(is_stall(&Measured { stops: 1, ..calm.clone() }));
        let bad = Measured { seconds: vec![100.0, 100.0, 40.0], ..Measured::default() };
        assert!(is_stall(&bad));
        assert!(!is_stall(&Measured { dips: 1, ..bad }));
    }
}
