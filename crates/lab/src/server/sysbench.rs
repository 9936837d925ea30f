//! Sysbench's tables and statements over SQL, under sysbench's names, so that its own program can
//! run on the same tables.

use super::worker::RunWorker;
use crate::workload::oltp::{Mix, OltpSession, RangeQuery, Statements};
use crate::workload::row::{C, Row};
use crate::workload::{AttemptError, Session, WorkloadParams};
use client::{Param, Prepared};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of one INSERT of the load: 190 KB, which is below the smallest limit of a packet that
/// servers have by default.
pub(super) const ROWS_A_STATEMENT: usize = 1000;

/// Returns the name of table `number`.
pub(super) fn table(number: u32) -> String {
    format!("sbtest{number}")
}

/// Returns the statement that makes table `number`, without its index.
pub(super) fn create(number: u32, engine_clause: &str) -> String {
    format!(
        "CREATE TABLE {} (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, \
         c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id)){engine_clause}",
        table(number)
    )
}

/// Makes table `number`, fills it, and makes its index. Calls `go_on` after every statement with
/// the number of new rows; if it returns false, the table stays unfinished.
pub(super) fn fill(
    worker: &mut RunWorker,
    number: u32,
    params: &WorkloadParams,
    engine_clause: &str,
    go_on: impl Fn(u32) -> bool,
) -> Result<(), AttemptError> {
    worker.run(&create(number, engine_clause))?;
    let mut row_of = params.rows_of(number);
    let ids: Vec<u32> = (1..=params.rows).collect();
    for ids in ids.chunks(ROWS_A_STATEMENT) {
        let mut statement = format!("INSERT INTO {} (id, k, c, pad) VALUES ", table(number));
        for (n, id) in ids.iter().enumerate() {
            let row = row_of(*id);
            let comma = if n == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ =
                write!(statement, "{comma}({id},{},'{}','{}')", row.k, trimmed(&row.c), trimmed(&row.pad));
        }
        worker.run(&statement)?;
        if !go_on(ids.len() as u32) {
            return Ok(());
        }
    }
    worker.run(&index(number))?;
    Ok(())
}

/// Returns the statement that makes the index of table `number`.
pub(super) fn index(number: u32) -> String {
    format!("CREATE INDEX k_{number} ON {} (k)", table(number))
}

/// Returns the text of a column: digits and dashes, without the space at its end, which a CHAR
/// column does not keep.
fn trimmed(column: &[u8]) -> &str {
    std::str::from_utf8(column).unwrap_or_default().trim_end()
}

/// Returns a statement of table `number`.
fn text(kind: Text, number: u32) -> String {
    text_of(kind, &table(number))
}

/// Returns a statement of a table.
fn text_of(kind: Text, table: &str) -> String {
    match kind {
        Text::Point => format!("SELECT c FROM {table} WHERE id = ?"),
        Text::Simple => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ?"),
        Text::Sum => format!("SELECT SUM(k) FROM {table} WHERE id BETWEEN ? AND ?"),
        Text::Order => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c"),
        Text::Distinct => format!("SELECT DISTINCT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c"),
        Text::Index => format!("UPDATE {table} SET k = k + 1 WHERE id = ?"),
        Text::NonIndex => format!("UPDATE {table} SET c = ? WHERE id = ?"),
        Text::Delete => format!("DELETE FROM {table} WHERE id = ?"),
        Text::Insert => format!("INSERT INTO {table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
    }
}

/// The statements of a table.
#[derive(Clone, Copy, Debug)]
enum Text {
    Point,
    Simple,
    Sum,
    Order,
    Distinct,
    Index,
    NonIndex,
    Delete,
    Insert,
}

/// Asks for the session's isolation level, which has one of two names.
const LEVEL: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')";

const TEXTS: usize = Text::Insert as usize + 1;

/// The statements on a connection. Each is prepared when it is first needed: sysbench prepares all
/// of them, which needs more than a server allows by default with many tables and threads.
pub(super) struct SqlStatements {
    worker: RunWorker,
    /// Of each table from 1.
    prepared: Vec<[Option<Prepared>; TEXTS]>,
    one_statement: bool,
    /// Reads see rows that are being changed, so they may miss some.
    dirty_reads: bool,
}

impl SqlStatements {
    pub(super) fn new(mut worker: RunWorker, tables: u32) -> Result<SqlStatements, AttemptError> {
        let prepared = (0..tables).map(|_| [const { None }; TEXTS]).collect();
        let level = worker.rows(LEVEL)?;
        let dirty_reads = level.iter().flatten().flatten().any(|cell| cell == "READ-UNCOMMITTED");
        Ok(SqlStatements { worker, prepared, one_statement: false, dirty_reads })
    }

    fn execute(&mut self, kind: Text, number: u32, params: &[Param<'_>]) -> Result<u64, AttemptError> {
        let place = &mut self.prepared[number as usize - 1][kind as usize];
        let statement = self.worker.prepared(place, || text(kind, number))?;
        self.worker.execute(statement, params)
    }

    /// Runs a statement that changes the row `id`, which is there.
    fn change(&mut self, kind: Text, number: u32, id: u32, params: &[Param<'_>]) -> Result<(), AttemptError> {
        match self.execute(kind, number, params)? {
            1 => Ok(()),
            n => Err(AttemptError::Wrong(format!(
                "row {id} of {} was met {n} times, not once, by {}",
                table(number),
                text(kind, number)
            ))),
        }
    }

    /// Runs a statement that returns `expected` rows.
    fn read(
        &mut self,
        kind: Text,
        number: u32,
        ids: &[u32],
        expected: impl Fn(u64) -> bool,
    ) -> Result<(), AttemptError> {
        let place = &mut self.prepared[number as usize - 1][kind as usize];
        let statement = self.worker.prepared(place, || text(kind, number))?;
        let mut params = [Param::Number(0); 2];
        for (param, id) in params.iter_mut().zip(ids) {
            *param = Param::Number((*id).into());
        }
        let found = self.worker.read(statement, &params[..ids.len()])?;
        if expected(found) || self.dirty_reads {
            return Ok(());
        }
        Err(AttemptError::Wrong(format!("{} returned {found} rows for {ids:?}", text(kind, number))))
    }
}

impl Statements for SqlStatements {
    fn begin(&mut self, mix: Mix) -> Result<(), AttemptError> {
        self.one_statement = mix.is_one_statement();
        self.worker.begin(self.one_statement)
    }

    fn point_select(&mut self, number: u32, id: u32) -> Result<(), AttemptError> {
        self.read(Text::Point, number, &[id], |found| found == 1)
    }

    fn range(&mut self, query: RangeQuery, number: u32, first: u32, last: u32) -> Result<(), AttemptError> {
        let rows = u64::from(last - first + 1);
        let (kind, least) = match query {
            RangeQuery::Simple => (Text::Simple, rows),
            RangeQuery::Sum => return self.read(Text::Sum, number, &[first, last], |found| found == 1),
            RangeQuery::Order => (Text::Order, rows),
            RangeQuery::Distinct => (Text::Distinct, 1),
        };
        self.read(kind, number, &[first, last], |found| (least..=rows).contains(&found))
    }

    fn index_update(&mut self, number: u32, id: u32) -> Result<(), AttemptError> {
        self.change(Text::Index, number, id, &[Param::Number(id.into())])
    }

    fn non_index_update(&mut self, number: u32, id: u32, c: C) -> Result<(), AttemptError> {
        let params = [Param::Text(c.trim_ascii_end()), Param::Number(id.into())];
        self.change(Text::NonIndex, number, id, &params)
    }

    fn delete_insert(&mut self, number: u32, id: u32, new: &Row) -> Result<(), AttemptError> {
        self.change(Text::Delete, number, id, &[Param::Number(id.into())])?;
        self.change(Text::Insert, number, id, &row_params(id, new))
    }

    fn commit(&mut self) -> Result<(), AttemptError> {
        if !self.one_statement {
            self.worker.run("COMMIT")?;
        }
        Ok(())
    }
}

/// Returns the statements of a transaction, of any table.
pub(super) fn statements(mix: Mix, params: &WorkloadParams) -> Vec<String> {
    let told = Told::default();
    let mut session = OltpSession::new(mix, *params, 0, told.clone());
    session.draw();
    // What only tells its statements never fails.
    let _ = session.attempt();
    told.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns how many statements of a table a transaction prepares.
pub(super) fn distinct_statements(mix: Mix, params: &WorkloadParams) -> u64 {
    let prepared: BTreeSet<String> =
        statements(mix, params).into_iter().filter(|statement| statement.contains('?')).collect();
    prepared.len() as u64
}

/// Tells the statements, and runs none.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn tell(&self, statement: String) -> Result<(), AttemptError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(statement);
        Ok(())
    }

    fn kind(&self, kind: Text) -> Result<(), AttemptError> {
        self.tell(text_of(kind, "sbtestN"))
    }
}

impl Statements for Told {
    fn begin(&mut self, mix: Mix) -> Result<(), AttemptError> {
        if mix.is_one_statement() { Ok(()) } else { self.tell("BEGIN".to_owned()) }
    }

    fn point_select(&mut self, _: u32, _: u32) -> Result<(), AttemptError> {
        self.kind(Text::Point)
    }

    fn range(&mut self, query: RangeQuery, _: u32, _: u32, _: u32) -> Result<(), AttemptError> {
        self.kind(match query {
            RangeQuery::Simple => Text::Simple,
            RangeQuery::Sum => Text::Sum,
            RangeQuery::Order => Text::Order,
            RangeQuery::Distinct => Text::Distinct,
        })
    }

    fn index_update(&mut self, _: u32, _: u32) -> Result<(), AttemptError> {
        self.kind(Text::Index)
    }

    fn non_index_update(&mut self, _: u32, _: u32, _: C) -> Result<(), AttemptError> {
        self.kind(Text::NonIndex)
    }

    fn delete_insert(&mut self, _: u32, _: u32, _: &Row) -> Result<(), AttemptError> {
        self.kind(Text::Delete)?;
        self.kind(Text::Insert)
    }

    fn commit(&mut self) -> Result<(), AttemptError> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
        if told.as_deref() == Some("BEGIN") { self.tell("COMMIT".to_owned()) } else { Ok(()) }
    }
}

/// Returns the parameters that insert a row.
pub(super) fn row_params(id: u32, row: &Row) -> [Param<'_>; 4] {
    [
        Param::Number(id.into()),
        Param::Number(row.k.into()),
        Param::Text(row.c.trim_ascii_end()),
        Param::Text(row.pad.trim_ascii_end()),
    ]
}
