//! Locks: exclusive is exclusive, nobody is granted twice, and whoever waits is granted, refused or told why, whatever comes
//! between: an end, a time limit, a verdict, a withdrawal of somebody before him, closing. A waiter who is forgotten is a deadlock to loom.

use crate::lock::{Denied, Enqueued, KeyRange, LockTable, Mode, Owner, ScanStart, Wait, Writer};
use crate::watched::Watched;
use crate::{Clock, model};
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
/// Over as soon as it has begun: in all orders of steps that is at any moment.
const BRIEFLY: Wait = Wait::Until(Duration::ZERO);

#[derive(Debug)]
pub(crate) struct StandingClock;

impl Clock for StandingClock {
    fn now_us(&self) -> u64 {
        1
    }
    fn random_u64(&self) -> u64 {
        0
    }
}

/// A table of locks, the latch of the one leaf, and a row.
struct World {
    locks: LockTable,
    leaf: Mutex<()>,
    row: Watched,
    /// Whether the row's newest version is that of a transaction that has not ended.
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

    /// Takes a place under the latch and waits with nothing held.
    fn lock(&self, owner: &Arc<Owner>, key: &[u8], mode: Mode, wait: Wait) -> Result<(), Denied> {
        let leaf = self.leaf.lock();
        let place = self.locks.enqueue(owner, TREE, key, mode, wait);
        drop(leaf);
        place?.finish()
    }

    /// One transaction that changes the row if it gets it; whether it did.
    fn change(&self, txn: u64, wait: Wait) -> Result<(), Denied> {
        let owner = self.locks.begin(TxnId(txn));
        let outcome = self.lock(&owner, ROW, Mode::Exclusive, wait);
        if outcome.is_ok() {
            self.row.change();
        }
        self.locks.release_all(&owner);
        outcome
    }

    /// One transaction that changes the row as soon as no range keeps it from that.
    fn change_in_ranges(&self, txn: u64) {
        let owner = self.locks.begin(TxnId(txn));
        loop {
            let leaf = self.leaf.lock();
            match self.locks.claim(&owner, TREE, ROW, FOR_EVER).unwrap() {
                Enqueued::Granted => break self.row.change(),
                waiting => {
                    drop(leaf);
                    assert_eq!(waiting.finish(), Ok(()));
                }
            }
        }
        self.locks.release_all(&owner);
    }

    /// After all have ended: `changes` were made, and nothing is left behind.
    fn ends_with(&self, changes: u64) {
        assert_eq!(self.row.read(), changes);
        assert_eq!(self.locks.bytes(), 0, "a queue or a range is left");
        assert!(self.locks.readable(&self.locks.begin(TxnId(1000)), TREE, ROW), "a lock is left");
    }
}

pub(crate) fn models() {
    model("locks: three want one row", 3, || {
        let w = World::new();
        let threads = [1, 2].map(|txn| {
            let w = Arc::clone(&w);
            spawn(move || w.change(txn, FOR_EVER))
        });
        assert_eq!(w.change(3, FOR_EVER), Ok(()));
        threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Ok(())));
        w.ends_with(3);
    });
    model("locks: time runs out for one of three, at any moment", 3, || {
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
        // Who was refused has nothing, though it goes on: the others have got past it.
        let (outcome, owner) = brief.join().unwrap();
        match outcome {
            Ok(()) => {}
            Err(Denied::Timeout) => w.locks.release_all(&owner),
            Err(why) => panic!("{why:?}"),
        }
        w.ends_with(2 + u64::from(outcome.is_ok()));
    });
    model("locks: a writer who gives up lets the reader behind him in", 3, || {
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
    model("locks: one locks a row, one changes it without asking first", 3, || {
        let w = World::new();
        let locker = {
            let w = Arc::clone(&w);
            spawn(move || w.change(1, FOR_EVER))
        };
        let owner = w.locks.begin(TxnId(2));
        let leaf = w.leaf.lock();
        let leaf = match w.locks.claim(&owner, TREE, ROW, FOR_EVER).unwrap() {
            Enqueued::Granted => leaf,
            waiting => {
                drop(leaf);
                assert_eq!(waiting.finish(), Ok(()));
                w.leaf.lock()
            }
        };
        // No other place is taken while the leaf is latched, and the change ends with it: there is no version left.
        w.row.change();
        drop(leaf);
        w.locks.release_all(&owner);
        assert_eq!(locker.join().unwrap(), Ok(()));
        w.ends_with(2);
    });
    model("locks: a reader, who may give up, stands between a reader and a writer", 3, || {
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
    model("locks: two close a cycle; one of them may run out of time before", 3, || {
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
    model("locks: two readers both want to write: one gives way, the other gets it", 3, || {
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
        // Who asks after the other is gone has no cycle to break.
        assert!(outcomes.contains(&Ok(())) && w.locks.deadlocks() <= 1, "{outcomes:?}");
        w.ends_with(outcomes.iter().filter(|o| o.is_ok()).count() as u64);
    });
    model("locks: a version is its writer's lock, entered by who waits for it", 3, || {
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
                    // The version in the page: its writer's until another one writes.
                    if !w.written.load(Ordering::Acquire) {
                        match w.locks.claim(&owner, TREE, ROW, wait) {
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
                        let place = w.locks.wait_for_writer(
                            &owner,
                            TxnId(1),
                            TREE,
                            ROW,
                            Mode::Exclusive,
                            wait,
                            active,
                        );
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
    model("locks: who pending a key in ranges waits for all of them and for nobody else", 3, || {
        let w = World::new();
        let readers = [1, 2].map(|txn| w.locks.begin(TxnId(txn)));
        for owner in &readers {
            w.locks.cover(owner, KeyRange::new(TREE, b"a", None), ScanStart::NoYield, false).unwrap();
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
    model("locks: a scan lets a waiting writer go first, and both get through", 3, || {
        let w = World::new();
        let reader = w.locks.begin(TxnId(1));
        w.locks.cover(&reader, KeyRange::new(TREE, b"a", None), ScanStart::NoYield, false).unwrap();
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
                    match w.locks.let_writers_pass(&owner, KeyRange::new(TREE, b"a", None), &mut since, FOR_EVER).unwrap() {
                        None => {
                            // What stops it now was granted meanwhile; the model looks once.
                            w.locks.cover(&owner, KeyRange::new(TREE, b"a", None), since, false).unwrap();
                            break;
                        }
                        Some(scan) => {
                            drop(leaf);
                            assert_eq!(scan.wait(&mut since), Ok(()));
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
    model("locks: closing tells all who wait for rows or ranges", 3, || {
        let w = World::new();
        let holder = w.locks.begin(TxnId(1));
        assert_eq!(w.lock(&holder, ROW, Mode::Exclusive, FOR_EVER), Ok(()));
        w.locks.cover(&holder, KeyRange::new(TREE, b"a", Some(b"p")), ScanStart::NoYield, false).unwrap();
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
