//! The unsynced part of one file: what was written, cut off or added since its last sync.
//!
//! The file's durable bytes are elsewhere ([`Durable`]); this is what lies over them. At a power
//! cut any part of it may have reached the disk: [`Unsynced::survivors`] chooses.

use base::prng::Prng;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// What reaches the disk as a whole or not at all, bytes.
pub(crate) const BLOCK: u64 = 4096;

/// The durable bytes of a file.
pub(crate) trait Durable {
    /// Fills `bytes` from `offset`. All of it lies below the durable length.
    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Errno>;
}

/// What is to be done to the durable bytes, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Cut the file off here.
    pub(crate) cut_off: Option<u64>,
    /// Then give it this length.
    pub(crate) len: u64,
    /// Then write these bytes, all below the length.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
}

/// What was not synced.
#[derive(Debug)]
pub(crate) struct Unsynced {
    /// Whole blocks by number. Their bytes behind the end of the file are zeros.
    blocks: BTreeMap<u64, Box<[u8]>>,
    len: u64,
    durable_len: u64,
    /// The file has been no longer than this for a moment since its sync: behind it, no durable
    /// byte counts.
    shortest: u64,
}

impl Unsynced {
    /// A file that is synced.
    pub(crate) fn new(len: u64) -> Unsynced {
        Unsynced { blocks: BTreeMap::new(), len, durable_len: len, shortest: len }
    }

    /// Returns the length that programs see.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns how many blocks are in memory.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns how many bytes are in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks() * BLOCK
    }

    /// Reads up to `len` bytes: fewer at the end of the file.
    pub(crate) fn read(&self, durable: &dyn Durable, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let end = offset.saturating_add(len).min(self.len);
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        let old_end = end.min(self.shortest);
        if offset < old_end {
            durable.read(&mut out[..(old_end - offset) as usize], offset)?;
        }
        if out.is_empty() {
            return Ok(out);
        }
        for (&number, block) in self.blocks.range(offset / BLOCK..=(end - 1) / BLOCK) {
            let (from, to) = (offset.max(number * BLOCK), end.min((number + 1) * BLOCK));
            let part = &block[(from - number * BLOCK) as usize..(to - number * BLOCK) as usize];
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        Ok(out)
    }

    /// Writes bytes, behind the end too.
    pub(crate) fn write(&mut self, durable: &dyn Durable, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        let mut at = offset;
        while at < end {
            let number = at / BLOCK;
            let to = end.min((number + 1) * BLOCK);
            let part = &bytes[(at - offset) as usize..(to - offset) as usize];
            let within = (at - number * BLOCK) as usize;
            self.block(durable, number)?[within..within + part.len()].copy_from_slice(part);
            at = to;
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// Returns a block that can be written.
    fn block(&mut self, durable: &dyn Durable, number: u64) -> Result<&mut [u8], Errno> {
        if !self.blocks.contains_key(&number) {
            let mut block = self.read(durable, number * BLOCK, BLOCK)?;
            block.resize(BLOCK as usize, 0);
            self.blocks.insert(number, block.into_boxed_slice());
        }
        self.blocks.get_mut(&number).map(|block| &mut block[..]).ok_or(Errno::IO)
    }

    /// Cuts the file off, or adds zeros.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            drop(self.blocks.split_off(&len.div_ceil(BLOCK)));
            if let Some(last) = self.blocks.get_mut(&(len / BLOCK)) {
                last[(len % BLOCK) as usize..].fill(0);
            }
            self.shortest = self.shortest.min(len);
        }
        self.len = len;
    }

    /// Writes zeros, not behind the end.
    pub(crate) fn clear(&mut self, durable: &dyn Durable, offset: u64, len: u64) -> Result<(), Errno> {
        let end = offset.saturating_add(len).min(self.len);
        let mut at = offset;
        while at < end {
            let to = end.min((at / BLOCK + 1) * BLOCK);
            self.write(durable, at, &vec![0; (to - at) as usize])?;
            at = to;
        }
        Ok(())
    }

    /// Returns all of it, and has nothing from then on: a sync.
    pub(crate) fn take(&mut self) -> Changes {
        let cut_off = (self.shortest < self.durable_len).then_some(self.shortest);
        let blocks = std::mem::take(&mut self.blocks);
        let changes = Changes { cut_off, len: self.len, writes: below(self.len, blocks.into_iter()) };
        *self = Unsynced::new(self.len);
        changes
    }

    /// Returns what a power cut leaves of it.
    ///
    /// Each block is there or not. A file that was cut off is so or not; if not, nothing that was
    /// written behind that point is there, for its blocks belong to the shorter file. A file that
    /// got longer has any length up to the last one.
    pub(crate) fn survivors(&self, rng: &mut Prng) -> Changes {
        let was_cut_off = self.shortest < self.durable_len;
        let reached = !was_cut_off || rng.one_in(2);
        let (cut_off, len, writable) = match reached {
            true => {
                let len = length_between(self.shortest, self.len, rng);
                (was_cut_off.then_some(self.shortest), len, len)
            }
            // Of the last block before that point, the rest of the old file is a part.
            false => (None, self.durable_len, self.shortest / BLOCK * BLOCK),
        };
        // Of some files all is lost or kept, of others a part.
        let percent = 25 * rng.below(5);
        let blocks = self.blocks.iter().filter(|_| rng.percent(percent));
        let blocks = blocks.map(|(&number, block)| (number, block.clone()));
        Changes { cut_off, len, writes: below(writable, blocks) }
    }
}

/// Returns the bytes of blocks below `len`, with their offsets.
fn below(len: u64, blocks: impl Iterator<Item = (u64, Box<[u8]>)>) -> Vec<(u64, Vec<u8>)> {
    let blocks = blocks.filter(|&(number, _)| number * BLOCK < len);
    let bytes = blocks.map(|(number, block)| {
        let mut bytes = block.into_vec();
        bytes.truncate((len - number * BLOCK).min(BLOCK) as usize);
        (number * BLOCK, bytes)
    });
    bytes.collect()
}

/// Returns one of the lengths of a file that grew.
fn length_between(from: u64, to: u64, rng: &mut Prng) -> u64 {
    match rng.below(3) {
        _ if to <= from => to,
        0 => from,
        1 => to,
        _ => from.max(rng.between(from, to) / BLOCK * BLOCK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Durable for Vec<u8> {
        fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
            bytes.copy_from_slice(&self[offset as usize..offset as usize + bytes.len()]);
            Ok(())
        }
    }

    fn apply(file: &mut Vec<u8>, changes: Changes) {
        if let Some(len) = changes.cut_off {
            file.truncate(len as usize);
        }
        file.resize(changes.len as usize, 0);
        for (offset, bytes) in changes.writes {
            file[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Does something to a file and to its twin that nothing lies over.
    fn step(rng: &mut Prng, durable: &Vec<u8>, unsynced: &mut Unsynced, twin: &mut Vec<u8>) {
        let (at, len) = (rng.below(5 * BLOCK), rng.below(2 * BLOCK) as usize);
        match rng.below(4) {
            0 => {
                twin.resize(at as usize, 0);
                unsynced.set_len(at);
            }
            1 => {
                let end = twin.len().min(at as usize + len);
                twin.get_mut(at as usize..end).into_iter().for_each(|part| part.fill(0));
                unsynced.clear(durable, at, len as u64).unwrap();
            }
            _ => {
                let bytes = vec![1 + rng.below(255) as u8; len];
                twin.resize(twin.len().max(at as usize + len), 0);
                twin[at as usize..at as usize + len].copy_from_slice(&bytes);
                unsynced.write(durable, at, &bytes).unwrap();
            }
        }
    }

    #[test]
    fn programs_see_all_that_was_done_and_a_sync_makes_it_durable() {
        let mut rng = Prng::new(1);
        let (mut durable, mut twin) = (Vec::new(), Vec::new());
        let mut unsynced = Unsynced::new(0);
        for turn in 0..3_000 {
            step(&mut rng, &durable, &mut unsynced, &mut twin);
            assert_eq!(unsynced.read(&durable, 0, u64::MAX).unwrap(), twin, "turn {turn}");
            let (at, len) = (rng.below(6 * BLOCK), rng.below(3 * BLOCK));
            let end = twin.len().min((at + len) as usize);
            let part = twin.get(at as usize..end).unwrap_or(&[]);
            assert_eq!(unsynced.read(&durable, at, len).unwrap(), part, "turn {turn}");
            if rng.one_in(4) {
                apply(&mut durable, unsynced.take());
                assert_eq!(durable, twin, "turn {turn}");
                assert_eq!(unsynced.bytes(), 0);
            }
        }
    }

    #[test]
    fn after_a_sync_a_cut_changes_nothing() {
        let mut rng = Prng::new(2);
        let mut unsynced = Unsynced::new(0);
        let mut durable = Vec::new();
        unsynced.write(&durable, 100, &[7; 9_000]).unwrap();
        apply(&mut durable, unsynced.take());
        let before = durable.clone();
        (0..100).for_each(|_| apply(&mut durable, unsynced.survivors(&mut rng)));
        assert_eq!(durable, before);
    }

    #[test]
    fn each_block_is_kept_or_lost_and_all_combinations_happen() {
        let mut rng = Prng::new(3);
        let durable = vec![1; 3 * BLOCK as usize];
        let mut unsynced = Unsynced::new(3 * BLOCK);
        unsynced.write(&durable, 0, &[2; 3 * BLOCK as usize]).unwrap();
        let mut seen = [false; 8];
        for _ in 0..1_000 {
            let mut file = durable.clone();
            apply(&mut file, unsynced.survivors(&mut rng));
            let blocks = file.chunks(BLOCK as usize).map(|block| {
                assert!(block.iter().all(|&byte| byte == block[0]), "a block is whole");
                usize::from(block[0] == 2)
            });
            seen[blocks.fold(0, |bits, kept| bits << 1 | kept)] = true;
        }
        assert_eq!(seen, [true; 8]);
    }

    #[test]
    fn a_file_that_was_cut_off_is_the_old_one_or_the_shorter_one() {
        let mut rng = Prng::new(4);
        let durable = vec![1; 3 * BLOCK as usize];
        let (mut old, mut shorter) = (0, 0);
        for _ in 0..200 {
            let mut unsynced = Unsynced::new(3 * BLOCK);
            unsynced.set_len(BLOCK);
            unsynced.write(&durable, 2 * BLOCK, &[2; BLOCK as usize]).unwrap();
            let mut file = durable.clone();
            apply(&mut file, unsynced.survivors(&mut rng));
            if file == durable {
                old += 1;
            } else {
                shorter += 1;
                assert!(file[BLOCK as usize..].iter().all(|&byte| byte != 1), "old bytes came back");
            }
        }
        assert!(old > 20 && shorter > 20, "{old} and {shorter}");
    }
}
