//! `millpond reproduce`: experiments of published articles.

use crate::report::of_this_machine;
use crate::reproduce::{About, EXPERIMENTS, Finding, Programs, Room, find, json};
use crate::run_dir::RunDir;
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report::page::Page;
use output::report::{self, PAGE};
use output::{print, stop, write_json};
use std::fs;
use std::path::{Path, PathBuf};

const NOTES: &str = "\
An experiment starts MariaDB servers of its own, which are reached by a socket only, and runs the
other commands of this program against them and against a database in this process. It needs
mariadbd (Debian: mariadb-server-core) and, for an hour, an idle machine. Servers and databases are
made below the working directory, and are removed; results stay in --out.";

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
    /// A few minutes for each instead of up to an hour; the figures are rougher
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
        fs::create_dir_all(&self.out)
            .map_err(|e| Failure::misuse(format!("cannot make {}: {e}", self.out.display())))?;
        let page = report::claim(&self.out, None)?;
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
        let mut findings: Vec<(&About, Finding)> = Vec::new();
        for experiment in experiments {
            let finding = experiment.run(&room)?;
            print(&finding.text(&experiment.about));
            findings.push((&experiment.about, finding));
        }
        if let Some(file) = &self.json {
            write_json(file, &json(&findings))?;
        }
        let shown = report::write(page, &[(PAGE.to_owned(), book(&findings))])?;
        print(&format!("\n{:<10} {shown}\n", "report"));
        let wrong = findings.iter().find(|(_, finding)| finding.check != "ok");
        wrong.map_or(Ok(()), |(experiment, finding)| {
            Err(Failure::failed(format!("{}: {}", experiment.id, finding.check)))
        })
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

/// Returns the page of all findings.
fn book(findings: &[(&About, Finding)]) -> String {
    let lead = "Published figures beside those of this machine: InnoDB, Millpond, and the bound by first principles.";
    let mut page = Page::new("Experiments, repeated", lead);
    for (experiment, finding) in findings {
        page.section(&format!("{}: {}", experiment.id, experiment.article));
        page.paragraph(&format!("The article: {}.", experiment.claim));
        page.table(&finding.table());
        let seconds = format!("{:.0} s", finding.seconds);
        page.facts(&[
            ("here", finding.holds.clone()),
            ("scaled", finding.scaled.clone()),
            ("took", seconds),
            ("check", finding.check.clone()),
        ]);
    }
    page.section("How it was run");
    page.command(&report::command());
    page.section("Machine");
    page.facts(&of_this_machine());
    page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))
}
