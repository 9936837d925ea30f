//! A search for settings under which the load is steady: `millpond sweep` on InnoDB with the
//! doublewrite on and off.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Measured, Pond, Setting};
use super::private_server::Options;
use super::room::{Room, checks};
use super::sides::Sides;
use crate::own_command::number;
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

const ID: &str = "D0.B32";
const POOL: u64 = 256 * MIB;

/// A point of the search.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    settings: String,
    tps: f64,
    /// The worst second in percent of the median one.
    steadiness: f64,
    zero_seconds: f64,
}

/// Searches.
pub(super) fn search(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let (warmup, seconds) = room.either((5, 15), (30, 90));
    let rows = room.either(20_000, 100_000);
    let load = Load::new(&format!("write-heavy --tables 10 --rows {rows} --threads 16"), (warmup, seconds));
    let axes: &[&str] = room.either(
        &["innodb_max_dirty_pages_pct=10,90", "innodb_io_capacity=200,20000"],
        &[
            "innodb_max_dirty_pages_pct=10,90",
            "innodb_io_capacity=200,2000,20000",
            "innodb_log_file_size=96M,512M",
        ],
    );
    let mut points = Vec::new();
    for doublewrite in [true, false] {
        points.extend(swept(room, &load, axes, doublewrite)?);
    }
    let pond = Pond { pool: POOL, redo: None, doublewrite: true };
    let setting = Setting { innodb: Vec::new(), server: Vec::new(), pond };
    let millpond = load.on_millpond(room, &format!("{ID}-millpond"), &pond.flags())?;
    let in_server = load.in_server(room, (ID, "millpond"), &setting)?;
    let check = checks([&millpond].into_iter().chain(&in_server).map(|one| &one.result));
    let holds = verdict(&points, millpond.worst());
    Ok(Finding {
        rows: rows_of(&points, &millpond, in_server.as_ref()),
        holds,
        scaled: format!(
            "{} points, {seconds} s each after {warmup} s: {}, each with the doublewrite on and off; a pool of {} MiB. The article searched on MySQL 5.5.8. Millpond has no such settings: it is run once.",
            points.len(),
            axes.join(" "),
            POOL / MIB
        ),
        check,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Runs a sweep on a new server.
fn swept(room: &Room<'_>, load: &Load, axes: &[&str], doublewrite: bool) -> Outcome<Vec<Point>> {
    let switch = if doublewrite { "on" } else { "off" };
    let name = format!("{ID}-innodb-{switch}");
    let settings = vec![
        format!("--innodb-buffer-pool-size={POOL}"),
        "--innodb-log-file-size=96M".to_owned(),
        "--innodb-flush-method=O_DIRECT".to_owned(),
        "--innodb-io-capacity-max=40000".to_owned(),
        format!("--innodb-doublewrite={}", u8::from(doublewrite)),
    ];
    let server = room.server(&name, &Options { settings, ..Options::default() })?;
    let out = room.report_of_new_sweep(&name)?.display().to_string();
    let mut args = vec!["sweep".to_owned()];
    args.extend(axes.iter().map(|axis| (*axis).to_owned()));
    args.extend(["--target".to_owned(), server.url(), "--out".to_owned(), out]);
    let result = room.millpond_that_runs(&name, &args, &load.flags_and(&["--engine", "InnoDB"]))?;
    server.end()?;
    Ok(points(&result, switch))
}

/// Reads the points of a sweep.
fn points(result: &Value, switch: &str) -> Vec<Point> {
    let point = |point: &Value| {
        let settings = point.get("settings")?.as_array()?.iter().filter_map(|pair| {
            Some(format!(
                "{} {}",
                pair.get(0)?.as_str()?.trim_start_matches("innodb_"),
                pair.get(1)?.as_str()?
            ))
        });
        let mut settings: Vec<String> = settings.collect();
        settings.push(format!("doublewrite {switch}"));
        Some(Point {
            settings: settings.join(", "),
            tps: number(point, "/tps")?,
            steadiness: number(point, "/steadiness")?,
            zero_seconds: number(point, "/zero_seconds")?,
        })
    };
    let all = result.get("points").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(point).collect()
}

/// Returns the point that has most of something.
fn most(points: &[Point], of: fn(&Point) -> f64) -> Option<&Point> {
    points.iter().max_by(|a, b| of(a).total_cmp(&of(b)))
}

fn rows_of(points: &[Point], millpond: &Measured, in_server: Option<&Measured>) -> Vec<Row> {
    let steadiest = most(points, |point| point.steadiness);
    let fastest = most(points, |point| point.tps);
    let least = most(points, |point| -point.tps);
    let row = |what: &str, unit, innodb: Option<f64>, of: &dyn Fn(&Measured) -> Option<f64>| {
        let own = Sides { innodb: millpond, millpond, in_server };
        Row { innodb, ..own.row(what, None, unit, |one| of(one)) }
    };
    vec![
        row(
            "worst second, steadiest settings",
            "% of the median",
            steadiest.map(|p| p.steadiness),
            &Measured::worst,
        ),
        row("rate, steadiest settings", "commits/s", steadiest.map(|p| p.tps), &Measured::tps),
        row(
            "worst second, fastest settings",
            "% of the median",
            fastest.map(|p| p.steadiness),
            &Measured::worst,
        ),
        row("rate, fastest settings", "commits/s", fastest.map(|p| p.tps), &Measured::tps),
        row("rate, worst settings", "commits/s", least.map(|p| p.tps), &Measured::tps),
        row(
            "seconds without a commit, worst settings",
            "s",
            most(points, |p| p.zero_seconds).map(|p| p.zero_seconds),
            &Measured::zero_seconds,
        ),
    ]
}

/// A worst second of so much of the median one is steady, percent.
const STEADY: f64 = 75.0;

/// Says whether a search finds a steady point.
fn verdict(points: &[Point], millpond: Option<f64>) -> String {
    let (Some(steadiest), Some(fastest)) =
        (most(points, |point| point.steadiness), most(points, |point| point.tps))
    else {
        return "Nothing can be said: the sweep has no points.".to_owned();
    };
    let holds = if steadiest.steadiness >= STEADY {
        "The search finds steady settings"
    } else {
        "No settings of the search are steady"
    };
    let price = 100.0 * (1.0 - steadiest.tps / fastest.tps.max(1.0));
    let own = millpond.map_or(String::new(), |worst| {
        format!(" Millpond's worst second has {worst:.0} %, without a setting.")
    });
    format!(
        "{holds}: the steadiest is {}, whose worst second has {:.0} % of the median one, at {price:.0} % below the fastest rate.{own}",
        steadiest.settings, steadiest.steadiness
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_verdict_is_of_the_steadiest_point() {
        let result = json!({"points": [
            {"settings": [["innodb_io_capacity", "200"]], "tps": 80.0, "steadiness": 90.0, "zero_seconds": 0},
            {"settings": [["innodb_io_capacity", "20000"]], "tps": 100.0, "steadiness": 20.0, "zero_seconds": 1},
        ]});
        let points = points(&result, "on");
        assert_eq!(
            verdict(&points, Some(95.0)),
            "The search finds steady settings: the steadiest is io_capacity 200, doublewrite on, whose worst second has 90 % of the median one, at 20 % below the fastest rate. Millpond's worst second has 95 %, without a setting."
        );
        assert!(verdict(&points[1..], None).starts_with("No settings"));
        assert!(verdict(&[], None).starts_with("Nothing"));
    }
}
