//! The page engine on a failing disk: every n-th operation of each kind fails, once or for ever.
//! Each failure is one clear error that names the file. Nothing is retried, nothing panics, nothing
//! hangs. The undamaged disk opens again with all that was acknowledged. A full disk fails the call
//! that needed the space, and the engine goes on when there is space again.

use super::super::roster::Worker;
use super::{DIR, Rows, TREE, model, open, put, row, rows};
use crate::btree::Tree;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lock::{Denied, KeyState, Mode, Wait};
use crate::options::Options;
use base::{TreeId, TxnId};
use metrics::SyncReason;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;
use vfs::fault::{Fault, FaultDisk, FaultRule, OpKind};
use vfs::mem::{CrashChoice, ManualClock, MemDisk};
use vfs::{Disk, Vfs};

const SEED: u64 = 11;
const PUTS: u64 = 200;

/// The result of a scenario.
#[derive(Debug, Default)]
struct Left {
    tree: Option<Tree>,
    acked: u64,
    /// The failure must have stopped the engine.
    must_stop: bool,
    /// Errors, in the order of the calls.
    errors: Vec<String>,
}

/// As in the other tests, but the file must grow and the pool is full after a few puts.
fn options() -> Options {
    let mut options = super::options();
    options.tuning.grow_pages = 16;
    options.tuning.frames = 16;
    options
}

fn vfs(disk: &FaultDisk) -> Vfs {
    Vfs { disk: Arc::new(disk.clone()), clock: Arc::new(ManualClock::new(1)) }
}

/// The message of a panic that a test makes in an engine thread. Other tests do not count it.
const ON_PURPOSE: &str = "on purpose";

/// Returns the number of panics of engine threads since the first call. Otherwise such a panic
/// would end a thread unnoticed.
pub(crate) fn thread_panics() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let name = std::thread::current().name().map(str::to_owned);
            let on_purpose = info.payload_as_str() == Some(ON_PURPOSE);
            if !on_purpose && name.is_some_and(|n| n.starts_with("millpond-")) {
                COUNT.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
    COUNT.load(Ordering::Relaxed)
}

/// Opens, puts rows with commits and checkpoints, opens again, continues, and closes. Ends with the
/// first error.
fn scenario(disk: &FaultDisk, left: &mut Left) -> Result {
    let engine = Engine::open(&vfs(disk), Path::new(DIR), &options())?;
    let tree = Tree::create(&engine.store, TREE)?;
    engine.checkpoint()?;
    left.tree = Some(tree);
    work(&engine, tree, 0..PUTS / 2, left)?;
    let poison = Arc::clone(&engine.poison);
    drop(engine);
    // The cleaner may have failed after the last call.
    poison.check()?;
    let engine = Engine::open(&vfs(disk), Path::new(DIR), &options())?;
    work(&engine, tree, PUTS / 2..PUTS, left)?;
    engine.close()
}

fn work(engine: &Engine, tree: Tree, puts: std::ops::Range<u64>, left: &mut Left) -> Result {
    let middle = puts.start + (puts.end - puts.start) / 2;
    for n in puts.clone() {
        let (key, value) = row(SEED, n);
        let done = put(engine, tree, n, &key, &value);
        let done = done.and_then(|lsn| engine.store.log.flush_to(lsn, SyncReason::Commit));
        if let Err(error) = done {
            judge_poison(engine, tree, n, &error, left);
            return Err(error);
        }
        left.acked = n + 1;
        if n == middle
            && let Err(error) = engine.checkpoint()
        {
            judge_poison(engine, tree, n + 1, &error, left);
            return Err(error);
        }
    }
    Ok(())
}

/// Checks that, after an error that stops the engine, nothing is acknowledged any more and all
/// calls say so.
fn judge_poison(engine: &Engine, tree: Tree, n: u64, error: &Error, left: &mut Left) {
    assert!(engine.poison.is_set() || !left.must_stop, "the engine goes on after {error}");
    if engine.poison.is_set() {
        let (key, value) = row(SEED, n);
        let again = put(engine, tree, n, &key, &value)
            .and_then(|lsn| engine.store.log.flush_to(lsn, SyncReason::Commit));
        let again = again.expect_err("nothing is acknowledged after a failed write or sync");
        assert!(matches!(again, Error::Poisoned { .. }), "after {error}: {again}");
        assert!(matches!(engine.checkpoint(), Err(Error::Poisoned { .. })));
        left.errors.push(again.to_string());
    }
}

/// Runs a scenario with one rule on a disk of its own. Returns false if the rule never hit.
fn fails_well(rule: FaultRule) -> bool {
    let mem = MemDisk::default();
    let disk = FaultDisk::new(Arc::new(mem.clone()));
    disk.fail(rule);
    let must_stop = matches!(rule.kind, OpKind::Write | OpKind::Sync);
    let mut left = Left { must_stop, ..Left::default() };
    let result = scenario(&disk, &mut left);
    let fired = disk.failures();
    if fired.is_empty() {
        result.unwrap_or_else(|e| panic!("{rule:?} never hit, and yet: {e}"));
        return false;
    }
    // Some failures are no errors: a spare segment that cannot be made yet, a failed read ahead.
    if let Err(error) = result {
        left.errors.push(error.to_string());
    }
    for error in &left.errors {
        let named = fired.iter().any(|f| error.contains(&f.path.display().to_string()));
        assert!(named, "{rule:?} hit {:?}, and the error is: {error}", fired[0]);
    }
    let poisoned = left.errors.iter().any(|error| error.contains("stopped after an earlier failure"));
    assert!(!poisoned || rule.kind != OpKind::Read, "{rule:?} hit {:?}: {:?}", fired[0], left.errors);
    let must_tell = matches!(rule.kind, OpKind::Write | OpKind::Sync | OpKind::SyncDir);
    assert!(!must_tell || !left.errors.is_empty(), "{rule:?} hit {:?} and no call reported it", fired[0]);
    assert!(disk.retried().is_empty(), "{rule:?}: {:?} after {:?}", disk.retried(), fired[0]);
    // What was synced before the failure counts, with and without what was not.
    let mut walk = mem.walk();
    while walk.step() {}
    for image in [mem.fork(), walk.image(CrashChoice::None), walk.image(CrashChoice::Random(rule.nth))] {
        opens_with(&image, &options(), &left, &format!("{rule:?} hit {:?}", fired[0]));
    }
    true
}

fn opens_with(image: &MemDisk, options: &Options, left: &Left, context: &str) {
    let engine = Engine::open(&image.vfs(1), Path::new(DIR), options);
    let engine = engine.unwrap_or_else(|e| panic!("{context}: {e}"));
    let Some(tree) = left.tree else { return };
    let check = tree.check(&engine.store).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert!(check.problems.is_empty(), "{context}: {:?}", check.problems);
    let found = rows(&engine, tree).unwrap();
    let newest = newest(&found);
    assert!(newest >= left.acked, "{context}: {} acknowledged, {newest} found", left.acked);
    assert!(found == model(SEED, newest), "{context}: not the rows of the first {newest} puts");
}

fn newest(found: &Rows) -> u64 {
    let number = |v: &Vec<u8>| u64::from_be_bytes(v[..8].try_into().unwrap()) + 1;
    found.values().map(number).max().unwrap_or(0)
}

/// Fails every n-th operation of a kind, until n is beyond the last; each one with
/// MILLPOND_FAULT_STRIDE=1.
fn every_nth(kind: OpKind, faults: &[Fault], stride: u64) {
    let stride = std::env::var("MILLPOND_FAULT_STRIDE").map_or(stride, |s| s.parse().expect("a number"));
    let panics = thread_panics();
    let mut hits = 0;
    for &fault in faults {
        for for_ever in [false, true] {
            // The first few, when the database is made, and then every stride-th.
            let mut nth = 1;
            loop {
                let rule = FaultRule { kind, nth, for_ever, fault };
                let (done, waiting) = mpsc::channel();
                let run = std::thread::spawn(move || {
                    let hit = fails_well(rule);
                    let _ = done.send(());
                    hit
                });
                // Not a measurement: a run that takes longer than two minutes hangs.
                if waiting.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
                    panic!("{rule:?}: it hangs");
                }
                if !run.join().unwrap_or_else(|_| panic!("{rule:?}: see above")) {
                    break;
                }
                hits += 1;
                nth += if nth < 8 { 1 } else { stride };
            }
        }
    }
    assert!(hits > 0, "no {kind:?} was hit");
    assert_eq!(thread_panics(), panics, "an engine thread panicked");
    println!("{kind:?}: {hits} failures");
}

const REFUSED: Fault = Fault::Refused(ErrorKind::Other);

#[test]
fn every_failed_write() {
    every_nth(OpKind::Write, &[REFUSED, Fault::Torn], 7);
}

#[test]
fn every_failed_sync() {
    every_nth(OpKind::Sync, &[REFUSED, Fault::Dropped], 7);
}

#[test]
fn every_failed_read() {
    every_nth(OpKind::Read, &[REFUSED], 7);
}

#[test]
fn every_failed_operation_on_a_name_or_a_length() {
    for kind in [OpKind::Open, OpKind::Create, OpKind::SyncDir, OpKind::SetLen, OpKind::Rename, OpKind::Ask] {
        every_nth(kind, &[REFUSED], 3);
    }
}

/// An undo file cannot be made, and not for lack of space. The engine stops. Otherwise the cleaner
/// would fail at each step, and threads that need frames would wait for ever.
#[test]
fn a_checkpoint_that_cannot_make_its_file_stops_the_engine() {
    let disk = FaultDisk::new(Arc::new(MemDisk::default()));
    let engine = Engine::open(&vfs(&disk), Path::new(DIR), &options()).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    assert!(fill(&engine, tree, 0, 20).1.is_none());
    // Its rows belong to transactions that never commit, so the next checkpoint hardens their undo.
    drop(engine);
    disk.fail_on("undo/0", FaultRule { kind: OpKind::Create, nth: 1, for_ever: true, fault: REFUSED });
    let engine = Engine::open(&vfs(&disk), Path::new(DIR), &options()).unwrap();
    let (_, error) = fill(&engine, tree, 20, 20);
    let refused = error.map_or_else(|| engine.checkpoint().map(drop), Err).unwrap_err();
    assert!(engine.poison.is_set(), "the engine goes on after {refused}");
}

/// Puts rows until one finds no space or `most` are done. Returns the number of the next.
fn fill(engine: &Engine, tree: Tree, from: u64, most: u64) -> (u64, Option<Error>) {
    for n in from..from + most {
        let (key, value) = row(SEED, n);
        let done = put(engine, tree, n, &key, &value)
            .and_then(|lsn| engine.store.log.flush_to(lsn, SyncReason::Commit));
        if let Err(error) = done {
            return (n, Some(error));
        }
    }
    (from + most, None)
}

/// The device of the pages, or the one that holds the log as well, is full after some number of
/// bytes. Then there is space again.
#[test]
fn a_full_disk_fails_the_call_that_needs_space_and_nothing_else() {
    let mut refused = 0;
    for (n, space) in (0..40).map(|n| (n, n * 13_000)) {
        let mem = MemDisk::default();
        let disk = FaultDisk::new(Arc::new(mem.clone()));
        mem.create_dir(Path::new("/log")).unwrap();
        mem.sync_dir(Path::new("/")).unwrap();
        let options = options().redo_dir("/log/redo");
        let engine = Engine::open(&vfs(&disk), Path::new(DIR), &options).unwrap();
        let tree = Tree::create(&engine.store, TREE).unwrap();
        disk.limit_space(if n % 2 == 0 { DIR } else { "/" }, space);
        // A quota and a limit on the size of files have the same effect as a full disk.
        disk.full_is(
            [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge][n as usize % 3],
        );
        let context = format!("full after {space} bytes");
        let (mut next, mut error) = fill(&engine, tree, 0, 1200);
        for _ in 0..3 {
            let Some(full) = error else { break };
            refused += 1;
            assert!(matches!(&full, Error::DiskFull { .. }), "{context}: {full}");
            assert!(!engine.poison.is_set(), "{context}");
            let check = tree.check(&engine.store).unwrap();
            assert!(check.problems.is_empty(), "{context}: {:?}", check.problems);
            assert!(rows(&engine, tree).unwrap() == model(SEED, next), "{context}: {next} puts");
            (next, error) = fill(&engine, tree, next, 20);
        }
        disk.heal();
        let (next, error) = fill(&engine, tree, next, 300);
        assert!(error.is_none(), "{context}: with space again: {error:?}");
        engine.close().unwrap_or_else(|e| panic!("{context}: {e}"));
        let left = Left { tree: Some(tree), acked: next, ..Left::default() };
        opens_with(&mem.fork(), &options, &left, &context);
    }
    assert!(refused > 10, "{refused} calls found the disk full");
}

/// An engine thread that is gone must not leave other threads waiting for its work.
#[test]
fn a_panic_of_an_engine_thread_poisons_the_database_and_wakes_all_waiters() {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    let (one, two) = (TxnId(1_000), TxnId(1_001));
    let locks = &engine.txns.locks;
    let (holder, waiter) = (locks.begin(one), locks.begin(two));
    let ask = |owner| {
        locks.enqueue(owner, TreeId(9), b"row", KeyState::Row, Mode::Exclusive, Wait::Until(Duration::MAX))
    };
    ask(&holder).unwrap().finish().unwrap();
    let waiting = ask(&waiter).unwrap();
    engine
        .parts
        .roster
        .start(Worker::History, &engine.parts.waiters, |_, _| std::panic::panic_any(ON_PURPOSE))
        .unwrap();
    assert_eq!(waiting.finish(), Err(Denied::Stopped));
    let error = engine.check_poison().unwrap_err().to_string();
    assert!(error.contains("an engine thread panicked"), "{error}");
    assert!(engine.close().is_err());
}

/// Every operation of the flight recorder may fail: the database does not notice.
#[test]
fn a_recorder_that_cannot_write_stops_nothing() {
    for kind in [OpKind::Open, OpKind::Create, OpKind::Read, OpKind::Write, OpKind::Rename, OpKind::Ask] {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        let options = options().recorder_interval(Duration::from_millis(10));
        // The second opening finds a file of the recorder.
        for failing in [false, true] {
            if failing {
                disk.fail_on("recorder", FaultRule { kind, nth: 1, for_ever: true, fault: REFUSED });
            }
            let engine = Engine::open(&vfs(&disk), Path::new(DIR), &options).unwrap();
            engine.start_background().unwrap();
            engine.checkpoint().unwrap();
            engine.close().unwrap();
            assert!(!engine.poison.is_set(), "{kind:?}");
            let failed = engine.metrics().get("recorder_failures").unwrap();
            // The file exists, so nothing is created or renamed.
            let used = failing && !matches!(kind, OpKind::Create | OpKind::Rename);
            assert_eq!(failed > 0.0, used, "{kind:?}");
        }
    }
}
