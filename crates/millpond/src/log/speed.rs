//! How fast commits become durable, compared with the bare device. Run by hand, on an idle machine:
//!
//! ```text
//! cargo test --release -p millpond --lib log::speed -- --ignored --nocapture --test-threads 1
//! ```
//! Rounds of the device and rounds of the log alternate, and the medians of the ratios of the pairs
//! are printed, because the device is not equally fast at all times. Rounds that other work
//! disturbed are dropped. Environment variables: `PAIRS`, `THREADS`, `DEPTH`, `WORK` (microseconds
//! before each commit); `MODEL=1` takes a modelled device. Files lie below the current directory,
//! because `/tmp` may be memory.

use super::block::PAYLOAD_BYTES;
use super::group::{self, Record};
use super::segment::{SegmentShape, Segments};
use super::{Log, LogOptions, LogStart};
use crate::error::Poison;
use base::aligned::AlignedBuf;
use base::sync::Parker;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{Lsn, PageNo, TxnId};
use metrics::{M, Metrics, SyncReason};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::intercept::Interceptor;
use vfs::{Create, Disk, File, OpenMode, Vfs};

/// The defaults of a database.
const SHAPE: SegmentShape = SegmentShape { db_id: 77, blocks: 4096 };
const RING_BLOCKS: usize = 2048;
const CAPACITY_BYTES: u64 = 64 << 20;
const DEVICE_FILE_BLOCKS: u64 = 4 << 10;
const ROUND: Duration = Duration::from_millis(250);
/// Syncs a second. If the device makes fewer, other work uses it.
const DEVICE_AT_LEAST: f64 = 6000.0;

struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let here = if modelled() { PathBuf::from("/dev/shm") } else { std::env::current_dir().unwrap() };
        let dir = TempDir(here.join(format!("speed-{name}-{}", std::process::id())));
        std::fs::create_dir(&dir.0).unwrap();
        dir
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap())
}

/// Returns the processor time of this process so far, microseconds.
fn cpu_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |n: usize| fields[n].parse::<u64>().unwrap();
    (ticks(11) + ticks(12)) * 10_000
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Runs `work(thread)` on `threads` threads for a round; each call is one operation. Returns the
/// operations a second, the processor microseconds of each, and the counts of the threads that did
/// least and most.
fn round(threads: usize, work: impl Fn(usize) + Sync) -> (f64, f64, u64, u64) {
    let stop = AtomicBool::new(false);
    let counts: Vec<_> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let (start, cpu) = (Instant::now(), cpu_us());
    std::thread::scope(|scope| {
        for id in 0..threads {
            let (work, stop, counts) = (&work, &stop, &counts);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work(id);
                    counts[id].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(ROUND);
        stop.store(true, Ordering::Relaxed);
    });
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_us() - cpu);
    let counts: Vec<u64> = counts.into_iter().map(AtomicU64::into_inner).collect();
    let total = counts.iter().sum::<u64>();
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    (total as f64 / seconds, cpu as f64 / total as f64, least, most)
}

/// Files in memory whose syncs take as long as those of the disk of the reference machine. So a
/// machine that is in use can still compare two ways to commit. `MODEL=1` selects it.
#[derive(Debug, Default)]
struct DeviceModel {
    syncing: AtomicU64,
}

/// A write and sync alone, and what each sync in flight adds, microseconds.
const MODEL_ALONE_US: u64 = 70;
const MODEL_EACH_US: u64 = 17;
/// Processor time of a sync, microseconds.
const MODEL_CPU_US: u64 = 12;

impl Interceptor for DeviceModel {
    fn sync_dir(&self, _: &dyn Disk, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn is_durable(&self, _: &dyn Disk, _: &Path) -> bool {
        false
    }
    fn sync(&self, _: &dyn File, _: &Path) -> io::Result<()> {
        let start = Instant::now();
        let others = self.syncing.fetch_add(1, Ordering::Relaxed);
        let until = Duration::from_micros(MODEL_ALONE_US + MODEL_EACH_US * (others + 1));
        while start.elapsed() < Duration::from_micros(MODEL_CPU_US) {}
        std::thread::sleep(until.saturating_sub(start.elapsed()));
        self.syncing.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    fn is_direct(&self, _: &dyn File) -> bool {
        true
    }
}

fn modelled() -> bool {
    knob("MODEL", 0) == 1
}

fn vfs() -> Vfs {
    let os = Vfs::os();
    if !modelled() {
        return os;
    }
    // Sleeps are as exact as the interrupts of a device; threads inherit the setting.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).unwrap();
    Vfs::intercepted(os.disk, os.clock, Arc::new(DeviceModel::default()))
}

/// The bare device: a zero-written file whose blocks are overwritten in turn.
struct Device {
    file: Arc<dyn File>,
    next: AtomicU64,
}

impl Device {
    fn new(dir: &TempDir) -> Device {
        let mode = OpenMode { create: Create::New, direct: true, read_only: false };
        let file = vfs().disk.open(&dir.0.join("device"), mode).unwrap();
        let zeros = AlignedBuf::zeroed(1 << 20);
        for at in (0..DEVICE_FILE_BLOCKS * 4096).step_by(zeros.len()) {
            file.write_at(&zeros, at).unwrap();
        }
        file.sync().unwrap();
        Device { file, next: AtomicU64::new(0) }
    }

    fn round(&self, threads: usize) -> (f64, f64) {
        let buffers: Vec<_> = (0..threads).map(|_| AlignedBuf::zeroed(4096)).collect();
        let (rate, cpu, ..) = round(threads, |id| {
            let block = self.next.fetch_add(1, Ordering::Relaxed) % DEVICE_FILE_BLOCKS;
            self.file.write_at(&buffers[id], block * 4096).unwrap();
            self.file.sync().unwrap();
        });
        (rate, cpu)
    }
}

/// A log with the two threads that the engine gives it.
struct Running {
    log: Arc<Log>,
    metrics: Arc<Metrics>,
    stop: Arc<AtomicBool>,
    thread: base::sync::Unparker,
    handles: Vec<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(dir: &TempDir, flush_depth: u32) -> Running {
        let (vfs, metrics, poison) = (vfs(), Arc::new(Metrics::new()), Arc::new(Poison::default()));
        let segments = Segments::open(&vfs, &dir.0, SHAPE, &metrics).unwrap();
        let options = LogOptions { ring_blocks: RING_BLOCKS, flush_depth };
        let start = LogStart { lsn: Lsn(0), end: Lsn(0), prev_used: PAYLOAD_BYTES as u16, epoch: 1 };
        let parker = Parker::new();
        let thread = parker.unparker();
        let log = Arc::new(Log::new(&vfs, options, start, segments, thread.clone(), &metrics, &poison));
        let files = CAPACITY_BYTES / log.segments().block_bytes();
        log.segments()
            .make_more(files.saturating_sub(log.segments().count()), Lsn(0))
            .map_err(|(_, e)| e)
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut handles = Vec::new();
        let (l, s) = (Arc::clone(&log), Arc::clone(&stop));
        handles.push(std::thread::spawn(move || {
            l.serve(&parker, &s);
        }));
        let (l, s) = (Arc::clone(&log), Arc::clone(&stop));
        handles.push(std::thread::spawn(move || {
            while !s.load(Ordering::Acquire) {
                l.segments().recycle_below(l.durable_lsn()).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
        }));
        Running { log, metrics, stop, thread, handles }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
        self.handles.drain(..).for_each(|h| h.join().unwrap());
    }
}

/// A group of about `bytes` bytes that ends with a commit.
fn build(group: &mut Vec<u8>, id: usize, bytes: usize) {
    group::begin(group);
    let op = [7u8; 512];
    group::put_record(group, &Record::Page { page: PageNo(id as u32), prev: 0, op: &op[..bytes - 27] });
    group::put_record(group, &Record::Commit { txn: TxnId(id as u64) });
}

/// The figures of a round of commits.
#[derive(Clone, Copy, Default)]
struct RoundFigures {
    ratio: f64,
    rate: f64,
    per_flush: f64,
    depth: f64,
    cpu: f64,
    fairness: f64,
    pad: f64,
}

/// One round: each of `threads` threads works `work_us`, then commits a group of 150 bytes.
fn commits(running: &Running, threads: usize, work_us: u64) -> RoundFigures {
    let count = |m| running.metrics.get(m) as f64;
    let read = || [count(M::LogFlushes), count(M::RedoPadBytes), count(M::RedoBytesWritten)];
    let before = read();
    let (depth, commits) = (AtomicU64::new(0), AtomicU64::new(0));
    let (rate, cpu, least, most) = round(threads, |id| {
        thread_local!(static GROUP: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        GROUP.with_borrow_mut(|group| {
            let start = Instant::now();
            while start.elapsed().as_micros() < u128::from(work_us) {}
            build(group, id, 150);
            let committing = running.log.committing();
            let lsn = running.log.append(group, |_| running.log.count_commit());
            let info = running.log.flush_to(lsn, SyncReason::Commit).unwrap();
            drop(committing);
            depth.fetch_add(info.flush_depth, Ordering::Relaxed);
            commits.fetch_add(1, Ordering::Relaxed);
        });
    });
    let after = read();
    let commits = commits.into_inner() as f64;
    RoundFigures {
        ratio: 0.0,
        rate,
        per_flush: commits / (after[0] - before[0]),
        depth: depth.into_inner() as f64 / commits,
        cpu,
        fairness: least as f64 / most as f64,
        pad: (after[1] - before[1]) / (after[2] - before[2]),
    }
}

/// Runs rounds of every depth in turn, each beside a round of the device.
fn compare(device: &Device, depths: &[u32], threads: usize, work_us: u64) {
    let dirs: Vec<_> = depths.iter().map(|d| (TempDir::new(&format!("log-{threads}-{d}")), *d)).collect();
    let runs: Vec<_> = dirs.iter().map(|(dir, depth)| Running::new(dir, *depth)).collect();
    let mut shown: Vec<Vec<RoundFigures>> = vec![Vec::new(); runs.len()];
    let mut bare = Vec::new();
    let turns = knob("PAIRS", 9);
    let mut dropped = 0;
    for _ in 0..turns {
        for (run, shown) in runs.iter().zip(&mut shown) {
            let (before, _) = device.round(1);
            let seen = commits(run, threads, work_us);
            let (after, _) = device.round(1);
            // Other work used the disk or the cores.
            if before.min(after) < 0.6 * before.max(after) || before < DEVICE_AT_LEAST {
                dropped += 1;
                continue;
            }
            bare.push(before);
            shown.push(RoundFigures { ratio: seen.rate * 2.0 / (before + after), ..seen });
        }
    }
    if bare.is_empty() {
        return println!("  {threads:>7}: every round was disturbed");
    }
    println!(
        "  {threads:>7}  ({work_us} us of work each; device {:.0}/s; {dropped} rounds dropped)",
        median(bare)
    );
    for (depth, shown) in depths.iter().zip(shown).filter(|(_, s)| !s.is_empty()) {
        let m = |column: fn(&RoundFigures) -> f64| median(shown.iter().map(column).collect());
        println!(
            "  depth {depth}  {:>9.0}   {:>5.2}  {:>13.2}  {:>5.2}  {:>6.1}  {:>10.2}  {:>4.1}",
            m(|s| s.rate),
            m(|s| s.ratio),
            m(|s| s.per_flush),
            m(|s| s.depth),
            m(|s| s.cpu),
            m(|s| s.fairness),
            m(|s| s.pad)
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn durable_commits_against_the_device() {
    let dir = TempDir::new("commit");
    let device = Device::new(&dir);
    println!("device alone, overwrites and syncs of 4 KiB on one file:");
    for threads in [1, 2, 4, 8, 16] {
        let rounds: Vec<_> = (0..3).map(|_| device.round(threads)).collect();
        let rate = median(rounds.iter().map(|r| r.0).collect());
        let cpu = median(rounds.iter().map(|r| r.1).collect());
        println!("  {threads:>2} in flight  {rate:>8.0}/s  {cpu:>5.1} us of processor each");
    }
    println!("log against one overwrite and sync at a time, medians:");
    println!("  threads  commits/s   ratio  commits/flush  depth  us cpu  least/most  pad");
    let depths: &[u32] = match knob("DEPTH", 0) {
        0 => &[1, 2, 3, 4],
        depth => &[depth as u32],
    };
    for threads in [1, 2, 4, 8, 16, 64] {
        if knob("THREADS", threads) == threads {
            compare(&device, depths, threads as usize, knob("WORK", 0));
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn appends_without_syncs() {
    let dir = TempDir::new("append");
    let running = Running::new(&dir, 4);
    println!("appends of 200 bytes, without waiting for durability:");
    for threads in [1, 2, 16] {
        let (rate, cpu, ..) = round(threads, |id| {
            let mut group = Vec::with_capacity(256);
            for _ in 0..64 {
                build(&mut group, id, 200);
                running.log.make_room().unwrap();
                running.log.append(&mut group, |_| ());
            }
        });
        let ns = 1e9 / (rate * 64.0);
        println!(
            "  {threads:>2} threads  {:>9.0}/s  {ns:>6.0} ns each, {:>5.0} ns cpu",
            rate * 64.0,
            cpu * 1000.0 / 64.0
        );
    }
}
