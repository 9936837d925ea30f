//! What a run reads beside its own clock: the figures of the engine that it works on.

use crate::figures::{Figures, Reading, checkpoint_age, device_write_bytes, fsyncs};
use millpond::Db;
use output::samples::{self, ColumnKind, Values};
use std::time::Duration;

/// Reads the figures of the engine that a run works on.
pub(crate) trait Observer {
    /// Time between two readings.
    fn interval(&self) -> Duration;
    /// Reads all figures now. If they cannot be read, those of the last time stay.
    fn read(&mut self);
    /// Returns the checkpoint age of the last reading, bytes; `None` if the engine has none.
    fn checkpoint_age(&self) -> Option<u64>;
    /// Returns the syncs of all files up to the last reading.
    fn fsyncs(&self) -> Option<u64>;
    /// Returns all figures of the last reading.
    fn values(&self) -> Values;
    /// Reads all figures: the measured phase begins.
    fn begin(&mut self);
    /// Reads all figures: the measured phase is over.
    fn end(&mut self);
}

/// Reads the figures of a database in this process.
#[derive(Debug)]
pub(crate) struct DbObserver<'a> {
    db: &'a Db,
    last: Reading,
    begin: Reading,
}

impl DbObserver<'_> {
    /// Reads the figures of `db` for the first time.
    pub(crate) fn new(db: &Db) -> DbObserver<'_> {
        let now = Reading::now(db);
        DbObserver { db, begin: now.clone(), last: now }
    }

    /// Returns what was counted from the begin of the measured phase to the last reading.
    pub(crate) fn figures(&self) -> Figures {
        Figures::between(&self.begin, &self.last)
    }
}

impl Observer for DbObserver<'_> {
    fn interval(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn read(&mut self) {
        self.last = Reading::of(self.db.metrics());
    }

    fn checkpoint_age(&self) -> Option<u64> {
        Some(checkpoint_age(self.last.engine()))
    }

    fn fsyncs(&self) -> Option<u64> {
        Some(fsyncs(self.last.engine()))
    }

    fn values(&self) -> Values {
        let mut values = samples::of_engine(self.last.engine());
        values.extend(
            device_write_bytes()
                .map(|bytes| ("device_write_bytes".to_owned(), "bytes", ColumnKind::Counter, bytes as f64)),
        );
        values
    }

    fn begin(&mut self) {
        self.last = Reading::now(self.db);
        self.begin = self.last.clone();
    }

    fn end(&mut self) {
        self.last = Reading::now(self.db);
    }
}
