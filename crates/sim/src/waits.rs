//! No wait lasts for ever: sessions are in every wait that the engine has when another thread fails
//! or closes the database.
//!
//! Many sessions work on a database whose disk has an injected fault: it refuses one kind of write,
//! sync or other operation, in any thread. From then on the database is poisoned. Within one
//! simulated second every session must get an error, whatever it waits for: the log, a frame, a
//! lock, a range, a table, admission, room for undo, growth of the file, a batch of pages, a
//! checkpoint. In other runs another thread closes the database instead. An idle transaction holds
//! some of the locks until the end, so these waits cannot end because the holder releases them. At
//! the end the disk is whole again, the database is opened, and everything that was acknowledged
//! must be there.
//!
//! `docs/locking.md` lists the waits.

use crate::engine::{block_on, options};
use crate::shape::{SMALL, Shape};
use base::prng::Prng;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::sim::{pause, simulated_us};
use base::sync::{Mutex, spawn};
use millpond::{Db, Durability, Error, Isolation, Result, Transaction, TxnOptions};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use vfs::Vfs;
use vfs::fault::{Fault, FaultDisk, FaultRule, OpKind};
use vfs::mem::MemDisk;

/// A wait may last so long after the database was poisoned or closed, microseconds.
const BOUND_US: u64 = 1_000_000;
/// If nothing fails for so long, the database is closed instead, microseconds.
const PATIENCE_US: u64 = 3_000_000;

/// Few frames, little log and little memory for undo, so that every wait happens.
const TIGHT: Shape = Shape { frames: 32, segment_blocks: 8, segments: 12, history_memory: 24 << 10, ..SMALL };

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// From the n-th on, operations of this kind are refused on files whose path contains this
    /// text.
    Refused(OpKind, &'static str),
    /// Another thread closes the database.
    Closed,
}

/// All of them, with names.
pub const TROUBLES: &[(&str, Trouble)] = &[
    ("page write", Trouble::Refused(OpKind::Write, "/pages")),
    ("page sync", Trouble::Refused(OpKind::Sync, "/pages")),
    ("doublewrite write", Trouble::Refused(OpKind::Write, "/areas")),
    ("doublewrite sync", Trouble::Refused(OpKind::Sync, "/areas")),
    ("log write", Trouble::Refused(OpKind::Write, "/redo/")),
    ("log sync", Trouble::Refused(OpKind::Sync, "/redo/")),
    ("undo write", Trouble::Refused(OpKind::Write, "/undo/")),
    ("undo sync", Trouble::Refused(OpKind::Sync, "/undo/")),
    ("root write", Trouble::Refused(OpKind::Write, "/root")),
    ("root sync", Trouble::Refused(OpKind::Sync, "/root")),
    ("any write", Trouble::Refused(OpKind::Write, "")),
    ("any sync", Trouble::Refused(OpKind::Sync, "")),
    ("rename", Trouble::Refused(OpKind::Rename, "")),
    ("directory sync", Trouble::Refused(OpKind::SyncDir, "")),
    ("closing", Trouble::Closed),
];

/// What the sessions share.
struct Sessions {
    db: Db,
    seed: u64,
    /// A thread has closed the database, or is about to.
    closing: AtomicBool,
    /// When the first session got the error, simulated microseconds; `u64::MAX` before.
    over_us: AtomicU64,
    /// For each committing session, the last number that was acknowledged as durable and the last
    /// one that it tried to write.
    written: Mutex<BTreeMap<u64, (u64, u64)>>,
}

fn now_us() -> u64 {
    simulated_us().expect("in a world")
}

impl Sessions {
    /// Returns whether the session must end. Panics on an error that nothing here may cause.
    fn is_over(&self, what: &str, result: Result<()>) -> bool {
        match result {
            Ok(()) => return false,
            Err(e) if e.is_retryable() => {
                pause(50);
                return false;
            }
            // A failure has ended a load or a transaction; the next call returns the reason.
            Err(Error::Aborted | Error::SnapshotTooOld) => return false,
            Err(Error::TableExists { .. } | Error::NoSuchTable { .. }) => {
                pause(200);
                return false;
            }
            Err(Error::Poisoned { .. }) => {}
            Err(Error::Closed) if self.closing.load(Ordering::SeqCst) => {}
            Err(e) => panic!("{what}: {e}"),
        }
        self.over_us.fetch_min(now_us(), Ordering::SeqCst);
        true
    }

    fn begin(&self, isolation: Isolation, durability: Durability) -> Result<Transaction> {
        self.db.begin_with(TxnOptions::new().isolation(isolation).durability(durability))
    }

    /// Writes the session's own row and makes it durable, in one of three ways.
    fn commit(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        let table = self.db.open_table("t")?;
        let mut tx = self.begin(Isolation::ReadCommitted, Durability::Sync)?;
        tx.put(&table, &key(id), &padded(n, rng.below(600) as usize))?;
        self.written.lock().entry(id).or_default().1 = n;
        match id % 3 {
            0 => tx.commit()?,
            1 => tx.commit_async()?.wait()?,
            _ => block_on(tx.commit_async()?)?,
        };
        self.written.lock().entry(id).or_default().0 = n;
        Ok(())
    }

    /// One unit of work of session `id`, chosen by `id % 16`. Comments say what it can wait for.
    fn work(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        let bounded = Durability::Bounded { ms: rng.between(1, 20), bytes: 20_000 };
        match id % 16 {
            // Log flushes.
            0..=3 => self.commit(id, n, rng),
            // The flush deadline, the limit of unsynced log bytes.
            4 => {
                let mut tx = self.begin(Isolation::ReadCommitted, bounded)?;
                tx.put(&self.db.open_table("big")?, &key(rng.below(400)), &padded(n, 700))?;
                tx.commit().map(drop)
            }
            5 | 6 => self.write_much(n, rng),
            7 | 8 => self.lock_what_is_held(id, n, rng),
            9..=11 => self.change_tables(id, n, rng),
            // Batches of pages.
            12 => {
                let name = format!("load {id}");
                let rows = rng.below(60);
                self.db.bulk_load(&name, (0..rows).map(|k| (key(k), padded(n, 900))))?;
                self.db.drop_table(&name)
            }
            13 => self.scan(rng),
            // A batch of pages, the root, the log's files.
            14 if rng.one_in(3) => self.db.set_redo_capacity(rng.between(10, 40) * 8 * 4096),
            14 => self.db.checkpoint(),
            _ => self.prepare(id, n, rng),
        }
    }

    /// Waits for admission, for space in the log buffer and for undo, for frames, and for growth of
    /// the file.
    fn write_much(&self, n: u64, rng: &mut Prng) -> Result<()> {
        let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
        let table = self.db.open_table("big")?;
        for _ in 0..rng.between(1, 30) {
            let bytes = if rng.one_in(8) { 9_000 } else { 900 };
            tx.put(&table, &key(rng.below(2_000)), &padded(n, bytes))?;
        }
        if rng.one_in(3) {
            tx.rollback();
            return Ok(());
        }
        tx.commit().map(drop)
    }

    fn lock_what_is_held(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        if id % 16 == 7 {
            // A row that the idle transaction has locked, or one that many sessions write.
            let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
            let held = if rng.one_in(2) { key(0) } else { b"hot".to_vec() };
            tx.put(&self.db.open_table("held")?, &held, &padded(n, 100))?;
            return tx.commit().map(drop);
        }
        // A range that the idle transaction has locked, and ranges of other sessions.
        let mut tx = self.begin(Isolation::Serializable, Durability::None)?;
        let table = self.db.open_table("kept")?;
        let own = 100 + rng.below(4) * 10;
        tx.scan(&table, &key(own)[..]..&key(own + 10)[..], |_, _| ControlFlow::Continue(()))?;
        tx.put(&table, &key(if rng.one_in(2) { rng.below(10) } else { own + rng.below(10) }), b"n")?;
        tx.commit().map(drop)
    }

    fn change_tables(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        let db = &self.db;
        match id % 16 {
            // A table that the idle transaction uses, the queue of its waiters, the catalog.
            9 if rng.one_in(2) => db.rename_table("used", "renamed"),
            9 => db.drop_table("used"),
            10 => {
                let tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                tx.get(&db.open_table("used")?, b"row").map(drop)
            }
            _ => {
                let name = format!("own {id}");
                db.create_table(&name)?;
                let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                tx.put(&db.open_table(&name)?, b"a", &padded(n, 3_000))?;
                tx.rollback();
                db.drop_table(&name)
            }
        }
    }

    /// Waits for frames, for undo in files, and for log that what it read depends on.
    fn scan(&self, rng: &mut Prng) -> Result<()> {
        let tx = self.db.begin_with(TxnOptions::new().read_only(true))?;
        tx.scan(&self.db.open_table("big")?, .., |_, _| {
            if rng.one_in(6) {
                pause(30);
            }
            ControlFlow::Continue(())
        })
    }

    fn prepare(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        let mut tx = self.begin(Isolation::ReadCommitted, Durability::Sync)?;
        tx.put(&self.db.open_table("t")?, &key(id), &padded(n, 50))?;
        let xid = format!("{id}").into_bytes();
        tx.prepare(&xid)?;
        if rng.one_in(2) { self.db.commit_prepared(&xid) } else { self.db.rollback_prepared(&xid) }
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

fn padded(n: u64, bytes: usize) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    value.resize(8 + bytes, 7);
    value
}

/// Takes the locks that are held until the end.
fn hold(db: &Db) -> Result<Vec<Transaction>> {
    let mut writer = db.begin()?;
    writer.put(&db.open_table("held")?, &key(0), b"mine")?;
    writer.get(&db.open_table("used")?, b"row")?;
    let reader = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
    let kept = db.open_table("kept")?;
    reader.scan(&kept, ..&key(10)[..], |_, _| ControlFlow::Continue(()))?;
    Ok(vec![writer, reader])
}

/// Runs `count` sessions on a database that gets this trouble. Panics if a session waits too long.
///
/// REQUIRES: called inside a world.
pub fn run_sessions(seed: u64, count: u64, trouble: Trouble) {
    let mem = MemDisk::default();
    let faults = FaultDisk::new(Arc::new(mem.clone()));
    let plain = mem.vfs(seed);
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: Arc::clone(&plain.clock) };
    let mut rng = Prng::new(seed);
    let options = options(&vfs, &TIGHT);
    let db = millpond::sim::open(&vfs, Path::new("/db"), &options).expect("open");
    db.create_tables(&["t", "big", "held", "kept", "used"]).expect("create tables");
    let held = hold(&db).expect("there is no conflict");
    let sessions = Arc::new(Sessions {
        db: db.clone(),
        seed,
        closing: AtomicBool::new(false),
        over_us: AtomicU64::new(u64::MAX),
        written: Mutex::default(),
    });
    let threads: Vec<_> = (0..count).map(|id| spawn_one(&sessions, id)).collect();
    pause(rng.below(60_000));
    let closer = cause(&sessions, &faults, trouble, rng.between(1, 12));
    for (id, thread) in threads.into_iter().enumerate() {
        let ended_us = thread.join().expect("a panic ends the world");
        let over_us = sessions.over_us.load(Ordering::SeqCst);
        assert!(
            ended_us <= over_us.saturating_add(BOUND_US),
            "{trouble:?}: session {id} (work {}) got the error {} us after the first one",
            id % 16,
            ended_us - over_us
        );
    }
    drop(held);
    let closed = closer.map_or_else(|| db.close(), |closer| closer.join().expect("a panic ends the world"));
    let poisoned = matches!(closed, Err(Error::Poisoned { .. }));
    assert!(poisoned || closed.is_ok(), "{trouble:?}: closing gave {closed:?}");
    let written = std::mem::take(&mut *sessions.written.lock());
    drop((sessions, db));
    faults.heal();
    compare(&plain, &written, &options);
}

fn spawn_one(sessions: &Arc<Sessions>, id: u64) -> base::sync::JoinHandle<u64> {
    let sessions = Arc::clone(sessions);
    let work = move || {
        let mut rng = Prng::new(sessions.seed ^ id << 32);
        for n in 1.. {
            let done = sessions.work(id, n, &mut rng);
            if sessions.is_over(&format!("session {id} (work {})", id % 16), done) {
                break;
            }
            pause(rng.below(100));
        }
        now_us()
    };
    spawn(&format!("session {id}"), work).expect("a thread")
}

/// Causes the trouble. Returns the thread that closes the database, if that is the trouble or if no
/// operation has failed in time.
fn cause(
    sessions: &Arc<Sessions>,
    faults: &FaultDisk,
    trouble: Trouble,
    nth: u64,
) -> Option<base::sync::JoinHandle<Result<()>>> {
    if let Trouble::Refused(kind, part) = trouble {
        faults
            .fail_on(part, FaultRule { kind, nth, for_ever: true, fault: Fault::Refused(ErrorKind::Other) });
        let since = now_us();
        while now_us() < since + PATIENCE_US {
            pause(1_000);
            if let Err(error) = sessions.db.begin() {
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
                sessions.over_us.fetch_min(now_us(), Ordering::SeqCst);
                return None;
            }
        }
    }
    let sessions = Arc::clone(sessions);
    sessions.closing.store(true, Ordering::SeqCst);
    Some(spawn("closer", move || sessions.db.close()).expect("a thread"))
}

/// Checks that every acknowledged row is there, and none that was never written.
fn compare(vfs: &Vfs, written: &BTreeMap<u64, (u64, u64)>, options: &millpond::Options) {
    let db = millpond::sim::open(vfs, Path::new("/db"), options).expect("open again");
    let report = db.check().expect("check");
    assert!(report.is_clean(), "{report}");
    let tx = db.begin().expect("begin");
    let table = db.open_table("t").expect("it is there");
    for (id, (acknowledged, tried)) in written {
        let value = tx.get(&table, &key(*id)).expect("read");
        let found = value.map_or(0, |v| u64::from_be_bytes(v[..8].try_into().expect("eight bytes")));
        assert!(
            (*acknowledged..=*tried).contains(&found),
            "session {id}: {acknowledged} was acknowledged, {tried} was tried, {found} is there"
        );
    }
}

/// A task whose waker uses and closes the database, as a caller's waker may.
struct Closer {
    db: Db,
    commits: bool,
    woken: Arc<AtomicU64>,
}

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        if self.commits {
            let table = self.db.open_table("t");
            let done = table.and_then(|table| {
                let mut tx = self.db.begin()?;
                tx.put(&table, b"woken", b"yes")?;
                tx.commit().map(drop)
            });
            assert!(matches!(done, Ok(()) | Err(Error::Closed | Error::Poisoned { .. })), "{done:?}");
        }
        // The first call closes it; the others return that it is closed.
        drop(self.db.close());
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs futures whose wakers close the database, in any thread that calls them, while other threads
/// lead flushes during commits, checkpoints, batches of pages and changes of tables. Panics if a
/// waker is not called in time.
///
/// REQUIRES: called inside a world.
pub fn closing_wakers(seed: u64, refused: bool) {
    let mem = MemDisk::default();
    let faults = FaultDisk::new(Arc::new(mem.clone()));
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: mem.vfs(seed).clock };
    let options = options(&vfs, &TIGHT);
    let db = millpond::sim::open(&vfs, Path::new("/db"), &options).expect("open");
    db.create_table("t").expect("create a table");
    let (woken, mut rng) = (Arc::new(AtomicU64::new(0)), Prng::new(seed));
    let over = |result: Result<()>| match result {
        Ok(()) => false,
        Err(Error::Closed | Error::Poisoned { .. }) => true,
        Err(e) => panic!("{e}"),
    };
    let others: Vec<_> = (0..4u64)
        .map(|id| {
            let db = db.clone();
            let work = move || {
                for n in 0.. {
                    let done = match id {
                        3 => db.checkpoint(),
                        2 => db.create_table(&format!("table {n}")).map(drop),
                        _ => db.open_table("t").and_then(|table| {
                            let mut tx = db.begin()?;
                            tx.put(&table, &key(id), &padded(n, 500))?;
                            tx.commit().map(drop)
                        }),
                    };
                    if over(done) {
                        return;
                    }
                    pause(100);
                }
            };
            spawn(&format!("other {id}"), work).expect("a thread")
        })
        .collect();
    pause(rng.below(20_000));
    if refused {
        let rule = FaultRule {
            kind: OpKind::Write,
            nth: 1,
            for_ever: true,
            fault: Fault::Refused(ErrorKind::Other),
        };
        faults.fail_on("/redo/", rule);
    }
    let (mut futures, mut pending) = (Vec::new(), 0);
    for n in 0..4 {
        let begun = db.open_table("t").and_then(|table| {
            let mut tx = db.begin()?;
            tx.put(&table, &key(10 + n), b"future")?;
            tx.commit_async()
        });
        let Ok(mut future) = begun else { break };
        let task = Closer { db: db.clone(), commits: rng.one_in(2), woken: Arc::clone(&woken) };
        let waker = Waker::from(Arc::new(task));
        let polled = std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        pending += u64::from(polled.is_pending());
        if rng.one_in(2) {
            futures.push(future);
        }
    }
    others.into_iter().for_each(|thread| thread.join().expect("a panic ends the world"));
    let since = now_us();
    while woken.load(Ordering::SeqCst) < pending {
        assert!(now_us() < since + BOUND_US, "{woken:?} of {pending} tasks were woken");
        pause(1_000);
    }
    drop(db.close());
}
