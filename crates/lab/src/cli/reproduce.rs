//! `millpond reproduce`: experiments of published articles.

use crate::reproduce::{About, Book, EXPERIMENTS, Programs, Record, Room, find};
use crate::result::to_json;
use crate::run_dir::RunDir;
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::units::now_us;
use output::{print, stop, write_json};
use std::path::{Path, PathBuf};

const NOTES: &str = "\
An experiment starts MariaDB servers of its own, which are reached by a socket only, and runs the
other commands of this program against them and against a database in this process. It needs
mariadbd (Debian: mariadb-server-core) and an idle machine, for seconds or up to 90 minutes, and for
all some six hours. Servers and databases are made below the working directory, and are removed;
results stay in --out: a page of all experiments, the same as text, their pictures, and what each
command wrote. Another run with the same --out adds its experiments to that page.";

/// Repeat experiments of published articles, on InnoDB and on Millpond
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Reproduce {
    /// Experiments, as D3.B13 or B13, or all
    #[arg(value_name = "ID", required_unless_present = "list")]
    ids: Vec<String>,
    /// Show which experiments there are
    #[arg(long, conflicts_with_all = ["ids", "quick", "out", "mariadbd", "plugin", "json"])]
    list: bool,
    /// A few minutes for each instead of up to 90; the figures are rougher
    #[arg(long)]
    quick: bool,
    /// Where the results go: a page, and what each command wrote [default: reproduced]
    #[arg(long, value_name = "DIR", default_value = "reproduced", hide_default_value = true)]
    out: PathBuf,
    /// The server to run [default: mariadbd of PATH, or of /usr/sbin]
    #[arg(long, value_name = "PATH")]
    mariadbd: Option<PathBuf>,
    /// Millpond's plugin, ha_millpond.so: the same on tables of Millpond in a server, too
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// Write all findings as a list in JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reproduce {
    pub(crate) fn run(self) -> Outcome {
        if self.list {
            EXPERIMENTS.iter().for_each(|experiment| print(&listed(&experiment.about)));
            return Ok(());
        }
        let experiments = find(&self.ids)?;
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let programs = Programs::find(self.mariadbd.as_deref(), self.plugin.as_deref())?;
        let ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.about.id).collect();
        let book = Book::open(&self.out, &ids)?;
        stop::install();
        let scratch = RunDir::fresh(false)?;
        // A server works in the directory of its data, so paths from here mean nothing to it.
        let dir = scratch.dir().canonicalize();
        let dir =
            dir.map_err(|e| Failure::failed(format!("cannot find {}: {e}", scratch.dir().display())))?;
        // A directory in memory is removed at the end too.
        let memory = RunDir::fresh_below(Path::new("/dev/shm")).ok();
        let memory_dir = memory.as_ref().filter(|memory| !memory.is_durable()).map(RunDir::dir);
        let room = Room {
            scratch: &dir,
            memory: memory_dir,
            out: &self.out,
            quick: self.quick,
            programs: &programs,
        };
        let (mut records, mut page) = (Vec::new(), String::new());
        for experiment in experiments {
            let record = Record::new(&experiment.about, experiment.run(&room)?);
            print(&record.text());
            page = book.add(&record, now_us())?;
            records.push(record);
        }
        if let Some(file) = &self.json {
            write_json(file, &to_json(&records))?;
        }
        print(&format!("\n{:<10} {page}\n", "report"));
        let wrong = records.iter().find(|record| record.finding.check != "ok");
        wrong
            .map_or(Ok(()), |record| Err(Failure::failed(format!("{}: {}", record.id, record.finding.check))))
    }
}

fn listed(experiment: &About) -> String {
    let with = if experiment.with.is_empty() {
        String::new()
    } else {
        format!(" (with {})", experiment.with.join(", "))
    };
    format!("{}{with}   {}\n    {}\n", experiment.id, experiment.article, experiment.claim)
}
