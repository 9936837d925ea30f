//! `millpond run --compare`: the same load on several engines or servers, in turns.

use super::run::{Run, show_report};
use super::server_place::{Place, find_engine};
use super::server_run::ServerRun;
use crate::driver::Driven;
use crate::progress::Progress;
use crate::report::ComparisonReport;
use crate::rounds::{Comparison, Known, Who, order};
use crate::server::{ServerObserver, ServerRequest, ServerWorkload, default_schema};
use crate::turn::Turn;
use client::Access;
use output::failure::{Failure, Outcome};
use output::report::ReportDir;
use output::{print, stop, write_json};

/// An engine of a server, before anything was made there.
struct Entry {
    access: Access,
    engine: String,
    schema: String,
}

/// A contestant at work.
struct AtWork<'a> {
    entry: &'a Entry,
    /// Its tables; none between the rounds of a workload that ends by itself.
    place: Option<Place>,
    observer: ServerObserver,
    load_seconds: f64,
    check: String,
    turns: Vec<Turn>,
}

/// Runs the workload on all contestants. The report is for those who asked for one.
pub(super) fn compare(run: &Run, url: &str, report_dir: Option<ReportDir>) -> Outcome {
    let entries = entries(run, url)?;
    stop::install();
    let mut progress = Progress::on_stderr();
    let mut at_work = Vec::new();
    let done = measure(run, &entries, &mut at_work, &mut progress);
    let request = at_work.first().map(|first| first.request(run));
    // What the run made goes in any case.
    let mut known = Vec::new();
    let mut left = Ok(());
    for AtWork { entry, place, observer, load_seconds, check, turns } in at_work {
        if let Some(place) = place {
            left = left.and(place.schema.end().map(drop));
        }
        let who = Who {
            target: entry.access.name().to_owned(),
            server: observer.about().version.clone(),
            engine: entry.engine.clone(),
        };
        known.push(Known { who, load_seconds, check, turns });
    }
    done?;
    left?;
    let lead = request.iter().flatten().next().map_or(String::new(), |request| request.lead(" in each turn"));
    let comparison = Comparison::new(request, known);
    print(&comparison.table());
    let check = comparison.check();
    print(&format!("{:<15} {check}\n", "check"));
    if let Some(file) = &run.json {
        write_json(file, &comparison.json())?;
    }
    if let Some(dir) = report_dir {
        let report = ComparisonReport { comparison: &comparison, lead, origin: run.origin_on_servers() };
        show_report(dir, &report.files())?;
    }
    if check == "ok" {
        return Ok(());
    }
    Err(Failure::failed(format!("the check after the run found damage: {check}")))
}

/// Finds all contestants: the run's own target and engine, then those of `--compare`.
fn entries(run: &Run, url: &str) -> Outcome<Vec<Entry>> {
    let own = Access::to(url, &run.server.login)?;
    let base = run.server.schema.as_deref().unwrap_or(default_schema(run.workload));
    let mut entries: Vec<Entry> = Vec::new();
    let mut add = |access: &Access, engine: String| -> Outcome {
        if entries.iter().any(|e| e.access.name() == access.name() && e.engine == engine) {
            let who = format!("{engine} of {}", access.name());
            return Err(Failure::misuse(format!("--compare names {who} twice")));
        }
        let schema = format!("{base}_{}", engine.to_lowercase());
        entries.push(Entry { access: access.clone(), engine, schema });
        Ok(())
    };
    add(&own, find_engine(&own, run, run.server.engine.as_deref())?)?;
    for name in &run.server.compare {
        if name.contains("://") {
            let access = Access::to(name, &run.server.login)?;
            add(&access, find_engine(&access, run, run.server.engine.as_deref())?)?;
        } else {
            add(&own, find_engine(&own, run, Some(name))?)?;
        }
    }
    Ok(entries)
}

/// Loads all tables, gives each contestant a turn in each round, and checks.
fn measure<'a>(
    run: &Run,
    entries: &'a [Entry],
    at_work: &mut Vec<AtWork<'a>>,
    progress: &mut Progress,
) -> Outcome {
    for entry in entries {
        let place = entry.take(run)?;
        let observer = ServerObserver::new(&entry.access, &entry.engine, None)?;
        let (check, turns) = ("ok".to_owned(), Vec::new());
        at_work.push(AtWork { entry, place: Some(place), observer, load_seconds: 0.0, check, turns });
        if let Some(one) = at_work.last_mut() {
            one.load(run, progress)?;
        }
    }
    for round in 0..run.server.rounds as usize {
        for i in order(entries.len(), round) {
            at_work[i].turn(run, progress)?;
        }
    }
    at_work.iter_mut().try_for_each(|one| one.end(run, progress))
}

impl Entry {
    fn take(&self, run: &Run) -> Outcome<Place> {
        Place::take(run, &self.access, self.engine.clone(), &self.schema)
    }
}

impl AtWork<'_> {
    fn request(&self, run: &Run) -> Option<ServerRequest> {
        let place = self.place.as_ref()?;
        Some(ServerRun { run, place }.request(&self.observer.about().version))
    }

    /// Loads the tables if they are not there.
    fn load(&mut self, run: &Run, progress: &mut Progress) -> Outcome {
        let Some(place) = &self.place else { return Ok(()) };
        let work = ServerRun { run, place };
        self.load_seconds = work.load_if_fresh(&work.workload(None), progress)?;
        Ok(())
    }

    /// Runs the workload once. One that ends by itself has used its tables up: the next turn has
    /// new ones.
    fn turn(&mut self, run: &Run, progress: &mut Progress) -> Outcome {
        progress.show(&format!("{}, round {}", self.entry.engine, self.turns.len() + 1));
        if !self.turns.is_empty() && self.workload(run).is_some_and(|workload| workload.has_an_end()) {
            self.renew(run, progress)?;
        }
        let Some(place) = &self.place else { return Ok(()) };
        let work = ServerRun { run, place };
        let workload = work.workload(Some(self.observer.statements()));
        let threads = run.clients.threads;
        let Driven { totals, age, .. } = work.drive(&workload, threads, &mut self.observer, progress)?;
        self.turns.push(Turn::new(&totals, &age, self.observer.counted()));
        Ok(())
    }

    fn workload(&self, run: &Run) -> Option<ServerWorkload> {
        self.place.as_ref().map(|place| ServerRun { run, place }.workload(None))
    }

    /// Checks the tables, drops them, and makes new ones.
    fn renew(&mut self, run: &Run, progress: &mut Progress) -> Outcome {
        self.end(run, progress)?;
        if let Some(place) = self.place.take() {
            place.schema.end()?;
        }
        self.place = Some(self.entry.take(run)?);
        self.load(run, progress)
    }

    /// Checks the tables, unless an earlier check has found something.
    fn end(&mut self, run: &Run, progress: &mut Progress) -> Outcome {
        let Some(place) = &self.place else { return Ok(()) };
        let work = ServerRun { run, place };
        let workload = work.workload(None);
        // How many rows several turns have inserted is not known.
        let counted = work.fresh() && workload.has_an_end();
        let checked = work.check(&workload, counted, progress)?;
        if self.check == "ok" {
            self.check = checked.fault().unwrap_or_else(|| "ok".to_owned());
        }
        Ok(())
    }
}
