//! A committer that shares one core with threads that only spin.

use super::*;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps this thread, and all threads that it starts, on one core. So the engine's threads share it
/// with the spinning ones.
fn pin_to_one_core() {
    let may = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&core| may.is_set(core)).expect("a core to run on"));
    sched_setaffinity(None, &one).unwrap();
}

/// Stops the spinning threads, also if the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A committer, the cleaner and purge all make progress. No caller's thread writes a page, and
/// every acknowledged commit survives a power cut. (`millpond bench hogs` measures how fast.)
#[test]
fn two_spinning_threads_on_one_core_stop_no_engine_thread() {
    pin_to_one_core();
    let (disk, db, table) = fresh();
    let stop = AtomicBool::new(false);
    let mut kept = Rows::new();
    let mut rng = Prng::new(1);
    std::thread::scope(|scope| {
        let hogs = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Far more data than frames, and more redo than the log holds.
        for n in 0..12_000u32 {
            let key = (rng.below(3_000) as u32).to_be_bytes().to_vec();
            // Only few commits wait for the device, because each wait yields the core.
            let durability = if n.is_multiple_of(40) { Durability::Sync } else { Durability::None };
            let mut tx = db.begin_with(TxnOptions::new().durability(durability)).unwrap();
            if rng.one_in(5) {
                assert_eq!(tx.delete(&table, &key).unwrap(), kept.remove(&key).is_some());
            } else {
                let value = n.to_be_bytes().repeat(100);
                tx.put(&table, &key, &value).unwrap();
                kept.insert(key, value);
            }
            tx.commit().unwrap();
        }
        put(&db, &table, b"last", b"row");
        kept.insert(b"last".to_vec(), b"row".to_vec());
        let acknowledged = disk.op_count();
        purge_and_check(&db);
        drop(hogs);
        let figure = |name| db.metrics().get(name).unwrap();
        assert!(figure("pages_written") > 1_000.0 && figure("purge_rows") > 1_000.0);
        assert_eq!(figure("pages_written_foreground"), 0.0);
        let mut walk = disk.walk();
        while walk.at() < acknowledged && walk.step() {}
        assert!(all(&open(&walk.image(CrashChoice::None)), "t") == kept, "a commit was lost or made up");
    });
}
