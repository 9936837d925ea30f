//! More and more users at three sizes of the pool, with the doublewrite on and off.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Pond, Setting, best, ratio, steps};
use super::room::{Room, checks};
use super::sides::Sides;
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
    let data = room.either(96 * MIB, 1024 * MIB);
    let rows = data / BYTES_A_ROW / TABLES;
    let steps = room.either("1,8,64", "1,2,4,8,16,32,64,128,256,512,1024");
    let times = room.either((1, 5), (2, 15));
    let load = Load::new(&format!("read-write --tables {TABLES} --rows {rows} --ramp {steps}"), times);
    let mut pools = Vec::new();
    for (percent, _) in POOLS {
        let pool = data * percent / 100;
        let of = |doublewrite: bool| {
            let name = format!("{}-{}", pool / MIB, if doublewrite { "on" } else { "off" });
            load.on_each(room, ("D4.B24", &name), &setting(pool, doublewrite))
        };
        pools.push(of(true)?.with(of(false)?, |on, off| AtPool { on: on.result, off: off.result }));
    }
    let check = checks(pools.iter().flat_map(Sides::all).flat_map(|one| [&one.on, &one.off]));
    let left = pools.last().map(|sides| sides.map(AtPool::left));
    Ok(Finding {
        rows: rows_of(&pools),
        holds: verdict(left.and_then(|left| left.innodb), left.and_then(|left| left.millpond)),
        scaled: format!(
            "{} MiB of data instead of 100 GB; {steps} users for {} s each. The article compares two versions of MySQL, here the doublewrite is on and off.",
            data / MIB,
            times.1
        ),
        check,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn setting(pool: u64, doublewrite: bool) -> Setting {
    let innodb = vec![
        format!("--innodb-buffer-pool-size={pool}"),
        "--innodb-log-file-size=1G".to_owned(),
        "--innodb-io-capacity=20000".to_owned(),
        "--innodb-io-capacity-max=40000".to_owned(),
        "--innodb-flush-neighbors=0".to_owned(),
        "--innodb-flush-method=O_DIRECT".to_owned(),
        format!("--innodb-doublewrite={}", u8::from(doublewrite)),
    ];
    let server = vec!["--max-connections=4000".to_owned()];
    Setting { innodb, server, pond: Pond { pool, redo: None, doublewrite } }
}

fn rows_of(pools: &[Sides<AtPool>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (sides, (percent, published)) in pools.iter().zip(POOLS) {
        let what = |figure: &str| format!("{figure}, pool of {percent} % of the data");
        let most = |at: &AtPool| ratio(steps(&at.on).last().copied(), best(&at.on));
        rows.push(sides.row(&what("best rate, doublewrite on"), None, "commits/s", |at| best(&at.on)));
        rows.push(sides.row(&what("best rate, doublewrite off"), None, "commits/s", |at| best(&at.off)));
        rows.push(sides.row(&what("on / off"), Some(published), "of the rate", AtPool::left));
        rows.push(sides.row(&what("most users / best"), None, "of the rate", most));
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
