//! Flow control in the engine. Where time matters, the test has its own clock: a device advances it
//! by the cost of each I/O. One thread plays the writers and takes the cleaner's steps, so the run
//! is the same on every machine.

use super::super::Engine;
use super::super::admission::{AdmitAnswer, Asker, Payment};
use super::super::cleaner::Cleaner;
use super::super::log_size::LogSize;
use super::super::writers::PageWriters;
use super::{DIR, TREE, put};
use crate::btree::Tree;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::Error;
use crate::options::{Options, Tuning};
use base::Lsn;
use base::prng::Prng;
use metrics::{Force, M};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfs::intercept::Interceptor;
use vfs::mem::MemDisk;
use vfs::{Clock, Disk, File, OpenMode, Vfs, WriteOp};

mod capacity;
mod law;
mod rest;
mod slow_device;
mod tiny_pool;

const MIB: u64 = 1 << 20;

/// A clock that only the test advances.
#[derive(Debug, Default)]
struct Time(AtomicU64);

impl Time {
    fn pass(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for Time {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn unix_seconds(&self) -> u64 {
        0
    }
    fn random_u64(&self) -> u64 {
        1
    }
}

/// A disk whose writes and syncs take time, and which can be full.
#[derive(Debug, Clone)]
struct Device {
    disk: MemDisk,
    time: Arc<Time>,
    /// Microseconds of a write or sync.
    io_us: Arc<AtomicU64>,
    /// Bytes that a write moves in a microsecond; 0 if their number does not matter.
    bytes_per_us: Arc<AtomicU64>,
    /// It answers nothing for the first `pause_us` of every `pause_every_us`; 0 if it never pauses.
    pause_every_us: Arc<AtomicU64>,
    pause_us: Arc<AtomicU64>,
    /// There is no space for a new file.
    full: Arc<AtomicBool>,
}

impl Device {
    fn new(io_us: u64) -> Device {
        Device {
            disk: MemDisk::default(),
            time: Arc::default(),
            io_us: Arc::new(AtomicU64::new(io_us)),
            bytes_per_us: Arc::default(),
            pause_every_us: Arc::default(),
            pause_us: Arc::default(),
            full: Arc::default(),
        }
    }

    fn vfs(&self) -> Vfs {
        let clock = Arc::clone(&self.time) as Arc<dyn Clock>;
        Vfs::intercepted(Arc::new(self.disk.clone()), clock, Arc::new(self.clone()))
    }

    fn pause(&self, every_us: u64, us: u64) {
        self.pause_us.store(us, Ordering::Relaxed);
        self.pause_every_us.store(every_us, Ordering::Relaxed);
    }

    fn set_bytes_per_us(&self, bytes: u64) {
        self.bytes_per_us.store(bytes, Ordering::Relaxed);
    }

    /// Returns how long a pause still lasts at a time, microseconds; 0 if there is none.
    fn pause_left(&self, now_us: u64) -> u64 {
        let every = self.pause_every_us.load(Ordering::Relaxed);
        let at = now_us.checked_rem(every);
        at.map_or(0, |at| self.pause_us.load(Ordering::Relaxed).saturating_sub(at))
    }

    fn is_paused_at(&self, us: u64) -> bool {
        self.pause_left(us) > 0
    }

    /// Lets the time of an I/O of so many bytes pass.
    fn take(&self, bytes: usize) {
        self.time.pass(self.pause_left(self.time.now_us()));
        let moved = (bytes as u64).checked_div(self.bytes_per_us.load(Ordering::Relaxed));
        self.time.pass(self.io_us.load(Ordering::Relaxed) + moved.unwrap_or(0));
    }
}

impl Interceptor for Device {
    fn open(&self, disk: &dyn Disk, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if self.full.load(Ordering::Relaxed) && path.extension().is_some_and(|e| e == "new") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.open(path, mode)
    }
    fn sync_dir(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        self.take(0);
        disk.sync_dir(dir)
    }
    fn write(&self, file: &dyn File, _: &Path, op: WriteOp<'_>) -> io::Result<()> {
        self.take(op.bytes.len());
        file.write_at(op.bytes, op.offset)
    }
    fn sync(&self, file: &dyn File, _: &Path) -> io::Result<()> {
        self.take(0);
        file.sync()
    }
    fn is_direct(&self, _: &dyn File) -> bool {
        true
    }
}

fn options(redo_bytes: u64, frames: usize) -> Options {
    let mut options = Options::new().page_bytes(4096).redo_capacity_bytes(redo_bytes);
    options.tuning = Tuning {
        segment_blocks: 64,
        ring_blocks: 64,
        grow_pages: 1024,
        doublewrite_pages: 64,
        frames,
        ..Tuning::default()
    };
    options
}

/// Returns a row of fixed size with key `n`.
fn row(n: u64, round: u64) -> ([u8; 8], Vec<u8>) {
    let mut value = vec![0; 400];
    Prng::new(n * 1_000_003 + round).fill(&mut value);
    (n.to_be_bytes(), value)
}

/// Writers, cleaner and device in one thread and one simulated time.
struct World {
    device: Device,
    engine: Engine,
    tree: Tree,
    cleaner: Cleaner,
    next_clean_us: u64,
    /// When the page writer has written its batch; `None` if the cleaner writes the pages itself.
    next_write_us: Option<u64>,
    rng: Prng,
    rows: u64,
    round: u64,
}

/// The answer of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    In(u64),
    Later(u64),
    AtLimit,
}

/// The redo of an operation, rather too high than too low.
const OP_BYTES: u64 = 1000;

impl World {
    fn new(options: &Options, io_us: u64, rows: u64) -> World {
        let device = Device::new(io_us);
        let mut options = options.clone();
        options.tuning.no_threads = true;
        let engine = Engine::open(&device.vfs(), Path::new(DIR), &options).unwrap();
        let tree = Tree::create(&engine.store, TREE).unwrap();
        let mut world = World {
            device,
            cleaner: Cleaner::new(&engine.parts.cleaner),
            engine,
            tree,
            next_clean_us: 0,
            next_write_us: options.tuning.writers_by_hand.then_some(0),
            rng: Prng::new(5),
            rows,
            round: 0,
        };
        for n in 0..rows {
            world.write(n);
            world.clean();
        }
        world.engine.checkpoint().unwrap();
        world.clean();
        world
    }

    fn log_size(&self) -> &LogSize {
        &self.engine.parts.cleaner.log_size
    }

    fn writers(&self) -> &PageWriters {
        &self.engine.parts.cleaner.writers
    }

    fn checkpointer(&self) -> &Checkpointer {
        self.engine.parts.cleaner.checkpoints.checkpointer()
    }

    fn now(&self) -> u64 {
        self.device.time.now_us()
    }

    fn age(&self) -> u64 {
        self.engine.store.log.reserved_lsn().since(self.checkpointer().lsn())
    }

    fn get(&self, metric: M) -> u64 {
        self.engine.store.metrics.get(metric)
    }

    fn write(&mut self, n: u64) {
        self.round += 1;
        let (key, value) = row(n, self.round);
        put(&self.engine, self.tree, self.round, &key, &value).unwrap();
    }

    /// Does one step of the cleaner, whether it is due or not.
    fn clean(&mut self) {
        let begun = self.now();
        let nap_us = self.cleaner.step().unwrap();
        self.next_clean_us = self.now() + nap_us;
        // The writers go on while the cleaner waits for the device.
        self.device.time.0.store(begun, Ordering::Relaxed);
    }

    /// Lets the page writer begin a batch, if there is an order.
    fn write_batch(&mut self) {
        let begun = self.now();
        let worked = self.engine.parts.cleaner.writers.write_ordered().unwrap();
        let looks_again = if worked { self.now() } else { begun + 1000 };
        self.next_write_us = Some(looks_again);
        // The writers and the cleaner go on while it waits for the device.
        self.device.time.0.store(begun, Ordering::Relaxed);
    }

    /// Runs the cleaner alone for a while.
    fn rest(&mut self, us: u64) {
        let end = self.now() + us;
        while self.next_clean_us < end {
            let wait = self.next_clean_us.saturating_sub(self.now());
            self.device.time.pass(wait);
            self.clean();
        }
        self.device.time.pass(end.saturating_sub(self.now()));
    }

    /// Asks for admission. The operation counts as logged at once.
    fn ask(&self) -> Answer {
        match self.engine.admission.ask(OP_BYTES, Payment::Due) {
            AdmitAnswer::In(_, delay_us) => Answer::In(delay_us),
            AdmitAnswer::Later(delay_us) => Answer::Later(delay_us),
            AdmitAnswer::AtLimit => Answer::AtLimit,
        }
    }

    /// Does one operation of writers that never pause, and runs the cleaner whenever it is due.
    /// Returns how long the operation was held; `None` if it would be stopped at the limit.
    fn operation(&mut self) -> Option<u64> {
        let mut held = 0;
        loop {
            let admission = &self.engine.admission;
            let woken = !admission.is_free(OP_BYTES) && admission.is_silent(self.now());
            if woken || self.now() >= self.next_clean_us {
                self.clean();
            }
            if self.next_write_us.is_some_and(|at| self.now() >= at) {
                self.write_batch();
            }
            let wait = match self.ask() {
                Answer::AtLimit => return None,
                Answer::In(delay_us) => {
                    self.device.time.pass(delay_us + 5);
                    held += delay_us;
                    let n = self.rng.below(self.rows);
                    self.write(n);
                    return Some(held);
                }
                Answer::Later(delay_us) => delay_us,
            };
            // No writer sleeps past the next step of the cleaner or of the page writer.
            let next_us = self.next_write_us.map_or(self.next_clean_us, |at| at.min(self.next_clean_us));
            let wait = wait.min(next_us.saturating_sub(self.now()).max(1));
            self.device.time.pass(wait);
            held += wait;
        }
    }
}

/// Random updates take 5 µs each. The device takes 200 µs for an I/O, so it cleans only a part of
/// that.
#[test]
fn writers_far_faster_than_the_device_are_slowed_and_never_stopped() {
    let capacity = 8 * MIB;
    let mut world = World::new(&options(capacity, 8192), 200, 20_000);
    let files = capacity / world.engine.store.log.segments().block_bytes();
    let (mut per_100_ms, mut count) = (Vec::new(), 0);
    let (mut slot, mut held_max) = (world.now(), 0);
    while per_100_ms.len() < 80 {
        let held = world.operation().unwrap_or_else(|| panic!("stopped at age {}", world.age()));
        held_max = held.max(held_max);
        count += 1;
        assert!(world.age() <= world.log_size().room(world.now()).existing, "the log holds more than it may");
        assert!(world.engine.store.log.segments().count() <= files);
        while world.now() >= slot + 100_000 {
            per_100_ms.push(std::mem::take(&mut count));
            slot += 100_000;
        }
    }
    assert_eq!(world.get(M::HardWaits), 0);
    let late = &per_100_ms[40..];
    let least = *late.iter().min().unwrap();
    let median = {
        let mut sorted = late.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    println!("operations in 100 ms: {per_100_ms:?}, longest hold {held_max} µs");
    assert!(least * 2 > median, "the worst tenth of a second has {least} operations, the median {median}");
    assert!(held_max < 100_000, "an operation was held for {held_max} µs");
}

/// At the limit, redo that needs no admission (commits) still finds room. The cleaner needs no
/// other room, and its work opens admission again.
#[test]
fn at_the_limit_the_cleaner_and_commits_go_on_and_admission_opens_again() {
    let mut world = World::new(&options(4 * MIB, 4096), 0, 5000);
    let created = world.get(M::LogSegmentsCreated);
    for _ in 0..2 {
        // No pages are cleaned: the writers fill the log up to the limit.
        let mut n = 0;
        loop {
            match world.ask() {
                Answer::In(delay_us) => {
                    world.device.time.pass(delay_us);
                    n = (n + 7) % world.rows;
                    world.write(n);
                }
                Answer::Later(delay_us) => world.device.time.pass(delay_us),
                Answer::AtLimit => break,
            }
        }
        assert_eq!(world.ask(), Answer::AtLimit);
        let limits = world.log_size().update_limits(world.now());
        for _ in 0..(limits.capacity - limits.hard) / 2 / OP_BYTES {
            world.write(1);
        }
        assert!(world.age() > limits.hard);
        let mut steps = 0;
        while world.ask() != Answer::In(0) {
            world.clean();
            world.device.time.pass(10_000);
            steps += 1;
            assert!(steps < 10_000, "the cleaner makes no room: age {}", world.age());
        }
    }
    let limit = 4 * MIB / world.engine.store.log.segments().block_bytes();
    assert!(created <= limit && world.engine.store.log.segments().count() <= limit);
}

#[test]
fn a_wait_at_the_limit_ends_when_the_database_closes_or_is_poisoned() {
    for poison in [false, true] {
        let world = World::new(&options(2 * MIB, 4096), 0, 100);
        let admission = &world.engine.admission;
        let limits = world.log_size().update_limits(0);
        let checkpoint = Lsn(world.engine.store.log.reserved_lsn().0 - limits.hard.min(world.age()));
        // As if the log were full.
        let full = pace::age_limits::AgeLimits { soft: 0, hard: 1, ..limits };
        admission.set_clean_rate(0.0);
        admission.set_limits(checkpoint, |_| (full, None));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| admission.admit(OP_BYTES).map(drop));
            while world.get(M::HardWaits) == 0 {
                std::thread::yield_now();
            }
            if poison {
                world.engine.poison.set(Error::Misuse("the device failed".into()));
                admission.wake();
            } else {
                admission.close(Asker::Caller);
            }
            let error = waiter.join().unwrap().unwrap_err();
            let right =
                if poison { matches!(error, Error::Poisoned { .. }) } else { matches!(error, Error::Closed) };
            assert!(right, "{error}");
        });
    }
}

#[test]
fn held_back_cleaning_starts_at_the_configured_redo() {
    let hold = 6 * MIB;
    let options = options(16 * MIB, 4096).hold_cleaning_until_redo_bytes(hold);
    let mut world = World::new(&options, 20, 5000);
    let by_age = |world: &World| {
        let forces = world.engine.metrics().pages_by_force();
        let get = |f: Force| forces.iter().find(|(name, _)| *name == f.label()).map_or(0, |(_, n)| *n);
        get(Force::CheckpointAge) + get(Force::Idle) + get(Force::DirtyShare)
    };
    let before = by_age(&world);
    while world.age() < hold - 64 * 1024 {
        assert_eq!(world.operation(), Some(0), "held although the age is meant to grow");
        world.device.time.pass(100);
    }
    assert_eq!(by_age(&world), before, "cleaned before its time");
    for _ in 0..20_000 {
        world.operation();
        world.device.time.pass(100);
    }
    assert!(by_age(&world) > before + 100);
}

/// An idle database writes its dirty pages, and its checkpoint reaches the end of the log.
#[test]
fn the_checkpoint_of_an_idle_database_reaches_the_end_of_the_log() {
    let mut world = World::new(&options(256 * MIB, 4096), 20, 2000);
    for _ in 0..200 {
        world.operation().unwrap();
    }
    assert!(world.age() > 512);
    for seconds in 0.. {
        // The last checkpoint's own list is left.
        if world.age() < 512 {
            break;
        }
        world.rest(1_000_000);
        assert!(seconds < 120, "{} dirty pages", world.engine.store.pool.dirty_pages());
    }
    let forces = world.engine.metrics().pages_by_force();
    assert!(forces.iter().any(|(name, pages)| *name == Force::Idle.label() && *pages > 0), "{forces:?}");
}
