//! Sysbench's OLTP family: one statement list, run with different counts.
//!
//! Order and choice are sysbench's: each group of statements picks one table, each statement one
//! row of it. Every id of the load always exists (a delete and its insert are one transaction), so
//! a missing row is a wrong result and ends the run.

use super::distribution::Picker;
use super::family::{AttemptError, Session, Workload};
use super::params::{TxnSettings, WorkloadParams, thread_seed};
use super::row::{C, Row, digits, id_key, index_key};
use super::sysbench_tables::{Loader, Pair, Tables};
use base::prng::Prng;
use millpond::{Db, Transaction};
use output::failure::Outcome;
use std::hint::black_box;
use std::ops::ControlFlow;

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
}

/// A workload of the family.
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
        Ok(Box::new(OltpSession {
            db: db.clone(),
            tables: Tables::open(db, self.params.tables)?,
            mix: self.mix,
            begin: self.params.begin,
            rows: self.params.rows,
            picker: self.params.distribution.over(self.params.rows),
            rng: Prng::new(thread_seed(self.params.seed, thread)),
            drawn: Prng::new(0),
            found: Vec::new(),
        }))
    }
}

struct OltpSession {
    db: Db,
    tables: Tables,
    mix: Mix,
    begin: TxnSettings,
    rows: u32,
    picker: Picker,
    rng: Prng,
    /// The generator at the start of the chosen transaction; a retry starts there again.
    drawn: Prng,
    /// The c columns that a range query returned.
    found: Vec<C>,
}

impl Session for OltpSession {
    fn draw(&mut self) -> bool {
        self.drawn = Prng::new(self.rng.next_u64());
        true
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let mut rng = self.drawn.clone();
        let changes = self.mix.row_changes();
        let options = if changes == 0 { self.begin.reading() } else { self.begin.writing() };
        let mut tx = self.db.begin_with(options)?;
        self.reads(&tx, &mut rng)?;
        if changes > 0 {
            self.writes(&mut tx, &mut rng)?;
        }
        tx.commit()?;
        Ok(changes)
    }
}

impl OltpSession {
    fn reads(&mut self, tx: &Transaction, rng: &mut Prng) -> Result<(), AttemptError> {
        if self.mix.point_selects > 0 {
            let number = self.tables.pick(rng);
            for _ in 0..self.mix.point_selects {
                let id = self.picker.id(rng);
                let value = tx.get(&self.tables.get(number).rows, &id_key(id))?;
                black_box(decode(number, id, value.as_deref())?.c);
            }
        }
        if self.mix.ranges {
            // SELECT c
            self.range(tx, rng)?;
            black_box(&self.found);
            // SELECT SUM(k)
            black_box(self.range(tx, rng)?);
            // SELECT c … ORDER BY c
            self.range(tx, rng)?;
            self.found.sort_unstable();
            black_box(&self.found);
            // SELECT DISTINCT c … ORDER BY c
            self.range(tx, rng)?;
            self.found.sort_unstable();
            self.found.dedup();
            black_box(&self.found);
        }
        Ok(())
    }

    /// Reads 100 rows, beginning at a random one. Stores their c in `found` and returns the sum of
    /// their k.
    fn range(&mut self, tx: &Transaction, rng: &mut Prng) -> Result<u64, AttemptError> {
        let number = self.tables.pick(rng);
        let first = self.picker.id(rng);
        let last = first.saturating_add(RANGE_ROWS - 1).min(self.rows);
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

    fn writes(&self, tx: &mut Transaction, rng: &mut Prng) -> Result<(), AttemptError> {
        let group = |rng: &mut Prng, count: u32| (count > 0).then(|| self.tables.pick(rng));
        if let Some(number) = group(rng, self.mix.index_updates) {
            for _ in 0..self.mix.index_updates {
                self.index_update(tx, number, self.picker.id(rng))?;
            }
        }
        if let Some(number) = group(rng, self.mix.non_index_updates) {
            for _ in 0..self.mix.non_index_updates {
                let id = self.picker.id(rng);
                self.non_index_update(tx, number, id, digits(rng))?;
            }
        }
        if let Some(number) = group(rng, self.mix.delete_inserts) {
            for _ in 0..self.mix.delete_inserts {
                let id = self.picker.id(rng);
                let row = Row::random(self.picker.id(rng), rng);
                self.delete_insert(tx, number, id, &row)?;
            }
        }
        Ok(())
    }

    /// UPDATE … SET k = k + 1 WHERE id = ?
    fn index_update(&self, tx: &mut Transaction, number: u32, id: u32) -> Result<(), AttemptError> {
        let Pair { rows, index } = self.tables.get(number);
        let value = tx.get_for_update(rows, &id_key(id))?;
        let mut row = decode(number, id, value.as_deref())?;
        let old = row.k;
        row.k = row.k.wrapping_add(1);
        tx.put(rows, &id_key(id), &row.encode())?;
        remove_entry(tx, index, number, old, id)?;
        tx.insert(index, &index_key(row.k, id), b"")?;
        Ok(())
    }

    /// UPDATE … SET c = ? WHERE id = ?
    fn non_index_update(&self, tx: &mut Transaction, number: u32, id: u32, c: C) -> Result<(), AttemptError> {
        let rows = &self.tables.get(number).rows;
        let value = tx.get_for_update(rows, &id_key(id))?;
        let row = Row { c, ..decode(number, id, value.as_deref())? };
        tx.put(rows, &id_key(id), &row.encode())?;
        Ok(())
    }

    /// DELETE … WHERE id = ?; INSERT … (id, k, c, pad)
    fn delete_insert(
        &self,
        tx: &mut Transaction,
        number: u32,
        id: u32,
        new: &Row,
    ) -> Result<(), AttemptError> {
        let Pair { rows, index } = self.tables.get(number);
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
}
