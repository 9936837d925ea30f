//! `millpond run --target`: the workloads over SQL, on any engine of a server.

use super::run::{Run, flag_name, load_threads, show_load, show_report};
use crate::driver::{Driven, Pace, drive_sessions};
use crate::progress::Progress;
use crate::ramp::{Climb, Ramp, Step, Taken, climb};
use crate::report::{RampReport, ServerRunReport, of_this_machine};
use crate::result::rounded;
use crate::server::{
    Around, Contents, Filled, Schema, ServerLoad, ServerObserver, ServerRequest, ServerResult,
    ServerWorkload, build, check, default_schema, load_name,
};
use client::{Access, Row, Trouble};
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report::{self, page::Origin};
use output::{print, stop, write_json};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Connections that a run needs beside those of its threads.
const OTHER_CONNECTIONS: u64 = 3;

/// Runs the workload on the server.
pub(super) fn run(run: &Run, url: &str) -> Outcome {
    if let Some(file) = &run.json {
        check_writable(file)?;
    }
    run.check_length(build(run.workload, run.params(), None, None).has_an_end())?;
    if run.data.rows > i32::MAX as u32 {
        return Err(Failure::misuse(format!("--rows may be at most {} over SQL", i32::MAX)));
    }
    let report_dir = run.report.as_deref().map(|dir| report::claim(dir, None)).transpose()?;
    let access = Access::to(url, &run.server.login)?;
    let engine = Engine::find(&access, run)?;
    stop::install();
    let name = run.server.schema.as_deref().unwrap_or(default_schema(run.workload));
    let load = ServerLoad {
        load: load_name(run.workload),
        tables: run.shape().tables,
        rows: run.shape().rows,
        engine: engine.name.to_lowercase(),
    };
    let (schema, contents) = Schema::take(&access, name, &load, run.keep)?;
    let work = ServerRun { run, access: &access, schema: &schema, engine: &engine };
    let done = work.measure(contents);
    // What the run made goes in any case.
    let left = schema.end();
    let done = done?;
    print(&done.text);
    print(&format!("{:<15} {}\n", "schema", left?));
    if let Some(file) = &run.json {
        write_json(file, &done.json)?;
    }
    if let Some(dir) = report_dir {
        show_report(dir, &done.report)?;
    }
    if done.check == "ok" {
        return Ok(());
    }
    Err(Failure::failed(format!("the check after the run found: {}", done.check)))
}

/// What a run shows at its end.
struct Shown {
    text: String,
    json: String,
    /// The files of the report; none unless requested.
    report: Vec<(String, String)>,
    /// "ok", or what is wrong with the tables.
    check: String,
}

/// The engine of the tables.
struct Engine {
    /// Its name, as the server writes it.
    name: String,
}

impl Engine {
    /// Asks the server which engines it has, and whether it lets in as many threads as the run has.
    fn find(access: &Access, run: &Run) -> Outcome<Engine> {
        let mut connection = access.connect()?;
        let mut ask = |statement: &str| -> Outcome<Vec<Row>> {
            let no = |trouble: Trouble| Failure::failed(format!("{statement} fails: {trouble}"));
            connection.rows(statement).map_err(no)
        };
        let threads = u64::from(run.clients.most_threads());
        let limit = ask("SELECT @@max_connections")?;
        let limit: Option<u64> = limit.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        if let Some(limit) = limit
            && threads + OTHER_CONNECTIONS > limit
        {
            return Err(Failure::misuse(format!(
                "the server lets in {limit} connections (max_connections), and a run of {} threads needs {}",
                threads,
                threads + OTHER_CONNECTIONS
            )));
        }
        let name = choose(&ask("SHOW ENGINES")?, run.server.engine.as_deref())?;
        Ok(Engine { name })
    }
}

/// Chooses an engine of those of `SHOW ENGINES`: name, and whether it is there.
fn choose(engines: &[Row], wanted: Option<&str>) -> Outcome<String> {
    let there: Vec<(&str, &str)> = engines
        .iter()
        .filter_map(|row| Some((row.first()?.as_deref()?, row.get(1)?.as_deref()?)))
        .filter(|(_, support)| ["YES", "DEFAULT"].contains(support))
        .collect();
    let found = match wanted {
        Some(wanted) => there.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)),
        None => there.iter().find(|(_, support)| *support == "DEFAULT"),
    };
    let names: Vec<&str> = there.iter().map(|(name, _)| *name).collect();
    found.map(|(name, _)| (*name).to_owned()).ok_or_else(|| {
        let wanted = wanted.unwrap_or("by default");
        Failure::misuse(format!("the server has no engine {wanted}; it has {}", names.join(", ")))
    })
}

/// A run in its schema.
struct ServerRun<'a> {
    run: &'a Run,
    access: &'a Access,
    schema: &'a Schema,
    engine: &'a Engine,
}

impl ServerRun<'_> {
    /// Loads the tables if they are not there, runs the workload, and checks.
    fn measure(&self, contents: Contents) -> Outcome<Shown> {
        let mut progress = Progress::on_stderr();
        let fresh = contents == Contents::Empty;
        let workload = self.workload(None);
        let mut load_seconds = 0.0;
        if fresh {
            let start = Instant::now();
            self.load(&workload, &mut progress)?;
            load_seconds = rounded(start.elapsed().as_secs_f64(), 3);
        }
        let mut observer = ServerObserver::new(self.access, &self.engine.name)?;
        let request = self.request(&observer.about().version);
        if !self.run.clients.ramp.is_empty() {
            let climb = self.climb(&mut observer, &mut progress)?;
            let check = self.check(&workload, fresh, &mut progress)?;
            let lead = request.lead(" at most");
            let ramp = Ramp::new(request, climb.steps.clone(), load_seconds, check.clone());
            let knee = ramp.knee().unwrap_or_default();
            let report =
                self.report(|origin| RampReport { climb: &climb, lead, knee, check: &check, origin }.files());
            return Ok(Shown { text: ramp.end(), json: ramp.json(), report, check });
        }
        let workload = if fresh { workload } else { self.workload(Some(observer.statements())) };
        let threads = self.run.clients.threads;
        let driven = self.drive(&workload, threads, &mut observer, &mut progress)?;
        let check = self.check(&workload, fresh, &mut progress)?;
        let around = Around { load_seconds, check: check.clone() };
        let result = ServerResult::new(request, &driven, &observer, around);
        let report =
            self.report(|origin| ServerRunReport { driven: &driven, result: &result, origin }.files());
        Ok(Shown { text: result.table(), json: result.json(), report, check })
    }

    /// Runs the workload with more and more threads.
    fn climb(&self, observer: &mut ServerObserver, progress: &mut Progress) -> Outcome<Climb> {
        climb(&self.run.clients.ramp, |threads| {
            let workload = self.workload(Some(observer.statements()));
            let Driven { totals, age, samples, began } =
                self.drive(&workload, threads, observer, progress)?;
            Ok(Taken { step: Step::new(threads, &totals, &age, observer.counted()), began, samples })
        })
    }

    /// Makes the files of the report, if one was requested.
    fn report(&self, files: impl FnOnce(Origin) -> Vec<(String, String)>) -> Vec<(String, String)> {
        if self.run.report.is_none() {
            return Vec::new();
        }
        let mut parameters = self.run.work_parameters(self.workload(None).has_an_end());
        let level = self.run.isolation.map_or("the server's", |level| level.name());
        parameters.push(("isolation", level.to_owned()));
        files(Origin { command: report::command(), parameters, machine: of_this_machine() })
    }

    /// Checks the tables. Returns "ok", or what is wrong.
    fn check(&self, workload: &ServerWorkload, fresh: bool, progress: &mut Progress) -> Outcome<String> {
        progress.show("check");
        let tables = workload.tables(self.run.clients.threads, fresh);
        let check = check(self.access, self.schema, &tables);
        progress.finish();
        check
    }

    /// Returns the workload; on tables that other runs have used, at which the server had run so
    /// many statements, with another seed.
    fn workload(&self, statements: Option<u64>) -> ServerWorkload {
        let params = self.run.params();
        let params = statements.map_or(params, |statements| params.after(statements));
        let isolation = self.run.isolation.map(|level| level.name());
        build(self.run.workload, params, Some(self.engine.name.clone()), isolation)
    }

    fn load(&self, workload: &ServerWorkload, progress: &mut Progress) -> Outcome {
        let rows_loaded = AtomicU64::new(0);
        let filled = Filled {
            access: self.access,
            schema: self.schema,
            engine: Some(&self.engine.name),
            threads: load_threads(),
            rows_loaded: &rows_loaded,
        };
        show_load(progress, &rows_loaded, || workload.load(&filled))?;
        self.schema.load_finished()
    }

    fn drive(
        &self,
        workload: &ServerWorkload,
        threads: u32,
        observer: &mut ServerObserver,
        progress: &mut Progress,
    ) -> Outcome<Driven> {
        let session = |thread| workload.session(self.access, self.schema.name(), thread);
        let sessions = (0..threads).map(session).collect::<Outcome<Vec<_>>>()?;
        let pace = Pace { threads, ..self.run.pace(workload.has_an_end()) };
        drive_sessions(sessions, observer, pace, progress)
    }

    fn request(&self, server: &str) -> ServerRequest {
        let shape = self.run.shape();
        ServerRequest {
            target: self.access.name().to_owned(),
            server: server.to_owned(),
            engine: self.engine.name.clone(),
            schema: self.schema.name().to_owned(),
            workload: self.run.workload.name(),
            threads: self.run.clients.most_threads(),
            tables: shape.tables,
            rows: shape.rows,
            shape: shape.text,
            distribution: flag_name(&self.run.data.distribution),
            isolation: self.run.isolation.map(|level| level.name().to_owned()),
            rate: self.run.clients.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_found_by_name_or_is_the_default() {
        let row = |name: &str, support: &str| vec![Some(name.to_owned()), Some(support.to_owned())];
        let engines =
            [row("InnoDB", "DEFAULT"), row("MILLPOND", "YES"), row("ROCKSDB", "NO"), row("Aria", "YES")];
        assert_eq!(choose(&engines, None).unwrap(), "InnoDB");
        assert_eq!(choose(&engines, Some("millpond")).unwrap(), "MILLPOND");
        let Err(Failure::Misuse(why)) = choose(&engines, Some("rocksdb")) else { panic!() };
        assert_eq!(why, "the server has no engine rocksdb; it has InnoDB, MILLPOND, Aria");
    }
}
