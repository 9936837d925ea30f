//! START TRANSACTION WITH CONSISTENT SNAPSHOT sees Millpond, InnoDB and the binary log at one
//! point, at any moment of a load.

use super::binlog_kills::{Client, OF_BOTH, TABLES, transactions_of};
use super::server::{self, Server};
use super::{output, sql};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
const CLIENTS: u32 = 8;
/// Where commits become visible in another order than the log has them, about one snapshot of
/// several hundred shows it.
const SNAPSHOTS: usize = 400;
/// What is printed between two snapshots.
const NEXT: &str = "next";

/// What a snapshot shows.
struct Snapshot {
    /// The file of the binary log and the position in it.
    position: (String, String),
    /// The rows of Millpond's table and of InnoDB's: the client, how many it has, and the last one.
    rows: [BTreeSet<String>; 2],
}

/// The test.
pub(super) fn at_one_point(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW"])?;
    sql(&server, TABLES)?;
    let clients = (1..=CLIENTS).map(|client| Client::start(&server, dir, 1, client));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(200));
    let snapshots = look(&server);
    for client in clients {
        client.end();
    }
    let mut print = Command::new("mariadb-binlog");
    let states = states(&output(print.arg("--no-defaults").arg(server.data().join("binlog.000001")))?);
    let mut seen = 0;
    for (n, snapshot) in snapshots?.iter().enumerate() {
        seen += compare(&states, snapshot).map_err(|why| format!("snapshot {n}: {why}"))?;
    }
    if seen == 0 {
        return Err("no snapshot has a row".into());
    }
    server::stop(dir)
}

/// Takes all snapshots, one after the other.
fn look(server: &Server) -> Result<Vec<Snapshot>, String> {
    let rows = |table: &str| {
        format!(
            "SELECT '{table}', CONCAT_WS(' ', client, COUNT(*), MAX(n)) FROM test.{table} GROUP BY client"
        )
    };
    let one = format!(
        "START TRANSACTION WITH CONSISTENT SNAPSHOT; SHOW STATUS LIKE 'binlog_snapshot%'; {}; {}; COMMIT; \
         SELECT '{NEXT}';",
        rows("logged"),
        rows("inno")
    );
    let said = sql(server, &one.repeat(SNAPSHOTS))?;
    Ok(said.split(NEXT).filter(|text| !text.trim().is_empty()).map(snapshot_of).collect())
}

fn snapshot_of(text: &str) -> Snapshot {
    let of = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
    };
    let [file, position] = ["Binlog_snapshot_file", "Binlog_snapshot_position"].map(|name| of(name).concat());
    Snapshot { position: (file, position), rows: ["logged", "inno"].map(|t| BTreeSet::from_iter(of(t))) }
}

/// How many rows a client has, and its last one.
type OfClients = BTreeMap<u32, (usize, u32)>;

/// Returns what the transactions up to each commit in `text`, the printed binary log, have
/// inserted, by the position behind the commit.
fn states(text: &str) -> BTreeMap<u64, OfClients> {
    let (mut states, mut state) = (BTreeMap::from([(0, OfClients::new())]), OfClients::new());
    let (mut position, mut begin) = (0, 0);
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if let Some((_, rest)) = line.split_once("end_log_pos ") {
            position = rest.split(' ').next().and_then(|n| n.trim().parse().ok()).unwrap_or(position);
        } else if line.starts_with("COMMIT") {
            for (_, client, n) in transactions_of(&text[begin..end]) {
                let (count, last) = state.entry(client).or_default();
                (*count, *last) = (*count + 1, (*last).max(n));
            }
            states.insert(position, state.clone());
            begin = end;
        }
    }
    states
}

/// Compares a snapshot with the binary log up to its position. Returns how many rows both have.
fn compare(states: &BTreeMap<u64, OfClients>, snapshot: &Snapshot) -> Result<usize, String> {
    let (file, position) = &snapshot.position;
    let end: u64 = position.parse().map_err(|_| format!("{position:?} is no position"))?;
    let (_, logged) = states.range(..=end).next_back().ok_or("the log has no beginning")?;
    for (which, clients) in [(0, CLIENTS), (1, OF_BOTH)] {
        let some = logged.iter().filter(|(client, _)| **client <= clients);
        let wanted =
            BTreeSet::from_iter(some.map(|(client, (count, last))| format!("{client} {count} {last}")));
        let found = &snapshot.rows[which];
        if wanted != *found {
            let engine = ["Millpond", "InnoDB"][which];
            return Err(format!("{file} has {wanted:?} up to {position}, {engine} shows {found:?}"));
        }
    }
    Ok(logged.values().map(|(count, _)| count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_at_the_position_behind_it() {
        let text = "#26 server id 1  end_log_pos 330 CRC32 0x1 \tGTID 0-1-1 trans\nSTART TRANSACTION\n\
                    #Q> INSERT INTO test.logged VALUES (1,2,3)\n\
                    #26 server id 1  end_log_pos 500 CRC32 0x1 \tXid = 7\nCOMMIT/*!*/;\n";
        let states = states(text);
        assert_eq!(states[&500], OfClients::from([(2, (1, 3))]));
        assert_eq!(states.range(..500).next_back().unwrap().1, &OfClients::new());
    }
}
