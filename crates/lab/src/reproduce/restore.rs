//! A table is restored: its rows, and then its indexes, in different places; and the indexes once
//! more, both at the same time.

use super::finding::{Finding, Row};
use super::place::Place;
use super::private_server::Options;
use super::restored::{POOL, Restored, in_process, on_server};
use super::room::Room;
use super::sides::Sides;
use output::failure::Outcome;
use std::time::Instant;

/// What is in memory: the data directory, the redo log, the temporary files; and the article's
/// seconds for rows and for indexes.
const PLACES: [(&str, [bool; 3], [&str; 2]); 4] = [
    ("nothing", [false, false, false], ["151", "52"]),
    ("data and log", [true, true, false], ["134", "51"]),
    ("the log", [false, true, false], ["134", "50"]),
    ("all", [true, true, true], ["121", "45"]),
];

/// A table is this many times as large in the article: 2.3 GiB and 1 GiB of indexes. A row has 190
/// bytes, and 80 in both indexes.
const ARTICLE_ROWS: u32 = 13_000_000;

/// Restores the table in each place.
pub(super) fn table(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let rows = ARTICLE_ROWS / room.either(65, 6);
    let mut restored: Vec<Sides<Restored>> = Vec::new();
    for (i, (_, in_memory, _)) in PLACES.iter().enumerate() {
        let place = Place::of(room, *in_memory)?;
        let restore = |name: &str, options: &Options, engine: &str| {
            let server = room.server_in(place.data, name, options)?;
            let restored = on_server(&server, engine, rows);
            server.end()?;
            restored
        };
        let name = format!("D0.B2-innodb-{i}");
        let mut options = place.innodb(&name);
        options.settings.push(format!("--innodb-buffer-pool-size={POOL}"));
        let innodb = restore(&name, &options, "InnoDB")?;
        let name = format!("D0.B2-server-{i}");
        let mut options = place.plugin(&name);
        options.plugin.iter_mut().for_each(|own| own.push(format!("--millpond-buffer-pool-size={POOL}")));
        let in_server = room.has_plugin().then(|| restore(&name, &options, "Millpond")).transpose()?;
        let millpond = in_process(room, &place, &format!("D0.B2-millpond-{i}"), rows)?;
        restored.push(Sides { innodb, millpond, in_server });
    }
    let whole = restored.iter().flat_map(Sides::all).all(|one| one.whole);
    Ok(Finding {
        rows: rows_of(&restored),
        holds: verdict(restored.iter().map(|sides| sides.innodb)),
        scaled: format!(
            "{rows} rows, {} % of the article's 2.3 GiB, and two indexes; one client, 1000 rows a statement, each of which commits. \"Both at once\" is one ALTER TABLE for InnoDB, and two threads for Millpond in the process.",
            100 * u64::from(rows) / u64::from(ARTICLE_ROWS)
        ),
        check: if whole { "ok".to_owned() } else { "a table or an index has other rows".to_owned() },
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows_of(restored: &[Sides<Restored>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (sides, (what, _, [published, of_indexes])) in restored.iter().zip(PLACES) {
        let name = |part: &str| format!("{part}, {what} in memory");
        rows.push(sides.row(&name("rows"), Some(published), "s", |one| Some(one.rows)));
        rows.push(sides.row(&name("indexes"), Some(of_indexes), "s", |one| Some(one.indexes)));
    }
    if let Some(sides) = restored.first() {
        rows.push(sides.row("indexes, both at once, on the disk", None, "s", |one| Some(one.together)));
    }
    rows
}

/// A time that differs by less than this is the same.
const SAME: f64 = 0.15;

/// Says whether memory helps InnoDB, in the order of [`PLACES`].
fn verdict(mut innodb: impl Iterator<Item = Restored>) -> String {
    let seconds = |one: &Restored| one.rows + one.indexes;
    let Some(disk) = innodb.next() else { return "Nothing was restored.".to_owned() };
    let best = innodb.map(|one| seconds(&one)).fold(seconds(&disk), f64::min);
    let gain = 1.0 - best / seconds(&disk);
    let (begin, end) = if gain < SAME {
        ("It holds, and more", "no place in memory makes a difference")
    } else if gain < 0.5 {
        ("It holds", "the best place in memory saves a part of the time")
    } else {
        ("It does not show here", "memory saves most of the time")
    };
    format!("{begin}: {end}, {:.0} % (the article: 18 %).", 100.0 * gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_of_the_best_place() {
        let all = |seconds: [f64; 3]| {
            let one = |rows| Restored { rows, indexes: 0.0, together: 0.0, whole: true };
            verdict(seconds.map(one).into_iter())
        };
        assert_eq!(
            all([203.0, 185.0, 166.0]),
            "It holds: the best place in memory saves a part of the time, 18 % (the article: 18 %)."
        );
        assert!(all([10.0, 10.0, 9.5]).starts_with("It holds, and more"));
        assert!(all([10.0, 10.0, 2.0]).starts_with("It does not show"));
    }
}
