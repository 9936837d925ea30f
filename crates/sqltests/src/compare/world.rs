//! Two databases of one server with the same contents, one of InnoDB and one of Millpond, and the
//! sessions that use them.

use crate::compare::answer::{Answer, Outcome, Row};
use crate::compare::case::Step;
use crate::compare::client::Client;
use crate::compare::plan::{self, Access};
use crate::compare::session::{End, Session};
use std::collections::BTreeMap;
use std::io::Result;
use std::path::{Path, PathBuf};

/// The databases and their engines.
pub(crate) const SIDES: [(&str, &str); 2] = [("cmp_innodb", "InnoDB"), ("cmp_millpond", MILLPOND)];
pub(crate) const MILLPOND: &str = "Millpond";

/// Numbers and beginnings of warnings that say nothing of the statement: a note beside the error
/// of one that sorts, which is the plan's choice, and warnings that the server's statistics tables
/// were locked, by the other side or by InnoDB's own thread.
const UNRELATED: [(&[u8], &[u8]); 3] =
    [(b"1028", b""), (b"1177", b""), (b"1088", b"Error updating stats for table after table rebuild: ")];

/// The two databases.
pub(crate) struct World {
    socket: PathBuf,
    sessions: BTreeMap<char, Session>,
    /// How many transactions have ended, those of one statement included: what is committed stays
    /// as it is until the next one ends.
    ended: u64,
}

impl World {
    /// Empties both databases. No session is connected.
    pub(crate) fn new(socket: &Path) -> Result<World> {
        let mut client = Client::connect(socket)?;
        for (database, _) in SIDES {
            for statement in [
                format!("DROP DATABASE IF EXISTS {database}"),
                format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"),
            ] {
                if let Answer::Failed { code, text } = client.run(&statement)? {
                    return Err(std::io::Error::other(format!("{statement}: {code} {text}")));
                }
            }
        }
        Ok(World { socket: socket.to_owned(), sessions: BTreeMap::new(), ended: 0 })
    }

    /// Runs a statement on both sides at the same moment. Returns the outcomes of InnoDB and of
    /// Millpond, in which both databases and both engines have the same name.
    pub(crate) fn run(&mut self, step: &Step) -> Result<[Outcome; 2]> {
        if !self.sessions.contains_key(&step.session) {
            let mut clients = [connect(&self.socket, 0)?, connect(&self.socket, 1)?];
            let thread = number(&mut clients[0], "SELECT CONNECTION_ID()").unwrap_or(0);
            self.sessions.insert(step.session, Session::new(clients, thread));
        }
        let Some(session) = self.sessions.get_mut(&step.session) else { unreachable!("it was inserted") };
        session.begin(step);
        let [left, right] = answers(&mut session.clients, &step.sql)?;
        let warned = left.has_warnings() || right.has_warnings();
        let warnings =
            if warned { answers(&mut session.clients, "SHOW WARNINGS")? } else { [none(), none()] };
        self.ended += u64::from(!session.is_in_transaction());
        session.end(step, end_of(&left, &right), self.ended);
        if session.needs_snapshot() && has_snapshot(&self.socket, session.thread)? {
            session.note_snapshot();
        }
        let [first, second] = warnings;
        Ok([outcome(left, first, 0), outcome(right, second, 1)])
    }

    /// Returns a session that has run a statement.
    pub(crate) fn session(&mut self, name: char) -> Option<&mut Session> {
        self.sessions.get_mut(&name)
    }

    /// Returns how many transactions of all sessions have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns the other sessions that have a transaction open.
    pub(crate) fn others(&self, name: char) -> impl Iterator<Item = &Session> {
        self.sessions
            .iter()
            .filter(move |(other, _)| **other != name)
            .map(|(_, session)| session)
            .filter(|session| session.is_in_transaction())
    }

    /// Returns how many rows of InnoDB's table fit a condition, uncommitted ones included.
    pub(crate) fn count_in_innodb(&self, table: &str, condition: &str) -> Option<u64> {
        let mut client = connect(&self.socket, 0).ok()?;
        client.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").ok()?;
        count(&mut client, table, condition)
    }

    /// Returns how many committed rows of Millpond's table fit a condition.
    pub(crate) fn count_in_millpond(&self, table: &str, condition: &str) -> Option<u64> {
        count(&mut connect(&self.socket, 1).ok()?, table, condition)
    }

    /// Returns the committed rows of Millpond's table that fit a condition.
    pub(crate) fn rows_in_millpond(&self, table: &str, condition: &str) -> Option<Vec<Row>> {
        let query = format!("SELECT * FROM {table} WHERE {condition}");
        let answer = connect(&self.socket, 1).ok()?.run(&query).ok()?;
        answer.code().is_none().then(|| answer.rows().to_vec())
    }

    /// Returns the names of all tables.
    pub(crate) fn tables(&self) -> Vec<String> {
        let found = connect(&self.socket, 0).and_then(|mut client| client.run("SHOW TABLES"));
        let rows = found.map(|answer| answer.rows().to_vec()).unwrap_or_default();
        let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
    }

    /// Returns how many rows of one side's table fit a condition as a session's transaction sees
    /// them.
    pub(crate) fn count_in_snapshot(
        &mut self,
        side: usize,
        name: char,
        table: &str,
        condition: &str,
    ) -> Option<u64> {
        count(&mut self.session(name)?.clients[side], table, condition)
    }

    /// Returns how a session's transaction answers a query on one side.
    pub(crate) fn answer_in_snapshot(&mut self, side: usize, name: char, sql: &str) -> Option<Outcome> {
        let answer = self.session(name)?.clients[side].run(sql).ok()?;
        Some(outcome(answer, none(), side))
    }

    /// Returns the plans of a statement on both sides, if it has one.
    pub(crate) fn plans(&self, sql: &str) -> Option<[Vec<Access>; 2]> {
        let plan = |side| plan::of(&mut connect(&self.socket, side).ok()?, sql);
        Some([plan(0)?, plan(1)?])
    }

    /// Returns the names of the secondary indexes of a table, quoted.
    pub(crate) fn secondary_indexes(&self, table: &str) -> Vec<String> {
        connect(&self.socket, 0)
            .map(|mut client| plan::secondary_indexes(&mut client, table))
            .unwrap_or_default()
    }

    /// Returns the names, quoted, of the indexes that have only the beginning of a column.
    pub(crate) fn prefix_indexes(&self, table: &str) -> Vec<String> {
        connect(&self.socket, 0)
            .map(|mut client| plan::prefix_indexes(&mut client, table))
            .unwrap_or_default()
    }

    /// Returns the columns of the unique keys of a table.
    pub(crate) fn unique_columns(&self, table: &str) -> Vec<String> {
        connect(&self.socket, 0)
            .map(|mut client| plan::unique_columns(&mut client, table))
            .unwrap_or_default()
    }

    /// Tells whether both sides define a table alike, its counter included.
    pub(crate) fn defines_alike(&self, table: &str) -> bool {
        let definition = |side| {
            let answer = connect(&self.socket, side)?.run(&format!("SHOW CREATE TABLE {table}"))?;
            Result::Ok(outcome(answer, none(), side).answer)
        };
        matches!((definition(0), definition(1)), (Ok(left), Ok(right)) if left.rows() == right.rows())
    }

    /// Tells whether a statement reads only an index in InnoDB that does not have its texts as they
    /// are in Millpond.
    pub(crate) fn reads_texts_of_index(&self, plan: &[Access]) -> bool {
        let alone = plan.iter().filter_map(|access| Some((&access.table, access.index_alone()?)));
        alone.into_iter().any(|(table, index)| {
            connect(&self.socket, 0).is_ok_and(|mut client| plan::has_texts(&mut client, table, index))
        })
    }
}

/// Tells how a statement ended, by both answers.
fn end_of(left: &Answer, right: &Answer) -> End {
    let nothing = |answer: &Answer| match answer {
        Answer::Done { affected, info, .. } => {
            *affected == 0 && !info.contains("matched: ") || info.contains("matched: 0")
        }
        Answer::Rows { rows, .. } => rows.is_empty(),
        Answer::Failed { .. } => false,
    };
    if left.code().is_some() || right.code().is_some() {
        End::Failed
    } else if nothing(left) {
        End::Nothing
    } else {
        End::Done
    }
}

fn count(client: &mut Client, table: &str, condition: &str) -> Option<u64> {
    number(client, &format!("SELECT COUNT(*) FROM {table} WHERE {condition}"))
}

/// Returns the number that a query answers.
fn number(client: &mut Client, sql: &str) -> Option<u64> {
    let answer = client.run(sql).ok()?;
    let number = answer.rows().first()?.first()?.as_ref()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Tells whether the transaction of a connection to InnoDB has a snapshot. A statement whose
/// condition no row can fit draws none.
fn has_snapshot(socket: &Path, thread: u64) -> Result<bool> {
    let answer = connect(socket, 0)?.run("SHOW ENGINE INNODB STATUS")?;
    let status = answer.rows().first().and_then(|row| row.get(2).cloned().flatten()).unwrap_or_default();
    Ok(shows_snapshot(&String::from_utf8_lossy(&status), thread))
}

/// Tells whether InnoDB's status shows a snapshot of a connection's transaction.
fn shows_snapshot(status: &str, thread: u64) -> bool {
    let of_thread = format!(" thread id {thread},");
    let mut transactions = status.split("---TRANSACTION ").filter(|shown| shown.contains(&of_thread));
    transactions.any(|shown| shown.contains("Trx read view will not see"))
}

fn none() -> Answer {
    Answer::Rows { columns: Vec::new(), rows: Vec::new(), warnings: 0 }
}

fn connect(socket: &Path, side: usize) -> Result<Client> {
    let (database, engine) = SIDES[side];
    let mut client = Client::connect(socket)?;
    // The clock stands still, so that both sides store the same times.
    for statement in [
        format!("USE {database}"),
        format!("SET default_storage_engine = {engine}, timestamp = 1700000000, time_zone = '+00:00'"),
        // No statement waits for another session: it fails at once.
        "SET innodb_lock_wait_timeout = 0, millpond_lock_wait_timeout = 0, lock_wait_timeout = 0".to_owned(),
    ] {
        if let Answer::Failed { code, text } = client.run(&statement)? {
            return Err(std::io::Error::other(format!("{statement}: {code} {text}")));
        }
    }
    Ok(client)
}

fn answers(clients: &mut [Client; 2], sql: &str) -> Result<[Answer; 2]> {
    for client in clients.iter_mut() {
        client.send(sql)?;
    }
    let [left, right] = clients;
    Ok([left.receive()?, right.receive()?])
}

fn outcome(mut answer: Answer, warnings: Answer, side: usize) -> Outcome {
    match &mut answer {
        Answer::Failed { text, .. } => *text = neutral(text, side),
        Answer::Rows { rows, .. } => rows.iter_mut().flatten().flatten().for_each(|v| mask(v, side)),
        Answer::Done { .. } => {}
    }
    let mut warnings = warnings.rows().to_vec();
    warnings.retain(|row| !is_unrelated(row));
    warnings.iter_mut().flatten().flatten().for_each(|value| mask(value, side));
    Outcome { answer, warnings }
}

/// Tells whether a row of SHOW WARNINGS says nothing of the statement.
fn is_unrelated(warning: &Row) -> bool {
    let [_, Some(code), Some(text)] = &warning[..] else { return false };
    UNRELATED.iter().any(|(number, begin)| code == number && text.starts_with(begin))
}

fn mask(value: &mut Vec<u8>, side: usize) {
    let (database, engine) = SIDES[side];
    for (name, neutral) in [(database, "test"), (engine, "ENGINE")] {
        let name = name.as_bytes();
        while let Some(at) = value.windows(name.len()).position(|window| window == name) {
            value.splice(at..at + name.len(), neutral.bytes());
        }
    }
}

/// Replaces the names of the database and of the engine.
fn neutral(text: &str, side: usize) -> String {
    let (database, engine) = SIDES[side];
    if !text.contains(database) && !text.contains(engine) {
        return text.to_owned();
    }
    text.replace(database, "test").replace(engine, "ENGINE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_innodb_shows_which_transactions_have_a_snapshot() {
        let status = "LIST OF TRANSACTIONS FOR EACH SESSION:\n\
            ---TRANSACTION 35, ACTIVE 8 sec\n\
            MariaDB thread id 12, OS thread handle 5, query id 9 localhost root\n\
            Trx read view will not see trx with id >= 35, sees < 35\n\
            ---TRANSACTION 36, ACTIVE 1 sec\n\
            MariaDB thread id 120, OS thread handle 6, query id 10 localhost root\n";
        assert!(shows_snapshot(status, 12));
        assert!(!shows_snapshot(status, 120) && !shows_snapshot(status, 1));
    }
}
