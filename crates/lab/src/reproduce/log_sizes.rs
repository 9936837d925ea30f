//! The same load with a small and with a large redo log.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Measured, Pond, Setting, ratio};
use super::room::{Room, checks};
use super::sides::Sides;
use output::failure::Outcome;
use output::units::show_size;
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
    let times = room.either((15, 40), (60, 300));
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
    // Millpond's log has 16 MiB at least.
    let log_part = part.min(128);
    let times = room.either((15, 40), (90, 420));
    let warehouses = (1500 / part).max(2);
    let plan = Plan {
        load: Load::new(&format!("tpcc --warehouses {warehouses} --threads 16"), times),
        logs: [2048 * MIB / log_part, 15_360 * MIB / log_part],
        pool: 65_536 * MIB / part,
        settings: &["--innodb-io-capacity=5000", "--innodb-io-capacity-max=7500"],
        published: Published {
            ratio: Some("about 0.8"),
            zero_seconds: Some("many"),
            most_redo: Some("under 12 of 15 GB"),
        },
        scaled: format!(
            "1/{part} of the article's data ({warehouses} of 1 500 warehouses) and pool, 1/{log_part} of its logs; 16 threads without think times; {} s after {} s",
            times.1, times.0
        ),
    };
    plan.find(room, "D3.B13")
}

/// A side with both logs.
struct Pair {
    small: Measured,
    large: Measured,
}

impl Pair {
    fn ratio(&self) -> Option<f64> {
        ratio(self.small.tps(), self.large.tps())
    }
}

impl Plan {
    fn find(&self, room: &Room<'_>, id: &str) -> Outcome<Finding> {
        let begun = Instant::now();
        let small = self.load.on_each(room, (id, "small"), &self.setting(0))?;
        let large = self.load.on_each(room, (id, "large"), &self.setting(1))?;
        let check = checks(small.all().chain(large.all()).map(|one| &one.result));
        let pairs = small.with(large, |small, large| Pair { small, large });
        Ok(Finding {
            rows: self.rows(&pairs),
            holds: verdict(&pairs.map(Pair::ratio), pairs.innodb.small.zero_seconds()),
            scaled: self.scaled.clone(),
            check,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn setting(&self, log: usize) -> Setting {
        let mut innodb = vec![
            format!("--innodb-log-file-size={}", self.logs[log]),
            format!("--innodb-buffer-pool-size={}", self.pool),
            "--innodb-flush-method=O_DIRECT".to_owned(),
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
        ];
        innodb.extend(self.settings.iter().map(|setting| (*setting).to_owned()));
        let pond = Pond { pool: self.pool, redo: Some(self.logs[log]), doublewrite: true };
        Setting { innodb, server: Vec::new(), pond }
    }

    fn rows(&self, pairs: &Sides<Pair>) -> Vec<Row> {
        let size = |log: usize| show_size(self.logs[log] as f64);
        let rate = |log: usize| format!("rate, log of {}", size(log));
        let published = &self.published;
        let zero = "seconds without a commit, small log";
        let most = "most redo since the checkpoint, large log";
        let row = |what: &str, unit, of: &dyn Fn(&Pair) -> Option<f64>| pairs.row(what, None, unit, of);
        vec![
            row(&rate(0), "commits/s", &|pair| pair.small.tps()),
            row(&rate(1), "commits/s", &|pair| pair.large.tps()),
            pairs.row("small log / large log", published.ratio, "of the rate", Pair::ratio),
            pairs.row(zero, published.zero_seconds, "s", |pair| pair.small.zero_seconds()),
            row("worst second, small log", "% of the median", &|pair| pair.small.worst()),
            row("worst second, large log", "% of the median", &|pair| pair.large.worst()),
            row("p99, small log", "ms", &|pair| pair.small.p99_ms()),
            row("p99, large log", "ms", &|pair| pair.large.p99_ms()),
            pairs.row(most, published.most_redo, "MiB", |pair| pair.large.most_redo_mib()),
        ]
    }
}
/// A rate that differs by less than this is the same: runs of some minutes are not nearer.
const SAME: f64 = 0.05;

/// Says whether a small log costs InnoDB throughput here, and Millpond.
fn verdict(ratios: &Sides<Option<f64>>, zero_seconds: Option<f64>) -> String {
    let (Some(innodb), Some(millpond)) = (ratios.innodb, ratios.millpond) else {
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
    let server = ratios.in_server.flatten();
    let server = server.map_or(String::new(), |ratio| format!(", and {} in a server", of(ratio)));
    format!("{innodb} Millpond has {} of its own{server}.", of(millpond))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(innodb: Option<f64>) -> Sides<Option<f64>> {
        Sides { innodb, millpond: Some(0.99), in_server: Some(Some(0.98)) }
    }

    #[test]
    fn the_verdict_is_of_the_ratio() {
        assert_eq!(
            verdict(&ratios(Some(0.78)), Some(7.0)),
            "It holds: with the small log InnoDB has 78 % of the rate; it had 7 seconds without a commit. Millpond has 99 % of its own, and 98 % in a server."
        );
        assert!(verdict(&ratios(Some(0.97)), Some(0.0)).starts_with("It does not show here"));
        assert!(verdict(&ratios(None), None).starts_with("Nothing"));
    }
}
