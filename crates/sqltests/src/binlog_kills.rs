//! A server with the binary log that is killed under load: afterwards the log and the tables have
//! the same transactions, and all that were acknowledged. Where prepared transactions do not
//! outlive the process (`millpond_flush_log_at_trx_commit=0`), each is in the tables as a whole or
//! not at all.
//!
//! Each transaction inserts a row and counts it in another table. Some of them insert the row into
//! a table of InnoDB too. The binary log names the statements.

use super::server::{self, Server};
use super::share::Share;
use super::turn_durability::TurnDurability;
use super::{make_dir, output, sql, write};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
const CLIENTS: u32 = 16;
/// Clients whose transactions have an InnoDB table too.
pub(super) const OF_BOTH: u32 = 4;
/// How often the tests kill a server: two minutes.
const KILLS: u32 = 50;
/// More than a client runs before the kill.
const TRANSACTIONS: u32 = 20_000;
/// The binary log begins a new file after so many bytes: the server asks the engines then which
/// commits are durable.
const FILE_BYTES: u32 = 256 << 10;
/// The statement that the binary log shows.
const INSERT: &str = "INSERT INTO test.logged VALUES ";

/// How the end of a transaction reads whose number a power cut has taken: for no engine it is one.
const NO_NUMBER: &str = "\tXid = 0";

/// The tables, and a sum for each client.
pub(super) const TABLES: &str = "CREATE DATABASE test; USE test; \
         CREATE TABLE test.logged (turn INT, client INT, n INT, PRIMARY KEY (turn, client, n)) ENGINE=Millpond; \
         CREATE TABLE test.inno (turn INT, client INT, n INT, PRIMARY KEY (turn, client, n)) ENGINE=InnoDB; \
         CREATE TABLE test.sums (client INT PRIMARY KEY, n INT) ENGINE=Millpond; \
         INSERT INTO test.sums SELECT seq, 0 FROM seq_1_to_16";

/// A row: the turn, the client and its transaction.
pub(super) type Row = (u32, u32, u32);

/// Kills a server once in each turn. Returns how many transactions it has committed.
pub(super) fn kill_in_a_row(dir: &Path, turns: RangeInclusive<u32>) -> Result<u64, String> {
    let mut server = start(dir, 1)?;
    sql(&server, TABLES)?;
    let (mut committed, mut disagree) = (0, Vec::new());
    for turn in turns.clone() {
        // Files of earlier turns are not needed. This waits until the engines have all of their
        // commits durably.
        sql(&server, "RESET MASTER")?;
        let durability = TurnDurability::set(&server, turn)?;
        let clients = start_clients(&server, dir, turn)?;
        std::thread::sleep(Duration::from_millis(300 + u64::from(turn) * 911 % 1_500));
        output(Command::new("kill").args(["-9", &server.process()?]))?;
        let acknowledged = acknowledged(clients, turn)?;
        server =
            start(dir, 1).map_err(|why| format!("after kill {turn} the server does not start: {why}"))?;
        let compared = match durability.outlives_the_process() {
            true => compare(&server, turn, &acknowledged),
            false => Ok(0),
        };
        match compared.and_then(|rows| agree(&server, dir).map(|()| rows)) {
            Ok(rows) => committed += rows,
            Err(why) => {
                println!("kill {turn}, {durability}: {why}");
                disagree.push(turn);
            }
        }
    }
    server::stop(dir)?;
    match disagree.len() {
        0 => Ok(committed),
        some => Err(format!("{some} of the kills {turns:?} left a binary log and tables that disagree")),
    }
}

/// Starts all clients of a turn.
pub(super) fn start_clients(server: &Server, dir: &Path, turn: u32) -> Result<Vec<Client>, String> {
    (1..=CLIENTS).map(|client| Client::start(server, dir, turn, client)).collect()
}

/// Returns what clients were told to be committed. The server has ended.
pub(super) fn acknowledged(clients: Vec<Client>, turn: u32) -> Result<BTreeSet<Row>, String> {
    let mut acknowledged = BTreeSet::new();
    for client in clients {
        acknowledged.extend(client.acknowledged(turn)?);
    }
    Ok(acknowledged)
}

/// Starts a server with the binary log.
pub(super) fn start(dir: &Path, sync_binlog: u32) -> Result<Server, String> {
    let sync = format!("--sync-binlog={sync_binlog}");
    let size = format!("--max-binlog-size={FILE_BYTES}");
    let log = ["--log-bin=binlog", "--server-id=1", &sync, "--binlog-format=ROW", &size];
    server::start(dir, LIFE, &log)
}

/// Compares the tables with the binary log of a turn. Returns how many transactions both have.
pub(super) fn compare(server: &Server, turn: u32, acknowledged: &BTreeSet<Row>) -> Result<u64, String> {
    let logged = in_binlog(server)?;
    let rows = in_table(server, "logged", turn, "1")?;
    let differ = |what: &str, left: &BTreeSet<Row>, right: &BTreeSet<Row>| match (
        left.difference(right).count(),
        left.difference(right).next(),
    ) {
        (count, Some(first)) => Err(format!("{count} {what}, such as {first:?}")),
        _ => Ok(()),
    };
    differ("acknowledged rows are missing", acknowledged, &rows)?;
    differ("rows are not in the binary log", &rows, &logged)?;
    differ("rows of the binary log are missing", &logged, &rows)?;
    let of_both = in_table(server, "logged", turn, &format!("client <= {OF_BOTH}"))?;
    let inno = in_table(server, "inno", turn, "1")?;
    differ("rows are not in InnoDB's table", &of_both, &inno)?;
    differ("rows are in InnoDB's table alone", &inno, &of_both)?;
    Ok(rows.len() as u64)
}

/// Checks that each transaction is there as a whole, and decided.
pub(super) fn agree(server: &Server, dir: &Path) -> Result<(), String> {
    let sums = "SELECT s.client FROM test.sums s \
                WHERE s.n <> (SELECT COUNT(*) FROM test.logged l WHERE l.client = s.client)";
    let wrong = sql(server, sums)?;
    let prepared = sql(server, "XA RECOVER")?;
    if !wrong.is_empty() || !prepared.is_empty() {
        return Err(format!("wrong sums of clients {wrong:?}, prepared {prepared:?}, in {}", dir.display()));
    }
    Ok(())
}

/// Returns the rows of the transactions that the binary log has as a whole.
fn in_binlog(server: &Server) -> Result<BTreeSet<Row>, String> {
    let names = sql(server, "SHOW BINARY LOGS")?;
    let files = names.lines().filter_map(|line| line.split_whitespace().next());
    let files: Vec<PathBuf> = files.map(|name| server.data().join(name)).collect();
    let text = output(Command::new("mariadb-binlog").arg("--no-defaults").args(files))?;
    Ok(transactions_of(&text))
}

/// Returns the rows of the transactions that `text`, the printed binary log, shows to be committed.
pub(super) fn transactions_of(text: &str) -> BTreeSet<Row> {
    let (mut rows, mut pending) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        if let Some(statement) = line.strip_prefix("#Q> ") {
            pending.extend(statement.strip_prefix(INSERT).and_then(row_of));
        } else if line.starts_with("START TRANSACTION") || line.ends_with(NO_NUMBER) {
            pending.clear();
        } else if line.starts_with("COMMIT") {
            rows.extend(pending.drain(..));
        }
    }
    rows
}

/// Returns the rows of a table in a turn.
pub(super) fn in_table(
    server: &Server,
    table: &str,
    turn: u32,
    which: &str,
) -> Result<BTreeSet<Row>, String> {
    let rows =
        format!("SELECT CONCAT_WS(',', turn, client, n) FROM test.{table} WHERE turn = {turn} AND {which}");
    Ok(sql(server, &rows)?.lines().filter_map(row_of).collect())
}

/// Reads `1,2,3` or `(1,2,3)`.
fn row_of(text: &str) -> Option<Row> {
    let mut numbers =
        text.trim_matches(['(', ')', ';', ' ']).split(',').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// A client that runs one transaction after the other, and prints the number of each.
pub(super) struct Client {
    process: Child,
    printed: PathBuf,
    number: u32,
}

impl Client {
    pub(super) fn start(server: &Server, dir: &Path, turn: u32, number: u32) -> Result<Client, String> {
        let (script, printed) =
            (dir.join(format!("client{number}.sql")), dir.join(format!("printed{number}")));
        let lines = (1..=TRANSACTIONS).map(|n| {
            let row = format!("({turn},{number},{n})");
            let also = if number <= OF_BOTH {
                format!("INSERT INTO test.inno VALUES {row}; ")
            } else {
                String::new()
            };
            format!(
                "BEGIN; {INSERT}{row}; {also}UPDATE test.sums SET n = n + 1 WHERE client = {number}; COMMIT; \
                 SELECT {n};\n"
            )
        });
        write(&script, &lines.collect::<String>())?;
        let failed = |file: &Path, e: std::io::Error| format!("{}: {e}", file.display());
        let input = std::fs::File::open(&script).map_err(|e| failed(&script, e))?;
        let out = std::fs::File::create(&printed).map_err(|e| failed(&printed, e))?;
        let mut client = server.client();
        client.args(["--batch", "--skip-column-names", "--unbuffered"]);
        client.stdin(input).stdout(out).stderr(Stdio::null());
        let process = client.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
        Ok(Client { process, printed, number })
    }

    /// Ends the client.
    pub(super) fn end(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Returns what was acknowledged. The server has ended.
    fn acknowledged(mut self, turn: u32) -> Result<Vec<Row>, String> {
        let _ = self.process.wait();
        let text = std::fs::read_to_string(&self.printed).map_err(|e| e.to_string())?;
        // The last line may be cut off.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().filter_map(|n| Some((turn, self.number, n.parse().ok()?))).collect())
    }
}

/// The test: a killed server has in its tables what its binary log has.
pub(super) fn killed(dir: &Path, share: Share) -> Result<(), String> {
    make_dir(dir)?;
    kill_in_a_row(dir, share.turns(KILLS)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_transactions_of_the_binary_log_count() {
        let text = "START TRANSACTION\n#Q> INSERT INTO test.logged VALUES (1,2,3)\n#Q> UPDATE test.sums\n\
                    COMMIT/*!*/;\nSTART TRANSACTION\n#Q> INSERT INTO test.logged VALUES (1,2,4)\n\
                    START TRANSACTION\n#Q> INSERT INTO test.logged VALUES (1,5,6)\nCOMMIT/*!*/;\n\
                    START TRANSACTION\n#Q> INSERT INTO test.logged VALUES (1,2,5)\n\
                    #261130  9:15:53 server id 1  end_log_pos 0 CRC32 0x00000000 \tXid = 0\nCOMMIT/*!*/;\n";
        assert_eq!(transactions_of(text), BTreeSet::from([(1, 2, 3), (1, 5, 6)]));
    }
}
