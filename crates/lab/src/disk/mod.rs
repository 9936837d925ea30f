//! `millpond disk`: what the disk under a directory does, for those who tune database servers.
//!
//! `transfers` are reads and writes, `durable_writes` small writes with their syncs, `flush_cost`
//! tells a flush from the write before it. `verdict` and `consequences` decide what follows, and
//! `table` prints all of it. The files have names while they are used: some file systems sync
//! nothing of a file without a name.

mod consequences;
mod durable_writes;
mod flush_cost;
mod latencies;
mod result;
mod short;
mod table;
mod tested_dir;
mod transfers;
mod verdict;

pub(crate) use table::table;

use crate::mount::check_room;
use crate::others::Others;
use crate::progress::Progress;
use crate::report::machine_facts;
use crate::run_dir::RunDir;
use crate::test_file::TestFile;
use consequences::Consequences;
use durable_writes::DurableWriteResult;
use flush_cost::FlushCost;
use output::failure::{Failure, Outcome};
use result::{Cache, Conditions, DiskResult};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tested_dir::TestedDir;
use transfers::TransferResult;
use verdict::judge;

/// The least size of the file, bytes: the largest blocks need some places.
pub(crate) const LEAST_BYTES: u64 = 16 << 20;

/// How often the progress line is renewed.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct DiskRun {
    /// The directory in question.
    pub(crate) dir: PathBuf,
    /// How long each measurement takes.
    pub(crate) time: Duration,
    /// The size of the file that is read and written.
    pub(crate) file_bytes: u64,
}

/// What was measured.
struct Measured {
    direct: bool,
    transfers: Vec<TransferResult>,
    flush: Option<FlushCost>,
    durable_writes: Vec<DurableWriteResult>,
}

impl DiskRun {
    /// Measures, and removes the files.
    pub(crate) fn run(&self) -> Outcome<DiskResult> {
        let disk = TestedDir::of(&self.dir)?;
        let needed = self.file_bytes.saturating_add(durable_writes::ALL_BYTES);
        check_room(&self.dir, needed, "give a smaller --size")?;
        let work = RunDir::fresh_in(&self.dir)?;
        let others = Others::watch(disk.device.as_ref());
        let measured = self.measure(work.dir(), !disk.memory).map_err(|error| self.failed(&error))?;
        drop(work);
        let device = disk.device.as_ref();
        let cost = measured.flush.as_ref();
        let verdict = judge(disk.memory, cost, device);
        let cache = Cache { verdict, sentence: verdict.sentence(cost, device) };
        let wanted = ["cores", "memory", "kernel"];
        let facts = machine_facts(Some(&self.dir), !disk.memory);
        let machine: BTreeMap<&str, String> =
            facts.into_iter().filter(|(name, _)| wanted.contains(name)).collect();
        Ok(DiskResult {
            version: env!("CARGO_PKG_VERSION"),
            directory: self.dir.display().to_string(),
            conditions: Conditions {
                seconds_each: self.time.as_secs_f64(),
                file_bytes: self.file_bytes,
                direct_io: measured.direct,
                others,
            },
            machine,
            consequences: Consequences::of(&measured.durable_writes, cost, &measured.transfers),
            transfers: measured.transfers,
            durable_writes: measured.durable_writes,
            flush: measured.flush,
            cache,
            disk,
        })
    }

    fn measure(&self, work: &Path, durable: bool) -> io::Result<Measured> {
        let mut shown = Shown { progress: Progress::on_stderr(), at: Instant::now() };
        let test = TestFile::make(&work.join("file"), self.file_bytes, durable, |share| {
            shown.line(|| format!("writes the file: {:.0} %", share * 100.0));
        })?;
        let (transfers, writes) = (transfers::plan(), durable_writes::plan());
        let all = transfers.len() + 1 + writes.len();
        let mut n = 0;
        let mut next = |what: &str| {
            n += 1;
            shown.line(|| format!("measurement {n} of {all}: {what}"));
        };
        let transfers = transfers.into_iter().map(|transfer| {
            next("reads and writes");
            transfer.run(&test, self.time)
        });
        let transfers = transfers.collect::<io::Result<_>>()?;
        next("flushes");
        let flush = FlushCost::measure(&test, self.time)?;
        let writes = writes.into_iter().map(|write| {
            next("small durable writes");
            write.run(work, self.time)
        });
        let durable_writes = writes.collect::<io::Result<_>>()?;
        Ok(Measured { direct: test.is_direct(), transfers, flush, durable_writes })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let dir = self.dir.display();
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ": free space, or give a smaller --size"
            }
            _ => "",
        };
        Failure::failed(format!("the measurement in {dir} failed: {error}{advice}"))
    }
}

/// The progress line, renewed once a second.
struct Shown {
    progress: Progress,
    /// When it was last shown, or the run began.
    at: Instant,
}

impl Shown {
    fn line(&mut self, text: impl FnOnce() -> String) {
        if self.at.elapsed() >= SHOWN_EVERY {
            self.at = Instant::now();
            self.progress.show(&text());
        }
    }
}
