//! The syncs of the inserts by file, and how long each takes: as `millpond trace-fsync` sees them.

use super::finding::{Finding, Row};
use super::napkin::{INSERTS, with_binlog};
use super::private_server::PrivateServer;
use super::room::{Room, checks};
use super::sides::Sides;
use crate::own_command::number;
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

const ID: &str = "D2.B21";
/// How long the inserts may take, seconds.
const MOST: &str = "600";

/// What was run, and what was traced.
#[derive(Debug)]
struct Traced {
    result: Value,
    trace: Value,
}

/// Traces the inserts.
pub(super) fn by_file(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let over_sql = |side: &str, plugin: bool, engine: &str| {
        let name = format!("{ID}-{side}");
        let server = room.server(&name, &with_binlog(plugin))?;
        let traced = on_server(room, &name, &server, engine);
        server.end()?;
        traced
    };
    let innodb = over_sql("innodb", false, "InnoDB")?;
    let in_server = room.has_plugin().then(|| over_sql("server", true, "Millpond")).transpose()?;
    let sides = Sides { innodb, millpond: in_process(room)?, in_server };
    Ok(Finding {
        rows: rows(&sides),
        holds: verdict(&sides.innodb.trace),
        scaled: "Nothing is smaller. The servers have their binary log, synced at each commit, and are traced from outside; Millpond in the process measures its own syncs.".to_owned(),
        check: checks(sides.all().map(|one| &one.result)),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn on_server(room: &Room<'_>, name: &str, server: &PrivateServer, engine: &str) -> Outcome<Traced> {
    let url = server.url();
    let run = [&INSERTS[..], &["--syncs", "--target", &url, "--engine", engine]].concat();
    let mut result = room.millpond(name, &run)?;
    let trace = result.get_mut("sync_trace").map(Value::take).unwrap_or_default();
    Ok(Traced { result, trace })
}

fn in_process(room: &Room<'_>) -> Outcome<Traced> {
    let name = format!("{ID}-millpond");
    let db = room.scratch.join(&name);
    let db_name = db.display().to_string();
    let result = room.millpond(&name, &[&INSERTS[..], &["--db", &db_name]].concat())?;
    let args = ["trace-fsync", &db_name, "--seconds", MOST];
    let trace = room.millpond(&format!("{name}-trace"), &args)?;
    room.remove(&db)?;
    Ok(Traced { result, trace })
}

/// Kinds of files: what a trace says why they are synced, and the article's syncs.
const FILES: [(&str, &str, &str); 4] = [
    ("redo log", "redo log", "4 887"),
    ("binary log", "binary log", "2 962"),
    ("doublewrite", "doublewrite", "103"),
    ("tables, undo and other files", "", "281"),
];
/// How a database in this process calls its redo log.
const OWN_LOG: &str = "log";

/// Returns the syncs of a kind of files: each file counts for the first kind that has it.
fn of_kind(trace: &Value, kind: usize) -> Option<f64> {
    let files = trace.get("by_file")?.as_array()?;
    let mine = files.iter().filter(|file| {
        let text = |key: &str| file.get(key).and_then(Value::as_str).unwrap_or_default();
        let reason = if text("file") == OWN_LOG { FILES[0].1 } else { text("reason") };
        FILES.iter().position(|(_, why, _)| reason.contains(why)) == Some(kind)
    });
    Some(mine.filter_map(|file| number(file, "/syncs")).fold(0.0, |sum, syncs| sum + syncs))
}

/// Returns the syncs of the histogram's rows from a time on, microseconds.
fn syncs_from(trace: &Value, from: f64) -> f64 {
    let rows = trace.pointer("/latency_us/histogram").and_then(Value::as_array);
    let rows =
        rows.into_iter().flatten().filter_map(|row| Some((number(row, "/from")?, number(row, "/syncs")?)));
    rows.filter(|row| row.0 >= from).fold(0.0, |sum, row| sum + row.1)
}

/// The last row of the article's histogram begins here, microseconds.
const LONG: f64 = 1500.0;

/// Returns the part of the syncs that took long, in percent. The rows of a trace of a server are
/// as wide as the article's.
fn long(trace: &Value) -> Option<f64> {
    let all = syncs_from(trace, 0.0);
    (all > 0.0).then(|| 100.0 * syncs_from(trace, LONG) / all)
}

fn rows(sides: &Sides<Traced>) -> Vec<Row> {
    let figure = |what: &str, published: Option<&str>, unit, of: &dyn Fn(&Value) -> Option<f64>| {
        sides.row(what, published, unit, |one| of(&one.trace))
    };
    let mut rows = vec![figure("syncs", Some("8 037"), "syncs", &|trace| number(trace, "/syncs"))];
    for (kind, (name, _, published)) in FILES.iter().enumerate() {
        rows.push(figure(&format!("… of the {name}"), Some(published), "syncs", &|trace| {
            of_kind(trace, kind)
        }));
    }
    rows.push(sides.row("syncs a second of the inserts", Some("about 2 500"), "a second", |one| {
        Some(
            number(&one.trace, "/syncs")?
                / number(&one.result, "/seconds").filter(|seconds| *seconds > 0.0)?,
        )
    }));
    rows.push(figure("median of a sync", Some("about 400"), "µs", &|trace| {
        number(trace, "/latency_us/p50")
    }));
    rows.push(figure("p99 of a sync", None, "µs", &|trace| number(trace, "/latency_us/p99")));
    rows.push(figure("syncs above 1 500 µs", Some("17"), "%", &long));
    rows
}

/// Says whether a sync takes less than the rule of thumb here too.
fn verdict(trace: &Value) -> String {
    let (Some(median), Some(long)) = (number(trace, "/latency_us/p50"), long(trace)) else {
        return "Nothing can be said: no sync was seen.".to_owned();
    };
    let holds = if median < 1000.0 { "It holds" } else { "It does not show here" };
    format!(
        "{holds}: half of the syncs take up to {median:.0} µs, and not the 1 ms of a rule of thumb; {long:.0} % take more than 1.5 ms."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn syncs_are_of_kinds_of_files() {
        let file =
            |name: &str, reason: &str, syncs: u32| json!({"file": name, "reason": reason, "syncs": syncs});
        let trace = json!({
            "by_file": [
                file("/x/ib_logfile0", "redo log", 50), file("log", "commit", 1),
                file("/x/binlog.000001", "binary log", 30), file("/x/products.ibd", "a table", 4),
            ],
            "latency_us": {"p50": 480, "histogram": [
                {"from": 400, "to": 500, "syncs": 60}, {"from": 1500, "to": null, "syncs": 20},
            ]},
        });
        let kinds: Vec<Option<f64>> = (0..FILES.len()).map(|kind| of_kind(&trace, kind)).collect();
        assert_eq!(kinds, [Some(51.0), Some(30.0), Some(0.0), Some(4.0)]);
        assert_eq!(
            verdict(&trace),
            "It holds: half of the syncs take up to 480 µs, and not the 1 ms of a rule of thumb; 25 % take more than 1.5 ms."
        );
        assert!(verdict(&json!({})).starts_with("Nothing"));
    }
}
