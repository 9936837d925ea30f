//! The blocks and the dates in the memory of the program.

use super::block::{self, StoredBlock};
use super::combine::{and, or};
use super::dates::{Dates, Newest, no_date};
use super::failure::Failure;
use super::query::{Answer, Contestant, Data, Query};
use super::reader::Blocks;
use super::sink::{Count, Write};

/// The blocks of two lists, and the column of dates.
pub(crate) struct Memory {
    lists: [Vec<StoredBlock>; 2],
    dates: Vec<u32>,
}

impl Memory {
    pub(crate) fn of(data: &Data, bitmap_factor: f64) -> Memory {
        let lists = data.lists.each_ref().map(|ids| block::encode(ids, bitmap_factor));
        Memory { lists, dates: data.dates.clone() }
    }

    /// Returns the blocks of both lists.
    pub(crate) fn lists(&self) -> &[Vec<StoredBlock>; 2] {
        &self.lists
    }
}

impl Contestant for Memory {
    fn name(&self) -> String {
        "Millpond in memory".into()
    }

    fn list_bytes(&self) -> Option<u64> {
        Some(self.lists.iter().flatten().map(|block| block.bytes.len() as u64).sum())
    }

    fn answers(&self, query: Query) -> bool {
        query != Query::AndNewest || !self.dates.is_empty()
    }

    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure> {
        let [a, b] = self.lists.each_ref().map(|blocks| InMemory(blocks.iter()));
        answer_by(query, a, b, &self.dates[..], answer)
    }
}

/// Answers a query by the blocks of two lists and a column of dates.
pub(crate) fn answer_by<B: Blocks, D: Dates>(
    query: Query,
    a: B,
    b: B,
    dates: D,
    answer: &mut Answer,
) -> Result<(), Failure> {
    let mut count = Count::default();
    match query {
        Query::AndCount => and(a, b, &mut count)?,
        Query::OrCount => or(a, b, &mut count)?,
        Query::AndIds => return and(a, b, &mut Write::to(answer)),
        Query::OrIds => return or(a, b, &mut Write::to(answer)),
        Query::AndNewest => {
            let mut newest = Newest::of(dates);
            and(a, b, &mut newest)?;
            newest.finish(answer);
            return Ok(());
        }
    }
    answer.len = count.0;
    Ok(())
}

/// Blocks in memory, one after the other.
pub(crate) struct InMemory<'m>(pub(crate) std::slice::Iter<'m, StoredBlock>);

impl Blocks for InMemory<'_> {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>, Failure> {
        Ok(self.0.next().map(|block| (block.base, &block.bytes[..])))
    }
}

impl Dates for &[u32] {
    fn look_up(&mut self, ids: &[u64], dates: &mut Vec<u32>) -> Result<(), Failure> {
        if let Some(last) = ids.last().filter(|last| **last >= self.len() as u64) {
            return Err(no_date(*last));
        }
        dates.clear();
        dates.extend(ids.iter().map(|id| self.get(*id as usize).copied().unwrap_or(0)));
        Ok(())
    }
}
