//! Half of the data in memory, uniform keys, and three settings of `innodb_io_capacity`.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Measured, Pond, Setting};
use super::room::{Room, checks};
use super::sides::Sides;
use output::failure::Outcome;
use std::time::Instant;

/// innodb_io_capacity and its maximum, and what the article saw.
const CAPACITIES: [(u32, u32, &str); 3] =
    [(1_000, 2_000, "falls to 100 to 500"), (12_000, 24_000, "better, uneven"), (120_000, 120_000, "uneven")];

/// Rows of 100 bytes and their index in so many bytes, about: what the load says of its tables.
const BYTES_A_ROW: u64 = 270;

/// sysbench's read-write load on twice as much data as there is in memory. The article has 70 GB of
/// data, 35 GB of pool, 20 GB of log, and 512 threads.
pub(super) struct HalfInMemory {
    pub(super) load: Load,
    pool: u64,
    log: u64,
}

impl HalfInMemory {
    /// Makes it, with these seconds of warm-up and measured time.
    pub(super) fn of(room: &Room<'_>, times: (u64, u64)) -> HalfInMemory {
        let pool: u64 = room.either(64 * MIB, 512 * MIB);
        let rows = 2 * pool / BYTES_A_ROW / 8;
        let load = Load::new(&format!("read-write --tables 8 --rows {rows} --threads 64"), times);
        HalfInMemory { load, pool, log: pool / 7 * 4 / MIB * MIB }
    }

    /// Returns what the sides are started with; InnoDB with these capacities.
    pub(super) fn setting(&self, capacity: u32, most: u32) -> Setting {
        let innodb = vec![
            format!("--innodb-buffer-pool-size={}", self.pool),
            format!("--innodb-log-file-size={}", self.log),
            format!("--innodb-io-capacity={capacity}"),
            format!("--innodb-io-capacity-max={most}"),
            "--innodb-flush-method=O_DIRECT".to_owned(),
        ];
        let pond = Pond { pool: self.pool, redo: Some(self.log), doublewrite: true };
        Setting { innodb, server: Vec::new(), pond }
    }

    /// Returns what differs from the article.
    pub(super) fn scaled(&self) -> String {
        format!(
            "A pool of {} MiB, twice as much data and 4/7 as much log, as the article has them of 35 GB; 64 threads instead of 512; {} s after {} s.",
            self.pool / MIB,
            self.load.seconds,
            self.load.warmup
        )
    }
}

/// Runs it with each of the capacities.
pub(super) fn three_capacities(room: &Room<'_>) -> Outcome<Finding> {
    const ID: &str = "D1.B6";
    let begun = Instant::now();
    let half = HalfInMemory::of(room, room.either((10, 30), (60, 240)));
    let mut innodb = Vec::new();
    for (capacity, most, _) in CAPACITIES {
        let name = capacity.to_string();
        innodb.push(half.load.on_innodb(room, (ID, &name), &half.setting(capacity, most))?);
    }
    let setting = half.setting(CAPACITIES[0].0, CAPACITIES[0].1);
    let millpond = half.load.on_millpond(room, "D1.B6-millpond", &setting.pond.flags())?;
    let in_server = half.load.in_server(room, (ID, "millpond"), &setting)?;
    let results = innodb.iter().chain([&millpond]).chain(&in_server).map(|one| &one.result);
    let check = checks(results);
    let worst: Vec<Option<f64>> = innodb.iter().map(Measured::worst).collect();
    Ok(Finding {
        rows: rows_of(&innodb, &millpond, in_server.as_ref()),
        holds: verdict(&worst, millpond.worst()),
        scaled: format!("{} Millpond has no such setting.", half.scaled()),
        check,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows_of(innodb: &[Measured], millpond: &Measured, in_server: Option<&Measured>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (innodb, (capacity, most, published)) in innodb.iter().zip(CAPACITIES) {
        let sides = Sides { innodb, millpond, in_server };
        let what = |figure: &str| format!("{figure}, io_capacity {capacity} / {most}");
        rows.push(sides.row(&what("rate"), Some(published), "commits/s", |one| one.tps()));
        rows.push(sides.row(&what("worst second"), None, "% of the median", |one| one.worst()));
        rows.push(sides.row(&what("p99"), None, "ms", |one| one.p99_ms()));
        rows.push(sides.row(&what("device writes"), None, "MiB/s", |one| one.device_mib_a_second()));
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
