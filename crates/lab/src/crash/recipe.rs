//! What each transaction of the crash experiment writes, as a function of its thread and number, and the book of what
//! every row must be once it is known which transactions were acknowledged.
//!
//! Row ids are dealt out to the threads in turn, so neighbours in a page belong to different threads but no two threads
//! write one row. A transaction writes eight rows of its thread: it inserts those that are absent and updates (with or
//! without the indexed column) or deletes the others. Each column names its writer in its first two groups of digits,
//! and the rest of it is drawn from a generator seeded with the writer and the place: a column that survives whole
//! proves who wrote it.

use crate::workload::row::{C, C_BYTES, PAD_BYTES, Pad, Row, digits, number_in, put_number};
use base::prng::Prng;
use std::collections::HashMap;

/// Rows that a transaction writes.
const WRITES: usize = 8;
/// Set in the number of a transaction that is run and rolled back before the real one: its values must never be seen.
pub(crate) const DOOMED: u32 = 1 << 31;
/// Every so many transactions a doomed one goes first.
pub(crate) const DOOMED_EVERY: u32 = 16;

/// The numbers from which all else follows.
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

/// Who wrote: thread and number of the transaction. Number 0 is the load; thread `threads` is the reopener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writer {
    pub(crate) thread: u32,
    pub(crate) number: u32,
}

/// A row that a transaction writes, and what it does if the row is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) table: u32,
    pub(crate) id: u32,
    wish: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    UpdateIndexed,
    UpdatePlain,
    Delete,
}

impl Plan {
    /// The thread that alone writes row `id`.
    pub(crate) fn owner(&self, id: u32) -> u32 {
        (id - 1) % self.threads
    }

    fn rng(&self, writer: Writer, table: u32, id: u32) -> Prng {
        let words =
            [self.seed, u64::from(writer.thread), u64::from(writer.number), u64::from(table), u64::from(id)];
        Prng::new(words.into_iter().fold(0, |hash: u64, word| Prng::new(hash ^ word).next_u64()))
    }

    /// Column k as `writer` sets it.
    fn k(&self, writer: Writer, table: u32, id: u32) -> u32 {
        1 + self.rng(writer, table, id).below(u64::from(self.rows)) as u32
    }

    /// Column c as `writer` sets it.
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

    /// Row `id` as the load writes it.
    pub(crate) fn loaded(&self, table: u32, id: u32) -> Row {
        self.row(table, id, &State::loaded(self, table, id))
            .unwrap_or_else(|| unreachable!("a loaded row is present"))
    }

    /// The rows that a transaction writes, all different, in the order of writing.
    pub(crate) fn targets(&self, thread: u32, number: u32) -> Vec<Target> {
        let mut rng = self.rng(Writer { thread, number }, 0, 0);
        // Ids thread + 1, thread + 1 + threads, …: there is at least one, and there are as many in each table.
        let owned = (self.rows - thread - 1) / self.threads + 1;
        let mut targets: Vec<Target> = Vec::with_capacity(WRITES);
        for _ in 0..WRITES {
            let table = 1 + rng.below(u64::from(self.tables)) as u32;
            let id = thread + 1 + self.threads * rng.below(u64::from(owned)) as u32;
            let wish = match rng.below(8) {
                0..=3 => Wish::UpdateIndexed,
                4..=6 => Wish::UpdatePlain,
                _ => Wish::Delete,
            };
            if !targets.iter().any(|t| (t.table, t.id) == (table, id)) {
                targets.push(Target { table, id, wish });
            }
        }
        targets
    }

    /// What becomes of `old`, the row as it was found, when `writer` does its work on `target`.
    pub(crate) fn write(&self, writer: Writer, target: &Target, old: Option<&Row>) -> Option<Row> {
        let Target { table, id, wish } = *target;
        let c = self.c(writer, table, id);
        match (old, wish) {
            (None, _) => Some(Row { k: self.k(writer, table, id), c, pad: self.pad(writer, table, id) }),
            (Some(old), Wish::UpdateIndexed) => Some(Row { k: self.k(writer, table, id), c, pad: old.pad }),
            (Some(old), Wish::UpdatePlain) => Some(Row { c, ..*old }),
            (Some(_), Wish::Delete) => None,
        }
    }

    /// The row that `state` stands for.
    pub(crate) fn row(&self, table: u32, id: u32, state: &State) -> Option<Row> {
        let thread = self.owner(id);
        let c = if state.probed { Writer { thread: self.threads, number: 1 } } else { state.writer(thread) };
        state.present.then(|| Row {
            k: state.k,
            c: self.c(c, table, id),
            pad: self.pad(Writer { thread, number: state.pad_number }, table, id),
        })
    }

    /// The writer of a row by its own word, if column c is whole.
    pub(crate) fn writer_of(&self, table: u32, id: u32, row: &Row) -> Option<Writer> {
        let thread = u32::try_from(number_in(&row.c, 0)?).ok()?;
        let number = u32::try_from(number_in(&row.c, 1)?).ok()?;
        let writer = Writer { thread, number };
        (self.c(writer, table, id) == row.c).then_some(writer)
    }
}

/// Random digits with the writer's name in front.
fn signed<const N: usize>(writer: Writer, rng: &mut Prng) -> [u8; N] {
    let mut column = digits::<N>(rng);
    put_number(&mut column, 0, u64::from(writer.thread));
    put_number(&mut column, 1, u64::from(writer.number));
    column
}

/// A row in few bytes: which of its thread's transactions wrote which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    present: bool,
    /// Whether the reopener wrote column c after all others.
    probed: bool,
    k: u32,
    /// The last transaction that wrote the row or deleted it.
    number: u32,
    pad_number: u32,
}

impl State {
    fn loaded(plan: &Plan, table: u32, id: u32) -> State {
        let writer = Writer { thread: plan.owner(id), number: 0 };
        State { present: true, probed: false, k: plan.k(writer, table, id), number: 0, pad_number: 0 }
    }

    /// The last of the owner's transactions that wrote or deleted the row.
    pub(crate) fn writer(&self, thread: u32) -> Writer {
        Writer { thread, number: self.number }
    }

    /// Follows [`Plan::write`].
    fn after(self, plan: &Plan, writer: Writer, target: &Target) -> State {
        let number = writer.number;
        let k = || plan.k(writer, target.table, target.id);
        match (self.present, target.wish) {
            (false, _) => State { present: true, probed: false, k: k(), number, pad_number: number },
            (true, Wish::UpdateIndexed) => State { k: k(), number, ..self },
            (true, Wish::UpdatePlain) => State { number, ..self },
            (true, Wish::Delete) => State { present: false, number, ..self },
        }
    }
}

/// What every row must be, given which transactions were acknowledged.
pub(crate) struct Book {
    /// By table and id, from 0.
    states: Vec<Vec<State>>,
    /// The last acknowledged number of each thread.
    acknowledged: Vec<u32>,
    /// What the rows would be if the transaction that each thread was in when it died had committed.
    in_flight: HashMap<(u32, u32), State>,
    /// What the reopener did.
    pub(crate) probe: Option<Probe>,
}

/// The first transaction after the kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// The row that it changed.
    pub(crate) table: u32,
    pub(crate) id: u32,
    /// What it should have read there, and what it said that it had.
    pub(crate) expected: Option<Row>,
    pub(crate) found: Option<Row>,
}

impl Book {
    /// The load and then the acknowledged transactions of every thread.
    pub(crate) fn replay(plan: &Plan, acknowledged: &[u32]) -> Book {
        let states = (1..=plan.tables)
            .map(|table| (1..=plan.rows).map(|id| State::loaded(plan, table, id)).collect())
            .collect();
        let mut book =
            Book { states, acknowledged: acknowledged.to_vec(), in_flight: HashMap::new(), probe: None };
        for (thread, &last) in (0..).zip(acknowledged) {
            for number in 1..=last {
                for target in plan.targets(thread, number) {
                    let state = book.state_mut(target.table, target.id);
                    *state = state.after(plan, Writer { thread, number }, &target);
                }
            }
            for target in plan.targets(thread, last + 1) {
                let state = book.state(target.table, target.id);
                let would_be = state.after(plan, Writer { thread, number: last + 1 }, &target);
                book.in_flight.insert((target.table, target.id), would_be);
            }
        }
        book
    }

    /// What row `id` must be.
    pub(crate) fn state(&self, table: u32, id: u32) -> State {
        self.states[table as usize - 1][id as usize - 1]
    }

    fn state_mut(&mut self, table: u32, id: u32) -> &mut State {
        &mut self.states[table as usize - 1][id as usize - 1]
    }

    /// What row `id` may be instead, if the owner's unacknowledged transaction became durable.
    pub(crate) fn in_flight(&self, table: u32, id: u32) -> Option<State> {
        self.in_flight.get(&(table, id)).copied()
    }

    /// How many transactions were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.iter().map(|&n| u64::from(n)).sum()
    }

    /// Whether `writer` is a transaction of the victim that may have left values: the load, an acknowledged one, or the
    /// one that was in flight.
    pub(crate) fn may_have_written(&self, writer: Writer) -> bool {
        self.acknowledged.get(writer.thread as usize).is_some_and(|&last| writer.number <= last + 1)
    }

    /// A random row that an acknowledged transaction changed, that must be there, and that no transaction in flight
    /// touched; any row that must be there if there is none like that.
    pub(crate) fn row_to_probe(&self, plan: &Plan, rng: &mut Prng) -> (u32, u32) {
        for attempt in 0..1_000_000u32 {
            let thread = rng.below(u64::from(plan.threads)) as u32;
            let last = self.acknowledged[thread as usize];
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

    /// Notes that the reopener changed a row, and what it had read there.
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

    /// The book follows numbers, the victim follows rows; they must agree, or every run would cry wolf.
    #[test]
    fn the_book_says_what_the_transactions_write() {
        let acknowledged = [150, 90, 0];
        let mut rows: HashMap<(u32, u32), Row> = HashMap::new();
        for table in 1..=2 {
            rows.extend((1..=40).map(|id| ((table, id), PLAN.loaded(table, id))));
        }
        for (thread, last) in (0..).zip(acknowledged) {
            for number in 1..=last {
                for target in PLAN.targets(thread, number) {
                    let place = (target.table, target.id);
                    let written = PLAN.write(Writer { thread, number }, &target, rows.get(&place));
                    match written {
                        Some(row) => rows.insert(place, row),
                        None => rows.remove(&place),
                    };
                }
            }
        }
        let book = Book::replay(&PLAN, &acknowledged);
        assert_eq!(book.acknowledged(), 240);
        let mut absent = 0;
        for table in 1..=2 {
            for id in 1..=40 {
                let expected = PLAN.row(table, id, &book.state(table, id));
                assert_eq!(expected.as_ref(), rows.get(&(table, id)), "row {id} of table {table}");
                absent += usize::from(expected.is_none());
                if let Some(row) = expected {
                    let writer = book.state(table, id).writer(PLAN.owner(id));
                    assert_eq!(PLAN.writer_of(table, id, &row), Some(writer));
                }
            }
        }
        assert!(absent > 0, "deletes take part");
        let (table, id) = book.row_to_probe(&PLAN, &mut Prng::new(1));
        assert!(rows.contains_key(&(table, id)) && book.in_flight(table, id).is_none());
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
        let book = Book::replay(&PLAN, &[5, 0, 0]);
        for (thread, number, may) in
            [(0, 0, true), (0, 6, true), (0, 7, false), (0, 3 | DOOMED, false), (1, 1, true), (3, 1, false)]
        {
            assert_eq!(book.may_have_written(Writer { thread, number }), may, "{thread} {number}");
        }
    }
}
