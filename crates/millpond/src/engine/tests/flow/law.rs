//! InnoDB's law in the engine (Fl8): writers are never delayed, they stop at the sync point, and a
//! round of page writes lets them go on.

use super::*;
use crate::options::{InnodbLaw, Law};
use pace::innodb::Server;
use pace::innodb::points::log_points;

/// What writers that never pause met.
#[derive(Debug, Default)]
struct Met {
    delayed: u64,
    stops: u64,
    age_max: u64,
}

/// Writers that never pause, on a device that is far too slow for them.
fn run(law: Law, operations: u64) -> (Met, World) {
    let options = options(8 * MIB, 8192).law(law);
    let mut world = World::new(&options, 200, 20_000);
    let mut met = Met::default();
    let mut done = 0;
    let mut stopped = false;
    while done < operations {
        match world.operation() {
            Some(held_us) => {
                done += 1;
                met.delayed += u64::from(held_us > 0);
                stopped = false;
            }
            None => {
                met.stops += u64::from(!stopped);
                stopped = true;
                world.device.time.pass(1000);
                world.clean();
            }
        }
        met.age_max = met.age_max.max(world.age());
    }
    (met, world)
}

#[test]
fn under_innodbs_law_writers_are_not_delayed_but_stopped() {
    let (met, _) = run(Law::Millpond, 60_000);
    assert!(met.delayed > 0 && met.stops == 0, "{met:?}");
    for (law, server) in [(InnodbLaw::mariadb(), Server::MariaDb1011), (InnodbLaw::mysql(), Server::MySql8)] {
        let (met, world) = run(Law::Innodb(law.io_capacity(100)), 60_000);
        assert!(met.delayed == 0 && met.stops > 0, "{met:?}");
        let capacity = world.log_size().room(world.now()).allowed;
        let sync = log_points(server, capacity).sync_age;
        assert!(met.age_max > sync - OP_BYTES && met.age_max < sync + 2 * OP_BYTES, "{sync}: {met:?}");
        let limits = world.log_size().update_limits(world.now());
        assert_eq!((limits.soft, limits.hard), (sync, sync));
        let check = world.tree.check(&world.engine.store).unwrap();
        assert!(check.problems.is_empty(), "{:?}", check.problems);
    }
}

/// The number of pages of a round is a setting. So is how long writers stop for one.
#[test]
fn a_larger_io_capacity_max_stops_writers_less_often_and_for_longer() {
    let law = |max| Law::Innodb(InnodbLaw::mysql().io_capacity(100).io_capacity_max(max));
    let ((small, _), (large, world)) = (run(law(100), 60_000), run(law(4000), 60_000));
    assert!(small.stops > 2 * large.stops && large.stops > 0, "{small:?} {large:?}");
    // The checkpoint moves at the end of a round, not after each of its batches.
    let (roots, batches) = (world.get(M::Checkpoints), world.get(M::PageBatches));
    assert!(roots * 10 < batches, "{roots} roots for {batches} batches");
}

/// Threads that need frames and room in the log, under both ways of supplying frames: all of them
/// come to an end.
#[test]
fn threads_finish_under_innodbs_law_in_a_tiny_pool_with_a_short_log() {
    for law in
        [InnodbLaw::mariadb(), InnodbLaw::mariadb().lru_flush_size(32), InnodbLaw::mysql().flush_neighbors(2)]
    {
        let vfs = Vfs { disk: Arc::new(MemDisk::default()), clock: Vfs::os().clock };
        let options = options(MIB, 64).law(Law::Innodb(law));
        let engine = Engine::open(&vfs, Path::new(DIR), &options).unwrap();
        std::thread::scope(|scope| {
            for id in 0..4 {
                let engine = &engine;
                scope.spawn(move || {
                    let tree = base::TreeId(TREE.0 + id);
                    let tree = Tree::create(&engine.store, tree).unwrap();
                    for round in 0..3000 {
                        let _admitted = engine.admission().admit(OP_BYTES).unwrap();
                        let (key, value) = row(round * 7919 % 1000, round);
                        put(engine, tree, round, &key, &value).unwrap();
                    }
                    let check = tree.check(&engine.store).unwrap();
                    assert!(check.problems.is_empty(), "{:?}", check.problems);
                });
            }
        });
        engine.close().unwrap();
    }
}

#[test]
fn settings_that_innodb_would_not_accept_are_refused() {
    for (law, word) in [
        (InnodbLaw::mariadb().io_capacity(99), "io_capacity of 99"),
        (InnodbLaw::mariadb().io_capacity_max(150), "io_capacity_max of 150"),
        (InnodbLaw::mysql().max_dirty_pages_pct(100.0), "max_dirty_pages_pct of 100"),
        (InnodbLaw::mysql().max_dirty_pages_pct_lwm(91.0), "max_dirty_pages_pct_lwm of 91"),
        (InnodbLaw::mysql().adaptive_flushing_lwm(80.0), "adaptive_flushing_lwm of 80"),
        (InnodbLaw::mysql().adaptive_flushing(false).lru_scan_depth(1), "lru_scan_depth of 1"),
        (InnodbLaw::mariadb().lru_flush_size(1536), "lru_flush_size of 1536"),
        (InnodbLaw::mariadb().flush_neighbors(3), "flush_neighbors of 3"),
    ] {
        let error = Options::new().law(Law::Innodb(law)).validate().unwrap_err();
        assert!(matches!(&error, Error::Misuse(what) if what.contains(word)), "{error}");
    }
}
