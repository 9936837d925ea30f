//! `millpond bench [NAME]`: runs one benchmark, or lists all of them.

use crate::bench::after_kill::{AfterKill, ReplayCost};
use crate::bench::big_transaction::BigTransaction;
use crate::bench::bulk_load::BulkLoad;
use crate::bench::burst::Burst;
use crate::bench::cold_scan::ColdScan;
use crate::bench::doublewrite::Doublewrite;
use crate::bench::durable_updates::DurableUpdates;
use crate::bench::hogs::Hogs;
use crate::bench::hot_rows::HotRows;
use crate::bench::io_bound::IoBound;
use crate::bench::laws::Laws;
use crate::bench::log_sizes::LogSizes;
use crate::bench::long_snapshot::LongSnapshot;
use crate::bench::queue::Queue;
#[cfg(feature = "watch")]
use crate::bench::replay::Replay;
use crate::bench::stalls::Stalls;
use crate::bench::tables::Tables;
use crate::bench::writing_threads::WritingThreads;
use clap::Subcommand;
use output::failure::Outcome;
use output::print;
use output::stop;

/// Run one benchmark; without a name, list them
#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "NAME",
    subcommand_help_heading = "Benchmarks"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
}

/// Each line of help is at the benchmark's flags.
#[derive(Debug, Subcommand)]
enum Benchmark {
    AfterKill(AfterKill),
    BigTransaction(BigTransaction),
    BulkLoad(BulkLoad),
    Burst(Burst),
    ColdScan(ColdScan),
    Doublewrite(Doublewrite),
    DurableUpdates(DurableUpdates),
    Hogs(Hogs),
    HotRows(HotRows),
    IoBound(IoBound),
    Laws(Laws),
    LogSizes(LogSizes),
    LongSnapshot(LongSnapshot),
    Queue(Queue),
    #[cfg(feature = "watch")]
    Replay(Replay),
    ReplayCost(ReplayCost),
    Stalls(Stalls),
    Tables(Tables),
    WritingThreads(WritingThreads),
}

impl Bench {
    pub(crate) fn run(self) -> Outcome {
        let Some(benchmark) = self.benchmark else {
            print(&list());
            return Ok(());
        };
        stop::exit_when_asked();
        match benchmark {
            Benchmark::AfterKill(bench) => bench.run(),
            Benchmark::BigTransaction(bench) => bench.run(),
            Benchmark::BulkLoad(bench) => bench.run(),
            Benchmark::Burst(bench) => bench.run(),
            Benchmark::ColdScan(bench) => bench.run(),
            Benchmark::Doublewrite(bench) => bench.run(),
            Benchmark::DurableUpdates(bench) => bench.run(),
            Benchmark::Hogs(bench) => bench.run(),
            Benchmark::HotRows(bench) => bench.run(),
            Benchmark::IoBound(bench) => bench.run(),
            Benchmark::Laws(bench) => bench.run(),
            Benchmark::LogSizes(bench) => bench.run(),
            Benchmark::LongSnapshot(bench) => bench.run(),
            Benchmark::Queue(bench) => bench.run(),
            #[cfg(feature = "watch")]
            Benchmark::Replay(bench) => bench.run(),
            Benchmark::ReplayCost(bench) => bench.run(),
            Benchmark::Stalls(bench) => bench.run(),
            Benchmark::Tables(bench) => bench.run(),
            Benchmark::WritingThreads(bench) => bench.run(),
        }
    }
}

/// Returns a line for each benchmark, from its help.
fn list() -> String {
    let all = Benchmark::augment_subcommands(clap::Command::new("bench"));
    let line = |bench: &clap::Command| {
        let about = bench.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{:<18} {about}\n", bench.get_name())
    };
    all.get_subcommands().map(line).collect()
}
