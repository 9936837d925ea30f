//! A session on both sides, and what is known of its transaction.

use crate::compare::answer::Row;
use crate::compare::case::Step;
use crate::compare::client::Client;
use crate::compare::statement;

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
    /// The server's number of the connection to InnoDB.
    pub(crate) thread: u64,
    levels: Levels,
    /// A change of a row that was changed after the snapshot fails.
    snapshot_isolation: bool,
    /// The statements of its open transaction.
    past: Vec<Past>,
    /// Its open transaction has a snapshot.
    snapshot: bool,
    /// What a transaction of snapshot isolation saw in Millpond, before its present statement, of
    /// the rows that fit the condition.
    before: Option<Vec<Row>>,
}

impl Session {
    pub(crate) fn new(clients: [Client; 2], thread: u64) -> Session {
        Session {
            clients,
            thread,
            levels: Levels::default(),
            snapshot_isolation: false,
            past: Vec::new(),
            snapshot: false,
            before: None,
        }
    }

    /// Notes that a statement begins.
    pub(crate) fn begin(&mut self, step: &Step) {
        self.levels.note(&step.sql, self.is_in_transaction());
        if let Some((_, set)) = step.sql.split_once("innodb_snapshot_isolation = ") {
            self.snapshot_isolation = set.starts_with("ON");
        }
        let ends_another = ["BEGIN", "START TRANSACTION"].iter().any(|word| step.sql.starts_with(word));
        if ends_another || !self.is_in_transaction() {
            self.past.clear();
            self.snapshot = false;
        }
        // A read would give it a snapshot.
        self.before =
            if self.snapshot && self.has_snapshot_isolation() { self.rows_before(&step.sql) } else { None };
    }

    /// Returns what the transaction sees in Millpond of the rows that a statement is about to find.
    fn rows_before(&mut self, sql: &str) -> Option<Vec<Row>> {
        let answer = self.clients[1].run(&statement::rows_to_find(sql)?).ok()?;
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

    /// Tells whether its transaction is one of snapshot isolation that has no snapshot yet.
    pub(crate) fn needs_snapshot(&self) -> bool {
        self.has_snapshot_isolation() && !self.snapshot
    }

    /// Notes that the transaction has its snapshot.
    pub(crate) fn note_snapshot(&mut self) {
        self.snapshot = true;
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
        self.levels.present
    }

    /// Tells whether its transaction is one of snapshot isolation.
    pub(crate) fn has_snapshot_isolation(&self) -> bool {
        self.snapshot_isolation && self.level() == Level::RepeatableRead && self.is_in_transaction()
    }

    pub(crate) fn past(&self) -> &[Past] {
        &self.past
    }
}

/// The isolation levels of a session.
#[derive(Clone, Copy, Debug)]
struct Levels {
    /// What SET SESSION has said last.
    wanted: Level,
    /// That of the present transaction, and of the next one.
    present: Level,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { wanted: Level::RepeatableRead, present: Level::RepeatableRead }
    }
}

impl Levels {
    /// Notes a statement that is about to run. In a transaction, SET SESSION is for later ones:
    /// those behind a COMMIT, a ROLLBACK or another BEGIN. The commit of SET autocommit is none of
    /// these, so the next transactions have the old level still.
    fn note(&mut self, sql: &str, in_transaction: bool) {
        if let Some(level) = level_of(sql) {
            self.wanted = level;
        }
        let begins = ["BEGIN", "START TRANSACTION"].iter().any(|word| sql.starts_with(word));
        let applies = match sql {
            "COMMIT" | "ROLLBACK" => true,
            _ => begins && in_transaction || level_of(sql).is_some() && !in_transaction,
        };
        if applies {
            self.present = self.wanted;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_set_in_a_transaction_is_for_later_ones() {
        const SET: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        let (old, new) = (Level::RepeatableRead, Level::ReadCommitted);
        let wanted: [(&[(&str, bool)], Level); 7] = [
            (&[(SET, false)], new),
            (&[(SET, true)], old),
            (&[(SET, true), ("COMMIT", true)], new),
            (&[(SET, true), ("BEGIN", true)], new),
            (&[(SET, true), ("ROLLBACK TO s1", true)], old),
            (&[(SET, true), ("SET autocommit = 1", true), ("BEGIN", false)], old),
            (&[(SET, true), ("SET autocommit = 1", true), ("ROLLBACK", false)], new),
        ];
        for (statements, level) in wanted {
            let mut levels = Levels::default();
            statements.iter().for_each(|(sql, inside)| levels.note(sql, *inside));
            assert_eq!(levels.present, level, "{statements:?}");
        }
    }
}
