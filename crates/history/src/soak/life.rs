//! One life: a process that opens the database, reports what it finds, and works until it is killed
//! or asked to come to rest.
//!
//! It prints lines: `found CLIENT STEPS` and `account CLIENT NUMBERS` for each client, `hot
//! NUMBERS`, `ready`, then twice a second `alive NUMBERS`, and finally `rest NUMBERS`. A line on
//! its input, or the end of the input, asks it to come to rest.

use super::client::{Client, ClientCount, number, table_prefix, table_row};
use super::recipe::{
    ClientDigest, ClientStep, HOT_ROWS, Origin, QUEUE_ROWS, Recipe, queue_key, queue_value, row_key,
};
use super::resources::ResourceUse;
use super::shared::{Ledger, Life, Tables};
use base::prng::Prng;
use millpond::{Db, Error, Isolation, Options, Table, Transaction, TxnOptions};
use std::fs::File;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A database that has not come to rest after so long hangs.
const HANGS: Duration = Duration::from_secs(600);

/// The options of a life, which the parent process passes as arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct LifeOptions {
    /// The database
    #[arg(long)]
    pub(super) dir: PathBuf,
    /// The file of acknowledged steps
    #[arg(long)]
    pub(super) ledger: PathBuf,
    /// Decides what the steps do
    #[arg(long)]
    pub(super) seed: u64,
    /// Number of the life in the soak
    #[arg(long)]
    pub(super) life: u64,
    /// Client threads
    #[arg(long)]
    pub(super) clients: u16,
    /// Threads that read everything, again and again
    #[arg(long)]
    pub(super) scanners: u16,
    /// Size of the database's pages in bytes
    #[arg(long)]
    pub(super) page_bytes: usize,
    /// Size of the buffer pool in bytes
    #[arg(long)]
    pub(super) pool_bytes: u64,
    /// Redo capacity in bytes; 0 follows from the recovery target
    #[arg(long)]
    pub(super) redo_bytes: u64,
    /// Recovery target in milliseconds; 0 is the default
    #[arg(long)]
    pub(super) recovery_target_ms: u64,
    /// Files that may be open at once; 0 is the limit of the system
    #[arg(long)]
    pub(super) open_files: u64,
    /// Work after the report
    #[arg(long)]
    pub(super) work: bool,
    /// Report only how many steps each client has done, and work at once
    #[arg(long)]
    pub(super) at_once: bool,
}

fn problem(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Prints a line for the parent process. Fails if the parent has ended, and then this process ends
/// too.
fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(problem)
}

/// Runs a life to its end. An error is a finding.
pub fn run_life(args: &LifeOptions) -> Result<(), String> {
    if args.open_files > 0 {
        limit_open_files(args.open_files)?;
    }
    let mut options = Options::new().page_bytes(args.page_bytes).buffer_pool_bytes(args.pool_bytes);
    options = options.lock_wait(Duration::from_secs(2));
    if args.redo_bytes > 0 {
        options = options.redo_capacity_bytes(args.redo_bytes);
    }
    if args.recovery_target_ms > 0 {
        options = options.recovery_target(Duration::from_millis(args.recovery_target_ms));
    }
    let db = options.open(&args.dir).map_err(problem)?;
    decide_prepared(&db)?;
    let tables = Tables {
        rows: open_or_create(&db, "rows")?,
        hot: open_or_create(&db, "hot")?,
        clients: open_or_create(&db, "clients")?,
        queue: open_or_create(&db, "queue")?,
    };
    let ledger = File::options().write(true).open(&args.ledger);
    let ledger = Ledger(ledger.map_err(|e| format!("cannot open {}: {e}", args.ledger.display()))?);
    let zero = || AtomicU64::new(0);
    let life = Life {
        db,
        tables,
        recipe: Recipe { seed: args.seed },
        ledger,
        acknowledged: zero(),
        refused: zero(),
        retried: zero(),
        scans: zero(),
        over: AtomicBool::new(false),
    };
    let rng = Prng::new(args.seed ^ args.life << 20);
    let mut clients: Vec<Client<'_>> = (0..args.clients)
        .map(|number| {
            let rng = Prng::new(rng.clone().next_u64() ^ u64::from(number));
            Client { life: &life, number, done: 0, rng }
        })
        .collect();
    if args.at_once {
        report_steps(&life, &mut clients)?;
    } else {
        report_contents(&life, &mut clients)?;
    }
    say("ready")?;
    if args.work {
        work(&life, &mut clients, args, rng)?;
    }
    come_to_rest(&life, args)
}

fn limit_open_files(most: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Sets the hard limit too, so nothing in this process can raise it again.
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Nofile, limit).map_err(|e| format!("cannot limit open files to {most}: {e}"))
}

fn open_or_create(db: &Db, name: &str) -> Result<Table, String> {
    loop {
        let outcome = match db.open_table(name) {
            Err(Error::NoSuchTable { .. }) => db.create_table(name),
            outcome => outcome,
        };
        match outcome {
            Err(Error::DiskFull { .. }) => std::thread::sleep(Duration::from_millis(50)),
            outcome => return outcome.map_err(problem),
        }
    }
}

/// Decides the prepared transactions of the last life; the first byte of the xid says how.
fn decide_prepared(db: &Db) -> Result<(), String> {
    for xid in db.prepared().map_err(problem)? {
        let outcome = match xid.first() {
            Some(b'p') => db.commit_prepared(&xid),
            _ => db.rollback_prepared(&xid),
        };
        outcome.map_err(|e| format!("prepared transaction {}: {e}", xid.escape_ascii()))?;
    }
    Ok(())
}

/// Reports how many steps each client has done.
fn report_steps(life: &Life, clients: &mut [Client<'_>]) -> Result<(), String> {
    let tx = life.db.begin().map_err(problem)?;
    for client in clients.iter_mut() {
        let count = tx.get(&life.tables.clients, &client.number.to_be_bytes()).map_err(problem)?;
        client.done = count.map_or(ClientCount::default(), |value| ClientCount::decode(&value)).steps;
        say(&format!("found {} {}", client.number, client.done))?;
    }
    Ok(())
}

/// Checks the database and reports all of its rows.
fn report_contents(life: &Life, clients: &mut [Client<'_>]) -> Result<(), String> {
    let report = life.db.check().map_err(problem)?;
    if !report.is_clean() {
        return Err(format!("the check after opening: {report}"));
    }
    report_steps(life, clients)?;
    // A table whose replacement was cut off may be the old or the new one. Finishing the step makes
    // it the new one.
    for client in clients.iter_mut() {
        let next = life.recipe.step(client.number, client.done + 1);
        if matches!(next, ClientStep::Table(_)) {
            client.finish(&next)?;
        }
    }
    let tx = life.db.begin().map_err(problem)?;
    for client in clients.iter() {
        let digest = digest(life, &tx, client)?;
        say(&format!("account {} {}", client.number, digest.to_line()))?;
    }
    let (hot, _) = sums(life, &tx)?;
    say(&format!("hot {}", hot.map(|n| n.to_string()).join(" ")))
}

fn digest(life: &Life, tx: &Transaction, client: &Client<'_>) -> Result<ClientDigest, String> {
    let mut digest = ClientDigest { steps: client.done, ..ClientDigest::default() };
    let (from, to) = (row_key(client.number, 0), row_key(client.number, u16::MAX));
    let mut outcome = Ok(());
    tx.scan(&life.tables.rows, &from[..]..&to[..], |key, value| {
        outcome = origin_of(key, value)
            .map(|origin| digest.add(origin.slot, origin.step, origin.change, value.len() as u32));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(problem)?;
    outcome?;
    digest.table = own_table(&life.db, tx, client.number)?;
    check_queue(life, tx, client)?;
    Ok(digest)
}

/// Returns the origin of a value. An error if the value is damaged or belongs to another row.
fn origin_of(key: &[u8], value: &[u8]) -> Result<Origin, String> {
    match Origin::of(value) {
        Some(origin) if row_key(origin.client, origin.slot) == key => Ok(origin),
        origin => {
            let bytes = value.len();
            Err(format!("row {} has {bytes} bytes that came from {origin:?}", key.escape_ascii()))
        }
    }
}

/// Returns the step that made the client's only table, and how many rows it has. An error if a row
/// is wrong.
fn own_table(db: &Db, tx: &Transaction, client: u16) -> Result<Option<(u64, u32)>, String> {
    let own = table_prefix(client);
    let names = db.table_names().map_err(problem)?;
    let mut of_client = names.iter().filter_map(|name| name.strip_prefix(&own));
    let Some(made) = of_client.next() else { return Ok(None) };
    if let Some(second) = of_client.next() {
        return Err(format!("client {client} has two tables, of steps {made} and {second}"));
    }
    let step: u64 = made.parse().map_err(problem)?;
    let table = db.open_table(&format!("{own}{made}")).map_err(problem)?;
    let mut rows = 0;
    for row in tx.range(&table, ..).map_err(problem)? {
        let (key, value) = row.map_err(problem)?;
        if key != u32::to_be_bytes(rows) || value != table_row(step, rows) {
            return Err(format!("row {rows} of table {own}{made} is wrong"));
        }
        rows += 1;
    }
    Ok(Some((step, rows)))
}

/// Checks that the client's queue has the rows of its last steps and no others.
fn check_queue(life: &Life, tx: &Transaction, client: &Client<'_>) -> Result<(), String> {
    let (from, to) = (queue_key(client.number, 0), queue_key(client.number, u64::MAX));
    let mut step = client.done.saturating_sub(QUEUE_ROWS);
    for row in tx.range(&life.tables.queue, &from[..]..&to[..]).map_err(problem)? {
        let (key, value) = row.map_err(problem)?;
        step += 1;
        if key != queue_key(client.number, step) || value != queue_value(step) {
            return Err(format!("client {}: row {step} of its queue is wrong", client.number));
        }
    }
    if step == client.done {
        Ok(())
    } else {
        Err(format!("client {}: its queue ends at {step}", client.number))
    }
}

/// Returns the values of the hot rows, and how many increments the rows of all clients count.
fn sums(life: &Life, tx: &Transaction) -> Result<([u64; HOT_ROWS], u64), String> {
    let mut hot = [0; HOT_ROWS];
    for row in tx.range(&life.tables.hot, ..).map_err(problem)? {
        let (key, value) = row.map_err(problem)?;
        let row = key.first().and_then(|&row| hot.get_mut(usize::from(row)));
        *row.ok_or("there are too many hot rows")? = number(&value);
    }
    let mut of_clients = 0;
    for row in tx.range(&life.tables.clients, ..).map_err(problem)? {
        of_clients += ClientCount::decode(&row.map_err(problem)?.1).hot;
    }
    Ok((hot, of_clients))
}

/// The input has asked this life to come to rest.
static REST: AtomicBool = AtomicBool::new(false);

/// Works until asked to come to rest. The first failure ends all threads.
fn work(life: &Life, clients: &mut [Client<'_>], args: &LifeOptions, mut rng: Prng) -> Result<(), String> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        REST.store(true, Ordering::Relaxed);
    });
    let ended = |outcome: Result<(), String>| {
        if outcome.is_err() {
            life.over.store(true, Ordering::Relaxed);
        }
        outcome
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for client in clients {
            threads.push(scope.spawn(move || ended(client.run())));
        }
        for _ in 0..args.scanners {
            let rng = Prng::new(rng.next_u64());
            threads.push(scope.spawn(move || ended(read_all(life, rng))));
        }
        let own = Prng::new(rng.next_u64());
        threads.push(scope.spawn(move || ended(check_and_checkpoint(life, own))));
        let mut outcome = Ok(());
        while outcome.is_ok() && !life.ends() {
            outcome = say(&format!("alive {}", figures(life, args)));
            std::thread::sleep(Duration::from_millis(500));
            if REST.load(Ordering::Relaxed) {
                life.over.store(true, Ordering::Relaxed);
            }
        }
        life.over.store(true, Ordering::Relaxed);
        for thread in threads {
            outcome = outcome.and(thread.join().map_err(|_| "a thread panicked".to_owned())?);
        }
        outcome
    })
}

fn figures(life: &Life, args: &LifeOptions) -> String {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let free = life.db.metrics().get("free_pages").unwrap_or(0.0) as u64 * args.page_bytes as u64;
    let resources = ResourceUse::of(&args.dir, free);
    let done = [of(&life.acknowledged), of(&life.refused), of(&life.retried), of(&life.scans)];
    done.iter().map(u64::to_string).chain([resources.to_line()]).collect::<Vec<_>>().join(" ")
}

/// Waits, at most until the life ends.
fn pause(life: &Life, ms: u64) {
    let start = Instant::now();
    while !life.ends() && start.elapsed() < Duration::from_millis(ms) {
        std::thread::sleep(Duration::from_millis(ms.min(20)));
    }
}

/// Reads everything in one snapshot, again and again. The result must be consistent, also when the
/// snapshot is old.
fn read_all(life: &Life, mut rng: Prng) -> Result<(), String> {
    while !life.ends() {
        let options = TxnOptions::new().isolation(Isolation::RepeatableRead).read_only(rng.one_in(2));
        let tx = life.db.begin_with(options).map_err(problem)?;
        let first = match sums(life, &tx) {
            Ok(first) => first,
            Err(what) if too_old(&what) => continue,
            Err(what) => return Err(what),
        };
        if first.0.iter().sum::<u64>() != first.1 {
            return Err(format!("the hot rows hold {:?}, the clients say {}", first.0, first.1));
        }
        if rng.one_in(4) {
            pause(life, rng.between(100, 10_000));
        }
        let mut outcome = Ok(());
        let scan = tx.scan(&life.tables.rows, .., |key, value| {
            outcome = origin_of(key, value).map(drop);
            if outcome.is_ok() && !life.ends() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome?;
        match scan.map_err(problem).and_then(|()| sums(life, &tx)) {
            Ok(again) if again == first => drop(life.scans.fetch_add(1, Ordering::Relaxed)),
            Ok(again) => return Err(format!("one snapshot showed {first:?}, later {again:?}")),
            Err(what) if too_old(&what) => {}
            Err(what) => return Err(what),
        }
    }
    Ok(())
}

fn too_old(what: &str) -> bool {
    what == Error::SnapshotTooOld.to_string()
}

/// Checks the database and takes checkpoints during the work.
fn check_and_checkpoint(life: &Life, mut rng: Prng) -> Result<(), String> {
    while !life.ends() {
        pause(life, rng.between(500, 6_000));
        if rng.one_in(3) {
            let report = life.db.check().map_err(problem)?;
            if !report.is_clean() {
                return Err(format!("a check during the work: {report}"));
            }
        } else {
            match life.db.checkpoint() {
                Ok(()) | Err(Error::DiskFull { .. }) => {}
                Err(error) => return Err(format!("a checkpoint: {error}")),
            }
        }
    }
    Ok(())
}

/// Waits until nothing is left to revert or purge, reports the use of resources, and closes the
/// database.
fn come_to_rest(life: &Life, args: &LifeOptions) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let report = life.db.check().map_err(problem)?;
        if !report.is_clean() {
            return Err(format!("the check at rest: {report}"));
        }
        let history = life.db.metrics().get("history_transactions");
        if report.unreachable_pages == Some(0) && history == Some(0.0) {
            break;
        }
        if start.elapsed() > HANGS {
            let pages = report.unreachable_pages;
            return Err(format!("not at rest: history {history:?}, unreachable pages {pages:?}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    match life.db.checkpoint() {
        Ok(()) | Err(Error::DiskFull { .. }) => {}
        Err(error) => return Err(format!("the last checkpoint: {error}")),
    }
    let line = figures(life, args);
    life.db.close().map_err(problem)?;
    say(&format!("rest {line}"))
}
