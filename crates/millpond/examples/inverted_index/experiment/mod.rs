//! The experiment: who stores the lists, what they are asked, and how long they take. The program
//! of this example runs it; `millpond-compare inverted-index` runs it with other libraries beside
//! Millpond.

mod arrays;
mod bitmap;
mod block;
mod combine;
mod dates;
mod failure;
mod json;
mod memory;
mod packed;
mod pool;
mod query;
mod random;
mod reader;
mod report;
mod setup;
mod sink;
mod table;
#[cfg(test)]
mod tests;
mod timing;

pub(crate) use failure::Failure;
pub(crate) use json::json;
pub(crate) use query::{Answer, Contestant, Data, Query};
pub(crate) use setup::Setup;
pub(crate) use table::table;

use arrays::Arrays;
use memory::Memory;
use pool::Pool;
use report::{Column, Report, Row};
use std::path::Path;

/// What is read of a date is a line of the processor's cache.
const CACHE_LINE_BYTES: u64 = 64;

/// Runs the experiment with a database in the directory `dir`, which is made. `others` returns
/// those who answer beside Millpond.
///
/// # Errors
/// [`Failure::Misuse`] for a setup that cannot be. [`Failure::Failed`] if an answer is wrong.
pub(crate) fn run(
    setup: &Setup,
    dir: &Path,
    others: impl FnOnce(&Data) -> Result<Vec<Box<dyn Contestant>>, Failure>,
) -> Result<Report, Failure> {
    setup.check()?;
    let data = setup.data();
    let memory = Memory::of(&data, setup.bitmap_factor);
    let pool = Pool::load(dir, memory.lists(), &data)?;
    let blocks = block::kinds(memory.lists().iter().flatten());
    let list_bytes = memory.list_bytes().unwrap_or(0);
    let mut contestants: Vec<Box<dyn Contestant + '_>> =
        vec![Box::new(Arrays(&data)), Box::new(memory), Box::new(pool)];
    contestants.extend(others(&data)?);
    let mut rows = Vec::new();
    for query in Query::ALL {
        if Arrays(&data).answers(query) {
            rows.push(ask(query, &data, &mut contestants, list_bytes, setup.runs)?);
        }
    }
    let columns = contestants.iter().map(|c| Column { name: c.name(), list_bytes: c.list_bytes() }).collect();
    Ok(Report { setup: setup.clone(), blocks, columns, rows })
}

/// Asks every contestant a query.
fn ask(
    query: Query,
    data: &Data,
    contestants: &mut [Box<dyn Contestant + '_>],
    list_bytes: u64,
    runs: usize,
) -> Result<Row, Failure> {
    let mut expected = Answer::default();
    Arrays(data).answer(query, &mut expected)?;
    let mut timings = Vec::new();
    for contestant in contestants {
        let answers = contestant.answers(query);
        let timing = answers.then(|| timing::answer(&mut **contestant, query, &expected, runs));
        timings.push(timing.transpose()?);
    }
    let (read_bytes, written_bytes) = match query {
        Query::AndCount | Query::OrCount => (list_bytes, 0),
        Query::AndIds | Query::OrIds => (list_bytes, 8 * expected.len as u64),
        Query::AndNewest => {
            let mut both = Answer::default();
            Arrays(data).answer(Query::AndCount, &mut both)?;
            let of_dates = (both.len as u64 * CACHE_LINE_BYTES).min(4 * data.dates.len() as u64);
            (list_bytes + of_dates, 0)
        }
    };
    let bound = timing::pass(read_bytes, written_bytes, runs);
    Ok(Row { query, ids: expected.len, timings, read_bytes, written_bytes, bound })
}
