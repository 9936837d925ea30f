//! Which files of a server are in memory: a schema of 100 tables is dropped and made again.

use super::finding::{Finding, Row};
use super::measured::ratio;
use super::room::{Room, checks};
use crate::own_command::number;
use output::failure::{Failure, Outcome};
use serde_json::Value;
use std::time::Instant;

/// What is in memory: the data directory, the redo log, the temporary files; and the article's
/// seconds.
const PLACES: [(&str, [bool; 3], &str); 5] = [
    ("nothing", [false, false, false], "15.3"),
    ("the data", [true, false, false], "13.8"),
    ("the log", [false, true, false], "1.061"),
    ("data and log", [true, true, false], "0.99"),
    ("all", [true, true, true], "0.85"),
];

/// How often each is done; the median counts.
const TIMES: usize = 3;

/// Drops and makes 100 tables in each placement.
pub(super) fn in_memory(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let memory = room.memory.ok_or_else(|| {
        Failure::failed("this experiment needs /dev/shm, a file system in memory, and it cannot be used")
    })?;
    let mut innodb = Vec::new();
    let mut results = Vec::new();
    for (i, (_, [data, log, temporary], _)) in PLACES.iter().enumerate() {
        let name = format!("D0.B1-innodb-{i}");
        let on = |in_memory: bool| if in_memory { memory } else { room.scratch };
        let log_dir = on(*log).join(format!("{name}-log"));
        let temporary_dir = on(*temporary).join(format!("{name}-tmp"));
        let settings = [
            format!("--innodb-log-group-home-dir={}", log_dir.display()),
            format!("--tmpdir={}", temporary_dir.display()),
        ];
        let dirs = [log_dir, temporary_dir];
        let server = room.server_in(&name, on(*data), &dirs, &settings)?;
        let url = server.url();
        let run = ["run", "schema-reload", "--threads", "1", "--target", &url, "--engine", "InnoDB"];
        innodb.push(median(room, &name, &run, &mut results)?);
        server.end()?;
    }
    let mut millpond = Vec::new();
    for (name, place) in [("disk", room.scratch), ("memory", memory)] {
        let name = format!("D0.B1-millpond-{name}");
        let db = place.join(&name);
        let db_name = db.display().to_string();
        let run = ["run", "schema-reload", "--threads", "1", "--db", &db_name];
        let mut taken = Vec::new();
        for _ in 0..TIMES {
            let result = room.millpond(&name, &run)?;
            taken.extend(number(&result, "/seconds"));
            results.push(result);
            room.remove(&db)?;
        }
        millpond.push(middle(taken));
    }
    Ok(Finding {
        rows: rows(&innodb, &millpond),
        holds: verdict(&innodb),
        scaled: "100 tables are dropped and made again by one client; the article's schema has 60 triggers too. The median of three. Millpond has one directory, so there are two places.".to_owned(),
        check: checks(&results.iter().collect::<Vec<_>>()),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Runs a command some times, and returns the median of its seconds.
fn median(room: &Room<'_>, name: &str, run: &[&str], results: &mut Vec<Value>) -> Outcome<Option<f64>> {
    let mut taken = Vec::new();
    for _ in 0..TIMES {
        let result = room.millpond(name, run)?;
        taken.extend(number(&result, "/seconds"));
        results.push(result);
    }
    Ok(middle(taken))
}

fn middle(mut taken: Vec<f64>) -> Option<f64> {
    taken.sort_by(f64::total_cmp);
    taken.get(taken.len() / 2).copied()
}

fn rows(innodb: &[Option<f64>], millpond: &[Option<f64>]) -> Vec<Row> {
    let own = |i: usize| match i {
        0 => millpond.first().copied().flatten(),
        4 => millpond.get(1).copied().flatten(),
        _ => None,
    };
    let row = |(i, (what, _, published)): (usize, &(&str, [bool; 3], &str))| {
        let here = innodb.get(i).copied().flatten();
        Row::new(&format!("{what} in memory"), Some(published), here, own(i), "s")
    };
    PLACES.iter().enumerate().map(row).collect()
}

/// Says whether the log alone makes the difference, as in the article.
fn verdict(innodb: &[Option<f64>]) -> String {
    let gain = |i: usize| ratio(innodb.first().copied().flatten(), innodb.get(i).copied().flatten());
    let (Some(data), Some(log), Some(both)) = (gain(1), gain(2), gain(3)) else {
        return "Nothing can be said: a time is not known.".to_owned();
    };
    let holds = if log >= 0.5 * both && log > data {
        "It holds"
    } else {
        "It does not show here: other files are synced too"
    };
    format!(
        "{holds}. The log alone makes InnoDB {log:.1} times as fast, the data alone {data:.1} times, both {both:.1} times (the article: 14.4, 1.1, 15.5)."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_the_log_with_both() {
        let article = [15.3, 13.8, 1.061, 0.99, 0.85].map(Some);
        assert!(verdict(&article).starts_with("It holds. The log alone makes InnoDB 14.4 times"));
        let here = [7.6, 3.1, 12.3, 1.4, 0.9].map(Some);
        assert!(verdict(&here).starts_with("It does not show here"));
        assert!(verdict(&[None]).starts_with("Nothing"));
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
    }
}
