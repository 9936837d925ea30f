//! What a run promised: its effects in the order in which they became visible, with the times when
//! each was requested and acknowledged, counted in disk operations. From this follows which states
//! a power cut may leave.

use millpond::Durability;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The number of a table that is none: its one row, of the empty key, is the bookmark.
pub const BOOKMARK: u64 = u64::MAX;

/// The rows of a table.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// A change of a row: the table's number, the key, the value. `None` deletes the row.
pub type RowWrite = (u64, Vec<u8>, Option<Vec<u8>>);

/// A change that becomes visible all at once.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A commit.
    Commit(Vec<RowWrite>),
    /// A new table and its number.
    Create(String, u64),
    /// A new table, its number and its rows.
    Load(String, u64, Vec<(Vec<u8>, Vec<u8>)>),
    /// A table is dropped.
    Drop(String),
    /// A table gets another name.
    Rename(String, String),
    /// A table gets other metadata.
    SetMetadata(String, Vec<u8>),
    /// Changes of the set of tables: all or none.
    ChangeTables(Vec<Effect>),
    /// A transaction is prepared.
    Prepare(Vec<u8>, Vec<RowWrite>),
    /// A prepared transaction is committed.
    CommitPrepared(Vec<u8>),
    /// A prepared transaction is rolled back.
    RollbackPrepared(Vec<u8>),
}

/// What an effect survives after its call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// The end of the process.
    Written,
    /// A power cut too.
    Durable,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It is killed, and the disk keeps everything.
    Kill,
    /// The power is cut.
    PowerCut,
}

impl Crash {
    /// Returns whether an effect with this promise survives.
    fn keeps(self, promise: Promise) -> bool {
        promise >= if self == Crash::Kill { Promise::Written } else { Promise::Durable }
    }
}

/// An effect and when it was promised.
#[derive(Clone, Debug)]
pub struct Event {
    /// What changed.
    pub effect: Effect,
    /// Disk operations when the call began. Before that the effect is not there.
    pub called_at: u64,
    /// Disk operations when the call returned.
    pub returned_at: u64,
    /// What it survives after its return.
    pub promise: Promise,
    /// Its commit LSN, which is its place in the commit order; only commits have one.
    pub lsn: Option<u64>,
}

/// All effects of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The state before all of them.
    begin: DbState,
    events: Vec<Event>,
    /// For each event, the highest LSN of all commits that had returned when it was called. The
    /// event is ordered after them.
    after: Vec<u64>,
}

/// The state that a prefix of the history leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbState {
    /// The number of each table by its name.
    pub tables: BTreeMap<String, u64>,
    /// Rows by the table's number.
    pub rows: BTreeMap<u64, Rows>,
    /// Metadata by the table's number. Tables without are left out.
    pub metadata: BTreeMap<u64, Vec<u8>>,
    /// The writes of each prepared transaction.
    pub prepared: BTreeMap<Vec<u8>, Vec<RowWrite>>,
}

/// What a reader finds in a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Rows by the table's name.
    pub tables: BTreeMap<String, Rows>,
    /// Metadata by the table's name. Tables without are left out.
    pub metadata: BTreeMap<String, Vec<u8>>,
    /// Names of the prepared transactions, sorted.
    pub prepared: Vec<Vec<u8>>,
    /// The bookmark; empty: none.
    pub bookmark: Vec<u8>,
}

impl DbState {
    fn write(&mut self, writes: &[RowWrite]) {
        for (table, key, value) in writes {
            let rows = self.rows.entry(*table).or_default();
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
    }

    /// Applies an effect.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Commit(writes) => self.write(writes),
            Effect::Create(name, number) => drop(self.tables.insert(name.clone(), *number)),
            Effect::Load(name, number, rows) => {
                self.tables.insert(name.clone(), *number);
                self.rows.insert(*number, rows.iter().cloned().collect());
            }
            Effect::Drop(name) => {
                if let Some(number) = self.tables.remove(name) {
                    self.rows.remove(&number);
                }
            }
            Effect::Rename(from, to) => {
                if let Some(number) = self.tables.remove(from) {
                    self.tables.insert(to.clone(), number);
                }
            }
            Effect::SetMetadata(name, metadata) => {
                if let Some(number) = self.tables.get(name) {
                    self.metadata.insert(*number, metadata.clone());
                }
            }
            Effect::ChangeTables(changes) => changes.iter().for_each(|change| self.apply(change)),
            Effect::Prepare(xid, writes) => drop(self.prepared.insert(xid.clone(), writes.clone())),
            Effect::CommitPrepared(xid) => {
                if let Some(writes) = self.prepared.remove(xid) {
                    self.write(&writes);
                }
            }
            Effect::RollbackPrepared(xid) => drop(self.prepared.remove(xid)),
        }
    }

    /// Returns what a reader finds in this state.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let rows = |number: &u64| self.rows.get(number).cloned().unwrap_or_default();
        let tables = self.tables.iter().map(|(name, number)| (name.clone(), rows(number))).collect();
        let named = self.tables.iter().filter_map(|(name, number)| {
            let metadata = self.metadata.get(number).filter(|metadata| !metadata.is_empty())?;
            Some((name.clone(), metadata.clone()))
        });
        let prepared = self.prepared.keys().cloned().collect();
        let bookmark = rows(&BOOKMARK).remove(&[][..]).unwrap_or_default();
        Contents { tables, metadata: named.collect(), prepared, bookmark }
    }
}

impl History {
    /// A history that begins in this state, which survives whatever happens.
    #[must_use]
    pub fn from_state(begin: DbState) -> History {
        History { begin, ..History::default() }
    }

    /// Adds an event that has just returned.
    pub fn add(&mut self, event: Event) {
        let before = self.events.iter().filter(|e| e.returned_at <= event.called_at);
        self.after.push(before.filter_map(|e| e.lsn).max().unwrap_or(0));
        self.events.push(event);
    }

    /// Notes that the database was closed in order at disk operation `at`. Every effect so far
    /// survives.
    pub fn closed(&mut self, at: u64) {
        for event in self.events.iter_mut().filter(|e| e.promise < Promise::Durable) {
            event.promise = Promise::Durable;
            event.returned_at = at;
        }
    }

    /// Returns how many events had been called, and how many were promised to survive a crash,
    /// before operation `at`. While neither number changes, the same states are possible.
    #[must_use]
    pub fn promised_at(&self, at: u64, crash: Crash) -> (usize, usize) {
        let begun = self.events.iter().filter(|e| e.called_at < at).count();
        (begun, self.events.iter().filter(|e| crash.keeps(e.promise) && e.returned_at <= at).count())
    }

    /// Notes that what only the log knows is durable from disk operation `at` on, as far as it had
    /// returned before operation `called_at`: commits without a bookmark.
    pub fn alone_are_durable(&mut self, called_at: u64, at: u64) {
        let alone = |e: &&mut Event| {
            let Effect::Commit(writes) = &e.effect else { return false };
            e.returned_at <= called_at && writes.iter().all(|(table, _, _)| *table != BOOKMARK)
        };
        if let Some(last) = self.events.iter_mut().filter(alone).max_by_key(|e| e.lsn)
            && last.promise < Promise::Durable
        {
            last.promise = Promise::Durable;
            last.returned_at = at;
        }
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Events in the order in which they became visible.
    fn ordered(&self) -> Vec<(usize, &Event)> {
        let mut ordered: Vec<_> = self.events.iter().enumerate().collect();
        // What has no LSN of its own comes after all that had returned when it was called; nothing
        // that overlaps it in time touches the same rows.
        ordered.sort_by_key(|(n, e)| (e.lsn.unwrap_or(self.after[*n]), e.lsn.is_none(), *n));
        ordered
    }

    /// Returns the state after all effects.
    #[must_use]
    pub fn final_state(&self) -> DbState {
        let mut state = self.begin.clone();
        self.ordered().iter().for_each(|(_, event)| state.apply(&event.effect));
        state
    }

    /// Returns all states that a crash before operation `at` may leave. The first has nothing
    /// that is not promised.
    ///
    /// Commits survive in the order of their LSNs: a prefix that holds all acknowledged ones. An
    /// effect without an LSN survives or not, independent of the others. If it survives, so does
    /// everything that had returned before it was called.
    #[must_use]
    pub fn possible(&self, at: u64, crash: Crash) -> Vec<DbState> {
        let begun: Vec<_> = self.ordered().into_iter().filter(|(_, e)| e.called_at < at).collect();
        let promised = |e: &Event| crash.keeps(e.promise) && e.returned_at <= at;
        let commits: Vec<_> = begun.iter().filter_map(|(_, e)| e.lsn).collect();
        let must = begun.iter().filter(|(_, e)| promised(e)).filter_map(|(_, e)| e.lsn).max();
        let least = must.map_or(0, |lsn| commits.partition_point(|l| *l <= lsn));
        let open: Vec<_> =
            begun.iter().filter(|(_, e)| e.lsn.is_none() && !promised(e)).map(|(n, _)| *n).collect();
        assert!(open.len() < 8, "too many effects without an LSN are in progress");
        let mut states = Vec::new();
        for count in least..=commits.len() {
            let last = if count == 0 { None } else { Some(commits[count - 1]) };
            for chosen in 0..1u32 << open.len() {
                let is_there = |n: usize, e: &Event| match e.lsn {
                    Some(lsn) => last.is_some_and(|last| lsn <= last),
                    None => open.iter().position(|o| *o == n).is_none_or(|i| chosen & 1 << i != 0),
                };
                let floats = begun.iter().filter(|(n, e)| e.lsn.is_none() && is_there(*n, e));
                let needed = floats.map(|(n, _)| self.after[*n]).max().unwrap_or(0);
                if needed > last.unwrap_or(0) {
                    continue;
                }
                let mut state = self.begin.clone();
                for (n, event) in &begun {
                    if is_there(*n, event) {
                        state.apply(&event.effect);
                    }
                }
                states.push(state);
            }
        }
        states
    }
}

/// Describes the differences between what was found and what was expected, in a few lines.
#[must_use]
pub fn difference(found: &Contents, expected: &Contents) -> String {
    let mut out = String::new();
    let mut lines = 0;
    let mut say = |line: String| {
        lines += 1;
        if lines <= 12 {
            let _ = writeln!(out, "    {line}");
        }
    };
    for name in found.tables.keys().filter(|n| !expected.tables.contains_key(*n)) {
        say(format!("table {name} should not be there"));
    }
    for (name, rows) in &expected.tables {
        let Some(there) = found.tables.get(name) else {
            say(format!("table {name} is missing"));
            continue;
        };
        for key in there.keys().filter(|k| !rows.contains_key(*k)) {
            say(format!("{name}: row {} should not be there", key.escape_ascii()));
        }
        for (key, value) in rows {
            match there.get(key) {
                None => say(format!("{name}: row {} is missing", key.escape_ascii())),
                Some(other) if other != value => {
                    let head = |v: &[u8]| v[..v.len().min(12)].escape_ascii().to_string();
                    let (a, b) = (head(other), head(value));
                    say(format!("{name}: row {} is {a}… and should be {b}…", key.escape_ascii()));
                }
                Some(_) => {}
            }
        }
    }
    if found.metadata != expected.metadata {
        let lengths = |contents: &Contents| -> Vec<(String, usize)> {
            contents.metadata.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect()
        };
        say(format!("metadata: {:?} and should be {:?}", lengths(found), lengths(expected)));
    }
    if found.bookmark != expected.bookmark {
        let [found, expected] = [&found.bookmark, &expected.bookmark].map(|bookmark| bookmark.escape_ascii());
        say(format!("the bookmark is \"{found}\" and should be \"{expected}\""));
    }
    if found.prepared != expected.prepared {
        say(format!("prepared: {:?} and should be {:?}", found.prepared, expected.prepared));
    }
    if lines > 12 {
        let _ = writeln!(out, "    and {} more", lines - 12);
    }
    out
}

/// Returns what a commit of this durability survives after its return.
#[must_use]
pub fn promise_of(durability: Durability) -> Promise {
    match durability {
        Durability::Sync => Promise::Durable,
        Durability::Written { .. } => Promise::Written,
        Durability::Bounded { .. } | Durability::None => Promise::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(n: u8, (called_at, returned_at): (u64, u64), lsn: u64, promise: Promise) -> Event {
        let effect = Effect::Commit(vec![(1, vec![n], Some(vec![n]))]);
        Event { effect, called_at, returned_at, promise, lsn: Some(lsn) }
    }

    /// Returns the keys of table 1 in each possible state.
    fn keys(history: &History, at: u64) -> Vec<Vec<u8>> {
        let rows = |s: &DbState| s.rows.get(&1).map(|r| r.keys().map(|k| k[0]).collect()).unwrap_or_default();
        history.possible(at, Crash::PowerCut).iter().map(rows).collect()
    }

    #[test]
    fn commits_survive_as_a_prefix_with_all_that_was_acknowledged() {
        let mut history = History::default();
        history.add(commit(1, (2, 10), 100, Promise::Durable));
        history.add(commit(3, (5, 12), 300, Promise::Durable));
        history.add(commit(2, (5, 30), 200, Promise::Durable));
        assert_eq!(keys(&history, 2), [vec![]; 1]);
        assert_eq!(keys(&history, 5), [vec![], vec![1]]);
        assert_eq!(keys(&history, 10), [vec![1], vec![1, 2], vec![1, 2, 3]]);
        assert_eq!(keys(&history, 12), [vec![1, 2, 3]], "the acknowledged one needs those before it");
    }

    #[test]
    fn unsynced_commits_may_be_lost_from_the_end() {
        let mut history = History::default();
        history.add(commit(1, (2, 3), 100, Promise::Nothing));
        history.add(commit(2, (4, 5), 200, Promise::Nothing));
        assert_eq!(keys(&history, 50), [vec![], vec![1], vec![1, 2]]);
    }

    #[test]
    fn a_kill_keeps_what_was_written_and_a_power_cut_may_not() {
        let mut history = History::default();
        history.add(commit(1, (2, 3), 100, Promise::Written));
        history.add(commit(2, (4, 5), 200, Promise::Nothing));
        assert_eq!(keys(&history, 50), [vec![], vec![1], vec![1, 2]]);
        assert_eq!(history.possible(50, Crash::Kill).len(), 2);
        assert_eq!(history.promised_at(50, Crash::Kill), (2, 1));
        assert_eq!(history.promised_at(50, Crash::PowerCut), (2, 0));
    }

    #[test]
    fn a_surviving_table_implies_the_commits_that_returned_before_it() {
        let mut history = History::default();
        history.add(commit(1, (2, 3), 100, Promise::Nothing));
        let effect = Effect::Create("t".into(), 9);
        history.add(Event { effect, called_at: 4, returned_at: 9, promise: Promise::Durable, lsn: None });
        let seen = |at| -> Vec<_> {
            history.possible(at, Crash::PowerCut).iter().map(|s| (s.rows.len(), s.tables.len())).collect()
        };
        assert_eq!(seen(6), [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(seen(9), [(1, 1)]);
    }
}
