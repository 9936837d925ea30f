//! Statements that lock all rows of a table: how many a second of the server's processor time. What
//! their neighbours keep of their rate is shown by `millpond bench many-locks --scan`.

use super::super::output;
use super::super::server::Server;
use super::report::Value;
use super::sysbench::{Run, processor_us, settle};
use std::time::Instant;

/// The statements, by what they are called. Each begins a transaction of its own, and is rolled
/// back.
const STATEMENTS: [(&str, &str); 4] = [
    ("shared locks", "SELECT SUM(b) FROM rows_ LOCK IN SHARE MODE"),
    ("exclusive locks", "SELECT SUM(b) FROM rows_ FOR UPDATE"),
    ("update of no row", "UPDATE rows_ SET c = 'x' WHERE b = -1"),
    ("insert select", "INSERT INTO target SELECT * FROM rows_"),
];

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
    for engine in ["Millpond", "InnoDB"] {
        output(server.client().args(["--execute", &format!("DROP DATABASE {}", database(engine))]))?;
    }
    Ok(values)
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
