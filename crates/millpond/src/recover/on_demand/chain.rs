//! The redo of one page, found backwards: each change of a page names the LSN that it found on the
//! page, so the last change leads back to all before it, up to the image in the file or to a change
//! that makes the page anew.

use crate::error::{Error, Result};
use crate::log::group::{PREV_MASK, Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::Segments;
use crate::page::header;
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use base::aligned::AlignedBuf;
use base::codec::{Put, Reader};
use base::sync::Mutex;
use base::{Lsn, PageNo};
use std::path::Path;

/// Changes of one page that are kept in memory while the chain is followed, bytes. What a page with
/// more changes needs is read a second time, forwards.
const KEPT_BYTES: usize = if cfg!(test) { 2 << 10 } else { 4 << 20 };

/// The log of the last run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOfLastRun<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) epochs: &'a [EpochStart],
    /// No page lacks redo from below.
    pub(crate) from: Lsn,
    /// The `pages` file, for errors.
    pub(crate) pages_path: &'a Path,
    /// Memory for readers.
    pub(crate) memory: &'a ReaderMemory,
}

/// Memory of readers that are done, for the next ones. Without it each chain would begin with some
/// hundred KiB of zeros. `None`: there will be no next ones.
#[derive(Debug)]
pub(crate) struct ReaderMemory(Mutex<Option<Vec<AlignedBuf>>>);

impl ReaderMemory {
    pub(crate) fn new() -> ReaderMemory {
        ReaderMemory(Mutex::new(Some(Vec::new())))
    }

    fn take(&self) -> Option<AlignedBuf> {
        self.0.lock().as_mut()?.pop()
    }

    fn give_back(&self, blocks: AlignedBuf) {
        if let Some(buffers) = &mut *self.0.lock() {
            buffers.push(blocks);
        }
    }

    /// Frees the memory, and that of each reader at its end.
    pub(super) fn free(&self) {
        *self.0.lock() = None;
    }
}

/// A reader of single groups, which gives its memory back at the end.
struct ChainReader<'a> {
    scanner: Scanner<'a>,
    memory: &'a ReaderMemory,
}

impl Drop for ChainReader<'_> {
    fn drop(&mut self) {
        self.memory.give_back(self.scanner.take_buffer());
    }
}

/// Where the redo of a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainStart {
    /// With the change after this LSN, which the image has.
    Image(Lsn),
    /// With a change that makes the page anew.
    Anew,
}

/// The changes of a page by one group.
#[derive(Clone, Copy, Debug)]
struct Step {
    lsn: Lsn,
    /// Where in the kept bytes its changes begin and end.
    ops: (usize, usize),
}

/// The redo that a page lacks.
#[derive(Debug)]
pub(crate) struct Chain {
    page: PageNo,
    pub(crate) start: ChainStart,
    /// The newest first.
    steps: Vec<Step>,
    /// Each change with its length before it.
    ops: Vec<u8>,
    /// `ops` has all changes.
    has_ops: bool,
}

/// The group does not change the page.
#[derive(Debug)]
struct NoChange;

/// What following a chain finds.
#[derive(Debug)]
pub(crate) enum Followed {
    /// All the redo that the page lacks.
    Whole(Chain),
    /// The page has no image, and redo changes one. The first change names this LSN, low bits: that
    /// of an image from before the log, or of one that a bulk load has written.
    NeedsImage(u64),
    /// The change at the first LSN found the page at the second one, and the image is another: a
    /// write of the page was lost.
    LostWrite(Lsn, Lsn),
}

/// Returns the LSN below `at` with these low bits.
fn before(at: Lsn, low: u64) -> Lsn {
    let same = (at.0 & !PREV_MASK) | low;
    Lsn(if same < at.0 { same } else { same.saturating_sub(PREV_MASK + 1) })
}

impl LogOfLastRun<'_> {
    /// Follows the redo of `page` from its last change, at `last`, back to `image`, the LSN of its
    /// image in the file. `None`: there is no image that is of use.
    pub(crate) fn follow(&self, page: PageNo, last: Lsn, image: Option<Lsn>) -> Result<Followed> {
        let mut reader = self.reader();
        let mut chain =
            Chain { page, start: ChainStart::Anew, steps: Vec::new(), ops: Vec::new(), has_ops: true };
        let mut at = last;
        // The change that was found last: its LSN, and the low bits of the one that it names.
        let mut later = None;
        loop {
            base::check!(image.is_none_or(|image| image < at), "{page:?} has the change at {at} already");
            let records = self.group(&mut reader, page, at)?;
            let low = match (chain.add(at, records), later) {
                (Ok(Some(low)), _) => low,
                (Ok(None), _) => return Ok(Followed::Whole(chain)),
                // A loaded page has the LSN of a group that does not change it.
                (Err(NoChange), Some((_, low))) if image.is_none() => return Ok(Followed::NeedsImage(low)),
                (Err(NoChange), Some((lsn, _))) => return Ok(Followed::LostWrite(lsn, at)),
                (Err(NoChange), None) => return Err(self.damaged(page, at)),
            };
            later = Some((at, low));
            let named = before(at, low);
            match image {
                Some(image) if image.0 & PREV_MASK == low && image < at => {
                    chain.start = ChainStart::Image(image);
                    return Ok(Followed::Whole(chain));
                }
                Some(image) if named < image.max(self.from) || named >= at => {
                    return Ok(Followed::LostWrite(at, named));
                }
                None if named < self.from || named >= at => return Ok(Followed::NeedsImage(low)),
                Some(_) | None => at = named,
            }
        }
    }

    /// Applies a chain to the page's image; the bytes do not matter if the chain makes it anew.
    /// Returns the LSN of the first change.
    pub(crate) fn apply(&self, chain: &Chain, bytes: &mut [u8]) -> Result<Lsn> {
        if chain.start == ChainStart::Anew {
            bytes.fill(0);
        }
        let mut reader = None;
        for step in chain.steps.iter().rev() {
            if planted(Bug::RedoSkips) && step.lsn.0.is_multiple_of(7) {
                continue;
            }
            if chain.has_ops {
                self.apply_ops(chain.page, step.lsn, &chain.ops[step.ops.0..step.ops.1], bytes)?;
            } else {
                let records =
                    self.group(reader.get_or_insert_with(|| self.reader()), chain.page, step.lsn)?;
                let mut again = Chain { steps: Vec::new(), ops: Vec::new(), has_ops: true, ..*chain };
                again.add(step.lsn, records).map_err(|_| self.damaged(chain.page, step.lsn))?;
                self.apply_ops(chain.page, step.lsn, &again.ops, bytes)?;
            }
        }
        Ok(chain.steps.last().expect("a chain has a change").lsn)
    }

    fn apply_ops(&self, page: PageNo, lsn: Lsn, ops: &[u8], bytes: &mut [u8]) -> Result {
        let mut ops = Reader::new(ops);
        while !ops.is_empty() {
            let op = ops.prefixed().ok().and_then(|op| PageOp::decode(op).ok());
            let op = op.ok_or_else(|| self.damaged(page, lsn))?;
            op.apply(bytes).map_err(|damage| {
                Error::corrupt(self.pages_path, format!("{page:?}, redo at LSN {lsn}: {damage}"))
            })?;
        }
        header::set_page_no(bytes, page);
        header::set_lsn(bytes, lsn);
        Ok(())
    }

    fn reader(&self) -> ChainReader<'_> {
        let scanner = Scanner::backwards(self.segments, self.epochs, self.from, self.memory.take());
        ChainReader { scanner, memory: self.memory }
    }

    /// Returns the records of the group at `at`.
    fn group<'r>(&self, reader: &'r mut ChainReader<'_>, page: PageNo, at: Lsn) -> Result<&'r [u8]> {
        reader.scanner.seek(at)?;
        match reader.scanner.next()? {
            Some(group) if group.lsn == at => Ok(group.records),
            _ => {
                let what = format!("redo of {page:?} at LSN {at} is not a whole group");
                Err(Error::corrupt(&self.segments.dir(), what))
            }
        }
    }

    fn damaged(&self, page: PageNo, lsn: Lsn) -> Error {
        let what = format!("redo of {page:?} at LSN {lsn} is not a change of it");
        Error::corrupt(&self.segments.dir(), what)
    }
}

impl Chain {
    /// Adds the changes of its page by the group at `lsn`, from the last one on that makes the page
    /// anew. Returns the low bits of the LSN that they found on the page, or `None` if they make it
    /// anew.
    fn add(&mut self, lsn: Lsn, records: &[u8]) -> Result<Option<u64>, NoChange> {
        let from = self.ops.len();
        let mut first = None;
        for record in Records::new(records) {
            let Record::Page { page, prev, op } = record.map_err(|_| NoChange)? else { continue };
            if page != self.page {
                continue;
            }
            let decoded = PageOp::decode(op).map_err(|_| NoChange)?;
            if decoded.is_init() {
                self.ops.truncate(from);
                first = Some(None);
            }
            first.get_or_insert(Some(prev));
            self.ops.put_prefixed(op);
        }
        let first = first.ok_or(NoChange)?;
        let ops = (from, self.ops.len());
        if !self.has_ops || self.ops.len() > KEPT_BYTES && !self.steps.is_empty() {
            self.has_ops = false;
            self.ops.clear();
        }
        self.steps.push(Step { lsn, ops });
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread may still read the redo of a page when replay ends. Its memory stayed until the
    /// database was closed.
    #[test]
    fn memory_that_comes_back_after_the_end_is_freed() {
        let memory = ReaderMemory::new();
        memory.give_back(AlignedBuf::zeroed(4096));
        assert!(memory.take().is_some() && memory.take().is_none());
        memory.free();
        memory.give_back(AlignedBuf::zeroed(4096));
        assert!(memory.take().is_none());
    }

    #[test]
    fn low_bits_name_the_nearest_lsn_below() {
        let top = PREV_MASK + 1;
        assert_eq!(before(Lsn(100), 99), Lsn(99));
        assert_eq!(before(Lsn(5 * top + 100), 99), Lsn(5 * top + 99));
        assert_eq!(before(Lsn(5 * top + 100), 100), Lsn(4 * top + 100));
        assert_eq!(before(Lsn(5 * top + 100), PREV_MASK), Lsn(4 * top + PREV_MASK));
        assert_eq!(before(Lsn(100), 200), Lsn(0));
    }
}
