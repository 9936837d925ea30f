//! Moves undo from memory to files.

use super::journal::Journal;
use super::stream::{ChunkCopy, Stream};
use super::streams::Streams;
use crate::error::Result;
use std::sync::Arc;

/// Approximate bytes of chunks that are written at once.
const WRITE_BYTES: u64 = 4 << 20;

/// Writes chunks of streams in one batch. Returns how many bytes they are.
pub(crate) fn append(journal: &mut Journal, chunks: Vec<(&Arc<Stream>, Vec<ChunkCopy>)>) -> Result<u64> {
    let (mut owners, mut flat) = (Vec::new(), Vec::new());
    for (stream, chunks) in chunks {
        owners.resize(owners.len() + chunks.len(), stream);
        flat.extend(chunks);
    }
    let locations = journal.append(&flat)?;
    let mut written = 0;
    for ((stream, chunk), location) in owners.into_iter().zip(&flat).zip(locations) {
        stream.set_location(chunk.from, location);
        written += chunk.bytes.len() as u64;
    }
    Ok(written)
}

/// Moves the undo of the largest streams to files, their oldest chunks first, until `bytes` of
/// memory are free or no more undo can move. With `tail` the chunk that would take the next record
/// moves too. Returns how much memory was freed. `wrote` is told the bytes of each batch.
pub(crate) fn spill(
    streams: &Streams,
    journal: &mut Journal,
    bytes: u64,
    tail: bool,
    wrote: &mut dyn FnMut(u64),
) -> Result<u64> {
    let idle = |stream: Arc<Stream>| (stream.idle_bytes(tail), stream);
    let mut all: Vec<_> = streams.list().into_iter().map(idle).filter(|(idle, _)| *idle > 0).collect();
    all.sort_by_key(|(idle, stream)| (std::cmp::Reverse(*idle), stream.owner()));
    let mut freed = 0;
    for (_, stream) in all {
        while freed < bytes {
            let chunks = stream.unplaced(tail, WRITE_BYTES.min(bytes - freed) as usize);
            let written = append(journal, vec![(&stream, chunks)])?;
            wrote(written);
            let now = stream.forget(bytes - freed);
            freed += now;
            if now == 0 && written == 0 {
                break;
            }
        }
    }
    Ok(freed)
}
