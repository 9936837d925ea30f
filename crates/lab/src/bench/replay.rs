//! `millpond bench replay`: how long `plot` takes to read and draw a full flight recorder.

use super::scratch;
use base::prng::Prng;
use metrics::recording::{Moment, Writer};
use metrics::{FileKind, Latency, M, Metrics, SyncReason};
use millpond::Options;
use output::failure::{Failure, Outcome};
use std::time::Instant;
use watch::WatchedReport;

/// Chunks of the recorder's ring.
const CHUNKS: u32 = 32;

const NOTES: &str = "\
The recording is that of a busy database: about twenty counters and levels, the histograms of
commits and syncs change every second. The ring holds what fits into 8 MiB. `read` is from the file
to samples, `draw` from there to all plots and the page.";

/// How long does `plot` take to read and draw hours of a flight recorder?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Replay {
    /// Hours of the recording
    #[arg(long, value_name = "N", default_value_t = 6.0, value_parser = hours)]
    hours: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of hours"))?;
    if (0.001..=1000.0).contains(&hours) { Ok(hours) } else { Err("from 0.001 to 1000 hours".to_owned()) }
}

impl Replay {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        Options::new().buffer_pool_bytes(16 << 20).open(dir.dir())?.close()?;
        let bytes = recording((self.hours * 3600.0) as u64);
        let file = dir.dir().join("recorder");
        std::fs::write(&file, &bytes)
            .map_err(|e| Failure::failed(format!("cannot write {}: {e}", file.display())))?;
        let start = Instant::now();
        let input = watch::load(dir.dir(), 0.0, &|_, _| true)?;
        let read = start.elapsed();
        let (samples, hours) = (input.samples.seconds.len(), input.samples.end() / 3600.0);
        let (inputs, command) = (&[input], String::new());
        let report = WatchedReport { inputs, figures: &[], single: false, averages: false, command };
        let files = report.draw().map_err(Failure::failed)?.files;
        let all = start.elapsed();
        let plots = files.len() - 1;
        say!("{} bytes, {samples} samples, {hours:.2} hours, {plots} plots", bytes.len());
        say!("{:>10} {:>10} {:>10}", "read ms", "draw ms", "both ms");
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        say!("{:>10.0} {:>10.0} {:>10.0}", ms(read), ms(all - read), ms(all));
        Ok(())
    }
}

/// Makes a recording of so many seconds.
fn recording(seconds: u64) -> Vec<u8> {
    let (mut bytes, mut writer) = Writer::create(1, CHUNKS);
    let (metrics, mut random) = (Metrics::new(), Prng::new(1));
    metrics.set(M::RedoCapacityBytes, 1 << 30);
    metrics.set(M::CheckpointAgeLimit, 900 << 20);
    metrics.set(M::CheckpointAgeSoft, 700 << 20);
    metrics.set(M::BufferFrames, 65_536);
    for second in 0..seconds {
        busy_second(&metrics, &mut random);
        let when = Moment { clock_us: second * 1_000_000, unix_seconds: 1_700_000_000 + second };
        let piece = writer.sample(when, &metrics.snapshot());
        let end = piece.offset as usize + piece.bytes.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[piece.offset as usize..end].copy_from_slice(&piece.bytes);
    }
    bytes
}

fn busy_second(metrics: &Metrics, random: &mut Prng) {
    let commits = 2000 + random.next_u64() % 1000;
    let redo = commits * 900;
    let lsn = metrics.snapshot().value(M::CurrentLsn) + redo;
    metrics.add(M::Commits, commits);
    metrics.add(M::RowUpdates, 20 * commits);
    metrics.add(M::RowInserts, 10 * commits);
    metrics.add(M::RowDeletes, 10 * commits);
    metrics.add(M::RowReads, 100 * commits);
    metrics.add(M::RedoBytesWritten, redo);
    metrics.add(M::LogBlocksWritten, redo / 4096);
    metrics.set(M::CurrentLsn, lsn);
    metrics.set(M::DurableLsn, lsn);
    let age = (300 << 20) + random.next_u64() % (50 << 20);
    metrics.set(M::CheckpointLsn, lsn.saturating_sub(age));
    metrics.set(M::CheckpointAgeBytes, age);
    metrics.set(M::DirtyPages, 20_000 + random.next_u64() % 5000);
    metrics.set(M::FreeFrames, 500 + random.next_u64() % 100);
    metrics.set(M::LruPages, 60_000);
    metrics.add(M::PagesWritten, 3000 + random.next_u64() % 500);
    metrics.add(M::LockWaits, random.next_u64() % 50);
    for _ in 0..200 {
        metrics.time(Latency::Commit, 200 + random.next_u64() % 3000);
        metrics.fsync(FileKind::Log, SyncReason::Commit, 100 + random.next_u64() % 1000, 3);
    }
}
