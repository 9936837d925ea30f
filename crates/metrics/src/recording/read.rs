//! Reading a recording, also one that is being written or was cut off.

use super::cells::{Schema, Translation};
use super::delta;
use super::layout::{CHUNK_BYTES, HEAD_BYTES, Head, Kind, Records, chunk_number, is_of_another_version};
use crate::snapshot::Snapshot;
use base::codec::Reader;
use std::fmt;

/// Why bytes are no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They never were one, or their head is damaged.
    Damaged,
    /// The format is that of another version.
    OtherVersion,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreadable::Damaged => "it is no recording of metrics, or its head is damaged",
            Unreadable::OtherVersion => "is a recording of metrics by another version of this program",
        })
    }
}

impl std::error::Error for Unreadable {}

/// A recording in memory.
#[derive(Clone, Debug)]
pub struct Recording {
    bytes: Vec<u8>,
    db_id: u64,
    cells: usize,
    translation: Translation,
    /// Number and place of each chunk, oldest first.
    chunks: Vec<(u64, usize)>,
}

/// All metrics at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Microseconds since 1970, from the time of day when its session or its chunk began. So it is
    /// exact to a second, and the distance of two samples to a microsecond.
    pub unix_us: u64,
    /// How many sessions of the recording began before it. Counters begin again with each: the
    /// database was opened.
    pub session: u64,
    /// Whether samples between this one and the one before are lost: a chunk is damaged.
    pub after_gap: bool,
    /// The metrics.
    pub metrics: Snapshot,
}

impl Recording {
    /// Reads a recording. A damaged chunk costs its samples from the damage on.
    pub fn new(bytes: Vec<u8>) -> Result<Recording, Unreadable> {
        if is_of_another_version(&bytes) {
            return Err(Unreadable::OtherVersion);
        }
        let head = Head::decode(&bytes).ok_or(Unreadable::Damaged)?;
        let schema = Schema::parse(&head.schema).ok_or(Unreadable::Damaged)?;
        let places = (0..head.chunks as usize).map(|slot| HEAD_BYTES + slot * CHUNK_BYTES);
        let mut chunks: Vec<(u64, usize)> = places
            .filter_map(|at| Some((chunk_number(head.db_id, bytes.get(at..)?)?, at)))
            .filter(|&(number, at)| {
                HEAD_BYTES + (number % u64::from(head.chunks)) as usize * CHUNK_BYTES == at
            })
            .collect();
        chunks.sort_unstable();
        Ok(Recording {
            db_id: head.db_id,
            cells: schema.cells(),
            translation: Translation::new(&schema),
            chunks,
            bytes,
        })
    }

    /// Returns the id of the database.
    #[must_use]
    pub fn db_id(&self) -> u64 {
        self.db_id
    }

    /// Returns the names of this program's figures that the recording does not have, because
    /// another version made it. They are 0 in its samples.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.translation.missing
    }

    /// Returns the samples, oldest first.
    #[must_use]
    pub fn samples(&self) -> Samples<'_> {
        self.samples_of(&self.chunks)
    }

    /// Returns the newest samples, oldest first, without decoding the hours before them: those of
    /// the two newest chunks. Their sessions are counted from there.
    #[must_use]
    pub fn newest_samples(&self) -> Samples<'_> {
        self.samples_of(&self.chunks[self.chunks.len().saturating_sub(2)..])
    }

    fn samples_of<'r>(&'r self, chunks: &'r [(u64, usize)]) -> Samples<'r> {
        Samples {
            recording: self,
            chunks: chunks.iter(),
            records: None,
            last_chunk: None,
            cells: vec![0; self.cells],
            base: None,
            session: None,
            gap: false,
        }
    }
}

/// The samples of a recording, oldest first.
#[derive(Debug)]
pub struct Samples<'r> {
    recording: &'r Recording,
    chunks: std::slice::Iter<'r, (u64, usize)>,
    records: Option<Records<'r>>,
    last_chunk: Option<u64>,
    cells: Vec<u64>,
    /// The moment of the last record, microseconds since 1970.
    base: Option<u64>,
    session: Option<u64>,
    gap: bool,
}

impl Samples<'_> {
    /// Begins the next chunk. Returns whether there is one.
    fn next_chunk(&mut self) -> bool {
        let Some(&(number, at)) = self.chunks.next() else { return false };
        self.gap |= self.last_chunk.is_some_and(|last| last + 1 != number);
        self.last_chunk = Some(number);
        let bytes = &self.recording.bytes[at..];
        self.records = Some(Records::new(number, &bytes[..bytes.len().min(CHUNK_BYTES)]));
        // A chunk begins with a whole sample.
        self.base = None;
        true
    }

    /// Takes over a record; returns whether it was a sample. `None` if it makes no sense.
    fn take(&mut self, content: &[u8]) -> Option<bool> {
        let mut reader = Reader::new(content);
        match Kind::of(reader.u8().ok()?)? {
            Kind::Sample => {
                let base = self.base?;
                self.base = Some(base.saturating_add(reader.varint().ok()?));
                delta::apply(&mut self.cells, &mut reader)?;
                return Some(true);
            }
            Kind::Session => self.session = Some(self.session.map_or(0, |session| session + 1)),
            Kind::Continued => self.session = self.session.or(Some(0)),
        }
        self.cells.fill(0);
        self.base = Some(reader.u64().ok()?.saturating_mul(1_000_000));
        Some(false)
    }
}

impl Iterator for Samples<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        loop {
            let Some(content) = self.records.as_mut().and_then(Iterator::next) else {
                if !self.next_chunk() {
                    return None;
                }
                continue;
            };
            match self.take(content) {
                Some(true) => {
                    return Some(Sample {
                        unix_us: self.base.unwrap_or_default(),
                        session: self.session.unwrap_or_default(),
                        after_gap: std::mem::take(&mut self.gap),
                        metrics: self.recording.translation.snapshot(&self.cells),
                    });
                }
                Some(false) => {}
                None => {
                    self.records = None;
                    self.gap = true;
                }
            }
        }
    }
}
