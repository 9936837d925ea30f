//! Every metric of the catalog changes in some workload. A metric that stays 0 here is written by
//! no code. The test iterates over the catalog, so a new metric needs the code that writes it and a
//! workload that moves it.
//!
//! The disk counts too: syncs and page writes by the metrics must equal those seen from outside,
//! and no caller's thread writes a page.

mod doublewrite;
mod watched;

use super::*;
use metrics::Metrics;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use watched::{HeldSync, WatchedDisk};

const PAGE: usize = 4096;
/// How often a workload is repeated before its metric counts as unused.
const ROUNDS: u64 = 20_000;

/// Metrics that have not changed yet.
struct Unmoved {
    names: BTreeSet<String>,
}

impl Unmoved {
    fn look(&mut self, db: &Db) {
        for (name, value) in db.metrics().figures() {
            if value != 0.0 {
                self.names.remove(&name);
            }
        }
    }

    /// Repeats `work` until the metric has changed. One that never does is reported at the end.
    fn until(&mut self, db: &Db, name: &str, mut work: impl FnMut(u64)) {
        for round in 0..ROUNDS {
            self.look(db);
            if !self.names.contains(name) {
                return;
            }
            work(round);
        }
    }
}

struct Fixture {
    disk: WatchedDisk,
    db: Db,
    table: Table,
}

fn short_pause() {
    std::thread::sleep(Duration::from_millis(1));
}

fn fixture(options: &Options) -> Fixture {
    let disk = WatchedDisk::new(MemDisk::default());
    let db = Db::open_on(&disk.vfs(), Path::new(DIR), options).unwrap();
    let table = db.create_table("t").unwrap();
    Fixture { disk, db, table }
}

fn row(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

impl Fixture {
    fn write(&self, durability: Durability, rows: impl Iterator<Item = u64>, bytes: usize) {
        let mut tx = self.db.begin_with(TxnOptions::new().durability(durability)).unwrap();
        rows.for_each(|n| tx.put(&self.table, &row(n), &vec![n as u8; bytes]).unwrap());
        tx.commit().unwrap();
    }

    /// Starts a caller's thread that commits `count` rows one by one, with `distinct` keys.
    fn writer(&self, durability: Durability, count: u64, distinct: u64, bytes: usize) -> Writer {
        let (db, table) = (self.db.clone(), self.table.clone());
        let work = move || {
            for n in 0..count {
                let mut tx = db.begin_with(TxnOptions::new().durability(durability)).unwrap();
                tx.put(&table, &row(n % distinct), &vec![n as u8; bytes]).unwrap();
                tx.commit().unwrap();
            }
        };
        Writer(std::thread::Builder::new().name("writer".into()).spawn(work).unwrap())
    }

    /// Starts a caller's thread that changes rows until it is told to stop, also on a full disk.
    fn insistent_writer(&self, stop: &Arc<AtomicBool>) -> Writer {
        let (db, table, stop) = (self.db.clone(), self.table.clone(), Arc::clone(stop));
        let work = move || {
            for n in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
                match tx.put(&table, &row(n % 500), &[n as u8; 240]) {
                    Ok(()) => drop(tx.commit().unwrap()),
                    Err(error) => {
                        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                        short_pause();
                    }
                }
            }
        };
        Writer(std::thread::Builder::new().name("writer".into()).spawn(work).unwrap())
    }

    /// Makes a table of one row. Returns it and its only page.
    fn leaf_of(&self, name: &str) -> (Table, base::PageNo) {
        let table = self.db.create_table(name).unwrap();
        put(&self.db, &table, b"row", b"value");
        let root = table.entry.tree.root;
        (table, root)
    }

    /// Closes the database and compares its metrics with what the disk has seen.
    fn end(self, unmoved: &mut Unmoved) {
        self.db.close().unwrap();
        unmoved.look(&self.db);
        self.compare();
    }

    fn compare(&self) {
        let metrics = self.db.metrics();
        assert_eq!(self.disk.syncs(), metrics.fsyncs_total(), "{}", metrics.to_text());
        let by_thread = self.disk.pages_by_thread();
        assert_eq!(by_thread.values().sum::<u64>(), figure(&self.db, "pages_written"), "{by_thread:?}");
        assert_eq!(by_thread.get("writer"), None, "a caller's thread wrote pages");
        assert_eq!(figure(&self.db, "pages_written_foreground"), 0);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // A failing test must end too.
        self.disk.free();
    }
}

struct Writer(std::thread::JoinHandle<()>);

impl Writer {
    fn join(self) {
        self.0.join().unwrap();
    }
}

/// The usual calls of programs.
fn common_calls(unmoved: &mut Unmoved) {
    let w = fixture(&options());
    let (db, t) = (&w.db, &w.table);
    (0..300).for_each(|n| w.write(Durability::Sync, 10 * n..10 * n + 10, 200));
    let mut tx = db.begin().unwrap();
    tx.put(t, b"long", &[7; 20_000]).unwrap();
    tx.put(t, &row(1), b"changed").unwrap();
    unmoved.look(db);
    let savepoint = tx.savepoint();
    tx.delete(t, &row(2)).unwrap();
    tx.rollback_to(&savepoint).unwrap();
    db.checkpoint().unwrap();
    tx.commit_async().unwrap().wait().unwrap();
    assert_eq!(rows(&db.begin().unwrap(), t).len(), 3001);
    db.begin().unwrap().commit().unwrap();
    let mut load = db.begin_bulk_load("loaded").unwrap();
    (0..4000).for_each(|n| load.push(&row(n), &[1; 100]).unwrap());
    unmoved.look(db);
    drop(load.commit().unwrap());
    w.write(Durability::Bounded { ms: 1000, bytes: 1 }, 0..1, 100);
    w.write(Durability::Written { ms: 1000, bytes: 1 << 20 }, 0..1, 100);
    w.write(Durability::None, 0..50, 100);
    db.checkpoint().unwrap();
    unmoved.until(db, "fsyncs_by_reason.purge", |n| {
        // Not row 60, which is read below: the number of rounds depends on other threads.
        w.write(Durability::None, n % 50..n % 50 + 1, 100);
        db.core.engine.txns.background().flush_for_purge().unwrap();
    });

    let mut prepared = db.begin().unwrap();
    prepared.put(t, &row(3), b"prepared").unwrap();
    prepared.prepare(b"xid").unwrap();
    unmoved.look(db);
    db.commit_prepared(b"xid").unwrap();

    let snapshot = db.begin().unwrap();
    assert!(snapshot.get(t, &row(60)).unwrap().is_some());
    w.write(Durability::Sync, 60..61, 100);
    assert_eq!(snapshot.get(t, &row(60)).unwrap().unwrap().len(), 200, "the version before");
    let mut tx = db.begin().unwrap();
    assert!(tx.delete(t, &row(5)).unwrap());
    tx.commit().unwrap();
    assert_eq!(rows(&db.begin().unwrap(), t).len(), 3000, "a mark stays beside the snapshot");
    unmoved.look(db);
    drop(snapshot);

    unmoved.until(db, "aborted_transactions", |_| {
        let mut tx = db.begin().unwrap();
        (0..400).for_each(|n| tx.put(t, &row(n), &[9; 250]).unwrap());
        tx.rollback();
    });
    purge_and_check(db);
    let mut tx = db.begin().unwrap();
    (0..3000).for_each(|n| assert!(tx.delete(t, &row(n)).unwrap() || n == 5));
    tx.commit().unwrap();
    purge_and_check(db);
    db.drop_table("loaded").unwrap();
    purge_and_check(db);
    w.disk.clock.pass(2_000_000);
    w.end(unmoved);
}

fn locks(unmoved: &mut Unmoved) {
    let w = fixture(&options());
    let (db, t) = (&w.db, &w.table);
    w.write(Durability::Sync, 0..10, 100);
    let mut reader = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).unwrap();
    assert_eq!(rows(&reader, t).len(), 10);
    assert!(reader.get_for_update(t, &row(1)).unwrap().is_some());
    unmoved.look(db);
    let mut other = db.begin().unwrap();
    assert!(matches!(other.put(t, &row(1), b"x"), Err(Error::LockTimeout)));
    drop((reader, other));
    let levels = db.metrics();
    assert_eq!((levels.get("range_locks"), levels.get("locks_held")), (Some(0.0), Some(0.0)));

    let mut late = db.begin().unwrap();
    assert!(late.get(t, &row(2)).unwrap().is_some());
    w.write(Durability::Sync, 2..3, 50);
    assert!(matches!(late.put(t, &row(2), b"x"), Err(Error::WriteConflict)));

    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    a.put(t, &row(5), b"a").unwrap();
    b.put(t, &row(6), b"b").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| a.put(t, &row(6), b"a").is_ok());
        unmoved.until(db, "lock_waits", |_| short_pause());
        let won = b.put(t, &row(5), b"b").is_ok();
        drop(b);
        assert!(waits.join().unwrap() || won);
    });
    drop(a);
    unmoved.look(db);
    w.end(unmoved);
}

/// Metrics that change only under contention.
fn contention(unmoved: &mut Unmoved) {
    let w = fixture(&options());
    latch_waits(&w, unmoved);
    waits_for_syncs(&w, unmoved);
    waits_for_space(&w, unmoved);
    w.end(unmoved);
}

fn latch_waits(w: &Fixture, unmoved: &mut Unmoved) {
    let db = &w.db;
    let (small, root) = w.leaf_of("small");
    let pool = &db.core.engine.store.pool;
    unmoved.until(db, "latch_waits", |_| {
        let latched = pool.fetch(root).unwrap().write();
        std::thread::scope(|scope| {
            let read = scope.spawn(|| db.begin().unwrap().get(&small, b"row").unwrap().is_some());
            std::thread::sleep(Duration::from_millis(5));
            drop(latched);
            assert!(read.join().unwrap());
        });
    });
    put(db, &small, b"row", b"dirty");
    let latched = pool.fetch(root).unwrap().write();
    std::thread::scope(|scope| {
        scope.spawn(|| db.checkpoint().unwrap());
        unmoved.until(db, "cleaner_latch_misses", |_| short_pause());
        drop(latched);
    });
}

fn waits_for_syncs(w: &Fixture, unmoved: &mut Unmoved) {
    let db = &w.db;
    // While another commit is on its way, the flush leader leaves the rest of its last block
    // unused.
    w.disk.hold(HeldSync::LogSync);
    let another = db.core.engine.store.log.committing();
    let writer = w.writer(Durability::Sync, 3, 3, 100);
    unmoved.until(db, "log_flushes_in_flight", |_| short_pause());
    unmoved.until(db, "redo_pad_bytes", |_| short_pause());
    w.disk.free();
    writer.join();
    drop(another);

    w.disk.hold(HeldSync::LogSync);
    // Few short rows, so writers wait for the log buffer and not for frames.
    let writer = w.writer(Durability::None, 3000, 10, 200);
    unmoved.until(db, "log_buffer_waits", |_| short_pause());
    w.disk.free();
    writer.join();

    unmoved.until(db, "doublewrite_off", |_| db.set_doublewrite(crate::Doublewrite::UnsafeOff).unwrap());
    db.set_doublewrite(crate::Doublewrite::On).unwrap();
    unmoved.until(db, "buffer_resizes", |_| [80, 64].into_iter().for_each(|n| db.set_frames(n).unwrap()));

    w.disk.hold(HeldSync::PagesSync);
    let writer = w.writer(Durability::None, 1000, 1000, 700);
    unmoved.until(db, "free_frame_waits", |_| short_pause());
    w.disk.free();
    writer.join();
}

fn waits_for_space(w: &Fixture, unmoved: &mut Unmoved) {
    let db = &w.db;
    // Undo that finds no space in its file keeps the checkpoint where it is.
    let mut unfinished = db.begin().unwrap();
    unfinished.put(&w.table, b"unfinished", b"row").unwrap();
    w.disk.set_full(true);
    let stop = Arc::default();
    let writer = w.insistent_writer(&stop);
    unmoved.until(db, "hard_waits", |_| short_pause());
    stop.store(true, Ordering::Relaxed);
    w.disk.set_full(false);
    writer.join();
    drop(unfinished);
    unmoved.look(db);
    let waiters =
        |file| db.metrics().fsyncs().iter().filter(|f| f.file == file).map(|f| f.waiters).sum::<u64>();
    assert!(waiters(metrics::FileKind::Pages) > 0 && waiters(metrics::FileKind::Log) > 0);

    let mut n = 10_000;
    unmoved.until(db, "file_growths_awaited", |_| {
        w.disk.set_full(true);
        loop {
            n += 1;
            let mut tx = db.begin().unwrap();
            match tx.put(&w.table, &row(n), &[7; 700]) {
                Ok(()) => drop(tx.commit().unwrap()),
                Err(error) => break assert!(matches!(error, Error::DiskFull { .. }), "{error}"),
            }
        }
        w.disk.set_full(false);
        w.write(Durability::Sync, n..n + 1, 700);
    });
}

/// The flight recorder writes samples. On a full disk it cannot, and nothing else notices.
fn recorder(unmoved: &mut Unmoved) {
    let w = fixture(&options().recorder_interval(Duration::from_millis(10)));
    unmoved.until(&w.db, "recorder_samples", |_| short_pause());
    w.disk.set_full(true);
    unmoved.until(&w.db, "recorder_failures", |_| short_pause());
    w.disk.set_full(false);
    w.write(Durability::Sync, 0..10, 100);
    assert_eq!(figure(&w.db, "poisoned"), 0);
    let before = figure(&w.db, "recorder_samples");
    w.db.close().unwrap();
    let recording = crate::recorder::read(&w.disk.vfs(), Path::new(DIR)).unwrap();
    let last = recording.samples().last().unwrap();
    assert_eq!(recording.samples().count() as u64, before + 1, "closing takes the last sample");
    assert_eq!((last.metrics.value(metrics::M::RowInserts), last.after_gap), (10, false));
}

/// Each reason to write pages, alone.
fn forces(unmoved: &mut Unmoved) {
    let w = fixture(&options());
    unmoved.until(&w.db, "pages_written_by_force.checkpoint_age", |n| {
        w.write(Durability::None, n % 20..n % 20 + 1, 700);
    });
    unmoved.until(&w.db, "pages_written_by_force.free_frames", |n| {
        w.write(Durability::None, 10 * n..10 * n + 10, 700);
    });
    w.end(unmoved);

    let mut options = options().redo_capacity_bytes(64 << 20);
    options.tuning.frames = 512;
    let w = fixture(&options);
    for name in ["pages_written_by_force.dirty_share", "pages_written_by_force.idle"] {
        unmoved.until(&w.db, name, |round| {
            if round == 0 {
                (0..250).for_each(|n| w.write(Durability::None, 10 * n..10 * n + 10, 700));
            }
            w.disk.clock.pass(50_000);
            short_pause();
        });
    }
    w.end(unmoved);
}

/// Growth ahead of slow writers.
fn growth(unmoved: &mut Unmoved) {
    let mut options = options();
    options.tuning.grow_pages = 1024;
    let w = fixture(&options);
    unmoved.until(&w.db, "file_growths_ahead", |n| {
        if figure(&w.db, "free_pages") * PAGE as u64 > figure(&w.db, "file_reserve_bytes") / 2 {
            w.write(Durability::None, n..n + 1, 700);
        } else {
            short_pause();
        }
    });
    let growths = w.db.metrics();
    let waited = growths.fsyncs().iter().filter(|f| f.reason == metrics::SyncReason::GrowAhead);
    assert_eq!(waited.map(|f| f.waiters).sum::<u64>(), 0, "no caller waits for growth ahead");
    w.end(unmoved);
}

/// A scan that ends among leaves that it has read ahead, and reads that evict them.
fn read_ahead_for_nothing(unmoved: &mut Unmoved) {
    let mut options = options();
    options.tuning.frames = 256;
    let w = fixture(&options);
    (0..400).for_each(|n| w.write(Durability::None, 10 * n..10 * n + 10, 700));
    w.db.checkpoint().unwrap();
    unmoved.until(&w.db, "pages_read_ahead_unused", |n| {
        let tx = w.db.begin().unwrap();
        assert_eq!(tx.range(&w.table, &row(n * 500 % 4000)[..]..).unwrap().take(30).count(), 30);
        (0..4000).step_by(5).for_each(|n| assert!(tx.get(&w.table, &row(n)).unwrap().is_some()));
    });
    w.end(unmoved);
}

/// Little memory and disk for undo and old versions.
fn history_limits(unmoved: &mut Unmoved) {
    let w = fixture(&options().history_memory_bytes(8 << 10).history_disk_bytes(300 << 10));
    let db = &w.db;
    w.write(Durability::Sync, 0..50, 3000);
    let mut large = db.begin().unwrap();
    (100..600).for_each(|n| large.put(&w.table, &row(n), &[1; 300]).unwrap());
    db.core.engine.txns.history_keeper().step().unwrap();
    large.rollback();
    unmoved.until(db, "undo_fetches", |_| short_pause());
    let old = db.begin().unwrap();
    assert!(old.get(&w.table, &row(1)).unwrap().is_some());
    unmoved.until(db, "snapshots_too_old", |n| w.write(Durability::Sync, n % 40..n % 40 + 1, 300));
    drop(old);
    w.end(unmoved);
}

#[test]
fn the_heap_of_a_host_is_left_alone() {
    for own_process in [false, true] {
        let w = fixture(&options().own_process(own_process));
        // Its undo is in memory until it ends.
        let mut open = w.db.begin().unwrap();
        open.put(&w.table, &row(1), &[7; 300]).unwrap();
        // The history thread looks from time to time.
        let looked = || w.db.core.engine.heap_kept() > 0;
        let most = if own_process { u32::MAX } else { 20 };
        (0..most).find(|_| {
            short_pause();
            looked()
        });
        assert_eq!(looked(), own_process);
    }
}

/// Many locks that are taken and released: the memory of a peak goes back to the system.
fn a_peak_of_memory(unmoved: &mut Unmoved) {
    let w = fixture(&options().own_process(true));
    let db = &w.db;
    let mut peak = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).unwrap();
    for n in 0.. {
        // The row is missing, so its absence is locked.
        assert!(peak.get_for_update(&w.table, &row(n)).unwrap().is_none());
        if n % 1000 == 0 && figure(db, "lock_bytes") > 20 << 20 {
            break;
        }
    }
    // The history thread looks from time to time.
    while db.core.engine.heap_kept() < 20 << 20 {
        short_pause();
    }
    assert_eq!(figure(db, "heap_trims"), 0, "it is in use");
    drop(peak);
    unmoved.until(db, "heap_trims", |_| {
        w.disk.clock.pass(pace::constants::HEAP_TRIM_WINDOW_US);
        short_pause();
    });
    assert!(db.core.engine.heap_kept() < 1 << 20);
    w.end(unmoved);
}

/// A rollback without room in the log, and one of a row that cannot be read.
fn difficult_rollbacks(unmoved: &mut Unmoved) {
    let w = fixture(&rollback::small_log());
    for first in (0..rollback::HALF_A_LOG).step_by(100) {
        w.write(Durability::Sync, first..first + 100, 700);
        w.db.checkpoint().unwrap();
    }
    let mut tx = w.db.begin().unwrap();
    (0..rollback::HALF_A_LOG).for_each(|n| tx.put(&w.table, &row(n), b"short").unwrap());
    drop(tx);
    unmoved.until(&w.db, "undo_waits", |_| short_pause());
    while figure(&w.db, "aborted_transactions") > 0 {
        w.db.checkpoint().unwrap();
    }
    w.end(unmoved);

    let w = fixture(&options());
    let (bad, _) = rollback::three_tables(&w.db);
    let mut tx = w.db.begin().unwrap();
    tx.put(&bad, &rollback::key(1, 0), b"changed").unwrap();
    w.db.checkpoint().unwrap();
    rollback::evict(&w.db);
    assert!(rollback::damage_pages(w.disk.disk(), rollback::MARKER) > 0);
    drop(tx);
    unmoved.until(&w.db, "transactions_set_aside", |_| short_pause());
    assert!(rollback::damage_pages(w.disk.disk(), rollback::MARKER) > 0);
    w.end(unmoved);
}

/// Opening after a crash that tore a page.
fn recovery(unmoved: &mut Unmoved) {
    // Nothing is cleaned before that much redo, so the copy of the page stays in the doublewrite.
    let mut held = options().redo_capacity_bytes(16 << 20).hold_cleaning_until_redo_bytes(8 << 20);
    held.tuning.frames = 2000;
    let w = fixture(&held);
    w.write(Durability::Sync, 0..200, 500);
    let (small, root) = w.leaf_of("small");
    w.db.checkpoint().unwrap();
    // Redo continues from the copy in the doublewrite.
    put(&w.db, &small, b"row", b"again");
    // With too little redo there is no rate of replay.
    (0..50).for_each(|n| w.write(Durability::Sync, 100 * n..100 * n + 100, 500));
    let crashed = w.disk.disk().fork();
    w.end(unmoved);

    // Replay waits for a page that cannot be read.
    let faulty = vfs::fault::FaultDisk::new(std::sync::Arc::new(crashed.fork()));
    let at = u64::from(root.0) * PAGE as u64;
    faulty.refuse_reads(Path::new(DIR).join("pages"), at..at + PAGE as u64);
    let vfs = Vfs { disk: std::sync::Arc::new(faulty), ..crashed.vfs(1) };
    let db = Db::open_on(&vfs, Path::new(DIR), &options()).unwrap();
    unmoved.look(&db);
    drop(db);

    let disk = WatchedDisk::new(crashed);
    let mode = vfs::OpenMode { create: vfs::Create::Never, direct: false, read_only: false };
    let pages = disk.disk().vfs(1).disk.open(&Path::new(DIR).join("pages"), mode).unwrap();
    let mut bytes = base::aligned::AlignedBuf::zeroed(PAGE);
    pages.read_at(&mut bytes, u64::from(root.0) * PAGE as u64).unwrap();
    bytes[PAGE / 2..].fill(0);
    pages.write_at(&bytes, u64::from(root.0) * PAGE as u64).unwrap();
    disk.clock.set_tick(500);
    let db = Db::open_on(&disk.vfs(), Path::new(DIR), &options()).unwrap();
    disk.clock.set_tick(2);
    let table = db.open_table("t").unwrap();
    assert_eq!(figure(&db, "torn_pages_restored"), 1);
    Fixture { disk, db, table }.end(unmoved);
}

/// Metrics that must stay 0 in a program change where the mistake is made on purpose.
fn mistakes(unmoved: &mut Unmoved) {
    let w = fixture(&options());
    w.write(Durability::Sync, 0..100, 100);
    assert_eq!(figure(&w.db, "pages_written_foreground"), 0);
    let here = std::thread::Builder::new().name("writer".into());
    let db = w.db.clone();
    here.spawn(move || db.core.engine.write_pages_here().unwrap()).unwrap().join().unwrap();
    assert_eq!(w.disk.pages_by_thread().get("writer"), Some(&figure(&w.db, "pages_written_foreground")));
    unmoved.look(&w.db);
    w.disk.set_broken();
    let mut tx = w.db.begin().unwrap();
    tx.put(&w.table, b"lost", b"").unwrap();
    tx.commit().unwrap_err();
    unmoved.look(&w.db);
}

#[test]
fn every_metric_of_the_catalog_changes() {
    let mut unmoved = Unmoved { names: Metrics::new().snapshot().names().into_iter().collect() };
    common_calls(&mut unmoved);
    locks(&mut unmoved);
    contention(&mut unmoved);
    recorder(&mut unmoved);
    forces(&mut unmoved);
    growth(&mut unmoved);
    read_ahead_for_nothing(&mut unmoved);
    history_limits(&mut unmoved);
    a_peak_of_memory(&mut unmoved);
    difficult_rollbacks(&mut unmoved);
    recovery(&mut unmoved);
    mistakes(&mut unmoved);
    assert!(unmoved.names.is_empty(), "no workload changed {:?}", unmoved.names);
}

/// Writers with a pool far smaller than their data and a slow device: they wait, and only the
/// page writers write pages.
#[test]
fn callers_write_no_page_even_with_a_very_small_pool() {
    let w = fixture(&options());
    let writers: Vec<Writer> = (0..4).map(|_| w.writer(Durability::Sync, 1500, 1500, 600)).collect();
    writers.into_iter().for_each(Writer::join);
    assert!(figure(&w.db, "frame_evictions") > 64, "{}", figure(&w.db, "frame_evictions"));
    let by_thread = w.disk.pages_by_thread();
    let is_writer = |name: &String| name.starts_with("millpond-page-");
    assert!(!by_thread.is_empty() && by_thread.keys().all(is_writer), "{:?}", by_thread.keys());
    w.end(&mut Unmoved { names: BTreeSet::new() });
}
