//! The latch: exclusion, visibility, and no lost wake-up. A sleeper that is never woken is a
//! deadlock to loom.

#[path = "../../crates/millpond/src/buffer/latch.rs"]
mod latch;

use crate::model::model;
use crate::watched::Watched;
use latch::Latch;
use loom::sync::Arc;
use loom::thread::spawn;

struct Guarded {
    latch: Latch,
    value: Watched,
}

fn guarded() -> Arc<Guarded> {
    Arc::new(Guarded { latch: Latch::new(), value: Watched::default() })
}

fn write(g: &Guarded) {
    g.latch.write();
    g.value.change();
    g.latch.release_write();
}

fn read(g: &Guarded) -> u64 {
    g.latch.read();
    let value = g.value.read();
    g.latch.release_read();
    value
}

pub(crate) fn models() {
    latch_models();
    root_models();
}

fn latch_models() {
    model("latch: three writers", 2, || {
        let g = guarded();
        let threads = [0, 1].map(|_| {
            let g = Arc::clone(&g);
            spawn(move || write(&g))
        });
        write(&g);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(read(&g), 3);
    });
    model("latch: two writers and a reader", 2, || {
        let g = guarded();
        let threads = [0, 1].map(|_| {
            let g = Arc::clone(&g);
            spawn(move || write(&g))
        });
        assert!(read(&g) <= 2);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(read(&g), 2);
    });
    model("latch: two readers and a writer", 2, || {
        let g = guarded();
        let threads = [0, 1].map(|_| {
            let g = Arc::clone(&g);
            spawn(move || read(&g))
        });
        write(&g);
        let seen: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert!(seen <= 2 && read(&g) == 1);
    });
    model("latch: a try-latch never waits and never breaks exclusion", 3, || {
        let g = guarded();
        let other = {
            let g = Arc::clone(&g);
            spawn(move || write(&g))
        };
        if g.latch.try_write() {
            g.value.change();
            g.latch.release_write();
        }
        if g.latch.try_read() {
            assert!(g.value.read() <= 2);
            g.latch.release_read();
        }
        other.join().unwrap();
    });
}

fn root_models() {
    model("latch: below an unchanged root no reader finds a freed page", 3, || {
        let (root, child) = (guarded(), guarded());
        let stamp = root.latch.version();
        let merger = {
            let (root, child) = (Arc::clone(&root), Arc::clone(&child));
            spawn(move || {
                // Removes the child from the root, under both latches. The next thread that changes
                // the freed page latches that page alone.
                root.latch.write();
                write(&child);
                root.latch.release_write();
            })
        };
        // With a copy of the root: read the child first, then check that the root is as it was
        // copied.
        child.latch.read();
        let freed = child.value.read() > 0;
        if root.latch.version() == stamp {
            assert!(!freed, "the child is gone and the root seems unchanged");
        }
        child.latch.release_read();
        merger.join().unwrap();
    });
}
