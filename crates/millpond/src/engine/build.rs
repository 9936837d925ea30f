//! Building the engine over adopted files: log, pool, space, transactions, and what the background
//! threads share. Nothing is read or written yet, and no thread runs.

use super::admission::Admission;
use super::adopt::{Adopted, Recovery};
use super::calls::ActiveCalls;
use super::capacity::{Capacity, capacity_near};
use super::catch_up::CatchUp;
use super::core::Engine;
use super::opening::Opening;
use super::parts::{Ground, Parts};
use super::pool_size;
use super::roster::{Roster, Worker};
use crate::ballast::Ballast;
use crate::buffer::{Pool, PoolOptions};
use crate::checkpoint::Unfinished;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::checkpoint::root::Root;
use crate::environment::Environment;
use crate::error::Result;
use crate::flush::batch::Flusher;
use crate::log::{Log, LogOptions};
use crate::options::Options;
use crate::page_file::PageFile;
use crate::recover::apply::replay_memory;
use crate::recover::on_demand::hook::RedoHook;
use crate::recover::on_demand::pending::{LastRun, Pending};
use crate::space::{Space, SpaceOptions};
use crate::tree_store::Store;
use crate::txn::{HistoryLimits, Txns};
use base::sync::{Mutex, ProcessStamp};
use std::sync::Arc;

/// Returns the redo capacity that the user has set, or that follows from the recovery target.
fn redo_capacity(options: &Options, root: &Root, log: &Log) -> u64 {
    let segment_bytes = log.segments().block_bytes();
    options.redo_capacity_bytes.unwrap_or_else(|| {
        let have = log.segments().count() * segment_bytes;
        capacity_near(have, options.recovery_target, root.replay_rate, segment_bytes)
    })
}

/// Returns the limits of memory and files for history.
fn history_limits(opening: &Opening<'_>, roster: &Roster) -> HistoryLimits {
    HistoryLimits::new(opening.options, opening.pool_bytes(), roster.unparker(Worker::History))
}

/// Builds an engine that has still to replay its log.
pub(super) fn build(
    opening: &Opening<'_>,
    adopted: Adopted,
    recovery: Recovery,
) -> Result<(Engine, CatchUp)> {
    let Opening { environment, paths, options, unlatched, .. } = opening;
    let locks = Arc::new(Mutex::new(adopted.locks));
    let Environment { vfs, poison, .. } = environment;
    let Adopted { root_file, root, start, segments, pages, doublewrite, ballast, stale, .. } = adopted;
    let Recovery { tail, rebuild, history_batches, was_clean, may_be_torn, needs_checkpoint } = recovery;
    let roster = Roster::new();
    poison.wakes(roster.unparkers());
    let log_options = LogOptions { ring_blocks: root.ring_blocks, flush_depth: options.tuning.flush_depth };
    let log = Log::new(environment, log_options, start, segments, roster.unparker(Worker::Log));
    let log = Arc::new(log.with_unsynced(unlatched, &paths.dir));
    let table_bytes = tail.pages.bytes();
    let (epochs, from, end, table) = (&root.epochs[..], root.checkpoint, tail.end, tail.pages);
    let last = LastRun { epochs, from, end, table, may_be_torn };
    let pending = Pending::new(&log, last, paths.pages.clone(), &vfs.clock);
    let hook = RedoHook::new(&pending, stale);
    let store = build_store(opening, &root, &log, &pages, hook, &roster, &ballast)?;
    let redo_capacity = redo_capacity(options, &root, &log);
    let target = options.redo_capacity_bytes.is_none().then_some(options.recovery_target);
    // What the first pass had in memory, and what replay is going to have.
    let redo_bytes = tail.end.since(root.checkpoint);
    let replay_bytes = replay_memory(redo_bytes, options.tuning.replay_window_bytes, &store.pool);
    let recovery_bytes = rebuild.memory_most() + table_bytes + replay_bytes;
    let recovered = rebuild.finish(history_batches);
    let limits = history_limits(opening, &roster);
    let admission = Arc::new(Admission::new(environment, &log, roster.unparker(Worker::Cleaner)));
    let (purge, undo) = (roster.unparker(Worker::Purge), Arc::clone(&admission));
    let txns = Arc::new(Txns::new(&store, &vfs.clock, recovered, limits, purge, undo));
    txns.locks.set_bytes_most(options.lock_memory_bytes.unwrap_or(txns.undo_space.lock_bytes()));
    let (pool, unfinished) = (&store.pool, Arc::clone(&txns) as Arc<dyn Unfinished>);
    let root_now = (root_file, root.clone(), options.doublewrite.is_off());
    let capacity = Capacity::new(redo_capacity, target, (tail.end, redo_bytes));
    let ground = Ground {
        opening,
        roster: Arc::new(roster),
        flusher: Arc::new(Flusher::new(environment, &log, pool, &pages, doublewrite, options)),
        checkpointer: Arc::new(Checkpointer::new(environment, &log, pool, root_now, unfinished)),
        store: Arc::clone(&store),
        txns: Arc::clone(&txns),
        admission: Arc::clone(&admission),
        ballast,
        locks: Arc::clone(&locks),
        db_id: root.db_id,
        needs_checkpoint,
    };
    let calls = ActiveCalls::default();
    let parts = Arc::new(Parts::build(&ground, &calls, capacity, recovery_bytes));
    let (ephemeral, process) = (vfs.disk.is_ephemeral(), ProcessStamp::here());
    let poison = Arc::clone(poison);
    let engine = Engine { store, txns, ephemeral, calls, admission, poison, parts, locks, process };
    Ok((engine, CatchUp { root, pending, groups: tail.groups, was_clean, needs_checkpoint }))
}

/// Builds the pool and the space over log and pages.
fn build_store(
    opening: &Opening<'_>,
    root: &Root,
    log: &Arc<Log>,
    pages: &Arc<PageFile>,
    hook: RedoHook,
    roster: &Roster,
    ballast: &Arc<Ballast>,
) -> Result<Arc<Store>> {
    let Opening { environment: Environment { vfs, metrics, poison }, options, .. } = opening;
    let frames = match options.tuning.frames {
        0 => Pool::frames_in(opening.pool_bytes() as usize, root.page_bytes),
        n => n,
    };
    let (memory, addresses) = (vfs.clock.memory_bytes(), vfs.clock.address_bytes());
    let frames_most = pool_size::frames_most(frames, memory, addresses, root.page_bytes);
    let pool = Arc::new(Pool::new(PoolOptions {
        frames,
        frames_most,
        reads_ahead: options.experiments.read_ahead,
        file: Arc::clone(pages),
        hook: Box::new(hook),
        cleaner: roster.unparker(Worker::Cleaner),
        poison: Arc::clone(poison),
        metrics: Arc::clone(metrics),
        clock: Arc::clone(&vfs.clock),
    })?);
    let grow_pages = match options.tuning.grow_pages {
        0 => ((64 << 20) / root.page_bytes) as u32,
        n => n,
    };
    let space_options = SpaceOptions {
        file: Arc::clone(pages),
        db_id: root.db_id,
        grow_pages,
        pages_max: options.tuning.pages_max,
        grower: roster.unparker(Worker::Growth),
        ballast: Arc::clone(ballast),
    };
    Ok(Arc::new(Store {
        space: Space::new(space_options, log, &pool, metrics, poison),
        log: Arc::clone(log),
        pool,
        metrics: Arc::clone(metrics),
    }))
}
