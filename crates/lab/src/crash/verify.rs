//! The comparison after the crash: every row and every index entry with the expected rows.

use super::recipe::{ExpectedRows, Plan, Probe, Writer};
use crate::workload::Tables;
use crate::workload::row::{Row, id_of, index_of};
use millpond::{Db, TxnOptions};
use output::failure::Outcome;
use output::stop;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// How many findings are described.
const EXAMPLES: usize = 5;

/// The result of the comparison.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Acknowledged transactions with a missing change.
    pub(crate) lost: u64,
    /// Values that neither an acknowledged transaction nor one in flight wrote, and transactions in
    /// flight that are only partly there.
    pub(crate) extra: u64,
    /// The threads whose unacknowledged transaction is completely there.
    pub(crate) in_flight_committed: Vec<u32>,
    /// Descriptions of the first findings.
    pub(crate) examples: Vec<String>,
}

struct Verifier<'a> {
    plan: &'a Plan,
    expected_rows: &'a ExpectedRows,
    lost: HashSet<Writer>,
    extra: u64,
    /// By thread: how many rows of its transaction in flight are as before it, and as after it.
    in_flight: Vec<(u32, u32)>,
    examples: Vec<String>,
}

/// Reads the whole database and compares it with the expected rows.
pub(crate) fn verify(db: &Db, plan: &Plan, expected_rows: &ExpectedRows) -> Outcome<Verdict> {
    let tables = Tables::open(db, plan.tables)?;
    let mut verifier = Verifier {
        plan,
        expected_rows,
        lost: HashSet::new(),
        extra: 0,
        in_flight: vec![(0, 0); plan.threads as usize],
        examples: Vec::new(),
    };
    verifier.probe();
    for table in 1..=plan.tables {
        stop::check()?;
        let tx = db.begin_with(TxnOptions::new().read_only(true))?;
        let mut found = vec![None; plan.rows as usize];
        tx.scan(&tables.get(table).rows, .., |key, value| {
            verifier.collect(table, key, value, &mut found);
            ControlFlow::Continue(())
        })?;
        for (id, row) in (1..).zip(&found) {
            verifier.row(table, id, row.as_ref());
        }
        let mut entries = vec![false; plan.rows as usize];
        tx.scan(&tables.get(table).index, .., |key, _| {
            verifier.entry(table, key, &found, &mut entries);
            ControlFlow::Continue(())
        })?;
        verifier.missing_entries(table, &found, &entries);
    }
    Ok(verifier.verdict())
}

impl Verifier<'_> {
    fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text);
        }
    }

    fn lose(&mut self, table: u32, id: u32, what: &str) {
        let writer = self.expected_rows.state(table, id).writer(self.plan.owner(id));
        self.lost.insert(writer);
        self.example(format!(
            "lost: row {id} of sbtest{table}, transaction {} of thread {}: {what}",
            writer.number, writer.thread
        ));
    }

    fn add(&mut self, text: String) {
        self.extra += 1;
        self.example(format!("extra: {text}"));
    }

    /// Compares what the reopener read before its change.
    fn probe(&mut self) {
        if let Some(Probe { table, id, expected, found }) = self.expected_rows.probe
            && expected != found
        {
            self.lose(table, id, "the first transaction after the kill read something else");
        }
    }

    fn collect(&mut self, table: u32, key: &[u8], value: &[u8], found: &mut [Option<Row>]) {
        let place = id_of(key).and_then(|id| found.get_mut((id as usize).wrapping_sub(1)));
        match (place, Row::decode(value)) {
            (Some(place), Some(row)) => *place = Some(row),
            (_, None) => self.add(format!("the value of key {key:02x?} of sbtest{table} is no row")),
            (None, _) => self.add(format!("sbtest{table} has a row with key {key:02x?}")),
        }
    }

    fn row(&mut self, table: u32, id: u32, found: Option<&Row>) {
        let (plan, expected_rows) = (self.plan, self.expected_rows);
        let thread = plan.owner(id);
        let as_before = plan.row(table, id, &expected_rows.state(table, id)).as_ref() == found;
        let in_flight = expected_rows.in_flight(table, id);
        let as_after = in_flight.is_some_and(|state| plan.row(table, id, &state).as_ref() == found);
        if in_flight.is_some() {
            let (before, after) = &mut self.in_flight[thread as usize];
            *before += u32::from(as_before);
            *after += u32::from(as_after);
        }
        if as_before || as_after {
            return;
        }
        let Some(row) = found else { return self.lose(table, id, "the row is missing") };
        match plan.writer_of(table, id, row) {
            Some(writer) if expected_rows.may_have_written(writer) => {
                self.lose(table, id, &format!("the row is as transaction {} left it", writer.number));
            }
            Some(writer) => {
                self.add(format!("row {id} of sbtest{table} was written by transaction {writer:?}"));
            }
            None => self.add(format!("row {id} of sbtest{table} holds what no transaction wrote")),
        }
    }

    fn entry(&mut self, table: u32, key: &[u8], found: &[Option<Row>], entries: &mut [bool]) {
        let fits = index_of(key).and_then(|(k, id)| {
            let at = (id as usize).wrapping_sub(1);
            found.get(at)?.as_ref().filter(|row| row.k == k)?;
            Some(at)
        });
        match fits {
            Some(at) => entries[at] = true,
            None => self.add(format!("sbtest{table}_k has an entry {key:02x?} that belongs to no row")),
        }
    }

    fn missing_entries(&mut self, table: u32, found: &[Option<Row>], entries: &[bool]) {
        for (id, (row, entry)) in (1..).zip(found.iter().zip(entries)) {
            if row.is_some() && !entry {
                self.lose(table, id, "its index entry is missing");
            }
        }
    }

    fn verdict(mut self) -> Verdict {
        let mut in_flight_committed = Vec::new();
        for thread in 0..self.plan.threads {
            match self.in_flight[thread as usize] {
                (_, 0) => {}
                (0, _) => in_flight_committed.push(thread),
                (before, after) => self.add(format!(
                    "of the transaction in flight of thread {thread} {after} rows are there and {before} are not"
                )),
            }
        }
        Verdict {
            lost: self.lost.len() as u64,
            extra: self.extra,
            in_flight_committed,
            examples: self.examples,
        }
    }
}
