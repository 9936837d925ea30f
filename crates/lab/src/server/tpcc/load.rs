//! Fills the tables: the items by one thread, and each warehouse by one.

use super::super::load::Filled;
use super::super::worker::RunWorker;
use super::tables::{INDEXES, NAMES, create, foreign_keys};
use crate::workload::AttemptError;
use crate::workload::tpcc::TpccSetup;
use crate::workload::tpcc::field::Cell;
use crate::workload::tpcc::population::Population;
use crate::workload::tpcc::rows::TableRow;
use crate::workload::tpcc::scale::DISTRICTS;
use output::failure::{Failure, Outcome};
use output::stop;
use std::fmt::Write;

/// An INSERT ends after so many bytes, which is below the smallest limit of a packet that servers
/// have by default, or after so many rows.
const STATEMENT_BYTES: usize = 256 << 10;
const STATEMENT_ROWS: usize = 1000;

/// How the statement begins that makes the foreign keys of the districts.
const DISTRICT_KEYS: &str = "ALTER TABLE district ";

/// Makes and fills the tables, then makes their indexes and foreign keys.
pub(in crate::server) fn load(filled: &Filled<'_>, setup: TpccSetup, population: Population) -> Outcome {
    let mut worker = filled.worker()?;
    for table in NAMES {
        worker.run(&create(table, &filled.engine_clause()))?;
    }
    let keys = if setup.foreign_keys { foreign_keys() } else { Vec::new() };
    // Each thread fills a warehouse before its districts, so this table can have its keys at once.
    let (first, keys): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.contains(DISTRICT_KEYS));
    for statement in &first {
        worker.run(statement)?;
        keeps_foreign_keys(&mut worker)?;
    }
    // Part 0 are the items, which all warehouses share.
    let parts = u32::from(setup.scale.warehouses) + 1;
    filled.each(parts, |worker, part, go_on| match part - 1 {
        0 => insert(worker, population.items(), go_on).map(drop),
        w => warehouse(worker, population, w as u16, go_on).map(drop),
    })?;
    for statement in INDEXES.into_iter().map(str::to_owned).chain(keys) {
        stop::check()?;
        worker.run(&statement)?;
    }
    Ok(())
}

/// Refuses an engine that has accepted a foreign key and has none.
fn keeps_foreign_keys(worker: &mut RunWorker) -> Outcome {
    let count = worker.rows(
        "SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS \
         WHERE CONSTRAINT_SCHEMA = DATABASE() AND CONSTRAINT_TYPE = 'FOREIGN KEY'",
    )?;
    if count.iter().flatten().flatten().any(|count| count == "0") {
        return Err(Failure::misuse("--foreign-keys: this engine accepts foreign keys and keeps none"));
    }
    Ok(())
}

/// Fills the rows of a warehouse. Returns false if the load shall stop.
fn warehouse(
    worker: &mut RunWorker,
    population: Population,
    w: u16,
    go_on: &dyn Fn(u32) -> bool,
) -> Result<bool, AttemptError> {
    let p = population;
    let districts = || 1..=DISTRICTS;
    Ok(insert(worker, [p.warehouse(w)], go_on)?
        && insert(worker, districts().map(|d| p.district(w, d)), go_on)?
        && insert(worker, p.stock(w), go_on)?
        && insert(worker, districts().flat_map(|d| p.customers(w, d)), go_on)?
        && insert(worker, districts().flat_map(|d| p.history(w, d)), go_on)?
        && insert(worker, districts().flat_map(|d| p.orders(w, d)).map(|(order, _)| order), go_on)?
        && insert(worker, districts().flat_map(|d| p.new_orders(w, d)), go_on)?
        && insert(worker, districts().flat_map(|d| p.orders(w, d)).flat_map(|(_, lines)| lines), go_on)?)
}

/// Inserts rows, many in each statement. Returns false if the load shall stop.
fn insert<R: TableRow>(
    worker: &mut RunWorker,
    rows: impl IntoIterator<Item = R>,
    go_on: &dyn Fn(u32) -> bool,
) -> Result<bool, AttemptError> {
    let head = format!("INSERT INTO {} ({}) VALUES ", R::TABLE, R::COLUMNS.join(","));
    let (mut statement, mut count) = (head.clone(), 0);
    for row in rows {
        let comma = if count == 0 { "" } else { "," };
        statement.push_str(comma);
        add(&mut statement, &row.cells());
        count += 1;
        if count == STATEMENT_ROWS || statement.len() >= STATEMENT_BYTES {
            worker.run(&statement)?;
            if !go_on(count as u32) {
                return Ok(false);
            }
            (statement, count) = (head.clone(), 0);
        }
    }
    if count > 0 {
        worker.run(&statement)?;
    }
    Ok(go_on(count as u32))
}

/// Adds the values of a row. Texts of the load are letters and digits, so they need no escape.
fn add(statement: &mut String, cells: &[Cell<'_>]) {
    for (n, cell) in cells.iter().enumerate() {
        statement.push(if n == 0 { '(' } else { ',' });
        // Writing to a string cannot fail.
        let _ = match cell {
            Cell::Number(number) => write!(statement, "{number}"),
            Cell::Text(text) => write!(statement, "'{}'", std::str::from_utf8(text).unwrap_or_default()),
            Cell::Time(moment) => write!(statement, "FROM_UNIXTIME({})", moment.0),
            Cell::Null => write!(statement, "NULL"),
        };
    }
    statement.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::field::Moment;
    use crate::workload::tpcc::scale::Scale;

    #[test]
    fn a_row_is_written_in_the_order_of_its_columns() {
        let population = Population::new(Scale { warehouses: 1, part: 300 }, 1, Moment(7));
        let (order, _) = population.orders(1, 2).last().unwrap();
        let mut statement = String::new();
        add(&mut statement, &order.cells());
        let customer = order.o_c_id;
        let lines = order.o_ol_cnt;
        assert_eq!(statement, format!("(1,2,10,{customer},FROM_UNIXTIME(7),NULL,{lines},1)"));
    }
}
