//! What readers rely on while others commit, purge and settle: the status of a transaction only
//! moves forward, the horizon never passes a live snapshot, and what a snapshot needs is not
//! purged.

#[path = "../../crates/millpond/src/mvcc/purge.rs"]
mod purge;
#[path = "../../crates/millpond/src/mvcc/snapshot.rs"]
mod snapshot;
#[path = "../../crates/millpond/src/mvcc/status.rs"]
mod status;
#[path = "../../crates/millpond/src/mvcc/visible.rs"]
mod visible;

use crate::model::model;
use crate::undo::Stream;
use crate::watched::Watched;
use base::sync::atomic::AtomicU64;
use base::sync::{set_thread_number, spin};
use base::{Lsn, TxnId};
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread::spawn;
use purge::{EndedTxn, PurgeDue, PurgeQueue};
use snapshot::Snapshots;
use status::{StatusTable, TxnState};
use visible::{Sight, sight};

fn rank(state: TxnState) -> u32 {
    match state {
        TxnState::Active => 0,
        TxnState::Committing => 1,
        TxnState::Committed(_) => 2,
        _ => 3,
    }
}

/// The source of commit LSNs: the reservation point of the log and its durable LSN.
struct Log {
    reserved: AtomicU64,
    durable: AtomicU64,
}

impl Log {
    fn reserved(&self) -> Lsn {
        Lsn(self.reserved.load(Ordering::SeqCst))
    }
}

/// Transactions that each put a new version on top of an old one. `old[n]` is the version that
/// transaction `n + 1` replaced, as the undo of the page keeps it.
struct Rows {
    log: Log,
    status: StatusTable,
    snapshots: Snapshots,
    queue: PurgeQueue,
    known_due: AtomicU64,
    /// How often each old version was purged.
    old: Vec<Watched>,
}

impl Rows {
    fn new(txns: usize) -> Arc<Rows> {
        let log = Log { reserved: AtomicU64::new(10), durable: AtomicU64::new(10) };
        let status = StatusTable::new(TxnId(1), []);
        (0..txns).for_each(|_| {
            status.begin();
        });
        let old = (0..txns).map(|_| Watched::default()).collect();
        let (snapshots, queue) = (Snapshots::default(), PurgeQueue::default());
        Arc::new(Rows { log, status, snapshots, queue, known_due: AtomicU64::new(0), old })
    }

    /// As `Commits::record_commit`.
    fn commit(&self, txn: TxnId) {
        self.status.set(txn, TxnState::Committing);
        let lsn = Lsn(self.log.reserved.fetch_add(10, Ordering::SeqCst));
        self.status.set(txn, TxnState::Committed(lsn));
        let due = Lsn(self.known_due.load(Ordering::Acquire));
        let ended = EndedTxn { txn, stream: std::sync::Arc::new(Stream), committed: true };
        self.queue.exchange(lsn, ended, due).into_iter().for_each(|ended| self.finish(&ended));
    }

    /// REQUIRES: no other thread has this transaction, and no reader needs the old version any
    /// more.
    fn finish(&self, ended: &EndedTxn) {
        self.old[ended.txn.0 as usize - 1].change();
        self.status.set(ended.txn, TxnState::Settled);
    }

    /// A flush: all that is reserved becomes durable.
    fn flush(&self) {
        self.log.durable.fetch_max(self.log.reserved().0, Ordering::AcqRel);
    }

    /// As `Background::step` with one transaction. Returns whether it took a transaction and
    /// finished it.
    fn purge(&self, fails: bool) -> bool {
        let seen = self.snapshots.horizon(|| self.log.reserved());
        let durable = Lsn(self.log.durable.load(Ordering::Acquire));
        self.known_due.fetch_max(seen.min(durable).0, Ordering::AcqRel);
        let Some((lsn, ended)) = self.queue.take(PurgeDue { seen, durable }) else { return false };
        assert!(lsn < seen && lsn < durable);
        if fails {
            self.queue.put_back(lsn, ended);
            return false;
        }
        self.finish(&ended);
        true
    }

    /// Whether a snapshot sees the new version of the row of `txn`. If not, it reads the old one.
    fn look(&self, txn: TxnId, snapshot: Lsn) -> bool {
        let mut spins = 0;
        loop {
            match sight(self.status.state(txn), false, snapshot) {
                Sight::Committing => spin(&mut spins),
                Sight::Visible(_) => return true,
                Sight::Older => {
                    let purged = self.old[txn.0 as usize - 1].read();
                    assert_eq!(purged, 0, "{txn} was purged, {snapshot:?} needs what it replaced");
                    return false;
                }
            }
        }
    }

    /// Called after all threads have ended: purge finishes each transaction, once.
    fn ends(&self) {
        self.flush();
        while self.purge(false) {}
        assert_eq!((self.queue.len(), self.snapshots.len()), (0, 0));
        for (n, old) in self.old.iter().enumerate() {
            // No other thread runs any more.
            assert_eq!(old.read(), 1, "how often transaction {} was purged", n + 1);
            assert_eq!(self.status.state(TxnId(n as u64 + 1)), TxnState::Settled);
        }
    }
}

pub(crate) fn models() {
    status_models();
    settle_models();
    snapshot_models();
    purge_models();
    failed_purge_models();
}

fn status_models() {
    model("status: a reader while a transaction commits and leaves the ring", 3, || {
        let status = Arc::new(StatusTable::new(TxnId(1), []));
        let txn = status.begin();
        let committer = {
            let status = Arc::clone(&status);
            spawn(move || {
                status.set(txn, TxnState::Committing);
                status.set(txn, TxnState::Committed(Lsn(50)));
            })
        };
        let beginner = {
            let status = Arc::clone(&status);
            spawn(move || {
                (0..4).for_each(|_| {
                    status.begin();
                })
            })
        };
        let (first, second) = (rank(status.state(txn)), rank(status.state(txn)));
        assert!(first <= second && second <= 2, "from {first} to {second}");
        committer.join().unwrap();
        beginner.join().unwrap();
        assert_eq!(status.state(txn), TxnState::Committed(Lsn(50)));
    });
    model("status: two begin while there is no room", 3, || {
        let status = Arc::new(StatusTable::new(TxnId(1), []));
        let first = status.begin();
        (0..3).for_each(|_| {
            status.begin();
        });
        let other = {
            let status = Arc::clone(&status);
            spawn(move || status.begin())
        };
        let mine = status.begin();
        let other = other.join().unwrap();
        assert_ne!(mine, other);
        for txn in [first, mine, other] {
            assert_eq!(status.state(txn), TxnState::Active);
        }
    });
}

fn settle_models() {
    model("status: a reader while a transaction is settled and its slot goes to a younger one", 3, || {
        let status = Arc::new(StatusTable::new(TxnId(1), []));
        let txns = [0; 4].map(|_| status.begin());
        let txn = txns[0];
        status.set(txn, TxnState::Committing);
        let settler = {
            let status = Arc::clone(&status);
            spawn(move || {
                status.set(txn, TxnState::Committed(Lsn(50)));
                status.set(txn, TxnState::Settled);
            })
        };
        let beginner = {
            let status = Arc::clone(&status);
            spawn(move || status.begin())
        };
        let (first, second) = (rank(status.state(txn)), rank(status.state(txn)));
        assert!(1 <= first && first <= second, "from {first} to {second}");
        settler.join().unwrap();
        let younger = beginner.join().unwrap();
        assert_eq!(status.state(txn), TxnState::Settled);
        for active in [txns[1], younger] {
            assert_eq!(status.state(active), TxnState::Active);
        }
    });
    model("status: one is settled in the map while another moves there", 3, || {
        let status = Arc::new(StatusTable::new(TxnId(10), [(TxnId(3), TxnState::Aborted)]));
        let first = status.begin();
        (0..3).for_each(|_| {
            status.begin();
        });
        let settler = {
            let status = Arc::clone(&status);
            spawn(move || status.set(TxnId(3), TxnState::Settled))
        };
        let beginner = {
            let status = Arc::clone(&status);
            spawn(move || status.begin())
        };
        assert_eq!(status.state(first), TxnState::Active);
        settler.join().unwrap();
        beginner.join().unwrap();
        assert_eq!((status.state(TxnId(3)), status.state(first)), (TxnState::Settled, TxnState::Active));
    });
}

fn snapshot_models() {
    model("snapshots: one thread draws, one commits, one reads the horizon", 3, || {
        let all = Arc::new((Snapshots::default(), AtomicU64::new(10), AtomicU64::new(0)));
        let reader = {
            let all = Arc::clone(&all);
            spawn(move || {
                let (snapshots, reserved, top) = &*all;
                let snapshot = snapshots.draw(|| Lsn(reserved.load(Ordering::SeqCst)));
                let top = top.load(Ordering::SeqCst);
                assert!(top <= snapshot.lsn().0, "{:?} below the horizon {top}", snapshot.lsn());
            })
        };
        let committer = {
            let all = Arc::clone(&all);
            spawn(move || {
                (0..2).for_each(|_| {
                    all.1.fetch_add(10, Ordering::SeqCst);
                });
            })
        };
        let (snapshots, reserved, top) = &*all;
        let horizon = snapshots.horizon(|| Lsn(reserved.load(Ordering::SeqCst)));
        top.fetch_max(horizon.0, Ordering::SeqCst);
        committer.join().unwrap();
        reader.join().unwrap();
    });
    for (name, numbers) in [("in different stripes", [0, 1]), ("in one stripe and the overflow list", [0, 0])]
    {
        model(&format!("snapshots: two {name}, a horizon that moves"), 3, move || {
            let all = Arc::new((Snapshots::default(), AtomicU64::new(10), AtomicU64::new(0)));
            let readers = numbers.map(|number| {
                let all = Arc::clone(&all);
                spawn(move || {
                    set_thread_number(number);
                    let (snapshots, reserved, top) = &*all;
                    let snapshot = snapshots.draw(|| Lsn(reserved.load(Ordering::SeqCst)));
                    let top = top.load(Ordering::SeqCst);
                    assert!(top <= snapshot.lsn().0, "{:?} below the horizon {top}", snapshot.lsn());
                })
            });
            let (snapshots, reserved, top) = &*all;
            for _ in 0..2 {
                reserved.fetch_add(10, Ordering::SeqCst);
                let horizon = snapshots.horizon(|| Lsn(reserved.load(Ordering::SeqCst)));
                top.fetch_max(horizon.0, Ordering::SeqCst);
            }
            readers.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!((snapshots.len(), snapshots.horizon(|| Lsn(99))), (0, Lsn(99)));
        });
    }
}

fn purge_models() {
    model("purge: one commits and becomes durable, one purges, one reads twice", 3, || {
        let rows = Rows::new(1);
        let txn = TxnId(1);
        let committer = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                rows.commit(txn);
                rows.flush();
            })
        };
        let purger = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                rows.purge(false);
            })
        };
        let snapshot = rows.snapshots.draw(|| rows.log.reserved());
        let (first, second) = (rows.look(txn, snapshot.lsn()), rows.look(txn, snapshot.lsn()));
        assert_eq!(first, second, "a snapshot sees the same row at any time");
        drop(snapshot);
        committer.join().unwrap();
        purger.join().unwrap();
        rows.ends();
    });
    model("purge: a commit finishes transactions that purge has been slow to take", 3, || {
        let rows = Rows::new(2);
        set_thread_number(0);
        rows.commit(TxnId(1));
        rows.flush();
        let committer = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                set_thread_number(0);
                rows.commit(TxnId(2));
            })
        };
        let purger = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                rows.purge(true);
            })
        };
        let snapshot = rows.snapshots.draw(|| rows.log.reserved());
        for txn in [TxnId(1), TxnId(2)] {
            let (first, second) = (rows.look(txn, snapshot.lsn()), rows.look(txn, snapshot.lsn()));
            assert_eq!(first, second, "a snapshot sees the same row at any time");
        }
        drop(snapshot);
        committer.join().unwrap();
        purger.join().unwrap();
        rows.ends();
    });
}

fn failed_purge_models() {
    model("purge: two commit while a purge fails and puts its transaction back", 3, || {
        let rows = Rows::new(2);
        rows.commit(TxnId(1));
        rows.flush();
        let committer = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                rows.commit(TxnId(2));
                rows.flush();
            })
        };
        let purger = {
            let rows = Arc::clone(&rows);
            spawn(move || {
                rows.purge(true);
                rows.purge(false);
            })
        };
        rows.purge(false);
        committer.join().unwrap();
        purger.join().unwrap();
        rows.ends();
    });
}
