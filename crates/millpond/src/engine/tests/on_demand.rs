//! Redo that pages get when they are needed, while replay runs or before it has begun.

use super::{DIR, Rows, TREE, model, options, put, row, rows};
use crate::btree::Tree;
use crate::buffer::{FetchHint, Siblings};
use crate::engine::Engine;
use crate::engine::progress_file::Stage;
use crate::error::{Error, Result};
use crate::flush::runs::BatchLimit;
use crate::mtr::Mtr;
use crate::options::Options;
use crate::page::op::{NodeHead, PageOp};
use base::prng::Prng;
use base::sync::{Condvar, Mutex};
use base::{PageNo, TreeId};
use metrics::{Force, M, SyncReason};
use pace::replay_progress::ReplayView;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use vfs::fault::{Fault, FaultDisk, FaultRule, OpKind};
use vfs::intercept::Interceptor;
use vfs::mem::{CrashChoice, ManualClock, MemDisk};
use vfs::{Create, Disk, File, OpenMode, ReadOp, Vfs};

const PUTS: u64 = 2500;

/// All redo stays in the log, in several segments; the pages are written now and then.
fn held_back() -> Options {
    options().redo_capacity_bytes(8 << 20).hold_cleaning_until_redo_bytes(6 << 20)
}

/// A database that was killed with its pages far behind its log, and its tree.
fn killed(seed: u64) -> (MemDisk, Tree) {
    killed_with(seed, &held_back())
}

fn killed_with(seed: u64, options: &Options) -> (MemDisk, Tree) {
    let disk = MemDisk::default();
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), options).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    for n in 0..PUTS {
        if n + 16 == PUTS {
            // The cleaner does it too, when it comes to it.
            engine.parts.cleaner.checkpoints.checkpointer().renew().unwrap();
        }
        let (key, value) = row(seed, n);
        let lsn = put(&engine, tree, n, &key, &value).unwrap();
        if n % 16 == 0 || n + 1 == PUTS {
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
        }
    }
    let lists = engine.store.metrics.get(M::Checkpoints);
    assert!(lists > 0, "no list was written");
    drop(engine);
    (disk, tree)
}

/// Returns all pages in use as they are in the pool, without their checksums.
fn images(engine: &Engine) -> BTreeMap<PageNo, Vec<u8>> {
    let used = engine.store.space.used_pages().unwrap().into_values().flatten();
    used.map(|page| (page, engine.store.pool.fetch(page).unwrap().read()[4..].to_vec())).collect()
}

#[test]
fn pages_are_the_same_on_demand_and_in_order() {
    for seed in [3, 4] {
        let (disk, tree) = killed(seed);
        let open = |first: bool| {
            let mut options = held_back();
            options.tuning.replay_first = first;
            Engine::open(&disk.fork().vfs(2), Path::new(DIR), &options).unwrap()
        };
        let in_order = open(true);
        assert!(!in_order.parts.cleaner.checkpoints.checkpointer().replaying());
        let expected = images(&in_order);
        assert_eq!(rows(&in_order, tree).unwrap(), model(seed, PUTS));
        let on_demand = open(false);
        // Nobody but the callers applies redo from here on.
        on_demand.parts.replaying.stop();
        let mut pages: Vec<_> = expected.keys().copied().collect();
        let mut rng = Prng::new(seed);
        (1..pages.len()).for_each(|n| pages.swap(n, rng.below(n as u64 + 1) as usize));
        for page in pages {
            let image = on_demand.store.pool.fetch(page).unwrap().read()[4..].to_vec();
            assert!(image == expected[&page], "{page:?}");
        }
        let figure = |metric| on_demand.store.metrics.get(metric);
        let (read, redo) = (figure(M::RecoveryReadBytes), figure(M::RecoveryRedoBytes));
        assert!(read < redo, "{read} of {redo} bytes were read before the database was open");
    }
}

/// A page that a scan had read ahead and that lacked redo was once taken for one that was still
/// being read: each thread that came to it waited for ever.
#[test]
fn a_scan_reads_pages_ahead_that_lack_redo() {
    let (disk, tree) = killed(7);
    let mut options = held_back();
    options.tuning.frames = 512;
    let open = || Engine::open(&disk.fork().vfs(2), Path::new(DIR), &options).unwrap();
    let in_order = open();
    in_order.finish_replay().unwrap();
    let expected = images(&in_order);
    let engine = open();
    engine.parts.replaying.stop();
    let pool = &engine.store.pool;
    drop(pool.fetch(tree.root).unwrap());
    let stamp = pool.stamp(tree.root).unwrap();
    let pages: Vec<_> = expected.keys().copied().filter(|page| !pool.holds(*page)).collect();
    for pages in pages.chunks(8) {
        let siblings = Siblings { pages: pages.to_vec(), parent: tree.root, stamp };
        siblings.read_ahead(pool, FetchHint::Normal);
        for page in pages {
            assert!(pool.fetch(*page).unwrap().read()[4..] == expected[page][..], "{page:?}");
        }
    }
    assert!(engine.store.metrics.get(M::PagesReadAhead) > 0, "nothing was read ahead");
}

/// Replay is cut off four times, each time at a random operation of the disk.
#[test]
fn pages_are_the_same_with_one_worker_and_with_many_and_after_crashes_in_replay() {
    for seed in [11, 12] {
        let (disk, _) = killed(seed);
        let open = |image: &MemDisk, workers| {
            let mut options = held_back();
            options.tuning.replay_workers = workers;
            options.tuning.replay_window_bytes = 16 << 10;
            options.tuning.replay_checkpoint_us = 0;
            let engine = Engine::open(&image.vfs(2), Path::new(DIR), &options).unwrap();
            engine.finish_replay().unwrap();
            engine
        };
        let expected = images(&open(&disk.fork(), 1));
        let mut rng = Prng::new(seed);
        for workers in [1, 2, 8] {
            let mut image = disk.fork();
            for _ in 0..4 {
                drop(open(&image, workers));
                let (mut walk, stop) = (image.walk(), rng.below(image.op_count() + 1));
                while walk.at() < stop && walk.step() {}
                image = walk.image(CrashChoice::Random(rng.next_u64()));
            }
            let found = images(&open(&image, workers));
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            for (page, image) in &found {
                assert!(*image == expected[page], "seed {seed}, {workers} workers: {page:?}");
            }
        }
    }
}

/// Puts rows beside replay, and closes.
fn work_beside_replay(engine: &Engine, tree: Tree, expected: &mut Rows) -> Result {
    for n in PUTS..PUTS + 40 {
        let (key, value) = row(99, n);
        let lsn = put(engine, tree, n, &key, &value)?;
        expected.insert(key, value);
        engine.store.log.flush_to(lsn, SyncReason::Commit)?;
    }
    assert!(rows(engine, tree)? == *expected, "rows are lost");
    engine.close()
}

/// A read of a page or of the log that fails once fails one call, or none. Nothing is lost: a page
/// that lacked its image for a moment once got the old redo alone, without what callers had put.
#[test]
fn every_failed_read_beside_replay() {
    let (disk, tree) = killed(5);
    let reads = {
        let disk = FaultDisk::new(Arc::new(disk.fork()));
        let vfs = Vfs { disk: Arc::new(disk.clone()), clock: Arc::new(ManualClock::new(1)) };
        let engine = Engine::open(&vfs, Path::new(DIR), &held_back()).unwrap();
        work_beside_replay(&engine, tree, &mut model(5, PUTS)).unwrap();
        disk.count(OpKind::Read)
    };
    let mut failed = 0;
    for nth in (1..=reads).step_by(reads as usize / 40) {
        let faulty = FaultDisk::new(Arc::new(disk.fork()));
        let vfs = Vfs { disk: Arc::new(faulty.clone()), clock: Arc::new(ManualClock::new(1)) };
        faulty.fail(FaultRule {
            kind: OpKind::Read,
            nth,
            for_ever: false,
            fault: Fault::Refused(ErrorKind::Other),
        });
        let mut expected = model(5, PUTS);
        let done = Engine::open(&vfs, Path::new(DIR), &held_back())
            .and_then(|engine| work_beside_replay(&engine, tree, &mut expected));
        match done {
            Ok(()) => {}
            Err(Error::Io { .. }) => failed += 1,
            Err(error) => panic!("read {nth}: {error}"),
        }
        // Not each run makes so many reads.
        faulty.heal();
        let engine = Engine::open(&vfs, Path::new(DIR), &held_back()).unwrap();
        let found = rows(&engine, tree).unwrap();
        // The last put of a run that failed may be there or not.
        let wrong = expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
        assert!(wrong <= 1, "read {nth}: {wrong} rows are lost");
        engine.close().unwrap();
    }
    assert!(failed > 0, "no read failed");
}

/// Lets the thread `reader` begin to read the log before replay reads a page, and go on when it
/// may.
#[derive(Debug, Default)]
struct SlowReader {
    step: Mutex<ReaderStep>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ReaderStep {
    #[default]
    Begins,
    Reads,
    GoesOn,
}

impl SlowReader {
    fn reach(&self, step: ReaderStep) {
        let mut now = self.step.lock();
        *now = step.max(*now);
        self.changed.notify_all();
    }

    fn wait_for(&self, step: ReaderStep) {
        let mut now = self.step.lock();
        while *now < step {
            self.changed.wait(&mut now);
        }
    }

    fn before_read(&self, path: &Path) {
        match std::thread::current().name() {
            Some("reader") if path.extension().is_some_and(|name| name == "log") => {
                self.reach(ReaderStep::Reads);
                self.wait_for(ReaderStep::GoesOn);
            }
            Some("millpond-replay") => self.wait_for(ReaderStep::Reads),
            _ => {}
        }
    }
}

impl Interceptor for SlowReader {
    fn read(&self, file: &dyn File, path: &Path, op: ReadOp<'_>) -> io::Result<()> {
        self.before_read(path);
        file.read_at(op.bytes, op.offset)
    }

    fn read_batch(&self, file: &dyn File, path: &Path, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.before_read(path);
        file.read_batch(ops)
    }
}

/// A thread began to read the redo of a page. Replay completed the page, it was written, and the
/// segments were recycled. The thread found no redo any more, and said that the log is corrupt.
#[test]
fn a_page_is_intact_if_its_redo_is_recycled_while_a_thread_reads_it() {
    let mut options = held_back();
    options.tuning.frames = 512;
    let (disk, tree) = killed_with(9, &options);
    let slow = Arc::new(SlowReader::default());
    let clock = Arc::new(ManualClock::new(1));
    let vfs = Vfs::intercepted(Arc::new(disk), clock, Arc::clone(&slow) as Arc<dyn Interceptor>);
    let engine = Engine::open(&vfs, Path::new(DIR), &options).unwrap();
    let pages = engine.store.space.used_pages().unwrap().remove(&tree.id).unwrap();
    let leaf = pages.into_iter().find(|page| *page != tree.root).unwrap();
    std::thread::scope(|threads| {
        let reads = || {
            let fetched = engine.store.pool.fetch(leaf).map(drop);
            slow.reach(ReaderStep::Reads);
            fetched
        };
        let reader = std::thread::Builder::new().name("reader".into()).spawn_scoped(threads, reads).unwrap();
        slow.wait_for(ReaderStep::Reads);
        let segments = engine.store.log.segments();
        let recycled = engine.checkpoint().and_then(|lsn| segments.recycle_below(lsn));
        slow.reach(ReaderStep::GoesOn);
        reader.join().unwrap().unwrap();
        recycled.unwrap();
        assert!(segments.numbers()[0] > 2, "{:?}", segments.numbers());
    });
    assert_eq!(rows(&engine, tree).unwrap(), model(9, PUTS));
    engine.close().unwrap();
}

/// Purge beside replay completed pages one by one, with reads at random places of the log, under
/// latches that replay waited for: 13.8 s instead of 5.3 s for 2,000 MiB.
#[test]
fn purge_waits_for_replay_unless_replay_is_stuck() {
    let (disk, _) = killed(6);
    let faulty = || {
        let disk = FaultDisk::new(Arc::new(disk.fork()));
        (Vfs { disk: Arc::new(disk.clone()), clock: Arc::new(ManualClock::new(1)) }, disk)
    };
    let (vfs, counted) = faulty();
    let engine = Engine::open(&vfs, Path::new(DIR), &held_back()).unwrap();
    let opening = counted.count(OpKind::Read);
    let waits = engine.parts.replaying.holds_purge();
    assert!(waits || !engine.parts.cleaner.checkpoints.checkpointer().replaying());
    engine.finish_replay().unwrap();
    assert!(!engine.parts.replaying.holds_purge());
    let replayed = counted.count(OpKind::Read);
    let (vfs, failing) = faulty();
    let nth = u64::midpoint(opening, replayed);
    let fault = Fault::Refused(ErrorKind::Other);
    failing.fail(FaultRule { kind: OpKind::Read, nth, for_ever: true, fault });
    let engine = Engine::open(&vfs, Path::new(DIR), &held_back()).unwrap();
    engine.finish_replay().unwrap_err();
    assert!(engine.parts.cleaner.checkpoints.checkpointer().replaying());
    assert!(!engine.parts.replaying.holds_purge());
}

/// Returns the lines of the file `progress`.
fn progress(disk: &MemDisk) -> BTreeMap<String, String> {
    let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
    let file = disk.open(&Path::new(DIR).join("progress"), mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes.len(), 256);
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.trim_end().lines().map(|line| line.split_once('=').unwrap());
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_file_says_how_far_recovery_is() {
    let (disk, _) = killed(8);
    let mut options = held_back();
    options.tuning.no_progress_file = false;
    let engine = Engine::open(&disk.vfs(2), Path::new(DIR), &options).unwrap();
    engine.finish_replay().unwrap();
    let file = &engine.parts.replaying.progress;
    let done = progress(&disk);
    assert_eq!((&*done["state"], &*done["percent"], &*done["left_bytes"]), ("done", "100", "0"));
    // The clock stands still, so only the first of two reports in a fifth of a second is written.
    let view =
        |left_bytes| ReplayView { redo_bytes: 1000, left_bytes, elapsed_us: 1_000_000, usual_bytes_per_s: 0 };
    file.tell_replay(|| view(400));
    assert_eq!(progress(&disk)["state"], "done");
    file.tell(Stage::Replaying(view(400)), false);
    let now = progress(&disk);
    assert_eq!((&*now["state"], &*now["percent"], &*now["seconds_left"]), ("replaying", "60", "1"));
    drop(engine);
    // An opening that cannot finish leaves the file behind.
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let vfs = Vfs { disk: Arc::new(faulty.clone()), clock: Arc::new(ManualClock::new(1)) };
    let fault = Fault::Refused(ErrorKind::Other);
    faulty.fail(FaultRule { kind: OpKind::Read, nth: 12, for_ever: true, fault });
    Engine::open(&vfs, Path::new(DIR), &options).unwrap_err();
    assert_eq!(progress(&disk)["state"], "opening");
    // Nobody notices that it cannot be written.
    let full = disk.fork();
    full.remove(&Path::new(DIR).join("progress")).unwrap();
    full.create_dir(&Path::new(DIR).join("progress")).unwrap();
    let engine = Engine::open(&full.vfs(2), Path::new(DIR), &options).unwrap();
    engine.finish_replay().unwrap();
    engine.close().unwrap();
}

fn overwrite(disk: &MemDisk, path: &str, offset: u64, bytes: &[u8]) {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(Path::new(path), mode).unwrap();
    let mut now = vec![0; bytes.len()];
    file.read_at(&mut now, offset).unwrap();
    for (at, (is, wanted)) in now.iter().zip(bytes).enumerate() {
        if is != wanted {
            disk.flip(Path::new(path), offset + at as u64, is ^ wanted).unwrap();
        }
    }
}

/// A page that is in the file when the dirty pages are listed is in no list. If the file loses it
/// afterwards, and the doublewrite has an older copy, the copy lacks redo that no list tells of.
#[test]
fn a_restored_page_that_is_not_listed_gets_all_of_its_redo() {
    let disk = MemDisk::default();
    let mut options = held_back();
    options.tuning.no_threads = true;
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options).unwrap();
    // The clean page between them keeps them out of one run of dirty pages.
    let [tree, _, other] = [0, 1, 2].map(|n| Tree::create(&engine.store, TreeId(TREE.0 + n)).unwrap());
    engine.checkpoint().unwrap();
    let flush_root = || {
        let flushed = engine.parts.flusher.flush(|_| vec![tree.root], BatchLimit::NONE, Force::CheckpointAge);
        assert_eq!(flushed.unwrap().pages, 1);
    };
    // It holds the checkpoint back.
    put(&engine, other, 0, b"held", b"back").unwrap();
    put(&engine, tree, 1, b"key", b"first").unwrap();
    flush_root();
    let before = disk.fork();
    put(&engine, tree, 2, b"key", b"second").unwrap();
    flush_root();
    engine.parts.cleaner.checkpoints.checkpointer().renew().unwrap();
    drop(engine);
    let after = disk.fork();
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = before.open(Path::new("/db/doublewrite/areas"), mode).unwrap();
    let mut copies = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut copies, 0).unwrap();
    overwrite(&after, "/db/doublewrite/areas", 0, &copies);
    overwrite(&after, "/db/pages", u64::from(tree.root.0) * 4096, &[0; 4096]);
    let engine = Engine::open(&after.vfs(2), Path::new(DIR), &super::options()).unwrap();
    assert_eq!(engine.store.metrics.get(M::TornPagesRestored), 1);
    assert_eq!(rows(&engine, tree).unwrap(), Rows::from([(b"key".to_vec(), b"second".to_vec())]));
    engine.close().unwrap();
}

/// A page that lacks redo, and that a caller makes anew before replay comes to it, is dirty from
/// then on alone. So the checkpoint may pass the first part of its old redo. The next replay met
/// the rest, which did not fit the page in the file, and said that a write was lost.
#[test]
fn the_rest_of_the_redo_from_before_a_page_was_made_anew_is_not_needed() {
    let disk = MemDisk::default();
    let mut options = held_back();
    options.tuning.no_threads = true;
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options).unwrap();
    let [tree, _, other] = [0, 1, 2].map(|n| Tree::create(&engine.store, TreeId(TREE.0 + n)).unwrap());
    engine.checkpoint().unwrap();
    let flush_root = || {
        let flushed = engine.parts.flusher.flush(|_| vec![tree.root], BatchLimit::NONE, Force::CheckpointAge);
        assert_eq!(flushed.unwrap().pages, 1);
    };
    put(&engine, tree, 1, b"key", b"first").unwrap();
    flush_root();
    let before = disk.fork();
    let passed = put(&engine, tree, 2, b"key", b"second").unwrap();
    flush_root();
    put(&engine, other, 0, b"held", b"back").unwrap();
    put(&engine, tree, 3, b"key", b"third").unwrap();
    let root = engine.store.pool.fetch(tree.root).unwrap();
    let mut mtr = Mtr::begin(&engine.store.log, &engine.store.pool).unwrap();
    let slot = mtr.add(root.write());
    let head = NodeHead { tree: tree.id, level: 0, right: PageNo::NONE, low: &[], high: &[] };
    mtr.apply(slot, &PageOp::Init { head, body: &[] });
    mtr.commit();
    put(&engine, tree, 4, b"key", b"fourth").unwrap();
    engine.parts.cleaner.checkpoints.checkpointer().renew().unwrap();
    assert!(engine.parts.cleaner.checkpoints.checkpointer().lsn() > passed);
    drop(engine);
    // The file never got the second version, nor did the doublewrite.
    let copy = |path: &str, at: u64, len: usize| {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let mut bytes = vec![0; len];
        before.open(Path::new(path), mode).unwrap().read_at(&mut bytes, at).unwrap();
        overwrite(&disk, path, at, &bytes);
    };
    copy("/db/pages", u64::from(tree.root.0) * 4096, 4096);
    copy("/db/doublewrite/areas", 4096, 2 * 16 * 4096);
    for in_order in [true, false] {
        let mut options = super::options();
        options.tuning.replay_first = in_order;
        let engine = Engine::open(&disk.fork().vfs(2), Path::new(DIR), &options).unwrap();
        assert_eq!(rows(&engine, tree).unwrap(), Rows::from([(b"key".to_vec(), b"fourth".to_vec())]));
        engine.close().unwrap();
    }
}

/// Opening reads the whole map. A map page of a long log once lacked thousands of changes, each of
/// which was a read of the log: 1.5 s of the 2 s to the first transaction.
#[test]
fn the_map_is_written_with_the_lists() {
    let disk = MemDisk::default();
    let mut options = held_back();
    options.tuning.no_threads = true;
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options).unwrap();
    Tree::create(&engine.store, TREE).unwrap();
    let dirty = || {
        let pages = engine.store.space.map_pages();
        pages.into_iter().filter(|page| engine.store.pool.wants_flush(*page)).count()
    };
    assert_eq!(dirty(), 1);
    engine.parts.cleaner.writers.order_map();
    assert!(engine.parts.cleaner.writers.write_ordered().unwrap());
    assert_eq!(dirty(), 0);
}
