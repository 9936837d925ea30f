//! `millpond inspect DIR …`: shows what the files hold, without changing a byte.

use super::print;
use crate::failure::Outcome;
use crate::run_dir::existing_database;
use clap::Subcommand;
use std::path::PathBuf;

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
        };
        print(&format!("{}\n", text.trim_end()));
        Ok(())
    }
}
