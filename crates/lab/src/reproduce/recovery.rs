//! How long recovery takes for each GiB of redo: a server is killed under load.

use super::finding::{Finding, Row};
use super::private_server::PrivateServer;
use super::room::Room;
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
    let millpond = room.millpond("D3.B15-millpond", &crash)?;
    Ok(Finding {
        rows: rows(&innodb, &millpond),
        holds: verdict(innodb.minutes_per_gib(), first_ms(&millpond)),
        scaled: format!(
            "{} of redo instead of 10 and 25 GB. InnoDB is killed under the write-heavy load, with the writing of its pages held back; Millpond under the load of `millpond crash`, with the same redo.",
            show_size(redo as f64)
        ),
        check: verified(&millpond),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// What a kill of InnoDB has shown.
struct Killed {
    /// Redo since the checkpoint at the last look before the kill, bytes.
    redo: f64,
    /// From the start of the server to its first answer.
    seconds: f64,
}

impl Killed {
    fn minutes_per_gib(&self) -> f64 {
        self.seconds / 60.0 / (self.redo / GIB)
    }
}

fn innodb(room: &Room<'_>, redo: u64) -> Outcome<Killed> {
    let settings = [
        // InnoDB's limit is about 0.8 of its log.
        format!("--innodb-log-file-size={}", redo * 2),
        format!("--innodb-buffer-pool-size={POOL}"),
        "--innodb-flush-method=O_DIRECT".to_owned(),
        // The age grows only while pages are not written.
        "--innodb-adaptive-flushing=OFF".to_owned(),
        "--innodb-max-dirty-pages-pct=99".to_owned(),
        "--innodb-io-capacity=100".to_owned(),
    ];
    let mut server = room.server("D3.B15-innodb", &settings)?;
    let url = server.url();
    let load = ["run", "write-heavy", "--target", &url, "--engine", "InnoDB", "--seconds", "3600"];
    let mut child = room.in_background("D3.B15-innodb-load", &load)?;
    let age = wait_for_age(&server, redo as f64);
    let killed = server.kill();
    let _ = child.kill();
    let _ = child.wait();
    let redo = age?;
    killed?;
    let seconds = server.start_again()?.as_secs_f64();
    server.end()?;
    Ok(Killed { redo, seconds })
}

/// Waits until the server has so much redo since its checkpoint. Returns how much it has.
fn wait_for_age(server: &PrivateServer, redo: f64) -> Outcome<f64> {
    let begun = Instant::now();
    let mut connection = server.access()?.connect()?;
    loop {
        stop::check()?;
        let asked = connection.rows("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'");
        let rows = asked.map_err(|trouble| Failure::failed(format!("the server fails: {trouble}")))?;
        let age: Option<f64> = rows.first().and_then(|row| row.get(1)?.as_ref()?.parse().ok());
        let age = age.ok_or_else(|| {
            Failure::failed(
                "the server does not show Innodb_checkpoint_age: it must be MariaDB 10.5 or later",
            )
        })?;
        if age >= redo {
            return Ok(age);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::failed(format!(
                "the server had {} of redo after {} s, and not {}",
                show_size(age),
                PATIENCE.as_secs(),
                show_size(redo)
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn first_ms(millpond: &Value) -> Option<f64> {
    number(millpond, "/first_transaction_ms")
}

fn rows(innodb: &Killed, millpond: &Value) -> Vec<Row> {
    let redo = number(millpond, "/redo_bytes");
    let seconds = |key: &str| number(millpond, key).map(|ms| ms / 1000.0);
    let full = seconds("/full_recovery_ms");
    let per_gib = full.zip(redo).map(|(full, redo)| full / 60.0 / (redo / GIB));
    vec![
        Row::new(
            "redo at the kill",
            Some("10 and 25 GB"),
            Some(innodb.redo / GIB),
            redo.map(|redo| redo / GIB),
            "GiB",
        ),
        Row::new(
            "first transaction after the start",
            Some("1 200 and 2 700"),
            Some(innodb.seconds),
            seconds("/first_transaction_ms"),
            "s",
        ),
        Row::new("all redo applied", None, None, full, "s"),
        Row::new(
            "all redo, minutes a GiB",
            Some("2 and 1.8; as a rule 5"),
            Some(innodb.minutes_per_gib()),
            per_gib,
            "min/GiB",
        ),
    ]
}

/// Says whether recovery has its price here.
fn verdict(minutes: f64, first_ms: Option<f64>) -> String {
    let first = first_ms.map_or("an unknown time".to_owned(), |ms| format!("{:.2} s", ms / 1000.0));
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
            verdict(1.9, Some(180.0)),
            "It holds: InnoDB needs 1.90 minutes a GiB before it answers. Millpond commits 0.18 s after its start, and replays beside it."
        );
        assert!(verdict(0.4, None).starts_with("The price is lower here"));
        let killed = Killed { redo: GIB / 2.0, seconds: 60.0 };
        assert!((killed.minutes_per_gib() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_lost_transaction_is_no_ok() {
        assert_eq!(verified(&json!({"lost": 0, "extra": 0})), "ok");
        assert!(verified(&json!({"lost": 1, "extra": 0})).contains("lost"));
        assert!(verified(&json!({})).contains("None"));
    }
}
