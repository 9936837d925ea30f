//! Who blocks whom, in sentences: from a process list, waits for row locks, and metadata locks.
//! This is pure.

use super::questions::one_line;
use client::Row;
use output::units::show_count;
use std::collections::{BTreeMap, BTreeSet};

/// The most letters of a statement in a sentence.
const STATEMENT: usize = 80;
/// The most connections that are named where nobody says which one it is.
const CANDIDATES: usize = 3;

/// What a server has answered; nothing where it did not.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) processes: Vec<Row>,
    pub(super) lock_waits: Vec<Row>,
    pub(super) metadata: Vec<Row>,
}

/// A connection of a process list.
#[derive(Clone, Debug, Default)]
struct Process {
    id: String,
    user: String,
    host: String,
    command: String,
    seconds: u64,
    state: String,
    statement: String,
}

impl Process {
    fn read(row: &Row) -> Process {
        let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        Process {
            id: cell(0),
            user: cell(1),
            host: cell(2),
            command: cell(4),
            seconds: cell(5).parse().unwrap_or(0),
            state: cell(6),
            statement: one_line(&cell(7)),
        }
    }

    /// Whether it waits for a lock, by what it says of itself.
    fn waits(&self) -> bool {
        self.state.starts_with("Waiting for") && self.state.contains("lock")
    }

    /// Whether it is one of the server's own threads.
    fn is_own(&self) -> bool {
        ["system user", "event_scheduler"].contains(&self.user.as_str())
            || self.command.starts_with("Binlog Dump")
            || self.command == "Daemon"
    }

    fn said(&self) -> String {
        let Process { id, user, host, seconds, .. } = self;
        let now = match self.statement.as_str() {
            "" => format!("idle for {seconds} s; its last statement is not known"),
            statement => format!("for {seconds} s in {}", shortened(statement)),
        };
        format!("connection {id} ({user}@{host}, {now})")
    }
}

/// Returns what there is to say, the most important first.
pub(super) fn findings(answers: &Answers) -> Vec<String> {
    let processes: Vec<Process> = answers.processes.iter().map(Process::read).collect();
    let name = |id: &str| {
        let found = processes.iter().find(|process| process.id == id);
        found.map_or_else(|| format!("connection {id}"), Process::said)
    };
    let mut out = row_locks(&answers.lock_waits, name);
    let holders = holders(answers);
    out.extend(holders.iter().map(|(id, what)| format!("{} holds {what}", name(id))));
    out.extend(states(&processes));
    if holders.is_empty() {
        out.extend(candidates(&processes));
    }
    out
}

/// Says which connections block others by row locks, and do not wait themselves.
fn row_locks(rows: &[Row], name: impl Fn(&str) -> String) -> Vec<String> {
    let cell = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let waiting: BTreeSet<String> = rows.iter().map(|row| cell(row, 0)).collect();
    let mut blocked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        blocked.entry(cell(row, 3)).or_default().insert(cell(row, 0));
    }
    let mut roots: Vec<(&String, &BTreeSet<String>)> =
        blocked.iter().filter(|(id, _)| !waiting.contains(*id)).collect();
    roots.sort_by_key(|(_, who)| std::cmp::Reverse(who.len()));
    let said = |(id, _): &(&String, &BTreeSet<String>)| {
        let mine: Vec<&Row> = rows.iter().filter(|row| cell(row, 3) == **id).collect();
        let longest = mine.iter().filter_map(|row| cell(row, 1).parse::<u64>().ok()).max().unwrap_or(0);
        let locked: BTreeSet<String> = mine.iter().map(|row| cell(row, 6)).collect();
        let age = mine.first().map_or_else(String::new, |row| cell(row, 4));
        let direct = blocked[*id].len();
        let all = behind(id, &blocked);
        let chain =
            if all > direct { format!(", {all} with those that wait for these,") } else { String::new() };
        format!(
            "{} blocks {}{chain} by row locks of {}, for up to {longest} s; its transaction is {age} s old",
            name(id),
            connections(direct),
            locked.into_iter().collect::<Vec<_>>().join(", ")
        )
    };
    roots.iter().take(CANDIDATES).map(said).collect()
}

/// Returns how many connections wait for one, also through others.
fn behind(id: &str, blocked: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let (mut seen, mut next) = (BTreeSet::new(), vec![id.to_owned()]);
    while let Some(id) = next.pop() {
        for one in blocked.get(&id).into_iter().flatten() {
            if seen.insert(one.clone()) {
                next.push(one.clone());
            }
        }
    }
    seen.len()
}

/// Returns who holds a metadata lock for which others wait, as far as the server shows it: the
/// global read lock, and in MySQL the locks of tables.
fn holders(answers: &Answers) -> Vec<(String, String)> {
    let cell = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let rows = &answers.metadata;
    let pending: Vec<&Row> = rows.iter().filter(|row| cell(row, 2) == "PENDING").collect();
    let mut out: Vec<(String, String)> = Vec::new();
    for row in rows.iter().filter(|row| cell(row, 2) != "PENDING") {
        let (id, mode, locked) = (cell(row, 0), cell(row, 1), cell(row, 3));
        let global = mode.contains("FTWRL") || locked.trim() == "GLOBAL" && mode == "SHARED";
        let wanted = pending.iter().any(|other| cell(other, 3) == locked && cell(other, 0) != id);
        let found = match (global, wanted) {
            (true, _) => "the global read lock (FLUSH TABLES WITH READ LOCK)".to_owned(),
            (_, true) if mode.starts_with("SHARED") || mode == "EXCLUSIVE" => {
                format!("a metadata lock ({mode}) of {locked}, for which others wait")
            }
            _ => continue,
        };
        if !out.contains(&(id.clone(), found.clone())) {
            out.push((id, found));
        }
    }
    out.truncate(CANDIDATES);
    out
}

/// Says how many connections wait in which state.
fn states(processes: &[Process]) -> Vec<String> {
    let mut states: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for process in processes.iter().filter(|process| process.waits()) {
        let (count, longest) = states.entry(&process.state).or_default();
        (*count, *longest) = (*count + 1, (*longest).max(process.seconds));
    }
    let said = |(state, (count, longest)): (&str, (usize, u64))| {
        let verb = if count == 1 { "is" } else { "are" };
        format!("{} {verb} in the state “{state}”, for up to {longest} s", connections(count))
    };
    states.into_iter().map(said).collect()
}

/// Names the connections that may hold what others wait for: those that do not wait, and have done
/// what they do since before the longest wait.
fn candidates(processes: &[Process]) -> Vec<String> {
    let Some(longest) = processes.iter().filter(|one| one.waits()).map(|one| one.seconds).max() else {
        return Vec::new();
    };
    let fits = |one: &&Process| !one.waits() && !one.is_own() && one.seconds >= longest;
    let mut found: Vec<&Process> = processes.iter().filter(fits).collect();
    found.sort_by_key(|one| one.seconds);
    let more = found.len().saturating_sub(CANDIDATES);
    let names: Vec<String> = found.iter().take(CANDIDATES).map(|one| one.said()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let more = if more > 0 { format!(", or one of {more} others") } else { String::new() };
    vec![format!(
        "the server does not say who holds that lock; of those that do not wait it may be {}{more}",
        names.join(", or ")
    )]
}

fn connections(count: usize) -> String {
    let word = if count == 1 { "connection" } else { "connections" };
    format!("{} {word}", show_count(count as f64))
}

fn shortened(text: &str) -> String {
    match text.chars().count() > STATEMENT {
        true => format!("{}…", text.chars().take(STATEMENT).collect::<String>()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    /// Reads rows: a line each, with `|` between cells.
    fn rows(text: &str) -> Vec<Row> {
        let cell = |cell: &str| Some(cell.trim()).filter(|cell| *cell != "NULL").map(str::to_owned);
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.split('|').map(cell).collect())
            .collect()
    }

    fn said(processes: &str, lock_waits: &str, metadata: &str) -> String {
        let answers =
            Answers { processes: rows(processes), lock_waits: rows(lock_waits), metadata: rows(metadata) };
        findings(&answers).iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn who_holds_a_row_lock_is_named_with_all_that_wait_behind() {
        let processes = "
            10|app|10.0.0.1:3|t|Sleep|9||NULL
            11|app|10.0.0.1:4|t|Query|8|Updating|update t.a set v = 1
            12|app|10.0.0.1:5|t|Query|7|Updating|update t.a set v = 2
            13|app|10.0.0.1:6|t|Query|6|Updating|update t.a set v = 3";
        let waits = "
            11|8|update t.a set v = 1|10|9|NULL|`t`.`a` PRIMARY|X
            12|7|update t.a set v = 2|11|8|update t.a set v = 1|`t`.`a` PRIMARY|X
            12|7|update t.a set v = 2|10|9|NULL|`t`.`a` PRIMARY|X
            13|6|update t.a set v = 3|12|7|update t.a set v = 2|`t`.`b` PRIMARY|X";
        expect![[r#"
            connection 10 (app@10.0.0.1:3, idle for 9 s; its last statement is not known) blocks 2 connections, 3 with those that wait for these, by row locks of `t`.`a` PRIMARY, for up to 8 s; its transaction is 9 s old
        "#]].assert_eq(&said(processes, waits, ""));
    }

    #[test]
    fn a_global_read_lock_is_that_of_the_connection_that_began_before_the_wait() {
        let processes = "
            1|system user||NULL|Daemon|NULL|InnoDB purge|NULL
            5|root|localhost|NULL|Query|6|User sleep|select sleep(60)
            6|app|localhost|t|Query|5|Waiting for backup lock|update t.a set v = 3
            7|app|localhost|t|Query|4|Waiting for backup lock|update t.a set v = 4
            8|app|localhost|t|Sleep|2||NULL
            9|idle|localhost|t|Sleep|900||NULL";
        expect![[r#"
            2 connections are in the state “Waiting for backup lock”, for up to 5 s
            the server does not say who holds that lock; of those that do not wait it may be connection 5 (root@localhost, for 6 s in select sleep(60)), or connection 9 (idle@localhost, idle for 900 s; its last statement is not known)
        "#]].assert_eq(&said(processes, "", ""));
        let metadata = "
            5|MDL_BACKUP_FTWRL2|6000|Backup lock
            6|MDL_SHARED_WRITE|5000|Table metadata lock t a";
        expect![[r#"
            connection 5 (root@localhost, for 6 s in select sleep(60)) holds the global read lock (FLUSH TABLES WITH READ LOCK)
            2 connections are in the state “Waiting for backup lock”, for up to 5 s
        "#]].assert_eq(&said(processes, "", metadata));
    }

    #[test]
    fn mysql_names_the_holder_of_a_table() {
        let processes = "
            5|root|localhost|t|Sleep|60||NULL
            6|root|localhost|t|Query|9|Waiting for table metadata lock|alter table a add c int";
        let metadata = "
            5|SHARED_WRITE|GRANTED|TABLE t a
            6|EXCLUSIVE|PENDING|TABLE t a
            6|INTENTION_EXCLUSIVE|GRANTED|GLOBAL";
        expect![[r#"
            connection 5 (root@localhost, idle for 60 s; its last statement is not known) holds a metadata lock (SHARED_WRITE) of TABLE t a, for which others wait
            1 connection is in the state “Waiting for table metadata lock”, for up to 9 s
        "#]].assert_eq(&said(processes, "", metadata));
        assert_eq!(said("", "", ""), "");
    }
}
