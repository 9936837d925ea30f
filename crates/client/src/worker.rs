//! A connection that works as an application does: prepared statements with parameters.

use crate::connection::{Row, explain, rows, texts};
use crate::trouble::Trouble;
use mysql::prelude::Queryable;
use mysql::{Conn, Params, Statement, Value};
use std::fmt;

/// A connection that works.
pub struct Worker {
    conn: Conn,
}

/// A statement that a connection has prepared. It belongs to that connection.
#[derive(Clone, Debug)]
pub struct Prepared(Statement);

/// A parameter of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// A number.
    Number(u64),
    /// A text, in ASCII or UTF-8.
    Text(&'a [u8]),
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn new(conn: Conn) -> Worker {
        Worker { conn }
    }

    /// Runs a statement as text, and returns how many rows it changed or met.
    pub fn run(&mut self, statement: &str) -> Result<u64, Trouble> {
        self.conn.query_drop(statement).map_err(|error| explain(&error))?;
        Ok(self.conn.affected_rows())
    }

    /// Runs a statement as text, and returns its rows.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<Row>, Trouble> {
        rows(&mut self.conn, statement)
    }

    /// Prepares a statement, which may have `?` for parameters.
    pub fn prepare(&mut self, statement: &str) -> Result<Prepared, Trouble> {
        self.conn.prep(statement).map(Prepared).map_err(|error| explain(&error))
    }

    /// Runs a prepared statement that changes rows. Returns how many it changed or met.
    pub fn execute(&mut self, statement: &Prepared, params: &[Param<'_>]) -> Result<u64, Trouble> {
        self.conn.exec_drop(&statement.0, values(params)).map_err(|error| explain(&error))?;
        Ok(self.conn.affected_rows())
    }

    /// Runs a prepared statement that returns rows. Reads all of them and returns how many there
    /// were.
    pub fn read(&mut self, statement: &Prepared, params: &[Param<'_>]) -> Result<u64, Trouble> {
        let mut count = 0;
        let result = self.conn.exec_iter(&statement.0, values(params)).map_err(|error| explain(&error))?;
        for row in result {
            std::hint::black_box(row.map_err(|error| explain(&error))?);
            count += 1;
        }
        Ok(count)
    }

    /// Runs a prepared statement that returns rows, and returns them.
    pub fn select(&mut self, statement: &Prepared, params: &[Param<'_>]) -> Result<Vec<Row>, Trouble> {
        let rows: Vec<mysql::Row> =
            self.conn.exec(&statement.0, values(params)).map_err(|error| explain(&error))?;
        Ok(texts(rows))
    }
}

fn values(params: &[Param<'_>]) -> Params {
    if params.is_empty() {
        return Params::Empty;
    }
    Params::Positional(params.iter().map(|param| Value::from(*param)).collect())
}

impl From<Param<'_>> for Value {
    fn from(param: Param<'_>) -> Value {
        match param {
            Param::Number(number) => Value::UInt(number),
            Param::Text(text) => Value::Bytes(text.to_vec()),
        }
    }
}
