//! A store for tests, in a directory of its own, with a cleaner that writes pages when frames are
//! needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use base::sync::Parker;
use base::{Lsn, PageNo};
use metrics::SyncReason;
use vfs::{Create, OpenMode, Vfs};

use crate::btree::{BulkSink, PageBatch};
use crate::buffer::{Pool, PoolOptions, RefuseDamage};
use crate::environment::Environment;
use crate::error::Result;
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::{SegmentShape, Segments};
use crate::log::{Log, LogOptions, LogStart};
use crate::page::header;
use crate::page::op::PageOp;
use crate::page_file::{PageFile, set_checksum};
use crate::space::{Space, SpaceOptions};
use crate::tree_store::Store;

const DB_ID: u64 = 5;

/// The store, its directory and its cleaner.
pub(super) struct TestStore {
    pub(super) store: Arc<Store>,
    file: Arc<PageFile>,
    dir: PathBuf,
    stop: Arc<AtomicBool>,
    cleaner: Option<JoinHandle<()>>,
    wake: base::sync::Unparker,
}

impl TestStore {
    /// Makes an empty store whose pool has `frames` frames.
    pub(super) fn new(page_bytes: usize, frames: usize) -> TestStore {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("millpond-btree-{n}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let environment = Environment::new(Vfs::os());
        let Environment { vfs, metrics, poison } = environment.clone();
        let path = dir.join("pages");
        let mode = OpenMode { create: Create::New, direct: false, read_only: false };
        let file = vfs.disk.open(&path, mode).unwrap();
        let file = PageFile::of_test(file, &path, page_bytes, &metrics);

        let parker = Parker::new();
        let wake = parker.unparker();
        let segments =
            Segments::open(&vfs, &[&dir], SegmentShape { db_id: DB_ID, blocks: 1024 }, &metrics).unwrap();
        let options = LogOptions { ring_blocks: 512, flush_depth: 4 };
        let start = LogStart {
            lsn: Lsn(0),
            end: Lsn(0),
            prev_used: crate::log::block::PAYLOAD_BYTES as u16,
            epoch: 1,
        };
        let log = Arc::new(Log::new(&environment, options, start, segments, parker.unparker()));
        let pool = Arc::new(
            Pool::new(PoolOptions {
                frames,
                frames_most: frames,
                reads_ahead: true,
                file: Arc::clone(&file),
                hook: Box::new(RefuseDamage { path: path.clone() }),
                cleaner: parker.unparker(),
                poison: Arc::clone(&poison),
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(&vfs.clock),
            })
            .unwrap(),
        );
        let space = SpaceOptions {
            ballast: Arc::new(crate::ballast::Ballast::of(&vfs, path.parent().unwrap())),
            file: Arc::clone(&file),
            db_id: DB_ID,
            pages_max: u32::MAX,
            grow_pages: 512,
            grower: parker.unparker(),
        };
        let space = Space::new(space, &log, &pool, &metrics, &poison);
        space.format().unwrap();
        pool.set_free_reserve(frames / 8);
        let store = Arc::new(Store { log, pool, space, metrics });
        let stop = Arc::new(AtomicBool::new(false));
        let cleaner = {
            let (store, stop, file) = (Arc::clone(&store), Arc::clone(&stop), Arc::clone(&file));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Woken when frames or log buffer run short.
                    parker.park();
                    clean(&store, &file);
                }
            })
        };
        TestStore { store, file, dir, stop, cleaner: Some(cleaner), wake }
    }
}

/// Writes pages until an eighth of the frames is free, each after its redo is durable.
fn clean(store: &Store, file: &PageFile) {
    let (pool, wanted) = (&store.pool, store.pool.frame_count() / 8);
    let mut copy = vec![0; pool.page_bytes()];
    while pool.free_frames() < wanted || pool.frame_waiters() > 0 {
        let swept = pool.sweep(wanted, 16);
        for &page in &swept.dirty {
            let Some(ticket) = pool.copy_for_flush(page, &mut copy) else { continue };
            store.log.flush_to(header::lsn(&copy), SyncReason::Commit).unwrap();
            set_checksum(&mut copy, page);
            file.write_runs(&[page], &copy).unwrap();
            pool.flushed(vec![ticket]);
        }
        if swept.freed == 0 && swept.dirty.is_empty() {
            std::thread::yield_now();
        }
    }
}

impl BulkSink for TestStore {
    fn admit(&self, _: usize) -> Result {
        Ok(())
    }

    fn batch_pages(&self) -> usize {
        16
    }

    fn write(&self, mut batch: PageBatch) -> Result<PageBatch> {
        let (pages, images) = batch.parts();
        let page_bytes = self.store.pool.page_bytes();
        for (page, image) in pages.iter().zip(images.chunks_exact_mut(page_bytes)) {
            assert!(!self.store.pool.holds(*page) && header::lsn(image) > Lsn::ZERO);
            set_checksum(image, *page);
        }
        self.file.write_runs(pages, images).unwrap();
        batch.pages.clear();
        Ok(batch)
    }

    fn wait_for_writes(&self) -> Result {
        Ok(())
    }
}

impl TestStore {
    /// Returns the pages that are in use according to the space map.
    pub(super) fn used_pages(&self) -> Vec<u32> {
        let used = self.store.space.used_pages().unwrap();
        let pages: BTreeSet<u32> = used.values().flatten().map(|page| page.0).collect();
        pages.into_iter().collect()
    }

    /// Applies all redo to blank pages, and compares the result with the pool.
    pub(super) fn assert_redo_gives_the_same_pages(&self) {
        let (log, pool) = (&self.store.log, &self.store.pool);
        log.flush_to(Lsn(log.published_lsn().0 - 1), SyncReason::Commit).unwrap();
        let epochs = [EpochStart { epoch: 1, first: Lsn(0) }];
        let mut scanner = Scanner::new(log.segments(), &epochs, Lsn(0));
        let mut pages: BTreeMap<PageNo, Vec<u8>> = BTreeMap::new();
        while let Some(group) = scanner.next().unwrap() {
            // The previous LSN of a page is the one before the group, even if the group changes the
            // page often.
            let mut before = BTreeMap::new();
            for record in Records::new(group.records) {
                let Ok(Record::Page { page, prev, op }) = record else { panic!("{record:?}") };
                let op = PageOp::decode(op).unwrap();
                let bytes = pages.entry(page).or_insert_with(|| vec![0; pool.page_bytes()]);
                let lsn = *before.entry(page).or_insert(header::lsn(bytes).0);
                assert!(op.is_init() || prev == lsn, "{page:?}: {prev} is not {lsn}");
                header::set_page_no(bytes, page);
                op.apply(bytes).unwrap();
                header::set_lsn(bytes, group.lsn);
            }
        }
        assert_eq!(scanner.position(), log.durable_lsn());
        for (no, bytes) in pages {
            let page = pool.fetch(no).unwrap().read();
            // All but the checksum, which is set only before a write.
            assert!(page[4..] == bytes[4..], "{no:?}");
        }
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.unpark();
        let cleaned = self.cleaner.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.dir);
        if !std::thread::panicking() {
            assert!(cleaned.is_some_and(|joined| joined.is_ok()), "the cleaner failed");
        }
    }
}
