//! Half of the data in memory, and how many pages at the end of the LRU list are written at a time.

use super::finding::{Finding, Row};
use super::io_bound::HalfInMemory;
use super::measured::Measured;
use super::room::{Room, checks};
use super::sides::Sides;
use output::failure::Outcome;
use std::time::Instant;

const ID: &str = "D1.B9";
const SIZES: [u32; 4] = [512, 1024, 2048, 4096];
/// innodb_io_capacity and its maximum.
const CAPACITY: u32 = 12_000;
const MOST: u32 = 24_000;
/// The article's setting, and what has its task in later versions.
const FLUSH_SIZE: &str = "innodb-lru-flush-size";
const SCAN_DEPTH: &str = "innodb-lru-scan-depth";

/// Runs the load with each size.
pub(super) fn sizes(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let half = HalfInMemory::of(room, room.either((4, 12), (30, 120)));
    let option = if room.programs.know(FLUSH_SIZE)? { FLUSH_SIZE } else { SCAN_DEPTH };
    let setting = half.setting(CAPACITY, MOST);
    let (mut innodb, mut by_law) = (Vec::new(), Vec::new());
    for size in SIZES {
        let name = size.to_string();
        let mut with_size = setting.clone();
        with_size.innodb.push(format!("--{option}={size}"));
        innodb.push(half.load.on_innodb(room, (ID, &name), &with_size)?);
        let (capacity, most) = (CAPACITY.to_string(), MOST.to_string());
        let law = ["--law", "innodb", "--io-capacity", &capacity, "--io-capacity-max", &most];
        let mut flags = setting.pond.flags();
        flags.extend(law.map(str::to_owned));
        // The law wants to find more pages than it writes at a time.
        let depth = (2 * size).to_string();
        flags.extend(["--lru-flush-size", &name, "--lru-scan-depth", &depth].map(str::to_owned));
        by_law.push(half.load.on_millpond(room, &format!("{ID}-law-{name}"), &flags)?);
    }
    let millpond = half.load.on_millpond(room, &format!("{ID}-millpond"), &setting.pond.flags())?;
    let in_server = half.load.in_server(room, (ID, "millpond"), &setting)?;
    let all = innodb.iter().chain(&by_law).chain([&millpond]).chain(&in_server);
    let check = checks(all.map(|one| &one.result));
    Ok(Finding {
        holds: verdict(option, &innodb.iter().map(Measured::tps).collect::<Vec<_>>()),
        scaled: format!(
            "{} InnoDB with io_capacity {CAPACITY} and {MOST}, and {}. Millpond has no such setting; the last rows are its engine with InnoDB's law of flushing.",
            half.scaled(),
            option.replace('-', "_")
        ),
        rows: rows_of(&innodb, &by_law, &millpond, in_server.as_ref()),
        check,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows_of(
    innodb: &[Measured],
    by_law: &[Measured],
    millpond: &Measured,
    in_server: Option<&Measured>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (innodb, size) in innodb.iter().zip(SIZES) {
        let sides = Sides { innodb, millpond, in_server };
        let best = match size {
            2048 => Some("best on ARM"),
            1024 => Some("best on x86"),
            _ => None,
        };
        rows.push(sides.row(&format!("rate, {size} pages"), best, "commits/s", |one| one.tps()));
        rows.push(sides.row(&format!("p99, {size} pages"), None, "ms", |one| one.p99_ms()));
    }
    for (one, size) in by_law.iter().zip(SIZES) {
        let what = format!("InnoDB's law here, {size} pages");
        rows.push(Row::new(&what, None, None, one.tps(), "commits/s"));
    }
    rows
}

/// A rate that differs by less than this is the same.
const SAME: f64 = 0.1;

/// Says whether the size matters.
fn verdict(option: &str, rates: &[Option<f64>]) -> String {
    let rates: Option<Vec<f64>> = rates.iter().copied().collect();
    let rates = rates.unwrap_or_default();
    let best = rates.iter().zip(SIZES).max_by(|a, b| a.0.total_cmp(b.0));
    let least = rates.iter().copied().min_by(f64::total_cmp);
    let Some(((best, size), least)) = best.zip(least) else {
        return "Nothing can be said: a rate is not known.".to_owned();
    };
    let gain = 100.0 * (best / least.max(1.0) - 1.0);
    let holds = if gain >= 100.0 * SAME { "It holds" } else { "It does not show here" };
    let option = option.replace('-', "_");
    format!("{holds}: the best {option} is {size}, {gain:.0} % above the worst.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_the_best_size() {
        let rates = [100.0, 140.0, 130.0, 120.0].map(Some);
        assert_eq!(
            verdict(FLUSH_SIZE, &rates),
            "It holds: the best innodb_lru_flush_size is 1024, 40 % above the worst."
        );
        assert!(verdict(SCAN_DEPTH, &[Some(100.0); 4]).starts_with("It does not show"));
        assert!(verdict(SCAN_DEPTH, &[None; 4]).starts_with("Nothing"));
    }
}
