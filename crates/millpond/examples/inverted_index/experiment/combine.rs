//! AND and OR of two lists: one pass over their blocks, in the order of the ids.
//!
//! All ids of a list in one chunk are in one block. So two bitmaps meet only if they are of the
//! same chunk, and then as a whole. Packed ids meet a part of the other list at a time; what is
//! left of them stays the present block.

use super::bitmap::{CHUNK_IDS, WORDS, word};
use super::block::{Bits, Block, Ids};
use super::failure::Failure;
use super::reader::{Blocks, Reader};
use super::sink::Sink;
use std::cmp::Ordering;

/// Gives the ids that are in both lists to `sink`.
///
/// # Errors
/// [`Failure::Damaged`], and failures of the lists and of the sink.
pub(crate) fn and<A: Blocks, B: Blocks>(a: A, b: B, sink: &mut impl Sink) -> Result<(), Failure> {
    let (mut a, mut b, mut found) = (Reader::new(a), Reader::new(b), Vec::new());
    let (mut of_a, mut of_b) = (a.next()?, b.next()?);
    while let (Some(x), Some(y)) = (of_a, of_b) {
        match (x, y) {
            (Block::Bits(x), Block::Bits(y)) => {
                let order = x.base.cmp(&y.base);
                if order.is_eq() {
                    sink.bits(x.base, |n| word(x.bitmap, n) & word(y.bitmap, n))?;
                }
                of_a = if order.is_le() { a.next()? } else { of_a };
                of_b = if order.is_ge() { b.next()? } else { of_b };
            }
            (Block::Bits(x), Block::Ids(y)) => {
                let rest = probe(x, y, &mut found);
                sink.ids(&found)?;
                (of_a, of_b) = match rest.is_empty() {
                    true => (of_a, b.next()?),
                    false => (a.next()?, Some(Block::Ids(rest))),
                };
            }
            (Block::Ids(x), Block::Bits(y)) => {
                let rest = probe(y, x, &mut found);
                sink.ids(&found)?;
                (of_a, of_b) = match rest.is_empty() {
                    true => (a.next()?, of_b),
                    false => (Some(Block::Ids(rest)), b.next()?),
                };
            }
            (Block::Ids(x), Block::Ids(y)) => {
                let (x, y) = meet(x, y, &mut found);
                sink.ids(&found)?;
                of_a = if x.is_empty() { a.next()? } else { Some(Block::Ids(x)) };
                of_b = if y.is_empty() { b.next()? } else { Some(Block::Ids(y)) };
            }
        }
    }
    Ok(())
}

/// Gives the ids that are in one of the lists, or in both, to `sink`.
///
/// # Errors
/// As [`and`].
pub(crate) fn or<A: Blocks, B: Blocks>(a: A, b: B, sink: &mut impl Sink) -> Result<(), Failure> {
    let (mut a, mut b, mut found) = (Reader::new(a), Reader::new(b), Vec::new());
    let (mut of_a, mut of_b) = (a.next()?, b.next()?);
    while let (Some(x), Some(y)) = (of_a, of_b) {
        match (x, y) {
            (Block::Bits(x), Block::Bits(y)) => {
                let order = x.base.cmp(&y.base);
                match order {
                    Ordering::Less => sink.bits(x.base, |n| word(x.bitmap, n))?,
                    Ordering::Greater => sink.bits(y.base, |n| word(y.bitmap, n))?,
                    Ordering::Equal => sink.bits(x.base, |n| word(x.bitmap, n) | word(y.bitmap, n))?,
                }
                of_a = if order.is_le() { a.next()? } else { of_a };
                of_b = if order.is_ge() { b.next()? } else { of_b };
            }
            (Block::Bits(x), Block::Ids(y)) => {
                let (passed, rest) = join(x, y, &mut found, sink)?;
                of_a = if passed { a.next()? } else { of_a };
                of_b = if rest.is_empty() { b.next()? } else { Some(Block::Ids(rest)) };
            }
            (Block::Ids(x), Block::Bits(y)) => {
                let (passed, rest) = join(y, x, &mut found, sink)?;
                of_a = if rest.is_empty() { a.next()? } else { Some(Block::Ids(rest)) };
                of_b = if passed { b.next()? } else { of_b };
            }
            (Block::Ids(x), Block::Ids(y)) => {
                let (x, y) = merge(x, y, &mut found);
                sink.ids(&found)?;
                of_a = if x.is_empty() { a.next()? } else { Some(Block::Ids(x)) };
                of_b = if y.is_empty() { b.next()? } else { Some(Block::Ids(y)) };
            }
        }
    }
    while let Some(block) = of_a {
        give(block, &mut found, sink)?;
        of_a = a.next()?;
    }
    while let Some(block) = of_b {
        give(block, &mut found, sink)?;
        of_b = b.next()?;
    }
    Ok(())
}

/// Gives all ids of a block to `sink`.
fn give(block: Block<'_>, found: &mut Vec<u64>, sink: &mut impl Sink) -> Result<(), Failure> {
    match block {
        Block::Bits(bits) => sink.bits(bits.base, |n| word(bits.bitmap, n)),
        Block::Ids(ids) => {
            found.clear();
            found.extend(ids.iter());
            sink.ids(found)
        }
    }
}

/// Puts the ids whose bit is set into `found`. Returns the ids that lie after the bits.
fn probe<'b>(bits: Bits<'_>, ids: Ids<'b>, found: &mut Vec<u64>) -> Ids<'b> {
    let (_, from_there) = ids.split_at_id(bits.base);
    let (inside, after) = from_there.split_at_id(bits.end());
    found.resize(inside.offsets.len(), 0);
    let mut len = 0;
    for offset in inside.offsets {
        // Both begin with a chunk.
        let n = *offset as usize % CHUNK_IDS;
        // No branch: the processor would guess it wrong too often.
        found[len] = ids.base + u64::from(*offset);
        len += usize::from(bits.bitmap[n / 8] >> (n % 8) & 1);
    }
    found.truncate(len);
    after
}

/// Gives the ids of both up to the end of the bits to `sink`, or up to the last id if that lies
/// before the bits. Returns whether the bits are done, and the ids that are left.
fn join<'b>(
    bits: Bits<'_>,
    ids: Ids<'b>,
    found: &mut Vec<u64>,
    sink: &mut impl Sink,
) -> Result<(bool, Ids<'b>), Failure> {
    let (before, from_there) = ids.split_at_id(bits.base);
    if !before.is_empty() {
        give(Block::Ids(before), found, sink)?;
    }
    if from_there.is_empty() {
        return Ok((false, from_there));
    }
    let (inside, after) = from_there.split_at_id(bits.end());
    let mut words: [u64; WORDS] = std::array::from_fn(|n| word(bits.bitmap, n));
    for offset in inside.offsets {
        let n = *offset as usize % CHUNK_IDS;
        words[n / 64] |= 1 << (n % 64);
    }
    sink.bits(bits.base, |n| words[n])?;
    Ok((true, after))
}

/// Puts the ids that are in both into `found`, until one side has no more. Returns what is left.
fn meet<'a, 'b>(a: Ids<'a>, b: Ids<'b>, found: &mut Vec<u64>) -> (Ids<'a>, Ids<'b>) {
    found.resize(a.offsets.len().min(b.offsets.len()), 0);
    let (mut i, mut j, mut len) = (0, 0, 0);
    while i < a.offsets.len() && j < b.offsets.len() {
        let (x, y) = (a.base + u64::from(a.offsets[i]), b.base + u64::from(b.offsets[j]));
        // No branches, as in `probe`.
        found[len] = x;
        len += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    found.truncate(len);
    (a.skip(i), b.skip(j))
}

/// Puts the ids of both into `found`, until one side has no more. Returns what is left.
fn merge<'a, 'b>(a: Ids<'a>, b: Ids<'b>, found: &mut Vec<u64>) -> (Ids<'a>, Ids<'b>) {
    found.resize(a.offsets.len() + b.offsets.len(), 0);
    let (mut i, mut j, mut len) = (0, 0, 0);
    while i < a.offsets.len() && j < b.offsets.len() {
        let (x, y) = (a.base + u64::from(a.offsets[i]), b.base + u64::from(b.offsets[j]));
        found[len] = x.min(y);
        len += 1;
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    found.truncate(len);
    (a.skip(i), b.skip(j))
}
