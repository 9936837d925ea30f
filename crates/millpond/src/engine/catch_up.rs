//! The last step of opening: replays the log onto the pages, then reads the space map. The cleaner
//! runs already, so replay finds frames, and the checkpoint may move over what has been replayed.

use super::Engine;
use super::build::capacity_by_target;
use super::open::Opening;
use crate::checkpoint::root::Root;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::recover::apply::{MadeAnew, Replay, replay};
use crate::recover::end::LogTail;
use base::Lsn;
use metrics::M;
use pace::capacity::ReplayRate;
use std::sync::Arc;

/// More threads than this do not make replay faster: each of them reads the whole log.
const WORKERS_MAX: usize = 4;

/// What catching up needs from the steps before.
pub(super) struct CatchUp {
    pub(super) root: Root,
    pub(super) tail: LogTail,
    pub(super) made_anew: MadeAnew,
    pub(super) was_clean: bool,
    pub(super) needs_checkpoint: bool,
}

impl Engine {
    /// Replays the log and reads the space map.
    pub(super) fn catch_up(&self, opening: &Opening<'_>, from: CatchUp) -> Result {
        let Opening { context: Context { vfs, metrics, .. }, options, opened_us, .. } = opening;
        let CatchUp { root, tail, made_anew, was_clean, needs_checkpoint } = from;
        let begun_us = vfs.clock.now_us();
        let redo_bytes = tail.end.since(root.checkpoint);
        let checkpointer = &self.shared.checkpointer;
        let told = Arc::clone(&self.shared);
        let job = Replay {
            pool: Arc::clone(&self.store.pool),
            log: Arc::clone(&self.store.log),
            epochs: root.epochs.clone(),
            from: root.checkpoint,
            end: tail.end,
            window_bytes: options.tuning.replay_window_bytes,
            pages_path: opening.paths.pages.clone(),
            made_anew,
            reached: Box::new(move |lsn| told.checkpointer.replayed_to(lsn)),
        };
        replay(job, (vfs.clock.cores() as usize).clamp(1, WORKERS_MAX))?;
        checkpointer.replayed_to(Lsn::MAX);
        metrics.set(M::RecoveryMs, vfs.clock.now_us().saturating_sub(*opened_us) / 1000);
        // After a clean end the log holds nothing but the last checkpoint's own list.
        metrics.set(M::RecoveryRedoBytes, if was_clean { 0 } else { redo_bytes });
        let mut rate = ReplayRate::new(root.replay_rate);
        rate.observe(redo_bytes, vfs.clock.now_us().saturating_sub(begun_us));
        self.use_replay_rate(opening, rate.bytes_per_s());

        let formatted = tail.groups > 0 || root.checkpoint > Lsn::ZERO;
        if formatted {
            let greatest = self.store.space.load()?;
            self.txns.tree_ids_above(greatest);
        } else {
            self.store.space.format()?;
        }
        if needs_checkpoint {
            match self.checkpoint() {
                // The root has room for as many crashes again, and the disk may have space by then.
                Err(Error::DiskFull { .. }) => {}
                taken => drop(taken?),
            }
        }
        Ok(())
    }

    /// Remembers how fast this recovery replayed, and sizes the log by it.
    fn use_replay_rate(&self, opening: &Opening<'_>, bytes_per_s: u64) {
        opening.context.metrics.set(M::ReplayRate, bytes_per_s);
        self.shared.checkpointer.set_replay_rate(bytes_per_s);
        if opening.options.redo_capacity_bytes.is_none() {
            let segments = self.store.log.segments();
            let (have, segment_bytes) = (segments.count() * segments.block_bytes(), segments.block_bytes());
            let target = opening.options.recovery_target;
            self.shared.capacity.set(capacity_by_target(target, bytes_per_s, have, segment_bytes));
        }
    }
}
