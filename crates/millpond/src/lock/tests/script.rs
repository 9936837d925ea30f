//! Text scripts over a lock table: one call a line. The output shows the result of each call and
//! the waits that it ended.

use super::*;
use base::sync::Mutex;

/// The lock of a scan that may change what it reads.
pub(super) const UPDATE: RangeMode = RangeMode { rows: Mode::Exclusive, gaps: true };

/// The lock table of a script, and its transactions by the number in their lines.
struct Session<'t> {
    table: &'t LockTable,
    owners: BTreeMap<u64, Arc<Owner>>,
    tickets: BTreeMap<u64, Ticket<'t>>,
    scans: BTreeMap<u64, ScanStart>,
    /// Is told of waits, if the script is about that.
    told: Option<Arc<Told>>,
}

/// An observer for which transactions have to commit in the order of their numbers.
#[derive(Debug, Default)]
struct Told(Mutex<String>);

impl WaitObserver for Told {
    fn waits(&self, waiter: u64, blocker: u64) -> bool {
        write!(self.0.lock(), " ({waiter} waits for {blocker})").unwrap();
        waiter < blocker
    }
}

/// Runs a script and compares its output.
///
/// `1 X a` locks a row (`nowait`, `skip` may follow) · `1 writes a` claims it · `2 behind 1 X a`
/// waits for a writer · `1 scans a..c` begins a scan that lets pending writes pass · `1 keeps a..c`
/// covers a range (`a..` to the end; `backward` may follow), as that scan, or, without one, letting
/// no write pass · `1 scans-x a..c` and `1 takes a..c` do so with exclusive locks of the rows · `1
/// takes-row X a` covers one row without gaps · `1 inserts a` claims a key without a row, and `1 S
/// a gap` locks one · `1 frees a` releases a row early · `1 may-take a` · `1 undoes a` keeps the
/// lock of an undone version · `1 may-read a` · `2 behind-ended 1 X a` as `behind`, when the
/// writer's status is final · `1 works 5` · `1 looks` searches for deadlocks · `1 quits` withdraws
/// · `1 end` releases all · `show a` · `stop`
pub(super) fn check(script: &str, expected: &Expect) {
    run(script, expected, None);
}

/// As [`check`], with an observer of waits that knows each transaction by its number. The output
/// shows what it is told. `1 hides` hides a transaction from it.
pub(super) fn check_told(script: &str, expected: &Expect) {
    run(script, expected, Some(Arc::default()));
}

fn run(script: &str, expected: &Expect, told: Option<Arc<Told>>) {
    let table = table();
    if let Some(told) = &told {
        assert!(table.observe(Arc::clone(told) as Arc<dyn WaitObserver>));
    }
    let (owners, tickets, scans) = Default::default();
    let mut session = Session { table: &table, owners, tickets, scans, told };
    let mut out = String::new();
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let result = session.call(line);
        let told = session.told.as_ref().map_or(String::new(), |told| std::mem::take(&mut told.0.lock()));
        let text = format!("{line}: {result}{told}{}", session.ended_waits());
        writeln!(out, "{}", text.trim_end().trim_end_matches(':')).unwrap();
    }
    session.tickets.clear();
    for owner in session.owners.values() {
        table.release_all(owner);
    }
    assert_eq!(table.bytes(), 0, "every queue is gone once every transaction has ended");
    expected.assert_eq(&out);
}

impl<'t> Session<'t> {
    /// Makes the call of a line and returns its result; empty if it has none.
    fn call(&mut self, line: &str) -> String {
        let (words, table): (Vec<&str>, _) = (line.split(' ').collect(), self.table);
        match words[..] {
            ["show", row] => {
                let key = LockKey::row(TREE, row.as_bytes());
                return table.queues.with_queue(&key, Queue::describe).unwrap_or_else(|| "nobody".to_owned());
            }
            ["stop"] => {
                table.stop();
                return String::new();
            }
            _ => {}
        }
        let id = words[0].parse().unwrap_or_else(|_| panic!("what is {line:?}"));
        let owner = Arc::clone(self.owners.entry(id).or_insert_with(|| table.begin_as(TxnId(id), id)));
        let wait = match words.last() {
            Some(&"nowait") => Wait::NoWait,
            Some(&"skip") => Wait::Skip,
            _ => Wait::Until(Duration::from_secs(1)),
        };
        match words[1..] {
            [lock @ ("X" | "S"), row, ref rest @ ..] => {
                let state = KeyState::of(rest.first() != Some(&"gap"));
                self.note(id, table.enqueue(&owner, TREE, row.as_bytes(), state, mode(lock), wait))
            }
            [how @ ("inserts" | "writes"), row, ..] => {
                let state = KeyState::of(how == "writes");
                self.note(id, table.claim(&owner, TREE, row.as_bytes(), state, wait))
            }
            [how @ ("behind" | "behind-ended"), writer, lock, row, ..] => {
                let request = RowRequest { tree: TREE, key: row.as_bytes(), mode: mode(lock), wait };
                let writer = TxnId(writer.parse().unwrap());
                match table.wait_for_writer(&owner, writer, request, || how == "behind") {
                    Ok(Writer::Gone) => "gone".to_owned(),
                    Ok(Writer::Waiting(ticket)) => self.note(id, Ok(Enqueued::Waiting(ticket))),
                    Err(denied) => format!("{denied:?}"),
                }
            }
            [how @ ("scans" | "scans-x"), range, ..] => {
                let locks = if how == "scans" { RangeMode::READ } else { UPDATE };
                let since = self.scans.entry(id).insert_entry(ScanStart::default()).into_mut();
                match table.let_writers_pass(&owner, bounds(range), locks, since, wait) {
                    Ok(Some(scan)) => self.note(id, Ok(Enqueued::Waiting(scan.into_ticket()))),
                    Ok(None) => "goes on".to_owned(),
                    Err(denied) => format!("{denied:?}"),
                }
            }
            [how @ ("keeps" | "takes"), range, ref rest @ ..] => {
                let locks = if how == "keeps" { RangeMode::READ } else { UPDATE };
                let since = *self.scans.entry(id).or_insert(ScanStart::NoYield);
                let backward = rest == ["backward"];
                let stopped = table.cover(&owner, bounds(range), locks, since, backward).unwrap();
                stopped.map_or(String::new(), |key| format!("to {}", String::from_utf8(key).unwrap()))
            }
            ["takes-row", lock, row, ref joins @ ..] => {
                let since = *self.scans.entry(id).or_insert(ScanStart::NoYield);
                takes_row(table, &owner, (mode(lock), row, joins.first()), since)
            }
            [how @ ("may-read" | "may-take"), row] => {
                let mode = if how == "may-read" { Mode::Shared } else { Mode::Exclusive };
                table.row_is_free(&owner, TREE, row.as_bytes(), mode, true).to_string()
            }
            ["frees", row] => table.release_row(&owner, TREE, row.as_bytes()).to_string(),
            _ => {
                self.act(id, &owner, &words[1..]);
                String::new()
            }
        }
    }

    /// Makes a call that has no result.
    fn act(&mut self, id: u64, owner: &Arc<Owner>, words: &[&str]) {
        match *words {
            ["undoes", row] => self.table.keep_written(owner, TREE, row.as_bytes()).unwrap(),
            ["works", work] => owner.add_work(work.parse().unwrap()),
            ["hides"] => owner.hide(),
            ["looks"] => self.table.break_cycles(owner, 0),
            ["quits"] => drop(self.tickets.remove(&id)),
            ["end"] => {
                self.owners.remove(&id);
                self.table.release_all(owner);
            }
            _ => panic!("what is {words:?}"),
        }
    }

    /// Keeps the ticket of a request that waits, and returns the result as text.
    fn note(&mut self, id: u64, outcome: Result<Enqueued<'t>, Denied>) -> String {
        match outcome {
            Ok(Enqueued::Granted) => "granted".to_owned(),
            Ok(Enqueued::Waiting(ticket)) => {
                self.tickets.insert(id, ticket);
                "waits".to_owned()
            }
            Err(denied) => format!("{denied:?}"),
        }
    }

    /// Returns the waits that have ended, with their ends, and forgets them.
    fn ended_waits(&mut self) -> String {
        let mut out = String::new();
        self.tickets.retain(|id, _| {
            match self.owners[id].signal.load(Ordering::Acquire) {
                wait_state::WAITING => return true,
                wait_state::GRANTED => write!(out, " [{id} granted]").unwrap(),
                wait_state::PASSED => write!(out, " [{id} passes]").unwrap(),
                wait_state::DEADLOCK => write!(out, " [{id} deadlock]").unwrap(),
                wait_state::STOPPED => write!(out, " [{id} stopped]").unwrap(),
                other => panic!("signal {other}"),
            }
            false
        });
        out
    }
}

/// Covers a row, and returns whether that was done and whether its lock is new.
fn takes_row(
    table: &LockTable,
    owner: &Arc<Owner>,
    (mode, row, joins): (Mode, &str, Option<&&str>),
    since: ScanStart,
) -> String {
    let row = RangeRow { tree: TREE, key: row.as_bytes(), joins: joins.map(|place| place.as_bytes()) };
    let covered = table.cover_row(owner, row, mode, since).unwrap();
    format!("{covered}{}", if owner.has_new_lock() { ", new" } else { "" })
}

fn mode(word: &str) -> Mode {
    if word == "X" { Mode::Exclusive } else { Mode::Shared }
}

fn bounds(range: &str) -> KeyRange<'_> {
    let (from, to) = range.split_once("..").unwrap();
    KeyRange::new(TREE, from.as_bytes(), Some(to.as_bytes()).filter(|to| !to.is_empty()))
}
