//! The program `millpond-compare`: the same work on Millpond and on other embedded engines, in
//! turns.
//!
//! `peer` defines what an engine must do, `peers` has one file for each engine, `work` is what they
//! do, `rounds` schedules the turns, `measure` measures one turn, and `summary`, `json` and `plot`
//! show the results. `inverted_index` is a command of its own.

mod device;
mod inverted_index;
mod json;
mod measure;
mod peer;
mod peers;
mod plot;
mod random;
mod rounds;
mod stop;
mod summary;
mod work;
mod work_dir;

use clap::Parser;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Do the same work on Millpond and on other embedded engines, and compare
#[derive(Debug, Parser)]
#[command(name = "millpond-compare", version, term_width = 0, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Engines to compare with, such as redb,fjall [default: all that are built in]
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,
    /// Which work: bulk, load, point-read, point-reads-100, scan-100, update, four-writes,
    /// unsynced, async, size [default: all]
    #[arg(long, value_name = "LIST")]
    only: Option<String>,
    /// Rows of each database, 8 bytes of key and 200 random bytes of value
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// How long each peer does each work
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// How many times all work is done, with new databases; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long random rows are updated before the size on disk is measured again
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    churn_minutes: f64,
    /// MiB of memory that each peer may use for pages or blocks
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..))]
    cache: u32,
    /// Where to make the databases: a new or empty directory [default: a new one here, removed at
    /// the end]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Write everything that was measured to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a bar chart for each work to DIR
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Combine two lists of document ids: Millpond, roaring and tantivy
    InvertedIndex(inverted_index::Flags),
}

/// The exit status and the reason of a failure: 2 for wrong arguments, 1 for work that failed.
struct Failure(u8, String);

fn misuse(text: String) -> Failure {
    Failure(2, text)
}

fn failed(text: impl ToString) -> Failure {
    Failure(1, text.to_string())
}

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(Cli { command: Some(Command::InvertedIndex(flags)), .. }) => {
            inverted_index::run(&flags).map_err(|(status, text)| Failure(status, text))
        }
        Ok(cli) => compare(&cli),
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let sentence = text.split("\n\n").next().unwrap_or_default().trim_end();
            Err(misuse(format!("{sentence} (--help tells more)")))
        }
    };
    let Err(Failure(status, text)) = done else { return ExitCode::SUCCESS };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(std::io::stderr(), "millpond-compare: {text}");
    ExitCode::from(status)
}

fn duration(number: f64, unit: f64, what: &str) -> Result<Duration, Failure> {
    let seconds = number * unit;
    if !(0.05..=1e6).contains(&seconds) {
        return Err(misuse(format!("{what} {number} is too short or too long")));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn compare(cli: &Cli) -> Result<(), Failure> {
    let plan = rounds::Plan {
        kinds: peers::choose(cli.peers.as_deref()).map_err(misuse)?,
        works: work::Work::choose(cli.only.as_deref()).map_err(misuse)?,
        rows: cli.rows,
        time: duration(cli.seconds, 1.0, "--seconds")?,
        churn: duration(cli.churn_minutes, 60.0, "--churn-minutes")?,
        rounds: usize::from(cli.rounds),
        cache_bytes: u64::from(cli.cache) << 20,
    };
    // Fails before the work, not after it.
    if let Some(path) = &cli.json {
        std::fs::write(path, "").map_err(|e| misuse(format!("cannot write {}: {e}", path.display())))?;
    }
    stop::listen().map_err(failed)?;
    let work_dir = work_dir::WorkDir::make(cli.db.as_deref()).map_err(misuse)?;
    let in_memory = work_dir.in_memory();
    let mut out = std::io::stdout().lock();
    // If the reader has ended (`| head`), this is no failure.
    let _ = writeln!(out, "{}", heading(&plan, in_memory));
    let results = rounds::run(&plan, &work_dir);
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let results = results.map_err(failed)?;
    let _ = write!(out, "{}", summary::table(&results));
    if let Some(path) = &cli.json {
        let text = format!("{:#}\n", json::json(&plan, &results, in_memory));
        std::fs::write(path, text).map_err(|e| failed(format!("cannot write {}: {e}", path.display())))?;
    }
    cli.plots.as_deref().map_or(Ok(()), |dir| plot::write(&results, dir)).map_err(failed)
}

fn heading(plan: &rounds::Plan, in_memory: bool) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let mut text = format!(
        "{} rows of 8 + {} bytes, {} rounds of {} s each, cache of {} MiB, {cores} cores",
        plan.rows,
        random::VALUE_BYTES,
        plan.rounds,
        plan.time.as_secs_f64(),
        plan.cache_bytes >> 20,
    );
    if in_memory {
        text.push_str("\nThe directory is in memory: nothing here is durable, and a sync costs nothing.");
    }
    for kind in &plan.kinds {
        let version = peers::version(kind.package);
        text.push_str(&format!(
            "\n{} {version}\n  set up: {}\n  durable: {}",
            kind.name, kind.settings, kind.promise
        ));
    }
    text
}
