//! What gives samples of a target: what is known of it before, and all figures at one moment.

use super::of_server;
use client::Trouble;
use output::samples::Values;
use std::collections::BTreeMap;

/// What is known of a target before it is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// What is looked at, without a password.
    pub target: String,
    /// Whose server and which version, or that it is a database of Millpond.
    pub version: String,
    /// The settings, by name.
    pub configuration: Vec<(String, String)>,
    /// Where each figure of the schema comes from, or why the target does not have it.
    pub origins: Vec<(&'static str, Result<String, String>)>,
    /// What a server refused, with the grant that is missing.
    pub refusals: Vec<String>,
}

/// How the names of the metrics of flushing begin. They are many, and one pattern switches them on.
const FLUSHING: &str = "buffer_flush_";

impl About {
    /// Returns the statement that makes the server count figures of the schema that it could count
    /// and does not; `None` if there are none.
    pub(crate) fn switch_on(&self) -> Option<String> {
        let off = self.switched_off();
        let flushing = off.iter().any(|name| name.starts_with(FLUSHING));
        let which = if flushing { format!("{FLUSHING}%") } else { (*off.first()?).to_owned() };
        Some(format!("SET GLOBAL innodb_monitor_enable = '{which}'"))
    }

    /// Returns the metrics of a server that would give figures of the schema and are switched off.
    pub(super) fn switched_off(&self) -> Vec<&str> {
        let reasons = self.origins.iter().filter_map(|(_, source)| source.as_ref().err());
        reasons.filter_map(|why| of_server::switched_off(why)).collect()
    }
}

/// All figures at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When they were read, microseconds since 1970.
    pub unix_us: u64,
    /// The figures: those of the schema, then the target's own.
    pub values: Values,
    /// Of a database: everything that it measures, with the histograms.
    pub engine: Option<Box<millpond::Snapshot>>,
}

impl Sample {
    /// Makes a sample of figures alone.
    pub(crate) fn new(unix_us: u64, values: Values) -> Sample {
        Sample { unix_us, values, engine: None }
    }

    /// Returns a figure.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.0 == name).map(|value| value.3)
    }
}

/// Gives samples of a target.
pub trait Source {
    /// Returns what is known of the target.
    fn about(&self) -> &About;

    /// Takes a sample now. [`Trouble::Gone`]: the target is not there at the moment; a later call
    /// tries again, and connects again.
    fn sample(&mut self) -> Result<Sample, Trouble>;

    /// Returns how many rows each statement or table has changed so far; `None` if the target does
    /// not count it.
    fn row_changes(&mut self) -> Option<RowChanges> {
        None
    }
}

/// Rows that were changed, by statement or by table, from some beginning on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowChanges {
    /// Whether the names are those of tables.
    pub by_table: bool,
    /// The names, and how many rows.
    pub rows: BTreeMap<String, f64>,
}
