//! How fast commits become durable, against the bare device. Run by hand, on an idle machine:
//!
//! ```text
//! cargo test --release -p millpond --lib log::speed -- --ignored --nocapture --test-threads 1
//! ```
//! Rounds of the device and rounds of the log alternate, and medians of the pairs' ratios are printed, because the device
//! is not equally fast at all times. Files lie below the current directory: `/tmp` may be memory.

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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{Create, File, OpenMode, Vfs};

/// As a database has them by default.
const SHAPE: SegmentShape = SegmentShape { db_id: 77, blocks: 4096 };
const RING_BLOCKS: usize = 2048;
const CAPACITY_BYTES: u64 = 64 << 20;
const DEVICE_FILE_BLOCKS: u64 = 16 << 10;
const ROUND: Duration = Duration::from_millis(700);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let here = std::env::current_dir().unwrap();
        let place = Place(here.join(format!("speed-{name}-{}", std::process::id())));
        std::fs::create_dir(&place.0).unwrap();
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap())
}

/// Processor time of this process so far, microseconds.
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

/// Runs `work(thread)` on `threads` threads for a round; each call is one thing done. Returns how many a second, the
/// processor microseconds that each took, and the counts of the thread that did least and most.
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

/// The bare device: a zero-written file whose blocks are overwritten in turn.
struct Device {
    file: Arc<dyn File>,
    next: AtomicU64,
}

impl Device {
    fn new(place: &Place) -> Device {
        let mode = OpenMode { create: Create::New, direct: true, read_only: false };
        let file = Vfs::os().disk.open(&place.0.join("device"), mode).unwrap();
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

/// A log with the two threads that an engine gives it.
struct Running {
    log: Arc<Log>,
    metrics: Arc<Metrics>,
    stop: Arc<AtomicBool>,
    thread: base::sync::Unparker,
    handles: Vec<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(place: &Place) -> Running {
        let (vfs, metrics, poison) = (Vfs::os(), Arc::new(Metrics::new()), Arc::new(Poison::default()));
        let segments = Segments::open(&vfs, &place.0, SHAPE, &metrics).unwrap();
        let options = LogOptions {
            ring_blocks: RING_BLOCKS,
            flush_depth: knob("DEPTH", 4) as u32,
            cores: std::thread::available_parallelism().unwrap().get() as u32,
        };
        let start = LogStart { lsn: Lsn(0), prev_used: PAYLOAD_BYTES as u16, epoch: 1 };
        let parker = Parker::new();
        let thread = parker.unparker();
        let log = Arc::new(Log::new(&vfs, options, start, segments, thread.clone(), &metrics, &poison));
        while log.segments().prepare(Lsn(0), Lsn(0), CAPACITY_BYTES).unwrap() {}
        let stop = Arc::new(AtomicBool::new(false));
        let mut handles = Vec::new();
        let (l, s) = (Arc::clone(&log), Arc::clone(&stop));
        handles.push(std::thread::spawn(move || {
            while !s.load(Ordering::Acquire) {
                if !l.lead_if_wanted().unwrap() {
                    parker.park();
                }
            }
        }));
        let (l, s) = (Arc::clone(&log), Arc::clone(&stop));
        handles.push(std::thread::spawn(move || {
            while !s.load(Ordering::Acquire) {
                let durable = l.durable_lsn();
                while l.segments().prepare(durable, l.reserved_lsn(), CAPACITY_BYTES).unwrap() {}
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

#[test]
#[ignore = "a measurement"]
fn durable_commits_against_the_device() {
    let place = Place::new("commit");
    let device = Device::new(&place);
    let pairs = knob("PAIRS", 7);
    println!("device alone, overwrites and syncs of 4 KiB on one file:");
    for threads in [1, 2, 4, 8, 16] {
        let (rate, cpu) = device.round(threads);
        println!("  {threads:>2} in flight  {rate:>8.0}/s  {cpu:>5.1} us of processor each");
    }
    println!("log against one overwrite and sync at a time, medians of {pairs} pairs:");
    println!("  threads   device/s   commits/s   ratio  commits/flush  depth  us cpu  least/most  pad");
    for threads in [1, 4, 16, 64] {
        if knob("THREADS", threads) != threads {
            continue;
        }
        let threads = threads as usize;
        let dir = Place::new(&format!("log-{threads}"));
        let running = Running::new(&dir);
        let mut rows: Vec<[f64; 8]> = Vec::new();
        for _ in 0..pairs {
            let (bare, _) = device.round(1);
            let before = running.metrics.get(M::LogFlushes);
            let pads = running.metrics.get(M::RedoPadBytes);
            let bytes = running.metrics.get(M::RedoBytesWritten);
            let depth = AtomicU64::new(0);
            let commits = AtomicU64::new(0);
            let (rate, cpu, least, most) = round(threads, |id| {
                thread_local!(static GROUP: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
                GROUP.with_borrow_mut(|group| {
                    build(group, id, 150);
                    let committing = running.log.committing();
                    let lsn = running.log.append(group, |_| running.log.count_commit());
                    let info = running.log.flush_to(lsn, SyncReason::Commit).unwrap();
                    drop(committing);
                    depth.fetch_add(info.flush_depth, Ordering::Relaxed);
                    commits.fetch_add(1, Ordering::Relaxed);
                });
            });
            let flushes = (running.metrics.get(M::LogFlushes) - before) as f64;
            let commits = commits.into_inner() as f64;
            let pad = (running.metrics.get(M::RedoPadBytes) - pads) as f64;
            let bytes = (running.metrics.get(M::RedoBytesWritten) - bytes) as f64;
            rows.push([
                bare,
                rate,
                rate / bare,
                commits / flushes,
                depth.into_inner() as f64 / commits,
                cpu,
                least as f64 / most as f64,
                pad / bytes,
            ]);
        }
        let m = |column: usize| median(rows.iter().map(|row| row[column]).collect());
        println!(
            "  {threads:>7}   {:>8.0}   {:>9.0}   {:>5.2}  {:>13.2}  {:>5.2}  {:>6.1}  {:>10.2}  {:>4.1}",
            m(0),
            m(1),
            m(2),
            m(3),
            m(4),
            m(5),
            m(6),
            m(7)
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn appends_without_syncs() {
    let place = Place::new("append");
    let running = Running::new(&place);
    println!("appends of 200 bytes, nobody waits for durability:");
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
