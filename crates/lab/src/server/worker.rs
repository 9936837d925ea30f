//! A connection of a workload: its errors say whether the same transaction may be tried again.

use crate::workload::{AttemptError, DEADLOCK, LOCK_TIMEOUT, WRITE_CONFLICT};
use client::{Access, Param, Prepared, Row, Trouble, Worker};
use output::failure::{Failure, Outcome};
use std::time::Duration;

/// How long a statement of a transaction may take. A server's own limit of a lock wait is shorter.
const ANSWER: Duration = Duration::from_secs(120);

/// Errors after which the same transaction may be tried again.
const RETRYABLE: [(u16, &str); 3] = [(1213, DEADLOCK), (1205, LOCK_TIMEOUT), (1020, WRITE_CONFLICT)];

/// Says what an error means for a transaction.
pub(super) fn judge(trouble: Trouble) -> AttemptError {
    match trouble {
        Trouble::Gone(why) => AttemptError::Server(format!("the server went away: {why}")),
        Trouble::Refused { code, why } => match RETRYABLE.iter().find(|(known, _)| *known == code) {
            Some((_, kind)) => AttemptError::Retry(kind),
            None => AttemptError::Server(format!("the server refuses a statement: {why} (error {code})")),
        },
    }
}

/// Makes a failure of a command, whose statement did not work.
pub(super) fn failed(what: &str, trouble: &Trouble) -> Failure {
    Failure::failed(format!("{what} fails: {trouble}"))
}

/// A connection in the schema of a run.
pub(super) struct RunWorker {
    worker: Worker,
    /// The last transaction has failed in its middle: its locks are held until it is rolled back.
    failed: bool,
}

impl RunWorker {
    /// Connects. `set_up` are statements that the session begins with.
    pub(super) fn open(access: &Access, schema: &str, set_up: &[String]) -> Outcome<RunWorker> {
        let no = |trouble: Trouble| Failure::failed(trouble.to_string());
        let mut worker = access.work(Some(ANSWER)).map_err(no)?;
        let use_it = format!("USE `{schema}`");
        for statement in std::iter::once(&use_it).chain(set_up) {
            worker.run(statement).map_err(|trouble| failed(statement, &trouble))?;
        }
        Ok(RunWorker { worker, failed: false })
    }

    /// Begins a transaction: with `BEGIN`, unless it is one statement.
    pub(super) fn begin(&mut self, one_statement: bool) -> Result<(), AttemptError> {
        if std::mem::replace(&mut self.failed, false) {
            self.run("ROLLBACK")?;
        }
        if !one_statement {
            self.run("BEGIN")?;
        }
        Ok(())
    }

    /// Runs a statement as text.
    pub(super) fn run(&mut self, statement: &str) -> Result<u64, AttemptError> {
        let done = self.worker.run(statement);
        self.judged(done)
    }

    /// Runs a statement as text, and returns its rows.
    pub(super) fn rows(&mut self, statement: &str) -> Result<Vec<Row>, AttemptError> {
        let done = self.worker.rows(statement);
        self.judged(done)
    }

    /// Prepares a statement, if that has not been done, and returns it.
    pub(super) fn prepared<'p>(
        &mut self,
        place: &'p mut Option<Prepared>,
        text: impl FnOnce() -> String,
    ) -> Result<&'p Prepared, AttemptError> {
        match place {
            Some(statement) => Ok(statement),
            None => {
                let prepared = self.worker.prepare(&text());
                Ok(place.insert(self.judged(prepared)?))
            }
        }
    }

    /// Runs a prepared statement that changes rows, and returns how many it met.
    pub(super) fn execute(
        &mut self,
        statement: &Prepared,
        params: &[Param<'_>],
    ) -> Result<u64, AttemptError> {
        let done = self.worker.execute(statement, params);
        self.judged(done)
    }

    /// Runs a prepared statement that returns rows, and returns how many there were.
    pub(super) fn read(&mut self, statement: &Prepared, params: &[Param<'_>]) -> Result<u64, AttemptError> {
        let done = self.worker.read(statement, params);
        self.judged(done)
    }

    /// Runs a prepared statement that returns rows, and returns them.
    pub(super) fn select(
        &mut self,
        statement: &Prepared,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, AttemptError> {
        let done = self.worker.select(statement, params);
        self.judged(done)
    }

    fn judged<T>(&mut self, done: Result<T, Trouble>) -> Result<T, AttemptError> {
        self.failed |= done.is_err();
        done.map_err(judge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_tried_again_is_told_from_what_ends_a_run() {
        let refused = |code| judge(Trouble::Refused { code, why: "x".into() });
        for (code, kind) in [(1213, "deadlock"), (1205, "lock_timeout"), (1020, "write_conflict")] {
            assert_eq!(refused(code).retryable(), Some(kind));
        }
        for code in [1062, 1146, 1290, 1317] {
            assert_eq!(refused(code).retryable(), None);
        }
        assert_eq!(judge(Trouble::Gone("x".into())).retryable(), None);
    }
}
