//! A log at rest has two files: what a checkpoint gives back, and what a burst after it finds.

use super::*;

/// A log at rest has two files. When writing starts, more files are made long before a writer is
/// delayed, also if the cleaner is late. Here each file exists only 1 MB of redo after the cleaner
/// was woken for it.
#[test]
fn a_burst_after_a_rest_is_not_delayed() {
    let mut options = options(256 * MIB, 16384);
    options.tuning.segment_blocks = 1024;
    let mut world = World::new(&options, 20, 5000);
    let files = |world: &World| world.engine.store.log.segments().count();
    for _ in 0..3 {
        world.engine.checkpoint().unwrap();
        assert_eq!(files(&world), 2);
        world.rest(400_000);
        let (mut woken_at, begun) = (None, world.age());
        while files(&world) < 8 {
            let age = world.age();
            assert_eq!(world.ask(), Answer::In(0), "at age {age}, with {} files", files(&world));
            assert!(age < begun + 40 * MIB, "{} files", files(&world));
            if !world.engine.admission.is_free(OP_BYTES) {
                woken_at.get_or_insert(age);
            }
            if woken_at.take_if(|at| age > *at + 1_000_000).is_some() {
                world.log_size().adjust(world.now()).unwrap();
            }
            let n = world.rng.below(world.rows);
            world.write(n);
        }
    }
}

/// The files that a checkpoint gives back count as gone at once, not at the cleaner's next step.
#[test]
fn after_a_checkpoint_admission_uses_the_files_that_are_left() {
    let mut world = World::new(&options(16 * MIB, 8192), 20, 5000);
    let files = |world: &World| world.engine.store.log.segments().count();
    while files(&world) < 40 {
        world.operation().unwrap();
    }
    world.clean();
    let before = world.get(M::CheckpointAgeLimit);
    world.engine.checkpoint().unwrap();
    assert_eq!(files(&world), 2);
    let mut let_in = 0;
    while matches!(world.ask(), Answer::In(_)) {
        let_in += OP_BYTES;
        world.write(let_in % world.rows);
        assert!(let_in < before, "more is let in than the files hold");
    }
    assert!(world.age() <= world.log_size().room(world.now()).existing, "age {}", world.age());
    world.rest(5_000_000);
    // While others write, the log keeps what they need for some seconds.
    while files(&world) < 40 {
        world.operation().unwrap();
    }
    let segment = world.engine.store.log.segments().block_bytes();
    world.writers().drain(Force::Shutdown).unwrap();
    world.checkpointer().advance(metrics::SyncReason::Checkpoint, false).unwrap();
    world.log_size().free_disk_space(10 * segment).unwrap();
    assert!((20..40).contains(&files(&world)), "{} files", files(&world));
}

/// Any thread may take a checkpoint, and only the cleaner recycles the files below it. As long as
/// it has not, those files are no room: writers that used it would outrun the log, and a flush that
/// must make a file on a full disk stops the database.
#[test]
fn files_below_a_checkpoint_are_no_room_before_they_are_recycled() {
    let mut world = World::new(&options(16 * MIB, 8192), 20, 5000);
    while world.engine.store.log.segments().count() < 40 {
        world.operation().unwrap();
    }
    world.writers().drain(Force::Shutdown).unwrap();
    world.checkpointer().advance(metrics::SyncReason::Checkpoint, false).unwrap();
    let segments = world.engine.store.log.segments();
    let (files, end) = (segments.count(), segments.end());
    assert!(segments.count_from(world.checkpointer().lsn()) < files / 2, "most can be recycled");
    let limits = world.log_size().update_limits(world.now());
    assert!(world.checkpointer().lsn().0 + limits.capacity <= end.0);
    let mut written = 0;
    while matches!(world.ask(), Answer::In(_)) {
        written += 1;
        world.write(written % world.rows);
    }
    world
        .engine
        .store
        .log
        .flush_to(Lsn(world.engine.store.log.reserved_lsn().0 - 1), metrics::SyncReason::Commit)
        .unwrap();
    assert_eq!(world.engine.store.log.segments().count(), files, "a flush made a file");
    assert!(written > 0);
    world.rest(5_000_000);
    assert!(world.log_size().update_limits(world.now()).capacity > limits.capacity, "they are recycled");
}
