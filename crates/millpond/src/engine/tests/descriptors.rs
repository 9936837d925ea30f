//! The page engine with few file descriptors: a log of many segments works and is recovered, and an
//! error names the limit if there are too few for any work.

use super::{DIR, TREE, model, put, row, rows};
use crate::btree::Tree;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Options;
use base::Lsn;
use metrics::SyncReason;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;
use vfs::fault::FaultDisk;
use vfs::mem::{ManualClock, MemDisk};

const SEED: u64 = 5;

/// Options for a log of up to 96 segments; no page is cleaned for log or for frames.
fn options() -> Options {
    let mut options = super::options().redo_capacity_bytes(24 << 20);
    options.tuning.frames = 512;
    options.hold_cleaning_until_redo_bytes(20 << 20)
}

fn open(disk: &FaultDisk) -> Result<Engine> {
    let vfs = Vfs { disk: Arc::new(disk.clone()), clock: Arc::new(ManualClock::new(1)) };
    Engine::open(&vfs, Path::new(DIR), &options())
}

/// Puts rows until the log has that many segments. Returns the number of the next row.
fn fill(engine: &Engine, tree: Tree, from: u64, segments: u64) -> u64 {
    let mut n = from;
    while engine.store.log.segments().count() < segments || n == from {
        let (key, value) = row(SEED, n);
        let lsn = put(engine, tree, n, &key, &value).unwrap();
        n += 1;
        assert!(n < from + 200_000, "the log stays at {} segments", engine.store.log.segments().count());
        if n.is_multiple_of(64) {
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
        }
    }
    engine.store.log.flush_to(Lsn(engine.store.log.reserved_lsn().0 - 1), SyncReason::Commit).unwrap();
    n
}

#[test]
fn a_log_of_many_segments_needs_few_descriptors() {
    // The limit that the engine is told is right, or far too high because others use descriptors
    // too.
    for told in [20, 4096] {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        disk.limit_descriptors(20, told);
        let engine = open(&disk).unwrap();
        let tree = Tree::create(&engine.store, TREE).unwrap();
        engine.checkpoint().unwrap();
        let mut puts = fill(&engine, tree, 0, 60);
        drop(engine);
        for _ in 0..2 {
            let engine = open(&disk).unwrap();
            assert!(rows(&engine, tree).unwrap() == model(SEED, puts));
            puts = fill(&engine, tree, puts, 60);
            engine.close().unwrap();
        }
        assert!(disk.open_files().1 <= 20, "{:?}", disk.open_files());
        assert_eq!(disk.open_files().0, 0, "all are closed in the end");
    }
}

/// At every limit the engine gives one clear error, or works. It never stops because of the limit.
#[test]
fn too_few_descriptors_give_a_clear_error() {
    let (mut refused, mut opened) = (0, 0);
    for most in 0..20 {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        disk.limit_descriptors(most, most);
        match open(&disk) {
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains("descriptor") && text.contains("ulimit -n"), "{most}: {text}");
                assert!(!text.contains('\n') && matches!(error, Error::Io { .. }), "{most}: {text}");
            }
            Ok(engine) => {
                opened += 1;
                let tree = Tree::create(&engine.store, TREE).unwrap();
                let puts = fill(&engine, tree, 0, 12);
                assert!(!engine.poison.is_set());
                assert!(rows(&engine, tree).unwrap() == model(SEED, puts));
                engine.close().unwrap();
            }
        }
        // The files are intact once there are enough descriptors.
        disk.heal();
        open(&disk).unwrap().close().unwrap();
    }
    assert!(refused > 0 && opened > 0, "{refused} refused, {opened} opened");
}
