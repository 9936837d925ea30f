//! The newest documents of a result. Their dates are a column: in the order of the ids, four bytes
//! for each document, so that a date is found by arithmetic.

use super::bitmap::{self, CHUNK_IDS};
use super::failure::Failure;
use super::query::{Answer, NEWEST};
use super::sink::Sink;
use std::cmp::Reverse;

/// Candidates that are kept before all but the newest of them are dropped.
const CANDIDATES_MAX: usize = 16 * NEWEST;

/// A column of dates.
pub(crate) trait Dates {
    /// Replaces `dates` by the dates of rising ids. The ids rise from call to call too.
    fn look_up(&mut self, ids: &[u64], dates: &mut Vec<u32>) -> Result<(), Failure>;
}

/// Keeps the newest of the ids that it is given.
pub(crate) struct Newest<D> {
    candidates: Candidates<D>,
    room: Box<[u64; CHUNK_IDS]>,
}

/// The newest ids so far.
struct Candidates<D> {
    column: D,
    dates: Vec<u32>,
    /// Later dates are wanted. Ids rise, so an equally new one would come after those that are
    /// kept.
    later_than: Option<u32>,
    /// At most [`CANDIDATES_MAX`], the newest of them in no order.
    dated: Vec<(Reverse<u32>, u64)>,
}

impl<D: Dates> Newest<D> {
    pub(crate) fn of(column: D) -> Newest<D> {
        let dated = Vec::with_capacity(CANDIDATES_MAX);
        let candidates = Candidates { column, dates: Vec::new(), later_than: None, dated };
        Newest { candidates, room: Box::new([0; CHUNK_IDS]) }
    }

    /// Puts the newest ids into `answer`, the newest first; of equally new ones the lowest id
    /// first.
    pub(crate) fn finish(self, answer: &mut Answer) {
        let mut dated = self.candidates.dated;
        dated.sort_unstable();
        answer.len = 0;
        dated.iter().take(NEWEST).for_each(|(_, id)| answer.push(*id));
    }
}

impl<D: Dates> Candidates<D> {
    /// Looks at the dates of rising ids. They are fetched before the first is judged: so the
    /// processor waits for many of them at once.
    fn look_at(&mut self, ids: &[u64]) -> Result<(), Failure> {
        self.column.look_up(ids, &mut self.dates)?;
        for (date, id) in self.dates.iter().zip(ids) {
            if self.later_than.is_none_or(|known| *date > known) {
                self.dated.push((Reverse(*date), *id));
                if self.dated.len() == CANDIDATES_MAX {
                    self.later_than = Some(shrink(&mut self.dated));
                }
            }
        }
        Ok(())
    }
}

/// Drops all but the newest. Returns the date of the oldest that is left. REQUIRES: there are more
/// than [`NEWEST`].
fn shrink(dated: &mut Vec<(Reverse<u32>, u64)>) -> u32 {
    let (_, (Reverse(oldest), _), _) = dated.select_nth_unstable(NEWEST - 1);
    let oldest = *oldest;
    dated.truncate(NEWEST);
    oldest
}

impl<D: Dates> Sink for Newest<D> {
    fn bits(&mut self, base: u64, word: impl Fn(usize) -> u64) -> Result<(), Failure> {
        let len = bitmap::list(base, word, &mut self.room);
        self.candidates.look_at(&self.room[..len])
    }

    fn ids(&mut self, ids: &[u64]) -> Result<(), Failure> {
        self.candidates.look_at(ids)
    }
}

/// Returns the failure that a document has no date.
pub(crate) fn no_date(id: u64) -> Failure {
    Failure::Damaged(format!("the column of dates has none of document {id}; load the index again"))
}
