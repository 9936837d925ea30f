//! Which files are in memory: a schema of 100 tables is dropped and made again.

use super::finding::Finding;
use super::measured::ratio;
use super::place::Place;
use super::private_server::Options;
use super::room::{Room, checks};
use super::sides::Sides;
use crate::own_command::number;
use output::failure::Outcome;
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
    let mut results = Vec::new();
    let mut taken: Vec<Sides<Option<f64>>> = Vec::new();
    for (i, (_, in_memory, _)) in PLACES.iter().enumerate() {
        let place = Place::of(room, *in_memory)?;
        let mut over_sql = |side: &str, options: Options, engine: &str| {
            let name = format!("D0.B1-{side}-{i}");
            let server = room.server_in(place.data, &name, &options)?;
            let url = server.url();
            let run = ["run", "schema-reload", "--threads", "1", "--target", &url, "--engine", engine];
            let taken = median(room, &name, &run, &mut results);
            server.end()?;
            taken
        };
        let innodb = over_sql("innodb", place.innodb(&format!("D0.B1-innodb-{i}")), "InnoDB")?;
        let plugin = place.plugin(&format!("D0.B1-server-{i}"));
        let in_server = room.has_plugin().then(|| over_sql("server", plugin, "Millpond")).transpose()?;
        let millpond = in_process(room, &place, i, &mut results)?;
        taken.push(Sides { innodb, millpond, in_server });
    }
    let innodb: Vec<Option<f64>> = taken.iter().map(|sides| sides.innodb).collect();
    Ok(Finding {
        rows: PLACES.iter().zip(&taken).map(|((what, _, published), sides)| {
            sides.row(&format!("{what} in memory"), Some(published), "s", |seconds| *seconds)
        }).collect(),
        holds: verdict(&innodb),
        scaled: "100 tables are dropped and made again by one client; the article's schema has 60 triggers too. The median of three.".to_owned(),
        check: checks(&results),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Runs it on databases in this process.
fn in_process(
    room: &Room<'_>,
    place: &Place<'_>,
    i: usize,
    results: &mut Vec<Value>,
) -> Outcome<Option<f64>> {
    let name = format!("D0.B1-millpond-{i}");
    let db = place.data.join(&name);
    let (db_name, redo) = (db.display().to_string(), place.log.join(format!("{name}-log")));
    let redo_name = redo.display().to_string();
    let run = ["run", "schema-reload", "--threads", "1", "--db", &db_name, "--redo-dir", &redo_name];
    let mut taken = Vec::new();
    for _ in 0..TIMES {
        let result = room.millpond(&name, &run)?;
        taken.extend(number(&result, "/seconds"));
        results.push(result);
        room.remove(&db)?;
        room.remove(&redo)?;
    }
    Ok(middle(taken))
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
