//! `millpond sweep`: the same load with each combination of some settings.

use crate::own_command::{number, read, run};
use crate::report::of_this_machine;
use crate::server::remove;
use crate::sweep::{Axis, Found, Point, Sweep, order, points};
use client::{Access, LoginFlags, Settings, set_to};
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report::page::Page;
use output::report::{self, PAGE};
use output::{print, stop, write_json};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const NOTES: &str = "\
What follows -- is what `millpond run` shall run: a workload and its flags. With --target the
settings are those of the server, set by SET GLOBAL and put back at the end, also after Ctrl-C;
DIR/undo.sql has the statements until then. Tables that were made are dropped when all points are
measured, unless `run` has --keep. Without --target settings are flags of `run`, as
redo-capacity=64MiB,1GiB. A sweep that was stopped goes on in the same DIR.

  millpond sweep innodb_io_capacity=200,2000 --target mysql://root@localhost/ -- write-heavy --seconds 120
  millpond sweep redo-capacity=64MiB,1GiB pool=128MiB,512MiB -- write-heavy --seconds 60";

/// The same load with each combination of some settings: which is fast, and which is steady
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct SweepSettings {
    /// A setting and its values
    #[arg(value_name = "NAME=V1,V2,…", required = true, value_parser = Axis::parse)]
    settings: Vec<Axis>,
    /// The server, as mysql://user@host:port/ [default: a database in this process]
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// How often each combination is measured
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Where the results go, and what is needed to go on [default: sweep]
    #[arg(long, value_name = "DIR", default_value = "sweep", hide_default_value = true)]
    out: PathBuf,
    /// Write all points as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    login: LoginFlags,
    /// What `millpond run` shall run: a workload and its flags
    #[arg(last = true, value_name = "RUN")]
    load: Vec<String>,
}

impl SweepSettings {
    pub(crate) fn run(self) -> Outcome {
        if self.target.is_none() && self.login != LoginFlags::default() {
            return Err(Failure::misuse("--defaults-file and --password need --target"));
        }
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let names: Vec<&str> = self.settings.iter().map(|axis| axis.name.as_str()).collect();
        if let Some(name) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(Failure::misuse(format!("{} is named twice", name.1)));
        }
        fs::create_dir_all(&self.out)
            .map_err(|e| Failure::misuse(format!("cannot make {}: {e}", self.out.display())))?;
        let page = report::claim(&self.out, None)?;
        self.take_directory()?;
        stop::install();
        let access = self.target.as_ref().map(|url| Access::to(url, &self.login)).transpose()?;
        let remember = |access| Settings::remember(access, &self.out, &names);
        let mut settings = access.as_ref().map(remember).transpose()?;
        let points = points(&self.settings);
        let measured = self.measure(&points, settings.as_mut());
        // The server has its own settings again in any case.
        let back = settings.map_or(Ok(()), |settings| settings.put_back());
        measured?;
        back?;
        access.as_ref().map_or(Ok(()), |access| self.drop_tables(access, points.len()))?;
        let sweep = Sweep::new(self.load.join(" "), self.found(&points));
        print(&sweep.table().text());
        if let Some(map) = sweep.map(&self.settings) {
            print(&format!("\n{}", map.text()));
        }
        if let Some(file) = &self.json {
            write_json(file, &sweep.json())?;
        }
        let shown = report::write(page, &[(PAGE.to_owned(), self.page(&sweep))])?;
        print(&format!("\n{:<10} {shown}\n", "report"));
        Ok(())
    }

    /// Refuses a directory that holds the results of another sweep.
    fn take_directory(&self) -> Outcome {
        let mark = self.out.join("sweep.txt");
        let settings: Vec<String> =
            self.settings.iter().map(|axis| format!("{}={}", axis.name, axis.values.join(","))).collect();
        let own = format!(
            "{}\n{}\n{}\n",
            settings.join(" "),
            self.target.as_deref().unwrap_or("in the process"),
            self.load.join(" ")
        );
        match fs::read_to_string(&mark) {
            Ok(found) if found == own => Ok(()),
            Ok(found) => Err(Failure::misuse(format!(
                "{} holds another sweep ({}); --out names another directory",
                self.out.display(),
                found.trim_end().replace('\n', "; ")
            ))),
            Err(_) => fs::write(&mark, own)
                .map_err(|e| Failure::misuse(format!("cannot write {}: {e}", mark.display()))),
        }
    }

    /// Measures each point that has no result yet.
    fn measure(&self, points: &[Point], mut settings: Option<&mut Settings>) -> Outcome {
        for round in 0..self.rounds {
            for i in order(points.len(), round) {
                let json = self.json_of(i, round);
                if read(&json).is_ok() {
                    continue;
                }
                let point = &points[i];
                let shown: Vec<String> =
                    point.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if let Some(settings) = settings.as_deref_mut() {
                    let set = |(name, value): &(String, String)| set_to(name, value);
                    settings.set(&point.iter().map(set).collect::<Vec<_>>())?;
                }
                eprintln!("{}, round {}", shown.join(" "), round + 1);
                let new = json.with_extension("new");
                run(&json.with_extension("txt"), &new, &self.args(point))?;
                fs::rename(&new, &json)
                    .map_err(|e| Failure::failed(format!("cannot write {}: {e}", json.display())))?;
            }
        }
        Ok(())
    }

    /// Drops the tables that the points have worked on, if one of them has made these. Until
    /// all points are measured they stay: a sweep that goes on uses them again.
    fn drop_tables(&self, access: &Access, points: usize) -> Outcome {
        if self.keeps() {
            return Ok(());
        }
        let files = (0..self.rounds).flat_map(|round| (0..points).map(move |i| (i, round)));
        let results = files.filter_map(|(i, round)| read(&self.json_of(i, round)).ok());
        // One that has used tables again has loaded for 0 s.
        let made = |result: &Value| number(result, "/load_seconds").is_some_and(|seconds| seconds > 0.0);
        let schema = results.filter(made).find_map(|result| Some(result.get("schema")?.as_str()?.to_owned()));
        schema.map_or(Ok(()), |schema| remove(access, &schema))
    }

    /// Returns the command of a point.
    fn args(&self, point: &Point) -> Vec<String> {
        let mut args = vec!["run".to_owned()];
        args.extend(self.load.iter().cloned());
        match &self.target {
            Some(target) => {
                args.extend(["--target".to_owned(), target.clone()]);
                args.extend((!self.keeps()).then(|| "--keep".to_owned()));
                args.extend(self.login.args());
            }
            None => args.extend(point.iter().map(|(name, value)| format!("--{name}={value}"))),
        }
        args
    }

    /// Whether the user wants the tables to stay.
    fn keeps(&self) -> bool {
        self.load.iter().any(|word| word == "--keep")
    }

    fn json_of(&self, point: usize, round: u32) -> PathBuf {
        self.out.join(format!("point-{point}-round-{}.json", round + 1))
    }

    /// Reads the results of all points.
    fn found(&self, points: &[Point]) -> Vec<Found> {
        let of = |(i, point): (usize, &Point)| {
            let results: Vec<Value> =
                (0..self.rounds).filter_map(|round| read(&self.json_of(i, round)).ok()).collect();
            Found::new(point.clone(), &results)
        };
        points.iter().enumerate().filter_map(of).collect()
    }

    fn page(&self, sweep: &Sweep) -> String {
        let where_to = self.target.as_deref().unwrap_or("a database in the process");
        let load = if self.load.is_empty() { "write-heavy".to_owned() } else { self.load.join(" ") };
        let mut page = Page::new("A sweep of settings", &format!("{load} on {where_to}."));
        page.section("Points");
        page.table(&sweep.table());
        if let Some(map) = sweep.map(&self.settings) {
            page.section("Map");
            page.table(&map);
        }
        page.section("How it was run");
        page.command(&report::command());
        page.section("Machine");
        page.facts(&of_this_machine());
        page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))
    }
}
