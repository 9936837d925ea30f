//! ALTER TABLE to each engine: a copy of a table with two secondary indexes.
//!
//! The table comes from a third engine, so that both engines copy the same rows in the same way.

use super::super::output;
use super::super::server::Server;
use super::report::Value;
use super::sysbench::{Run, settle};
use std::time::Instant;

const TABLE: &str = "(id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT UNSIGNED NOT NULL, \
     c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY k (k), KEY pad (pad)) ENGINE=Aria TRANSACTIONAL=0";

fn sql(server: &Server, statement: &str) -> Result<(), String> {
    output(server.client().args(["--execute", statement])).map(drop)
}

/// Measures `pairs` pairs of changes to each engine.
pub(super) fn measure(server: &Server, pairs: usize, rows: u64) -> Result<Value, String> {
    sql(server, "DROP DATABASE IF EXISTS bench_alter; CREATE DATABASE bench_alter")?;
    sql(server, &format!("CREATE TABLE bench_alter.source {TABLE}"))?;
    sql(
        server,
        &format!(
            "USE bench_alter; INSERT INTO source SELECT seq, CRC32(seq), \
             CONCAT(MD5(seq), MD5(seq + 1), MD5(seq + 2)), MD5(-seq) FROM seq_1_to_{rows}"
        ),
    )?;
    let mut value = Value::new("tables a second");
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { ["Millpond", "InnoDB"] } else { ["InnoDB", "Millpond"] };
        for engine in order {
            value.add(engine, change(server, engine)?);
        }
    }
    sql(server, "DROP DATABASE bench_alter")?;
    Ok(value)
}

/// Changes a copy of the table to an engine.
fn change(server: &Server, engine: &str) -> Result<Run, String> {
    sql(
        server,
        "CREATE OR REPLACE TABLE bench_alter.copy LIKE bench_alter.source; \
         INSERT INTO bench_alter.copy SELECT * FROM bench_alter.source",
    )?;
    settle(server)?;
    let began = Instant::now();
    sql(server, &format!("ALTER TABLE bench_alter.copy ENGINE={engine}"))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Run { p99_ms: seconds * 1000.0, ..Run::of_rate(1.0 / seconds) })
}
