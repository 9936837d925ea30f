//! The page writers: threads that write the dirty pages that the cleaner orders. While one of them
//! waits for the device, the next copies its batch, and the cleaner plans and moves the checkpoint.
//!
//! The cleaner orders numbers of pages, not pages: a writer chooses them when it begins a batch. So
//! an order is never out of date, and a page that became clean meanwhile is not asked for.

use super::roster::{Pause, Worker};
use super::{Cleaner, Shared};
use crate::error::Result;
use crate::flush::batch::BatchWritten;
use crate::flush::runs::BatchLimit;
use base::sync::Mutex;
use base::{Lsn, PageNo};
use metrics::Force;
use std::time::Duration;

/// Sleep of a writer without an order. The cleaner wakes it.
const NAP: Duration = Duration::from_millis(500);

/// An order to write the oldest dirty pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldestOrder {
    /// How many pages, with their neighbours.
    pub(super) pages: u64,
    /// A batch that is smaller than it could be waits so long for more orders, microseconds.
    pub(super) gather_us: u64,
    /// Why.
    pub(super) force: Force,
}

/// An order to write certain pages and to free their frames.
#[derive(Clone, Debug)]
pub(super) struct VictimsOrder {
    /// The pages.
    pub(super) pages: Vec<PageNo>,
    /// How many I/Os at most.
    pub(super) ios: u64,
    /// Frames are freed until so many are free in all.
    pub(super) free: usize,
}

/// Batches that were written since the cleaner looked.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// For the checkpoint.
    pub(super) oldest: Vec<BatchWritten>,
    /// For free frames.
    pub(super) victims: Vec<BatchWritten>,
}

/// What the writers have still to do.
#[derive(Debug, Default)]
struct Orders {
    /// Pages that are written first.
    named: Vec<PageNo>,
    /// Pages whose frames the pool is losing.
    leaving: Vec<PageNo>,
    /// The last batch was of them.
    left_last: bool,
    victims: Option<VictimsOrder>,
    oldest: Option<OldestOrder>,
    /// When the first of the orders came that are open in `oldest`.
    since_us: u64,
    /// Batches of the oldest pages that are being written.
    in_hand: u32,
    /// The last batch was for free frames.
    freed_last: bool,
    written: Written,
}

/// The orders of the cleaner.
#[derive(Debug, Default)]
pub(super) struct PageWriters {
    orders: Mutex<Orders>,
}

/// A part of the orders: one batch.
enum Part {
    Named(Vec<PageNo>),
    Leaving(Vec<PageNo>),
    Victims(VictimsOrder),
    Oldest(OldestOrder),
}

impl Orders {
    fn take_leaving(&mut self, most: u64) -> Part {
        self.left_last = true;
        let from = self.leaving.len().saturating_sub(most as usize);
        Part::Leaving(self.leaving.split_off(from))
    }

    /// Takes a batch for free frames or for the checkpoint.
    fn take_usual(&mut self, now_us: u64, most: u64) -> Option<Part> {
        let waited_us = now_us.saturating_sub(self.since_us);
        let is_ready =
            |left: &OldestOrder| left.pages >= if waited_us < left.gather_us { most / 2 } else { 1 };
        let ready = self.oldest.is_some_and(|left| is_ready(&left));
        // In turn, so that neither use starves: threads wait for frames, and the log must not fill.
        if !(self.freed_last && ready)
            && let Some(victims) = self.victims.take()
        {
            self.freed_last = true;
            return Some(Part::Victims(victims));
        }
        self.freed_last = false;
        let left = self.oldest.as_mut().filter(|_| ready)?;
        let part = OldestOrder { pages: left.pages.min(most), ..*left };
        left.pages -= part.pages;
        if left.pages == 0 {
            self.oldest = None;
        }
        self.since_us = now_us;
        self.in_hand += 1;
        Some(Part::Oldest(part))
    }
}

impl PageWriters {
    /// Orders more of the oldest pages. What is left of earlier orders stays, but no more than
    /// `most` pages are open at any time: a device that was slow for a while need not make up for
    /// it.
    pub(super) fn order_oldest(&self, now_us: u64, order: OldestOrder, most: u64) {
        let mut orders = self.orders.lock();
        let left = orders.oldest.take();
        if left.is_none() {
            orders.since_us = now_us;
        }
        orders.oldest = Some(OldestOrder {
            pages: (order.pages + left.map_or(0, |left| left.pages)).min(most.max(order.pages)),
            ..order
        });
    }

    /// Orders pages whose frames are needed, instead of those that were ordered before.
    pub(super) fn order_victims(&self, order: VictimsOrder) {
        self.orders.lock().victims = Some(order);
    }

    /// Orders certain pages, as many as fit into a batch, before all others.
    pub(super) fn order_named(&self, pages: Vec<PageNo>) {
        self.orders.lock().named = pages;
    }

    /// Orders pages whose frames the pool is losing, instead of those that were ordered before.
    pub(super) fn order_leaving(&self, pages: Vec<PageNo>) {
        self.orders.lock().leaving = pages;
    }

    /// Returns whether pages are ordered whose frames the pool is losing, and no writer has them.
    pub(super) fn has_leaving(&self) -> bool {
        !self.orders.lock().leaving.is_empty()
    }

    /// Takes what the next batch is to write, at most `most` pages. Nothing if it is worth to wait
    /// for more orders.
    fn take(&self, now_us: u64, most: u64) -> Option<Part> {
        let mut orders = self.orders.lock();
        if !orders.named.is_empty() {
            return Some(Part::Named(std::mem::take(&mut orders.named)));
        }
        // In turn with all others: a shrink of the pool can take many batches.
        if !orders.leaving.is_empty() && !orders.left_last {
            return Some(orders.take_leaving(most));
        }
        let other = orders.take_usual(now_us, most);
        if other.is_none() && !orders.leaving.is_empty() {
            return Some(orders.take_leaving(most));
        }
        orders.left_last = false;
        other
    }

    /// Notes a batch for free frames.
    fn note_victims(&self, written: BatchWritten) {
        self.orders.lock().written.victims.push(written);
    }

    /// Notes a batch of the oldest pages, and what it was asked for.
    fn note_oldest(&self, ordered: OldestOrder, written: BatchWritten) {
        let mut orders = self.orders.lock();
        orders.in_hand -= 1;
        orders.written.oldest.push(written);
        if written.pages == 0 {
            // None is left, or other threads have them in hand.
            orders.oldest = None;
        } else if let Some(left) = &mut orders.oldest {
            // Neighbours count, and some pages were latched.
            left.pages = (left.pages + ordered.pages).saturating_sub(written.pages);
        }
    }

    /// Returns whether some of the oldest pages that were ordered are not written yet.
    pub(super) fn is_writing_oldest(&self) -> bool {
        let orders = self.orders.lock();
        orders.oldest.is_some() || orders.in_hand > 0
    }

    /// Returns the batches that were written since the last call.
    pub(super) fn take_written(&self) -> Written {
        std::mem::take(&mut self.orders.lock().written)
    }
}

impl Shared {
    /// Writes one batch of what the cleaner ordered. Returns whether there was an order.
    pub(super) fn write_ordered(&self) -> Result<bool> {
        let pool = &self.store.pool;
        let most = self.flusher.batch_pages() as u64;
        let Some(part) = self.writers.take(self.clock.now_us(), most) else { return Ok(false) };
        match part {
            Part::Named(pages) => {
                self.flusher.flush(|_| pages, BatchLimit::NONE, Force::CheckpointAge)?;
            }
            Part::Leaving(pages) => {
                let written = self.flusher.flush(|_| pages, BatchLimit::NONE, Force::FreeFrames)?;
                self.writers.note_victims(written);
            }
            Part::Victims(VictimsOrder { pages, ios, free }) => {
                let limit = BatchLimit { pages: u64::MAX, ios };
                let written = self.flusher.flush(|_| pages.clone(), limit, Force::FreeFrames)?;
                pool.free_cleaned(&pages, free);
                self.writers.note_victims(written);
            }
            Part::Oldest(order) => {
                let limit = BatchLimit { pages: order.pages, ios: u64::MAX };
                let oldest = |most| pool.oldest_dirty(Lsn::MAX, most);
                let pages = |most| oldest(most).into_iter().map(|(page, _)| page).collect();
                let written = self.flusher.flush(pages, limit, order.force)?;
                self.writers.note_oldest(order, written);
            }
        }
        Ok(true)
    }

    /// One step of a writer.
    pub(super) fn writer_step(&self) -> Result<Pause> {
        if !self.write_ordered()? {
            return Ok(Pause::For(NAP));
        }
        Ok(Pause::None)
    }

    /// Wakes the writers. Without threads of its own the engine writes here.
    pub(super) fn call_writers(&self, c: &mut Cleaner) -> Result {
        if self.has_writers {
            Worker::WRITERS.into_iter().for_each(|writer| self.roster.wake(writer));
            return Ok(());
        }
        while self.write_ordered()? {
            self.learn(c);
            let now_us = self.clock.now_us();
            if !self.is_in_round() {
                self.move_checkpoint(c, now_us)?;
            }
            self.update_admission(c, now_us);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 100;
    const ORDER: OldestOrder = OldestOrder { pages: 0, gather_us: 20_000, force: Force::CheckpointAge };

    fn order(writers: &PageWriters, now_us: u64, pages: u64) {
        writers.order_oldest(now_us, OldestOrder { pages, ..ORDER }, 1000);
    }

    fn victims(writers: &PageWriters) {
        writers.order_victims(VictimsOrder { pages: vec![PageNo(1)], ios: 1, free: 1 });
    }

    /// Returns the pages of the next batch; 0 if it is for free frames.
    fn take(writers: &PageWriters, now_us: u64) -> Option<u64> {
        writers.take(now_us, MOST).map(|part| match part {
            Part::Named(_) | Part::Leaving(_) | Part::Victims(_) => 0,
            Part::Oldest(order) => order.pages,
        })
    }

    fn wrote(pages: u64) -> BatchWritten {
        BatchWritten { pages, ios: 1, took_us: 1 }
    }

    #[test]
    fn a_small_batch_waits_a_while_for_more_orders() {
        let writers = PageWriters::default();
        assert_eq!(take(&writers, 0), None);
        order(&writers, 1000, 20);
        assert_eq!(take(&writers, 1000), None);
        order(&writers, 2000, 29);
        assert_eq!(take(&writers, 20_999), None, "49 pages");
        assert_eq!(take(&writers, 21_000), Some(49), "20 ms after the first order");
        order(&writers, 22_000, 50);
        assert_eq!(take(&writers, 22_000), Some(50), "half a batch is enough");
        order(&writers, 23_000, 250);
        assert_eq!((take(&writers, 23_000), take(&writers, 23_001)), (Some(100), Some(100)));
        assert_eq!((take(&writers, 23_002), take(&writers, 43_001)), (Some(50), None));
    }

    #[test]
    fn what_a_batch_did_not_clean_is_ordered_still_and_neighbours_count() {
        let writers = PageWriters::default();
        let asked = OldestOrder { pages: 100, ..ORDER };
        order(&writers, 0, 250);
        assert_eq!(take(&writers, 0), Some(100));
        writers.note_oldest(asked, wrote(70));
        assert_eq!(take(&writers, 0), Some(100));
        writers.note_oldest(asked, wrote(140));
        assert_eq!(take(&writers, 20_000), Some(40));
        order(&writers, 20_000, 250);
        writers.note_oldest(asked, wrote(0));
        assert_eq!(take(&writers, 90_000), None, "no page is left");
        assert_eq!(writers.take_written().oldest, [wrote(70), wrote(140), wrote(0)]);
    }

    #[test]
    fn the_oldest_are_being_written_until_the_last_batch_is() {
        let writers = PageWriters::default();
        assert!(!writers.is_writing_oldest());
        victims(&writers);
        assert!(!writers.is_writing_oldest());
        assert_eq!(take(&writers, 0), Some(0));
        order(&writers, 0, 150);
        assert_eq!((take(&writers, 0), take(&writers, 20_000)), (Some(100), Some(50)));
        writers.note_oldest(OldestOrder { pages: 50, ..ORDER }, wrote(50));
        assert!(writers.is_writing_oldest(), "the first batch is still in hand");
        writers.note_oldest(OldestOrder { pages: 100, ..ORDER }, wrote(100));
        assert!(!writers.is_writing_oldest());
    }

    #[test]
    fn old_orders_do_not_pile_up() {
        let writers = PageWriters::default();
        (0..30).for_each(|n| order(&writers, n, 90));
        let all: u64 = std::iter::from_fn(|| take(&writers, 90_000)).sum();
        assert_eq!(all, 1000);
    }

    #[test]
    fn frames_and_the_checkpoint_are_served_in_turn() {
        let writers = PageWriters::default();
        order(&writers, 0, 300);
        let mut taken = Vec::new();
        for _ in 0..5 {
            victims(&writers);
            taken.push(take(&writers, 0).unwrap());
        }
        assert_eq!(taken, [0, 100, 0, 100, 0]);
        // A batch that waits for more orders does not hold up frames.
        assert_eq!(take(&writers, 0), Some(100));
        order(&writers, 0, 10);
        for _ in 0..3 {
            victims(&writers);
            assert_eq!(take(&writers, 1), Some(0));
        }
    }
}
