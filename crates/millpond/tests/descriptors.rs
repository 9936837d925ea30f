//! Real limits of a process: the number of descriptors (`ulimit -n`), the size of files (`ulimit
//! -f`), memory (`ulimit -v`, `ulimit -d`). Each test runs in its own process.

mod process;

use millpond::{Db, Error, Options};
use process::in_a_process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROWS: u64 = 1000;

/// Checks the documented limit: a quarter of the descriptors that the process may have, 28 that a
/// database always needs, and those that the process has without it.
fn check_descriptors(seen: Option<usize>, limit: u64) {
    let Some(seen) = seen else { return };
    let most = limit as usize / 4 + 28 + 8;
    println!("{seen} descriptors of {limit} were in use, {most} are allowed");
    assert!((1..=most).contains(&seen), "{seen} descriptors of {limit} were in use");
}

/// Returns a number from an environment variable.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

fn limit(resource: Resource, soft: u64, hard: u64) {
    setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) }).unwrap();
}

/// The cleaner does nothing, so the log only grows.
fn options() -> Options {
    Options::new()
        .buffer_pool_bytes(16 << 20)
        .redo_capacity_bytes(8 << 30)
        .hold_cleaning_until_redo_bytes(7 << 30)
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn segments(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("db/redo")).unwrap().count()
}

/// Writes the same rows again and again until `enough` returns true. Returns the number of rounds.
fn fill(db: &Db, mut enough: impl FnMut(u64) -> bool) -> u64 {
    let table = db.open_table("t").unwrap();
    for round in 1u64.. {
        let mut tx = db.begin().unwrap();
        for n in 0..ROWS {
            tx.put(&table, &n.to_be_bytes(), &[round as u8; 1500]).unwrap();
        }
        tx.commit().unwrap();
        if enough(round) {
            return round;
        }
    }
    unreachable!()
}

fn holds(db: &Db, round: u64) {
    let table = db.open_table("t").unwrap();
    let tx = db.begin().unwrap();
    let rows = tx.range(&table, ..).unwrap().map(Result::unwrap);
    assert_eq!(rows.map(|(_, value)| assert_eq!(value, [round as u8; 1500])).count() as u64, ROWS);
}

/// Fills a database until `enough` returns true, opens it again, and checks its rows.
fn fill_and_recover(dir: &Path, options: &Options, enough: impl FnMut(u64) -> bool) {
    let db = options.open(dir.join("db")).unwrap();
    db.create_table("t").unwrap();
    let round = fill(&db, enough);
    println!("{} files of log", segments(dir));
    drop(db);
    let db = options.open(dir.join("db")).unwrap();
    holds(&db, round);
    db.close().unwrap();
}

/// `MILLPOND_DESCRIPTORS=256` is a realistic limit, with a gigabyte of log.
/// `MILLPOND_SEGMENTS=2048` makes 8 GiB of log, all of which is replayed.
#[test]
fn a_long_log_runs_and_recovers_with_few_descriptors() {
    let most = setting("MILLPOND_DESCRIPTORS", 40);
    let files = setting("MILLPOND_SEGMENTS", most + 8) as usize;
    let seen = in_a_process("a_long_log_runs_and_recovers_with_few_descriptors", |dir| {
        limit(Resource::Nofile, most, most);
        let options = options()
            .redo_capacity_bytes(files as u64 * (5 << 20) + (8 << 30))
            .hold_cleaning_until_redo_bytes(files as u64 * (5 << 20) + (7 << 30));
        fill_and_recover(dir, &options, |_| segments(dir) >= files);
    });
    check_descriptors(seen, most);
}

/// The options of a program that sets only the recovery target. `MILLPOND_WRITTEN_MB=4000` writes
/// for some time.
#[test]
fn a_long_recovery_target_needs_no_more_descriptors() {
    const MOST: u64 = 1024;
    let mb = setting("MILLPOND_WRITTEN_MB", 40);
    let seen = in_a_process("a_long_recovery_target_needs_no_more_descriptors", |dir| {
        limit(Resource::Nofile, MOST, MOST);
        let options = Options::new().recovery_target(Duration::from_secs(30));
        fill_and_recover(dir, &options, |round| round * ROWS * 1500 >= mb * 1_000_000);
    });
    check_descriptors(seen, MOST);
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_limit_if_that_is_asked() {
    in_a_process("the_soft_limit_is_raised_to_the_hard_limit_if_that_is_asked", |dir| {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(512);
        limit(Resource::Nofile, 48, hard);
        let db = options().open(dir.join("db")).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(48), "nobody has asked");
        db.close().unwrap();
        let db = options().own_process(true).open(dir.join("db")).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));
        db.close().unwrap();
    });
}

#[test]
fn too_few_descriptors_are_one_clear_error() {
    in_a_process("too_few_descriptors_are_one_clear_error", |dir| {
        limit(Resource::Nofile, open_files() as u64 + 1, open_files() as u64 + 1);
        let error = options().open(dir.join("db")).map(drop).unwrap_err().to_string();
        assert!(error.contains("no file descriptor is left; the process may have"), "{error}");
    });
}

/// The file `pages` may not grow beyond the limit. The signal must be ignored.
#[test]
fn a_limit_on_file_sizes_is_a_full_disk() {
    in_a_process("a_limit_on_file_sizes_is_a_full_disk", |dir| {
        if std::env::var_os("MILLPOND_IGNORES").is_none() {
            // The shell ignores the signal, and so does the process that it starts.
            let exe = std::env::current_exe().unwrap();
            let name = "a_limit_on_file_sizes_is_a_full_disk";
            let script = "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture --test-threads=1";
            let run = Command::new("sh")
                .args(["-c", script])
                .arg(exe)
                .arg(name)
                .env("MILLPOND_IGNORES", "1")
                .output()
                .unwrap();
            let text =
                String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{:?}: {text}", run.status);
            return;
        }
        limit(Resource::Fsize, 12 << 20, 12 << 20);
        let options = Options::new().buffer_pool_bytes(4 << 20).redo_capacity_bytes(16 << 20);
        let db = options.open(dir.join("db")).unwrap();
        let table = db.create_table("t").unwrap();
        let mut rows = 0u64;
        let error = loop {
            let mut tx = db.begin().unwrap();
            match tx.put(&table, &rows.to_be_bytes(), &[7; 1000]) {
                Ok(()) => drop(tx.commit().unwrap()),
                Err(error) => break error,
            }
            rows += 1;
        };
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        db.drop_table("t").unwrap();
        let table = db.create_table("t").unwrap();
        let mut tx = db.begin().unwrap();
        tx.put(&table, b"key", b"value").unwrap();
        tx.commit().unwrap();
        db.close().unwrap();
    });
}

/// The addresses for the largest pool are reserved too, and there were not so many.
#[test]
fn a_limit_on_memory_decides_how_large_the_pool_is() {
    in_a_process("a_limit_on_memory_decides_how_large_the_pool_is", |dir| {
        for (resource, bytes) in [(Resource::As, 2 << 30), (Resource::Data, 1 << 30)] {
            limit(resource, bytes, bytes);
            let options = Options::new().redo_capacity_bytes(16 << 20);
            let db = options.open(dir.join(format!("{resource:?}"))).unwrap();
            let pool = db.metrics().get("buffer_pool_bytes").unwrap();
            assert!(pool > 0.0 && pool <= (bytes / 4) as f64, "{resource:?} {bytes}: a pool of {pool}");
            db.create_table("t").unwrap();
            fill(&db, |round| round == 3);
            holds(&db, 3);
            db.close().unwrap();
        }
    });
}
