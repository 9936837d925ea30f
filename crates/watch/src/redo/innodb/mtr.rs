//! Where a mini-transaction ends in bytes of the log, and whether it is whole: pure functions.
//!
//! A mini-transaction is records, a byte that says which lap of the ring it is of (0 or 1), and a
//! CRC-32C of the records. No record begins with a byte 0 or 1.

use super::varint;
use base::crc::crc32c;

/// InnoDB writes no longer records in one mini-transaction, and recovery ends at such a one. Bytes.
pub(super) const LONGEST: usize = 1 << 20;
/// The byte of the lap, and the checksum.
pub(super) const END_BYTES: usize = 5;

/// What is at a position of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A mini-transaction: its records, without its end.
    Whole(&'a [u8]),
    /// More bytes are needed to know.
    Cut,
    /// None: the log ends here, or what is here was torn, overwritten or damaged.
    End,
}

/// Looks for a mini-transaction at the start of `bytes`. `lap_at` returns the lap's byte so many
/// bytes further on.
pub(super) fn find(bytes: &[u8], lap_at: impl Fn(usize) -> u8) -> Found<'_> {
    let mut at = 0;
    loop {
        let Some(first) = bytes.get(at) else { return Found::Cut };
        if *first <= 1 {
            break;
        }
        match record_length(&bytes[at..]) {
            Length::Known(length) => at += length,
            Length::Cut => return Found::Cut,
            Length::Reserved => return Found::End,
        }
        if at >= LONGEST {
            return Found::End;
        }
    }
    if at == 0 || bytes[at] != lap_at(at) {
        return Found::End;
    }
    match bytes.get(at + 1..at + END_BYTES) {
        None => Found::Cut,
        Some(sum) if sum == crc32c(&bytes[..at]).to_be_bytes() => Found::Whole(&bytes[..at]),
        Some(_) => Found::End,
    }
}

/// The length of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Bytes, the first one included. The record may be cut.
    Known(usize),
    Cut,
    /// A form that no version writes.
    Reserved,
}

/// Returns the length of the record at the start of `bytes`: the low four bits of its first byte
/// count those that follow; 0 means that a number says how many more than 15.
pub(super) fn record_length(bytes: &[u8]) -> Length {
    let Some(first) = bytes.first() else { return Length::Cut };
    if first & 15 != 0 {
        return Length::Known(1 + usize::from(first & 15));
    }
    let Some(second) = bytes.get(1) else { return Length::Cut };
    if second.leading_ones() > 2 {
        return Length::Reserved;
    }
    match varint::read(&bytes[1..]) {
        Some((more, _)) => Length::Known(16 + more as usize),
        None => Length::Cut,
    }
}
