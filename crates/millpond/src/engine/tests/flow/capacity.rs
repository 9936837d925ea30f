//! Changes of the redo capacity: growth, a full disk, a shrink under load.

use super::*;
use std::time::{Duration, Instant};

#[test]
fn a_growth_that_finds_the_disk_full_keeps_the_old_size() {
    let mut world = World::new(&options(4 * MIB, 4096), 20, 2000);
    let segments = |world: &World| world.engine.store.log.segments().count();
    world.engine.switches().set_redo_capacity(8 * MIB).unwrap();
    assert_eq!(segments(&world), 32);
    world.device.full.store(true, Ordering::Relaxed);
    let error = world.engine.switches().set_redo_capacity(16 * MIB).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(segments(&world), 32);
    assert_eq!(world.engine.metrics().value(M::RedoCapacityBytes), 8 * MIB);
    for _ in 0..20_000 {
        world.operation().unwrap();
    }
    world.device.full.store(false, Ordering::Relaxed);
    world.engine.switches().set_redo_capacity(16 * MIB).unwrap();
    assert_eq!(segments(&world), 64);
    assert!(matches!(world.engine.switches().set_redo_capacity(MIB / 2), Err(Error::Misuse(_))));
}

/// A log that was made longer under load wrote all its new files at once, as fast as the device
/// could: for a second there was a tenth of the commits.
#[test]
fn a_log_that_is_made_longer_leaves_the_device_to_others() {
    let world = World::new(&options(4 * MIB, 4096), 5000, 20);
    world.engine.switches().set_redo_capacity(2 * MIB).unwrap();
    let calls = world.engine.calls();
    // The caller, and one more.
    let _inside = [calls.enter(), calls.enter()];
    let files = world.engine.store.log.segments().count();
    let (simulated, real) = (world.now(), Instant::now());
    world.engine.switches().set_redo_capacity(8 * MIB).unwrap();
    assert!(world.engine.store.log.segments().count() > files + 10);
    let device = Duration::from_micros(world.now() - simulated);
    // The files take simulated time only, the pauses real time, three times as much.
    assert!(real.elapsed() >= device * 2, "{device:?} of the device in {:?}", real.elapsed());
}

/// A size that the user set while replay ran was forgotten at the end of replay: the log followed
/// the target of the options again.
#[test]
fn the_last_of_capacity_and_recovery_target_counts() {
    let mut options = options(4 * MIB, 4096);
    options.redo_capacity_bytes = None;
    options.recovery_target = Duration::from_secs(1);
    let world = World::new(&options, 20, 20);
    let log_size = world.log_size();
    let capacity = || world.engine.metrics().value(M::RedoCapacityBytes);
    let second = capacity();
    world.engine.switches().set_recovery_target(Duration::from_secs(4)).unwrap();
    assert!(capacity() > 3 * second, "{second} and then {}", capacity());
    assert!(matches!(world.engine.switches().set_recovery_target(Duration::ZERO), Err(Error::Misuse(_))));
    world.engine.switches().set_redo_capacity(8 * MIB).unwrap();
    log_size.follow_replay_rate(500_000_000);
    assert_eq!(capacity(), 8 * MIB);
    world.engine.switches().set_recovery_target(Duration::from_secs(1)).unwrap();
    let by_guess = capacity();
    log_size.follow_replay_rate(2_000_000_000);
    assert!(capacity() > 3 * by_guess, "{by_guess} and then {}", capacity());
}

/// A small database kept gigabytes of log because its recovery target allowed them.
#[test]
fn a_log_that_follows_a_target_is_no_longer_than_it_helps() {
    let mut options = options(4 * MIB, 4096);
    options.redo_capacity_bytes = None;
    options.recovery_target = Duration::from_secs(60);
    let mut world = World::new(&options, 20, 200);
    for _ in 0..2000 {
        world.operation().unwrap();
    }
    let level = |world: &World, metric| world.engine.metrics().value(metric);
    let allowed = |world: &World| world.log_size().room(world.now()).allowed;
    let helpful = level(&world, M::RedoHelpfulBytes);
    assert!(level(&world, M::RedoCapacityBytes) > 10 * helpful, "helpful: {helpful}");
    assert!((helpful / 2..=helpful).contains(&allowed(&world)), "{} of {helpful}", allowed(&world));
    // The user knows better.
    world.engine.switches().set_redo_capacity(1 << 30).unwrap();
    for _ in 0..2000 {
        world.operation().unwrap();
    }
    assert!(allowed(&world) > 1000 * MIB, "{}", allowed(&world));
    world.engine.switches().set_recovery_target(Duration::from_secs(60)).unwrap();
    assert!(allowed(&world) <= helpful, "{} of {helpful}", allowed(&world));
}

/// Files are made as needed. Where the disk has no space for more, the log works with those that it
/// has.
#[test]
fn a_log_that_finds_no_space_to_grow_keeps_its_size() {
    let mut world = World::new(&options(64 * MIB, 4096), 20, 200);
    let young = world.engine.store.log.segments().count();
    assert!(young < 16, "{young} files for a log that is hardly used");
    world.device.full.store(true, Ordering::Relaxed);
    for _ in 0..20_000 {
        world.operation().unwrap();
    }
    assert_eq!(world.engine.store.log.segments().count(), young);
    world.device.full.store(false, Ordering::Relaxed);
    world.device.time.pass(20_000_000);
    for _ in 0..20_000 {
        world.operation().unwrap();
    }
    assert!(world.engine.store.log.segments().count() > young);
}

#[test]
fn a_log_shrinks_without_delaying_writers() {
    let mut world = World::new(&options(16 * MIB, 8192), 20, 5000);
    let segments = |world: &World| world.engine.store.log.segments().count();
    while segments(&world) < 40 {
        world.operation().unwrap();
    }
    world.engine.switches().set_redo_capacity(4 * MIB).unwrap();
    let mut operations = 0;
    while segments(&world) > 16 {
        world.operation().unwrap();
        operations += 1;
        assert!(operations < 1_000_000, "{} files, age {}", segments(&world), world.age());
    }
    for _ in 0..50_000 {
        world.operation().unwrap();
        assert!(segments(&world) <= 16);
    }
}

/// Stops the writers, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Several threads write while the capacity goes up and down.
#[test]
fn the_capacity_can_change_while_threads_write() {
    let vfs = Vfs { disk: Arc::new(MemDisk::default()), clock: Vfs::os().clock };
    let engine = Engine::open(&vfs, Path::new(DIR), &options(4 * MIB, 4096)).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for id in 0..4 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut rng = Prng::new(id);
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let _admitted = engine.admission().admit(OP_BYTES).unwrap();
                    let (key, value) = row(rng.below(2000), round);
                    put(engine, tree, round, &key, &value).unwrap();
                }
            });
        }
        let _stop = Stop(&stop);
        let segments = engine.store.log.segments();
        for _ in 0..3 {
            engine.switches().set_redo_capacity(8 * MIB).unwrap();
            assert!(segments.count() >= 32);
            engine.switches().set_redo_capacity(2 * MIB).unwrap();
            // The limit is for a log that never shrinks, not for a slow machine.
            let begun = Instant::now();
            while segments.count() > 8 {
                std::thread::sleep(Duration::from_millis(1));
                assert!(begun.elapsed() < Duration::from_secs(60), "{} files", segments.count());
            }
        }
    });
    let check = tree.check(&engine.store).unwrap();
    assert!(check.problems.is_empty(), "{:?}", check.problems);
    engine.close().unwrap();
}
