//! The ring of the log: ranges never overlap, the published prefix never passes a range that is not
//! copied, and no range is lost when the slots are reused.

#[path = "../../crates/millpond/src/log/block.rs"]
mod block;
#[path = "../../crates/millpond/src/log/ring.rs"]
mod ring;

/// What the ring needs of groups.
mod group {
    pub(super) const GROUP_BYTES_MAX: usize = 96 << 10;
}

/// What the ring needs of the room that is taken.
mod room {
    pub(super) fn spared_of(capacity: u64) -> u64 {
        capacity / 2
    }
}

use crate::model::model;
use base::Lsn;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;
use ring::Ring;

pub(crate) fn models() {
    model("ring: two writers, one observer", 2, || {
        let ring = Arc::new(Ring::new(64, Lsn(0)));
        let copied: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)]);
        let threads = [0, 1].map(|me: usize| {
            let (ring, copied) = (Arc::clone(&ring), Arc::clone(&copied));
            spawn(move || {
                let range = ring.reserve(10 + me).expect("there is room");
                let (start, end) = (range.start, range.end);
                ring.copy(&range, &vec![me as u8; 10 + me]);
                copied[me].store(start.0, Ordering::Relaxed);
                ring.publish(range);
                (start, end)
            })
        });
        let seen = ring.published();
        // A thread that sees a published prefix sees that all of it was copied.
        let starts = [0, 1].map(|n| copied[n].load(Ordering::Relaxed));
        let below = starts.iter().filter(|start| **start < seen.0).count();
        assert!(seen == Lsn(0) || below >= 1, "{seen:?} published, {starts:?} copied");
        assert!(seen != Lsn(21) || below == 2);
        let mut ranges = threads.map(|t| t.join().unwrap());
        ranges.sort();
        assert!(ranges[0].0 == Lsn(0) && ranges[0].1 == ranges[1].0 && ranges[1].1 == Lsn(21));
        assert_eq!(ring.published(), Lsn(21));
    });
    model("ring: a seal among writers, with reused slots", 2, || {
        let ring = Arc::new(Ring::new(64, Lsn(0)));
        for _ in 0..7 {
            let range = ring.reserve(1).expect("there is room");
            ring.copy(&range, &[1]);
            ring.publish(range);
        }
        let writer = {
            let ring = Arc::clone(&ring);
            spawn(move || {
                for _ in 0..2 {
                    let range = ring.reserve(5).expect("there is room");
                    ring.copy(&range, &[2; 5]);
                    ring.publish(range);
                }
            })
        };
        let seal = ring.seal().expect("there is room");
        assert_eq!(seal.end, block::block_start(1));
        writer.join().unwrap();
        assert_eq!(ring.published(), ring.reserved());
        assert!(ring.published() >= seal.end);
    });
}
