//! Sixteen threads insert one row a transaction, 1,000 times each, with the binary log on.

use super::finding::{Finding, Row};
use super::private_server::Options;
use super::room::{Room, checks};
use super::sides::Sides;
use super::sync_cost;
use crate::own_command::number;
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

/// Threads of the article's program.
const THREADS: f64 = 16.0;
/// The article's program.
pub(super) const INSERTS: [&str; 4] = ["run", "napkin", "--threads", "16"];

/// Returns a server with its binary log, synced at each commit.
pub(super) fn with_binlog(plugin: bool) -> Options {
    let settings = [
        "--log-bin=binlog",
        "--sync-binlog=1",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-size=1G",
        "--server-id=1",
    ];
    Options {
        settings: settings.map(str::to_owned).to_vec(),
        plugin: plugin.then(Vec::new),
        ..Options::default()
    }
}

/// Runs the inserts.
pub(super) fn inserts(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let sync = sync_cost::measure(room.scratch)?;
    let over_sql = |side: &str, plugin: bool, engine: &str| {
        let name = format!("D2.B19-{side}");
        let server = room.server(&name, &with_binlog(plugin))?;
        let url = server.url();
        let result = room.millpond(&name, &[&INSERTS[..], &["--target", &url, "--engine", engine]].concat());
        server.end()?;
        result
    };
    let innodb = over_sql("innodb", false, "InnoDB")?;
    let in_server = room.has_plugin().then(|| over_sql("server", true, "Millpond")).transpose()?;
    let db = room.scratch.join("D2.B19-millpond");
    let db_name = db.display().to_string();
    let millpond = room.millpond("D2.B19-millpond", &[&INSERTS[..], &["--db", &db_name]].concat())?;
    room.remove(&db)?;
    let sides = Sides { innodb, millpond, in_server };
    Ok(Finding {
        rows: rows(&sides, sync),
        holds: verdict(&sides.innodb, &sides.millpond, sync),
        scaled: "Nothing is smaller. The servers have their binary log, synced at each commit; Millpond in the process has none.".to_owned(),
        check: checks(sides.all()),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows(sides: &Sides<Value>, sync: f64) -> Vec<Row> {
    let figure = |what: &str, published: Option<&str>, key: &str, unit| {
        sides.row(what, published, unit, |result| number(result, key))
    };
    // All threads can share each sync at best, and wait for it.
    let rate = Row { bound: Some(THREADS / sync), ..figure("inserts", Some("5 300"), "/tps", "a second") };
    let alone = Row {
        published: Some("1.0".to_owned()),
        bound: Some(sync * 1000.0),
        ..Row::new("one sync alone", None, None, None, "ms")
    };
    let groups = |result: &Value| number(result, "/binlog/group_commits");
    let of_log =
        |result: &Value| number(result, "/fsyncs/by_file/log").or_else(|| number(result, "/fsyncs/log"));
    let all = |result: &Value| Some(number(result, "/fsyncs/total")? + groups(result).unwrap_or(0.0));
    let each = |result: &Value| per_group(result).or_else(|| number(result, "/commits_per_fsync"));
    vec![
        rate,
        figure("rows", Some("16 000"), "/transactions", "rows"),
        alone,
        sides.row("syncs in all", Some("8 037"), "syncs", all),
        sides.row("syncs of the redo log", Some("4 887"), "syncs", of_log),
        sides.row("groups of the binary log", Some("2 962"), "syncs", groups),
        sides.row("commits a group", Some("5.5"), "commits", each),
        figure("p99", None, "/latency_us/p99", "µs"),
    ]
}

fn per_group(innodb: &Value) -> Option<f64> {
    let groups = number(innodb, "/binlog/group_commits").filter(|groups| *groups > 0.0)?;
    Some(number(innodb, "/binlog/commits")? / groups)
}

/// Says whether commits share syncs here too.
fn verdict(innodb: &Value, millpond: &Value, sync: f64) -> String {
    let (Some(each), Some(rate)) = (per_group(innodb), number(innodb, "/tps")) else {
        return "Nothing can be said: the server counts no groups of its binary log.".to_owned();
    };
    let alone = 1.0 / sync;
    let shared = if each > 1.5 { "It holds" } else { "It does not show here" };
    let own = number(millpond, "/tps").map_or(String::new(), |own| {
        format!(" Millpond makes {own:.0} a second, {:.1} times as many.", own / rate.max(1.0))
    });
    format!(
        "{shared}: a sync alone allows {alone:.0} a second, and InnoDB makes {rate:.0}, with {each:.1} commits in a group.{own}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_verdict_names_both_rates() {
        let innodb = json!({"tps": 2706.0, "binlog": {"commits": 16000, "group_commits": 3241}});
        let millpond = json!({"tps": 5412.0});
        assert_eq!(
            verdict(&innodb, &millpond, 0.00065),
            "It holds: a sync alone allows 1538 a second, and InnoDB makes 2706, with 4.9 commits in a group. Millpond makes 5412 a second, 2.0 times as many."
        );
        let alone = json!({"tps": 800.0, "binlog": {"commits": 16000, "group_commits": 16000}});
        assert!(verdict(&alone, &millpond, 0.001).starts_with("It does not show here"));
        assert!(verdict(&json!({}), &millpond, 0.001).starts_with("Nothing"));
    }
}
