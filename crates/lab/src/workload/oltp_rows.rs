//! The statements of sysbench's OLTP family on a database in this process.

use super::family::{AttemptError, Session, Workload};
use super::oltp::{Mix, OltpSession, RangeQuery, Statements};
use super::params::{TxnSettings, WorkloadParams};
use super::row::{C, Row, id_key, index_key};
use super::sysbench_tables::{Loader, Pair, Tables};
use millpond::{Db, Transaction};
use output::failure::Outcome;
use std::hint::black_box;
use std::ops::ControlFlow;

/// A workload of the family on a database in this process.
pub(crate) struct Oltp {
    mix: Mix,
    params: WorkloadParams,
}

impl Oltp {
    pub(crate) fn new(mix: Mix, params: WorkloadParams) -> Oltp {
        Oltp { mix, params }
    }
}

impl Workload for Oltp {
    fn load(&self, loader: &Loader<'_>) -> Outcome {
        loader.sysbench(&self.params)
    }

    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>> {
        let statements = OltpRows::open(db, &self.params)?;
        Ok(Box::new(OltpSession::new(self.mix, self.params, thread, statements)))
    }
}

/// The tables, and the transaction that runs.
pub(super) struct OltpRows {
    db: Db,
    tables: Tables,
    settings: TxnSettings,
    tx: Option<Transaction>,
    /// The c columns that a range query returned.
    found: Vec<C>,
}

impl OltpRows {
    /// Opens the tables.
    pub(super) fn open(db: &Db, params: &WorkloadParams) -> Outcome<OltpRows> {
        let tables = Tables::open(db, params.tables)?;
        Ok(OltpRows { db: db.clone(), tables, settings: params.begin, tx: None, found: Vec::new() })
    }

    /// Returns the transaction that runs, and the tables.
    fn parts(&mut self) -> Result<(&mut Transaction, &Tables), AttemptError> {
        let tx = self.tx.as_mut().ok_or_else(no_transaction)?;
        Ok((tx, &self.tables))
    }

    /// Reads the rows from `first` to `last`. Stores their c in `found` and returns the sum of
    /// their k.
    fn read(&mut self, number: u32, first: u32, last: u32) -> Result<u64, AttemptError> {
        let tx = self.tx.as_ref().ok_or_else(no_transaction)?;
        let (from, to) = (id_key(first), id_key(last));
        let found = &mut self.found;
        found.clear();
        let (mut sum, mut bad) = (0, None);
        tx.scan(&self.tables.get(number).rows, &from[..]..=&to[..], |key, value| match Row::decode(value) {
            Some(row) => {
                sum += u64::from(row.k);
                found.push(row.c);
                ControlFlow::Continue(())
            }
            None => {
                bad = Some(key.to_vec());
                ControlFlow::Break(())
            }
        })?;
        if let Some(key) = bad {
            return Err(AttemptError::Wrong(format!(
                "row {key:02x?} of sbtest{number} is not what was written"
            )));
        }
        let expected = (last - first + 1) as usize;
        if found.len() != expected {
            return Err(AttemptError::Wrong(format!(
                "a scan of sbtest{number} from {first} to {last} found {} rows instead of {expected}",
                found.len()
            )));
        }
        Ok(sum)
    }
}

fn no_transaction() -> AttemptError {
    AttemptError::Wrong("a statement runs outside of a transaction".to_owned())
}

impl Statements for OltpRows {
    fn begin(&mut self, mix: Mix) -> Result<(), AttemptError> {
        let options = if mix.row_changes() == 0 { self.settings.reading() } else { self.settings.writing() };
        // The end of the last one, if it failed, comes first: it still holds its locks.
        self.tx = None;
        self.tx = Some(self.db.begin_with(options)?);
        Ok(())
    }

    fn point_select(&mut self, number: u32, id: u32) -> Result<(), AttemptError> {
        let (tx, tables) = self.parts()?;
        let value = tx.get(&tables.get(number).rows, &id_key(id))?;
        black_box(decode(number, id, value.as_deref())?.c);
        Ok(())
    }

    fn range(&mut self, query: RangeQuery, number: u32, first: u32, last: u32) -> Result<(), AttemptError> {
        black_box(self.read(number, first, last)?);
        if matches!(query, RangeQuery::Order | RangeQuery::Distinct) {
            self.found.sort_unstable();
        }
        if query == RangeQuery::Distinct {
            self.found.dedup();
        }
        black_box(&self.found);
        Ok(())
    }

    fn index_update(&mut self, number: u32, id: u32) -> Result<(), AttemptError> {
        let (tx, tables) = self.parts()?;
        let Pair { rows, index } = tables.get(number);
        let value = tx.get_for_update(rows, &id_key(id))?;
        let mut row = decode(number, id, value.as_deref())?;
        let old = row.k;
        row.k = row.k.wrapping_add(1);
        tx.put(rows, &id_key(id), &row.encode())?;
        remove_entry(tx, index, number, old, id)?;
        tx.insert(index, &index_key(row.k, id), b"")?;
        Ok(())
    }

    fn non_index_update(&mut self, number: u32, id: u32, c: C) -> Result<(), AttemptError> {
        let (tx, tables) = self.parts()?;
        let rows = &tables.get(number).rows;
        let value = tx.get_for_update(rows, &id_key(id))?;
        let row = Row { c, ..decode(number, id, value.as_deref())? };
        tx.put(rows, &id_key(id), &row.encode())?;
        Ok(())
    }

    fn delete_insert(&mut self, number: u32, id: u32, new: &Row) -> Result<(), AttemptError> {
        let (tx, tables) = self.parts()?;
        let Pair { rows, index } = tables.get(number);
        let value = tx.get_for_update(rows, &id_key(id))?;
        let old = decode(number, id, value.as_deref())?;
        if !tx.delete(rows, &id_key(id))? {
            return Err(AttemptError::Wrong(format!("row {id} of sbtest{number} was deleted while locked")));
        }
        remove_entry(tx, index, number, old.k, id)?;
        tx.insert(rows, &id_key(id), &new.encode())?;
        tx.insert(index, &index_key(new.k, id), b"")?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), AttemptError> {
        self.tx.take().ok_or_else(no_transaction)?.commit()?;
        Ok(())
    }
}

fn remove_entry(
    tx: &mut Transaction,
    index: &millpond::Table,
    number: u32,
    k: u32,
    id: u32,
) -> Result<(), AttemptError> {
    if tx.delete(index, &index_key(k, id))? {
        return Ok(());
    }
    Err(AttemptError::Wrong(format!("sbtest{number}_k has no entry for row {id} with k {k}")))
}

fn decode(number: u32, id: u32, value: Option<&[u8]>) -> Result<Row, AttemptError> {
    let value = value.ok_or_else(|| AttemptError::Wrong(format!("row {id} of sbtest{number} is missing")))?;
    Row::decode(value)
        .ok_or_else(|| AttemptError::Wrong(format!("row {id} of sbtest{number} is not what was written")))
}
