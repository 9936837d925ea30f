//! The table of a log: who writes how much of it, as text and as JSON. Pure.

use output::units::{show_count, show_size};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What rows are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// A row for each table
    Table,
    /// A row for each index of each table
    Index,
    /// A row for each kind of record of each index
    Record,
}

/// Records and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// What a row is about. What `By` adds up is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) index: String,
    pub(crate) record: String,
}

/// All that was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows(BTreeMap<Row, Count>);

impl Rows {
    /// Adds to a row.
    pub(crate) fn add(&mut self, row: Row, count: Count) {
        let sum = self.0.entry(row).or_default();
        sum.records += count.records;
        sum.bytes += count.bytes;
    }

    /// Returns the rows, added up, the greatest first.
    fn sorted(&self, by: By) -> Vec<(Row, Count)> {
        let mut sums = Rows::default();
        for (row, count) in &self.0 {
            let mut row = row.clone();
            if by != By::Record {
                row.record.clear();
            }
            if by == By::Table {
                row.index.clear();
            }
            sums.add(row, *count);
        }
        let mut rows: Vec<_> = sums.0.into_iter().collect();
        rows.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        rows
    }

    /// Returns the sum of all rows.
    pub(crate) fn sum(&self) -> Count {
        self.0.values().fold(Count::default(), |sum, count| Count {
            records: sum.records + count.records,
            bytes: sum.bytes + count.bytes,
        })
    }
}

/// What was read of a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// Which log, and how it was read: one line.
    pub(crate) title: String,
    pub(crate) rows: Rows,
    pub(crate) from_lsn: u64,
    pub(crate) to_lsn: u64,
    /// Bytes between the two that were overwritten before they were read.
    pub(crate) missed: u64,
    /// How long the log was followed; `None` if it was read once.
    pub(crate) seconds: Option<f64>,
    /// What a reader has to know.
    pub(crate) notes: Vec<String>,
}

impl Reading {
    fn length(&self) -> u64 {
        self.to_lsn.saturating_sub(self.from_lsn)
    }

    /// Whether the rows and what was missed are the whole log, to the byte.
    pub(crate) fn exact(&self) -> bool {
        self.rows.sum().bytes.checked_add(self.missed) == Some(self.length())
    }

    fn rate(&self, bytes: u64) -> Option<f64> {
        self.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| bytes as f64 / seconds)
    }

    /// Returns the table.
    pub(crate) fn text(&self, by: By) -> String {
        let all = self.rows.sum();
        let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / all.bytes.max(1) as f64);
        let rate = |bytes| self.rate(bytes).map_or("-".to_owned(), |rate| show_size(rate.round()) + "/s");
        let cells = |row: &Row, count: &Count| {
            let mut cells = vec![row.table.clone()];
            if by != By::Table {
                cells.push(row.index.clone());
            }
            if by == By::Record {
                cells.push(row.record.clone());
            }
            let (records, bytes) = (show_count(count.records as f64), show_count(count.bytes as f64));
            cells.extend([records, bytes, share(count.bytes), rate(count.bytes)]);
            cells
        };
        let mut lines =
            vec![["table", "index", "record"][..by as usize + 1].iter().map(|s| s.to_string()).collect()];
        let first: &mut Vec<String> = &mut lines[0];
        first.extend(["records", "bytes", "share", "a second"].map(String::from));
        lines.extend(self.rows.sorted(by).iter().map(|(row, count)| cells(row, count)));
        let sum = Row { table: "sum".into(), index: String::new(), record: String::new() };
        lines.push(cells(&sum, &all));
        let mut out = format!("{}\n", self.title);
        out.push_str(&aligned(&lines, by as usize + 1));
        out.push_str(&self.check());
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    /// Says whether the sum is the log.
    fn check(&self) -> String {
        let (sum, length) = (self.rows.sum().bytes, self.length());
        let missed = if self.missed == 0 {
            String::new()
        } else {
            format!(" + {} missed", show_count(self.missed as f64))
        };
        let verdict = if self.exact() {
            "the sum is the log".to_owned()
        } else {
            format!("THE SUM IS NOT THE LOG, by {} bytes", (sum + self.missed).abs_diff(length))
        };
        format!(
            "LSN {} to {}: {} bytes; rows {}{missed}: {verdict}\n",
            self.from_lsn,
            self.to_lsn,
            show_count(length as f64),
            show_count(sum as f64)
        )
    }

    /// Returns the rows as a list of objects. The last one is the sum.
    pub(crate) fn json(&self, by: By) -> String {
        let all = self.rows.sum();
        let share = |bytes: u64| bytes as f64 / all.bytes.max(1) as f64;
        let name = |text: &str, shown: bool| shown.then(|| text.to_owned());
        let mut list: Vec<_> = self
            .rows
            .sorted(by)
            .iter()
            .map(|(row, count)| {
                json!({
                    "table": row.table,
                    "index": name(&row.index, by != By::Table),
                    "record": name(&row.record, by == By::Record),
                    "records": count.records,
                    "bytes": count.bytes,
                    "share": share(count.bytes),
                    "bytes_per_second": self.rate(count.bytes),
                })
            })
            .collect();
        list.push(json!({
            "sum": true,
            "records": all.records,
            "bytes": all.bytes,
            "bytes_per_second": self.rate(all.bytes),
            "from_lsn": self.from_lsn,
            "to_lsn": self.to_lsn,
            "missed_bytes": self.missed,
            "exact": self.exact(),
            "seconds": self.seconds,
            "notes": self.notes,
        }));
        format!("{:#}\n", serde_json::Value::Array(list))
    }
}

/// Aligns columns: the first `names` to the left, numbers to the right.
fn aligned(lines: &[Vec<String>], names: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width =
        |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths.get(column).copied().unwrap_or(0);
            let _ = if column < names {
                write!(text, "{cell:<width$}  ")
            } else {
                write!(text, "{cell:>width$}  ")
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}
