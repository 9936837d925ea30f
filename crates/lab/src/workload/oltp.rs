//! Sysbench's OLTP family: one statement list, run with different counts. What each statement does
//! is in [`super::oltp_rows`] for a database in this process, and elsewhere for a server.
//!
//! Order and choice are sysbench's: each group of statements picks one table, each statement one
//! row of it. Every id of the load always exists (a delete and its insert are one transaction), so
//! a missing row is a wrong result and ends the run.

use super::distribution::Picker;
use super::family::{AttemptError, Session};
use super::params::{WorkloadParams, thread_seed};
use super::row::{C, Row, digits};
use base::prng::Prng;

/// Rows that a range query covers.
const RANGE_ROWS: u32 = 100;

/// How many of each statement make a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    point_selects: u32,
    /// One each of: simple range, sum, order by, distinct.
    ranges: bool,
    index_updates: u32,
    non_index_updates: u32,
    delete_inserts: u32,
}

const NONE: Mix =
    Mix { point_selects: 0, ranges: false, index_updates: 0, non_index_updates: 0, delete_inserts: 0 };
pub(crate) const WRITE_HEAVY: Mix =
    Mix { point_selects: 10, ranges: true, index_updates: 10, non_index_updates: 10, delete_inserts: 10 };
pub(crate) const READ_WRITE: Mix =
    Mix { point_selects: 10, ranges: true, index_updates: 1, non_index_updates: 1, delete_inserts: 1 };
pub(crate) const WRITE_ONLY: Mix = Mix { index_updates: 1, non_index_updates: 1, delete_inserts: 1, ..NONE };
pub(crate) const UPDATE_INDEX: Mix = Mix { index_updates: 1, ..NONE };
pub(crate) const UPDATE_NON_INDEX: Mix = Mix { non_index_updates: 1, ..NONE };
pub(crate) const POINT_SELECT: Mix = Mix { point_selects: 1, ..NONE };
pub(crate) const READ_ONLY: Mix = Mix { point_selects: 10, ranges: true, ..NONE };

impl Mix {
    /// Table rows inserted, updated or deleted by one transaction.
    pub(crate) fn row_changes(self) -> u64 {
        u64::from(self.index_updates + self.non_index_updates + 2 * self.delete_inserts)
    }

    /// Returns whether one transaction is one statement, which needs no BEGIN and no COMMIT.
    #[cfg(feature = "watch")]
    pub(crate) fn is_one_statement(self) -> bool {
        let inserts = 2 * self.delete_inserts;
        !self.ranges && self.point_selects + self.index_updates + self.non_index_updates + inserts == 1
    }
}

/// The ranges of a transaction, in sysbench's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeQuery {
    /// SELECT c … WHERE id BETWEEN ? AND ?
    Simple,
    /// SELECT SUM(k) …
    Sum,
    /// SELECT c … ORDER BY c
    Order,
    /// SELECT DISTINCT c … ORDER BY c
    Distinct,
}

impl RangeQuery {
    /// All of them.
    pub(crate) const ALL: [RangeQuery; 4] =
        [RangeQuery::Simple, RangeQuery::Sum, RangeQuery::Order, RangeQuery::Distinct];
}

/// The statements of a transaction, as one engine runs them. Tables are numbers from 1. A statement
/// that does not find a row is an error: every id of the load always exists.
pub(crate) trait Statements: Send {
    /// Begins a transaction; `mix` tells whether it only reads, and how many statements it has. The
    /// last one may have failed in its middle.
    fn begin(&mut self, mix: Mix) -> Result<(), AttemptError>;
    /// SELECT c … WHERE id = ?
    fn point_select(&mut self, table: u32, id: u32) -> Result<(), AttemptError>;
    /// Reads the rows from `first` to `last`.
    fn range(&mut self, query: RangeQuery, table: u32, first: u32, last: u32) -> Result<(), AttemptError>;
    /// UPDATE … SET k = k + 1 WHERE id = ?
    fn index_update(&mut self, table: u32, id: u32) -> Result<(), AttemptError>;
    /// UPDATE … SET c = ? WHERE id = ?
    fn non_index_update(&mut self, table: u32, id: u32, c: C) -> Result<(), AttemptError>;
    /// DELETE … WHERE id = ?; INSERT … (id, k, c, pad)
    fn delete_insert(&mut self, table: u32, id: u32, new: &Row) -> Result<(), AttemptError>;
    /// Commits.
    fn commit(&mut self) -> Result<(), AttemptError>;
}

/// One thread of the family: which statements, on which rows.
pub(crate) struct OltpSession<S> {
    statements: S,
    mix: Mix,
    params: WorkloadParams,
    picker: Picker,
    rng: Prng,
    /// The generator at the start of the chosen transaction; a retry starts there again.
    drawn: Prng,
}

impl<S: Statements> OltpSession<S> {
    /// Makes the session of thread `thread` (from 0), which runs `statements`.
    pub(crate) fn new(mix: Mix, params: WorkloadParams, thread: u32, statements: S) -> OltpSession<S> {
        OltpSession {
            statements,
            mix,
            params,
            picker: params.distribution.over(params.rows),
            rng: Prng::new(thread_seed(params.seed, thread)),
            drawn: Prng::new(0),
        }
    }

    fn reads(&mut self, rng: &mut Prng) -> Result<(), AttemptError> {
        if self.mix.point_selects > 0 {
            let table = self.params.pick_table(rng);
            for _ in 0..self.mix.point_selects {
                self.statements.point_select(table, self.picker.id(rng))?;
            }
        }
        if self.mix.ranges {
            for query in RangeQuery::ALL {
                let table = self.params.pick_table(rng);
                let first = self.picker.id(rng);
                let last = first.saturating_add(RANGE_ROWS - 1).min(self.params.rows);
                self.statements.range(query, table, first, last)?;
            }
        }
        Ok(())
    }

    fn writes(&mut self, rng: &mut Prng) -> Result<(), AttemptError> {
        let params = self.params;
        let group = |rng: &mut Prng, count: u32| (count > 0).then(|| params.pick_table(rng));
        if let Some(table) = group(rng, self.mix.index_updates) {
            for _ in 0..self.mix.index_updates {
                self.statements.index_update(table, self.picker.id(rng))?;
            }
        }
        if let Some(table) = group(rng, self.mix.non_index_updates) {
            for _ in 0..self.mix.non_index_updates {
                let id = self.picker.id(rng);
                self.statements.non_index_update(table, id, digits(rng))?;
            }
        }
        if let Some(table) = group(rng, self.mix.delete_inserts) {
            for _ in 0..self.mix.delete_inserts {
                let id = self.picker.id(rng);
                let row = Row::random(self.picker.id(rng), rng);
                self.statements.delete_insert(table, id, &row)?;
            }
        }
        Ok(())
    }
}

impl<S: Statements> Session for OltpSession<S> {
    fn draw(&mut self) -> bool {
        self.drawn = Prng::new(self.rng.next_u64());
        true
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let mut rng = self.drawn.clone();
        self.statements.begin(self.mix)?;
        self.reads(&mut rng)?;
        self.writes(&mut rng)?;
        self.statements.commit()?;
        Ok(self.mix.row_changes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_heavy_transaction_changes_forty_rows() {
        assert_eq!(WRITE_HEAVY.row_changes(), 40);
        assert_eq!(READ_WRITE.row_changes(), 4);
        assert_eq!(WRITE_ONLY.row_changes(), 4);
        assert_eq!(UPDATE_INDEX.row_changes(), 1);
        assert_eq!(READ_ONLY.row_changes(), 0);
        assert_eq!(POINT_SELECT.row_changes(), 0);
    }

    #[cfg(feature = "watch")]
    #[test]
    fn what_is_one_statement_needs_no_transaction() {
        assert!([POINT_SELECT, UPDATE_INDEX, UPDATE_NON_INDEX].iter().all(|mix| mix.is_one_statement()));
        assert!(![WRITE_HEAVY, READ_WRITE, WRITE_ONLY, READ_ONLY].iter().any(|mix| mix.is_one_statement()));
    }
}
