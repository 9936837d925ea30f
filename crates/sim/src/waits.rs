//! Nobody waits for ever: threads in every wait that the engine has, and a failure or a closing in another thread.
//!
//! A crowd works on a database whose disk fails on purpose: one write, sync or other operation is refused, in whichever
//! thread meets it. From then on the database is poisoned, and within a simulated second each of the crowd must have been
//! told so, wherever it waited: for the log, a frame, a lock, a range, a table, admission, room for undo, growth, a batch of
//! pages, a checkpoint. Instead of a failure it may be closed. Some of what the crowd waits for is held by a transaction that
//! idles until the end, so that no wait can end because its holder went on. Then the disk is whole again, the database is
//! opened, and what had been acknowledged is there.
//!
//! The lists of waits are in `docs/locking.md`.

use crate::engine::{block_on, options};
use crate::subject::{SMALL, Shape};
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
use vfs::fault::{Fault, FaultDisk, Kind, Rule};
use vfs::mem::MemDisk;

/// A wait may last so long once the database is poisoned or closed, microseconds.
const BOUND_US: u64 = 1_000_000;
/// If nothing has failed by then, the database is closed instead, microseconds.
const PATIENCE_US: u64 = 3_000_000;

/// Everything small, so that every wait is met: frames, log, undo in memory.
const TIGHT: Shape = Shape { frames: 32, segment_blocks: 8, segments: 12, history_memory: 24 << 10, ..SMALL };

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// From the n-th on, operations of a kind on files whose path holds a word are refused.
    Refused(Kind, &'static str),
    /// Another thread closes the database.
    Closed,
}

/// Each of them, with a name.
pub const TROUBLES: &[(&str, Trouble)] = &[
    ("page write", Trouble::Refused(Kind::Write, "/pages")),
    ("page sync", Trouble::Refused(Kind::Sync, "/pages")),
    ("doublewrite write", Trouble::Refused(Kind::Write, "/areas")),
    ("doublewrite sync", Trouble::Refused(Kind::Sync, "/areas")),
    ("log write", Trouble::Refused(Kind::Write, "/redo/")),
    ("log sync", Trouble::Refused(Kind::Sync, "/redo/")),
    ("undo write", Trouble::Refused(Kind::Write, "/undo/")),
    ("undo sync", Trouble::Refused(Kind::Sync, "/undo/")),
    ("root write", Trouble::Refused(Kind::Write, "/root")),
    ("root sync", Trouble::Refused(Kind::Sync, "/root")),
    ("any write", Trouble::Refused(Kind::Write, "")),
    ("any sync", Trouble::Refused(Kind::Sync, "")),
    ("rename", Trouble::Refused(Kind::Rename, "")),
    ("directory sync", Trouble::Refused(Kind::SyncDir, "")),
    ("closing", Trouble::Closed),
];

/// What the crowd shares.
struct Sessions {
    db: Db,
    seed: u64,
    /// Someone has closed the database, or is about to.
    closing: AtomicBool,
    /// When the first of the crowd heard that it is over, simulated microseconds; `u64::MAX` before.
    over_us: AtomicU64,
    /// For each committer what it wrote last and was told to be durable, and what it may have written.
    written: Mutex<BTreeMap<u64, (u64, u64)>>,
}

fn now_us() -> u64 {
    simulated_us().expect("in a world")
}

impl Sessions {
    /// Whether the crowd is to go home. Panics on an error that nothing here can give.
    fn is_over(&self, what: &str, result: Result<()>) -> bool {
        match result {
            Ok(()) => return false,
            Err(e) if e.is_retryable() => {
                pause(50);
                return false;
            }
            // A load or a transaction that a failure has ended; the next call tells why.
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

    /// One row of this thread's own, made durable in one of the ways there are.
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

    /// What one of the crowd does over and over again, and what it waits for.
    fn work(&self, id: u64, n: u64, rng: &mut Prng) -> Result<()> {
        let db = &self.db;
        let bounded = Durability::Bounded { ms: rng.between(1, 20), bytes: 20_000 };
        match id % 16 {
            // The log.
            0..=3 => self.commit(id, n, rng)?,
            // A promise, the log's bytes.
            4 => {
                let mut tx = self.begin(Isolation::ReadCommitted, bounded)?;
                tx.put(&db.open_table("big")?, &key(rng.below(400)), &padded(n, 700))?;
                tx.commit()?;
            }
            // Admission, room in the log buffer and for undo, frames, growth.
            5 | 6 => {
                let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                let table = db.open_table("big")?;
                for _ in 0..rng.between(1, 30) {
                    let bytes = if rng.one_in(8) { 9_000 } else { 900 };
                    tx.put(&table, &key(rng.below(2_000)), &padded(n, bytes))?;
                }
                if rng.one_in(3) {
                    tx.rollback();
                } else {
                    tx.commit()?;
                }
            }
            // A row that the idle transaction has locked, and one that all want.
            7 => {
                let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                let held = if rng.one_in(2) { key(0) } else { b"hot".to_vec() };
                tx.put(&db.open_table("held")?, &held, &padded(n, 100))?;
                tx.commit()?;
            }
            // A range that the idle transaction keeps, and those of others.
            8 => {
                let mut tx = self.begin(Isolation::Serializable, Durability::None)?;
                let table = db.open_table("kept")?;
                let own = 100 + rng.below(4) * 10;
                tx.scan(&table, &key(own)[..]..&key(own + 10)[..], |_, _| ControlFlow::Continue(()))?;
                tx.put(&table, &key(if rng.one_in(2) { rng.below(10) } else { own + rng.below(10) }), b"n")?;
                tx.commit()?;
            }
            // A table that the idle transaction uses, in the queue behind who wants it, and the catalog.
            9 if rng.one_in(2) => db.rename_table("used", "renamed")?,
            9 => db.drop_table("used")?,
            10 => {
                let tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                tx.get(&db.open_table("used")?, b"row")?;
            }
            11 => {
                let name = format!("own {id}");
                db.create_table(&name)?;
                let mut tx = self.begin(Isolation::ReadCommitted, Durability::None)?;
                tx.put(&db.open_table(&name)?, b"a", &padded(n, 3_000))?;
                tx.rollback();
                db.drop_table(&name)?;
            }
            // Batches of pages.
            12 => {
                let name = format!("load {id}");
                let rows = rng.below(60);
                db.bulk_load(&name, (0..rows).map(|k| (key(k), padded(n, 900))))?;
                db.drop_table(&name)?;
            }
            // Frames, undo in files, the log before what was read.
            13 => {
                let tx = db.begin_with(TxnOptions::new().read_only(true))?;
                tx.scan(&db.open_table("big")?, .., |_, _| {
                    if rng.one_in(6) {
                        pause(30);
                    }
                    ControlFlow::Continue(())
                })?;
            }
            // The batch, the root, the log's files.
            14 if rng.one_in(3) => db.set_redo_capacity(rng.between(10, 40) * 8 * 4096)?,
            14 => db.checkpoint()?,
            _ => {
                let mut tx = self.begin(Isolation::ReadCommitted, Durability::Sync)?;
                tx.put(&db.open_table("t")?, &key(id), &padded(n, 50))?;
                let xid = format!("{id}").into_bytes();
                tx.prepare(&xid)?;
                if rng.one_in(2) { db.commit_prepared(&xid)? } else { db.rollback_prepared(&xid)? }
            }
        }
        Ok(())
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

/// What the idle transaction holds until the end.
fn hold(db: &Db) -> Result<Vec<Transaction>> {
    let mut writer = db.begin()?;
    writer.put(&db.open_table("held")?, &key(0), b"mine")?;
    writer.get(&db.open_table("used")?, b"row")?;
    let reader = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
    let kept = db.open_table("kept")?;
    reader.scan(&kept, ..&key(10)[..], |_, _| ControlFlow::Continue(()))?;
    Ok(vec![writer, reader])
}

/// Runs a crowd of so many on a database to which that happens. In a world. The waits that were too long are named by
/// panicking.
pub fn run_sessions(seed: u64, count: u64, trouble: Trouble) {
    let mem = MemDisk::default();
    let faults = FaultDisk::new(Arc::new(mem.clone()));
    let plain = mem.vfs(seed);
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: Arc::clone(&plain.clock) };
    let mut rng = Prng::new(seed);
    let options = options(&vfs, &TIGHT);
    let db = millpond::sim::open(&vfs, Path::new("/db"), &options).expect("open");
    db.create_tables(&["t", "big", "held", "kept", "used"]).expect("create tables");
    let held = hold(&db).expect("nobody is in the way");
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
            "{trouble:?}: number {id}, which does {}, heard of it {} us after the first",
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
            if sessions.is_over(&format!("number {id}, which does {}", id % 16), done) {
                break;
            }
            pause(rng.below(100));
        }
        now_us()
    };
    spawn(&format!("sessions {id}"), work).expect("a thread")
}

/// Lets the trouble happen. A thread that closes the database, if that is the trouble or if none would come.
fn cause(
    sessions: &Arc<Sessions>,
    faults: &FaultDisk,
    trouble: Trouble,
    nth: u64,
) -> Option<base::sync::JoinHandle<Result<()>>> {
    if let Trouble::Refused(kind, part) = trouble {
        faults.fail_on(part, Rule { kind, nth, for_ever: true, fault: Fault::Refused(ErrorKind::Other) });
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

/// What was acknowledged is there, and nothing that nobody wrote.
fn compare(vfs: &Vfs, written: &BTreeMap<u64, (u64, u64)>, options: &millpond::Options) {
    let db = millpond::sim::open(vfs, Path::new("/db"), options).expect("open again");
    let report = db.check().expect("check");
    assert!(report.is_clean(), "{report}");
    let tx = db.begin().expect("begin");
    let table = db.open_table("t").expect("it is there");
    for (id, (told, tried)) in written {
        let value = tx.get(&table, &key(*id)).expect("read");
        let found = value.map_or(0, |v| u64::from_be_bytes(v[..8].try_into().expect("eight bytes")));
        assert!((*told..=*tried).contains(&found), "{id} was told {told}, tried {tried}, and finds {found}");
    }
}

/// A task whose waker does what a caller's may.
struct Closer {
    db: Db,
    commits: bool,
    woken: Arc<AtomicU64>,
}

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        if self.commits {
            // It may use the database.
            let table = self.db.open_table("t");
            let done = table.and_then(|table| {
                let mut tx = self.db.begin()?;
                tx.put(&table, b"woken", b"yes")?;
                tx.commit().map(drop)
            });
            assert!(matches!(done, Ok(()) | Err(Error::Closed | Error::Poisoned { .. })), "{done:?}");
        }
        // The first closes it; the others hear that it is closed.
        drop(self.db.close());
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

/// Futures whose wakers close the database, in whichever thread they are called, beside threads that lead flushes in the midst of
/// commits, checkpoints, batches of pages and changes of tables. Every waker is called. In a world.
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
        let rule =
            Rule { kind: Kind::Write, nth: 1, for_ever: true, fault: Fault::Refused(ErrorKind::Other) };
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
        assert!(now_us() < since + BOUND_US, "of {pending} tasks {woken:?} have been told");
        pause(1_000);
    }
    drop(db.close());
}
