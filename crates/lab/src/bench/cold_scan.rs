//! `millpond bench cold-scan`: scans of a table that is not in memory, compared with the bare
//! device.

use super::device::Device;
use super::random::next;
use super::{figure, median, scratch};
use crate::own_process;
use millpond::{Db, Options};
use output::failure::{Failure, Outcome};
use output::units::parse_size;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

const NOTES: &str = "\
Each scan follows another opening; the engine reads its files without the system's cache. With
reading ahead a scan reads up to 64 leaves together, without it one leaf after the other. The
variants take turns; the figures are medians. An I/O is one read of the pages file, of one page or
of many at once. The device reads one MiB after the other.";

/// Scans of a table that is not in memory, with and without reading ahead
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct ColdScan {
    /// Rows
    #[arg(long, value_name = "R", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1000))]
    value_bytes: u64,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pool: u64,
    /// How often each scan is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// One of the scans that take turns.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    backward: bool,
    read_ahead: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "forward, reading ahead", backward: false, read_ahead: true },
    Variant { name: "forward, leaf by leaf", backward: false, read_ahead: false },
    Variant { name: "backward, reading ahead", backward: true, read_ahead: true },
    Variant { name: "backward, leaf by leaf", backward: true, read_ahead: false },
];

/// What one scan took.
#[derive(Clone, Copy)]
struct Measured {
    seconds: f64,
    pages: f64,
    ios: f64,
}

impl ColdScan {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = dir.dir().join("db");
        self.load(&db)?;
        let (mut device, mut scans) = (Vec::new(), VARIANTS.map(|variant| (variant, Vec::new())));
        for _ in 0..self.rounds {
            let bytes = (self.rows * (8 + self.value_bytes)).next_multiple_of(1 << 20);
            device.push(Device::sequential(&dir.dir().join("device"), bytes)?.1);
            for (variant, measured) in &mut scans {
                measured.push(self.scan(&db, *variant)?);
            }
        }
        let device = median(device);
        say!("device, sequential: {device:.0} MB/s");
        say!(
            "{:<24} {:>12} {:>8} {:>10} {:>8} {:>12}",
            "scan",
            "rows/s",
            "MB/s",
            "of device",
            "I/Os",
            "pages an I/O"
        );
        for (variant, measured) in scans {
            self.report(variant, &measured, device);
        }
        Ok(())
    }

    fn load(&self, dir: &Path) -> Outcome {
        let db = self.options().open(dir)?;
        let mut state = 1;
        let source: Vec<u8> = (0..1 << 16).map(|_| next(&mut state) as u8).collect();
        let value_bytes = self.value_bytes as usize;
        let value = |n: u64| &source[n as usize * 37 % (source.len() - value_bytes)..][..value_bytes];
        db.bulk_load("t", (0..self.rows).map(|n| (n.to_be_bytes(), value(n))))?;
        Ok(db.close()?)
    }

    fn options(&self) -> Options {
        own_process::options().buffer_pool_bytes(self.pool)
    }

    fn scan(&self, dir: &Path, variant: Variant) -> Outcome<Measured> {
        let db = self.options().read_ahead(variant.read_ahead).open(dir)?;
        let table = db.open_table("t")?;
        let now = |db: &Db| [figure(db, "pages_read"), figure(db, "page_read_us.count")];
        let (before, start, tx) = (now(&db), Instant::now(), db.begin()?);
        let mut rows = 0;
        if variant.backward {
            for row in tx.range(&table, ..)?.rev() {
                row?;
                rows += 1;
            }
        } else {
            tx.scan(&table, .., |_, _| {
                rows += 1;
                ControlFlow::Continue(())
            })?;
        }
        let (seconds, after) = (start.elapsed().as_secs_f64(), now(&db));
        drop(tx);
        if rows != self.rows {
            return Err(Failure::failed(format!("{rows} rows instead of {}", self.rows)));
        }
        db.close()?;
        Ok(Measured { seconds, pages: after[0] - before[0], ios: after[1] - before[1] })
    }

    fn report(&self, variant: Variant, measured: &[Measured], device: f64) {
        let of = |part: fn(&Measured) -> f64| median(measured.iter().map(part).collect());
        let (seconds, pages, ios) = (of(|m| m.seconds), of(|m| m.pages), of(|m| m.ios));
        // Bytes of rows: a device would have to read no less.
        let rate = (self.rows * (8 + self.value_bytes)) as f64 / 1e6 / seconds;
        say!(
            "{:<24} {:>12.0} {rate:>8.0} {:>10.2} {ios:>8.0} {:>12.1}",
            variant.name,
            self.rows as f64 / seconds,
            rate / device,
            pages / ios.max(1.0),
        );
    }
}
