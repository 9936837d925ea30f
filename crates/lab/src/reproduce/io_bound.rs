//! Half of the data in memory, uniform keys, and three settings of `innodb_io_capacity`.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Measured};
use super::room::{Room, checks};
use output::failure::Outcome;
use serde_json::Value;
use std::time::Instant;

/// innodb_io_capacity and its maximum, and what the article saw.
const CAPACITIES: [(u32, u32, &str); 3] =
    [(1_000, 2_000, "falls to 100 to 500"), (12_000, 24_000, "better, uneven"), (120_000, 120_000, "uneven")];

/// Rows of 100 bytes and their index in so many bytes, about: what the load says of its tables.
const BYTES_A_ROW: u64 = 270;

/// Runs sysbench's read-write load.
pub(super) fn three_capacities(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    // The article: 70 GB of data, 35 GB of pool, 20 GB of log, 512 threads.
    let pool: u64 = room.either(64 * MIB, 512 * MIB);
    let rows = 2 * pool / BYTES_A_ROW / 8;
    let times = room.either((10, 30), (120, 600));
    let load = Load::new(&format!("read-write --tables 8 --rows {rows} --threads 64"), times);
    let log = pool / 7 * 4;
    let mut innodb = Vec::new();
    for (capacity, most, _) in CAPACITIES {
        let settings = [
            format!("--innodb-buffer-pool-size={pool}"),
            format!("--innodb-log-file-size={}", log / MIB * MIB),
            format!("--innodb-io-capacity={capacity}"),
            format!("--innodb-io-capacity-max={most}"),
            "--innodb-flush-method=O_DIRECT".to_owned(),
        ];
        innodb.push(load.on_innodb(room, &format!("D1.B6-innodb-{capacity}"), &settings)?);
    }
    let flags = ["--pool".to_owned(), pool.to_string(), "--redo-capacity".to_owned(), log.to_string()];
    let millpond = load.on_millpond(room, "D1.B6-millpond", &flags)?;
    let results: Vec<&Value> = innodb.iter().chain([&millpond]).map(|one| &one.result).collect();
    let worst: Vec<Option<f64>> = innodb.iter().map(Measured::worst).collect();
    Ok(Finding {
        rows: rows_of(&innodb, &millpond),
        holds: verdict(&worst, millpond.worst()),
        scaled: format!(
            "A pool of {} MiB, twice as much data and 4/7 as much log, as the article has them of 35 GB; 64 threads instead of 512; {} s after {} s. Millpond has no such setting.",
            pool / MIB,
            times.1,
            times.0
        ),
        check: checks(&results),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows_of(innodb: &[Measured], millpond: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for (one, (capacity, most, published)) in innodb.iter().zip(CAPACITIES) {
        let what = |figure: &str| format!("{figure}, io_capacity {capacity} / {most}");
        rows.push(Row::new(&what("rate"), Some(published), one.tps(), millpond.tps(), "commits/s"));
        rows.push(Row::new(&what("worst second"), None, one.worst(), millpond.worst(), "% of the median"));
        rows.push(Row::new(&what("p99"), None, one.p99_ms(), millpond.p99_ms(), "ms"));
        rows.push(Row::new(
            &what("device writes"),
            None,
            one.device_mib_a_second(),
            millpond.device_mib_a_second(),
            "MiB/s",
        ));
    }
    rows
}

/// A second below this part of the median one is a dip, percent.
const DIP: f64 = 50.0;

/// Says whether InnoDB is uneven with each setting.
fn verdict(innodb: &[Option<f64>], millpond: Option<f64>) -> String {
    let known: Vec<f64> = innodb.iter().copied().flatten().collect();
    if known.is_empty() {
        return "Nothing can be said: no run had two seconds.".to_owned();
    }
    let uneven = known.iter().filter(|worst| **worst < DIP).count();
    let list: Vec<String> = known.iter().map(|worst| format!("{worst:.0} %")).collect();
    let holds = match uneven {
        0 => "It does not show here",
        n if n == known.len() => "It holds",
        _ => "It holds in part",
    };
    let own = millpond.map_or(String::new(), |worst| format!(" Millpond's has {worst:.0} %."));
    format!(
        "{holds}: the worst second of InnoDB has {} of its median one, in the order of the settings.{own}",
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_counts_dips() {
        let all = verdict(&[Some(10.0), Some(20.0), Some(0.0)], Some(91.0));
        assert_eq!(
            all,
            "It holds: the worst second of InnoDB has 10 %, 20 %, 0 % of its median one, in the order of the settings. Millpond's has 91 %."
        );
        assert!(verdict(&[Some(10.0), Some(90.0)], None).starts_with("It holds in part"));
        assert!(verdict(&[Some(80.0), Some(90.0)], None).starts_with("It does not show"));
        assert!(verdict(&[None], None).starts_with("Nothing"));
    }
}
