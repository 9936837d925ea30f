//! Runs a workload on the engine on a disk in memory. The database is opened several times; between
//! two openings it is closed, or the power is cut. The time from one opening to the next is called
//! a life.

use crate::record::{History, Outcome, Txn};
use crate::workload::{Client, Workload, list_of};
use base::prng::Prng;
use millpond::{Db, Durability, Isolation, Options, Table, TxnOptions};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vfs::Vfs;
use vfs::mem::{CrashChoice, MemDisk};

/// Transactions of one life. Lives are short because the disk keeps a journal of every operation.
const LIFE: u64 = 4_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the transactions do.
    pub workload: Workload,
    /// Their isolation level.
    pub isolation: Isolation,
    /// Client threads.
    pub threads: u64,
    /// Transactions in all; those that fail count too.
    pub transactions: u64,
    /// Decides what they do; not how they are scheduled.
    pub seed: u64,
    /// Cut the power between lives, while transactions are running. Only for lists.
    pub cuts: bool,
}

/// A transaction, and the number of disk operations when its commit was called and when it
/// returned.
struct TimedTxn {
    txn: Txn,
    called_at: u64,
    returned_at: u64,
}

struct Run<'r> {
    plan: &'r Plan,
    /// Ticks at every begin and end of a transaction.
    clock: AtomicU64,
    versions: AtomicU64,
    started: AtomicU64,
    broken: Mutex<Vec<String>>,
}

fn open(disk: &MemDisk, seed: u64) -> Db {
    // The real clock, because no timeout is expected here: lock waits are limited to an hour.
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(seed) };
    let options = Options::new().page_bytes(4096).buffer_pool_bytes(8 << 20).redo_capacity_bytes(32 << 20);
    millpond::sim::open(&vfs, Path::new("/db"), &options).expect("open")
}

/// Runs the plan and returns the history.
///
/// # Panics
/// If the engine returns an error that no isolation level allows.
#[must_use]
pub fn run(plan: &Plan) -> History {
    assert!(!plan.cuts || plan.workload == Workload::Append, "only lists show what a power cut left");
    let run = Run {
        plan,
        clock: AtomicU64::new(1),
        versions: AtomicU64::new(1),
        started: AtomicU64::new(0),
        broken: Mutex::default(),
    };
    let mut history = History::default();
    let mut rng = Prng::new(plan.seed);
    let mut disk = MemDisk::default();
    open(&disk, plan.seed).create_table("t").expect("a table");
    disk = disk.fork();
    let mut life = 0;
    while run.started.load(Ordering::Relaxed) < plan.transactions {
        let db = open(&disk, plan.seed + life);
        let table = db.open_table("t").expect("the table");
        let opened_at = disk.op_count();
        let txns = run.live(&db, &table, &disk, life);
        if plan.cuts {
            let cut = rng.between(opened_at, disk.op_count());
            disk = cut_power(&disk, cut, rng.next_u64());
            history.txns.extend(txns.into_iter().map(|timed| left_by_cut(timed, cut)));
            history.cuts += 1;
        } else {
            drop((db, table));
            disk = disk.fork();
            history.txns.extend(txns.into_iter().map(|timed| timed.txn));
        }
        life += 1;
    }
    if plan.workload == Workload::Append {
        let db = open(&disk, plan.seed);
        let table = db.open_table("t").expect("the table");
        let tx = db.begin().expect("begin");
        let rows = tx.range(&table, ..).expect("rows").map(|row| row.expect("a row"));
        history.lists = Some(rows.map(|(key, value)| list_of(&key, &value)).collect());
        drop(tx);
        let report = db.check().expect("check");
        assert!(report.is_clean(), "{report}");
    }
    history.broken = run.broken.into_inner().expect("no client panicked");
    history
}

/// Returns the disk as a power cut before its operation `cut` leaves it.
fn cut_power(disk: &MemDisk, cut: u64, seed: u64) -> MemDisk {
    let mut walk = disk.walk();
    while walk.at() < cut && walk.step() {}
    walk.image(match seed % 4 {
        0 => CrashChoice::None,
        1 => CrashChoice::All,
        _ => CrashChoice::Random(seed),
    })
}

/// Returns the transaction with the outcome that its client knows after the cut.
fn left_by_cut(timed: TimedTxn, cut: u64) -> Txn {
    let TimedTxn { mut txn, called_at, returned_at } = timed;
    if txn.committed() && returned_at > cut {
        txn.outcome = if called_at > cut { Outcome::Aborted } else { Outcome::Unknown };
    }
    txn
}

impl Run<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn live(&self, db: &Db, table: &Table, disk: &MemDisk, life: u64) -> Vec<TimedTxn> {
        let mut txns = Vec::new();
        if life == 0 {
            let txn = self.transaction(db, table, disk, u64::MAX, None);
            txns.push(txn);
        }
        let upto = ((life + 1) * LIFE).min(self.plan.transactions);
        std::thread::scope(|scope| {
            let clients = (0..self.plan.threads).map(|client| {
                scope.spawn(move || {
                    let mut txns = Vec::new();
                    loop {
                        let n = self.started.fetch_add(1, Ordering::Relaxed);
                        if n >= upto {
                            self.started.fetch_sub(1, Ordering::Relaxed);
                            return txns;
                        }
                        let client = life * self.plan.threads + client;
                        txns.push(self.transaction(db, table, disk, client, Some(n)));
                    }
                })
            });
            let clients: Vec<_> = clients.collect();
            for client in clients {
                txns.extend(client.join().expect("a client panicked"));
            }
        });
        txns
    }

    /// Runs one transaction. `n` is `None` for the transaction that fills the table.
    fn transaction(&self, db: &Db, table: &Table, disk: &MemDisk, client: u64, n: Option<u64>) -> TimedTxn {
        let plan = self.plan;
        let mut rng = Prng::new(plan.seed ^ n.map_or(u64::MAX, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let rolls_back = n.is_some() && rng.one_in(20);
        let read_only = n.is_some() && rng.one_in(4);
        let durability = if plan.cuts { Durability::Sync } else { Durability::None };
        let options = TxnOptions::new().isolation(plan.isolation).durability(durability);
        let options = options.read_only(read_only).lock_wait(Duration::from_secs(3600));
        let begun = self.tick();
        let tx = db.begin_with(options).expect("begin");
        let (ops, broken) = (Vec::new(), Vec::new());
        let mut client_of = Client { tx, table, versions: &self.versions, read_only, rng, ops, broken };
        let worked = match n {
            Some(n) => client_of.run(plan.workload, n),
            None => client_of.prepare(plan.workload),
        };
        let Client { tx, ops, broken, .. } = client_of;
        let called_at = disk.op_count();
        let committed = match worked {
            Ok(()) if rolls_back => {
                tx.rollback();
                None
            }
            Ok(()) => Some(tx.commit().expect("commit")),
            Err(error) if error.is_retryable() => None,
            Err(error) => panic!("{error}"),
        };
        let returned_at = disk.op_count();
        if committed.is_some() {
            self.broken.lock().expect("no client panicked").extend(broken);
        }
        let outcome = committed.map_or(Outcome::Aborted, |receipt| Outcome::Committed(receipt.lsn));
        let txn = Txn { client, begun, ended: self.tick(), ops, outcome };
        TimedTxn { txn, called_at, returned_at }
    }
}
