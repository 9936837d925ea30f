//! `millpond inspect DIR …`: shows what the files hold, without changing a byte.

use clap::Subcommand;
use output::existing::existing_database;
use output::failure::{Failure, Outcome};
use output::print;
use output::recording::{self, View};
use output::units::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Show what a database's files hold
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// The database's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(subcommand)]
    target: InspectTarget,
}

#[derive(Debug, Subcommand)]
enum InspectTarget {
    /// One page: header, slots, rows
    Page {
        /// The page's number
        #[arg(value_name = "N")]
        number: u32,
    },
    /// The redo log: segments, blocks, groups and their records
    Log,
    /// A table's tree, level by level
    Tree {
        /// The table's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// A table: its catalog entry and rows
    Table {
        /// The table's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// The root: checkpoints, epochs, capacity
    Root,
    /// The flight recorder: all metrics in the last hours, also of an open or crashed database
    Recorder(Recorder),
}

/// What of the flight recorder is shown
#[derive(Debug, clap::Args)]
struct Recorder {
    /// Only the end, such as 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1m", conflicts_with = "all")]
    last: Duration,
    /// From the beginning
    #[arg(long)]
    all: bool,
    /// A line for so much time at least
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    every: Duration,
    /// These figures of docs/metrics.md instead of those that tell most; counters a second
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    figures: Vec<String>,
    /// CSV
    #[arg(long)]
    csv: bool,
}

impl Recorder {
    fn view(&self) -> View {
        View {
            last: (!self.all).then_some(self.last),
            // A sample may come a little before its time.
            every: self.every - (self.every / 10).min(Duration::from_millis(50)),
            figures: self.figures.clone(),
            csv: self.csv,
        }
    }
}

impl Inspect {
    pub(crate) fn run(self) -> Outcome {
        existing_database(&self.dir)?;
        let text = match &self.target {
            InspectTarget::Page { number } => millpond::inspect::page(&self.dir, *number)?,
            InspectTarget::Log => millpond::inspect::log(&self.dir)?,
            InspectTarget::Tree { name } => millpond::inspect::tree(&self.dir, name)?,
            InspectTarget::Table { name } => millpond::inspect::table(&self.dir, name)?,
            InspectTarget::Root => millpond::inspect::root(&self.dir)?,
            InspectTarget::Recorder(recorder) => {
                let recording = millpond::inspect::recording(&self.dir)?;
                recording::show(&recording, &recorder.view()).map_err(Failure::misuse)?
            }
        };
        print(&format!("{}\n", text.trim_end()));
        Ok(())
    }
}
