//! Two databases of one server with the same contents, one of InnoDB and one of Millpond, and the
//! sessions that use them.

use crate::answer::{Answer, Outcome};
use crate::case::Step;
use crate::client::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Result;
use std::path::{Path, PathBuf};

/// The databases and their engines.
const SIDES: [(&str, &str); 2] = [("cmp_innodb", "InnoDB"), ("cmp_millpond", "Millpond")];

/// A note beside the error of a statement that sorts, which is the plan's choice, and a warning
/// that the server's statistics tables were locked, by the other side.
const UNRELATED: [&[u8]; 2] = [b"1028", b"1177"];

/// The two databases.
pub(crate) struct World {
    socket: PathBuf,
    sessions: BTreeMap<char, [Client; 2]>,
    serializable: BTreeSet<char>,
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
        Ok(World { socket: socket.to_owned(), sessions: BTreeMap::new(), serializable: BTreeSet::new() })
    }

    /// Runs a statement on both sides at the same moment. Returns the outcomes of InnoDB and of
    /// Millpond, in which both databases and both engines have the same name.
    pub(crate) fn run(&mut self, step: &Step) -> Result<[Outcome; 2]> {
        if !self.sessions.contains_key(&step.session) {
            let clients = [connect(&self.socket, 0)?, connect(&self.socket, 1)?];
            self.sessions.insert(step.session, clients);
        }
        if step.sql.ends_with(" SERIALIZABLE") {
            self.serializable.insert(step.session);
        }
        let Some(clients) = self.sessions.get_mut(&step.session) else { unreachable!("it was inserted") };
        let [left, right] = answers(clients, &step.sql)?;
        let warned = left.has_warnings() || right.has_warnings();
        let warnings = if warned { answers(clients, "SHOW WARNINGS")? } else { [none(), none()] };
        let [first, second] = warnings;
        Ok([outcome(left, first, 0), outcome(right, second, 1)])
    }

    /// Tells whether a session has been at the level SERIALIZABLE. It may have another one by now,
    /// with a transaction that began before.
    pub(crate) fn was_serializable(&self, session: char) -> bool {
        self.serializable.contains(&session)
    }

    /// Returns how many rows of InnoDB's table fit a condition, uncommitted ones included.
    pub(crate) fn count_in_innodb(&self, table: &str, condition: &str) -> Option<u64> {
        let mut client = connect(&self.socket, 0).ok()?;
        client.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").ok()?;
        let answer = client.run(&format!("SELECT COUNT(*) FROM {table} WHERE {condition}")).ok()?;
        let count = answer.rows().first()?.first()?.as_ref()?;
        std::str::from_utf8(count).ok()?.parse().ok()
    }
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
    let unrelated = |code: &Option<Vec<u8>>| code.as_deref().is_some_and(|code| UNRELATED.contains(&code));
    warnings.retain(|row| !row.get(1).is_some_and(unrelated));
    warnings.iter_mut().flatten().flatten().for_each(|value| mask(value, side));
    Outcome { answer, warnings }
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
