//! Reading the redo log after a crash: groups in order from a position on, and the rule that
//! decides where the log ends.
//!
//! A block is valid only if its header is whole, names this database and its own number, and
//! carries the epoch that the root gives to its position. Groups are read while their bytes lie in
//! consecutive valid blocks and their checksums hold. The first position where that fails is the
//! end of the log, unless something proves that the log was longer (El3). That is a valid block
//! that names a higher durable LSN, or one that lies further beyond than the window W in which
//! unsynced writes can be. Then a middle part of the log is missing, and the answer is `Corrupt`,
//! never a guess.

use super::block::{BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block};
use super::epochs::BlockRule;
pub(crate) use super::epochs::EpochStart;
use super::group::{self, GROUP_HEADER_BYTES};
use super::held::HeldBlocks;
use super::ring::PAD;
use super::segment::{Segments, file_offset};
use super::source::BlockSource;
use super::unsynced::UnsyncedBlocks;
use crate::error::{Error, Result};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::aligned_vec::AlignedVec;
use std::ops::Range;

/// A whole group and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// Its LSN.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Its records.
    pub records: &'a [u8],
}

/// Reads groups forward.
pub(crate) struct Scanner<'a> {
    held: HeldBlocks<'a>,
    /// Where the next group is expected.
    next: Lsn,
    /// The group of [`Scanner::next`], if it does not lie in one block.
    group: AlignedVec,
    run: Option<Run>,
    /// Blocks with which the log goes on where that of the segments ends.
    unsynced: Option<&'a UnsyncedBlocks>,
    /// Where it ended in the segments. From there on they are read.
    segments_end: Option<Lsn>,
}

/// A held block whose used bytes are known, because the next one names them. Most groups lie whole
/// in such a block, and need no other look at it.
#[derive(Clone, Debug)]
struct Run {
    /// The block's first position.
    first: Lsn,
    /// Where its used bytes are, until a block is asked for.
    used: Range<usize>,
    epoch: u32,
}

impl<'a> Scanner<'a> {
    /// A scanner whose first group is expected at `from`. `epochs` is sorted by position and not
    /// empty.
    pub(crate) fn new(segments: &'a Segments, epochs: &'a [EpochStart], from: Lsn) -> Scanner<'a> {
        let rule = BlockRule::new(segments.shape().db_id, epochs);
        Self::of(HeldBlocks::forward(BlockSource::forward(segments), rule, block_of(from)), from)
    }

    /// A scanner for a caller that looks at single groups, mostly each before the last one, by
    /// [`Scanner::seek`]. None of them lies below `from`, and none is of this run. `buffer` is
    /// the memory of another such scanner that is done.
    pub(crate) fn backwards(
        segments: &'a Segments,
        epochs: &'a [EpochStart],
        from: Lsn,
        buffer: Option<AlignedBuf>,
    ) -> Scanner<'a> {
        let rule = BlockRule::new(segments.shape().db_id, epochs);
        let source = BlockSource::backwards(segments);
        Self::of(HeldBlocks::backwards(source, rule, block_of(from), buffer), from)
    }

    fn of(held: HeldBlocks<'a>, next: Lsn) -> Scanner<'a> {
        Scanner { held, next, group: AlignedVec::default(), run: None, unsynced: None, segments_end: None }
    }

    /// Takes the memory for another scanner. This one is done.
    pub(crate) fn take_buffer(&mut self) -> AlignedBuf {
        self.run = None;
        self.held.take_buffer()
    }

    /// Makes the group at `at` the next one. REQUIRES: a scanner made by [`Scanner::backwards`].
    pub(crate) fn seek(&mut self, at: Lsn) -> Result {
        self.next = at;
        if self.held.seek(block_of(at))? {
            self.run = None;
        }
        Ok(())
    }

    /// Starts a thread that reads the next blocks while the caller works on the current ones. For
    /// callers that read much of the log.
    pub(crate) fn read_ahead(mut self) -> Result<Scanner<'a>> {
        self.held.read_ahead()?;
        Ok(self)
    }

    /// Goes on in these blocks where the log of the segments ends.
    pub(crate) fn and_unsynced(self, unsynced: Option<&'a UnsyncedBlocks>) -> Scanner<'a> {
        Scanner { unsynced, ..self }
    }

    /// Returns where the log of the segments ended, if the scan has come to that and there may be
    /// more.
    pub(crate) fn segments_end(&self) -> Option<Lsn> {
        self.segments_end
    }

    /// Begins to read the unsynced blocks, at the end of the log in the segments. False if that is
    /// done already, or there are none.
    fn goes_on_unsynced(&mut self) -> bool {
        let Some(unsynced) = self.unsynced.take() else { return false };
        self.segments_end = Some(self.next);
        self.run = None;
        self.held.go_on_in(unsynced, block_of(self.next));
        true
    }

    /// Returns where the next group is expected. After [`Scanner::next`] returned `None` this is
    /// the end of the log.
    pub(crate) fn position(&self) -> Lsn {
        self.next
    }

    /// Returns the next group, or `None` at the end of the log.
    pub(crate) fn next(&mut self) -> Result<Option<Group<'_>>> {
        if let Some((lsn, found)) = self.take_in_run() {
            let records = &self.held.bytes(found)[GROUP_HEADER_BYTES..];
            return Ok(Some(Group { lsn, end: self.next, records }));
        }
        let mut group = std::mem::take(&mut self.group);
        group.clear();
        let lsn = self.append_next(&mut group);
        self.group = group;
        Ok(lsn?.map(|lsn| Group { lsn, end: self.next, records: &self.group[GROUP_HEADER_BYTES..] }))
    }

    /// Appends the next group, its header included, to `out` and returns its LSN. At the end of the
    /// log it returns `None` and appends nothing.
    pub(crate) fn append_next(&mut self, out: &mut AlignedVec) -> Result<Option<Lsn>> {
        if let Some((lsn, found)) = self.take_in_run() {
            out.extend_from_slice(self.held.bytes(found));
            return Ok(Some(lsn));
        }
        let start = out.len();
        let mut found = self.locate(out);
        if matches!(found, Ok(None)) && self.goes_on_unsynced() {
            out.truncate(start);
            found = self.locate(out);
        }
        match found {
            Ok(Some(lsn)) => {
                base::verify!(lsn >= self.next, "the scan goes back from {} to {lsn}", self.next);
                self.next = lsn.plus((out.len() - start) as u64);
            }
            Ok(None) | Err(_) => out.truncate(start),
        }
        found
    }

    /// Does the work of [`Scanner::append_next`]. May leave part of a group in `out`.
    fn locate(&mut self, out: &mut AlignedVec) -> Result<Option<Lsn>> {
        let start = out.len();
        // It would not hold any more.
        self.run = None;
        loop {
            let at = self.next;
            let block = block_of(at);
            self.held.release_below(block);
            let Some(held) = self.held.hold(block)? else { return Ok(None) };
            let epoch = held.epoch;
            let offset = offset_in_block(at);
            let padded = self.held.payload(block)[offset..].iter().all(|b| *b == PAD);
            // The last bytes of a block may also be the first bytes of a group that continues in
            // the next block.
            let continues =
                |after: &BlockHeader| usize::from(after.prev_used) == PAYLOAD_BYTES && after.epoch == epoch;
            if padded && !self.held.hold(block + 1)?.is_some_and(continues) {
                self.next = block_start(block + 1);
                continue;
            }
            if offset > 0
                && let Some(after) = self.held.hold(block + 1)?
                && usize::from(after.prev_used) == offset
            {
                self.next = block_start(block + 1);
                continue;
            }
            let used = self.held.used(block);
            if let Some(group) = self.in_one_block(block, offset) {
                let whole = group::verify(group, at, epoch);
                out.extend_from_slice(group);
                self.run = used.map(|used| Run { first: block_start(block), used, epoch });
                return Ok(whole.then_some(at));
            }
            let mut header = [0u8; GROUP_HEADER_BYTES];
            if !self.gather(at, GROUP_HEADER_BYTES, epoch, out)? {
                return Ok(None);
            }
            header.copy_from_slice(&out[start..]);
            let Some(len) = group::claimed_len(&header) else { return Ok(None) };
            if !self.gather(at.plus(GROUP_HEADER_BYTES as u64), len - GROUP_HEADER_BYTES, epoch, out)? {
                return Ok(None);
            }
            return Ok(group::verify(&out[start..], at, epoch).then_some(at));
        }
    }

    /// Returns what may be a group at `offset` of a held block, if it ends in that block. Most do.
    fn in_one_block(&self, block: u64, offset: usize) -> Option<&[u8]> {
        let rest = &self.held.payload(block)[offset..];
        let len = group::claimed_len(rest.first_chunk()?)?;
        rest.get(..len)
    }

    /// Returns the LSN of the next group and where in memory it is, and goes on after it, if it
    /// lies whole in the block of the group before and its checksum holds.
    #[inline]
    fn take_in_run(&mut self) -> Option<(Lsn, Range<usize>)> {
        let run = self.run.as_ref()?;
        let offset = self.next.0.checked_sub(run.first.0)? as usize;
        let rest = self.held.bytes(run.used.clone()).get(offset..)?;
        let len = group::claimed_len(rest.first_chunk()?)?;
        if !group::verify(rest.get(..len)?, self.next, run.epoch) {
            return None;
        }
        let at = run.used.start + offset;
        let lsn = self.next;
        self.next = lsn.plus(len as u64);
        Some((lsn, at..at + len))
    }

    /// Appends `n` positions from `at` on to `out`. False if they do not lie in consecutive valid
    /// blocks.
    fn gather(&mut self, at: Lsn, n: usize, epoch: u32, out: &mut AlignedVec) -> Result<bool> {
        let mut at = at;
        let mut left = n;
        while left > 0 {
            let offset = offset_in_block(at);
            let block = block_of(at);
            let Some(held) = self.held.hold(block)? else { return Ok(false) };
            let contiguous = offset > 0 || usize::from(held.prev_used) == PAYLOAD_BYTES;
            if held.epoch != epoch || (left < n && !contiguous) {
                return Ok(false);
            }
            let take = left.min(PAYLOAD_BYTES - offset);
            out.extend_from_slice(&self.held.payload(block)[offset..offset + take]);
            left -= take;
            at = at.plus(take as u64);
        }
        Ok(true)
    }

    /// Fails if something proves that the log was longer than up to [`Scanner::position`], where it
    /// ended. `known` is the highest LSN that something outside the log (the root) knows to be
    /// durable.
    pub(crate) fn check_end(&mut self, window: u64, known: Lsn) -> Result {
        let end = self.next;
        let segments = self.held.source().segments();
        let shape = segments.shape();
        self.run = None;
        self.held.forget();
        let fail = |what: String| {
            let number = shape.segment_of(block_of(end));
            let file = match segments.find(number) {
                Some(segment) => segment.path.clone(),
                None => segments.dir().join(format!("{number:016x}.log")),
            };
            let offset = file_offset(shape, block_of(end)) + (HEADER_BYTES + offset_in_block(end)) as u64;
            Err(Error::corrupt(
                &file,
                format!("the log breaks off at LSN {end} (offset {offset} of this segment), but {what}"),
            ))
        };
        if known > end {
            return fail(format!("the root knows it to be durable up to LSN {known}"));
        }
        let named = self.held.durable_named();
        if named > end {
            return fail(format!("a block before names LSN {named} as durable"));
        }
        // A valid block after the hole and within the window may be an unsynced write; further out
        // it cannot be. An epoch begins at the start of a block. So the block of the end can be of
        // another epoch only if the end is its start.
        let first = block_of(end) + u64::from(offset_in_block(end) > 0);
        let last = block_of(end.plus(window)) + 1 + shape.blocks;
        let highest = segments.numbers().last().map_or(0, |n| (n + 1) * shape.blocks);
        let rule = self.held.rule();
        let proof = |bytes: &[u8], block: u64| proof_of_longer_log(rule, bytes, block, end, window);
        let mut block = first;
        while block <= last.min(highest.saturating_sub(1)) {
            let count = self.held.source().read_count(block);
            if let Some(what) = self.held.look_at(block, count, proof)? {
                return fail(what);
            }
            block += count;
        }
        for number in segments.numbers() {
            let block = number * shape.blocks;
            if block > last
                && let Some(what) = self.held.look_at(block, 1, proof)?
            {
                return fail(what);
            }
        }
        Ok(())
    }
}

/// Returns how the bytes of block `block` prove that the log did not end at `end`; `None` if they
/// do not.
fn proof_of_longer_log(
    rule: BlockRule<'_>,
    bytes: &[u8],
    block: u64,
    end: Lsn,
    window: u64,
) -> Option<String> {
    // The root names an epoch before the first block of it is written. So a block of a younger
    // epoch proves that the newest root is lost.
    if let Some(epoch) = rule.unknown_epoch(bytes, block) {
        return Some(format!("block {block} is of epoch {epoch}, which the root does not know"));
    }
    let header = rule.valid(bytes, block)?;
    if header.durable > end {
        return Some(format!("block {block} names LSN {} as durable", header.durable));
    }
    (block_start(block) > end.plus(window))
        .then(|| format!("block {block} lies further on than unsynced writes can reach"))
}
