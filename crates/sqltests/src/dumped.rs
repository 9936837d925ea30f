//! A dump that is taken under load is the database at one position of the binary log: with the log
//! from there on it becomes the database.

use super::clients::{self, Killed, TABLES};
use super::replicas::compare;
use super::server::{self, Server};
use super::steps::refused;
use super::steps::{expect, run_file};
use super::{make_dir, output, sql};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
/// The time under load before the first dump and after each.
const LOAD: Duration = Duration::from_millis(700);
/// Dumps of one load.
const DUMPS: u32 = 2;

/// The test.
pub(super) fn replayed(dir: &Path) -> Result<(), String> {
    let options = ["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW"];
    let place = |name: &str| dir.join(name);
    make_dir(&place("first"))?;
    let mut all = vec!["--default-storage-engine=Millpond"];
    all.extend(options);
    let first = server::start(&place("first"), LIFE, &all)?;
    sql(&first, TABLES)?;
    let why = refused(&first, "SET SESSION binlog_format = STATEMENT; UPDATE test.accounts SET v = 1")?;
    expect("a change", &why, "at least one table uses a storage engine limited to row-based logging")?;
    let clients = clients::start(&first, &place("first"), 1, Killed::Replica)?;
    std::thread::sleep(LOAD);
    for n in 1..=DUMPS {
        dump(&first, &place(&format!("dump{n}")))?;
        std::thread::sleep(LOAD);
    }
    clients::end(clients);
    let done = (1..=DUMPS).try_for_each(|n| {
        let copy = place(&format!("copy{n}"));
        make_dir(&copy)?;
        let second = server::start(&copy, LIFE, &[])?;
        let same = restore(&first, &second, &place(&format!("dump{n}")))
            .and_then(|()| compare(&first, &second).map(drop))
            .map_err(|why| format!("dump {n}: {why}"));
        server::stop(&copy)?;
        same
    });
    server::stop(&place("first"))?;
    done
}

/// Dumps a database in one snapshot, with the position of the binary log.
fn dump(server: &Server, file: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let socket = format!("--socket={}", server.socket.display());
    let mut dump = Command::new("mariadb-dump");
    dump.args(["--no-defaults", "--user=root", &socket, "--single-transaction", "--master-data=2"]);
    let out = File::create(file).map_err(failed)?;
    let done = dump.args(["--databases", "test"]).stdin(Stdio::null()).stdout(out).output();
    let done = done.map_err(|e| format!("cannot start mariadb-dump: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("mariadb-dump failed: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

/// Loads a dump, and then what the binary log has behind it.
fn restore(from: &Server, to: &Server, dump: &Path) -> Result<(), String> {
    run_file(to, dump)?;
    let text = std::fs::read_to_string(dump).map_err(|e| format!("{}: {e}", dump.display()))?;
    let (file, position) = position_of(&text).ok_or("the dump has no position of the binary log")?;
    let names = sql(from, "SHOW BINARY LOGS")?;
    let names = names.lines().filter_map(|line| line.split_whitespace().next());
    let files = names.skip_while(|&name| name != file).map(|name| from.data().join(name));
    let mut print = Command::new("mariadb-binlog");
    print.args(["--no-defaults", &format!("--start-position={position}")]).args(files);
    let events = dump.with_extension("events");
    std::fs::write(&events, output(&mut print)?).map_err(|e| format!("{}: {e}", events.display()))?;
    run_file(to, &events)
}

/// Returns the file of the binary log and the position in it that a dump names.
fn position_of(dump: &str) -> Option<(&str, &str)> {
    let after = |mark: &str| dump.split_once(mark).map(|(_, rest)| rest);
    let file = after("MASTER_LOG_FILE='")?.split('\'').next()?;
    let position = after("MASTER_LOG_POS=")?.split(';').next()?;
    Some((file, position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_names_the_position() {
        let dump =
            "--\n-- CHANGE MASTER TO MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=330;\n\n-- GTID\n";
        assert_eq!(position_of(dump), Some(("binlog.000001", "330")));
    }
}
