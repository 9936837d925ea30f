//! Real limits of a process: so many descriptors (`ulimit -n`), files so large (`ulimit -f`). Each in a process of its own.

use millpond::{Db, Error, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;

const CHILD: &str = "MILLPOND_CHILD";
const ROWS: u64 = 1000;

/// Runs the test of this name in a process of its own, in a directory that goes with it.
fn in_a_process(name: &str, child: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(CHILD) {
        return child(Path::new(&dir));
    }
    let dir = std::env::temp_dir().join(format!("millpond-limits-{name}-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, &dir)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(run.status.success() && text.contains("1 passed"), "{:?}: {text}", run.status);
}

fn limit(resource: Resource, soft: u64, hard: u64) {
    setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) }).unwrap();
}

/// Nothing is cleaned, so the log grows by all that is written.
fn options() -> Options {
    Options::new()
        .buffer_pool_bytes(16 << 20)
        .redo_capacity_bytes(8 << 30)
        .hold_cleaning_until_redo_bytes(7 << 30)
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Writes the same rows until the log has so many files.
fn fill(db: &Db, dir: &Path, segments: usize) -> u64 {
    let table = db.open_table("t").unwrap();
    for round in 1u64.. {
        let mut tx = db.begin().unwrap();
        for n in 0..ROWS {
            tx.put(&table, &n.to_be_bytes(), &[round as u8; 1500]).unwrap();
        }
        tx.commit().unwrap();
        if std::fs::read_dir(dir.join("db/redo")).unwrap().count() >= segments {
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

/// `MILLPOND_DESCRIPTORS=256` is the real thing: a gigabyte of log.
#[test]
fn a_long_log_runs_and_recovers_with_few_descriptors() {
    in_a_process("a_long_log_runs_and_recovers_with_few_descriptors", |dir| {
        let most = std::env::var("MILLPOND_DESCRIPTORS").map_or(40, |n| n.parse().expect("a number"));
        limit(Resource::Nofile, most, most);
        let db = options().open(dir.join("db")).unwrap();
        db.create_table("t").unwrap();
        let round = fill(&db, dir, most as usize + 8);
        assert!(open_files() <= most as usize);
        drop(db);
        let db = options().open(dir.join("db")).unwrap();
        holds(&db, round);
        db.close().unwrap();
    });
}

#[test]
fn the_soft_limit_is_raised_where_the_hard_one_allows_it() {
    in_a_process("the_soft_limit_is_raised_where_the_hard_one_allows_it", |dir| {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(512);
        limit(Resource::Nofile, 48, hard);
        let db = options().open(dir.join("db")).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));
        db.close().unwrap();
    });
}

#[test]
fn too_few_are_named_in_a_sentence() {
    in_a_process("too_few_are_named_in_a_sentence", |dir| {
        limit(Resource::Nofile, open_files() as u64 + 1, open_files() as u64 + 1);
        let error = options().open(dir.join("db")).map(drop).unwrap_err().to_string();
        assert!(error.contains("no file descriptor is left; the process may have"), "{error}");
    });
}

/// `pages` may not grow beyond so many bytes; the program does not want the signal.
#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    in_a_process("a_limit_on_the_size_of_files_is_a_full_disk", |dir| {
        if std::env::var_os("MILLPOND_IGNORES").is_none() {
            // The shell ignores the signal, and so does what it starts.
            let exe = std::env::current_exe().unwrap();
            let name = "a_limit_on_the_size_of_files_is_a_full_disk";
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
