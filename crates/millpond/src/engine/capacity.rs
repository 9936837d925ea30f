//! The redo capacity: how many segment files there may be, and how many there are (Lo8, Promise 3). The laws are
//! `pace::capacity` and `pace::segments`.

use super::Shared;
use crate::error::{Error, Result};
use crate::log::segment::Segments;
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use pace::segments::{self, Step};

/// After a growth that found no space the next one is tried this much later.
const TRY_AGAIN_US: u64 = 10_000_000;

/// What the redo log may take.
#[derive(Debug)]
pub(super) struct Capacity {
    /// Bytes of log blocks that the segments may hold.
    asked: AtomicU64,
    /// No growth before this time: the disk was full.
    full_until_us: AtomicU64,
    /// Where the log of the last run ended, and how much redo of it there was. Until the checkpoint has passed it the
    /// log may be that much longer, so that writers do not wait for what recovery brought (Re4).
    recovered: (Lsn, u64),
    changing: Mutex<()>,
}

impl Capacity {
    pub(super) fn new(asked: u64, recovered: (Lsn, u64)) -> Capacity {
        Capacity {
            asked: AtomicU64::new(asked),
            full_until_us: AtomicU64::new(0),
            recovered,
            changing: Mutex::new(()),
        }
    }

    /// Allows another size; files follow need.
    pub(super) fn set(&self, bytes: u64) {
        self.asked.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of log blocks that the segments may hold.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn most_files(&self, segments: &Segments, checkpoint: Lsn) -> u64 {
        let asked = segments::files(self.asked(), segments.block_bytes());
        let (end, redo) = self.recovered;
        asked + if checkpoint < end { redo.div_ceil(segments.shape().payload_bytes()) } else { 0 }
    }
}

/// Redo that the log may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// In the files that there are: what admission goes by.
    pub(super) now: u64,
    /// In those that there may be: what cleaning goes by, for files follow need.
    pub(super) most: u64,
}

impl Shared {
    /// How much redo the log may hold.
    pub(super) fn room(&self, now_us: u64) -> Room {
        let segments = self.store.log.segments();
        let payload = segments.shape().payload_bytes();
        let have = segments.count();
        let most = self.capacity.most_files(segments, self.checkpointer.lsn());
        let full = now_us < self.capacity.full_until_us.load(Ordering::Relaxed);
        Room {
            now: segments::redo_bytes(have, payload),
            most: segments::redo_bytes(if full { most.min(have) } else { most }, payload),
        }
    }

    /// Makes the files without which no log works. Nothing is lost if the disk has no room for them.
    pub(super) fn make_first_files(&self) -> Result {
        let log = &self.store.log;
        let missing = segments::FILES_MIN.saturating_sub(log.segments().count());
        log.segments().make_more(missing, log.reserved_lsn()).map_err(|(_, error)| error)
    }

    /// Makes or removes segment files as the law says.
    pub(super) fn tend_files(&self, now_us: u64) -> Result {
        // While the capacity is being changed, what was allowed a moment ago says nothing.
        let Some(_changing) = self.capacity.changing.try_lock() else { return Ok(()) };
        let log = &self.store.log;
        let segments = log.segments();
        let checkpoint = self.checkpointer.lsn();
        let age = log.reserved_lsn().since(checkpoint);
        let most = self.capacity.most_files(segments, checkpoint);
        match segments::step(segments.count(), most, age, segments.shape().payload_bytes()) {
            Step::Keep => Ok(()),
            Step::Make(_) if now_us < self.capacity.full_until_us.load(Ordering::Relaxed) => Ok(()),
            Step::Make(count) => match segments.make_more(count, log.reserved_lsn()) {
                Ok(()) => Ok(()),
                Err((_, Error::DiskFull { .. })) => {
                    self.capacity.full_until_us.store(now_us + TRY_AGAIN_US, Ordering::Relaxed);
                    Ok(())
                }
                Err((_, error)) => Err(self.poison.set(error)),
            },
            Step::Shrink(files) => segments
                .shrink_to(files, self.checkpointer.lsn(), || log.reserved_lsn())
                .map_err(|error| self.poison.set(error)),
        }
    }

    /// Gives the disk back what the next seconds do not need: files of the log that hold no redo, and what `pages` has grown ahead.
    /// Both grow again as writers need them.
    pub(super) fn give_back(&self) -> Result {
        self.store.space.trim()?;
        let _changing = self.capacity.changing.lock();
        let log = &self.store.log;
        let segments = log.segments();
        let age = log.reserved_lsn().since(self.checkpointer.lsn());
        let files = segments::needed(age, segments.shape().payload_bytes());
        segments
            .shrink_to(files, self.checkpointer.lsn(), || log.reserved_lsn())
            .map_err(|error| self.poison.set(error))
    }

    /// Changes the capacity. A growth is made now, so that a full disk is known at once and the old size stays; a
    /// shrinking log lets its files go as cleaning permits.
    pub(super) fn set_redo_capacity(&self, bytes: u64) -> Result {
        let _changing = self.capacity.changing.lock();
        self.poison.check()?;
        let log = &self.store.log;
        let segments = log.segments();
        let least = segments::FILES_MIN * segments.block_bytes();
        if bytes < least {
            return Err(Error::Misuse(format!(
                "a redo capacity of {bytes} bytes: at least {least} are needed"
            )));
        }
        let (have, wanted) = (segments.count(), segments::files(bytes, segments.block_bytes()));
        if wanted > have
            && let Err((made, error)) = segments.make_more(wanted - have, log.reserved_lsn())
        {
            if !matches!(error, Error::DiskFull { .. }) {
                return Err(self.poison.set(error));
            }
            // What was made holds nothing yet, and others may need the space.
            let back = segments.count().saturating_sub(made).max(segments::FILES_MIN);
            segments
                .shrink_to(back, Lsn::ZERO, || log.reserved_lsn())
                .map_err(|error| self.poison.set(error))?;
            return Err(error);
        }
        self.capacity.set(bytes);
        self.capacity.full_until_us.store(0, Ordering::Relaxed);
        self.cleaner_thread.unpark();
        Ok(())
    }
}
