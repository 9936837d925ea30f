//! Room in the log buffer that is taken before the group for it is written, so that writing the
//! group waits for nothing (INV-9).
//!
//! A quarter of the buffer is lent to groups of this moment, in equal parts: the *credits*. A
//! mini-transaction takes one before it changes its first page, because it holds latches when it
//! writes its redo; a commit takes one, because readers spin until its record has a position.
//! Another quarter is kept for the records of transactions that are prepared ([`KeptRoom`]).
//! Everything else that is appended leaves both quarters free, and a credit is given only while the
//! log has not grown into them.
//!
//! So each finds its room, in whatever order they come. Of the groups that lie in the two quarters,
//! take the one whose credit was given last. When it was given, the log had not grown into them;
//! those that had a credit then fit one quarter, what is kept fits the other, and nobody was given
//! a credit later.

use super::group::{self, Record};
use crate::error::{Error, Result};
use base::TxnId;
use base::striped::CachePadded;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{latch_released, latch_taken, thread_number};
use std::sync::Arc;

/// The longest group that is written on credit, bytes: the redo of a mini-transaction, or a commit
/// record with the longest bookmark.
pub(crate) const CREDIT_BYTES: usize = 72 << 10;
const _: () = assert!(CREDIT_BYTES <= group::GROUP_BYTES_MAX);
/// More than threads that can run. Far fewer than the slots of the ring.
const CREDITS_MAX: u64 = 1024;
/// Threads that take and give back side by side seldom share a cache line.
const STRIPES: usize = 16;
/// The longest bookmark of a commit that must not wait, bytes.
pub(crate) const KEPT_BOOKMARK_BYTES: usize = 32;

/// Returns how many positions of a buffer of `capacity` are lent.
fn lent_of(capacity: u64) -> u64 {
    (capacity / 4 / CREDIT_BYTES as u64).clamp(1, CREDITS_MAX) * CREDIT_BYTES as u64
}

/// Returns how many positions of a buffer of `capacity` may be kept.
fn kept_of(capacity: u64) -> u64 {
    capacity / 4
}

/// Returns how many positions of a buffer of `capacity` are left free by groups for which no room
/// was taken.
pub(super) fn spared_of(capacity: u64) -> u64 {
    lent_of(capacity) + kept_of(capacity)
}

/// Room for a group.
#[derive(Debug)]
pub(crate) enum Room<'a> {
    Lent(Credit<'a>),
    Kept(&'a KeptRoom),
}

impl Room<'_> {
    /// The longest group that it is for, bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Room::Lent(credit) => credit.bytes(),
            Room::Kept(kept) => kept.bytes as usize,
        }
    }
}

/// The room of a log buffer that is taken.
#[derive(Debug)]
pub(super) struct TakenRoom {
    /// How many credits are taken, by stripe.
    lent: [CachePadded<AtomicU32>; STRIPES],
    credits: u32,
    /// Bytes that are kept.
    kept: Arc<AtomicU64>,
    kept_most: u64,
}

/// Room for one group. While a thread has it, it waits for nothing but latches.
#[derive(Debug)]
#[must_use]
pub(crate) struct Credit<'a> {
    taken: &'a AtomicU32,
}

impl Credit<'_> {
    /// The longest group that it is for, bytes.
    fn bytes(&self) -> usize {
        base::verify!(self.taken.load(Ordering::Relaxed) > 0, "a credit that nobody has taken");
        CREDIT_BYTES
    }
}

impl Drop for Credit<'_> {
    fn drop(&mut self) {
        // After the group is reserved: who takes this credit sees that.
        let before = self.taken.fetch_sub(1, Ordering::SeqCst);
        base::verify!(before > 0, "a credit is given back twice");
        latch_released();
    }
}

/// Room for one commit record and a bookmark, for a commit that must not wait for any. It is free
/// again when this is dropped, after the record.
#[derive(Debug)]
pub(crate) struct KeptRoom {
    kept: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for KeptRoom {
    fn drop(&mut self) {
        let before = self.kept.fetch_sub(self.bytes, Ordering::SeqCst);
        base::check!(before >= self.bytes, "{} bytes of {before} that are kept are given back", self.bytes);
    }
}

/// Returns the length of a group that holds a commit record and the longest bookmark, bytes.
fn commit_bytes() -> u64 {
    let mut bytes = Vec::new();
    group::begin(&mut bytes);
    group::put_record(&mut bytes, &Record::Commit { txn: TxnId((1 << 48) - 1) });
    group::put_record(&mut bytes, &Record::Bookmark { bookmark: &[0; KEPT_BOOKMARK_BYTES] });
    bytes.len() as u64
}

impl TakenRoom {
    /// No room is taken of a buffer of `capacity`.
    pub(super) fn new(capacity: u64) -> TakenRoom {
        TakenRoom {
            lent: Default::default(),
            credits: (lent_of(capacity) / CREDIT_BYTES as u64) as u32,
            kept: Arc::default(),
            kept_most: kept_of(capacity),
        }
    }

    /// How many credits a stripe has.
    fn of_stripe(&self, stripe: usize) -> u32 {
        (self.credits + (STRIPES - 1 - stripe) as u32) / STRIPES as u32
    }

    /// Takes a credit if there is one. It may be used if the log leaves room for all credits, as
    /// seen after this.
    #[inline]
    pub(super) fn credit(&self) -> Option<Credit<'_>> {
        let own = thread_number() % STRIPES;
        self.credit_of(own).or_else(|| self.credit_after(own))
    }

    /// Takes a credit of another stripe.
    #[cold]
    fn credit_after(&self, own: usize) -> Option<Credit<'_>> {
        (1..STRIPES).find_map(|n| self.credit_of((own + n) % STRIPES))
    }

    #[inline]
    fn credit_of(&self, stripe: usize) -> Option<Credit<'_>> {
        let (taken, all) = (&self.lent[stripe].0, self.of_stripe(stripe));
        let mut now = taken.load(Ordering::Relaxed);
        while now < all {
            // SeqCst: taken before the log is looked at.
            match taken.compare_exchange_weak(now, now + 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    latch_taken();
                    return Some(Credit { taken });
                }
                Err(seen) => now = seen,
            }
        }
        None
    }

    /// Keeps room for one commit record and its bookmark. Errors: `Limit` if all is kept already.
    pub(super) fn keep(&self) -> Result<KeptRoom> {
        let (bytes, most) = (commit_bytes(), self.kept_most);
        let room = KeptRoom { kept: Arc::clone(&self.kept), bytes };
        if self.kept.fetch_add(bytes, Ordering::SeqCst) + bytes > most {
            let what = format!("{} prepared transactions are held by their sessions", most / bytes);
            return Err(Error::Limit { what });
        }
        Ok(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::group::{self, Record};
    use crate::log::tests::{LogDir, start};
    use base::prng::Prng;
    use base::sync::spawn;
    use metrics::SyncReason;
    use std::sync::Arc;

    /// A group that is about `bytes` long.
    fn group_of(bytes: usize) -> Vec<u8> {
        let mut group = Vec::new();
        group::begin(&mut group);
        group::put_record(&mut group, &Record::Filler { body: &vec![7; bytes - 64] });
        group
    }

    /// The smallest log buffer, with one credit. An append that finds no room for what it has taken
    /// panics; one that waits while it has room panics too.
    #[test]
    fn whoever_has_taken_room_finds_it_in_whatever_order_they_come() {
        let dir = LogDir::new("credits");
        let log = Arc::new(dir.log(start()));
        let threads: Vec<_> = (0..6)
            .map(|seed| {
                let log = Arc::clone(&log);
                let write = move || {
                    let mut rng = Prng::new(seed);
                    for n in 0..150 {
                        let kept = log.keep_room().unwrap();
                        match rng.below(3) {
                            0 => _ = log.append(&mut group_of(64 + rng.below(90 << 10) as usize), |_| ()),
                            1 => {
                                let credit = log.credit().unwrap();
                                std::thread::yield_now();
                                let bytes = 64 + rng.below(CREDIT_BYTES as u64 - 64) as usize;
                                log.append_in(Room::Lent(credit), &mut group_of(bytes), |_| ());
                            }
                            _ => {
                                let mut commit = Vec::new();
                                group::begin(&mut commit);
                                group::put_record(&mut commit, &Record::Commit { txn: base::TxnId(n) });
                                log.append_in(Room::Kept(&kept), &mut commit, |_| ());
                            }
                        }
                        drop(kept);
                    }
                };
                spawn("writer", write).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let last = base::Lsn(log.reserved_lsn().0 - 1);
        log.flush_to(last, SyncReason::Close).unwrap();
        assert!(last.0 > 20 * log.buffer().capacity());
    }

    #[test]
    fn there_is_no_credit_when_all_are_taken_or_the_log_has_grown_into_them() {
        let dir = LogDir::new("no-credit");
        let log = dir.log(start());
        let taken = log.try_credit().unwrap();
        assert!(log.try_credit().is_none(), "this buffer has one");
        drop(taken);
        assert!(log.try_credit().is_some(), "it was given back");
        // Almost as much as goes without a credit, and one group on credit.
        for _ in 0..5 {
            log.append(&mut group_of(20 << 10), |_| ());
        }
        let credit = log.credit().unwrap();
        log.append_in(Room::Lent(credit), &mut group_of(CREDIT_BYTES), |_| ());
        assert!(!log.has_room());
        assert!(log.try_credit().is_none(), "the room for it is not sure");
        let credit = log.credit().unwrap();
        log.append_in(Room::Lent(credit), &mut group_of(CREDIT_BYTES), |_| ());
    }

    #[test]
    fn stripes_have_all_credits_between_them() {
        for (capacity, all) in [(64 * 4080, 1), (2048 * 4080, 28), (1 << 40, 1024)] {
            let room = TakenRoom::new(capacity);
            assert_eq!((0..STRIPES).map(|stripe| room.of_stripe(stripe)).sum::<u32>(), all);
            let taken: Vec<_> = std::iter::from_fn(|| room.credit()).collect();
            assert_eq!(taken.len() as u32, all);
        }
    }
}
