//! What the page writers have still to write. The cleaner orders numbers of pages, not pages: a
//! writer chooses them when it begins a batch. So an order is never out of date, and a page that
//! became clean meanwhile is not asked for.

use crate::flush::batch::BatchWritten;
use base::PageNo;
use base::sync::Mutex;
use metrics::Force;

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
pub(super) struct PageOrders {
    orders: Mutex<Orders>,
}

/// A part of the orders: one batch.
pub(super) enum Part {
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

impl PageOrders {
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
    pub(super) fn take(&self, now_us: u64, most: u64) -> Option<Part> {
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
    pub(super) fn note_victims(&self, written: BatchWritten) {
        self.orders.lock().written.victims.push(written);
    }

    /// Notes a batch of the oldest pages, and what it was asked for.
    pub(super) fn note_oldest(&self, ordered: OldestOrder, written: BatchWritten) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 100;
    const ORDER: OldestOrder = OldestOrder { pages: 0, gather_us: 20_000, force: Force::CheckpointAge };

    fn order(orders: &PageOrders, now_us: u64, pages: u64) {
        orders.order_oldest(now_us, OldestOrder { pages, ..ORDER }, 1000);
    }

    fn victims(orders: &PageOrders) {
        orders.order_victims(VictimsOrder { pages: vec![PageNo(1)], ios: 1, free: 1 });
    }

    /// Returns the pages of the next batch; 0 if it is for free frames.
    fn take(orders: &PageOrders, now_us: u64) -> Option<u64> {
        orders.take(now_us, MOST).map(|part| match part {
            Part::Named(_) | Part::Leaving(_) | Part::Victims(_) => 0,
            Part::Oldest(order) => order.pages,
        })
    }

    fn wrote(pages: u64) -> BatchWritten {
        BatchWritten { pages, ios: 1, took_us: 1 }
    }

    #[test]
    fn a_small_batch_waits_a_while_for_more_orders() {
        let orders = PageOrders::default();
        assert_eq!(take(&orders, 0), None);
        order(&orders, 1000, 20);
        assert_eq!(take(&orders, 1000), None);
        order(&orders, 2000, 29);
        assert_eq!(take(&orders, 20_999), None, "49 pages");
        assert_eq!(take(&orders, 21_000), Some(49), "20 ms after the first order");
        order(&orders, 22_000, 50);
        assert_eq!(take(&orders, 22_000), Some(50), "half a batch is enough");
        order(&orders, 23_000, 250);
        assert_eq!((take(&orders, 23_000), take(&orders, 23_001)), (Some(100), Some(100)));
        assert_eq!((take(&orders, 23_002), take(&orders, 43_001)), (Some(50), None));
    }

    #[test]
    fn what_a_batch_did_not_clean_is_ordered_still_and_neighbours_count() {
        let orders = PageOrders::default();
        let asked = OldestOrder { pages: 100, ..ORDER };
        order(&orders, 0, 250);
        assert_eq!(take(&orders, 0), Some(100));
        orders.note_oldest(asked, wrote(70));
        assert_eq!(take(&orders, 0), Some(100));
        orders.note_oldest(asked, wrote(140));
        assert_eq!(take(&orders, 20_000), Some(40));
        order(&orders, 20_000, 250);
        orders.note_oldest(asked, wrote(0));
        assert_eq!(take(&orders, 90_000), None, "no page is left");
        assert_eq!(orders.take_written().oldest, [wrote(70), wrote(140), wrote(0)]);
    }

    #[test]
    fn the_oldest_are_being_written_until_the_last_batch_is() {
        let orders = PageOrders::default();
        assert!(!orders.is_writing_oldest());
        victims(&orders);
        assert!(!orders.is_writing_oldest());
        assert_eq!(take(&orders, 0), Some(0));
        order(&orders, 0, 150);
        assert_eq!((take(&orders, 0), take(&orders, 20_000)), (Some(100), Some(50)));
        orders.note_oldest(OldestOrder { pages: 50, ..ORDER }, wrote(50));
        assert!(orders.is_writing_oldest(), "the first batch is still in hand");
        orders.note_oldest(OldestOrder { pages: 100, ..ORDER }, wrote(100));
        assert!(!orders.is_writing_oldest());
    }

    #[test]
    fn old_orders_do_not_pile_up() {
        let orders = PageOrders::default();
        (0..30).for_each(|n| order(&orders, n, 90));
        let all: u64 = std::iter::from_fn(|| take(&orders, 90_000)).sum();
        assert_eq!(all, 1000);
    }

    #[test]
    fn frames_and_the_checkpoint_are_served_in_turn() {
        let orders = PageOrders::default();
        order(&orders, 0, 300);
        let mut taken = Vec::new();
        for _ in 0..5 {
            victims(&orders);
            taken.push(take(&orders, 0).unwrap());
        }
        assert_eq!(taken, [0, 100, 0, 100, 0]);
        // A batch that waits for more orders does not hold up frames.
        assert_eq!(take(&orders, 0), Some(100));
        order(&orders, 0, 10);
        for _ in 0..3 {
            victims(&orders);
            assert_eq!(take(&orders, 1), Some(0));
        }
    }
}
