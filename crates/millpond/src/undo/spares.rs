//! Used streams, kept with their memory to be used again.
//!
//! A stream is created by the thread that writes and released by the thread that purges. If its
//! memory were freed there, the two would contend in the allocator a million times a second,
//! because memory goes back to the arena of the thread that allocated it. So streams are used
//! again. The purging thread collects them in batches, and a writer whose stripe is empty takes a
//! batch. The two threads contend only once in [`BATCH`] transactions.

use super::stream::Stream;
use base::Striped;
use base::sync::Mutex;
use std::sync::Arc;

/// Streams that are handed over together.
const BATCH: usize = 64;
/// The number of batches that are kept; more are freed. With the streams of the stripes and a chunk
/// of 512 bytes each, some 7 MiB at most.
const BATCHES_MAX: usize = 128;

/// The streams that can be used again.
#[derive(Debug, Default)]
pub(super) struct Spares {
    stripes: Striped<Mutex<Vec<Arc<Stream>>>>,
    batches: Mutex<Vec<Vec<Arc<Stream>>>>,
    gathered: Mutex<Vec<Arc<Stream>>>,
}

impl Spares {
    /// Returns a stream that no other thread has, if one is kept.
    pub(super) fn take(&self) -> Option<Arc<Stream>> {
        let mut stripe = self.stripes.own().lock();
        if stripe.is_empty() {
            *stripe = self.batches.lock().pop()?;
        }
        let stream = stripe.pop();
        if let Some(next) = stripe.last() {
            // The purging thread used it last. Its cache lines come over while this transaction
            // works.
            base::prefetch::to_write(std::slice::from_ref(&**next), usize::MAX);
        }
        stream
    }

    /// Keeps a stream for the caller's stripe, unless a reader still has it. Returns the memory
    /// that it counted for.
    pub(super) fn give_here(&self, mut stream: Arc<Stream>) -> u64 {
        let Some(own) = Arc::get_mut(&mut stream) else { return 0 };
        let counted = own.clear();
        let mut stripe = self.stripes.own().lock();
        if stripe.len() < 2 * BATCH {
            stripe.push(stream);
        }
        counted
    }

    /// Keeps streams for any thread, except those that a reader still has. Returns the memory that
    /// the kept ones counted for.
    pub(super) fn give(&self, streams: impl IntoIterator<Item = Arc<Stream>>) -> u64 {
        let mut counted = 0;
        let mut gathered = self.gathered.lock();
        for mut stream in streams {
            let Some(own) = Arc::get_mut(&mut stream) else { continue };
            counted += own.clear();
            gathered.push(stream);
            if gathered.len() == BATCH {
                let batch = std::mem::replace(&mut *gathered, Vec::with_capacity(BATCH));
                let mut batches = self.batches.lock();
                if batches.len() < BATCHES_MAX {
                    batches.push(batch);
                }
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TxnId;
    use base::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_stream_has_one_user_at_a_time_and_counts_only_while_it_is_used() {
        let memory = Arc::new(AtomicU64::new(0));
        let spares = Spares::default();
        assert!(spares.take().is_none());
        let fill = |stream: &Stream| {
            stream.append(crate::undo::UndoEntry::Insert { tree: base::TreeId(1), key: b"key" })
        };
        for id in 1..=2 * BATCH as u64 {
            let stream = Arc::new(Stream::new(TxnId(id), Arc::clone(&memory)));
            fill(&stream);
            let counted = if id % 2 == 0 { spares.give([stream]) } else { spares.give_here(stream) };
            memory.fetch_sub(counted, Ordering::Relaxed);
        }
        assert_eq!(memory.load(Ordering::Relaxed), 0, "spares do not count as undo");
        let mut used: Vec<Arc<Stream>> = std::iter::from_fn(|| spares.take()).collect();
        assert_eq!(used.len(), 2 * BATCH);
        for (n, stream) in used.iter_mut().enumerate() {
            Arc::get_mut(stream).expect("no one else has it").begin(TxnId(1000 + n as u64));
            assert!(stream.is_empty() && !stream.needs_purge() && stream.position().last.is_none());
            fill(stream);
        }
        let each = 512 + crate::undo::stream::STREAM_BYTES;
        assert_eq!(
            memory.load(Ordering::Relaxed),
            each * 2 * BATCH as u64,
            "and all of that is in use again"
        );
        let kept = used.pop().unwrap();
        assert_eq!(spares.give([Arc::clone(&kept)]), 0);
        assert!(spares.take().is_none(), "a reader still has it");
        // Its first record does not fit the chunk that it has. No empty chunk may remain before it.
        let long = &mut used[0];
        memory.fetch_sub(Arc::get_mut(long).unwrap().clear(), Ordering::Relaxed);
        Arc::get_mut(long).unwrap().begin(TxnId(1));
        long.append(crate::undo::UndoEntry::Insert { tree: base::TreeId(1), key: &[7; 600] });
        let chunks = long.unplaced(true, usize::MAX);
        assert_eq!((chunks.len(), chunks[0].bytes.len() as u64), (1, long.end()));
        drop((used, kept));
        assert_eq!(memory.load(Ordering::Relaxed), 0);
    }
}
