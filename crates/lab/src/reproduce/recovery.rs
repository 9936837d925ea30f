//! How long recovery takes for each GiB of redo: a server is killed under load.

use super::finding::{Finding, Row};
use super::private_server::{Options, PrivateServer};
use super::room::Room;
use super::sides::Sides;
use crate::own_command::number;
use output::failure::{Failure, Outcome};
use output::stop;
use output::units::show_size;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a load may take to write so much redo.
const PATIENCE: Duration = Duration::from_secs(1800);
const GIB: f64 = (1u64 << 30) as f64;
/// The pages of the load; all of them are dirty when the server is killed.
const POOL: u64 = 2 << 30;

/// Kills both with the same redo to read, and times their recovery.
pub(super) fn minutes_per_gib(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let redo: u64 = room.either(256 << 20, 2 << 30);
    let innodb = innodb(room, redo)?;
    let size = redo.to_string();
    let pool = POOL.to_string();
    let crash = ["crash", "--redo-bytes", &size, "--pool", &pool, "--seconds", "1800"];
    let crashed = room.millpond("D3.B15-millpond", &crash)?;
    let patience = Duration::from_secs(room.either(15, 120));
    let in_server = room.has_plugin().then(|| in_server(room, redo, patience)).transpose()?;
    let sides = Sides { innodb, millpond: Recovery::of_crash(&crashed), in_server };
    Ok(Finding {
        rows: rows(&sides),
        holds: verdict(sides.innodb.minutes_per_gib(), sides.millpond.first),
        scaled: format!(
            "{} of redo instead of 10 and 25 GB. InnoDB is killed under the write-heavy load, with the writing of its pages held back; Millpond under the load of `millpond crash`, with the same redo, and in a server under the same load as InnoDB, with what redo there is after {} s.",
            show_size(redo as f64),
            patience.as_secs()
        ),
        check: verified(&crashed),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// What a kill has shown.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// Redo since the checkpoint at the kill, bytes.
    redo: Option<f64>,
    /// From the start to the first transaction, seconds; of a server to its first answer.
    first: Option<f64>,
    /// Until all redo is applied, seconds.
    full: Option<f64>,
}

impl Recovery {
    fn of_crash(result: &Value) -> Recovery {
        let seconds = |key: &str| number(result, key).map(|ms| ms / 1000.0);
        Recovery {
            redo: number(result, "/redo_bytes"),
            first: seconds("/first_transaction_ms"),
            full: seconds("/full_recovery_ms"),
        }
    }

    fn minutes_per_gib(&self) -> Option<f64> {
        Some(self.full? / 60.0 / (self.redo.filter(|redo| *redo > 0.0)? / GIB))
    }
}

fn innodb(room: &Room<'_>, redo: u64) -> Outcome<Recovery> {
    let settings = vec![
        // InnoDB's limit is about 0.8 of its log.
        format!("--innodb-log-file-size={}", redo * 2),
        format!("--innodb-buffer-pool-size={POOL}"),
        "--innodb-flush-method=O_DIRECT".to_owned(),
        // The age grows only while pages are not written.
        "--innodb-adaptive-flushing=OFF".to_owned(),
        "--innodb-max-dirty-pages-pct=99".to_owned(),
        "--innodb-io-capacity=100".to_owned(),
    ];
    let mut server = room.server("D3.B15-innodb", &Options { settings, ..Options::default() })?;
    let redo = Under { room, server: &mut server, engine: "InnoDB", age: "Innodb_checkpoint_age" }
        .kill_at(redo as f64, PATIENCE)?;
    let redo = redo.enough?;
    let seconds = server.start_again()?.as_secs_f64();
    server.end()?;
    // It answers when all redo is applied.
    Ok(Recovery { redo: Some(redo), first: Some(seconds), full: Some(seconds) })
}

/// Millpond decides in a server how much redo there is, so after some time the server is killed.
fn in_server(room: &Room<'_>, redo: u64, patience: Duration) -> Outcome<Recovery> {
    let plugin =
        vec![format!("--millpond-buffer-pool-size={POOL}"), format!("--millpond-redo-capacity={}", redo * 2)];
    let options = Options { plugin: Some(plugin), ..Options::default() };
    let mut server = room.server("D3.B15-server", &options)?;
    let redo = Under { room, server: &mut server, engine: "Millpond", age: "Millpond_checkpoint_age_bytes" }
        .kill_at(redo as f64, patience)?;
    let seconds = server.start_again()?.as_secs_f64();
    server.end()?;
    Ok(Recovery { redo: Some(redo.most), first: Some(seconds), full: None })
}

/// A server that is killed under load.
struct Under<'a, 'r> {
    room: &'a Room<'r>,
    server: &'a mut PrivateServer,
    engine: &'a str,
    /// The status variable that tells the redo since the checkpoint.
    age: &'a str,
}

/// What redo there was.
struct Redo {
    /// At the last look before the kill, bytes.
    most: f64,
    /// The same, if it was as much as wanted.
    enough: Outcome<f64>,
}

impl Under<'_, '_> {
    /// Kills the server when it has so much redo since its checkpoint, or after some time.
    fn kill_at(self, redo: f64, patience: Duration) -> Outcome<Redo> {
        let url = self.server.url();
        let load = ["run", "write-heavy", "--target", &url, "--engine", self.engine, "--seconds", "3600"];
        let mut child = self.room.in_background(&format!("D3.B15-{}-load", self.engine), &load)?;
        let waited = self.wait(redo, patience);
        let killed = self.server.kill();
        let _ = child.kill();
        let _ = child.wait();
        killed?;
        waited
    }

    fn wait(&self, redo: f64, patience: Duration) -> Outcome<Redo> {
        let begun = Instant::now();
        let mut connection = self.server.access()?.connect()?;
        loop {
            stop::check()?;
            let asked = connection.rows(&format!("SHOW GLOBAL STATUS LIKE '{}'", self.age));
            let rows = asked.map_err(|trouble| Failure::failed(format!("the server fails: {trouble}")))?;
            let age: Option<f64> = rows.first().and_then(|row| row.get(1)?.as_ref()?.parse().ok());
            let age = age.ok_or_else(|| {
                Failure::failed(format!(
                    "the server does not show {}: it must be MariaDB 10.5 or later",
                    self.age
                ))
            })?;
            if age >= redo {
                return Ok(Redo { most: age, enough: Ok(age) });
            }
            if begun.elapsed() > patience {
                let enough = Err(Failure::failed(format!(
                    "the server had {} of redo after {} s, and not {}",
                    show_size(age),
                    patience.as_secs(),
                    show_size(redo)
                )));
                return Ok(Redo { most: age, enough });
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn rows(sides: &Sides<Recovery>) -> Vec<Row> {
    let row = |what: &str, published, unit, of: &dyn Fn(&Recovery) -> Option<f64>| {
        sides.row(what, published, unit, of)
    };
    vec![
        row("redo at the kill", Some("10 and 25 GB"), "GiB", &|one| one.redo.map(|redo| redo / GIB)),
        row("first transaction after the start", Some("1 200 and 2 700"), "s", &|one| one.first),
        row("all redo applied", None, "s", &|one| one.full),
        row("all redo, minutes a GiB", Some("2 and 1.8; as a rule 5"), "min/GiB", &Recovery::minutes_per_gib),
    ]
}

/// Says whether recovery has its price here.
fn verdict(minutes: Option<f64>, first: Option<f64>) -> String {
    let Some(minutes) = minutes else {
        return "Nothing can be said: InnoDB had no redo.".to_owned();
    };
    let first = first.map_or("an unknown time".to_owned(), |seconds| format!("{seconds:.2} s"));
    let price = if minutes >= 1.0 { "It holds" } else { "The price is lower here, and there is one" };
    format!(
        "{price}: InnoDB needs {minutes:.2} minutes a GiB before it answers. Millpond commits {first} after its start, and replays beside it."
    )
}

/// Returns "ok" if nothing was lost and nothing came from nowhere.
fn verified(millpond: &Value) -> String {
    match (number(millpond, "/lost"), number(millpond, "/extra")) {
        (Some(0.0), Some(0.0)) => "ok".to_owned(),
        (lost, extra) => format!("Millpond lost {lost:?} transactions, and has {extra:?} that nobody wrote"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_verdict_is_of_the_minutes() {
        assert_eq!(
            verdict(Some(1.9), Some(0.18)),
            "It holds: InnoDB needs 1.90 minutes a GiB before it answers. Millpond commits 0.18 s after its start, and replays beside it."
        );
        assert!(verdict(Some(0.4), None).starts_with("The price is lower here"));
        let killed = Recovery { redo: Some(GIB / 2.0), first: None, full: Some(60.0) };
        assert_eq!(killed.minutes_per_gib(), Some(2.0));
    }

    #[test]
    fn a_lost_transaction_is_no_ok() {
        assert_eq!(verified(&json!({"lost": 0, "extra": 0})), "ok");
        assert!(verified(&json!({"lost": 1, "extra": 0})).contains("lost"));
        assert!(verified(&json!({})).contains("None"));
    }
}
