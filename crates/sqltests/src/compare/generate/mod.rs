//! Makes cases from seeds: tables, rows, queries and changes of one session or of several.

mod alter;
mod changes;
mod queries;
mod schema;
mod types;

use crate::compare::case::Step;
use base::prng::Prng;
use schema::Table;

/// What kind of case it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One session, every statement.
    Alone,
    /// Several sessions. No statement waits for a lock: it fails at once.
    Together,
}

struct Case {
    rng: Prng,
    tables: Vec<Table>,
    steps: Vec<Step>,
    sessions: &'static [char],
}

/// Returns the case of a seed.
pub(crate) fn case(seed: u64) -> Vec<Step> {
    let mut rng = Prng::new(seed);
    let kind = if rng.one_in(4) { Kind::Together } else { Kind::Alone };
    let sessions: &[char] = if kind == Kind::Together { &['a', 'b', 'c'] } else { &['a'] };
    let mut case = Case { rng, tables: Vec::new(), steps: Vec::new(), sessions };
    case.begin(kind);
    let length = case.rng.between(60, 220);
    for _ in 0..length {
        let session = *case.rng.pick(case.sessions);
        match kind {
            Kind::Alone => case.alone(session),
            Kind::Together => case.together(session),
        }
    }
    case.end();
    case.steps
}

impl Case {
    fn begin(&mut self, kind: Kind) {
        let modes = [
            "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
            "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
            "",
            "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE",
        ];
        let mode = *self.rng.pick(&modes);
        let copy = if self.rng.one_in(2) { "COPY" } else { "DEFAULT" };
        let snapshot = if self.rng.one_in(2) { "ON" } else { "OFF" };
        for &session in self.sessions {
            let mut add = |sql: String| self.steps.push(Step::new(session, sql));
            add("SET NAMES utf8mb4".to_owned());
            add(format!("SET sql_mode = '{mode}', alter_algorithm = '{copy}'"));
            if kind == Kind::Together {
                add(
                    "SET innodb_lock_wait_timeout = 0, millpond_lock_wait_timeout = 0, lock_wait_timeout = 0"
                        .to_owned(),
                );
                add(format!(
                    "SET innodb_snapshot_isolation = {snapshot}, millpond_snapshot_isolation = {snapshot}"
                ));
            }
        }
        for n in 0..self.rng.between(1, 3) {
            let table = Table::random(&mut self.rng, &format!("t{n}"));
            self.steps.push(Step::new('a', table.create()));
            for _ in 0..self.rng.between(1, 8) {
                let step = changes::insert(&mut self.rng, 'a', &table);
                self.steps.push(step);
            }
            self.tables.push(table);
        }
    }

    /// Adds a statement of a case with one session.
    fn alone(&mut self, session: char) {
        let at = self.rng.below(self.tables.len() as u64) as usize;
        let other = self.rng.below(self.tables.len() as u64) as usize;
        let rng = &mut self.rng;
        let (table, second) = (&self.tables[at], &self.tables[other]);
        let step = match rng.below(100) {
            0..24 => Some(changes::insert(rng, session, table)),
            24..28 => changes::insert_select(rng, session, table, second),
            28..38 => Some(changes::update(rng, session, table)),
            38..44 => Some(changes::delete(rng, session, table)),
            44..47 => changes::of_two(rng, session, table, second),
            47..65 => Some(queries::select(rng, session, table, "")),
            65..72 => Some(queries::aggregate(rng, session, table)),
            72..79 => queries::join(rng, session, table, second),
            // The server's partitions step from nowhere, which InnoDB does not survive.
            79..82 if table.partition.is_none() => {
                let steps = queries::handler(rng, session, table);
                self.steps.extend(steps);
                None
            }
            79..94 => Some(transaction(rng, session)),
            94..98 => Some(alter::alter(rng, session, &mut self.tables[at])),
            _ => {
                let steps = queries::whole(session, table);
                self.steps.extend(steps);
                None
            }
        };
        self.steps.extend(step);
    }

    /// Adds a statement of a case with several sessions.
    fn together(&mut self, session: char) {
        let at = self.rng.below(self.tables.len() as u64) as usize;
        let rng = &mut self.rng;
        let table = &self.tables[at];
        let step = match rng.below(100) {
            0..18 => changes::insert(rng, session, table),
            18..34 => changes::update_one(rng, session, table),
            34..42 => changes::delete_one(rng, session, table),
            42..60 => queries::select(rng, session, table, ""),
            60..72 => queries::locking(rng, session, table),
            72..76 => queries::aggregate(rng, session, table),
            _ => transaction(rng, session),
        };
        self.steps.push(step);
    }

    /// Ends all transactions and reads everything.
    fn end(&mut self) {
        for &session in self.sessions {
            self.steps.push(Step::new(session, "COMMIT"));
        }
        for table in &self.tables {
            self.steps.extend(queries::whole('a', table));
        }
    }
}

fn transaction(rng: &mut Prng, session: char) -> Step {
    let sql = *rng.pick(&[
        "BEGIN",
        "BEGIN",
        "BEGIN",
        "COMMIT",
        "COMMIT",
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK",
        "SAVEPOINT s1",
        "SAVEPOINT s2",
        "ROLLBACK TO s1",
        "ROLLBACK TO s2",
        "RELEASE SAVEPOINT s1",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION READ ONLY",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET autocommit = 0",
        "SET autocommit = 1",
    ]);
    Step::new(session, sql)
}
