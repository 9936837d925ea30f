//! `millpond redo` on a server whose load changes the entries of one index.

use super::place::Lab;
use super::runs::refused;
use crate::steps::expect;
use serde_json::Value;
use std::process::{Child, Stdio};

/// An update that changes one secondary index, over and over, is found in that index, and the rows
/// are the whole log, to the byte: while it runs, and from the last checkpoint on.
pub(super) fn by_index(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    lab.sql(
        "CREATE DATABASE IF NOT EXISTS redo; DROP TABLE IF EXISTS redo.t; \
         CREATE TABLE redo.t (id INT PRIMARY KEY, wide CHAR(200) NOT NULL, other INT NOT NULL, \
         KEY by_wide (wide), KEY by_other (other)) ENGINE=InnoDB CHARACTER SET latin1; \
         INSERT INTO redo.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
         SELECT i, MD5(i), i FROM n",
    )?;
    let mut load = updates(lab)?;
    let live = rows(lab, &[&target, "--seconds", "3"]);
    let _ = load.kill();
    let _ = load.wait();
    let live = live?;
    let of = |index: &str| bytes(&live, "redo.t", index);
    if of("by_wide") == 0.0 || of("by_other") > 0.0 {
        return Err(format!("the load changes by_wide and not by_other: {live:?}"));
    }
    let first = live.first().ok_or("no rows")?;
    if first["table"] != "redo.t" && first["index"] != "(undo)" {
        return Err(format!("the load is of redo.t, and most is of {first}"));
    }
    rows(lab, &[&target, "--seconds", "0"])?;
    rows(lab, &[&lab.server_dir.join("data").display().to_string()])?;
    let (status, said) = refused(&mut lab.millpond(&["redo", "nosuch"]))?;
    expect("a directory that is not there", &format!("{status:?} {said}"), "Some(2) millpond: ")
}

/// Starts a client that gives rows other values of one indexed column.
fn updates(lab: &Lab<'_>) -> Result<Child, String> {
    let statement = "UPDATE redo.t SET wide = MD5(CONCAT(wide, RAND())) WHERE id % 3 = 0;".repeat(4000);
    let mut client = lab.server.client();
    client.args(["--database=redo"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = client.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
    let mut input = child.stdin.take().ok_or("no pipe to the client")?;
    std::thread::spawn(move || {
        // It ends with the client.
        let _ = std::io::Write::write_all(&mut input, statement.as_bytes());
    });
    Ok(child)
}

/// Reads a log, and returns the rows. The sum of the rows must be the log.
fn rows(lab: &Lab<'_>, args: &[&str]) -> Result<Vec<Value>, String> {
    let json = lab.dir.join("redo.json").display().to_string();
    let said = lab.ok(&[&["redo"], args, &["--json", &json]].concat())?;
    expect("redo", &said, "the sum is the log")?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{json}: {e}"))?;
    let mut list: Vec<Value> = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
    let sum = list.pop().ok_or("an empty list")?;
    let number = |key: &str| sum[key].as_u64().ok_or(format!("no {key} in {sum}"));
    let added: u64 = list.iter().filter_map(|row| row["bytes"].as_u64()).sum();
    if sum["exact"] != true || added + number("missed_bytes")? != number("to_lsn")? - number("from_lsn")? {
        return Err(format!("the rows are {added} bytes: {sum}"));
    }
    Ok(list)
}

fn bytes(rows: &[Value], table: &str, index: &str) -> f64 {
    let found = rows.iter().find(|row| row["table"] == table && row["index"] == index);
    found.and_then(|row| row["bytes"].as_f64()).unwrap_or(0.0)
}
