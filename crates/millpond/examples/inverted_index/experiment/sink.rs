//! What becomes of the ids of a result: they are counted, or written out.

use super::bitmap::{self, CHUNK_IDS};
use super::failure::Failure;
use super::query::Answer;

/// Takes the ids of a result, in rising order.
pub(crate) trait Sink {
    /// Takes the ids of the bits that are set in the words of a chunk. `base` is its first id.
    fn bits(&mut self, base: u64, word: impl Fn(usize) -> u64) -> Result<(), Failure>;

    /// Takes ids.
    fn ids(&mut self, ids: &[u64]) -> Result<(), Failure>;
}

/// Counts the ids.
#[derive(Debug, Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    #[inline]
    fn bits(&mut self, _base: u64, word: impl Fn(usize) -> u64) -> Result<(), Failure> {
        self.0 += bitmap::count(word);
        Ok(())
    }

    fn ids(&mut self, ids: &[u64]) -> Result<(), Failure> {
        self.0 += ids.len();
        Ok(())
    }
}

/// Writes the ids to an answer. Its memory is used again by the next answer: the first touch of new
/// memory costs more than to write the ids.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    answer: &'a mut Answer,
}

impl<'a> Write<'a> {
    /// Returns a sink that replaces what the answer has.
    pub(crate) fn to(answer: &'a mut Answer) -> Write<'a> {
        answer.len = 0;
        Write { answer }
    }

    /// Returns room for so many more ids.
    fn room(&mut self, ids: usize) -> &mut [u64] {
        let end = self.answer.len + ids;
        if self.answer.room.len() < end {
            self.answer.room.resize(end.next_power_of_two(), 0);
        }
        &mut self.answer.room[self.answer.len..end]
    }
}

impl Sink for Write<'_> {
    #[inline]
    fn bits(&mut self, base: u64, word: impl Fn(usize) -> u64) -> Result<(), Failure> {
        if let Some(room) = self.room(CHUNK_IDS).first_chunk_mut() {
            self.answer.len += bitmap::list(base, word, room);
        }
        Ok(())
    }

    fn ids(&mut self, ids: &[u64]) -> Result<(), Failure> {
        self.room(ids.len()).copy_from_slice(ids);
        self.answer.len += ids.len();
        Ok(())
    }
}
