//! The pool from outside: which pages may be evicted, which threads wait, the state after a failed
//! read, and the order in which pages are written.

mod file;
mod on_demand;
mod read_ahead;
mod resize;

use super::{FetchHint, Pin, Pool, PoolOptions, ReadHook, RefuseDamage, fetch_many};
use crate::error::{Error, Poison};
use crate::page::header;
use crate::page_file::{PageFile, set_checksum};
use base::codec::fixed::{get_u64, set_u64};
use base::prng::Prng;
use base::sync::{JoinHandle, Parker, spawn, spin};
use base::{Lsn, PageNo};
use file::{PAGE, TestFile};
use metrics::{M, Metrics};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PATH: &str = "/db/pages";
/// The place of a counter in each page.
const COUNTER: usize = 1000;

struct World {
    pool: Arc<Pool>,
    file: Arc<TestFile>,
    poison: Arc<Poison>,
    cleaner: Parker,
    metrics: Arc<Metrics>,
}

fn world(frames: usize) -> World {
    world_with(frames, Box::new(RefuseDamage { path: PathBuf::from(PATH) }))
}

fn world_with(frames: usize, hook: Box<dyn ReadHook>) -> World {
    let metrics = Arc::new(Metrics::new());
    let (file, poison, cleaner) = (Arc::<TestFile>::default(), Arc::new(Poison::default()), Parker::new());
    let pool = Pool::new(PoolOptions {
        frames,
        frames_most: 8 * frames,
        reads_ahead: true,
        file: PageFile::of_test(Arc::clone(&file) as _, Path::new(PATH), PAGE, &metrics),
        hook,
        cleaner: cleaner.unparker(),
        poison: Arc::clone(&poison),
        metrics: Arc::clone(&metrics),
        clock: vfs::Vfs::os().clock,
    });
    World { pool: Arc::new(pool.unwrap()), file, poison, cleaner, metrics }
}

impl World {
    fn fetch(&self, page: u32) -> Pin<'_> {
        self.pool.fetch(PageNo(page)).unwrap()
    }

    /// Changes a page with a group that starts at `lsn`.
    fn dirty(&self, page: u32, lsn: u64) {
        change(&self.pool, page, || lsn);
    }

    /// Writes a page to the file, as the cleaner does.
    fn clean(&self, page: u32) {
        clean(&self.pool, &self.file, PageNo(page));
    }

    fn dirty_order(&self) -> Vec<(u32, u64)> {
        let oldest = self.pool.oldest_dirty(Lsn(u64::MAX), usize::MAX);
        oldest.into_iter().map(|(page, lsn)| (page.0, lsn.0)).collect()
    }
}

/// Changes a page. `lsn` is called under the latch, as in a mini-transaction: the changes of one
/// page are in the order of the log.
fn change(pool: &Pool, page: u32, lsn: impl FnOnce() -> u64) {
    let mut page = pool.fetch(PageNo(page)).unwrap().write();
    let lsn = lsn();
    pool.mark_dirty(&page, Lsn(lsn), Lsn(lsn));
    header::set_lsn(&mut page, Lsn(lsn));
    let n = get_u64(&page, COUNTER);
    set_u64(&mut page, COUNTER, n + 1);
}

fn clean(pool: &Pool, file: &TestFile, page: PageNo) -> bool {
    let mut copy = vec![0; PAGE];
    let Some(ticket) = pool.copy_for_flush(page, &mut copy) else { return false };
    set_checksum(&mut copy, page);
    file.put(page, copy);
    pool.flushed(vec![ticket]);
    true
}

#[test]
fn threads_that_fetch_the_same_page_read_it_once() {
    let w = world(16);
    w.file.hold_reads(true);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let pool = Arc::clone(&w.pool);
            let work = move || header::page_no(&pool.fetch(PageNo(5)).unwrap().read());
            spawn("fetch", work).unwrap()
        })
        .collect();
    let mut spins = 0;
    while w.file.reads() == 0 {
        spin(&mut spins);
    }
    w.file.hold_reads(false);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), PageNo(5));
    }
    assert_eq!(w.file.reads(), 1);
    assert_eq!(w.pool.free_frames(), 15);
}

#[test]
fn a_failed_read_leaves_no_page_and_no_used_frame() {
    let w = world(4);
    w.file.fail_reads(true);
    for _ in 0..10 {
        let error = w.pool.fetch(PageNo(7)).unwrap_err();
        assert!(
            matches!(&error, Error::Io { op: "read", .. }) && error.to_string().contains(PATH),
            "{error}"
        );
        let error = fetch_many(&w.pool, &[PageNo(7), PageNo(8)], FetchHint::Normal).unwrap_err();
        assert!(error.to_string().contains(PATH), "{error}");
        assert!(w.pool.try_pin(PageNo(7)).is_none() && w.pool.free_frames() == 4);
    }
    w.file.fail_reads(false);
    w.file.damage(PageNo(7));
    let error = w.pool.fetch(PageNo(7)).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what, .. } if what.contains('7')), "{error}");
    let error = fetch_many(&w.pool, &[PageNo(6), PageNo(7), PageNo(8)], FetchHint::Normal).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(w.pool.try_pin(PageNo(6)).is_some() && w.pool.try_pin(PageNo(8)).is_some());
    assert!(w.pool.try_pin(PageNo(7)).is_none() && w.pool.free_frames() == 2);
    w.file.damage(PageNo(7)); // back again
    assert_eq!(header::page_no(&w.fetch(7).read()), PageNo(7));
}

/// Threads that wait for another thread's read try it themselves when it fails, and each gets the
/// error.
#[test]
fn threads_that_wait_for_a_failed_read_get_its_error() {
    let w = world(8);
    w.file.hold_reads(true);
    w.file.fail_reads(true);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let pool = Arc::clone(&w.pool);
            spawn("fetch", move || pool.fetch(PageNo(5)).is_err()).unwrap()
        })
        .collect();
    w.file.hold_reads(false);
    assert!(threads.into_iter().all(|t| t.join().unwrap()));
    assert_eq!(w.pool.free_frames(), 8);
}

#[test]
fn shared_latches_coexist_and_exclude_the_exclusive_latch() {
    let w = world(4);
    let fetch = || w.pool.try_pin(PageNo(1)).expect("in memory");
    let (a, b) = (w.fetch(1).read(), fetch().read());
    let pin = fetch().try_write().expect_err("it is being read");
    drop(a);
    let pin = pin.try_write().expect_err("one reader is left");
    drop(b);
    let write = pin.try_write().expect("no reader is left");
    assert!(fetch().try_read().is_err() && fetch().try_write().is_err());
    let pin = write.unlatch();
    assert!(pin.try_read().is_ok());
}

#[test]
fn pinned_latched_dirty_and_written_pages_are_not_evicted() {
    let w = world(6);
    let pinned = w.fetch(0);
    let latched = w.fetch(1);
    w.dirty(2, 10);
    w.dirty(3, 20);
    let mut copy = vec![0; PAGE];
    let ticket = w.pool.copy_for_flush(PageNo(3), &mut copy).unwrap();
    let (latched, pool) = (latched.write(), &w.pool);
    std::thread::scope(|scope| {
        scope.spawn(|| (10..40).for_each(|page| drop(pool.fetch(PageNo(page)).unwrap())));
    });
    // Two frames were enough for all the others.
    assert_eq!(w.file.reads(), 4 + 30);
    for page in 0..4 {
        assert!(w.pool.try_pin(PageNo(page)).is_some(), "page {page} is gone");
    }
    let swept = w.pool.sweep(6, 6);
    assert!(swept.dirty == [PageNo(2)] && swept.freed <= 2, "{swept:?}");
    drop((pinned, latched));
    w.pool.flushed(vec![ticket]);
    w.clean(2);
    let freed: usize = (0..2).map(|_| w.pool.sweep(6, 6).freed).sum();
    assert_eq!((swept.freed + freed, w.pool.free_frames()), (6, 6));
}

#[test]
fn a_page_that_was_used_again_gets_a_second_chance() {
    let w = world(8);
    for page in 0..8 {
        drop(w.fetch(page));
    }
    // To find the first frame the hand makes a round that clears all reference bits.
    drop(w.fetch(100));
    for page in 1..8 {
        if page != 4 {
            assert!(w.pool.resident_state(PageNo(page)).is_some());
        }
    }
    drop(w.fetch(4));
    for page in 101..107 {
        drop(w.fetch(page));
    }
    assert!(w.pool.resident_state(PageNo(4)).is_some(), "it was used since the hand came by");
    let others = (1..8).filter(|p| w.pool.resident_state(PageNo(*p)).is_some()).count();
    assert_eq!(others, 1);
}

#[test]
fn a_long_scan_evicts_no_pages_of_others() {
    let w = world(64);
    for page in 0..40 {
        drop(w.fetch(page));
    }
    for page in 1000..3000 {
        drop(w.pool.fetch_with(PageNo(page), FetchHint::Scan).unwrap());
    }
    let kept = (0..40).filter(|p| w.pool.resident_state(PageNo(*p)).is_some()).count();
    assert_eq!(kept, 40);
}

#[test]
fn dirty_pages_are_ordered_by_their_oldest_change() {
    let w = world(8);
    for (page, lsn) in [(1, 30), (2, 10), (3, 20), (2, 50)] {
        w.dirty(page, lsn);
    }
    assert_eq!(w.dirty_order(), [(2, 10), (3, 20), (1, 30)]);
    assert_eq!(w.pool.min_first_dirty(), Some(Lsn(10)));
    assert_eq!(w.pool.oldest_dirty(Lsn(30), 9).len(), 2, "below the given LSN only");
    for page in [2, 3, 1] {
        w.clean(page);
    }
    assert_eq!((w.pool.min_first_dirty(), w.pool.dirty_pages()), (None, 0));
    assert!(!clean(&w.pool, &w.file, PageNo(2)), "a clean page is not copied");
}

/// The file does not have the old change until the copy is synced, and not the new one afterwards.
/// Both hold the checkpoint back.
#[test]
fn a_change_during_a_write_has_its_own_first_dirty_lsn() {
    let w = world(8);
    w.dirty(1, 10);
    w.dirty(2, 20);
    let mut copy = vec![0; PAGE];
    let ticket = w.pool.copy_for_flush(PageNo(1), &mut copy).unwrap();
    assert_eq!((ticket.first_dirty, get_u64(&copy, COUNTER)), (Lsn(10), 1));
    assert_eq!(w.pool.min_first_dirty(), Some(Lsn(10)), "the copy is not synced yet");
    w.dirty(1, 40);
    assert_eq!(get_u64(&copy, COUNTER), 1);
    assert_eq!(w.dirty_order(), [(2, 20)], "no page is in two batches");
    assert!(w.pool.copy_for_flush(PageNo(1), &mut copy).is_none());
    w.pool.flushed(vec![ticket]);
    assert_eq!(w.dirty_order(), [(2, 20), (1, 40)]);
    assert_eq!(w.pool.min_first_dirty(), Some(Lsn(20)));
}

#[test]
fn a_page_latched_for_writing_is_not_copied() {
    let w = world(8);
    w.dirty(1, 10);
    let held = w.fetch(1).write();
    assert!(!clean(&w.pool, &w.file, PageNo(1)));
    drop(held);
    let shared = w.fetch(1).read();
    assert!(clean(&w.pool, &w.file, PageNo(1)), "a shared latch allows a copy");
    drop(shared);
}

/// A thread that finds no frame waits and holds nothing. The cleaner is woken, and each freed frame
/// serves one thread.
#[test]
fn threads_that_wait_for_frames_hold_nothing_and_all_get_one() {
    const WAITERS: u32 = 5;
    let w = world(8);
    let mut pins: Vec<_> = (0..8).map(|page| w.fetch(page)).collect();
    while w.cleaner.park_for(std::time::Duration::ZERO) {}
    let served = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..WAITERS)
        .map(|n| {
            let (pool, served) = (Arc::clone(&w.pool), Arc::clone(&served));
            let work = move || {
                let page = pool.fetch(PageNo(100 + n)).unwrap().read();
                served.fetch_add(1, Ordering::SeqCst);
                header::page_no(&page).0
            };
            spawn("waiter", work).unwrap()
        })
        .collect();
    let mut spins = 0;
    while w.pool.frame_waiters() < WAITERS as usize {
        spin(&mut spins);
    }
    assert!(w.cleaner.park_for(std::time::Duration::ZERO), "the cleaner was not woken");
    for page in 0..8 {
        assert!(w.fetch(page).try_write().is_ok(), "a waiter holds a latch");
    }
    assert_eq!(served.load(Ordering::SeqCst), 0);
    for n in 1..=WAITERS {
        pins.pop();
        // Earlier waiters may have released their frames by now, and those serve as well.
        while w.pool.sweep(8, 1).freed == 0 && served.load(Ordering::SeqCst) < u64::from(n) {
            spin(&mut spins);
        }
        while served.load(Ordering::SeqCst) < u64::from(n) {
            spin(&mut spins);
        }
    }
    for (n, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), 100 + n as u32);
    }
    assert!(w.metrics.get(M::FreeFrameWaits) >= u64::from(WAITERS));
}

#[test]
fn a_thread_of_the_engine_gets_a_frame_before_callers_that_came_earlier() {
    let w = world(2);
    let mut pins = vec![w.fetch(0), w.fetch(1)];
    // Keeps its page, and so the frame, until it is joined.
    let fetch = |page| {
        let pool = Arc::clone(&w.pool);
        move || pool.fetch(PageNo(page)).map(std::mem::forget).unwrap()
    };
    let mut spins = 0;
    let callers: Vec<_> = (10..13).map(|page| spawn("caller", fetch(page)).unwrap()).collect();
    while w.pool.frame_waiters() < 3 {
        spin(&mut spins);
    }
    let engine = crate::role::spawn_engine("engine", fetch(20)).unwrap();
    while w.pool.engine_frame_waiters() == 0 {
        spin(&mut spins);
    }
    pins.pop();
    assert_eq!(w.pool.sweep(2, 2).freed, 1);
    engine.join().unwrap();
    assert!(w.pool.holds(PageNo(20)), "the engine's page came first");
    assert_eq!((w.pool.frame_waiters(), w.pool.engine_frame_waiters()), (3, 0));
    // The next frame is for a caller again.
    pins.pop();
    assert_eq!(w.pool.sweep(2, 2).freed, 1);
    while w.pool.frame_waiters() == 3 {
        spin(&mut spins);
    }
    w.poison.set(Error::Misuse("the end".into()));
    w.pool.wake_frame_waiters();
    let served = callers.into_iter().map(|thread| thread.join()).filter(Result::is_ok).count();
    assert_eq!(served, 1);
}

#[test]
fn a_thread_that_waits_for_a_frame_learns_that_the_database_is_poisoned() {
    let w = world(2);
    let pins = [w.fetch(0), w.fetch(1)];
    let pool = Arc::clone(&w.pool);
    let waiter = spawn("waiter", move || pool.fetch(PageNo(9)).map(drop)).unwrap();
    let mut spins = 0;
    while w.pool.frame_waiters() == 0 {
        spin(&mut spins);
    }
    w.poison.set(Error::Misuse("the first failure".into()));
    w.pool.wake_frame_waiters();
    let error = waiter.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("the first failure"), "{error}");
    drop(pins);
}

#[test]
fn the_cleaner_is_woken_when_half_of_the_reserve_is_used() {
    let w = world(32);
    w.pool.set_free_reserve(16);
    for page in 0..23 {
        drop(w.fetch(page));
    }
    assert!(!w.cleaner.park_for(std::time::Duration::ZERO), "9 are free");
    drop(w.fetch(23));
    assert!(w.cleaner.park_for(std::time::Duration::ZERO), "8 are free");
}

/// Starts a thread that sweeps and cleans until it is told to stop.
fn start_cleaner(w: &World, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (pool, file, stop) = (Arc::clone(&w.pool), Arc::clone(&w.file), Arc::clone(stop));
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            for page in pool.sweep(4, 8).dirty {
                clean(&pool, &file, page);
            }
            pool.sweep(4, 1);
            std::thread::yield_now();
        }
    };
    spawn("cleaner", work).unwrap()
}

/// Cleans all pages, and returns how many changes are in them.
fn count_changes(w: &World, pages: u32) -> u64 {
    let of_page = |page| {
        let n = get_u64(&w.fetch(page).read(), COUNTER);
        w.clean(page);
        n
    };
    (0..pages).map(of_page).sum()
}

/// Eight threads use twelve times as many pages as there are frames, with one cleaner. No change is
/// lost, and no thread waits for ever.
#[test]
fn no_change_is_lost_in_a_pool_much_smaller_than_the_data() {
    const FRAMES: usize = 16;
    const PAGES: u64 = 200;
    const CHANGES: u64 = 2_000;
    let w = world(FRAMES);
    w.pool.set_free_reserve(4);
    let (lsn, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let (pool, lsn) = (Arc::clone(&w.pool), Arc::clone(&lsn));
            let work = move || {
                let mut rng = Prng::new(seed);
                for _ in 0..CHANGES {
                    let page = rng.below(PAGES) as u32;
                    if rng.one_in(2) {
                        change(&pool, page, || lsn.fetch_add(1, Ordering::Relaxed));
                    } else {
                        let page = PageNo(page);
                        assert_eq!(header::page_no(&pool.fetch(page).unwrap().read()), page);
                    }
                }
            };
            spawn("user", work).unwrap()
        })
        .collect();
    let cleaner = start_cleaner(&w, &stop);
    threads.into_iter().for_each(|t| t.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    cleaner.join().unwrap();
    assert_eq!(count_changes(&w, PAGES as u32), lsn.load(Ordering::Relaxed) - 1);
    assert!(w.metrics.get(M::FrameEvictions) > 100);
    assert_eq!((w.pool.dirty_pages(), w.pool.writing_pages()), (0, 0));
}

/// As many threads as frames take one frame each, and then two more. The first step ends when every
/// thread has a frame or waits to be a holder. (Once all of them had one, and no frame was left.)
#[test]
fn holders_of_frames_never_use_up_the_pool() {
    const FRAMES: usize = 32;
    let w = world(FRAMES);
    let (told, ended) = std::sync::mpsc::channel();
    let have = Arc::new(AtomicU64::new(0));
    for n in 0..FRAMES {
        let (pool, have, told) = (Arc::clone(&w.pool), Arc::clone(&have), told.clone());
        std::thread::spawn(move || {
            let holder = pool.hold_frames().unwrap();
            let first = holder.take_frame().unwrap();
            have.fetch_add(1, Ordering::SeqCst);
            while (have.load(Ordering::SeqCst) as usize) + pool.waiting_to_hold() < FRAMES {
                std::thread::yield_now();
            }
            let second = holder.take_frame().unwrap();
            // A page that is not in memory.
            drop(pool.fetch(PageNo(n as u32)).unwrap().read());
            drop((first, second, holder));
            told.send(()).unwrap();
        });
    }
    for n in 0..FRAMES {
        let hangs = |_| panic!("{n} of {FRAMES} threads have ended");
        ended.recv_timeout(std::time::Duration::from_secs(60)).unwrap_or_else(hangs);
    }
    assert_eq!(w.pool.waiting_to_hold(), 0);
    drop(w.pool.hold_frames().unwrap());
    // Poison ends the wait.
    let all: Vec<_> = (0..FRAMES / 8).map(|_| w.pool.hold_frames().unwrap()).collect();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| w.pool.hold_frames().map(drop));
        while w.pool.waiting_to_hold() == 0 {
            std::thread::yield_now();
        }
        w.poison.set(Error::Closed);
        w.pool.wake_frame_waiters();
        assert!(waits.join().unwrap().is_err());
    });
    drop(all);
}
