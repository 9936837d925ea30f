//! More and more users at three sizes of the pool, with the doublewrite on and off.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, ratio};
use super::room::{Room, checks};
use crate::own_command::number;
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

/// Parts of the data that the pool has, in percent, and what the article saw of the older
/// doublewrite there.
const POOLS: [(u64, &str); 3] =
    [(128, "no difference"), (64, "loses from 64 users on"), (32, "loses from 64 users on, more")];
/// A row with its index has about so many bytes.
const BYTES_A_ROW: u64 = 270;
const TABLES: u64 = 8;

/// The runs of an engine at one size of the pool.
struct AtPool {
    on: Value,
    off: Value,
}

impl AtPool {
    /// Returns what the doublewrite leaves of the best rate.
    fn left(&self) -> Option<f64> {
        ratio(best(&self.on), best(&self.off))
    }
}

/// Runs sysbench's read-write load.
pub(super) fn three_pools(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let data = room.either(96 * MIB, 2048 * MIB);
    let rows = data / BYTES_A_ROW / TABLES;
    let steps = room.either("1,8,64", "1,2,4,8,16,32,64,128,256,512,1024");
    let times = room.either((1, 5), (10, 60));
    let load = Load::new(&format!("read-write --tables {TABLES} --rows {rows} --ramp {steps}"), times);
    let (mut innodb, mut millpond) = (Vec::new(), Vec::new());
    for (percent, _) in POOLS {
        let pool = data * percent / 100;
        innodb.push(AtPool {
            on: on_innodb(room, &load, pool, true)?,
            off: on_innodb(room, &load, pool, false)?,
        });
        millpond.push(AtPool {
            on: on_millpond(room, &load, pool, true)?,
            off: on_millpond(room, &load, pool, false)?,
        });
    }
    let results: Vec<&Value> = innodb.iter().chain(&millpond).flat_map(|one| [&one.on, &one.off]).collect();
    Ok(Finding {
        rows: rows_of(&innodb, &millpond),
        holds: verdict(innodb.last().and_then(AtPool::left), millpond.last().and_then(AtPool::left)),
        scaled: format!(
            "{} MiB of data instead of 100 GB; {steps} users for {} s each. The article compares two versions of MySQL, here the doublewrite is on and off.",
            data / MIB,
            times.1
        ),
        check: checks(&results),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn word(doublewrite: bool) -> &'static str {
    if doublewrite { "on" } else { "off" }
}

fn on_innodb(room: &Room<'_>, load: &Load, pool: u64, doublewrite: bool) -> Outcome<Value> {
    let settings = [
        format!("--innodb-buffer-pool-size={pool}"),
        "--innodb-log-file-size=1G".to_owned(),
        "--innodb-io-capacity=20000".to_owned(),
        "--innodb-io-capacity-max=40000".to_owned(),
        "--innodb-flush-neighbors=0".to_owned(),
        "--innodb-flush-method=O_DIRECT".to_owned(),
        "--max-connections=4000".to_owned(),
        format!("--innodb-doublewrite={}", u8::from(doublewrite)),
    ];
    let name = format!("D4.B24-innodb-{}-{}", pool / MIB, word(doublewrite));
    Ok(load.on_innodb(room, &name, &settings)?.result)
}

fn on_millpond(room: &Room<'_>, load: &Load, pool: u64, doublewrite: bool) -> Outcome<Value> {
    let mut flags = vec!["--pool".to_owned(), pool.to_string()];
    if !doublewrite {
        flags.push("--unsafe-no-doublewrite".to_owned());
    }
    let name = format!("D4.B24-millpond-{}-{}", pool / MIB, word(doublewrite));
    Ok(load.on_millpond(room, &name, &flags)?.result)
}

/// Returns the rates of the steps.
fn steps(result: &Value) -> Vec<f64> {
    let steps = result.get("ramp").and_then(Value::as_array);
    steps.into_iter().flatten().filter_map(|step| number(step, "/tps")).collect()
}

fn best(result: &Value) -> Option<f64> {
    steps(result).into_iter().max_by(f64::total_cmp)
}

fn rows_of(innodb: &[AtPool], millpond: &[AtPool]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((innodb, millpond), (percent, published)) in innodb.iter().zip(millpond).zip(POOLS) {
        let what = |figure: &str| format!("{figure}, pool of {percent} % of the data");
        let both = |what: String, published, of: &dyn Fn(&AtPool) -> Option<f64>, unit| {
            Row::new(&what, published, of(innodb), of(millpond), unit)
        };
        rows.push(both(what("best rate, doublewrite on"), None, &|at| best(&at.on), "commits/s"));
        rows.push(both(what("best rate, doublewrite off"), None, &|at| best(&at.off), "commits/s"));
        rows.push(both(what("on / off"), Some(published), &AtPool::left, "of the rate"));
        let most = |at: &AtPool| ratio(steps(&at.on).last().copied(), best(&at.on));
        rows.push(both(what("most users / best"), None, &most, "of the rate"));
    }
    rows
}

/// A rate that differs by less than this is the same.
const SAME: f64 = 0.05;

/// Says what the doublewrite costs where the pool is smallest.
fn verdict(innodb: Option<f64>, millpond: Option<f64>) -> String {
    let (Some(innodb), Some(millpond)) = (innodb, millpond) else {
        return "Nothing can be said: a rate is not known.".to_owned();
    };
    let holds = if innodb < 1.0 - SAME { "It holds" } else { "It does not show here" };
    format!(
        "{holds}: with the smallest pool the doublewrite leaves InnoDB {:.0} % of its best rate, and Millpond {:.0} %.",
        100.0 * innodb,
        100.0 * millpond
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_best_step_counts() {
        let ramp =
            |rates: &[f64]| json!({"ramp": rates.iter().map(|tps| json!({"tps": tps})).collect::<Vec<_>>()});
        let at = AtPool { on: ramp(&[10.0, 60.0, 50.0]), off: ramp(&[10.0, 80.0, 40.0]) };
        assert_eq!(at.left(), Some(0.75));
        assert_eq!(best(&json!({})), None);
    }

    #[test]
    fn the_verdict_is_of_the_smallest_pool() {
        assert_eq!(
            verdict(Some(0.6), Some(0.97)),
            "It holds: with the smallest pool the doublewrite leaves InnoDB 60 % of its best rate, and Millpond 97 %."
        );
        assert!(verdict(Some(0.99), Some(1.0)).starts_with("It does not show"));
        assert!(verdict(None, None).starts_with("Nothing"));
    }
}
