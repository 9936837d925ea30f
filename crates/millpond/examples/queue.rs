//! A durable job queue in one table: any number of workers take jobs without waiting for each
//! other, a failed job is tried again later, and if a worker dies during a job, another worker
//! takes the job.
//!
//! ```text
//! cargo run --release -p millpond --example queue [-- JOBS [WORKERS]]
//! ```
//! How it works:
//!
//! - **The key is the order.** The key of a job is the time from which it may be taken, then its
//!   number. The head of the queue is the start of a range; "try again in five milliseconds" is a
//!   later key.
//! - **Taking a job locks only its row.** `range_for_update` with `LockWait::SkipLocked` skips rows
//!   that other workers have locked, so eight workers take eight different jobs at once. No row
//!   marks a job as taken; the lock does.
//! - **Result and queue change together.** The worker deletes the job and writes its result in one
//!   transaction. After the commit both are on disk; before it neither is. So a job cannot be lost
//!   or done twice.
//! - **A crash needs no clean-up.** Locks are not data. When a process dies, its transactions are
//!   rolled back. The example kills a process during a job, opens the database again, and finds the
//!   job in the queue.
//!
//! The example needs no server and no timer. Its database is in the system's directory for
//! temporary files and is removed at the end.

use millpond::{Db, LockWait, Table, Transaction};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Environment variable of the process that dies during a job: the directory of the database.
const CRASH: &str = "MILLPOND_QUEUE_CRASH";
/// How often a job is tried at most.
const ATTEMPTS_MAX: u8 = 5;

/// Returns the key of a waiting job: the time from which it may be taken, and its number. Both are
/// big-endian, so the order of bytes is the order of numbers.
fn key(ready_us: u64, job: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&ready_us.to_be_bytes());
    key[8..].copy_from_slice(&job.to_be_bytes());
    key
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// The three tables: jobs that wait, that are done, and that have failed too often.
#[derive(Clone)]
struct Queue {
    db: Db,
    waiting: Table,
    done: Table,
    failed: Table,
}

/// A job that a transaction has taken.
struct Taken {
    key: Vec<u8>,
    job: u64,
    /// How many attempts were made before.
    attempts: u8,
}

impl Queue {
    fn open(dir: &Path) -> millpond::Result<Queue> {
        let db = millpond::Options::new().buffer_pool_bytes(32 << 20).open(dir)?;
        let table = |name| match db.open_table(name) {
            Err(millpond::Error::NoSuchTable { .. }) => db.create_table(name),
            other => other,
        };
        let (waiting, done, failed) = (table("waiting")?, table("done")?, table("failed")?);
        Ok(Queue { db, waiting, done, failed })
    }

    /// Adds jobs, all or none.
    fn submit(&self, jobs: std::ops::Range<u64>) -> millpond::Result<()> {
        let (mut tx, now) = (self.db.begin()?, now_us());
        for job in jobs {
            tx.insert(&self.waiting, &key(now, job), &[0])?;
        }
        tx.commit().map(drop)
    }

    /// Takes the first due job that no other worker has taken. It is locked until the transaction
    /// ends.
    fn take(&self, tx: &mut Transaction) -> millpond::Result<Option<Taken>> {
        let due = key(now_us(), u64::MAX);
        let mut jobs = tx.range_for_update(&self.waiting, ..=&due[..], LockWait::SkipLocked)?;
        let Some((key, value)) = jobs.next().transpose()? else { return Ok(None) };
        let mut job = [0; 8];
        job.copy_from_slice(&key[8..]);
        Ok(Some(Taken { job: u64::from_be_bytes(job), attempts: value[0], key }))
    }

    /// Takes a job, does it, and records the result, all in one transaction. Returns false if no
    /// job was due.
    fn work_once(&self, work: impl Fn(&Taken) -> Result<String, String>) -> millpond::Result<bool> {
        let mut tx = self.db.begin()?;
        let Some(taken) = self.take(&mut tx)? else { return Ok(false) };
        let result = work(&taken);
        tx.delete(&self.waiting, &taken.key)?;
        match result {
            // `insert`, not `put`: a job that is done twice causes an error instead of a silent
            // overwrite.
            Ok(result) => tx.insert(&self.done, &taken.job.to_be_bytes(), result.as_bytes())?,
            Err(why) if taken.attempts + 1 == ATTEMPTS_MAX => {
                tx.insert(&self.failed, &taken.job.to_be_bytes(), why.as_bytes())?;
            }
            Err(_) => {
                let later = key(now_us() + 5000, taken.job);
                tx.insert(&self.waiting, &later, &[taken.attempts + 1])?;
            }
        }
        tx.commit()?;
        Ok(true)
    }

    fn count(&self, table: &Table) -> millpond::Result<usize> {
        Ok(self.db.begin()?.range(table, ..)?.count())
    }
}

/// Does a job. One job in ten fails at the first attempt, one in a hundred always.
fn square(taken: &Taken) -> Result<String, String> {
    match taken.job {
        job if job % 100 == 7 => Err(format!("{job} cannot be done")),
        job if job % 10 == 3 && taken.attempts == 0 => Err("try again".into()),
        job => Ok((job * job).to_string()),
    }
}

/// The work of the process that dies: takes a job, does it, and aborts before the commit.
fn die_before_commit(dir: &Path) -> Outcome {
    let queue = Queue::open(dir)?;
    let mut tx = queue.db.begin()?;
    let taken = queue.take(&mut tx)?.ok_or("there is no job")?;
    tx.delete(&queue.waiting, &taken.key)?;
    tx.insert(&queue.done, &taken.job.to_be_bytes(), b"done, but never committed")?;
    std::process::abort()
}

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() -> Outcome {
    if let Some(dir) = std::env::var_os(CRASH) {
        return die_before_commit(Path::new(&dir));
    }
    let mut args = std::env::args().skip(1);
    let jobs: u64 = args.next().map_or(Ok(5000), |n| n.parse())?;
    let workers: usize = args.next().map_or(Ok(8), |n| n.parse())?;
    run(jobs, workers.max(1))
}

fn run(jobs: u64, workers: usize) -> Outcome {
    let scratch = Scratch(std::env::temp_dir().join(format!("millpond-queue-{}", std::process::id())));
    let dir = scratch.0.as_path();

    let queue = Queue::open(dir)?;
    queue.submit(0..jobs)?;
    queue.db.close()?;

    let died = Command::new(std::env::current_exe()?).env(CRASH, dir).output()?;
    assert!(!died.status.success(), "the process should have died");
    let queue = Queue::open(dir)?;
    let (waiting, done) = (queue.count(&queue.waiting)?, queue.count(&queue.done)?);
    println!("a worker died during a job: {waiting} jobs wait, {done} are done");
    assert_eq!((waiting as u64, done), (jobs, 0));

    let (attempts, start) = (AtomicU64::new(0), std::time::Instant::now());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| -> millpond::Result<()> {
                    // Ends when no job waits. A waiting job that is not due yet will be due soon.
                    while queue.count(&queue.waiting)? > 0 {
                        while queue.work_once(square)? {
                            attempts.fetch_add(1, Ordering::Relaxed);
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker"))
    })?;
    let (done, failed) = (queue.count(&queue.done)?, queue.count(&queue.failed)?);
    let rate = attempts.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!(
        "{workers} workers: {done} jobs done, {failed} failed, {rate:.0} attempts a second, each on disk"
    );
    assert_eq!((done + failed) as u64, jobs, "each job is in exactly one table");
    assert_eq!(failed as u64, (0..jobs).filter(|job| job % 100 == 7).count() as u64);
    queue.db.close()?;
    Ok(())
}

#[test]
fn it_runs() -> Outcome {
    // The process that dies runs this program too.
    if let Some(dir) = std::env::var_os(CRASH) {
        return die_before_commit(Path::new(&dir));
    }
    run(300, 4)
}
