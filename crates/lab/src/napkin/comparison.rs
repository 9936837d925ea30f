//! The published figures and those of this machine, side by side.

use super::operation::Operation;
use crate::others::Others;
use crate::result::{TableLines, to_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    what: &'static str,
    unit: &'static str,
    published: Option<f64>,
    /// `None` if it could not be measured.
    here: Option<f64>,
    times_as_fast: Option<f64>,
    /// Why it could not be measured.
    not_measured: Option<String>,
}

impl Row {
    /// Makes the row of an operation of `bytes` bytes from the nanoseconds that it takes, or from
    /// the reason why it cannot be measured.
    pub(super) fn of(operation: Operation, ns: Result<f64, String>, bytes: u64) -> Row {
        let (unit, published) = (operation.unit(), operation.published());
        let here = ns.as_ref().ok().map(|ns| unit.of(*ns, bytes));
        let faster = |(here, published)| unit.times_as_fast(here, published);
        Row {
            what: operation.name(),
            unit: unit.name(),
            published,
            here,
            times_as_fast: here.zip(published).map(faster),
            not_measured: ns.err(),
        }
    }

    fn line(&self) -> String {
        let figure = |value: Option<f64>| match value {
            Some(value) => format!("{} {:<5}", digits(value), self.unit),
            None => format!("- {:<5}", ""),
        };
        let (published, here) = (figure(self.published), figure(self.here));
        let times = self.times_as_fast.map_or_else(|| "-".to_owned(), digits);
        let why = self.not_measured.as_ref().map_or_else(String::new, |why| format!("  not measured: {why}"));
        format!("{:<46} {published:>12} {here:>12} {times:>9}{why}", self.what)
    }
}

/// Returns a number with two digits, or three if it is at least 100.
fn digits(value: f64) -> String {
    match value {
        n if n < 0.0995 => format!("{n:.3}"),
        n if n < 0.995 => format!("{n:.2}"),
        n if n < 9.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// The result of `millpond napkin --reference`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reference {
    version: &'static str,
    machine: BTreeMap<&'static str, String>,
    /// What the published figures are.
    published: &'static str,
    others: Others,
    rows: Vec<Row>,
}

/// What the published figures are.
const PUBLISHED: &str =
    "github.com/sirupsen/napkin-math, 2026-03-08: 24 cores of a Xeon 6985P-C, local disks";

impl Reference {
    /// Makes the result.
    pub(super) fn new(machine: Vec<(&'static str, String)>, others: Others, rows: Vec<Row>) -> Reference {
        let machine = machine.into_iter().collect();
        Reference { version: env!("CARGO_PKG_VERSION"), machine, published: PUBLISHED, others, rows }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns the table.
    pub(crate) fn table(&self) -> String {
        let mut lines = TableLines::default();
        for (name, fact) in &self.machine {
            lines.line(name, fact.clone());
        }
        lines.line("published", self.published.to_owned());
        if let Some(disturbed) = self.others.sentence() {
            lines.line("disturbed", disturbed);
        }
        let mut out = lines.text();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n{:<46} {:>12} {:>12} {:>9}", "", "published", "here", "as fast");
        for row in &self.rows {
            let _ = writeln!(out, "{}", row.line().trim_end());
        }
        out.push_str("\n\"as fast\": how many times as fast as published; below 1 this machine is slower\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_figures_and_their_ratio() {
        let shown = [
            Row::of(Operation::SequentialMemory, Ok(1e9), 10 << 30).line(),
            Row::of(Operation::WriteFsync, Ok(1_200_000.0), 0).line(),
            Row::of(Operation::Mutex, Ok(12.34), 0).line(),
            Row::of(Operation::ContextSwitch, Err("no core".to_owned()), 0).line(),
        ];
        expect_test::expect![[r#"
            read memory in order, one thread                   20 GiB/s     10 GiB/s      0.50
            write 8 KiB and fsync                             300 µs      1200 µs         0.25
            lock and unlock a mutex that nobody holds           -           12 ns            -
            context switch between two threads                 10 µs         -               -  not measured: no core
        "#]].assert_eq(&(shown.join("\n") + "\n"));
    }

    #[test]
    fn numbers_have_two_digits() {
        for (value, shown) in
            [(0.01234, "0.012"), (0.5, "0.50"), (0.999, "1.0"), (7.31, "7.3"), (9.97, "10"), (1234.5, "1234")]
        {
            assert_eq!(digits(value), shown);
        }
    }
}
