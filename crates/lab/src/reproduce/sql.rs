//! A connection to a server of an experiment, whose errors end the experiment.

use super::private_server::PrivateServer;
use client::{Trouble, Worker};
use output::failure::{Failure, Outcome};
use output::stop;

/// The schema of the tables.
const SCHEMA: &str = "experiment";

/// A connection.
pub(super) struct Sql(Worker);

impl Sql {
    /// Connects, and makes the schema.
    pub(super) fn to(server: &PrivateServer) -> Outcome<Sql> {
        let failed = |trouble: Trouble| Failure::failed(format!("cannot connect: {trouble}"));
        let mut sql = Sql(server.access()?.work(None).map_err(failed)?);
        sql.run(&format!("CREATE DATABASE IF NOT EXISTS {SCHEMA}"))?;
        sql.run(&format!("USE {SCHEMA}"))?;
        Ok(sql)
    }

    /// Runs a statement.
    pub(super) fn run(&mut self, statement: &str) -> Outcome {
        stop::check()?;
        self.0.run(statement).map(drop).map_err(|trouble| failed(statement, &trouble))
    }

    /// Returns the number that a statement asks for.
    pub(super) fn number(&mut self, statement: &str) -> Outcome<u64> {
        let rows = self.0.rows(statement).map_err(|trouble| failed(statement, &trouble))?;
        let number = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        number.ok_or_else(|| Failure::failed(format!("{statement} returns no number")))
    }
}

fn failed(statement: &str, trouble: &Trouble) -> Failure {
    let short: String = statement.chars().take(80).collect();
    Failure::failed(format!("{short}: {trouble}"))
}
