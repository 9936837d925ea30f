//! The blocks and the dates as rows of a database, read through a transaction.
//!
//! The key of a block is the number of its term and then the number of the block, both big-endian:
//! the order of bytes is the order of numbers, so the rows of a list lie side by side. Each list is
//! read by a cursor. A cursor copies the rows of a leaf once and shows each value where it is in
//! that copy; `Transaction::scan` does the same, but reads one list at a time, and AND needs two at
//! once.

use super::block::StoredBlock;
use super::dates::{Dates, no_date};
use super::failure::Failure;
use super::memory::answer_by;
use super::query::{Answer, Contestant, Data, Query};
use super::reader::Blocks;
use millpond::{Cursor, Db, Options, Seek, Table, Transaction, TxnOptions};
use std::cell::RefCell;
use std::path::Path;

/// The largest pages: a bitmap is a row of a leaf, and seven of them share a page.
const PAGE_BYTES: usize = 16384;
/// Documents whose dates are one row: 2 KiB, which fit a leaf as a bitmap does.
const ROW_DATES: usize = 512;
/// So many rows are passed one by one: they are in the leaf that the cursor has copied, or in the
/// next. A search costs more.
const ROWS_NEAR: u64 = 8;
/// More memory than the pages of the rows need, so that all of them stay in the pool.
const POOL_SPARE_BYTES: u64 = 64 << 20;

/// A database with the blocks of two terms and the column of dates.
pub(crate) struct Pool {
    db: Db,
    postings: Table,
    dates: Table,
    list_bytes: u64,
    has_dates: bool,
}

fn key(term: u32, base: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&term.to_be_bytes());
    key[4..].copy_from_slice(&base.to_be_bytes());
    key
}

impl Pool {
    /// Makes the database in the directory `dir`.
    pub(crate) fn load(dir: &Path, lists: &[Vec<StoredBlock>; 2], data: &Data) -> Result<Pool, Failure> {
        let list_bytes = lists.iter().flatten().map(|block| block.bytes.len() as u64).sum();
        let pool_bytes = 2 * (list_bytes + 4 * data.dates.len() as u64) + POOL_SPARE_BYTES;
        let db = Options::new().page_bytes(PAGE_BYTES).buffer_pool_bytes(pool_bytes).open(dir)?;
        let blocks = (0u32..)
            .zip(lists)
            .flat_map(|(term, blocks)| blocks.iter().map(move |block| (key(term, block.base), &block.bytes)));
        let postings = db.bulk_load("postings", blocks)?;
        let row = |dates: &[u32]| dates.iter().flat_map(|date| date.to_le_bytes()).collect::<Vec<u8>>();
        let rows = (0u64..).zip(data.dates.chunks(ROW_DATES)).map(|(n, dates)| (n.to_be_bytes(), row(dates)));
        let dates = db.bulk_load("dates", rows)?;
        let pool = Pool { db, postings, dates, list_bytes, has_dates: !data.dates.is_empty() };
        pool.warm(lists, data)?;
        Ok(pool)
    }

    /// Reads every row by itself, so that its page is in the pool. The load has written the pages
    /// past the pool, and the pages of a long scan do not stay in it.
    fn warm(&self, lists: &[Vec<StoredBlock>; 2], data: &Data) -> Result<(), Failure> {
        let tx = self.db.begin_with(TxnOptions::new().read_only(true))?;
        for (term, blocks) in (0..).zip(lists) {
            for block in blocks {
                tx.get(&self.postings, &key(term, block.base))?;
            }
        }
        for number in 0..data.dates.len().div_ceil(ROW_DATES) as u64 {
            tx.get(&self.dates, &number.to_be_bytes())?;
        }
        Ok(())
    }

    /// Begins a transaction that only reads. All its reads see one snapshot.
    fn reader(&self) -> Result<RefCell<Transaction>, Failure> {
        Ok(RefCell::new(self.db.begin_with(TxnOptions::new().read_only(true))?))
    }

    fn blocks<'t>(&self, term: u32, tx: &'t RefCell<Transaction>) -> PoolBlocks<'t> {
        let mut cursor = Cursor::new(&self.postings);
        cursor.set_bounds(&key(term, 0)[..]..&key(term + 1, 0)[..]);
        cursor.expect_rows(usize::MAX);
        PoolBlocks { cursor, tx }
    }

    fn dates<'t>(&self, tx: &'t RefCell<Transaction>) -> PoolDates<'t> {
        let mut cursor = Cursor::new(&self.dates);
        cursor.expect_rows(usize::MAX);
        PoolDates { cursor, tx, at: None }
    }
}

impl Contestant for Pool {
    fn name(&self) -> String {
        "Millpond from the pool".into()
    }

    fn list_bytes(&self) -> Option<u64> {
        Some(self.list_bytes)
    }

    fn answers(&self, query: Query) -> bool {
        query != Query::AndNewest || self.has_dates
    }

    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure> {
        let tx = self.reader()?;
        let [a, b] = [0, 1].map(|term| self.blocks(term, &tx));
        answer_by(query, a, b, self.dates(&tx), answer)
    }
}

/// The rows of a list. Several cursors read through one transaction in turns.
struct PoolBlocks<'t> {
    cursor: Cursor,
    tx: &'t RefCell<Transaction>,
}

impl Blocks for PoolBlocks<'_> {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>, Failure> {
        let Some((key, value)) = self.cursor.next(&mut self.tx.borrow_mut())? else { return Ok(None) };
        let base =
            key.last_chunk().ok_or_else(|| Failure::Damaged("a key of a block is too short".into()))?;
        Ok(Some((u64::from_be_bytes(*base), value)))
    }
}

/// The rows of the column of dates.
struct PoolDates<'t> {
    cursor: Cursor,
    tx: &'t RefCell<Transaction>,
    /// The number of the present row.
    at: Option<u64>,
}

impl PoolDates<'_> {
    /// Goes to a row and returns its bytes; `None` if there is no such row.
    fn row(&mut self, number: u64) -> Result<Option<&[u8]>, Failure> {
        let tx = &mut self.tx.borrow_mut();
        let steps = self.at.replace(number).and_then(|at| number.checked_sub(at));
        let row = match steps.filter(|steps| (1..=ROWS_NEAR).contains(steps)) {
            Some(steps) => {
                for _ in 1..steps {
                    self.cursor.next(tx)?;
                }
                self.cursor.next(tx)?
            }
            None => self.cursor.seek(tx, Seek::AtOrAfter(&number.to_be_bytes()))?,
        };
        Ok(row.filter(|(key, _)| *key == number.to_be_bytes()).map(|(_, dates)| dates))
    }
}

impl Dates for PoolDates<'_> {
    fn look_up(&mut self, ids: &[u64], dates: &mut Vec<u32>) -> Result<(), Failure> {
        dates.clear();
        while let Some(id) = ids.get(dates.len()) {
            let number = id / ROW_DATES as u64;
            let row = self.row(number)?.ok_or_else(|| no_date(*id))?.as_chunks::<4>().0;
            for id in ids[dates.len()..].iter().take_while(|id| **id / ROW_DATES as u64 == number) {
                let date = row.get(*id as usize % ROW_DATES).ok_or_else(|| no_date(*id))?;
                dates.push(u32::from_le_bytes(*date));
            }
        }
        Ok(())
    }
}
