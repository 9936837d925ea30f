//! A reader waits for what it has seen and only the log knows, also while the first commit comes
//! that a coordinator has on record.

#[path = "../../crates/millpond/src/txn/on_record.rs"]
mod on_record;

use crate::model::model;
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread::spawn;
use on_record::{OnRecord, UnrecordedCommits};

/// Bytes of the log that a commit takes.
const GROUP: u64 = 10;

#[derive(Default)]
struct Log {
    reserved: AtomicU64,
    /// The newest commit that readers see, and the newest of those that no coordinator knows.
    seen: [AtomicU64; 2],
    unrecorded: UnrecordedCommits,
}

impl Log {
    fn commit(&self, on_record: OnRecord) {
        if on_record == OnRecord::Coordinator {
            self.unrecorded.count(|| Lsn(self.reserved.load(Ordering::SeqCst)));
        }
        let lsn = self.reserved.fetch_add(GROUP, Ordering::SeqCst) + GROUP;
        self.unrecorded.note(on_record, Lsn(lsn - 1));
        let [all, unknown] = &self.seen;
        all.fetch_max(lsn - 1, Ordering::SeqCst);
        if on_record == OnRecord::Nowhere {
            unknown.fetch_max(lsn - 1, Ordering::SeqCst);
        }
    }

    /// Whoever has seen a commit that only the log knows waits until the log is durable there.
    fn read(&self) {
        let [all, unknown] = &self.seen;
        let unknown = unknown.load(Ordering::SeqCst);
        let needed = self.unrecorded.needed(Lsn(all.load(Ordering::SeqCst)));
        assert!(needed.0 >= unknown, "the reader waits for {needed:?}, and has seen {unknown}");
    }
}

pub(crate) fn models() {
    use OnRecord::{Coordinator, Nowhere};
    for (name, commits) in [
        (
            "on record: a commit that only the log knows, and the first of a coordinator",
            [Nowhere, Coordinator],
        ),
        ("on record: the first two of coordinators", [Coordinator, Coordinator]),
    ] {
        model(name, 3, move || {
            let log = Arc::new(Log::default());
            let threads = commits.map(|on_record| {
                let log = Arc::clone(&log);
                spawn(move || {
                    log.commit(on_record);
                    log.commit(Nowhere);
                })
            });
            log.read();
            log.read();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            log.read();
        });
    }
}
