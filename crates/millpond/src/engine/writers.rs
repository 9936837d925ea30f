//! The page writers: threads that write the dirty pages that the cleaner
//! [orders](super::page_orders). While one of them waits for the device, the next copies its batch,
//! and the cleaner plans and moves the checkpoint.

use super::page_orders::{PageOrders, Part, VictimsOrder};
use super::roster::Pause;
use crate::error::Result;
use crate::flush::batch::Flusher;
use crate::flush::runs::BatchLimit;
use crate::tree_store::Store;
use base::sync::{Unparker, spin};
use base::{Lsn, PageNo};
use metrics::Force;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// Sleep of a writer without an order. The cleaner wakes it.
const NAP: Duration = Duration::from_millis(500);

/// The page writers.
pub(super) struct PageWriters {
    pub(super) orders: PageOrders,
    flusher: Arc<Flusher>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// Their threads. None in tests that take the steps of the writers themselves.
    threads: Vec<Unparker>,
}

impl PageWriters {
    pub(super) fn new(
        flusher: &Arc<Flusher>,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        threads: Vec<Unparker>,
    ) -> PageWriters {
        PageWriters {
            orders: PageOrders::default(),
            flusher: Arc::clone(flusher),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            threads,
        }
    }

    /// Returns how many pages a batch may have.
    pub(super) fn batch_pages(&self) -> usize {
        self.flusher.batch_pages()
    }

    /// Writes one batch of what the cleaner ordered. Returns whether there was an order.
    pub(super) fn write_ordered(&self) -> Result<bool> {
        let (pool, flusher) = (&self.store.pool, &self.flusher);
        let most = flusher.batch_pages() as u64;
        let Some(part) = self.orders.take(self.clock.now_us(), most) else { return Ok(false) };
        match part {
            Part::Named(pages) => {
                flusher.flush(|_| pages, BatchLimit::NONE, Force::CheckpointAge)?;
            }
            Part::Leaving(pages) => {
                let written = flusher.flush(|_| pages, BatchLimit::NONE, Force::FreeFrames)?;
                self.orders.note_victims(written);
            }
            Part::Victims(VictimsOrder { pages, ios, free }) => {
                let limit = BatchLimit { pages: u64::MAX, ios };
                let written = flusher.flush(|_| pages.clone(), limit, Force::FreeFrames)?;
                pool.free_cleaned(&pages, free);
                self.orders.note_victims(written);
            }
            Part::Oldest(order) => {
                let limit = BatchLimit { pages: order.pages, ios: u64::MAX };
                let oldest = |most| pool.oldest_dirty(Lsn::MAX, most);
                let pages = |most| oldest(most).into_iter().map(|(page, _)| page).collect();
                let written = flusher.flush(pages, limit, order.force)?;
                self.orders.note_oldest(order, written);
            }
        }
        Ok(true)
    }

    /// One step of a writer.
    pub(super) fn step(&self) -> Result<Pause> {
        Ok(if self.write_ordered()? { Pause::None } else { Pause::For(NAP) })
    }

    /// Wakes the writers. Returns false if they have no threads: then the caller writes.
    pub(super) fn wake(&self) -> bool {
        self.threads.iter().for_each(Unparker::unpark);
        !self.threads.is_empty()
    }

    /// Orders the dirty pages of the space map. Opening reads all of the map, and each page of it
    /// changes with every extent that is given out: without this it would lack thousands of
    /// changes, each at another place of the log.
    pub(super) fn order_map(&self) {
        let pool = &self.store.pool;
        let mut pages = self.store.space.map_pages();
        pages.retain(|page| pool.wants_flush(*page));
        if pages.is_empty() {
            return;
        }
        self.orders.order_named(pages);
        if let Some(one) = self.threads.first() {
            one.unpark();
        }
    }

    /// Has pages written whose frames are to go.
    pub(super) fn write_leaving(&self, pages: Vec<PageNo>) -> Result {
        self.orders.order_leaving(pages);
        if !self.wake() {
            while self.write_ordered()? {}
        }
        Ok(())
    }

    /// Writes every page that is dirty now, in batches. Each of them may be written by this thread
    /// or by a writer.
    pub(super) fn drain(&self, force: Force) -> Result {
        let pool = &self.store.pool;
        let up_to = self.store.log.reserved_lsn();
        let oldest = |most| pool.oldest_dirty(up_to, most);
        let pages = |most| oldest(most).into_iter().map(|(page, _)| page).collect();
        let mut spins = 0;
        while pool.min_first_dirty().is_some_and(|first| first < up_to) {
            if oldest(1).is_empty() {
                // A page that was changed again while it is being written is dirty again then.
                self.flusher.wait_for_copies(up_to)?;
            } else if self.flusher.flush(pages, BatchLimit::NONE, force)?.pages == 0 {
                // Other threads have latched all of them for a moment.
                spin(&mut spins);
            }
        }
        Ok(())
    }
}
