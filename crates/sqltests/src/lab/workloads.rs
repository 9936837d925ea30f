//! `millpond run --target`: workloads over SQL.

use super::place::Lab;
use super::runs::refused;
use crate::output;
use crate::steps::{expect, until};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A small run.
const SMALL: [&str; 8] = ["--tables", "2", "--rows", "1500", "--threads", "4", "--warmup", "0"];

/// As short as can be.
const SECOND: [&str; 2] = ["--seconds", "1"];

/// Runs a workload, and returns its JSON.
fn run(lab: &Lab<'_>, more: &[&str]) -> Result<Value, String> {
    let target = lab.target("root");
    let json = lab.dir.join("run.json");
    let file = json.display().to_string();
    let args = [&["run", "--target", &target, "--json", &file], &SMALL[..], more].concat();
    lab.ok(&args)?;
    let text = std::fs::read_to_string(&json).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| format!("{more:?}: {e}: {text}"))
}

fn number(result: &Value, key: &str) -> Result<f64, String> {
    result.pointer(key).and_then(Value::as_f64).ok_or_else(|| format!("no number {key} in {result}"))
}

/// The schemas of the server that a run may have made.
fn schemas(lab: &Lab<'_>) -> Result<String, String> {
    lab.sql("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('sbtest', 'napkin', 'tpcc')")
}

const WORKLOADS: [&str; 11] = [
    "write-heavy",
    "read-write",
    "write-only",
    "insert",
    "update-index",
    "update-non-index",
    "point-select",
    "read-only",
    "napkin",
    "bulk-load",
    "schema-reload",
];

/// Runs a workload on an engine so long that it commits something. A busy machine may need more
/// than the first second.
fn run_long_enough(lab: &Lab<'_>, workload: &str, engine: &str) -> Result<Value, String> {
    for seconds in ["1", "10", "100"] {
        let more = [workload, "--engine", engine, "--seconds", seconds];
        let result = run(lab, &more).map_err(|why| format!("{workload}: {why}"))?;
        if number(&result, "/transactions")? >= 1.0 {
            return Ok(result);
        }
    }
    Err(format!("{workload} on {engine} commits nothing in 100 s"))
}

/// The syncs of the server's files are a part of the result.
fn syncs(lab: &Lab<'_>) -> Result<(), String> {
    // The trace may need some time to begin.
    for seconds in ["2", "10", "100"] {
        let result = run(lab, &["update-index", "--syncs", "--seconds", seconds])?;
        let traced = number(&result, "/sync_trace/syncs")?;
        if traced >= 1.0 && result.pointer("/sync_trace/by_file/0/file").is_some() {
            return Ok(());
        }
    }
    Err("no sync was traced in 100 s of updates".to_owned())
}

/// Every workload on every engine: it works, is checked, and leaves nothing behind.
pub(super) fn engines(lab: &Lab<'_>) -> Result<(), String> {
    let engines: &[&str] = if lab.base.is_none() { &["InnoDB", "Millpond"] } else { &["InnoDB"] };
    for engine in engines {
        for workload in WORKLOADS {
            let result = run_long_enough(lab, workload, engine)?;
            expect("the check", &result.to_string(), "\"check\":\"ok\"")?;
            expect("the engine", &result.to_string(), &format!("\"engine\":\"{engine}\""))?;
            let transactions = number(&result, "/transactions")?;
            let exact = match workload {
                "napkin" => Some(4000.0),
                "bulk-load" => Some(2.0),
                "schema-reload" => Some(200.0),
                _ => None,
            };
            if exact.is_some_and(|exact| exact != transactions) {
                return Err(format!("{workload} on {engine}: {transactions} transactions"));
            }
            if workload == "write-heavy" {
                for key in ["/redo_bytes", "/fsyncs/total", "/checkpoint_age_bytes/max"] {
                    let value = number(&result, key).map_err(|why| format!("{engine}: {why}"))?;
                    expect("a figure of the engine", if value > 0.0 { "is there" } else { key }, "is there")?;
                }
                if number(&result, "/row_changes")? != 40.0 * transactions {
                    return Err(format!("{engine}: not 40 row changes a transaction: {result}"));
                }
            }
        }
    }
    syncs(lab)?;
    match schemas(lab)?.as_str() {
        "" => Ok(()),
        left => Err(format!("runs have left the schemas {left}")),
    }
}

/// TPC-C on every engine: its transactions and conditions, with and without foreign keys; and
/// mistakes, which a run on the same tables must find.
pub(super) fn tpcc(lab: &Lab<'_>) -> Result<(), String> {
    let engines: &[&str] = if lab.base.is_none() { &["InnoDB", "Millpond"] } else { &["InnoDB"] };
    for engine in engines {
        let small = ["tpcc", "--warehouses", "2", "--scale", "1/100", "--engine", engine];
        let with_keys = [&small[..], &["--foreign-keys"]].concat();
        let result = match *engine {
            "InnoDB" => with_all_kinds(lab, &with_keys),
            _ => {
                let target = lab.target("root");
                let (status, said) =
                    refused_run(lab.millpond(&[&["run", "--target", &target], &with_keys[..]].concat()))?;
                let refusal =
                    "Some(2) millpond: --foreign-keys: this engine accepts foreign keys and keeps none";
                expect("an engine without foreign keys", &format!("{status:?} {said}"), refusal)?;
                with_all_kinds(lab, &small)
            }
        };
        let result = result.map_err(|why| format!("{engine}: {why}"))?;
        expect("the check", &result.to_string(), "\"check\":\"ok\"")?;
        let conditions = result.pointer("/consistency").and_then(Value::as_array);
        let ok = |all: &Vec<Value>| all.iter().filter(|one| one["ok"] == true).count();
        if conditions.map(ok) != Some(12) {
            return Err(format!("{engine}: not all of twelve conditions hold: {result}"));
        }
        if number(&result, "/tpmc")? <= 0.0 {
            return Err(format!("{engine}: no new orders: {result}"));
        }
        run(lab, &[&small[..], &SECOND, &["--keep"]].concat())?;
        for mistake in &MISTAKES {
            find(lab, &small, mistake).map_err(|why| format!("{engine}: {why}"))?;
        }
        run(lab, &[&small[..], &SECOND].concat())
            .map_err(|why| format!("{engine}, all mistakes undone: {why}"))?;
        lab.sql("DROP DATABASE tpcc")?;
    }
    Ok(())
}

/// Runs TPC-C so long that each kind of transaction is there. A busy machine may need more than
/// some seconds.
fn with_all_kinds(lab: &Lab<'_>, flags: &[&str]) -> Result<Value, String> {
    for seconds in ["3", "30", "300"] {
        let result = run(lab, &[flags, &["--seconds", seconds]].concat())?;
        let kinds = ["new-order", "payment", "order-status", "delivery", "stock-level"];
        let count = |kind: &&str| number(&result, &format!("/by_transaction/{kind}/transactions"));
        if kinds.iter().all(|kind| count(kind).is_ok_and(|n| n >= 1.0)) {
            return Ok(result);
        }
    }
    Err("a kind of transaction is never there".to_owned())
}

/// Checks that a report has these files, and that its page shows them.
fn pages(report: &Path, files: &[&str]) -> Result<(), String> {
    let page = std::fs::read_to_string(report.join("index.html")).map_err(|e| e.to_string())?;
    for file in files {
        if !report.join(file).is_file() || !page.contains(file) {
            return Err(format!("the report {} has no {file}", report.display()));
        }
    }
    Ok(())
}

/// A mistake in the tables of TPC-C that no transaction meets or mends: the statement that makes
/// it, the one that undoes it, and the conditions that it breaks.
type Mistake = (&'static str, &'static str, &'static [u32]);

/// Together they break every condition.
const MISTAKES: [Mistake; 6] = [
    (
        "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2",
        "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 2",
        &[1, 8],
    ),
    (
        "INSERT INTO orders (o_w_id, o_d_id, o_id, o_ol_cnt) VALUES (2, 3, 900000, 1)",
        "DELETE FROM orders WHERE o_id = 900000",
        &[2, 4, 5, 6, 11],
    ),
    (
        // In a district that a delivery can reach, it would take them one day.
        "INSERT INTO new_orders (no_w_id, no_d_id, no_o_id) VALUES (99, 1, 1), (99, 1, 3)",
        "DELETE FROM new_orders WHERE no_w_id = 99",
        &[3, 5],
    ),
    (
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_amount, ol_delivery_d) \
         VALUES (2, 3, 900000, 1, 0, NOW())",
        "DELETE FROM order_line WHERE ol_o_id = 900000",
        &[4, 7],
    ),
    (
        "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 2 AND d_id = 3",
        "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_w_id = 2 AND d_id = 3",
        &[1, 9],
    ),
    (
        "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 5",
        "UPDATE customer SET c_balance = c_balance - 1 WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 5",
        &[10, 12],
    ),
];

/// Makes a mistake, runs on the same tables, and expects that exactly the conditions that it breaks
/// do not hold.
fn find(lab: &Lab<'_>, small: &[&str], mistake: &Mistake) -> Result<(), String> {
    let (make, undo, broken) = mistake;
    lab.sql(&format!("USE tpcc; {make}"))?;
    let target = lab.target("root");
    let out = lab.millpond(&[&["run", "--target", &target], &SMALL[..], small, &SECOND].concat());
    let (status, said) = refused_run(out)?;
    let found: Vec<u32> = said
        .split("condition 3.3.2.")
        .skip(1)
        .filter_map(|rest| rest.split_once(':')?.0.parse().ok())
        .collect();
    if (status, &found[..]) != (Some(1), *broken) {
        return Err(format!("{make} breaks {broken:?}, and the run says: {status:?} {said}"));
    }
    lab.sql(&format!("USE tpcc; {undo}")).map(drop)
}

/// Runs the program, which has to fail; returns its status and the last line that it says.
fn refused_run(mut command: Command) -> Result<(Option<i32>, String), String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if out.status.success() {
        return Err(format!("{command:?} ended well"));
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Ok((out.status.code(), said.lines().last().unwrap_or_default().to_owned()))
}

/// Runs the kept load by more and more threads, and returns the JSON of the last step.
fn steps(lab: &Lab<'_>) -> Result<String, String> {
    let target = lab.target("root");
    let file = lab.dir.join("ramp.json").display().to_string();
    let report = lab.dir.join("ramp-report");
    let dir = report.display().to_string();
    let said = lab.ok(&[
        "run",
        "read-write",
        "--target",
        &target,
        "--json",
        &file,
        "--tables",
        "2",
        "--rows",
        "1500",
        "--ramp",
        "1,2",
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--report",
        &dir,
    ])?;
    expect("the end of a ramp", &said, "check           ok")?;
    pages(&report, &["throughput.svg", "latency.svg", "checkpoint-age.svg", "samples.csv"])?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let result: Value = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
    result.pointer("/ramp/1").map(Value::to_string).ok_or_else(|| format!("no second step in {text}"))
}

/// A load is used again by what needs the same; what this program did not make is left alone.
pub(super) fn schemas_of_runs(lab: &Lab<'_>) -> Result<(), String> {
    let first = run(lab, &["read-only", "--keep", "--seconds", "1"])?;
    if number(&first, "/load_seconds")? <= 0.0 {
        return Err(format!("the first run loads its tables: {first}"));
    }
    let report = lab.dir.join("run-report");
    let dir = report.display().to_string();
    let again =
        ["write-heavy", "--isolation", "read-committed", "--rate", "50", "--seconds", "2", "--report", &dir];
    let again = run(lab, &again)?;
    pages(&report, &["throughput.svg", "latency-histogram.svg", "checkpoint-age.svg", "samples.json"])?;
    if number(&again, "/load_seconds")? != 0.0 {
        return Err(format!("a kept load was not used again: {again}"));
    }
    let ramp = steps(lab)?;
    expect("a ramp", &ramp, "\"threads\":2")?;
    let target = lab.target("root");
    let (status, said) = refused(&mut lab.millpond(&["run", "--target", &target, "--rows", "7"]))?;
    expect(
        "another load",
        &format!("{status:?} {said}"),
        "Some(2) millpond: the schema sbtest holds another",
    )?;
    lab.sql("DROP DATABASE sbtest; CREATE DATABASE sbtest; CREATE TABLE sbtest.own (id INT)")?;
    let (status, said) = refused(&mut lab.millpond(&["run", "--target", &target]))?;
    expect("a schema of others", &format!("{status:?} {said}"), "was not made by this program")?;
    expect("the table in it", &lab.sql("SHOW TABLES IN sbtest")?, "own")?;
    lab.sql("DROP DATABASE sbtest")?;
    // A run that is killed while it loads leaves a schema, which the next run takes.
    let long = ["run", "--target", &target, "--tables", "1", "--rows", "9000000", "--threads", "2"];
    let mut child = lab.millpond(&long);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    let loading =
        until("a load", || lab.sql("SELECT COUNT(*) > 0 FROM sbtest.sbtest1").is_ok_and(|n| n == "1"));
    let _ = child.kill();
    let _ = child.wait();
    loading?;
    run(lab, &["point-select", "--seconds", "1"])?;
    expect("what is left", &format!("[{}]", schemas(lab)?), "[]")?;
    // Ctrl-C ends a run that cleans up.
    let mut child = lab.millpond(&long);
    let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    until("a load", || lab.sql("SELECT COUNT(*) > 0 FROM sbtest.sbtest1").is_ok_and(|n| n == "1"))?;
    output(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
    child.wait_with_output().map_err(|e| e.to_string())?;
    expect("what is left after Ctrl-C", &format!("[{}]", schemas(lab)?), "[]")
}

/// The same load in turns: each has all its turns, ratios are there, and nothing is left behind.
pub(super) fn comparisons(lab: &Lab<'_>) -> Result<(), String> {
    let other = if lab.base.is_none() { "Millpond" } else { "MyISAM" };
    let report = lab.dir.join("comparison");
    let shown = report.display().to_string();
    let words = ["napkin", "--engine", "InnoDB", "--compare", other, "--rounds", "2", "--report", &shown];
    let result = run(lab, &words)?;
    let page = std::fs::read_to_string(report.join("index.html")).map_err(|e| format!("{shown}: {e}"))?;
    expect("the report", &page, other)?;
    for contestant in ["/compare/0", "/compare/1"] {
        for round in ["/rounds/0", "/rounds/1"] {
            let done = number(&result, &format!("{contestant}{round}/transactions"))?;
            if done != 4000.0 {
                return Err(format!("{contestant}{round} has {done} transactions"));
            }
        }
        let check = result.pointer(&format!("{contestant}/check")).and_then(Value::as_str);
        expect("the check", check.unwrap_or("none"), "ok")?;
    }
    expect("the first", &number(&result, "/compare/0/ratio/median")?.to_string(), "1")?;
    number(&result, "/compare/1/ratio/median")?;
    let target = lab.target("root");
    let twice = ["run", "--target", &target, "--engine", "InnoDB", "--compare", "innodb"];
    let (status, said) = refused(&mut lab.millpond(&twice))?;
    expect("one engine twice", &format!("{status:?} {said}"), "Some(2) millpond: --compare names InnoDB of")?;
    let left = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'napkin%'";
    expect("schemas that are left", &lab.sql(left)?, "0")
}

/// A sweep measures each point, goes on where it was stopped, and puts the settings back, also
/// those that the server has changed with another.
pub(super) fn sweeps(lab: &Lab<'_>) -> Result<(), String> {
    let own = "SELECT @@innodb_io_capacity, @@innodb_io_capacity_max, @@innodb_flush_neighbors";
    let before = lab.sql(own)?;
    let target = lab.target("root");
    let json = lab.dir.join("sweep.json").display().to_string();
    let load = ["--", "update-index", "--tables", "1", "--rows", "1000", "--seconds", "1", "--warmup", "0"];
    let flags = ["--target", &target, "--out", "swept", "--json", &json];
    let sweep = |settings: &[&str]| lab.millpond(&[&["sweep"], settings, &flags[..], &load[..]].concat());
    let said = output(&mut sweep(&["innodb_io_capacity=150,250", "innodb_flush_neighbors=0,1"]))?;
    expect("the table", &said, "worst second")?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{json}: {e}"))?;
    expect("the points", &text.matches("\"rounds\": 1").count().to_string(), "4")?;
    expect("the settings", &lab.sql(own)?, &before)?;
    expect("schemas that are left", &format!("[{}]", schemas(lab)?), "[]")?;
    // One result is missing: only that is measured again.
    let gone = lab.dir.join("swept").join("point-2-round-1.json");
    std::fs::remove_file(&gone).map_err(|e| format!("{}: {e}", gone.display()))?;
    let again = sweep(&["innodb_io_capacity=150,250", "innodb_flush_neighbors=0,1"]).output();
    let again = String::from_utf8_lossy(&again.map_err(|e| e.to_string())?.stderr).into_owned();
    expect("the missing point", &again.matches(", round 1").count().to_string(), "1")?;
    // A killed sweep has left how to put the settings back.
    lab.sql("SET GLOBAL innodb_flush_neighbors = 0")?;
    let undo = lab.dir.join("swept").join("undo.sql");
    std::fs::write(&undo, "SET GLOBAL innodb_flush_neighbors = 1;\n").map_err(|e| e.to_string())?;
    output(&mut sweep(&["innodb_io_capacity=150,250", "innodb_flush_neighbors=0,1"]))?;
    expect("the settings after a kill", &lab.sql(own)?, &before)?;
    for (settings, why) in [
        (&["innodb_io_capacity=1"][..], "millpond: swept holds another sweep"),
        (&["innodb_page_size=8192"], "millpond: swept holds another sweep"),
    ] {
        let (status, said) = refused(&mut sweep(settings))?;
        expect("another sweep", &format!("{status:?} {said}"), &format!("Some(2) {why}"))?;
    }
    // The server raises innodb_io_capacity_max with it, and says so: no point is what it seems.
    let flags = ["sweep", "innodb_io_capacity=200000", "--target", &target, "--out", "swept-2"];
    let (status, said) = refused(&mut lab.millpond(&[&flags[..], &load].concat()))?;
    expect("a value not as it is", &format!("{status:?} {said}"), "Some(2) millpond: SET GLOBAL innodb_io")?;
    // Sizes are written as in the server's option files.
    let flags = ["sweep", "tmp_table_size=1M,2M", "--target", &target, "--out", "swept-3"];
    expect("sizes", &output(&mut lab.millpond(&[&flags[..], &load].concat()))?, "2M")?;
    expect("the settings of both", &lab.sql(own)?, &before)
}

/// What hinders a run is said in one sentence, before anything is made.
pub(super) fn refusals(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let refused = |more: &[&str], sentence: &str| {
        let (status, said) = refused(&mut lab.millpond(&[&["run", "--target", &target], more].concat()))?;
        expect(sentence, &format!("{status:?} {said}"), &format!("Some(2) millpond: {sentence}"))
    };
    refused(&["--engine", "nosuch"], "the server has no engine nosuch; it has ")?;
    refused(&["--schema", "mysql"], "\"mysql\" is no name for the schema of a run")?;
    refused(&["--threads", "9999"], "the server has room for 2100 connections (max_connections)")?;
    refused(&["--seconds", "0"], "--seconds 0 would measure nothing")?;
    refused(&["--db", "x"], "the argument '--target <URL>' cannot be used with '--db <DIR>'")?;
    lab.sql("SET GLOBAL read_only = 1")?;
    let read_only = refused(&[], "the server is read-only (read_only), and a run writes");
    lab.sql("SET GLOBAL read_only = 0")?;
    read_only?;
    lab.sql("SET GLOBAL max_prepared_stmt_count = 99")?;
    let statements = refused(&[], "the server has room for 99 prepared statements (max_prepared_stmt_count)");
    lab.sql("SET GLOBAL max_prepared_stmt_count = 1048576")?;
    statements?;
    // So is what a run would do.
    for (words, wanted) in [
        (&["napkin"][..], "napkin is not there: CREATE DATABASE, and DROP DATABASE at the end"),
        (&["tpcc", "--foreign-keys", "--keep"], "ALTER TABLE order_line ADD CONSTRAINT"),
        (&["write-heavy"], "10 x (DELETE FROM sbtestN"),
    ] {
        let said = lab.ok(&[&["run", "--target", &target, "--dry-run"], words].concat())?;
        expect("what a run would do", &said, wanted)?;
    }
    expect("what is left", &format!("[{}]", schemas(lab)?), "[]")
}
