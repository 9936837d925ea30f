//! The engine's threads in simulated worlds: writers, cleaner, log thread and checkpoints in an order that a seed
//! decides; then power cuts, each recovered in a world of its own.

use super::tests::{DIR, model, open, put, row, rows};
use crate::btree::Tree;
use base::TreeId;
use base::prng::Prng;
use base::sync::sim::{Run, WorldOptions, pause, run};
use base::sync::{Mutex, spawn};
use metrics::SyncReason;
use std::path::Path;
use std::sync::Arc;
use vfs::Disk;
use vfs::mem::{CrashChoice, MemDisk};

const WRITERS: u64 = 3;

/// What a writer did: its tree, when that was durable, when each of its puts was.
#[derive(Clone, Debug)]
struct Written {
    seed: u64,
    tree: Tree,
    tree_at: u64,
    acked_at: Vec<u64>,
}

fn world<T: Send + 'static>(seed: u64, f: impl FnOnce() -> T + Send + 'static) -> Run<T> {
    run(WorldOptions { max_steps: 3_000_000, ..WorldOptions::new(seed) }, f)
}

/// Several writers, each on a tree of its own, and checkpoints beside them.
fn write(seed: u64, puts: u64) -> (MemDisk, Run<Vec<Written>>) {
    let disk = MemDisk::default();
    let inside = disk.clone();
    let run = world(seed, move || {
        let engine = Arc::new(open(&inside).unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                let (engine, disk) = (Arc::clone(&engine), inside.clone());
                let writer =
                    move || write_one(&engine, &disk, seed * WRITERS + n, TreeId(7 + n as u32), puts);
                spawn("writer", writer).unwrap()
            })
            .collect();
        let checkpoints = spawn("checkpoints", {
            let engine = Arc::clone(&engine);
            move || {
                for _ in 0..3 {
                    pause(4_000);
                    engine.checkpoint().unwrap();
                }
            }
        });
        checkpoints.unwrap().join().unwrap();
        let written: Vec<_> = writers.into_iter().map(|w| w.join().unwrap()).collect();
        for w in &written {
            assert_eq!(rows(&engine, w.tree).unwrap(), model(w.seed, puts));
        }
        written
    });
    (disk, run)
}

fn write_one(engine: &super::Engine, disk: &MemDisk, seed: u64, id: TreeId, puts: u64) -> Written {
    let tree = Tree::create(&engine.store, id).unwrap();
    let lsn = engine.store.log.reserved_lsn();
    engine.store.log.flush_to(base::Lsn(lsn.0 - 1), SyncReason::Commit).unwrap();
    let mut written = Written { seed, tree, tree_at: disk.op_count(), acked_at: Vec::new() };
    let mut rng = Prng::new(!seed);
    for n in 0..puts {
        let (key, value) = row(seed, n);
        let lsn = put(engine, tree, n, &key, &value).unwrap();
        if rng.one_in(3) || n + 1 == puts {
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
            written.acked_at.resize(n as usize + 1, disk.op_count());
        }
    }
    written
}

/// Opens an image in a world and compares. Returns the world's hash.
fn judge(seed: u64, at: u64, image: &MemDisk, written: &[Written]) -> u64 {
    let (inside, written) = (image.clone(), written.to_vec());
    let run = world(seed ^ at << 32, move || {
        let engine = open(&inside).unwrap();
        for w in written.iter().filter(|w| w.tree_at <= at) {
            let check = w.tree.check(&engine.store).unwrap();
            assert!(check.problems.is_empty(), "{:?}", check.problems);
            let found = rows(&engine, w.tree).unwrap();
            let newest = found.values().map(|v| u64::from_be_bytes(v[..8].try_into().unwrap()) + 1).max();
            let newest = newest.unwrap_or(0);
            let acknowledged = w.acked_at.partition_point(|acked| *acked <= at) as u64;
            assert!(newest >= acknowledged, "{acknowledged} puts acknowledged, {newest} found");
            assert!(found == model(w.seed, newest), "the rows are not those of the first {newest} puts");
        }
    });
    if let Err(failure) = run.result {
        panic!("seed {seed}, power cut before operation {at}: {failure}");
    }
    run.hash
}

#[test]
fn a_run_of_the_engine_repeats_and_seeds_differ() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let ((disk, a), (again, b)) = (write(seed, 30), write(seed, 30));
        if let Err(failure) = a.result {
            panic!("seed {seed}: {failure}");
        }
        assert_eq!((a.hash, a.steps, a.now_us), (b.hash, b.steps, b.now_us), "seed {seed}");
        assert_eq!(disk.op_count(), again.op_count());
        hashes.insert(a.hash);
    }
    assert_eq!(hashes.len(), 6);
}

#[test]
fn acknowledged_rows_of_several_writers_survive_power_cuts_in_any_order_of_threads() {
    let mut states = 0;
    for seed in 0..12 {
        let (disk, run) = write(seed, 60);
        let written = run.result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert!(disk.list(Path::new(DIR)).is_ok());
        let mut walk = disk.walk();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            if walk.at() % 17 == seed {
                let random = CrashChoice::Random(seed << 32 | walk.at());
                for choice in [CrashChoice::None, CrashChoice::All, random] {
                    if seen.insert(walk.image_key(choice)) {
                        judge(seed, walk.at(), &walk.image(choice), &written);
                        states += 1;
                    }
                }
            }
            if !walk.step() {
                break;
            }
        }
    }
    println!("{states} states");
    assert!(states > 200, "{states}");
}

#[test]
fn recovery_repeats() {
    let (disk, run) = write(3, 40);
    let written = run.result.unwrap();
    let mut walk = disk.walk();
    while walk.at() * 2 < disk.op_count() {
        walk.step();
    }
    let choice = CrashChoice::Random(9);
    let hash = |at| judge(3, at, &walk.image(choice), &written);
    assert_eq!(hash(walk.at()), hash(walk.at()));
}

/// So that the tests' shared state cannot keep a finished engine's lock.
#[test]
fn a_second_opener_in_the_same_world_is_refused() {
    let found = world(1, || {
        let disk = MemDisk::default();
        let engine = Mutex::new(Some(open(&disk).unwrap()));
        let second = open(&disk).is_err();
        drop(engine.lock().take());
        second && open(&disk).is_ok()
    });
    assert!(found.result.unwrap());
}
