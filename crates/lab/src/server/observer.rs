//! Reads a server's figures while a run works on it.

use super::figures::{EngineFigures, Reading, ServerFigures};
use super::sync_trace::SyncTrace;
use crate::observer::Observer;
use crate::turn::Counted;
use client::Access;
use output::failure::Outcome;
use output::samples::Values;
use serde_json::Value;
use std::time::Duration;
use watch::{About, Source};

/// Reads the figures of a server.
pub(crate) struct ServerObserver {
    source: Box<dyn Source>,
    engine: EngineFigures,
    last: Reading,
    begin: Reading,
    /// If the user asks for it.
    syncs: Option<SyncTrace>,
}

impl ServerObserver {
    /// Connects, and reads the figures for the first time. `syncs` shall be traced too.
    pub(crate) fn new(access: &Access, engine: &str, syncs: Option<SyncTrace>) -> Outcome<ServerObserver> {
        let source = watch::of_access(access)?;
        let engine = EngineFigures::of(engine);
        let (last, begin) = (Reading::default(), Reading::default());
        let mut observer = ServerObserver { source, engine, last, begin, syncs: None };
        observer.begin();
        observer.syncs = syncs;
        Ok(observer)
    }

    /// Returns what is known of the server.
    pub(crate) fn about(&self) -> &About {
        self.source.about()
    }

    /// Returns how many statements the server had run at the last reading.
    pub(crate) fn statements(&self) -> u64 {
        self.last.of(EngineFigures::InnoDb, "statements").unwrap_or(0)
    }

    /// Returns the trace of the syncs, if there is one.
    pub(crate) fn syncs(&mut self) -> Outcome<Option<Value>> {
        self.syncs.as_mut().map(SyncTrace::found).transpose()
    }

    /// Returns what one of several turns shows of it.
    pub(crate) fn counted(&self) -> Counted {
        let ServerFigures { fsyncs, checkpoint_age_limit, .. } = self.figures();
        Counted { fsyncs: fsyncs.total, checkpoint_age_limit }
    }

    /// Returns what was counted from the begin of the measured phase to the last reading.
    pub(super) fn figures(&self) -> ServerFigures {
        ServerFigures::between(&self.begin, &self.last, self.engine)
    }
}

impl Observer for ServerObserver {
    /// Each reading is a statement, which costs the server work.
    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn read(&mut self) {
        // A server that does not answer in time has no figures of this second. If it has gone, the
        // workload's own threads say so.
        if let Ok(sample) = self.source.sample() {
            self.last = Reading(sample.values);
        }
    }

    fn checkpoint_age(&self) -> Option<u64> {
        self.last.of(self.engine, "checkpoint_age_bytes")
    }

    fn fsyncs(&self) -> Option<u64> {
        self.last.of(self.engine, "fsyncs")
    }

    fn values(&self) -> Values {
        self.last.values(self.engine)
    }

    fn begin(&mut self) {
        self.read();
        self.begin = self.last.clone();
        self.syncs.iter_mut().for_each(SyncTrace::begin);
    }

    fn end(&mut self) {
        self.syncs.iter_mut().for_each(SyncTrace::end);
        self.read();
    }
}
