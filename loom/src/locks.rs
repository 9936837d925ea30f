//! Locks: an exclusive lock is exclusive, no lock is granted twice, and every waiter is granted,
//! refused or told why. That holds whatever comes between: the end of a transaction, a time limit,
//! a deadlock verdict, the withdrawal of an earlier waiter, closing. A waiter that is forgotten is
//! a deadlock to loom.

use crate::clock::StandingClock;
use crate::lock::{
    Denied, Enqueued, KeyRange, KeyState, LockTable, Mode, Owner, RangeMode, RowRequest, ScanStart, Wait,
    Writer,
};
use crate::model::model;
use crate::watched::Watched;
use base::sync::Mutex;
use base::{TreeId, TxnId};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::spawn;
use std::sync::Arc;
use std::time::Duration;

const TREE: TreeId = TreeId(7);
const ROW: &[u8] = b"row";
const OTHER: &[u8] = b"other";
/// Longer than any model: it has no time.
const FOR_EVER: Wait = Wait::Until(Duration::MAX);
/// A time limit that has passed as soon as the wait begins. Over all orders of steps that is at any
/// time.
const BRIEFLY: Wait = Wait::Until(Duration::ZERO);

/// A table of locks, the latch of the only leaf, and a row.
struct World {
    locks: LockTable,
    leaf: Mutex<()>,
    row: Watched,
    /// Whether the newest version of the row belongs to a transaction that has not ended.
    written: AtomicBool,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            locks: LockTable::new(Arc::new(StandingClock), u64::MAX),
            leaf: Mutex::new(()),
            row: Watched::default(),
            written: AtomicBool::new(false),
        })
    }

    /// Joins the queue under the latch, and waits without it.
    fn lock(&self, owner: &Arc<Owner>, key: &[u8], mode: Mode, wait: Wait) -> Result<(), Denied> {
        let leaf = self.leaf.lock();
        let place = self.locks.enqueue(owner, TREE, key, KeyState::Row, mode, wait);
        drop(leaf);
        place?.finish()
    }

    /// Runs a transaction that changes the row if it gets the lock.
    fn change(&self, txn: u64, wait: Wait) -> Result<(), Denied> {
        let owner = self.locks.begin(TxnId(txn));
        let outcome = self.lock(&owner, ROW, Mode::Exclusive, wait);
        if outcome.is_ok() {
            self.row.change();
        }
        self.locks.release_all(&owner);
        outcome
    }

    /// One transaction that changes the row as soon as no range covers it.
    fn change_in_ranges(&self, txn: u64) {
        let owner = self.locks.begin(TxnId(txn));
        loop {
            let leaf = self.leaf.lock();
            match self.locks.claim(&owner, TREE, ROW, KeyState::Row, FOR_EVER).unwrap() {
                Enqueued::Granted => break self.row.change(),
                waiting => {
                    drop(leaf);
                    assert_eq!(waiting.finish(), Ok(()));
                }
            }
        }
        self.locks.release_all(&owner);
    }

    /// Called after all transactions have ended: `changes` were made, and no lock is left.
    fn ends_with(&self, changes: u64) {
        assert_eq!(self.row.read(), changes);
        assert_eq!(self.locks.bytes(), 0, "a queue or a range is left");
        assert!(
            self.locks.row_is_free(&self.locks.begin(TxnId(1000)), TREE, ROW, Mode::Shared, true),
            "a lock is left"
        );
    }
}

pub(crate) fn models() {
    queue_models();
    withdrawal_models();
    wait_models();
    deadlock_models();
    version_models();
    range_models();
    scan_models();
    closing_models();
}

fn queue_models() {
    model("locks: three transactions request one row", 3, || {
        let w = World::new();
        let threads = [1, 2].map(|txn| {
            let w = Arc::clone(&w);
            spawn(move || w.change(txn, FOR_EVER))
        });
        assert_eq!(w.change(3, FOR_EVER), Ok(()));
        threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Ok(())));
        w.ends_with(3);
    });
    model("locks: one of three times out, at any time", 3, || {
        let w = World::new();
        let patient = {
            let w = Arc::clone(&w);
            spawn(move || w.change(1, FOR_EVER))
        };
        let brief = {
            let w = Arc::clone(&w);
            spawn(move || {
                let owner = w.locks.begin(TxnId(2));
                let outcome = w.lock(&owner, ROW, Mode::Exclusive, BRIEFLY);
                if outcome.is_ok() {
                    w.row.change();
                    w.locks.release_all(&owner);
                }
                (outcome, owner)
            })
        };
        assert_eq!(w.change(3, FOR_EVER), Ok(()));
        assert_eq!(patient.join().unwrap(), Ok(()));
        // The refused transaction has no lock, though it has not ended: the others have got past
        // it.
        let (outcome, owner) = brief.join().unwrap();
        match outcome {
            Ok(()) => {}
            Err(Denied::Timeout) => w.locks.release_all(&owner),
            Err(why) => panic!("{why:?}"),
        }
        w.ends_with(2 + u64::from(outcome.is_ok()));
    });
}

fn withdrawal_models() {
    model("locks: a writer that times out lets the reader behind it in", 3, || {
        let w = World::new();
        let holder = w.locks.begin(TxnId(1));
        assert_eq!(w.lock(&holder, ROW, Mode::Shared, FOR_EVER), Ok(()));
        let writer = {
            let w = Arc::clone(&w);
            spawn(move || w.change(2, BRIEFLY))
        };
        let owner = w.locks.begin(TxnId(3));
        assert_eq!(w.lock(&owner, ROW, Mode::Shared, FOR_EVER), Ok(()));
        assert_eq!(w.row.read(), 0);
        w.locks.release_all(&owner);
        assert_eq!(writer.join().unwrap(), Err(Denied::Timeout));
        w.locks.release_all(&holder);
        w.ends_with(0);
    });
    model("locks: one locks a row, one changes it without a queue entry", 3, || {
        let w = World::new();
        let locker = {
            let w = Arc::clone(&w);
            spawn(move || w.change(1, FOR_EVER))
        };
        let owner = w.locks.begin(TxnId(2));
        let leaf = w.leaf.lock();
        let leaf = match w.locks.claim(&owner, TREE, ROW, KeyState::Row, FOR_EVER).unwrap() {
            Enqueued::Granted => leaf,
            waiting => {
                drop(leaf);
                assert_eq!(waiting.finish(), Ok(()));
                w.leaf.lock()
            }
        };
        // No other transaction joins the queue while the leaf is latched, and the change ends under
        // the latch: it leaves no version.
        w.row.change();
        drop(leaf);
        w.locks.release_all(&owner);
        assert_eq!(locker.join().unwrap(), Ok(()));
        w.ends_with(2);
    });
}

fn wait_models() {
    model("locks: a reader that may time out waits between a reader and a writer", 3, || {
        let w = World::new();
        let reader = |txn: u64, wait: Wait| {
            let w = Arc::clone(&w);
            spawn(move || {
                let owner = w.locks.begin(TxnId(txn));
                let outcome = w.lock(&owner, ROW, Mode::Shared, wait);
                let seen = outcome.map(|()| w.row.read());
                w.locks.release_all(&owner);
                seen
            })
        };
        let readers = [reader(1, FOR_EVER), reader(2, BRIEFLY)];
        assert_eq!(w.change(3, FOR_EVER), Ok(()));
        let [patient, brief] = readers.map(|t| t.join().unwrap());
        assert!(patient.is_ok_and(|seen| seen <= 1) && brief.unwrap_or(0) <= 1);
        w.ends_with(1);
    });
}

fn deadlock_models() {
    model("locks: two close a cycle; one of them may time out before", 3, || {
        let w = World::new();
        let both = |w: &World, txn: u64, first: &[u8], then: &[u8], wait: Wait| {
            let owner = w.locks.begin(TxnId(txn));
            assert_eq!(w.lock(&owner, first, Mode::Exclusive, FOR_EVER), Ok(()));
            let outcome = w.lock(&owner, then, Mode::Exclusive, wait);
            if outcome.is_ok() {
                w.row.change();
            }
            w.locks.release_all(&owner);
            outcome
        };
        let other = {
            let w = Arc::clone(&w);
            spawn(move || both(&w, 1, OTHER, ROW, BRIEFLY))
        };
        let mine = both(&w, 2, ROW, OTHER, FOR_EVER);
        let other = other.join().unwrap();
        assert!(matches!(mine, Ok(()) | Err(Denied::Deadlock)), "{mine:?}");
        assert!(mine.is_ok() || other.is_ok() || w.locks.deadlocks() > 0);
        w.ends_with(u64::from(mine.is_ok()) + u64::from(other.is_ok()));
    });
    model("locks: two readers upgrade: one is the victim, the other gets the lock", 3, || {
        let w = World::new();
        let (mine, others) = (w.locks.begin(TxnId(1)), w.locks.begin(TxnId(2)));
        for owner in [&mine, &others] {
            assert_eq!(w.lock(owner, ROW, Mode::Shared, FOR_EVER), Ok(()));
        }
        let upgrade = |w: &World, owner: &Arc<Owner>| {
            let outcome = w.lock(owner, ROW, Mode::Exclusive, FOR_EVER);
            if outcome.is_ok() {
                w.row.change();
            }
            w.locks.release_all(owner);
            outcome
        };
        let other = {
            let w = Arc::clone(&w);
            spawn(move || upgrade(&w, &others))
        };
        let outcomes = [upgrade(&w, &mine), other.join().unwrap()];
        // A request after the end of the other transaction closes no cycle.
        assert!(outcomes.contains(&Ok(())) && w.locks.deadlocks() <= 1, "{outcomes:?}");
        w.ends_with(outcomes.iter().filter(|o| o.is_ok()).count() as u64);
    });
}

fn version_models() {
    model("locks: a version is the lock of its writer, materialised by a waiter", 3, || {
        let w = World::new();
        let writer = w.locks.begin(TxnId(1));
        w.written.store(true, Ordering::Relaxed);
        let waiter = |txn: u64, wait: Wait| {
            let w = Arc::clone(&w);
            move || {
                let owner = w.locks.begin(TxnId(txn));
                let mut outcome = Ok(());
                loop {
                    let leaf = w.leaf.lock();
                    // The version in the page: the lock of its writer until another transaction
                    // writes.
                    if !w.written.load(Ordering::Acquire) {
                        match w.locks.claim(&owner, TREE, ROW, KeyState::Row, wait) {
                            Ok(Enqueued::Granted) => {
                                w.row.change();
                                break;
                            }
                            place => {
                                drop(leaf);
                                outcome = place.and_then(Enqueued::finish);
                            }
                        }
                    } else {
                        let active = || w.written.load(Ordering::Acquire);
                        let request = RowRequest { tree: TREE, key: ROW, mode: Mode::Exclusive, wait };
                        let place = w.locks.wait_for_writer(&owner, TxnId(1), request, active);
                        drop(leaf);
                        match place {
                            Ok(Writer::Gone) => loom::thread::yield_now(),
                            Ok(Writer::Waiting(ticket)) => outcome = ticket.wait(),
                            Err(why) => outcome = Err(why),
                        }
                    }
                    if outcome.is_err() {
                        break;
                    }
                }
                w.locks.release_all(&owner);
                outcome
            }
        };
        let waiting = spawn(waiter(2, FOR_EVER));
        w.row.change();
        // It commits: its status first, then its locks.
        w.written.store(false, Ordering::Release);
        w.locks.release_all(&writer);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        w.ends_with(2);
    });
}

fn range_models() {
    model("locks: a writer of a key in two ranges waits for both and for no other", 3, || {
        let w = World::new();
        let readers = [1, 2].map(|txn| w.locks.begin(TxnId(txn)));
        for owner in &readers {
            w.locks
                .cover(owner, KeyRange::new(TREE, b"a", None), RangeMode::READ, ScanStart::NoYield, false)
                .unwrap();
        }
        let ends = readers.map(|owner| {
            let w = Arc::clone(&w);
            spawn(move || {
                w.row.read();
                w.locks.release_all(&owner);
            })
        });
        w.change_in_ranges(3);
        ends.into_iter().for_each(|t| t.join().unwrap());
        w.ends_with(1);
    });
}

fn scan_models() {
    model("locks: a scan yields to a waiting writer, and both finish", 3, || {
        let w = World::new();
        let reader = w.locks.begin(TxnId(1));
        w.locks
            .cover(&reader, KeyRange::new(TREE, b"a", None), RangeMode::READ, ScanStart::NoYield, false)
            .unwrap();
        let writer = {
            let w = Arc::clone(&w);
            spawn(move || w.change_in_ranges(2))
        };
        let scan = {
            let w = Arc::clone(&w);
            spawn(move || {
                let (owner, mut since) = (w.locks.begin(TxnId(3)), ScanStart::default());
                loop {
                    let leaf = w.leaf.lock();
                    match w
                        .locks
                        .let_writers_pass(
                            &owner,
                            KeyRange::new(TREE, b"a", None),
                            RangeMode::READ,
                            &mut since,
                            FOR_EVER,
                        )
                        .unwrap()
                    {
                        None => {
                            // A writer that would stop it now was granted meanwhile. The model
                            // checks only once.
                            w.locks
                                .cover(&owner, KeyRange::new(TREE, b"a", None), RangeMode::READ, since, false)
                                .unwrap();
                            break;
                        }
                        Some(scan) => {
                            drop(leaf);
                            assert_eq!(scan.wait(&mut since, None), Ok(()));
                        }
                    }
                }
                w.locks.release_all(&owner);
            })
        };
        w.locks.release_all(&reader);
        writer.join().unwrap();
        scan.join().unwrap();
        w.ends_with(1);
    });
}

fn closing_models() {
    model("locks: closing wakes all waiters for rows and ranges", 3, || {
        let w = World::new();
        let holder = w.locks.begin(TxnId(1));
        assert_eq!(w.lock(&holder, ROW, Mode::Exclusive, FOR_EVER), Ok(()));
        w.locks
            .cover(&holder, KeyRange::new(TREE, b"a", Some(b"p")), RangeMode::READ, ScanStart::NoYield, false)
            .unwrap();
        let waiting = [(2, ROW), (3, OTHER)].map(|(txn, key)| {
            let w = Arc::clone(&w);
            spawn(move || {
                let owner = w.locks.begin(TxnId(txn));
                let outcome = w.lock(&owner, key, Mode::Exclusive, FOR_EVER);
                w.locks.release_all(&owner);
                outcome
            })
        });
        w.locks.stop();
        waiting.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Err(Denied::Stopped)));
        w.locks.release_all(&holder);
        w.ends_with(0);
    });
}
