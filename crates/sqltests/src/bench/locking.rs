//! Statements that lock all rows of a table: how many a second of the server's processor time, and
//! what a client that changes rows of another table keeps of its rate beside them.

use super::super::output;
use super::super::server::Server;
use super::report::Value;
use super::sysbench::{self, Data, Run, processor_us, settle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The statements, by what they are called. Each begins a transaction of its own, and is rolled
/// back.
const STATEMENTS: [(&str, &str); 4] = [
    ("shared locks", "SELECT SUM(b) FROM rows_ LOCK IN SHARE MODE"),
    ("exclusive locks", "SELECT SUM(b) FROM rows_ FOR UPDATE"),
    ("update of no row", "UPDATE rows_ SET c = 'x' WHERE b = -1"),
    ("insert select", "INSERT INTO target SELECT * FROM rows_"),
];

/// What the neighbour changes.
const NEIGHBOUR: Data = Data { tables: 1, rows: 10_000 };
/// How long the neighbour is measured, alone and beside a statement.
const NEIGHBOUR_SECONDS: u64 = 5;

fn sql(server: &Server, engine: &str, statement: &str) -> Result<(), String> {
    let database = format!("--database={}", database(engine));
    output(server.client().args([&database, "--execute", statement])).map(drop)
}

fn database(engine: &str) -> String {
    format!("locking_{}", engine.to_lowercase())
}

/// Measures each statement in `pairs` pairs, on tables of so many rows.
pub(super) fn measure(server: &Server, pairs: usize, rows: u64) -> Result<Vec<Value>, String> {
    for engine in ["Millpond", "InnoDB"] {
        let name = database(engine);
        output(server.client().args(["--execute", &format!("CREATE OR REPLACE DATABASE {name}")]))?;
        let columns = "(id INT PRIMARY KEY, b INT NOT NULL, c VARCHAR(100) NOT NULL)";
        for table in ["rows_", "target"] {
            sql(server, engine, &format!("CREATE TABLE {table} {columns} ENGINE={engine}"))?;
        }
        sql(server, engine, &format!("INSERT INTO rows_ SELECT seq, seq, MD5(seq) FROM seq_1_to_{rows}"))?;
        sql(server, engine, "ANALYZE TABLE rows_, target")?;
    }
    let mut values = Vec::new();
    for (part, statement) in STATEMENTS {
        let mut value = Value::of_part("per CPU second", part);
        for pair in 0..pairs {
            for engine in in_turn(pair) {
                value.add(engine, cost(server, engine, statement)?);
            }
        }
        values.push(value);
    }
    values.push(neighbours(server, pairs)?);
    for engine in ["Millpond", "InnoDB"] {
        for database in [database(engine), neighbour(engine)] {
            output(server.client().args(["--execute", &format!("DROP DATABASE {database}")]))?;
        }
    }
    Ok(values)
}

fn neighbour(engine: &str) -> String {
    format!("neighbour_{}", engine.to_lowercase())
}

/// Measures what a client that changes rows of another table keeps of its rate while a statement
/// locks all rows, is rolled back and begins again.
fn neighbours(server: &Server, pairs: usize) -> Result<Value, String> {
    for engine in ["Millpond", "InnoDB"] {
        sysbench::make(server, engine, &neighbour(engine), NEIGHBOUR)?;
    }
    let mut value = Value::of_part("per cent", "neighbour keeps");
    for pair in 0..pairs {
        for engine in in_turn(pair) {
            settle(server)?;
            let rate = || sysbench::updates(server, &neighbour(engine), NEIGHBOUR, NEIGHBOUR_SECONDS);
            let alone = rate()?;
            value.add(engine, Run::of_rate(100.0 * beside_locks(server, engine, rate)? / alone));
        }
    }
    Ok(value)
}

/// Returns what `measured` does while another client locks all rows again and again.
fn beside_locks(
    server: &Server,
    engine: &str,
    measured: impl Fn() -> Result<f64, String>,
) -> Result<f64, String> {
    let over = AtomicBool::new(false);
    let transaction = format!("BEGIN; {}; ROLLBACK", STATEMENTS[1].1);
    std::thread::scope(|scope| {
        let locks = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sql(server, engine, &transaction)?;
            }
            Ok::<_, String>(())
        });
        let rate = measured();
        over.store(true, Ordering::Relaxed);
        locks.join().map_err(|_| "a thread panicked")??;
        rate
    })
}

fn in_turn(pair: usize) -> [&'static str; 2] {
    if pair.is_multiple_of(2) { ["Millpond", "InnoDB"] } else { ["InnoDB", "Millpond"] }
}

/// Runs a statement once for nothing and once for its processor time, which counts until its locks
/// are free.
fn cost(server: &Server, engine: &str, statement: &str) -> Result<Run, String> {
    let transaction = format!("BEGIN; {statement}; ROLLBACK");
    sql(server, engine, &transaction)?;
    settle(server)?;
    let (before, began) = (processor_us(server)?, Instant::now());
    sql(server, engine, &transaction)?;
    let us = (processor_us(server)? - before).max(1.0);
    Ok(Run { p99_ms: began.elapsed().as_secs_f64() * 1e3, server_us: us, ..Run::of_rate(1e6 / us) })
}
