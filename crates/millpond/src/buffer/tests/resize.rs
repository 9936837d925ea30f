//! A pool that gets another size while threads use it.

use super::super::resize::{Shrink, ShrinkStep, grow};
use super::*;
use std::time::Duration;

/// Takes all steps of a shrink. Panics if it cannot end.
fn shrink(w: &World, frames: usize) {
    let mut shrink = Shrink::begin(&w.pool, frames);
    for _ in 0..10_000 {
        match shrink.step(4) {
            ShrinkStep::Done => return,
            ShrinkStep::Left { dirty, .. } => dirty.into_iter().for_each(|page| w.clean(page.0)),
        }
    }
    panic!("the shrink did not end");
}

fn left(shrink: &mut Shrink<'_>) -> (usize, Vec<u32>) {
    match shrink.step(9) {
        ShrinkStep::Done => (0, Vec::new()),
        ShrinkStep::Left { count, dirty } => (count, dirty.iter().map(|page| page.0).collect()),
    }
}

#[test]
fn a_pool_grows_and_keeps_its_pages_and_shrinks_to_fewer() {
    let w = world(16);
    (0..16).for_each(|page| drop(w.fetch(page)));
    grow(&w.pool, 100).unwrap();
    assert_eq!((w.pool.frame_count(), w.pool.free_frames()), (100, 84));
    (0..100).for_each(|page| drop(w.fetch(page)));
    assert_eq!((w.file.reads(), w.metrics.get(M::FrameEvictions)), (100, 0));
    let beside = w.pool.overhead();
    shrink(&w, 10);
    assert_eq!((w.pool.frame_count(), w.pool.free_frames()), (10, 0));
    assert_eq!(w.metrics.get(M::FrameEvictions), 90);
    assert!(w.pool.overhead() < beside && w.pool.overhead() > 100 * 64, "control blocks stay");
    (0..100).for_each(|page| assert_eq!(header::page_no(&w.fetch(page).read()), PageNo(page)));
    grow(&w.pool, 100).unwrap();
    assert_eq!(w.pool.free_frames(), 90);
    assert_eq!(w.pool.overhead(), beside);
    (0..100).for_each(|page| assert_eq!(header::page_no(&w.fetch(page).read()), PageNo(page)));
}

#[test]
fn a_pool_grows_no_further_than_its_addresses() {
    let w = world(16);
    let error = grow(&w.pool, 129).unwrap_err();
    let what = "the buffer pool can have at most 524288 bytes until the database is opened again";
    assert_eq!(error.to_string(), what);
    grow(&w.pool, 128).unwrap();
}

#[test]
fn a_shrink_names_dirty_pages_and_keeps_them_until_they_are_written() {
    let w = world(16);
    (0..16).for_each(|page| w.dirty(page, 1 + u64::from(page)));
    let mut shrink = Shrink::begin(&w.pool, 8);
    let (count, mut dirty) = left(&mut shrink);
    assert_eq!((count, dirty.len()), (8, 8), "{dirty:?}");
    assert_eq!(w.file.reads(), 16);
    // One is changed again while its copy is being written.
    let again = dirty.pop().unwrap();
    let mut copy = vec![0; PAGE];
    let ticket = w.pool.copy_for_flush(PageNo(again), &mut copy).unwrap();
    w.dirty(again, 50);
    dirty.iter().for_each(|page| w.clean(*page));
    assert_eq!(left(&mut shrink), (1, vec![]), "its copy is under way");
    w.pool.flushed(vec![ticket]);
    assert_eq!(left(&mut shrink), (1, vec![again]));
    w.clean(again);
    assert_eq!(left(&mut shrink), (0, vec![]));
    for page in 0..16 {
        let changes = if page == again { 2 } else { 1 };
        assert_eq!(get_u64(&w.fetch(page).read(), COUNTER), changes, "page {page}");
        w.clean(page);
    }
}

#[test]
fn a_shrink_that_cannot_end_leaves_the_pool_as_it_was() {
    let w = world(16);
    let mut pins: Vec<_> = (0..16).map(|page| w.fetch(page)).collect();
    let mut shrink = Shrink::begin(&w.pool, 8);
    assert_eq!((left(&mut shrink).0, left(&mut shrink).0), (8, 8));
    // The frames are given out in the order of their numbers: these four can leave.
    pins.truncate(12);
    assert_eq!(left(&mut shrink).0, 4);
    assert_eq!((w.pool.frame_count(), w.pool.free_frames()), (8, 0));
    drop(shrink);
    assert_eq!((w.pool.frame_count(), w.pool.free_frames()), (16, 4));
    drop(pins);
    (0..16).for_each(|page| drop(w.fetch(page)));
    assert_eq!((w.file.reads(), w.pool.free_frames()), (20, 0), "four were evicted");
    shrink_beside(&w, 8);
}

#[test]
fn holders_that_came_before_a_shrink_end_first_and_fewer_come_after() {
    let w = world(32);
    let holders: Vec<_> = (0..4).map(|_| w.pool.hold_frames().unwrap()).collect();
    let mut shrink = Shrink::begin(&w.pool, 8);
    assert_eq!(left(&mut shrink), (4, vec![]));
    assert_eq!(w.pool.free_frames(), 32, "no frame goes before");
    let later = w.pool.hold_frames().unwrap();
    let pool = Arc::clone(&w.pool);
    let one_more = spawn("holder", move || drop(pool.hold_frames().unwrap())).unwrap();
    let mut spins = 0;
    while w.pool.waiting_to_hold() == 0 {
        spin(&mut spins);
    }
    drop(holders);
    assert_eq!(left(&mut shrink), (0, vec![]), "the later one came under the new size");
    assert_eq!(w.pool.waiting_to_hold(), 1);
    drop(later);
    one_more.join().unwrap();
    grow(&w.pool, 32).unwrap();
    drop((0..4).map(|_| w.pool.hold_frames().unwrap()).collect::<Vec<_>>());
}

#[test]
fn a_wait_of_a_shrink_ends_early_if_the_database_is_poisoned() {
    let w = world(16);
    w.poison.set(Error::Closed);
    Shrink::begin(&w.pool, 8).wait(Duration::from_secs(3600));
}

/// Four threads change pages, one scans, and a cleaner writes, while the pool gets another size a
/// hundred times. No change is lost, and no thread waits for ever.
#[test]
fn no_change_is_lost_while_the_pool_gets_other_sizes() {
    const PAGES: u64 = 400;
    let w = world(64);
    w.pool.set_free_reserve(4);
    let (lsn, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    let clean_no_more = Arc::new(AtomicBool::new(false));
    let user = |seed: u64| {
        let (pool, lsn, stop) = (Arc::clone(&w.pool), Arc::clone(&lsn), Arc::clone(&stop));
        let work = move || {
            let mut rng = Prng::new(seed);
            while !stop.load(Ordering::Relaxed) {
                let page = rng.below(PAGES) as u32;
                match rng.below(8) {
                    0 => {
                        let holder = pool.hold_frames().unwrap();
                        drop((holder.take_frame().unwrap(), holder.take_frame().unwrap()));
                    }
                    1..4 => change(&pool, page, || lsn.fetch_add(1, Ordering::Relaxed)),
                    _ => {
                        let hint = if seed == 0 { FetchHint::Scan } else { FetchHint::Normal };
                        let page = PageNo(page);
                        assert_eq!(header::page_no(&pool.fetch_with(page, hint).unwrap().read()), page);
                    }
                }
            }
        };
        spawn("user", work).unwrap()
    };
    let users: Vec<_> = (0..5).map(user).collect();
    let cleaner = start_cleaner(&w, &clean_no_more);
    let mut rng = Prng::new(7);
    for _ in 0..100 {
        let frames = rng.between(9, 500) as usize;
        match frames.cmp(&w.pool.frame_count()) {
            std::cmp::Ordering::Less => shrink_beside(&w, frames),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => grow(&w.pool, frames).unwrap(),
        }
    }
    stop.store(true, Ordering::Relaxed);
    users.into_iter().for_each(|thread| thread.join().unwrap());
    clean_no_more.store(true, Ordering::Relaxed);
    cleaner.join().unwrap();
    assert_eq!(count_changes(&w, PAGES as u32), lsn.load(Ordering::Relaxed) - 1);
    assert_eq!((w.pool.dirty_pages(), w.pool.writing_pages()), (0, 0));
}

/// Takes the steps of a shrink while other threads use the pool.
fn shrink_beside(w: &World, frames: usize) {
    let mut shrink = Shrink::begin(&w.pool, frames);
    loop {
        match shrink.step(16) {
            ShrinkStep::Done => return,
            ShrinkStep::Left { dirty, .. } => {
                for page in dirty {
                    clean(&w.pool, &w.file, page);
                }
                shrink.wait(Duration::from_millis(1));
            }
        }
    }
}
