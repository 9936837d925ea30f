//! What each transaction of the crash experiment writes, as a function of its thread and number;
//! and the expected rows, which follow from the acknowledged transactions.
//!
//! Row ids are assigned to the threads in turn. So neighbours in a page belong to different
//! threads, but no two threads write the same row. A transaction writes eight rows of its thread:
//! it inserts missing rows and updates (with or without the indexed column) or deletes the others.
//! Each column names its writer in its first two groups of digits. The rest comes from a generator
//! that is seeded with the writer, the table and the id. So an undamaged column proves its writer.

use crate::workload::distribution::Distribution;
use crate::workload::row::{C, C_BYTES, PAD_BYTES, Pad, Row, digits, number_in, put_number};
use crate::workload::tpcc::TpccSetup;
use crate::workload::{Loader, TxnSettings, WorkloadParams};
use base::prng::Prng;
use millpond::{Db, Durability, Isolation};
use output::failure::Outcome;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

/// Rows that a transaction writes.
const WRITES: usize = 8;
/// Marks the number of a doomed transaction, which is run and rolled back before the real one: its
/// values must never be seen.
pub(crate) const DOOMED: u32 = 1 << 31;
/// A doomed transaction is run before every so many real ones.
pub(crate) const DOOMED_EVERY: u32 = 16;

/// The parameters from which all transactions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Plan {
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) threads: u32,
    #[arg(long)]
    pub(crate) tables: u32,
    #[arg(long)]
    pub(crate) rows: u32,
}

/// The writer of a value: thread and number of the transaction. Number 0 is the load; thread
/// `threads` is the reopener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writer {
    pub(crate) thread: u32,
    pub(crate) number: u32,
}

/// A row that a transaction writes, and what it does if the row exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) table: u32,
    pub(crate) id: u32,
    action: RowAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowAction {
    UpdateIndexed,
    UpdatePlain,
    Delete,
}

impl Plan {
    /// Makes the tables in a new database.
    pub(crate) fn load(&self, db: &Db) -> Outcome {
        let params = WorkloadParams {
            tables: self.tables,
            rows: self.rows,
            distribution: Distribution::Uniform,
            seed: self.seed,
            begin: TxnSettings { durability: Durability::Sync, isolation: Isolation::RepeatableRead },
            tpcc: TpccSetup::default(),
        };
        let loader = Loader { db, threads: 2, rows_loaded: &AtomicU64::new(0) };
        loader.fill(&params, |table| move |id| self.loaded(table, id))
    }

    /// Returns the flags for a child process.
    pub(crate) fn args(&self) -> Vec<String> {
        let Plan { seed, threads, tables, rows } = self;
        vec![
            format!("--seed={seed}"),
            format!("--threads={threads}"),
            format!("--tables={tables}"),
            format!("--rows={rows}"),
        ]
    }

    /// Returns the only thread that writes row `id`.
    pub(crate) fn owner(&self, id: u32) -> u32 {
        (id - 1) % self.threads
    }

    fn rng(&self, writer: Writer, table: u32, id: u32) -> Prng {
        let words =
            [self.seed, u64::from(writer.thread), u64::from(writer.number), u64::from(table), u64::from(id)];
        Prng::new(words.into_iter().fold(0, |hash: u64, word| Prng::new(hash ^ word).next_u64()))
    }

    /// Returns column k as `writer` sets it.
    fn k(&self, writer: Writer, table: u32, id: u32) -> u32 {
        1 + self.rng(writer, table, id).below(u64::from(self.rows)) as u32
    }

    /// Returns column c as `writer` sets it.
    pub(crate) fn c(&self, writer: Writer, table: u32, id: u32) -> C {
        let mut rng = self.rng(writer, table, id);
        rng.next_u64();
        signed::<C_BYTES>(writer, &mut rng)
    }

    fn pad(&self, writer: Writer, table: u32, id: u32) -> Pad {
        let mut rng = self.rng(writer, table, id);
        rng.next_u64();
        rng.next_u64();
        signed::<PAD_BYTES>(writer, &mut rng)
    }

    /// Returns row `id` as the load writes it.
    pub(crate) fn loaded(&self, table: u32, id: u32) -> Row {
        self.row(table, id, &RowState::loaded(self, table, id))
            .unwrap_or_else(|| unreachable!("a loaded row is present"))
    }

    /// Returns the rows that a transaction writes, in the order of writing. All are different.
    pub(crate) fn targets(&self, thread: u32, number: u32) -> Vec<Target> {
        let mut rng = self.rng(Writer { thread, number }, 0, 0);
        // Ids thread + 1, thread + 1 + threads, …: there is at least one, and there are as many in
        // each table.
        let owned = (self.rows - thread - 1) / self.threads + 1;
        let mut targets: Vec<Target> = Vec::with_capacity(WRITES);
        for _ in 0..WRITES {
            let table = 1 + rng.below(u64::from(self.tables)) as u32;
            let id = thread + 1 + self.threads * rng.below(u64::from(owned)) as u32;
            let action = match rng.below(8) {
                0..=3 => RowAction::UpdateIndexed,
                4..=6 => RowAction::UpdatePlain,
                _ => RowAction::Delete,
            };
            if !targets.iter().any(|t| (t.table, t.id) == (table, id)) {
                targets.push(Target { table, id, action });
            }
        }
        targets
    }

    /// Returns the row that `writer` makes from `old` at `target`; `None` if it deletes the row.
    pub(crate) fn write(&self, writer: Writer, target: &Target, old: Option<&Row>) -> Option<Row> {
        let Target { table, id, action } = *target;
        let c = self.c(writer, table, id);
        match (old, action) {
            (None, _) => Some(Row { k: self.k(writer, table, id), c, pad: self.pad(writer, table, id) }),
            (Some(old), RowAction::UpdateIndexed) => {
                Some(Row { k: self.k(writer, table, id), c, pad: old.pad })
            }
            (Some(old), RowAction::UpdatePlain) => Some(Row { c, ..*old }),
            (Some(_), RowAction::Delete) => None,
        }
    }

    /// Returns the row of a state; `None` if the row is deleted.
    pub(crate) fn row(&self, table: u32, id: u32, state: &RowState) -> Option<Row> {
        let thread = self.owner(id);
        let c = if state.probed { Writer { thread: self.threads, number: 1 } } else { state.writer(thread) };
        state.present.then(|| Row {
            k: state.k,
            c: self.c(c, table, id),
            pad: self.pad(Writer { thread, number: state.pad_number }, table, id),
        })
    }

    /// Returns the writer that column c names, if the column is undamaged.
    pub(crate) fn writer_of(&self, table: u32, id: u32, row: &Row) -> Option<Writer> {
        let thread = u32::try_from(number_in(&row.c, 0)?).ok()?;
        let number = u32::try_from(number_in(&row.c, 1)?).ok()?;
        let writer = Writer { thread, number };
        (self.c(writer, table, id) == row.c).then_some(writer)
    }
}

/// Returns random digits after the writer's thread and number.
fn signed<const N: usize>(writer: Writer, rng: &mut Prng) -> [u8; N] {
    let mut column = digits::<N>(rng);
    put_number(&mut column, 0, u64::from(writer.thread));
    put_number(&mut column, 1, u64::from(writer.number));
    column
}

/// A row in few bytes: the transactions of its thread that wrote its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowState {
    present: bool,
    /// The reopener wrote column c last.
    probed: bool,
    k: u32,
    /// The last transaction that wrote or deleted the row.
    number: u32,
    pad_number: u32,
}

impl RowState {
    fn loaded(plan: &Plan, table: u32, id: u32) -> RowState {
        let writer = Writer { thread: plan.owner(id), number: 0 };
        RowState { present: true, probed: false, k: plan.k(writer, table, id), number: 0, pad_number: 0 }
    }

    /// Returns the last transaction of the owner that wrote or deleted the row.
    pub(crate) fn writer(&self, thread: u32) -> Writer {
        Writer { thread, number: self.number }
    }

    /// Returns the state after [`Plan::write`].
    fn after(self, plan: &Plan, writer: Writer, target: &Target) -> RowState {
        let number = writer.number;
        let k = || plan.k(writer, target.table, target.id);
        match (self.present, target.action) {
            (false, _) => RowState { present: true, probed: false, k: k(), number, pad_number: number },
            (true, RowAction::UpdateIndexed) => RowState { k: k(), number, probed: false, ..self },
            (true, RowAction::UpdatePlain) => RowState { number, probed: false, ..self },
            (true, RowAction::Delete) => RowState { present: false, number, probed: false, ..self },
        }
    }
}

/// What every row must be after the acknowledged transactions.
pub(crate) struct ExpectedRows {
    /// By table and id, from 0.
    states: Vec<Vec<RowState>>,
    /// The number of the last transaction of each thread that must be there: it was acknowledged,
    /// or was in flight at a kill and was found.
    done: Vec<u32>,
    /// What the rows would be if the transaction in flight of each thread had committed.
    in_flight: HashMap<(u32, u32), RowState>,
    /// The reopener's change.
    pub(crate) probe: Option<Probe>,
}

/// The first transaction after the kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// The row that it changed.
    pub(crate) table: u32,
    pub(crate) id: u32,
    /// What it should have read there, and what it reported.
    pub(crate) expected: Option<Row>,
    pub(crate) found: Option<Row>,
}

impl ExpectedRows {
    /// Computes the rows after the load.
    pub(crate) fn loaded(plan: &Plan) -> ExpectedRows {
        let states = (1..=plan.tables)
            .map(|table| (1..=plan.rows).map(|id| RowState::loaded(plan, table, id)).collect())
            .collect();
        let done = vec![0; plan.threads as usize];
        ExpectedRows { states, done, in_flight: HashMap::new(), probe: None }
    }

    /// Computes the rows after more transactions of every thread, up to the last acknowledged one.
    pub(crate) fn acknowledge(&mut self, plan: &Plan, acknowledged: &[u32]) {
        self.in_flight.clear();
        for (thread, &last) in (0..).zip(acknowledged) {
            for number in self.done[thread as usize] + 1..=last {
                self.run(plan, Writer { thread, number });
            }
            let writer = Writer { thread, number: last + 1 };
            for target in plan.targets(thread, last + 1) {
                let would_be = self.state(target.table, target.id).after(plan, writer, &target);
                self.in_flight.insert((target.table, target.id), would_be);
            }
        }
    }

    fn run(&mut self, plan: &Plan, writer: Writer) {
        for target in plan.targets(writer.thread, writer.number) {
            let state = self.state_mut(target.table, target.id);
            *state = state.after(plan, writer, &target);
        }
        self.done[writer.thread as usize] = writer.number;
    }

    /// Makes the rows those that were found: the transactions in flight of these threads are there.
    pub(crate) fn found_in_flight(&mut self, plan: &Plan, threads: &[u32]) {
        for &thread in threads {
            self.run(plan, Writer { thread, number: self.done[thread as usize] + 1 });
        }
    }

    /// Returns the number of the last transaction of each thread that must be there.
    pub(crate) fn done(&self) -> &[u32] {
        &self.done
    }

    /// Returns what row `id` must be.
    pub(crate) fn state(&self, table: u32, id: u32) -> RowState {
        self.states[table as usize - 1][id as usize - 1]
    }

    fn state_mut(&mut self, table: u32, id: u32) -> &mut RowState {
        &mut self.states[table as usize - 1][id as usize - 1]
    }

    /// Returns what row `id` may be instead, if the owner's unacknowledged transaction became
    /// durable.
    pub(crate) fn in_flight(&self, table: u32, id: u32) -> Option<RowState> {
        self.in_flight.get(&(table, id)).copied()
    }

    /// Returns whether values of `writer` may be there: it is the load, a transaction that must be
    /// there, or the transaction in flight.
    pub(crate) fn may_have_written(&self, writer: Writer) -> bool {
        self.done.get(writer.thread as usize).is_some_and(|&last| writer.number <= last + 1)
    }

    /// Returns a random row that must exist, that an acknowledged transaction changed, and that no
    /// transaction in flight wrote. If there is none, any row that must exist.
    pub(crate) fn row_to_probe(&self, plan: &Plan, rng: &mut Prng) -> (u32, u32) {
        for attempt in 0..1_000_000u32 {
            let thread = rng.below(u64::from(plan.threads)) as u32;
            let last = self.done[thread as usize];
            let (table, id) = if last > 0 && attempt < 10_000 {
                let targets = plan.targets(thread, 1 + rng.below(u64::from(last)) as u32);
                let target = rng.pick(&targets);
                (target.table, target.id)
            } else {
                (1 + rng.below(u64::from(plan.tables)) as u32, 1 + rng.below(u64::from(plan.rows)) as u32)
            };
            if self.state(table, id).present && !self.in_flight.contains_key(&(table, id)) {
                return (table, id);
            }
        }
        (1, 1)
    }

    /// Records that the reopener changed a row, and what it had read there.
    pub(crate) fn probe(&mut self, plan: &Plan, (table, id): (u32, u32), found: Option<Row>) {
        let expected = plan.row(table, id, &self.state(table, id));
        self.probe = Some(Probe { table, id, expected, found });
        self.state_mut(table, id).probed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 9, threads: 3, tables: 2, rows: 40 };

    #[test]
    fn every_row_has_one_owner_and_every_owner_writes_its_own_rows() {
        for thread in 0..3 {
            for number in 1..200 {
                let targets = PLAN.targets(thread, number);
                assert!(!targets.is_empty());
                for (i, target) in targets.iter().enumerate() {
                    assert_eq!(PLAN.owner(target.id), thread);
                    assert!((1..=40).contains(&target.id) && (1..=2).contains(&target.table));
                    assert!(targets[..i].iter().all(|t| (t.table, t.id) != (target.table, target.id)));
                }
            }
        }
        let tight = Plan { threads: 40, ..PLAN };
        assert!((0..40).all(|thread| tight.targets(thread, 1).iter().all(|t| t.id == thread + 1)));
    }

    /// The expected rows are computed from numbers, but the victim computes them from rows. Both
    /// must agree, or every run would report losses.
    #[test]
    fn the_expected_rows_are_those_that_the_transactions_write() {
        let acknowledged = [150, 90, 0];
        let mut rows: HashMap<(u32, u32), Row> = HashMap::new();
        for table in 1..=2 {
            rows.extend((1..=40).map(|id| ((table, id), PLAN.loaded(table, id))));
        }
        for (thread, last) in (0..).zip(acknowledged) {
            for number in 1..=last {
                for target in PLAN.targets(thread, number) {
                    let at = (target.table, target.id);
                    let written = PLAN.write(Writer { thread, number }, &target, rows.get(&at));
                    match written {
                        Some(row) => rows.insert(at, row),
                        None => rows.remove(&at),
                    };
                }
            }
        }
        let mut expected_rows = ExpectedRows::loaded(&PLAN);
        // In two runs, with a kill after the first, at which one transaction in flight was durable.
        expected_rows.acknowledge(&PLAN, &[70, 89, 0]);
        expected_rows.found_in_flight(&PLAN, &[1]);
        assert_eq!(expected_rows.done(), [70, 90, 0]);
        expected_rows.acknowledge(&PLAN, &acknowledged);
        let mut absent = 0;
        for table in 1..=2 {
            for id in 1..=40 {
                let expected = PLAN.row(table, id, &expected_rows.state(table, id));
                assert_eq!(expected.as_ref(), rows.get(&(table, id)), "row {id} of table {table}");
                absent += usize::from(expected.is_none());
                if let Some(row) = expected {
                    let writer = expected_rows.state(table, id).writer(PLAN.owner(id));
                    assert_eq!(PLAN.writer_of(table, id, &row), Some(writer));
                }
            }
        }
        assert!(absent > 0, "deletes take part");
        let (table, id) = expected_rows.row_to_probe(&PLAN, &mut Prng::new(1));
        assert!(rows.contains_key(&(table, id)) && expected_rows.in_flight(table, id).is_none());
    }

    #[test]
    fn a_forged_or_misplaced_value_has_no_writer() {
        let row = PLAN.loaded(1, 7);
        assert_eq!(PLAN.writer_of(1, 7, &row), Some(Writer { thread: 0, number: 0 }));
        assert_eq!(PLAN.writer_of(2, 7, &row), None, "the row of another table");
        assert_eq!(PLAN.writer_of(1, 8, &row), None, "the row of another id");
        let mut torn = row;
        torn.c[60] ^= 1;
        assert_eq!(PLAN.writer_of(1, 7, &torn), None);
        let mut expected_rows = ExpectedRows::loaded(&PLAN);
        expected_rows.acknowledge(&PLAN, &[5, 0, 0]);
        for (thread, number, may) in
            [(0, 0, true), (0, 6, true), (0, 7, false), (0, 3 | DOOMED, false), (1, 1, true), (3, 1, false)]
        {
            assert_eq!(expected_rows.may_have_written(Writer { thread, number }), may, "{thread} {number}");
        }
    }
}
