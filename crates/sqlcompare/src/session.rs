//! A session on both sides, and what is known of its transaction.

use crate::answer::Row;
use crate::case::Step;
use crate::client::Client;
use crate::locks;

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// How a statement of an open transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has read or changed rows.
    Done,
    /// No row fitted.
    Nothing,
    /// It failed, and its changes were undone.
    Failed,
    /// The sides got to different rows, and so have locked different ones.
    Uneven,
}

/// A statement of an open transaction.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) sql: String,
    pub(crate) end: End,
    /// How many transactions of all sessions had ended by then.
    pub(crate) ended: u64,
}

/// A session: a connection to each side.
pub(crate) struct Session {
    pub(crate) clients: [Client; 2],
    /// The level of its next transaction.
    next_level: Level,
    /// The level of its transaction, or of its last statement if none is open.
    level: Level,
    /// A change of a row that was changed after the snapshot fails.
    snapshot_isolation: bool,
    /// The statements of its open transaction.
    past: Vec<Past>,
    /// What a transaction of snapshot isolation saw in Millpond, before its present statement, of
    /// the rows that fit the condition.
    before: Option<Vec<Row>>,
}

impl Session {
    pub(crate) fn new(clients: [Client; 2]) -> Session {
        let level = Level::RepeatableRead;
        let past = Vec::new();
        Session { clients, next_level: level, level, snapshot_isolation: false, past, before: None }
    }

    /// Notes that a statement begins.
    pub(crate) fn begin(&mut self, step: &Step) {
        if let Some(level) = level_of(&step.sql) {
            self.next_level = level;
        }
        if let Some((_, set)) = step.sql.split_once("innodb_snapshot_isolation = ") {
            self.snapshot_isolation = set.starts_with("ON");
        }
        let ends_another = ["BEGIN", "START TRANSACTION"].iter().any(|word| step.sql.starts_with(word));
        if ends_another || !self.is_in_transaction() {
            self.level = self.next_level;
            self.past.clear();
        }
        self.before = if self.has_snapshot_isolation() { self.rows_before(&step.sql) } else { None };
    }

    /// Returns what the transaction sees in Millpond of the rows that a statement is about to find.
    fn rows_before(&mut self, sql: &str) -> Option<Vec<Row>> {
        let answer = self.clients[1].run(&locks::rows_to_find(sql)?).ok()?;
        answer.code().is_none().then(|| answer.rows().to_vec())
    }

    /// Returns what the transaction saw in Millpond of the rows of its statement, before that ran.
    pub(crate) fn before(&self) -> Option<&[Row]> {
        self.before.as_deref()
    }

    /// Notes how a statement has ended, and how many transactions of all sessions have by now.
    pub(crate) fn end(&mut self, step: &Step, end: End, ended: u64) {
        if self.is_in_transaction() {
            self.past.push(Past { sql: step.sql.clone(), end, ended });
        } else {
            self.past.clear();
        }
    }

    /// Notes that the sides have locked different rows in the last statement.
    pub(crate) fn mark_uneven(&mut self) {
        if let Some(last) = self.past.last_mut() {
            last.end = End::Uneven;
        }
    }

    /// Tells whether either side has a transaction open.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.clients.iter().any(Client::is_in_transaction)
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Tells whether its transaction is one of snapshot isolation.
    pub(crate) fn has_snapshot_isolation(&self) -> bool {
        self.snapshot_isolation && self.level == Level::RepeatableRead && self.is_in_transaction()
    }

    pub(crate) fn past(&self) -> &[Past] {
        &self.past
    }
}

/// Returns the level that a statement sets for the session.
fn level_of(sql: &str) -> Option<Level> {
    match sql.strip_prefix("SET SESSION TRANSACTION ISOLATION LEVEL ")? {
        "READ COMMITTED" => Some(Level::ReadCommitted),
        "REPEATABLE READ" => Some(Level::RepeatableRead),
        "SERIALIZABLE" => Some(Level::Serializable),
        _ => None,
    }
}
