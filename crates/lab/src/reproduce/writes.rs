//! How many rows a second a server takes, with more and more clients, each row a transaction.

use super::finding::{Finding, Row};
use super::measured::{Load, MIB, Pond, Setting, best};
use super::room::{Room, checks};
use super::sync_cost;
use output::failure::Outcome;
use std::time::Instant;

const POOL: u64 = 1024 * MIB;

/// Inserts with more and more clients.
pub(super) fn inserts(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let sync = sync_cost::measure(room.scratch)?;
    let steps = room.either("16,64,256", "1,4,16,64,128,256");
    let times = room.either((1, 6), (5, 30));
    let load = Load::new(&format!("insert --tables 4 --rows 10000 --ramp {steps}"), times);
    let setting = Setting {
        innodb: vec![format!("--innodb-buffer-pool-size={POOL}"), "--innodb-log-file-size=1G".to_owned()],
        server: ["--log-bin=binlog", "--sync-binlog=1", "--server-id=1", "--max-connections=1000"]
            .map(str::to_owned)
            .to_vec(),
        pond: Pond { pool: POOL, redo: None, doublewrite: true },
    };
    let sides = load.on_each(room, ("D2.B23", "inserts"), &setting)?;
    let best_rate = sides.row("best rate", Some("5 000 to 15 000"), "inserts/s", |one| best(&one.result));
    let alone =
        Row { bound: Some(sync * 1000.0), ..Row::new("one sync alone", Some("1.0"), None, None, "ms") };
    Ok(Finding {
        holds: verdict(best_rate.innodb, best_rate.millpond),
        rows: vec![best_rate, alone],
        scaled: format!(
            "{steps} clients for {} s each, on 2 or more processors that they share with the server. The servers have their binary log, synced at each commit; Millpond in the process has none.",
            times.1
        ),
        check: checks(sides.all().map(|one| &one.result)),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Says whether InnoDB reaches what the article takes as a rule of thumb.
fn verdict(innodb: Option<f64>, millpond: Option<f64>) -> String {
    let (Some(innodb), Some(millpond)) = (innodb, millpond) else {
        return "Nothing can be said: a rate is not known.".to_owned();
    };
    let holds = match innodb {
        rate if rate < 5_000.0 => "This machine is below the rule",
        rate if rate > 15_000.0 => "This machine is above the rule",
        _ => "It holds",
    };
    format!("{holds}: InnoDB takes {innodb:.0} inserts a second at best, and Millpond {millpond:.0}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_with_the_rule() {
        assert_eq!(
            verdict(Some(8000.0), Some(40000.0)),
            "It holds: InnoDB takes 8000 inserts a second at best, and Millpond 40000."
        );
        assert!(verdict(Some(1000.0), Some(1.0)).starts_with("This machine is below"));
        assert!(verdict(Some(20000.0), Some(1.0)).starts_with("This machine is above"));
        assert!(verdict(None, Some(1.0)).starts_with("Nothing"));
    }
}
