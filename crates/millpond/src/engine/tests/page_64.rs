//! Three pages, and what the checkpoint does while they are changed and written. The lesson
//! `docs/lessons/page-64.md` tells and draws it; this test is the proof that the engine does it.
//!
//! Page 64 is changed first, then pages 38911 and 64738. Page 38911 is written out of order. The
//! checkpoint waits for page 64, because a crash now needs its redo. When page 64 is written too,
//! the checkpoint moves to the change of page 64738. A crash then replays that change, and not the
//! two others.

use super::{DIR, options as common};
use crate::engine::Engine;
use crate::flush::runs::BatchLimit;
use crate::mtr::Mtr;
use crate::options::Options;
use crate::page::node::{Leaf, Version};
use crate::page::op::{NodeHead, PageOp, RowChange, RowOp};
use crate::page_file::check_image;
use base::{Lsn, PageNo, TreeId, TxnId};
use expect_test::expect;
use metrics::{Force, SyncReason};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vfs::mem::{CrashChoice, MemDisk};
use vfs::{Create, Disk, File, OpenMode};

/// No catalog knows this tree.
const TREE: TreeId = TreeId(64);
const PAGES: [PageNo; 3] = [PageNo(64), PageNo(38911), PageNo(64738)];
const PAGE_BYTES: u64 = 4096;

fn options() -> Options {
    let mut options = common();
    options.tuning.no_threads = true;
    options
}

fn pages_file(disk: &MemDisk) -> std::sync::Arc<dyn File> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
    disk.open(&PathBuf::from(DIR).join("pages"), mode).unwrap()
}

/// Makes the three pages, all clean and in the file.
fn set_up(disk: &MemDisk) -> Engine {
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options()).unwrap();
    let file = pages_file(disk);
    file.set_len(64752 * PAGE_BYTES).unwrap();
    file.sync().unwrap();
    let store = &engine.store;
    for page in PAGES {
        store.log.make_room().unwrap();
        let holder = store.pool.hold_frames().unwrap();
        let frame = holder.take_frame().unwrap();
        let mut mtr = Mtr::try_begin(&store.log, &store.pool).unwrap();
        let slot = mtr.add(store.pool.create(page, frame));
        let head = NodeHead { tree: TREE, level: 0, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body: &[] });
        mtr.commit();
    }
    // A checkpoint of `Engine` would also cut off the end of the file: no tree owns these pages.
    engine.parts.cleaner.writers.drain(Force::Shutdown).unwrap();
    engine.parts.cleaner.checkpoints.checkpointer().advance(SyncReason::Checkpoint, false).unwrap();
    engine
}

/// Puts a row into a page and commits: the redo is durable. Returns where that redo begins.
fn change(engine: &Engine, page: PageNo) -> Lsn {
    let store = &engine.store;
    store.log.make_room().unwrap();
    let page = store.pool.fetch(page).unwrap().write();
    let mut mtr = Mtr::try_begin(&store.log, &store.pool).unwrap();
    let slot = mtr.add(page);
    let version = Version { txn: TxnId(1), undo_at: 0 };
    let change = RowChange::Insert { flags: 0, value: b"new" };
    mtr.apply(slot, &PageOp::Row(RowOp { slot: 0, tree: TREE, key: b"key", version, change }));
    let lsn = mtr.commit();
    store.log.flush_to(lsn, SyncReason::Commit).unwrap();
    lsn
}

/// Writes one page in place, as the cleaner does, and then moves the checkpoint as far as it can.
fn write(engine: &Engine, page: PageNo) {
    let checkpointer = engine.parts.cleaner.checkpoints.checkpointer();
    let written = engine.parts.flusher.flush(|_| vec![page], BatchLimit::NONE, Force::CheckpointAge).unwrap();
    assert_eq!(written.pages, 1, "{page:?} has no dirty neighbour");
    checkpointer.advance(SyncReason::Checkpoint, false).unwrap();
}

/// Returns what a power cut leaves now: what was synced.
fn power_cut(disk: &MemDisk) -> MemDisk {
    let mut walk = disk.walk();
    while walk.step() {}
    walk.image(CrashChoice::None)
}

/// Returns which pages have their change in the file.
fn in_the_file(disk: &MemDisk) -> Vec<PageNo> {
    let file = pages_file(disk);
    let is_new = |page: &PageNo| {
        let mut image = vec![0; PAGE_BYTES as usize];
        file.read_at(&mut image, u64::from(page.0) * PAGE_BYTES).unwrap();
        check_image(&mut image, *page).unwrap();
        Leaf::new(&image).len() == 1
    };
    PAGES.into_iter().filter(is_new).collect()
}

#[test]
fn the_checkpoint_waits_for_page_64_and_replay_begins_with_page_64738() {
    let disk = MemDisk::default();
    let engine = set_up(&disk);
    let checkpointer = engine.parts.cleaner.checkpoints.checkpointer();
    let mut told = String::new();
    let mut changed: Vec<(PageNo, Lsn)> = Vec::new();
    let mut tell = |step: &str, changed: &[(PageNo, Lsn)]| {
        let checkpoint = checkpointer.lsn();
        let next = changed.iter().find(|(_, lsn)| *lsn >= checkpoint);
        let at = match next {
            Some((page, lsn)) if *lsn == checkpoint => format!("at the change of {}", page.0),
            Some((page, _)) => format!("before the change of {}", page.0),
            None => "behind all changes".to_owned(),
        };
        let dirty = PAGES.iter().filter(|page| engine.store.pool.wants_flush(**page));
        let names =
            |pages: Vec<PageNo>| pages.iter().map(|page| page.0.to_string()).collect::<Vec<_>>().join(" ");
        let (dirty, written) = (names(dirty.copied().collect()), names(in_the_file(&disk)));
        writeln!(told, "{step:<26} | dirty {dirty:<14} | in the file {written:<8} | checkpoint {at}")
            .unwrap();
    };
    changed.push((PAGES[0], change(&engine, PAGES[0])));
    checkpointer.advance(SyncReason::Checkpoint, false).unwrap();
    tell("1. 64 is changed", &changed);
    for page in [PAGES[1], PAGES[2]] {
        changed.push((page, change(&engine, page)));
    }
    checkpointer.advance(SyncReason::Checkpoint, false).unwrap();
    tell("2. 38911, 64738 changed", &changed);
    write(&engine, PAGES[1]);
    tell("3. 38911 is written", &changed);
    // What a crash finds now needs the redo of page 64.
    let early = power_cut(&disk);
    write(&engine, PAGES[0]);
    tell("4. 64 is written", &changed);
    expect![[r#"
        1. 64 is changed           | dirty 64             | in the file          | checkpoint before the change of 64
        2. 38911, 64738 changed    | dirty 64 38911 64738 | in the file          | checkpoint before the change of 64
        3. 38911 is written        | dirty 64 64738       | in the file 38911    | checkpoint before the change of 64
        4. 64 is written           | dirty 64738          | in the file 64 38911 | checkpoint at the change of 64738
    "#]].assert_eq(&told);

    // 5. The power fails. Nothing survives that was not synced.
    let late = power_cut(&disk);
    drop(engine);
    for (image, missing) in [(early, vec![PAGES[0], PAGES[2]]), (late, vec![PAGES[2]])] {
        let written = in_the_file(&image);
        assert!(missing.iter().all(|page| !written.contains(page)), "the file lacks what redo has to bring");
        let engine = Engine::open(&image.vfs(2), Path::new(DIR), &options()).unwrap();
        for page in PAGES {
            let found = engine.store.pool.fetch(page).unwrap().read();
            assert_eq!(Leaf::new(&found).row(0).value, b"new", "{page:?}");
            // Only replay has made a page dirty by now.
            drop(found);
            assert_eq!(engine.store.pool.wants_flush(page), missing.contains(&page), "{page:?}");
        }
    }
}
