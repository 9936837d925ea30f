//! Samples of a server: one statement for each, two or three where a version does not allow one.

use super::clock::now_us;
use super::host::Host;
use super::of_server::{self, Answers, Facts, MetricFact};
use super::source::{About, RowChanges, Sample, Source};
use super::status_text::log_section;
use client::{Access, Connection, Row, Trouble, Version};
use output::samples::ColumnKind;
use std::collections::BTreeMap;

/// A server, connected or not.
#[derive(Debug)]
pub(super) struct Server {
    access: Access,
    connection: Option<Connection>,
    facts: Facts,
    /// If it runs on this machine.
    host: Option<Host>,
    statements: Statements,
    about: About,
}

/// What a sample asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statements {
    /// Gives rows of a name and a value.
    pub(super) values: &'static str,
    /// Gives more of them.
    pub(super) metrics: Option<&'static str>,
    /// `SHOW ENGINE INNODB STATUS`.
    pub(super) text: bool,
}

/// What a server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Whose server and which version.
    pub(super) version: Version,
    /// `INNODB_METRICS` can be read.
    pub(super) metrics: bool,
    /// It has a column `ENABLED`, not `STATUS`.
    pub(super) enabled_column: bool,
    /// `performance_schema` is on.
    pub(super) performance_schema: bool,
}

const STATUS: &str = "SHOW GLOBAL STATUS";
const METRICS_ENABLED: &str =
    "SELECT CONCAT('metric.', NAME), COUNT FROM information_schema.INNODB_METRICS WHERE ENABLED";
const METRICS_STATUS: &str = "SELECT CONCAT('metric.', NAME), COUNT FROM information_schema.INNODB_METRICS \
     WHERE STATUS = 'enabled'";
/// The same in one statement, in MariaDB.
const BOTH_ENABLED: &str = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
     UNION ALL SELECT CONCAT('metric.', NAME), COUNT FROM information_schema.INNODB_METRICS WHERE ENABLED";
const BOTH_STATUS: &str = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
     UNION ALL SELECT CONCAT('metric.', NAME), COUNT FROM information_schema.INNODB_METRICS \
     WHERE STATUS = 'enabled'";
/// The same in one statement, in MySQL.
const BOTH_MYSQL: &str = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status \
     UNION ALL SELECT CONCAT('metric.', NAME), COUNT FROM information_schema.INNODB_METRICS \
     WHERE STATUS = 'enabled'";
/// Access denied for want of a privilege.
const NO_PRIVILEGE: [u16; 4] = [1227, 1142, 1044, 1143];
const NEEDS_PROCESS: &str = "the user lacks the privilege PROCESS: GRANT PROCESS ON *.* TO the user";
/// No such column; no such table, or no such engine, because there is no InnoDB.
const UNKNOWN: [u16; 6] = [1054, 1109, 1146, 1286, 1235, 1064];
const TEXT: &str = "SHOW ENGINE INNODB STATUS";
/// Rows changed by statements, those that were seen last: there are at most as many digests.
const BY_STATEMENT: &str = "SELECT DIGEST_TEXT, SUM(SUM_ROWS_AFFECTED) FROM \
     performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT IS NOT NULL \
     GROUP BY DIGEST_TEXT ORDER BY MAX(LAST_SEEN) DESC LIMIT 500";
/// Rows changed of tables, if a server with the setting `userstat` counts them.
const BY_TABLE: &str =
    "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), ROWS_CHANGED FROM information_schema.TABLE_STATISTICS";

/// Returns what a sample asks, so that it is as few statements as the server allows.
pub(super) fn statements(allowed: &Allowed) -> Statements {
    let Allowed { version, metrics, enabled_column, performance_schema } = *allowed;
    let one = |values| Statements { values, metrics: None, text: false };
    match (metrics, version.is_mariadb(), enabled_column) {
        (false, ..) => one(STATUS),
        (true, true, true) => one(BOTH_ENABLED),
        (true, true, false) => one(BOTH_STATUS),
        (true, false, false) if performance_schema => one(BOTH_MYSQL),
        (true, false, enabled) => {
            let metrics = if enabled { METRICS_ENABLED } else { METRICS_STATUS };
            Statements { metrics: Some(metrics), ..one(STATUS) }
        }
    }
}

impl Server {
    /// Connects, and learns what the server is and allows.
    pub(super) fn open(access: Access) -> Result<Server, Trouble> {
        let about = About {
            target: access.name().to_owned(),
            version: String::new(),
            configuration: Vec::new(),
            origins: Vec::new(),
            refusals: Vec::new(),
        };
        let facts = Facts {
            version: Version::parse("", ""),
            variables: BTreeMap::new(),
            metrics: BTreeMap::new(),
            refusals: Vec::new(),
        };
        let statements = Statements { values: STATUS, metrics: None, text: false };
        let mut server = Server { access, connection: None, facts, host: None, statements, about };
        server.connect()?;
        Ok(server)
    }

    /// Connects, and learns everything anew: after a restart it may be another version.
    fn connect(&mut self) -> Result<(), Trouble> {
        let mut connection = self.access.try_connect()?;
        let version = connection.rows("SELECT @@version, @@version_comment")?;
        let cell = |at: usize| version.first().and_then(|row| row.get(at)?.clone()).unwrap_or_default();
        let version = Version::parse(&cell(0), &cell(1));
        let configuration: Vec<(String, String)> =
            connection.rows("SHOW GLOBAL VARIABLES")?.into_iter().filter_map(pair).collect();
        let variables: BTreeMap<String, String> =
            configuration.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let mut facts = Facts { version, variables, metrics: BTreeMap::new(), refusals: Vec::new() };
        let enabled_column = learn_metrics(&mut connection, &mut facts)?;
        let allowed = Allowed {
            version,
            metrics: !facts.metrics.is_empty(),
            enabled_column,
            performance_schema: facts.variables.get("performance_schema").is_some_and(|value| value == "ON"),
        };
        let mut statements = statements(&allowed);
        let mut answers = ask(&mut connection, &statements)?;
        let host = Host::find(|name| facts.variables.get(name).map(String::as_str));
        answers.values.extend(host.map(Host::read).into_iter().flatten());
        if of_server::needs_status_text(&answers) {
            match text(&mut connection) {
                Ok(found) => {
                    statements.text = true;
                    answers.log = Some(found);
                }
                Err(Trouble::Refused { code, .. }) if NO_PRIVILEGE.contains(&code) => {
                    facts.refusals.push(NEEDS_PROCESS.to_owned());
                }
                Err(Trouble::Refused { code, why }) if UNKNOWN.contains(&code) => facts.refusals.push(why),
                Err(trouble) => return Err(trouble),
            }
        }
        let origins =
            of_server::provenance(&facts, &answers).into_iter().map(|p| (p.name, p.source)).collect();
        let target = std::mem::take(&mut self.about.target);
        let refusals = facts.refusals.clone();
        self.about = About { target, version: version.to_string(), configuration, origins, refusals };
        (self.facts, self.host) = (facts, host);
        (self.statements, self.connection) = (statements, Some(connection));
        Ok(())
    }

    fn try_sample(&mut self) -> Result<Sample, Trouble> {
        if self.connection.is_none() {
            self.connect()?;
        }
        let Some(connection) = &mut self.connection else {
            return Err(Trouble::Gone("there is no connection".to_owned()));
        };
        let mut answers = ask(connection, &self.statements)?;
        answers.values.extend(self.host.map(Host::read).into_iter().flatten());
        Ok(Sample::new(now_us(), of_server::values(&self.facts, &answers)))
    }
}

impl Source for Server {
    fn about(&self) -> &About {
        &self.about
    }

    fn sample(&mut self) -> Result<Sample, Trouble> {
        let sample = self.try_sample();
        if sample.is_err() {
            self.connection = None;
        }
        sample
    }

    fn row_changes(&mut self) -> Option<RowChanges> {
        let is_on = |name: &str| self.facts.variables.get(name).is_some_and(|value| value == "ON");
        let (by_table, statement) = match (is_on("performance_schema"), is_on("userstat")) {
            (true, _) => (false, BY_STATEMENT),
            (false, true) => (true, BY_TABLE),
            (false, false) => return None,
        };
        // A user may lack the right to read it; then nothing is named.
        let rows = self.connection.as_mut()?.rows(statement).ok()?;
        let number = |(name, rows): (String, String)| Some((name, rows.parse().ok()?));
        Some(RowChanges { by_table, rows: rows.into_iter().filter_map(pair).filter_map(number).collect() })
    }
}

/// Learns which metrics `INNODB_METRICS` has. Returns whether it has a column `ENABLED`.
fn learn_metrics(connection: &mut Connection, facts: &mut Facts) -> Result<bool, Trouble> {
    for (column, enabled_column) in [("ENABLED", true), ("STATUS = 'enabled'", false)] {
        let statement = format!("SELECT NAME, {column}, TYPE FROM information_schema.INNODB_METRICS");
        match connection.rows(&statement) {
            Ok(rows) => {
                facts.metrics = rows.into_iter().filter_map(metric).collect();
                return Ok(enabled_column);
            }
            Err(Trouble::Refused { code, .. }) if NO_PRIVILEGE.contains(&code) => {
                facts.refusals.push(NEEDS_PROCESS.to_owned());
                return Ok(false);
            }
            Err(Trouble::Refused { code, .. }) if UNKNOWN.contains(&code) => {}
            // A statement that was killed says nothing about the server.
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(false)
}

fn metric(row: Row) -> Option<(String, MetricFact)> {
    let cells: [Option<String>; 3] = row.try_into().ok()?;
    let [Some(name), Some(enabled), Some(kind)] = cells else { return None };
    let kind = if kind == "value" { ColumnKind::Gauge } else { ColumnKind::Counter };
    Some((name.to_lowercase(), MetricFact { enabled: enabled == "1", kind }))
}

fn ask(connection: &mut Connection, statements: &Statements) -> Result<Answers, Trouble> {
    let mut values = numbers(connection.rows(statements.values)?);
    if let Some(metrics) = statements.metrics {
        values.extend(numbers(connection.rows(metrics)?));
    }
    let log = if statements.text { Some(text(connection)?) } else { None };
    Ok(Answers { values, log })
}

fn text(connection: &mut Connection) -> Result<super::status_text::LogSection, Trouble> {
    let rows = connection.rows(TEXT)?;
    let text = rows.into_iter().next().and_then(|row| row.into_iter().next_back()?);
    Ok(log_section(&text.unwrap_or_default()))
}

/// Returns the names in lower case with their values; what is no number is left out.
pub(super) fn numbers(rows: Vec<Row>) -> BTreeMap<String, f64> {
    let number = |(name, value): (String, String)| {
        let value: f64 = value.parse().ok()?;
        value.is_finite().then(|| (name.to_lowercase(), value))
    };
    rows.into_iter().filter_map(pair).filter_map(number).collect()
}

fn pair(row: Row) -> Option<(String, String)> {
    let mut cells = row.into_iter();
    Some((cells.next()??, cells.next()?.unwrap_or_default()))
}
