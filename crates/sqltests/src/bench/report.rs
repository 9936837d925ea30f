//! The figures as a table and as JSON.

use super::size::Size;
use super::stats::{Median, median};
use super::sysbench::Run;
use super::workloads::{Kind, Workload};
use serde_json::{Value as Json, json};
use std::path::Path;

/// What was measured of one workload.
#[derive(Debug)]
pub(super) struct Value {
    unit: &'static str,
    /// What of the workload it is, if there are several.
    part: Option<&'static str>,
    ours: Vec<Run>,
    theirs: Vec<Run>,
    /// What else ran, and its rate: the server's own engine, Millpond with commits that do not
    /// wait.
    pub(super) beside: Vec<(&'static str, f64)>,
}

/// The unit of what counts syncs.
const SYNCS: &str = "syncs";

fn one(rate: f64) -> Vec<Run> {
    vec![Run::of_rate(rate)]
}

impl Value {
    pub(super) fn new(unit: &'static str) -> Value {
        Value { unit, part: None, ours: Vec::new(), theirs: Vec::new(), beside: Vec::new() }
    }

    /// Returns a figure that is measured once.
    pub(super) fn of_one(unit: &'static str, ours: f64, theirs: f64) -> Value {
        Value { ours: one(ours), theirs: one(theirs), ..Value::new(unit) }
    }

    /// Returns the figures of a part of a workload.
    pub(super) fn of_part(unit: &'static str, part: &'static str) -> Value {
        Value { part: Some(part), ..Value::new(unit) }
    }

    /// Returns the microseconds of the plugin for a row.
    pub(super) fn of_plugin(part: &'static str, us: f64) -> Value {
        Value { part: Some(part), ours: one(us), ..Value::new("µs a row") }
    }

    pub(super) fn add(&mut self, engine: &str, run: Run) {
        let runs = if engine == "InnoDB" { &mut self.theirs } else { &mut self.ours };
        runs.push(run);
    }

    /// Returns how many times as much of a processor the client's own code takes for a transaction
    /// in Millpond's runs as in `run`.
    pub(super) fn client_slower_than(&self, run: &Run) -> Option<f64> {
        Some(middle(&self.ours, |run| run.client_us)? / run.client_us).filter(|times| times.is_finite())
    }

    /// Returns the syncs of a transaction in these runs, if they were counted.
    pub(super) fn syncs(&self) -> Option<Value> {
        let of = |runs: &[Run]| -> Vec<Run> {
            runs.iter().filter(|run| run.syncs.is_finite()).map(|run| Run::of_rate(run.syncs)).collect()
        };
        let value =
            Value { ours: of(&self.ours), theirs: of(&self.theirs), ..Value::of_part(SYNCS, "syncs") };
        (!value.ours.is_empty()).then_some(value)
    }

    /// Tells whether the value is a count of syncs.
    pub(super) fn is_of_syncs(&self) -> bool {
        self.unit == SYNCS
    }

    /// Returns the median of Millpond's value over InnoDB's, pair by pair.
    fn ratio(&self) -> Option<Median> {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.theirs).map(|(a, b)| a.rate / b.rate).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) rival: &'static str,
    pub(super) workload: &'static Workload,
    /// The figure that must be reached, and the one that is aimed at.
    pub(super) limits: (f64, f64),
    pub(super) value: Value,
}

/// Returns the median of one figure of some runs; none if it was not measured.
fn middle(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Option<f64> {
    let values: Vec<f64> = runs.iter().map(figure).filter(|value| value.is_finite()).collect();
    (!values.is_empty()).then(|| median(&values).middle)
}

/// Writes a number with about four digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 100.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

impl Row {
    fn name(&self) -> String {
        match self.value.part {
            Some(part) => format!("{}: {part}", self.workload.name),
            None => self.workload.name.to_owned(),
        }
    }

    /// Returns the figure that is judged: the ratio; of small differences its interval's upper end;
    /// the processor time, and the share of the rate that is kept, itself.
    fn judged(&self) -> Option<f64> {
        match self.workload.kind {
            Kind::Cpu | Kind::Idle { .. } => middle(&self.value.ours, |run| run.rate),
            Kind::Locking => self.value.ratio().map(|ratio| ratio.middle),
            _ if self.limits.0 < 1.0 => self.value.ratio().map(|ratio| ratio.high),
            _ => self.value.ratio().map(|ratio| ratio.middle),
        }
    }

    fn less_is_better(&self) -> bool {
        matches!(self.workload.kind, Kind::Cpu | Kind::Space) || self.value.is_of_syncs()
    }

    /// Returns whether the figure is what is asked for, and what is aimed at.
    fn verdict(&self) -> &'static str {
        let Some(value) = self.judged() else { return "" };
        let reaches = |limit: f64| if self.less_is_better() { value <= limit } else { value >= limit };
        match (reaches(self.limits.0), reaches(self.limits.1)) {
            (_, true) => "aim",
            (true, false) => "yes",
            (false, false) => "NO",
        }
    }

    /// Returns the line of the table.
    pub(super) fn line(&self) -> String {
        let rate = |runs: &[Run]| middle(runs, |run| run.rate).map_or(String::new(), short);
        let ratio = self.value.ratio().map_or(String::new(), |ratio| {
            format!("{:.2} ({:.2} to {:.2})", ratio.middle, ratio.low, ratio.high)
        });
        let beside: Vec<String> =
            self.value.beside.iter().map(|(name, rate)| format!("{name} {}", short(*rate))).collect();
        let (ours, theirs) = (rate(&self.value.ours), rate(&self.value.theirs));
        let (must, aim) = self.limits;
        format!(
            "{:28} | {ours:>9} | {theirs:>9} | {:15} | {ratio:22} | {must:4} | {aim:4} | {:3} | {}",
            self.name(),
            self.value.unit,
            self.verdict(),
            beside.join(", ")
        )
    }

    fn json(&self) -> Json {
        let runs = |runs: &[Run]| -> Json {
            let list = |figure: fn(&Run) -> f64| {
                runs.iter().map(figure).filter(|v| v.is_finite()).collect::<Vec<_>>()
            };
            json!({
                "values": list(|run| run.rate),
                "p99_ms": list(|run| run.p99_ms),
                "server_us": list(|run| run.server_us),
                "client_us": list(|run| run.client_us),
            })
        };
        let ratio = self.value.ratio().map(|r| json!({ "low": r.low, "median": r.middle, "high": r.high }));
        json!({
            "rival": self.rival,
            "workload": self.workload.name,
            "part": self.value.part,
            "clients": self.workload.clients,
            "unit": self.value.unit,
            "millpond": runs(&self.value.ours),
            "innodb": runs(&self.value.theirs),
            "ratio": ratio,
            "must": self.limits.0,
            "aim": self.limits.1,
            "verdict": self.verdict(),
            "beside": self.value.beside.iter().map(|(name, value)| json!({ "name": name, "value": value }))
                .collect::<Vec<_>>(),
        })
    }
}

/// Returns the table of all figures.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut rival = "";
    for row in rows {
        if row.rival != rival {
            rival = row.rival;
            let (name, values) = (format!("against {rival}"), ["Millpond", "InnoDB"]);
            text += &format!(
                "{name:28} | {:>9} | {:>9} | {:15} | {:22} | must | aim  | ok  | beside\n",
                values[0], values[1], "unit", "median of ratios"
            );
        }
        text += &row.line();
        text.push('\n');
    }
    text
}

/// Writes all figures with all runs.
pub(super) fn write_json(file: &Path, rows: &[Row], size: Size) -> Result<(), String> {
    let all = json!({
        "tables": size.data.tables,
        "rows": size.data.rows,
        "seconds": size.seconds,
        "memory_mib": size.memory_mib,
        "alter_rows": size.alter_rows,
        "binlog": size.binlog,
        "sync_delay_us": size.sync_delay,
        "figures": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    super::super::write(file, &format!("{all:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::super::workloads::ALL;
    use super::*;

    fn row(name: &str, ours: &[f64], theirs: &[f64]) -> Row {
        let workload = ALL.iter().find(|workload| workload.name == name).unwrap();
        let mut value = Value::new("a second");
        for (engine, rates) in [("Millpond", ours), ("InnoDB", theirs)] {
            rates.iter().for_each(|&rate| value.add(engine, one(rate)[0]));
        }
        Row { rival: "InnoDB tuned", workload, limits: (workload.must, workload.aim), value }
    }

    #[test]
    fn the_verdict_compares_the_median_of_the_ratios() {
        assert_eq!(row("insert-16", &[140.0, 160.0, 1.0], &[100.0, 100.0, 100.0]).verdict(), "NO");
        assert_eq!(row("insert-16", &[150.0, 160.0, 1.0], &[100.0, 100.0, 100.0]).verdict(), "yes");
        assert_eq!(row("insert-16", &[250.0], &[100.0]).verdict(), "aim");
    }

    #[test]
    fn reads_are_judged_by_the_end_of_the_interval_and_space_by_less() {
        assert_eq!(row("read-only", &[90.0, 90.0, 97.0], &[100.0, 100.0, 100.0]).verdict(), "yes");
        assert_eq!(row("read-only", &[90.0, 90.0, 96.0], &[100.0, 100.0, 100.0]).verdict(), "NO");
        assert_eq!(row("space", &[101.0], &[100.0]).verdict(), "NO");
        assert_eq!(row("idle", &[0.91, 0.92, 0.1], &[0.5, 0.5, 0.5]).verdict(), "yes");
        assert_eq!(row("idle", &[0.8, 0.89, 0.92], &[0.5, 0.5, 0.5]).verdict(), "NO");
        assert_eq!(row("space", &[80.0], &[100.0]).verdict(), "aim");
    }
}
