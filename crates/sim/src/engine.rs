//! Opens, reads and closes databases of a workload's shape.

use crate::shape::{Copies, Shape};
use base::sync::{Parker, Unparker};
use millpond::sim::{Sizes, sized};
use millpond::{Db, Doublewrite, Isolation, Options, Result, Table, Transaction};
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use vfs::Vfs;

/// The directory of the database.
pub const DIR: &str = "/db";
/// Blocks of the log buffer; the fewest that hold two groups.
const RING_BLOCKS: usize = 64;
/// So small that the log of a tiny database has several replay windows.
const REPLAY_WINDOW_BYTES: usize = 6_000;
/// So short that there are lists of dirty pages.
const HEAD_BYTES: u64 = 12_000;
/// Longer than any wait that ends by itself, much shorter than a hang.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A waker that unparks a thread.
struct ThreadWaker(Unparker);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on the calling thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(ThreadWaker(parker.unparker())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        parker.park();
    }
}

/// Returns the options of a database of this shape.
pub(crate) fn options(vfs: &Vfs, shape: &Shape) -> Options {
    let mut options = Options::new()
        .page_bytes(shape.page_bytes)
        .lock_wait(LOCK_WAIT)
        .redo_capacity_bytes(shape.segments * shape.segment_blocks * 4096);
    if shape.history_memory > 0 {
        options = options.history_memory_bytes(shape.history_memory);
    }
    // Where pages may be lost, every second opening protects them again.
    let off = match shape.doublewrite {
        Copies::On => false,
        Copies::Missing => vfs.clock.random_u64().is_multiple_of(2),
        Copies::NotNeeded => true,
    };
    if off {
        options = options.doublewrite(Doublewrite::UnsafeOff);
    }
    if shape.history_files > 0 {
        options = options.history_disk_bytes(shape.history_files);
    }
    // In every second opening the checkpoint moves during replay.
    let seldom = vfs.clock.random_u64().is_multiple_of(2);
    let sizes = Sizes {
        frames: shape.frames,
        segment_blocks: shape.segment_blocks,
        ring_blocks: RING_BLOCKS,
        doublewrite_pages: shape.doublewrite_pages,
        grow_pages: shape.grow_pages,
        replay_window_bytes: REPLAY_WINDOW_BYTES,
        replay_checkpoint_us: if seldom { 3_000_000 } else { 0 },
        head_bytes: if vfs.clock.random_u64().is_multiple_of(4) { 64 << 20 } else { HEAD_BYTES },
    };
    sized(options, sizes)
}

/// Opens the database in [`DIR`] and recovers it; creates it if there is none.
///
/// # Errors
/// See [`Options::open`].
pub fn open(vfs: &Vfs, shape: &Shape) -> Result<Db> {
    millpond::sim::open(vfs, Path::new(DIR), &options(vfs, shape))
}

/// Closes a database. Panics if callers have written pages: rule Bp5, no order of steps may make
/// them.
///
/// # Errors
/// See [`Db::close`].
pub fn close(db: &Db) -> Result {
    db.close()?;
    let pages = db.metrics().get("pages_written_foreground");
    assert!(pages == Some(0.0), "callers' threads wrote {pages:?} pages");
    Ok(())
}

/// Rows in key order.
pub type RowList = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads all rows of a table. If the transaction's reads find the same rows again, an iterator must
/// show the same rows as the scan.
pub(crate) fn all_rows(tx: &Transaction, table: &Table, isolation: Isolation) -> Result<RowList> {
    let mut shown = RowList::new();
    let visit = |key: &[u8], value: &[u8]| {
        shown.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    tx.scan(table, .., visit)?;
    if isolation.repeats_reads() {
        let rows: RowList = tx.range(table, ..)?.collect::<Result<_>>()?;
        assert!(rows == shown, "a scan and a range show different rows");
    }
    Ok(shown)
}
