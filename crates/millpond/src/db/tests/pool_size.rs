//! Another size of the buffer pool while the database is used.

use super::*;
use base::PageNo;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAGE: u64 = 4096;
/// Threads that write at once.
const WRITERS: u64 = 3;
const ROWS: u64 = 400;

fn row(writer: u64, n: u64) -> Vec<u8> {
    [writer.to_be_bytes(), n.to_be_bytes()].concat()
}

/// Changes rows of its own until told to stop. Returns what must be there. Some values are chains
/// of pages, so the thread keeps frames while it waits for others.
fn write(db: &Db, writer: u64, stop: &AtomicBool) -> Rows {
    let (table, mut rng, mut rows) = (db.open_table("t").unwrap(), Prng::new(writer), Rows::new());
    while !stop.load(Ordering::Relaxed) {
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
        for _ in 0..8 {
            let key = row(writer, rng.below(ROWS));
            if rng.one_in(5) {
                tx.delete(&table, &key).unwrap();
                rows.remove(&key);
                continue;
            }
            let value = vec![rng.below(256) as u8; if rng.one_in(20) { 9000 } else { 500 }];
            tx.put(&table, &key, &value).unwrap();
            rows.insert(key, value);
        }
        tx.commit().unwrap();
    }
    rows
}

#[test]
fn a_pool_gets_a_hundred_sizes_under_writers_and_scans() {
    let (disk, db, _) = fresh();
    let (stop, scans) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut expected = Rows::new();
    std::thread::scope(|scope| {
        let writers = (0..WRITERS).map(|n| {
            scope.spawn({
                let (db, stop) = (&db, &stop);
                move || write(db, n, stop)
            })
        });
        let writers: Vec<_> = writers.collect();
        scope.spawn(|| {
            let table = db.open_table("t").unwrap();
            while !stop.load(Ordering::Relaxed) {
                rows(&db.begin().unwrap(), &table);
                scans.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut rng = Prng::new(11);
        for n in 0..100 {
            let frames = rng.between(24, 600) as usize;
            db.set_frames(frames).unwrap();
            assert_eq!(figure(&db, "buffer_frames"), frames as u64);
            if n % 10 == 0 {
                db.checkpoint().unwrap();
            }
        }
        while scans.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| expected.append(&mut writer.join().unwrap()));
    });
    assert!(figure(&db, "buffer_resizes") > 90);
    assert_eq!(figure(&db, "pages_written_foreground"), 0);
    assert!(all(&db, "t") == expected);
    purge_and_check(&db);
    db.close().unwrap();
    drop(db);
    assert!(all(&open(&disk), "t") == expected);
}

/// All that the pool keeps is a part of its bytes, the control blocks of earlier frames too.
#[test]
fn a_size_counts_all_memory_of_the_pool() {
    let (_disk, db, table) = fresh();
    let taken = || figure(&db, "buffer_frames") * PAGE + figure(&db, "buffer_overhead_bytes");
    for mib in [8, 2, 16, 1, 9] {
        let bytes = mib << 20;
        db.set_buffer_pool_bytes(bytes).unwrap();
        assert_eq!(figure(&db, "buffer_pool_bytes"), bytes);
        assert!(taken() <= bytes && taken() + 2 * PAGE > bytes - bytes / 2, "{} of {bytes}", taken());
        put(&db, &table, b"key", &vec![7; 100_000]);
    }
    assert!(taken() + 2 * PAGE > 9 << 20);
    // Where they would be more than half of it, the pool is larger.
    db.set_buffer_pool_bytes(256 << 20).unwrap();
    db.set_buffer_pool_bytes(1 << 20).unwrap();
    assert_eq!(figure(&db, "buffer_frames"), (1 << 20) / PAGE / 2);
    db.set_buffer_pool_bytes(9 << 20).unwrap();
    let frames = figure(&db, "buffer_frames");
    let error = db.set_buffer_pool_bytes((1 << 20) - 1).unwrap_err();
    assert_eq!(error.to_string(), "a buffer pool of 1048575 bytes: at least 1048576 are needed");
    let error = db.set_buffer_pool_bytes(u64::MAX).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    assert_eq!((figure(&db, "buffer_frames"), figure(&db, "buffer_pool_bytes")), (frames, 9 << 20));
}

/// Keeps a shrink of 64 frames to 40 from its end, lets `stop` stop it, and returns its error.
fn stopped(stop: impl FnOnce(&Db)) -> (Db, Error) {
    let (_disk, db, table) = fresh();
    (0..200u64).for_each(|n| put(&db, &table, &row(0, n), &[7; 1000]));
    let pool = &db.core.engine.store.pool;
    // Half of the pool, whichever frames these are.
    let pins: Vec<_> = (0..200).map(PageNo).filter_map(|page| pool.fetch(page).ok()).take(42).collect();
    assert_eq!(pins.len(), 42, "more pages than the smaller pool has frames");
    let error = std::thread::scope(|scope| {
        let shrink = scope.spawn(|| db.set_frames(40));
        while pool.frame_count() == 64 {
            std::thread::yield_now();
        }
        stop(&db);
        shrink.join().unwrap().unwrap_err()
    });
    assert_eq!(pool.frame_count(), 64, "the size is as before");
    drop(pins);
    (db.clone(), error)
}

#[test]
fn a_shrink_that_cannot_end_is_stopped_by_closing_and_by_poison() {
    let (_, error) = stopped(|db| db.close().unwrap());
    assert!(matches!(error, Error::Closed), "{error}");
    let (_, error) = stopped(|db| drop(db.core.engine.poison_for_test()));
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
}

/// In simulated time, so that nobody waits ten seconds.
#[cfg(feature = "sim")]
#[test]
fn a_shrink_without_progress_is_given_up() {
    use base::sync::sim::{WorldOptions, run};
    let scenario = || {
        let disk = MemDisk::default();
        let db = Db::open_on(&disk.vfs(1), Path::new(DIR), &options()).unwrap();
        let table = db.create_table("t").unwrap();
        (0..200u64).for_each(|n| put(&db, &table, &row(0, n), &[7; 1000]));
        let pool = &db.core.engine.store.pool;
        let pins: Vec<_> = (0..200).map(PageNo).filter_map(|page| pool.fetch(page).ok()).take(42).collect();
        let error = db.set_frames(40).unwrap_err();
        let what = "of the frames that were to go are in use for 10 s";
        assert!(matches!(&error, Error::Limit { what: is } if is.ends_with(what)), "{error}");
        assert_eq!(pool.frame_count(), 64);
        drop(pins);
        db.set_frames(40).unwrap();
        assert_eq!(rows(&db.begin().unwrap(), &table).len(), 200);
        db.close().unwrap();
    };
    let options = WorldOptions { max_steps: 60_000_000, ..WorldOptions::new(1) };
    run(options, scenario).result.unwrap_or_else(|failure| panic!("{failure}"));
}
