//! The same load with a small and with a large redo log.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Measured, ratio};
use super::room::{Room, checks};
use output::failure::Outcome;
use output::units::show_size;
use serde_json::Value;
use std::time::Instant;

/// What is run with both logs.
struct Plan {
    load: Load,
    /// Bytes of the two logs.
    logs: [u64; 2],
    pool: u64,
    /// The article's other settings of InnoDB.
    settings: &'static [&'static str],
    /// What the article says of the small log.
    published: Published,
    /// What differs from the article.
    scaled: String,
}

/// The figures of an article; it says them in words.
struct Published {
    ratio: Option<&'static str>,
    zero_seconds: Option<&'static str>,
    most_redo: Option<&'static str>,
}

/// sysbench's write-heavy load with a log of 96 MB and with one of 512 MB.
pub(super) fn write_heavy(room: &Room<'_>) -> Outcome<Finding> {
    let times = room.either((15, 40), (120, 600));
    let plan = Plan {
        load: Load::new("write-heavy --tables 20 --rows 50000 --threads 16", times),
        logs: [96 * MIB, 512 * MIB],
        pool: 3072 * MIB,
        settings: &[],
        published: Published { ratio: None, zero_seconds: None, most_redo: None },
        scaled: format!(
            "The data, the pool and both logs are the article's; {} s are measured after {} s, instead of 300 s after 600 s. The article prints pictures and no figures.",
            times.1, times.0
        ),
    };
    plan.find(room, "D0.B4")
}

/// TPC-C with a log of 2 parts and with one of 15 parts.
pub(super) fn two_logs(room: &Room<'_>) -> Outcome<Finding> {
    // The article has 150 GB of data, 64 GB of pool, and logs of 2 and 15 GB (of each file).
    let part = room.either(256, 64);
    let times = room.either((15, 40), (300, 900));
    let warehouses = (1500 / part).max(2);
    let plan = Plan {
        load: Load::new(&format!("tpcc --warehouses {warehouses} --threads 16"), times),
        logs: [2048 * MIB / part, 15_360 * MIB / part],
        pool: 65_536 * MIB / part,
        settings: &["--innodb-io-capacity=5000", "--innodb-io-capacity-max=7500"],
        published: Published {
            ratio: Some("about 0.8"),
            zero_seconds: Some("many"),
            most_redo: Some("under 12 of 15 GB"),
        },
        scaled: format!(
            "1/{part} of the article's data ({warehouses} of 1 500 warehouses), pool and logs; 16 threads without think times; {} s after {} s",
            times.1, times.0
        ),
    };
    plan.find(room, "D3.B13")
}

/// An engine with both logs, the small one first.
struct Pair([Measured; 2]);

impl Pair {
    fn ratio(&self) -> Option<f64> {
        ratio(self.0[0].tps(), self.0[1].tps())
    }
}

impl Plan {
    fn find(&self, room: &Room<'_>, id: &str) -> Outcome<Finding> {
        let begun = Instant::now();
        let innodb = Pair([self.innodb(room, id, 0)?, self.innodb(room, id, 1)?]);
        let millpond = Pair([self.millpond(room, id, 0)?, self.millpond(room, id, 1)?]);
        let results: Vec<&Value> = innodb.0.iter().chain(&millpond.0).map(|one| &one.result).collect();
        Ok(Finding {
            rows: self.rows(&innodb, &millpond),
            holds: verdict(innodb.ratio(), millpond.ratio(), innodb.0[0].zero_seconds()),
            scaled: self.scaled.clone(),
            check: checks(&results),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn innodb(&self, room: &Room<'_>, id: &str, log: usize) -> Outcome<Measured> {
        let mut settings = vec![
            format!("--innodb-log-file-size={}", self.logs[log]),
            format!("--innodb-buffer-pool-size={}", self.pool),
            "--innodb-flush-method=O_DIRECT".to_owned(),
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
        ];
        settings.extend(self.settings.iter().map(|setting| (*setting).to_owned()));
        self.load.on_innodb(room, &format!("{id}-innodb-{}", NAMES[log]), &settings)
    }

    fn millpond(&self, room: &Room<'_>, id: &str, log: usize) -> Outcome<Measured> {
        let (pool, log_bytes) = (self.pool.to_string(), self.logs[log].to_string());
        let flags = ["--pool", &pool, "--redo-capacity", &log_bytes].map(str::to_owned);
        self.load.on_millpond(room, &format!("{id}-millpond-{}", NAMES[log]), &flags)
    }

    fn rows(&self, innodb: &Pair, millpond: &Pair) -> Vec<Row> {
        let size = |log: usize| show_size(self.logs[log] as f64);
        let row = |what: String, published, of: &dyn Fn(&Pair) -> Option<f64>, unit| {
            Row::new(&what, published, of(innodb), of(millpond), unit)
        };
        let published = &self.published;
        vec![
            row(format!("rate, log of {}", size(0)), None, &|pair| pair.0[0].tps(), "commits/s"),
            row(format!("rate, log of {}", size(1)), None, &|pair| pair.0[1].tps(), "commits/s"),
            row("small log / large log".to_owned(), published.ratio, &Pair::ratio, "of the rate"),
            row(
                "seconds without a commit, small log".to_owned(),
                published.zero_seconds,
                &|pair| pair.0[0].zero_seconds(),
                "s",
            ),
            row("worst second, small log".to_owned(), None, &|pair| pair.0[0].worst(), "% of the median"),
            row("worst second, large log".to_owned(), None, &|pair| pair.0[1].worst(), "% of the median"),
            row("p99, small log".to_owned(), None, &|pair| pair.0[0].p99_ms(), "ms"),
            row("p99, large log".to_owned(), None, &|pair| pair.0[1].p99_ms(), "ms"),
            row(
                "most redo since the checkpoint, large log".to_owned(),
                published.most_redo,
                &|pair| pair.0[1].most_redo_mib(),
                "MiB",
            ),
        ]
    }
}

const NAMES: [&str; 2] = ["small", "large"];
/// A rate that differs by less than this is the same: runs of some minutes are not nearer.
const SAME: f64 = 0.05;

/// Says whether a small log costs InnoDB throughput here, and Millpond.
fn verdict(innodb: Option<f64>, millpond: Option<f64>, zero_seconds: Option<f64>) -> String {
    let (Some(innodb), Some(millpond)) = (innodb, millpond) else {
        return "Nothing can be said: a rate is not known.".to_owned();
    };
    let of = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
    let stalls = match zero_seconds {
        Some(n) if n > 0.0 => format!("; it had {n:.0} seconds without a commit"),
        _ => "; no second was without a commit".to_owned(),
    };
    let innodb = if innodb < 1.0 - SAME {
        format!("It holds: with the small log InnoDB has {} of the rate{stalls}.", of(innodb))
    } else {
        format!("It does not show here: with the small log InnoDB has {} of the rate{stalls}.", of(innodb))
    };
    format!("{innodb} Millpond has {} of its own.", of(millpond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_of_the_ratio() {
        assert_eq!(
            verdict(Some(0.78), Some(0.99), Some(7.0)),
            "It holds: with the small log InnoDB has 78 % of the rate; it had 7 seconds without a commit. Millpond has 99 % of its own."
        );
        assert!(verdict(Some(0.97), Some(1.0), Some(0.0)).starts_with("It does not show here"));
        assert!(verdict(None, Some(1.0), None).starts_with("Nothing"));
    }
}
