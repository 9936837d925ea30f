//! DROP DATABASE of many tables in each engine, and in two engines that have nothing to drop: what
//! these take is the server's own part, mostly three syncs of its log of DDL for each table.

use super::super::output;
use super::super::server::Server;
use super::report::Value;
use super::sysbench::{Run, settle};
use std::time::Instant;

/// Engines that keep nothing on the disk.
const BESIDE: [&str; 2] = ["BLACKHOLE", "MEMORY"];

/// Measures `pairs` pairs of databases with so many tables.
pub(super) fn measure(server: &Server, pairs: usize, tables: u32) -> Result<Value, String> {
    let mut value = Value::new("databases a second");
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { ["Millpond", "InnoDB"] } else { ["InnoDB", "Millpond"] };
        for engine in order {
            value.add(engine, drop_one(server, engine, tables)?);
        }
    }
    let engines = output(server.client().args(["--execute", "SHOW ENGINES"]))?;
    for engine in BESIDE.into_iter().filter(|engine| engines.contains(engine)) {
        value.beside.push((engine, drop_one(server, engine, tables)?.rate));
    }
    Ok(value)
}

/// Makes a database with empty tables and drops it.
fn drop_one(server: &Server, engine: &str, tables: u32) -> Result<Run, String> {
    let mut make = "CREATE DATABASE bench_drop; USE bench_drop".to_owned();
    for n in 0..tables {
        make += &format!("; CREATE TABLE t{n} (id INT PRIMARY KEY) ENGINE={engine}");
    }
    output(server.client().args(["--execute", &make]))?;
    settle(server)?;
    let began = Instant::now();
    output(server.client().args(["--execute", "DROP DATABASE bench_drop"]))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Run { p99_ms: seconds * 1000.0, ..Run::of_rate(1.0 / seconds) })
}
