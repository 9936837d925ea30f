//! The last step of opening: starts replay, then reads the space map. The cleaner runs already, so
//! replay finds frames, and the checkpoint may move over what has been replayed.

use super::core::Engine;
use super::opening::Opening;
use super::parts::Parts;
use super::replaying::ReplayTask;
use super::roster::Worker;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::recover::on_demand::pending::Pending;
use base::Lsn;
use base::sync::Parker;
use base::sync::atomic::AtomicBool;
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

/// Replays the log, beside the callers if that is possible, and reads the space map.
pub(super) fn catch_up(engine: &Engine, opening: &Opening<'_>, from: CatchUp) -> Result {
    let CatchUp { root, pending, groups, was_clean, needs_checkpoint } = from;
    let (options, metrics) = (opening.options, &opening.environment.metrics);
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
        engine.parts.replaying.replay(&task)?;
    }
    let formatted = groups > 0 || root.checkpoint > Lsn::ZERO;
    if formatted {
        let greatest = engine.store.space.load()?;
        engine.txns.trees.raise_ids_above(greatest);
    } else {
        engine.store.space.format()?;
    }
    // Only now: its reads would slow down those of opening.
    if !first {
        start_replay(&engine.parts, task)?;
    }
    if needs_checkpoint {
        match engine.checkpoint() {
            // The root can name 60 crashes more. The disk may have space before they have happened.
            Err(Error::DiskFull { .. }) => {}
            taken => drop(taken?),
        }
    }
    Ok(())
}

/// Starts the thread of replay.
fn start_replay(parts: &Parts, task: ReplayTask) -> Result {
    let Parts { replaying, roster, waiters, .. } = parts;
    let replay = Arc::clone(replaying);
    replaying.begin();
    let run = move |parker: &Parker, _: &AtomicBool| replay.run_beside(&task, parker);
    let started = roster.start(Worker::Replay, waiters, run);
    started.inspect_err(|_| replaying.not_begun())
}
