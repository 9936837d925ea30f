//! A run on a server: load, drive, check. `run_on_server` does it once, `compare_on_servers` in
//! turns.

use super::run::{Run, flag_name, load_threads, show_load, sound};
use super::server_place::Place;
use crate::driver::{Driven, Pace, drive_sessions};
use crate::progress::Progress;
use crate::result::Checked;
use crate::server::{
    Contents, Filled, ServerObserver, ServerRequest, ServerWorkload, SyncTrace, build, check,
};
use crate::workload::tpcc::CONDITIONS;
use output::failure::Outcome;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Of the workload's conditions so many are asked for after the load; the others are long queries,
/// and are asked for after the run.
const OF_LOAD: usize = 4;

/// A run in its place.
pub(super) struct ServerRun<'a> {
    pub(super) run: &'a Run,
    pub(super) place: &'a Place,
}

impl ServerRun<'_> {
    /// Returns whether the tables have to be loaded.
    pub(super) fn fresh(&self) -> bool {
        self.place.contents == Contents::Empty
    }

    /// Connects for the server's figures.
    pub(super) fn observer(&self) -> Outcome<ServerObserver> {
        let Place { access, engine, .. } = self.place;
        let flags = &self.run.server;
        let syncs = flags.syncs.then(|| SyncTrace::new(access, &flags.login));
        ServerObserver::new(access, engine, syncs)
    }

    /// Loads the tables if they are not there. Returns how long that took, seconds.
    pub(super) fn load_if_fresh(&self, workload: &ServerWorkload, progress: &mut Progress) -> Outcome<f64> {
        if !self.fresh() {
            return Ok(0.0);
        }
        let start = Instant::now();
        self.load(workload, progress)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Checks the tables.
    pub(super) fn check(
        &self,
        workload: &ServerWorkload,
        fresh: bool,
        progress: &mut Progress,
    ) -> Outcome<Checked> {
        progress.show("check");
        let Place { access, schema, .. } = self.place;
        let check = check(access, schema, &workload.tables(self.run.clients.threads, fresh))?;
        let consistency = workload.conditions(access, schema, CONDITIONS)?;
        progress.finish();
        Ok(Checked { check, consistency })
    }

    /// Returns the workload; on tables that other runs have used, at which the server had run so
    /// many statements, with another seed.
    pub(super) fn workload(&self, statements: Option<u64>) -> ServerWorkload {
        let params = self.run.params();
        let params = statements.map_or(params, |statements| params.after(statements));
        let isolation = self.run.isolation.map(|level| level.name());
        build(self.run.workload, params, Some(self.place.engine.clone()), isolation)
    }

    fn load(&self, workload: &ServerWorkload, progress: &mut Progress) -> Outcome {
        let rows_loaded = AtomicU64::new(0);
        let filled = Filled {
            access: &self.place.access,
            schema: &self.place.schema,
            engine: Some(&self.place.engine),
            threads: load_threads(),
            rows_loaded: &rows_loaded,
        };
        show_load(progress, &rows_loaded, || workload.load(&filled))?;
        sound(workload.conditions(&self.place.access, &self.place.schema, OF_LOAD)?.as_deref())?;
        self.place.schema.load_finished()
    }

    pub(super) fn drive(
        &self,
        workload: &ServerWorkload,
        threads: u32,
        observer: &mut ServerObserver,
        progress: &mut Progress,
    ) -> Outcome<Driven> {
        let session = |thread| workload.session(&self.place.access, self.place.schema.name(), thread);
        let sessions = (0..threads).map(session).collect::<Outcome<Vec<_>>>()?;
        let pace = Pace { threads, ..self.run.pace(workload.has_an_end()) };
        drive_sessions(sessions, observer, pace, progress)
    }

    pub(super) fn request(&self, server: &str) -> ServerRequest {
        ServerRequest {
            target: self.place.access.name().to_owned(),
            server: server.to_owned(),
            engine: self.place.engine.clone(),
            schema: self.place.schema.name().to_owned(),
            workload: self.run.workload.name(),
            threads: self.run.clients.most_threads(),
            shape: self.run.shape(),
            distribution: flag_name(&self.run.data.distribution),
            isolation: self.run.isolation.map(|level| level.name().to_owned()),
            rate: self.run.clients.rate,
        }
    }
}
