//! Rows with a checksum, and groups of rows with a header row that sums them up.
//!
//! A group is the keys from `[group][0]` up to `[group + 1][0]`, exclusive. Slot 0 is the *header*:
//! the number of the other rows and the sum of their balances. Each transaction keeps the header
//! correct, so every consistent read of a group finds it correct.

use base::crc::{crc32c, crc32c_append};
use base::prng::Prng;

/// Slots of a group, the header's included.
pub(super) const SLOTS: u32 = 100;

/// A row without its filler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// In a header: the sum of the other rows.
    pub(super) balance: i64,
    /// In a header: the number of the other rows.
    pub(super) count: u64,
}

pub(super) fn key(group: u32, slot: u32) -> [u8; 8] {
    (u64::from(group) << 32 | u64::from(slot)).to_be_bytes()
}

/// Returns the exclusive end of the keys of a group.
pub(super) fn group_end(group: u32) -> [u8; 8] {
    key(group + 1, 0)
}

impl Row {
    /// Encodes `[balance i64][count u64][CRC32C of key and the rest u32][filler]`, little-endian.
    /// One filler in forty is longer than a page.
    pub(super) fn encode(self, key: &[u8], rng: &mut Prng) -> Vec<u8> {
        let filler = if rng.one_in(40) { rng.between(4_000, 20_000) } else { rng.between(20, 300) };
        let mut value = vec![0; 20 + filler as usize];
        value[..8].copy_from_slice(&self.balance.to_le_bytes());
        value[8..16].copy_from_slice(&self.count.to_le_bytes());
        rng.fill(&mut value[20..]);
        let sum = checksum(key, &value);
        value[16..20].copy_from_slice(&sum.to_le_bytes());
        value
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Row, String> {
        let word = |at: usize| value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let (Some(balance), Some(count), Some(sum)) = (word(0), word(8), value.get(16..20)) else {
            return Err(format!("row {} has {} bytes", key.escape_ascii(), value.len()));
        };
        if sum != checksum(key, value).to_le_bytes() {
            return Err(format!("row {} is not what was written", key.escape_ascii()));
        }
        Ok(Row { balance: i64::from_le_bytes(balance), count: u64::from_le_bytes(count) })
    }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    [&value[..16], &value[20..]].iter().fold(crc32c(key), |sum, part| crc32c_append(sum, part))
}

/// Adds up the rows of a group.
#[derive(Debug, Default)]
pub(super) struct GroupSum {
    header: Option<Row>,
    rows: Row,
}

impl GroupSum {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let row = Row::decode(key, value)?;
        if key[4..] == [0; 4] {
            self.header = Some(row);
        } else {
            self.rows.balance += row.balance;
            self.rows.count += 1;
        }
        Ok(())
    }

    /// Returns the header if it is correct, else an error.
    pub(super) fn total(&self, group: u32) -> Result<Row, String> {
        match self.header {
            Some(header) if header == self.rows => Ok(header),
            header => {
                Err(format!("group {group}: its header says {header:?}, its rows add up to {:?}", self.rows))
            }
        }
    }
}
