//! The history thread: moves undo to files when memory is short, and gives freed memory back to the
//! system.

use super::roster::Pause;
use crate::error::Result;
use crate::tree_store::Store;
use crate::txn::Txns;
use base::sync::Mutex;
use metrics::M;
use pace::heap_trim::HeapTrim;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// Sleep of the thread, unless another thread wakes it.
pub(super) const NAP: Duration = Duration::from_millis(50);
/// Its first sleep after it has moved undo. Writers that have filled memory before will fill more,
/// and what it moves in small portions is still in the processor's caches.
const NAP_BUSY: Duration = Duration::from_millis(2);
const _: () = assert!(NAP_BUSY.as_millis() < NAP.as_millis());

/// What the history thread works on.
pub(super) struct HistoryKeeping {
    store: Arc<Store>,
    txns: Arc<Txns>,
    clock: Arc<dyn Clock>,
    /// When memory goes back to the system; none if the heap is a host's. Only this thread uses it.
    heap_trim: Option<Mutex<HeapTrim>>,
}

impl HistoryKeeping {
    pub(super) fn new(
        store: &Arc<Store>,
        txns: &Arc<Txns>,
        clock: &Arc<dyn Clock>,
        heap_trim: Option<HeapTrim>,
    ) -> HistoryKeeping {
        HistoryKeeping {
            store: Arc::clone(store),
            txns: Arc::clone(txns),
            clock: Arc::clone(clock),
            heap_trim: heap_trim.map(Mutex::new),
        }
    }

    /// Does one step. `nap` is the next sleep.
    pub(super) fn step(&self, nap: &mut Duration) -> Result<Pause> {
        self.heap_trim.iter().for_each(|heap| self.trim_heap(heap));
        if self.txns.history_keeper().step()? {
            *nap = NAP_BUSY;
            return Ok(Pause::None);
        }
        let pause = Pause::For(*nap);
        *nap = (2 * *nap).min(NAP);
        Ok(pause)
    }

    /// Gives freed memory back to the system if [`pace::heap_trim`] says so. The history thread
    /// does this: while memory goes back no writer waits for it, because a writer that finds too
    /// much undo moves it itself.
    fn trim_heap(&self, heap: &Mutex<HeapTrim>) {
        let in_use = self.txns.history_keeper().past();
        let in_use_bytes = in_use.undo + in_use.status + in_use.locks;
        let now_us = self.clock.now_us();
        let due = heap.lock().sample(now_us, in_use_bytes, in_use.budget).is_some();
        if due && self.clock.give_memory_back() {
            let metrics = &self.store.metrics;
            metrics.add(M::HeapTrims, 1);
            metrics.add(M::HeapTrimUsTotal, self.clock.now_us().saturating_sub(now_us));
        }
    }

    /// Returns the most memory that was in use at the same time since memory was given back, bytes.
    #[cfg(test)]
    pub(super) fn heap_kept(&self) -> u64 {
        self.heap_trim.as_ref().map_or(0, |heap| heap.lock().kept())
    }
}
