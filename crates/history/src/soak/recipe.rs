//! What the clients of a soak do. Step `n` of client `c` follows from the seed, `c` and `n`, and
//! depends on nothing that was read. So the number of steps that a client has done determines all
//! of its rows.

use base::crc::crc32c;
use base::prng::Prng;
use std::collections::BTreeMap;

/// Rows that a client may have. No other client writes them.
const SLOTS: u64 = 150;
/// Rows that all clients increment.
pub(super) const HOT_ROWS: usize = 8;

/// Each step adds a row to its client's queue and removes the one of so many steps before. So
/// leaves fill up, get empty, are freed, and are used again.
pub(super) const QUEUE_ROWS: u64 = 1_000;

/// Returns the key of a queue's row: `[client u16][step u64]`, big-endian.
pub(super) fn queue_key(client: u16, step: u64) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&client.to_be_bytes());
    key[2..].copy_from_slice(&step.to_be_bytes());
    key
}

/// Returns the value of a queue's row.
pub(super) fn queue_value(step: u64) -> Vec<u8> {
    step.to_le_bytes().repeat(4 + step as usize % 60)
}

/// The seed of a soak, from which every step follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) seed: u64,
}

/// What one step of a client changes.
#[derive(Debug)]
pub(super) enum ClientStep {
    /// One transaction with these changes.
    Rows(Vec<RowChange>),
    /// The client's table is dropped, and another one with so many rows is loaded.
    Table(u32),
}

/// A change of one row, in a step's transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowChange {
    /// A row of the client gets a value of so many bytes.
    Put { slot: u16, bytes: u32 },
    /// A row of the client is deleted.
    Delete { slot: u16 },
    /// A hot row is incremented.
    Hot { row: u8 },
    /// So many changes are made after a savepoint and rolled back to it.
    Spoil { changes: u8 },
}

impl Recipe {
    /// Returns the random generator for one purpose of a step.
    pub(super) fn rng(self, client: u16, n: u64, purpose: u64) -> Prng {
        let mixed = Prng::new(self.seed ^ u64::from(client) << 48 ^ purpose << 40).next_u64();
        Prng::new(mixed ^ n)
    }

    /// Returns step `n` of a client. Steps are counted from 1.
    pub(super) fn step(self, client: u16, n: u64) -> ClientStep {
        let mut rng = self.rng(client, n, 1);
        if rng.one_in(400) {
            return ClientStep::Table(rng.between(1, 3_000) as u32);
        }
        let changes = if rng.one_in(60) { rng.between(100, 1_000) } else { rng.between(1, 8) };
        ClientStep::Rows((0..changes).map(|_| RowChange::draw(&mut rng)).collect())
    }

    /// Returns the value that a change writes: a checksum, the origin, and filler.
    pub(super) fn value(self, origin: Origin, bytes: u32) -> Vec<u8> {
        let mut value = vec![0; HEADER.max(bytes as usize)];
        value[4..6].copy_from_slice(&origin.client.to_le_bytes());
        value[6..8].copy_from_slice(&origin.slot.to_le_bytes());
        value[8..16].copy_from_slice(&origin.step.to_le_bytes());
        value[16..20].copy_from_slice(&origin.change.to_le_bytes());
        let purpose = 2 + u64::from(origin.change);
        self.rng(origin.client, origin.step, purpose).fill(&mut value[HEADER..]);
        let sum = crc32c(&value[4..]);
        value[..4].copy_from_slice(&sum.to_le_bytes());
        value
    }
}

impl RowChange {
    fn draw(rng: &mut Prng) -> RowChange {
        let slot = rng.below(SLOTS) as u16;
        match rng.below(100) {
            0..55 => RowChange::Put { slot, bytes: rng.between(20, 400) as u32 },
            55..62 => RowChange::Put { slot, bytes: rng.between(2_000, 40_000) as u32 },
            62 if rng.one_in(4) => RowChange::Put { slot, bytes: rng.between(100_000, 1_000_000) as u32 },
            62..80 => RowChange::Delete { slot },
            80..92 => RowChange::Hot { row: rng.below(HOT_ROWS as u64) as u8 },
            _ => RowChange::Spoil { changes: rng.between(1, 12) as u8 },
        }
    }
}

/// Bytes before the filler: `[CRC32C of the rest u32][client u16][slot u16][step u64][change u32]`,
/// little-endian.
const HEADER: usize = 20;

/// Which change made a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) client: u16,
    pub(super) slot: u16,
    pub(super) step: u64,
    pub(super) change: u32,
}

impl Origin {
    /// Returns the origin of a value; `None` if the value is damaged.
    pub(super) fn of(value: &[u8]) -> Option<Origin> {
        let sum = value.get(..4)?.try_into().ok().map(u32::from_le_bytes)?;
        if value.len() < HEADER || sum != crc32c(&value[4..]) {
            return None;
        }
        Some(Origin {
            client: u16::from_le_bytes(value[4..6].try_into().ok()?),
            slot: u16::from_le_bytes(value[6..8].try_into().ok()?),
            step: u64::from_le_bytes(value[8..16].try_into().ok()?),
            change: u32::from_le_bytes(value[16..20].try_into().ok()?),
        })
    }
}

/// Returns a row's key: `[client u16][slot u16]`, big-endian.
pub(super) fn row_key(client: u16, slot: u16) -> [u8; 4] {
    (u32::from(client) << 16 | u32::from(slot)).to_be_bytes()
}

/// What the rows of one client must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientModel {
    /// Steps done.
    pub(super) steps: u64,
    /// By slot: step, number of the change in it, bytes.
    rows: BTreeMap<u16, (u64, u32, u32)>,
    /// The client's table: the step that made it, and its rows.
    table: Option<(u64, u32)>,
    /// How often it has incremented each hot row.
    hot: [u64; HOT_ROWS],
}

impl ClientModel {
    /// Applies all steps up to `steps`.
    pub(super) fn advance(&mut self, recipe: Recipe, client: u16, steps: u64) {
        while self.steps < steps {
            self.steps += 1;
            match recipe.step(client, self.steps) {
                ClientStep::Table(rows) => self.table = Some((self.steps, rows)),
                ClientStep::Rows(changes) => {
                    for (at, change) in changes.into_iter().enumerate() {
                        self.apply(at as u32, change);
                    }
                }
            }
        }
    }

    fn apply(&mut self, at: u32, change: RowChange) {
        match change {
            RowChange::Put { slot, bytes } => drop(self.rows.insert(slot, (self.steps, at, bytes))),
            RowChange::Delete { slot } => drop(self.rows.remove(&slot)),
            RowChange::Hot { row } => self.hot[usize::from(row)] += 1,
            RowChange::Spoil { .. } => {}
        }
    }

    /// Returns the digest that a life must report for this client.
    pub(super) fn digest(&self) -> ClientDigest {
        let mut digest =
            ClientDigest { steps: self.steps, table: self.table, hot: self.hot, rows: 0, sum: 0 };
        for (&slot, &(step, change, bytes)) in &self.rows {
            digest.add(slot, step, change, bytes);
        }
        digest
    }
}

/// A few numbers that summarise a client's rows. Two equal digests mean equal rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientDigest {
    pub(super) steps: u64,
    pub(super) table: Option<(u64, u32)>,
    pub(super) hot: [u64; HOT_ROWS],
    pub(super) rows: u64,
    pub(super) sum: u32,
}

impl ClientDigest {
    /// Adds a row.
    ///
    /// REQUIRES: rows are added in the order of their slots.
    pub(super) fn add(&mut self, slot: u16, step: u64, change: u32, bytes: u32) {
        let bytes = (bytes as usize).max(HEADER) as u32;
        let row = format!("{} {slot} {step} {change} {bytes}", self.sum);
        self.sum = crc32c(row.as_bytes());
        self.rows += 1;
    }

    /// Returns it as a line, which [`ClientDigest::parse`] reads.
    pub(super) fn to_line(&self) -> String {
        let hot: Vec<String> = self.hot.iter().map(u64::to_string).collect();
        let (made, rows) = self.table.unwrap_or_default();
        format!("{} {made} {rows} {} {} {}", self.steps, self.rows, self.sum, hot.join(" "))
    }

    pub(super) fn parse(line: &str) -> Option<ClientDigest> {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [steps, made, table_rows, rows, sum, hot @ ..] = &numbers[..] else { return None };
        Some(ClientDigest {
            steps: *steps,
            table: (*made > 0).then_some((*made, *table_rows as u32)),
            hot: hot.try_into().ok()?,
            rows: *rows,
            sum: u32::try_from(*sum).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_its_line_and_distinguishes_rows() {
        let recipe = Recipe { seed: 7 };
        let mut model = ClientModel::default();
        model.advance(recipe, 3, 2_000);
        let digest = model.digest();
        assert!(digest.rows > 0 && digest.table.is_some() && digest.hot.iter().all(|&n| n > 0));
        assert_eq!(ClientDigest::parse(&digest.to_line()), Some(digest.clone()));
        let mut in_two = ClientModel::default();
        in_two.advance(recipe, 3, 999);
        assert_ne!(in_two.digest(), digest);
        in_two.advance(recipe, 3, 2_000);
        assert_eq!(in_two.digest(), digest);
    }

    #[test]
    fn a_value_names_its_origin_and_detects_a_flipped_bit() {
        let origin = Origin { client: 1, slot: 2, step: 3, change: 4 };
        let mut value = Recipe { seed: 7 }.value(origin, 300);
        assert_eq!(Origin::of(&value), Some(origin));
        value[299] ^= 1;
        assert_eq!(Origin::of(&value), None);
    }
}
