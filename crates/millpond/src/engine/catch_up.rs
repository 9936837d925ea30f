//! The last step of opening: starts replay, then reads the space map. The cleaner runs already, so
//! replay finds frames, and the checkpoint may move over what has been replayed.

use super::Engine;
use super::opening::Opening;
use super::replaying::ReplayTask;
use super::roster::Worker;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::recover::pending::Pending;
use base::Lsn;
use metrics::M;
use std::sync::Arc;

/// What catching up needs from the steps before.
pub(super) struct CatchUp {
    pub(super) root: Root,
    pub(super) pending: Arc<Pending>,
    /// Groups that the first pass has read.
    pub(super) groups: u64,
    pub(super) was_clean: bool,
    pub(super) needs_checkpoint: bool,
}

impl Engine {
    /// Replays the log, beside the callers if that is possible, and reads the space map.
    pub(super) fn catch_up(&self, opening: &Opening<'_>, from: CatchUp) -> Result {
        let CatchUp { root, pending, groups, was_clean, needs_checkpoint } = from;
        let (options, metrics) = (opening.options, &opening.context.metrics);
        // After a clean end the log holds nothing but the last checkpoint's own list.
        let redo_bytes = if was_clean { 0 } else { pending.end.since(root.checkpoint) };
        metrics.set(M::RecoveryRedoBytes, redo_bytes);
        metrics.set(M::RecoveryLeftBytes, redo_bytes);
        let task = ReplayTask {
            pending,
            window_bytes: options.tuning.replay_window_bytes,
            workers: options.tuning.replay_workers,
            rate: root.replay_rate,
        };
        let tuning = options.tuning;
        let first = needs_checkpoint || options.eager_recovery || tuning.replay_first || tuning.no_threads;
        if first {
            self.shared.replay(&task)?;
        }
        let formatted = groups > 0 || root.checkpoint > Lsn::ZERO;
        if formatted {
            let greatest = self.store.space.load()?;
            self.txns.tree_ids.raise_above(greatest);
        } else {
            self.store.space.format()?;
        }
        // Only now: its reads would slow down those of opening.
        if !first {
            self.start_replay(task)?;
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

    fn start_replay(&self, task: ReplayTask) -> Result {
        let shared = Arc::clone(&self.shared);
        self.shared.replaying.begin();
        let started =
            self.shared.start(Worker::Replay, move |_, parker, _| shared.replay_beside(&task, parker));
        started.inspect_err(|_| self.shared.replaying.not_begun())
    }
}
