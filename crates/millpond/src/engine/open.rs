//! Opening: lock, root, log end, new epoch, torn pages, replay, space map. Nothing is changed on disk before the log's
//! end is known to be sound, but for undo files that nothing names.

use super::capacity::Capacity;
use super::create::{Paths, create, make_dir, sync_what_stands};
use super::home::{are_apart, come_back, survey, take_lock};
use super::{Admission, Background, Crowd, Engine, Shared};
use crate::buffer::{Pool, PoolOptions};
use crate::checkpoint::fuzzy::Checkpointer;
use crate::checkpoint::root::{EPOCHS_MAX, RootFile};
use crate::duty;
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::flush::doublewrite::Doublewrite;
use crate::flush::restore::{Bounds, Life};
use crate::log::block::PAYLOAD_BYTES;
use crate::log::reader::EpochStart;
use crate::log::segment::{SegmentShape, Segments};
use crate::log::{Log, LogOptions};
use crate::options::Options;
use crate::planted::{Bug, planted};
use crate::recover::apply::{RedoHook, Replay, replay};
use crate::recover::end::{find_end, go_on};
use crate::recover::standing::Standings;
use crate::recover::undo::{Rebuild, read_list};
use crate::reserve::Reserve;
use crate::space::{Space, SpaceOptions};
use crate::store::Store;
use crate::txn::{Limits, Room, Txns};
use crate::undo::Streams;
use crate::undo::journal::Journal;
use base::Lsn;
use base::sync::atomic::{AtomicBool, AtomicU64};
use base::sync::{Mutex, Parker};
use metrics::{M, Metrics, SyncReason};
use pace::capacity::{self, CapacityChange, ReplayRate};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vfs::{BatchIo, Create, File, OpenMode, Vfs};

/// More threads than this do not make replay faster: each of them reads the whole log.
const REPLAY_WORKERS_MAX: usize = 4;

/// The capacity from which recovery takes no longer than the user allows. Files that there are already are kept where
/// that makes no great difference.
fn by_target(target: Duration, replay_rate: u64, have: u64, segment_bytes: u64) -> u64 {
    let target_us = u64::try_from(target.as_micros()).unwrap_or(u64::MAX);
    let wanted = capacity::wanted(target_us, replay_rate, segment_bytes);
    match capacity::change(have, wanted, segment_bytes) {
        CapacityChange::Keep => have,
        // Files follow need, so the whole growth is allowed at once.
        CapacityChange::Grow(_) | CapacityChange::Shrink(_) => wanted,
    }
}

impl Engine {
    /// Opens the engine in `dir`, recovering it; creates it if there is none.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Engine> {
        options.validate()?;
        let _asked = duty::page_writes();
        let metrics = Arc::new(Metrics::new());
        let poison = Arc::new(Poison::default());
        let paths = Paths::new(dir, options);
        are_apart(&paths)?;
        let vfs = &paths.few(vfs, &metrics).fail_stop();
        let opened_us = vfs.clock.now_us();
        make_dir(vfs, dir)?;
        if !vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?.iter().any(|name| name == "root") {
            // Before a lock is made in what may be somebody else's.
            survey(vfs, &paths)?;
        }
        let mut locks = vec![take_lock(vfs, dir, None)?];
        sync_what_stands(vfs, dir, &paths, &metrics)?;
        match RootFile::open(vfs, &paths.root, &metrics)? {
            None => create(vfs, &paths, options, &metrics, &mut locks)?,
            Some((_, root)) => come_back(vfs, &paths, root.db_id, &metrics, &mut locks)?,
        }
        let Some((root_file, mut root)) = RootFile::open(vfs, &paths.root, &metrics)? else {
            return Err(Error::corrupt(&paths.root, "it was written and cannot be read"));
        };
        if let Some(asked) = options.page_bytes
            && asked != root.page_bytes
        {
            let has = root.page_bytes;
            return Err(Error::Misuse(format!("the database has pages of {has} bytes, not {asked}")));
        }

        let shape = SegmentShape { db_id: root.db_id, blocks: root.segment_blocks };
        let segments = Segments::open(vfs, &paths.redo, shape, &metrics)?;
        let first = shape.segment_of(crate::log::block::block_of(root.checkpoint));
        segments.sync_from(first, &poison)?;
        let window = (root.ring_blocks * PAYLOAD_BYTES) as u64;
        let list = read_list(&segments, &root)?;
        let hardened = list.txns.iter().map(|listed| (listed.txn, listed.hardened)).collect();
        let pool_bytes = options.buffer_pool_bytes.unwrap_or_else(|| vfs.clock.memory_bytes() / 4) as usize;
        let memory = options.history_memory_bytes.unwrap_or_else(|| (pool_bytes as u64 / 4).max(64 << 20));
        let streams = Streams::default();
        let (db_id, files) = (root.db_id, &list.files);
        let mut journal =
            Journal::open(vfs, &paths.undo, db_id, files, &hardened, &streams, memory, &metrics, &poison)?;
        let segments_left = journal.open_segments(&list.segments)?;
        let block_bytes = segments.block_bytes();
        let reserve = Arc::new(Reserve::open(vfs, &paths.undo, block_bytes)?);
        journal.keep(Arc::clone(&reserve));
        let standings = Standings::begin(&list.txns, root.checkpoint);
        let rebuild = Rebuild::begin(&paths.redo, root.record, list, streams).within(memory, journal);
        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        let pages = vfs.disk.open(&paths.pages, mode).map_err(|e| Error::io("open", &paths.pages, e))?;
        let doublewrite = Doublewrite::open(vfs, &paths.doublewrite, root.db_id, root.page_bytes, &metrics)?;
        let copies = doublewrite.copies();
        let asked = copies.keys().map(|page| (*page, Life::default())).collect();
        let (tail, rebuild, standings) = find_end(
            &segments,
            &root.epochs,
            root.checkpoint,
            root.durable,
            window,
            rebuild,
            standings,
            asked,
        )?;
        let bounds = Bounds { checkpoint: root.checkpoint, end: tail.end };
        let plan = doublewrite.plan(&copies, &tail.lives, bounds, (&*pages, &paths.pages), &paths.redo)?;

        let start = go_on(tail.end, &root.epochs);
        let was_clean = root.clean;
        root.sequence += 1;
        root.clean = false;
        // A start at the place of the epoch before, where nothing was ever written, takes that one's place.
        root.epochs.retain(|e| e.first < start.lsn);
        root.epochs.push(EpochStart { epoch: start.epoch, first: start.lsn });
        if root.epochs.len() > EPOCHS_MAX {
            let what = format!(
                "{} names {EPOCHS_MAX} crashes since the last checkpoint, the most that it can",
                paths.root.display()
            );
            return Err(Error::Limit { what });
        }
        // Long before: this opening lets the checkpoint move in the midst of replay, and takes one at its end.
        let crowded = root.epochs.len() > EPOCHS_MAX / 2;
        if !planted(Bug::NoEpoch) {
            root_file.write(&root, SyncReason::Recovery)?;
        }

        metrics.set(M::DirectIo, u64::from(pages.is_direct() && segments.are_direct()));
        let durable = paths.are_durable(vfs);
        metrics.set(M::Durable, u64::from(durable));
        metrics.set(M::IoUring, u64::from(vfs.disk.batch_io() == BatchIo::Ring));
        doublewrite.restore(&plan, &*pages, &paths.pages)?;

        let (log_parker, cleaner_parker, background) = (Parker::new(), Parker::new(), Parker::new());
        let (growth_parker, history_parker) = (Parker::new(), Parker::new());
        let log_options =
            LogOptions { ring_blocks: root.ring_blocks, flush_depth: options.tuning.flush_depth };
        let log =
            Arc::new(Log::new(vfs, log_options, start, segments, log_parker.unparker(), &metrics, &poison));
        let (hook, made_anew) = RedoHook::new(&paths.pages, &log, &tail, plan.stale);
        let pool = Arc::new(Pool::new(PoolOptions {
            frames: match options.tuning.frames {
                0 => Pool::frames_in(pool_bytes, root.page_bytes),
                n => n,
            },
            page_bytes: root.page_bytes,
            file: Arc::clone(&pages),
            path: paths.pages.clone(),
            hook: Box::new(hook),
            cleaner: cleaner_parker.unparker(),
            poison: Arc::clone(&poison),
            metrics: Arc::clone(&metrics),
            clock: Arc::clone(&vfs.clock),
        })?);
        let grow_pages = match options.tuning.grow_pages {
            0 => ((64 << 20) / root.page_bytes) as u32,
            n => n,
        };
        let space_options = SpaceOptions {
            vfs: vfs.clone(),
            file: Arc::clone(&pages),
            path: paths.pages.clone(),
            db_id: root.db_id,
            grow_pages,
            pages_max: options.tuning.pages_max,
            grower: growth_parker.unparker(),
            reserve: Arc::clone(&reserve),
        };
        let store = Arc::new(Store {
            space: Space::new(space_options, &log, &pool, &metrics, &poison),
            log: Arc::clone(&log),
            pool: Arc::clone(&pool),
            metrics: Arc::clone(&metrics),
        });
        let files = (Arc::clone(&pages) as Arc<dyn File>, paths.pages.clone());
        let segment_bytes = log.segments().block_bytes();
        let asked = options.redo_capacity_bytes.unwrap_or_else(|| {
            let have = log.segments().count() * segment_bytes;
            by_target(options.recovery_target, root.replay_rate, have, segment_bytes)
        });
        let recovered = rebuild.finish(segments_left);
        let limits = Limits::new(memory, options.history_disk_bytes, history_parker.unparker());
        let admission =
            Arc::new(Admission::new(&log, &vfs.clock, &metrics, &poison, cleaner_parker.unparker()));
        let room = Arc::clone(&admission) as Arc<dyn Room>;
        let txns = Arc::new(Txns::new(&store, vfs, recovered, limits, background.unparker(), room));
        let unfinished = Arc::clone(&txns) as Arc<dyn crate::checkpoint::Unfinished>;
        let threads = [&log_parker, &cleaner_parker, &background, &growth_parker, &history_parker];
        poison.wakes(threads.map(Parker::unparker).into());
        let shared = Arc::new(Shared {
            store: Arc::clone(&store),
            txns: Arc::clone(&txns),
            flusher: Mutex::new(Flusher::new(vfs, &log, &pool, files, doublewrite, &metrics, &poison)),
            checkpointer: Checkpointer::new(
                &log,
                &pool,
                root_file,
                root.clone(),
                unfinished,
                &metrics,
                &poison,
            ),
            standings: Mutex::new(standings),
            admission,
            capacity: Capacity::new(asked, (tail.end, tail.end.since(root.checkpoint))),
            reserve,
            clock: Arc::clone(&vfs.clock),
            crowd: Crowd::default(),
            threads_at_work: AtomicU64::new(0),
            opened_us,
            hold_cleaning_until: options.hold_cleaning_until_redo_bytes,
            replay_checkpoint_us: if crowded { 0 } else { options.tuning.replay_checkpoint_us },
            stop: AtomicBool::new(false),
            stop_background: AtomicBool::new(false),
            poison,
            log_thread: log_parker.unparker(),
            cleaner_thread: cleaner_parker.unparker(),
            background_thread: background.unparker(),
            growth_thread: growth_parker.unparker(),
            history_thread: history_parker.unparker(),
        });
        let background =
            Some(Background { purge: background, growth: growth_parker, history: history_parker });
        let mut engine = Engine {
            store,
            txns,
            durable,
            ephemeral: vfs.disk.is_ephemeral(),
            shared,
            background,
            threads: Mutex::default(),
            background_threads: Mutex::default(),
            lock: Mutex::new(Some(Box::new(locks))),
        };
        engine.shared.make_first_files()?;
        log.segments().keep_open(shape.segment_of(crate::log::block::block_of(start.lsn)))?;
        engine.shared.mark(vfs.clock.now_us());
        if !options.tuning.still {
            engine.start(log_parker, cleaner_parker)?;
        }
        let from = root.checkpoint;
        let checkpointer = &engine.shared.checkpointer;
        let begun_us = vfs.clock.now_us();
        let told = Arc::clone(&engine.shared);
        let job = Replay {
            pool: Arc::clone(&pool),
            log: Arc::clone(&log),
            epochs: root.epochs.clone(),
            from,
            end: tail.end,
            window_bytes: options.tuning.replay_window_bytes,
            pages_path: paths.pages.clone(),
            made_anew,
            reached: Box::new(move |lsn| told.checkpointer.replayed_to(lsn)),
        };
        replay(job, (vfs.clock.cores() as usize).clamp(1, REPLAY_WORKERS_MAX))?;
        checkpointer.replayed_to(Lsn::MAX);
        metrics.set(M::RecoveryMs, vfs.clock.now_us().saturating_sub(opened_us) / 1000);
        // After a clean end only the last checkpoint's own list stands there.
        metrics.set(M::RecoveryRedoBytes, if was_clean { 0 } else { tail.end.since(from) });
        let mut rate = ReplayRate::new(root.replay_rate);
        rate.observe(tail.end.since(from), vfs.clock.now_us().saturating_sub(begun_us));
        metrics.set(M::ReplayRate, rate.bytes_per_s());
        checkpointer.set_replay_rate(rate.bytes_per_s());
        if options.redo_capacity_bytes.is_none() {
            let have = log.segments().count() * segment_bytes;
            let bytes = by_target(options.recovery_target, rate.bytes_per_s(), have, segment_bytes);
            engine.shared.capacity.set(bytes);
        }
        let formatted = tail.groups > 0 || from > Lsn::ZERO;
        if formatted {
            let greatest = engine.store.space.load()?;
            engine.txns.tree_ids_above(greatest);
        } else {
            engine.store.space.format()?;
        }
        if crowded {
            match engine.checkpoint() {
                // There are as many crashes again until the root is full, and the disk may have room before.
                Err(Error::DiskFull { .. }) => {}
                taken => drop(taken?),
            }
        }
        Ok(engine)
    }
}
