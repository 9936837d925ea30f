//! `millpond run --target`: the workloads over SQL, on any engine of a server.

use super::compare_on_servers::compare;
use super::dry_run::dry_run;
use super::run::{Run, show_report, undamaged};
use super::server_place::{Place, find_engine};
use super::server_run::ServerRun;
use crate::driver::Driven;
use crate::progress::Progress;
use crate::ramp::{Climb, Ramp, Step, Taken, climb};
use crate::report::{RampReport, ServerRunReport, of_this_machine};
use crate::result::{Checked, rounded};
use crate::server::{Around, ServerObserver, ServerResult, build, default_schema};
use crate::turn::Turn;
use client::Access;
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report::{self, page::Origin};
use output::{print, stop, write_json};

/// Runs the workload on the server.
pub(super) fn run(run: &Run, url: &str) -> Outcome {
    if let Some(file) = &run.json {
        check_writable(file)?;
    }
    run.tpcc.check(run.workload, true)?;
    run.check_length(build(run.workload, run.params(), None, None).has_an_end())?;
    if run.data.rows > i32::MAX as u32 {
        return Err(Failure::misuse(format!("--rows may be at most {} over SQL", i32::MAX)));
    }
    let report_dir = run.report.as_deref().map(|dir| report::claim(dir, None)).transpose()?;
    if !run.server.compare.is_empty() {
        return compare(run, url, report_dir);
    }
    let access = Access::to(url, &run.server.login)?;
    let engine = find_engine(&access, run, run.server.engine.as_deref())?;
    let name = run.server.schema.as_deref().unwrap_or(default_schema(run.workload));
    if run.server.dry_run {
        return dry_run(run, &access, &engine, name);
    }
    stop::install();
    let place = Place::take(run, &access, engine, name)?;
    let done = ServerRun { run, place: &place }.measure();
    // What the run made goes in any case.
    let left = place.schema.end();
    let done = done?;
    print(&done.text);
    print(&format!("{:<15} {}\n", "schema", left?));
    if let Some(file) = &run.json {
        write_json(file, &done.json)?;
    }
    if let Some(dir) = report_dir {
        show_report(dir, &done.report)?;
    }
    undamaged(&done.checked)
}

/// What a run shows at its end.
struct Shown {
    text: String,
    json: String,
    /// The files of the report; none unless requested.
    report: Vec<(String, String)>,
    checked: Checked,
}

impl ServerRun<'_> {
    /// Loads the tables if they are not there, runs the workload, and checks.
    fn measure(&self) -> Outcome<Shown> {
        let mut progress = Progress::on_stderr();
        let fresh = self.fresh();
        let workload = self.workload(None);
        let load_seconds = rounded(self.load_if_fresh(&workload, &mut progress)?, 3);
        let mut observer = self.observer()?;
        let request = self.request(&observer.about().version);
        if !self.run.clients.ramp.is_empty() {
            let climb = self.climb(&mut observer, &mut progress)?;
            let checked = self.check(&workload, fresh, &mut progress)?;
            let lead = request.lead(" at most");
            let ramp = Ramp::new(request, climb.steps.clone(), load_seconds, checked.clone());
            let knee = ramp.knee().unwrap_or_default();
            let fault = checked.fault();
            let report =
                self.report(|origin| RampReport { climb: &climb, lead, knee, fault, origin }.files());
            return Ok(Shown { text: ramp.end(), json: ramp.json(), report, checked });
        }
        let workload = if fresh { workload } else { self.workload(Some(observer.statements())) };
        let threads = self.run.clients.threads;
        let driven = self.drive(&workload, threads, &mut observer, &mut progress)?;
        let checked = self.check(&workload, fresh, &mut progress)?;
        let around = Around { load_seconds, sync_trace: observer.syncs()?, checked: checked.clone() };
        let result = ServerResult::new(request, &driven, &observer, around);
        let report =
            self.report(|origin| ServerRunReport { driven: &driven, result: &result, origin }.files());
        Ok(Shown { text: result.table(), json: result.json(), report, checked })
    }

    /// Runs the workload with more and more threads.
    fn climb(&self, observer: &mut ServerObserver, progress: &mut Progress) -> Outcome<Climb> {
        climb(&self.run.clients.ramp, |threads| {
            let workload = self.workload(Some(observer.statements()));
            let Driven { totals, age, samples, began } =
                self.drive(&workload, threads, observer, progress)?;
            let turn = Turn::new(&totals, &age, observer.counted());
            Ok(Taken { step: Step::new(threads, turn), began, samples })
        })
    }

    /// Makes the files of the report, if one was requested.
    fn report(&self, files: impl FnOnce(Origin) -> Vec<(String, String)>) -> Vec<(String, String)> {
        if self.run.report.is_none() {
            return Vec::new();
        }
        files(self.run.origin_on_servers())
    }
}

impl Run {
    /// Returns how a report of a run on servers was made.
    pub(super) fn origin_on_servers(&self) -> Origin {
        let has_an_end = build(self.workload, self.params(), None, None).has_an_end();
        let mut parameters = self.work_parameters(has_an_end);
        let level = self.isolation.map_or("the server's", |level| level.name());
        parameters.push(("isolation", level.to_owned()));
        Origin { command: report::command(), parameters, machine: of_this_machine() }
    }
}
