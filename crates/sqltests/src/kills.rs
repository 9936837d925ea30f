//! A server with the plugin that is killed under load and started again, once or hundreds of times.

use super::binlog_kills;
use super::server::{self, Server};
use super::steps::in_own_directory;
use super::steps::try_until;
use super::sysbench::{compare_indexes, sysbench_command};
use super::turn_durability::TurnDurability;
use super::{build_for_tests, make_dir, output, sql};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
/// How often the tests kill a server: once with each durability.
const FEW: u32 = 4;
/// Of many kills each tenth is followed by a look at all rows.
const LOOKS: u32 = 10;
/// The longest time from a start to a kill, of many.
const LONGEST_MS: u64 = 3_000;

/// How often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kills in a row
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// With the binary log, which is compared with the tables after each kill
    #[arg(long)]
    binlog: bool,
}

/// When a server is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// After a thousand acknowledged inserts.
    Inserted,
    /// At any time, the load having begun at once.
    Anytime,
}

/// Kills a server again and again.
pub(super) fn run(args: &Args) -> Result<(), String> {
    build_for_tests()?;
    in_own_directory(|dir| {
        make_dir(dir)?;
        let place = dir.join("server");
        make_dir(&place)?;
        let rows = match args.binlog {
            true => binlog_kills::kill_in_a_row(&place, 1..=args.kills),
            false => kill_in_a_row(&place, args.kills, When::Anytime),
        };
        let rows = rows.inspect_err(|_| {
            // If one still runs.
            let _ = server::stop(&place);
        })?;
        println!("{} kills, 0 servers refused, {rows} rows acknowledged and found", args.kills);
        Ok(())
    })
}

/// The test: a server that is killed loses nothing that it has acknowledged, unless commits do not
/// outlive the process. Then it loses the last ones.
pub(super) fn killed(dir: &Path) -> Result<(), String> {
    kill_in_a_row(dir, FEW, When::Inserted).map(drop)
}

/// Returns how long a server works that is killed at any time. A third is killed very soon.
fn time_to_live(turn: u32) -> Duration {
    // Steps that have no common factor with the range visit all of it.
    let ms = u64::from(turn) * 911 % LONGEST_MS;
    Duration::from_millis(if turn.is_multiple_of(3) { ms / 10 } else { ms })
}

/// Returns how many rows the counting client has.
fn kill_in_a_row(dir: &Path, kills: u32, when: When) -> Result<u64, String> {
    let mut server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.counted (n INT PRIMARY KEY, INDEX (n)) ENGINE=Millpond; \
         CREATE TABLE test.numbered (n BIGINT PRIMARY KEY) ENGINE=Millpond; \
         CREATE SEQUENCE test.s CACHE 3 ENGINE=Millpond",
    )?;
    sql(&server, "CREATE DATABASE sb")?;
    output(sysbench_command(&server, 4).args(["oltp_write_only", "prepare"]))?;
    let mut last = 0;
    for turn in 1..=kills {
        let durability = TurnDurability::set(&server, turn)?;
        let mut load = sysbench_command(&server, 16);
        load.args(["--time=600", "oltp_write_only", "run"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut load =
            load.stderr(Stdio::null()).spawn().map_err(|e| format!("cannot start sysbench: {e}"))?;
        let mut counting = Counting::start(&server, dir, last + 1)?;
        match when {
            When::Inserted => try_until("a thousand inserts", || {
                Ok(counting.acknowledged()?.is_some_and(|n| n > last + 1000))
            })?,
            When::Anytime => std::thread::sleep(time_to_live(turn)),
        }
        output(Command::new("kill").args(["-9", &server.process()?]))?;
        let _ = (counting.client.wait(), load.kill(), load.wait());
        let acknowledged = counting.acknowledged()?.unwrap_or(last);
        server = server::start(dir, LIFE, &[])
            .map_err(|why| format!("after {turn} kills the server does not start: {why}"))?;
        let promised = if durability.outlives_the_process() { acknowledged } else { 0 };
        last = found(&server, promised).map_err(|why| format!("kill {turn}, {durability}: {why}"))?;
        if when == When::Inserted || turn.is_multiple_of(LOOKS) || turn == kills {
            compare_indexes(&server)?;
        }
    }
    server::stop(dir)?;
    Ok(last)
}

/// Returns the last number that was inserted. An error if one below it is missing, or one that was
/// acknowledged.
fn found(server: &Server, acknowledged: u64) -> Result<u64, String> {
    let counts = "SELECT COUNT(*), COALESCE(MAX(n), 0) FROM test.counted FORCE INDEX (PRIMARY) WHERE n > 0";
    let found = sql(server, counts)?;
    let (count, last) = found.split_once('\t').ok_or_else(|| format!("found {found:?}"))?;
    let last: u64 = last.parse().map_err(|_| format!("found {found:?}"))?;
    if count != last.to_string() || last < acknowledged {
        return Err(format!("{acknowledged} rows were acknowledged; found are {count} up to {last}"));
    }
    sql(server, NUMBERED)?;
    Ok(last)
}

/// Inserts a row with the next number of a sequence; it fails for a number that was given before.
pub(super) const NUMBERED: &str = "INSERT INTO test.numbered VALUES (NEXTVAL(test.s));";

/// A client that inserts the numbers from 1 on, and prints each number after its insert.
pub(super) struct Counting {
    pub(super) client: Child,
    printed: PathBuf,
}

impl Counting {
    pub(super) fn start(server: &Server, dir: &Path, from: u64) -> Result<Counting, String> {
        let (script, printed) = (dir.join("counting.sql"), dir.join("counted"));
        let lines = (from..from + 200_000)
            .map(|n| format!("INSERT INTO test.counted VALUES ({n}); {NUMBERED} SELECT {n};\n"));
        super::write(&script, &lines.collect::<String>())?;
        let open = |file: &Path| std::fs::File::open(file).map_err(|e| format!("{}: {e}", file.display()));
        super::write(&printed, "")?;
        let out = std::fs::File::create(&printed).map_err(|e| format!("{}: {e}", printed.display()))?;
        let mut client = server.client();
        client.args(["--batch", "--skip-column-names", "--unbuffered"]);
        client.stdin(open(&script)?).stdout(out).stderr(Stdio::null());
        let client = client.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
        Ok(Counting { client, printed })
    }

    /// Returns the last number that was acknowledged.
    pub(super) fn acknowledged(&self) -> Result<Option<u64>, String> {
        let text = std::fs::read_to_string(&self.printed).map_err(|e| e.to_string())?;
        // The last line may be cut off.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().filter_map(|line| line.parse().ok()).next_back())
    }
}
