//! Sixteen threads insert one row a transaction, 1,000 times each, with the binary log on.

use super::finding::{Finding, Row};
use super::room::{Room, checks};
use super::sync_cost;
use crate::own_command::number;
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

/// Threads of the article's program.
const THREADS: f64 = 16.0;

/// Runs the inserts.
pub(super) fn inserts(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let sync = sync_cost::measure(room.scratch)?;
    let settings = [
        "--log-bin=binlog",
        "--sync-binlog=1",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-size=1G",
        "--server-id=1",
    ];
    let server = room.server("D2.B19-innodb", &settings.map(str::to_owned))?;
    let url = server.url();
    let run = ["run", "napkin", "--threads", "16"];
    let over_sql = [&run[..], &["--target", &url, "--engine", "InnoDB"]].concat();
    let innodb = room.millpond("D2.B19-innodb", &over_sql)?;
    server.end()?;
    let db = room.scratch.join("D2.B19-millpond");
    let db_name = db.display().to_string();
    let millpond = room.millpond("D2.B19-millpond", &[&run[..], &["--db", &db_name]].concat())?;
    room.remove(&db)?;
    Ok(Finding {
        rows: rows(&innodb, &millpond, sync),
        holds: verdict(&innodb, &millpond, sync),
        scaled: "Nothing is smaller. InnoDB works over SQL with its binary log, synced at each commit; Millpond in the process, without one.".to_owned(),
        check: checks(&[&innodb, &millpond]),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows(innodb: &Value, millpond: &Value, sync: f64) -> Vec<Row> {
    let both = |what: &str, published: Option<&str>, key: &str, unit| {
        Row::new(what, published, number(innodb, key), number(millpond, key), unit)
    };
    // All threads can share each sync at best, and wait for it.
    let rate = Row { bound: Some(THREADS / sync), ..both("inserts", Some("5 300"), "/tps", "a second") };
    let alone = Row {
        published: Some("1.0".to_owned()),
        bound: Some(sync * 1000.0),
        ..Row::new("one sync alone", None, None, None, "ms")
    };
    let log = Row::new(
        "syncs of the redo log",
        Some("4 887"),
        number(innodb, "/fsyncs/log"),
        number(millpond, "/fsyncs/by_file/log"),
        "syncs",
    );
    let binlog = number(innodb, "/binlog/group_commits");
    let all = number(innodb, "/fsyncs/total").map(|total| total + binlog.unwrap_or(0.0));
    vec![
        rate,
        Row::new(
            "rows",
            Some("16 000"),
            number(innodb, "/transactions"),
            number(millpond, "/transactions"),
            "rows",
        ),
        alone,
        Row::new("syncs in all", Some("8 037"), all, number(millpond, "/fsyncs/total"), "syncs"),
        log,
        Row::new("groups of the binary log", Some("2 962"), binlog, None, "syncs"),
        Row::new("commits a group", Some("5.5"), per_group(innodb), commits_each(millpond), "commits"),
        both("p99", None, "/latency_us/p99", "µs"),
    ]
}

fn per_group(innodb: &Value) -> Option<f64> {
    let groups = number(innodb, "/binlog/group_commits").filter(|groups| *groups > 0.0)?;
    Some(number(innodb, "/binlog/commits")? / groups)
}

fn commits_each(millpond: &Value) -> Option<f64> {
    number(millpond, "/commits_per_fsync")
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
