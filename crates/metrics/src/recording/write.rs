//! Writing: which bytes a sample becomes, and where they go.

use super::cells::{Schema, flatten};
use super::delta;
use super::layout::{
    CHUNK_BYTES, CHUNK_HEAD_BYTES, HEAD_BYTES, Head, Kind, Records, chunk_head, chunk_number, push_record,
};
use crate::snapshot::Snapshot;
use base::codec::Put;

/// When a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds of a clock that never goes back.
    pub clock_us: u64,
    /// Seconds since 1970.
    pub unix_seconds: u64,
}

/// Bytes that go to one place of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they go, from the recording's beginning.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The sample before.
#[derive(Debug)]
struct Before {
    cells: Vec<u64>,
    clock_us: u64,
}

/// The end of a recording, where samples are appended. A writer is one session: what it appends
/// first begins a new one.
#[derive(Debug)]
pub struct Writer {
    db_id: u64,
    chunks: u32,
    /// The number of the present chunk, 0 before the first; where its next record goes; that
    /// record's number.
    chunk: u64,
    at: usize,
    index: u32,
    before: Option<Before>,
    /// Memory to be used again.
    cells: Vec<u64>,
}

impl Writer {
    /// Returns the length of a recording when all its chunks are in use, bytes.
    #[must_use]
    pub fn length(chunks: u32) -> u64 {
        place(u64::from(chunks))
    }

    /// Returns the head of a new recording, and its writer.
    #[must_use]
    pub fn create(db_id: u64, chunks: u32) -> (Vec<u8>, Writer) {
        let head = Head { chunks, db_id, schema: Schema::own().text() };
        (head.encode(), Writer::new(db_id, chunks, 0, (CHUNK_BYTES, 0)))
    }

    /// Returns the writer that continues a recording. `read` reads a part of it, offset and length
    /// given, and returns fewer bytes where it ends. Returns `None` if the recording cannot be
    /// continued: it is damaged, or of another database or version.
    pub fn resume(db_id: u64, mut read: impl FnMut(u64, usize) -> Vec<u8>) -> Option<Writer> {
        let head = Head::decode(&read(0, HEAD_BYTES))?;
        if head.db_id != db_id || head.schema != Schema::own().text() {
            return None;
        }
        let chunks = u64::from(head.chunks);
        let numbers = (0..chunks).filter_map(|slot| {
            let number = chunk_number(db_id, &read(place(slot), CHUNK_HEAD_BYTES))?;
            // A chunk in the place of another one is damage.
            (number % chunks == slot).then_some(number)
        });
        let Some(number) = numbers.max() else {
            return Some(Writer::new(db_id, head.chunks, 0, (CHUNK_BYTES, 0)));
        };
        let bytes = read(place(number % chunks), CHUNK_BYTES);
        let mut records = Records::new(number, &bytes);
        records.by_ref().for_each(drop);
        Some(Writer::new(db_id, head.chunks, number, records.position()))
    }

    fn new(db_id: u64, chunks: u32, chunk: u64, (at, index): (usize, u32)) -> Writer {
        Writer { db_id, chunks, chunk, at, index, before: None, cells: Vec::new() }
    }

    /// Appends a sample. REQUIRES: the piece before has been written; after a failure the recording
    /// is [resumed](Writer::resume).
    #[must_use]
    pub fn sample(&mut self, when: Moment, snapshot: &Snapshot) -> Piece {
        let mut now = std::mem::take(&mut self.cells);
        flatten(snapshot, &mut now);
        let changes = self.before.as_ref().map(|before| {
            let mut content = Vec::new();
            content.put_u8(Kind::Sample as u8);
            content.put_varint(when.clock_us.saturating_sub(before.clock_us));
            delta::encode(&before.cells, &now, &mut content);
            vec![content]
        });
        let contents = changes.unwrap_or_else(|| whole(Kind::Session, when, &now));
        let piece = self.append(&contents).unwrap_or_else(|| {
            let kind = if self.before.is_some() { Kind::Continued } else { Kind::Session };
            self.chunk += 1;
            (self.at, self.index) = (0, 0);
            let mut piece = Piece { offset: self.offset(), bytes: chunk_head(self.db_id, self.chunk) };
            self.at = piece.bytes.len();
            // A sample of which every cell has changed by the most does not fit. That cannot be.
            if let Some(records) = self.append(&whole(kind, when, &now)) {
                piece.bytes.extend(records.bytes);
            }
            piece
        });
        let before = self.before.replace(Before { cells: now, clock_us: when.clock_us });
        self.cells = before.map(|before| before.cells).unwrap_or_default();
        piece
    }

    /// Appends records to the present chunk; `None` if they do not fit.
    fn append(&mut self, contents: &[Vec<u8>]) -> Option<Piece> {
        let mut bytes = Vec::new();
        for (content, index) in contents.iter().zip(self.index..) {
            push_record(self.chunk, index, content, &mut bytes);
        }
        let offset = self.offset();
        if self.at + bytes.len() > CHUNK_BYTES {
            return None;
        }
        self.at += bytes.len();
        self.index += contents.len() as u32;
        Some(Piece { offset, bytes })
    }

    /// Returns where the next record goes.
    fn offset(&self) -> u64 {
        place(self.chunk % u64::from(self.chunks)) + self.at as u64
    }
}

/// Returns where a chunk begins.
fn place(slot: u64) -> u64 {
    (HEAD_BYTES as u64) + slot * CHUNK_BYTES as u64
}

/// Returns a sample that refers to no other, and before it the time from which later ones count.
fn whole(kind: Kind, when: Moment, cells: &[u64]) -> Vec<Vec<u8>> {
    let mut start = Vec::new();
    start.put_u8(kind as u8);
    start.put_u64(when.unix_seconds);
    start.put_u64(when.clock_us);
    let mut sample = Vec::new();
    sample.put_u8(Kind::Sample as u8);
    sample.put_varint(0);
    delta::encode(&vec![0; cells.len()], cells, &mut sample);
    vec![start, sample]
}
