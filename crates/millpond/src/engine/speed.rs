//! How calm the write path is: single-row updates of random keys by many threads on the real disk, second by second.
//! Not a test of anything by itself: it takes half a minute and its figures depend on the machine.
//!
//! ```text
//! cargo test --release -p millpond --lib engine::speed -- --ignored --nocapture
//! ```
//! `MILLPOND_SPEED` holds words `name=number` that override the defaults: seconds, threads, rows, redo_mib, pool_mib,
//! segment_blocks, sync (0: commits are not waited for), doublewrite_pages, flush_depth.

use super::Engine;
use super::tests::put;
use crate::btree::Tree;
use crate::options::{Options, Tuning};
use base::TreeId;
use base::prng::Prng;
use metrics::{FileKind, Force, M, Snapshot, SyncReason};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfs::Vfs;

struct Setup {
    seconds: u64,
    threads: u64,
    rows: u64,
    redo_mib: u64,
    pool_mib: u64,
    segment_blocks: u64,
    sync: u64,
    doublewrite_pages: u64,
    flush_depth: u64,
}

impl Setup {
    fn from_env() -> Setup {
        let tuning = Tuning::default();
        let mut setup = Setup {
            seconds: 30,
            threads: 16,
            rows: 1_000_000,
            redo_mib: 96,
            pool_mib: 512,
            segment_blocks: tuning.segment_blocks,
            sync: 1,
            doublewrite_pages: tuning.doublewrite_pages as u64,
            flush_depth: u64::from(tuning.flush_depth),
        };
        let words = std::env::var("MILLPOND_SPEED").unwrap_or_default();
        for word in words.split_whitespace() {
            let (name, value) = word.split_once('=').expect("name=number");
            let value = value.parse().expect("a number");
            match name {
                "seconds" => setup.seconds = value,
                "threads" => setup.threads = value,
                "rows" => setup.rows = value,
                "redo_mib" => setup.redo_mib = value,
                "pool_mib" => setup.pool_mib = value,
                "segment_blocks" => setup.segment_blocks = value,
                "sync" => setup.sync = value,
                "doublewrite_pages" => setup.doublewrite_pages = value,
                "flush_depth" => setup.flush_depth = value,
                _ => panic!("unknown word {word}"),
            }
        }
        setup
    }
}

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn value(rng: &mut Prng) -> Vec<u8> {
    let mut value = vec![0; 200];
    rng.fill(&mut value);
    value
}

fn line(second: u64, rows: u64, was: &Snapshot, now: &Snapshot) -> String {
    let d = now.minus(was);
    let forces = d.pages_by_force();
    let force = |f: Force| forces.iter().find(|(name, _)| *name == f.label()).map_or(0, |(_, n)| *n);
    format!(
        "{second:>3} {rows:>7} {:>6.1} {:>6.1} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>4} {:>5} {:>6.1} {:>6.1} {:>5} {:>4}",
        d.value(M::CheckpointAgeBytes) as f64 / 1048576.0,
        d.value(M::CheckpointAgeSoft) as f64 / 1048576.0,
        d.value(M::DirtyPages),
        force(Force::CheckpointAge),
        force(Force::FreeFrames),
        force(Force::DirtyShare),
        d.value(M::PageWritesIo),
        d.value(M::PageBatches),
        d.value(M::ThrottledUsTotal) / 1000,
        d.value(M::HardWaits),
        d.value(M::FreeFrameWaits),
        d.value(M::RedoBytesWritten) as f64 / 1048576.0,
        d.value(M::RedoPadBytes) as f64 / 1048576.0,
        d.value(M::LogFlushes),
        d.value(M::Checkpoints),
    )
}

#[test]
#[ignore = "takes half a minute and judges the machine as much as the engine"]
fn random_updates_second_by_second() {
    let setup = Setup::from_env();
    let dir = Dir(std::env::current_dir().unwrap().join(format!("speed-{}", std::process::id())));
    let mut options =
        Options::new().redo_capacity_bytes(setup.redo_mib << 20).buffer_pool_bytes(setup.pool_mib << 20);
    options.tuning.segment_blocks = setup.segment_blocks;
    options.tuning.doublewrite_pages = setup.doublewrite_pages as usize;
    options.tuning.flush_depth = setup.flush_depth as u32;
    let engine = Engine::open(&Vfs::os(), &dir.0, &options).unwrap();
    let tree = Tree::create(&engine.store, TreeId(7)).unwrap();
    let begun = Instant::now();
    let mut rng = Prng::new(1);
    for n in 0..setup.rows {
        let _admitted = engine.admission().admit(500).unwrap();
        put(&engine, tree, n, &n.to_be_bytes(), &value(&mut rng)).unwrap();
    }
    engine.checkpoint().unwrap();
    println!("loaded {} rows in {:.1} s", setup.rows, begun.elapsed().as_secs_f64());
    println!(
        "  s  rows/s age MiB soft    dirty byAge  byFree byShar    IOs batches thr ms hard fwait redoMiB  padMiB flush ckpt"
    );

    let (stop, rows) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut seconds = Vec::new();
    std::thread::scope(|scope| {
        for id in 0..setup.threads {
            let (engine, stop, rows, setup) = (&engine, &stop, &rows, &setup);
            scope.spawn(move || {
                let mut rng = Prng::new(id + 100);
                while !stop.load(Ordering::Relaxed) {
                    let (key, value) = (rng.below(setup.rows).to_be_bytes(), value(&mut rng));
                    let log = &engine.store.log;
                    let _inside = engine.calls().enter();
                    let admitted = engine.admission().admit(500).unwrap();
                    let lsn = put(engine, tree, rng.next_u64() >> 20, &key, &value).unwrap();
                    drop(admitted);
                    if setup.sync != 0 {
                        log.count_commit();
                        log.flush_to(lsn, SyncReason::Commit).unwrap();
                    }
                    rows.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut was, mut before) = (engine.metrics(), 0);
        let begun = Instant::now();
        for second in 1..=setup.seconds {
            std::thread::sleep(
                (begun + Duration::from_secs(second)).saturating_duration_since(Instant::now()),
            );
            let (now, total) = (engine.metrics(), rows.load(Ordering::Relaxed));
            println!("{}", line(second, total - before, &was, &now));
            seconds.push(total - before);
            (was, before) = (now, total);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut sorted = seconds.clone();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let end = engine.metrics();
    println!(
        "median {median} rows/s, worst second {:.2} of it, best {:.2}; segments created {}, recycled {}",
        sorted[0] as f64 / median as f64,
        *sorted.last().unwrap() as f64 / median as f64,
        end.value(M::LogSegmentsCreated),
        end.value(M::LogSegmentsRecycled),
    );
    for row in end.fsyncs() {
        println!(
            "  sync {:>11} {:>15}: {:>8}, mean {:>5} µs, p99 {:>6}, max {:>7}",
            FileKind::label(row.file),
            row.reason.label(),
            row.took.count(),
            row.took.sum_us() / row.took.count().max(1),
            row.took.quantile(0.99),
            row.took.max_us(),
        );
    }
    engine.close().unwrap();
}
