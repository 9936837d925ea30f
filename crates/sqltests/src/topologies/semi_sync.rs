//! Semi-synchronous replication: a commit is acknowledged when a replica has it. The primary is
//! killed under load, the replica takes its place, and the old primary becomes a replica.
//!
//! With AFTER_SYNC the primary waits for the replica between the binary log and the commit in the
//! engines, with AFTER_COMMIT behind both. So an old primary may have transactions that no replica
//! has received. A server that starts with `init_rpl_role=SLAVE` cuts those off its binary log that
//! are only prepared in the engines, and rolls them back there.

use super::super::binlog_kills::{self as load, Row};
use super::super::steps::expect;
use super::group::{Group, Setting};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The time under load before a kill.
const LOAD: Duration = Duration::from_secs(2);
/// Both servers can be the replica, and are that when they start again.
const BOTH: [&str; 3] = [
    "--rpl-semi-sync-slave-enabled=1",
    // Without it the server keeps what its binary log has.
    "--init-rpl-role=SLAVE",
    // A primary without a replica waits, and does not go on without one.
    "--rpl-semi-sync-master-timeout=600000",
];
/// The one that is the primary waits. A replica that has it on would wait for a replica of its own.
const WAITING: &str = "SET GLOBAL rpl_semi_sync_master_enabled = 1";
const WAITED: &str = "SELECT variable_value > 0 FROM information_schema.global_status \
                     WHERE variable_name = 'Rpl_semi_sync_master_wait_sessions'";
const REPLICAS: &str = "SELECT variable_value FROM information_schema.global_status \
                        WHERE variable_name = 'Rpl_semi_sync_master_clients'";

/// The check for `AFTER_SYNC`.
pub(super) fn after_sync(setting: &Setting) -> Result<(), String> {
    let mut group = start(setting, "AFTER_SYNC")?;
    killed_under_load(&mut group, &setting.dir)?;
    // The servers have changed places.
    only_prepared(&mut group)
}

/// The check for `AFTER_COMMIT`.
pub(super) fn after_commit(setting: &Setting) -> Result<(), String> {
    let mut group = start(setting, "AFTER_COMMIT")?;
    killed_under_load(&mut group, &setting.dir)?;
    committed_alone(&mut group)
}

/// Starts a primary, 0, and a replica, 1.
fn start(setting: &Setting, point: &str) -> Result<Group, String> {
    let point = format!("--rpl-semi-sync-master-wait-point={point}");
    let options: Vec<&str> = BOTH.into_iter().chain([point.as_str()]).collect();
    let group = Group::start(setting, &[&options, &options])?;
    group.sql(0, WAITING)?;
    group.follow(1, 0, "")?;
    group.until(0, REPLICAS, "1")?;
    group.sql(0, load::TABLES)?;
    Ok(group)
}

/// Kills the primary, 0, under load. Then 1 is the primary and 0 its replica.
fn killed_under_load(group: &mut Group, dir: &Path) -> Result<(), String> {
    let clients = load::start_clients(group.server(0)?, dir, 1)?;
    std::thread::sleep(LOAD);
    group.kill(0)?;
    let acknowledged = load::acknowledged(clients, 1)?;
    if acknowledged.is_empty() {
        return Err("nothing was acknowledged".into());
    }
    promote(group, 1)?;
    has_all(group, 1, &acknowledged, 1)?;
    group.start_one(0)?;
    let lacking = beyond(group, 0, 1)?;
    if lacking > 0 {
        // Only AFTER_COMMIT allows it: what was committed in the engines cannot be rolled back.
        let point = group.sql(1, "SELECT @@rpl_semi_sync_master_wait_point")?;
        if point != "AFTER_COMMIT" {
            return Err(format!("the old primary has {lacking} transactions that the new one has not"));
        }
        println!("        {lacking} transactions were committed on the old primary alone");
        rebuild(group, 0)?;
    }
    demote(group, 0, 1)?;
    let clients = load::start_clients(group.server(1)?, dir, 2)?;
    std::thread::sleep(LOAD / 4);
    clients.into_iter().for_each(load::Client::end);
    agree(group, 0, 1)
}

/// The primary, 1, is killed while transactions wait for the replica, 0, and before any has come
/// there. Then 0 is the primary. The server rolls them back when it starts again.
fn only_prepared(group: &mut Group) -> Result<(), String> {
    let mut clients = commits_that_wait(group, 1, 0)?;
    let seen = "SELECT COUNT(*) FROM test.logged WHERE turn = 3";
    expect("rows that wait", &group.sql(1, seen)?, "0")?;
    group.kill(1)?;
    clients.iter_mut().for_each(end);
    promote(group, 0)?;
    group.start_one(1)?;
    expect("what is prepared", &format!("<{}>", group.sql(1, "XA RECOVER")?), "<>")?;
    expect("rows that have waited", &group.sql(1, seen)?, "0")?;
    let log = std::fs::read_to_string(group.server(1)?.log()).map_err(|e| e.to_string())?;
    expect("the server's log", &log, "Successfully truncated")?;
    expect("transactions that it alone has", &beyond(group, 1, 0)?.to_string(), "0")?;
    demote(group, 1, 0)?;
    group.sql(0, "INSERT INTO test.logged VALUES (4, 1, 1)")?;
    group.catch_up(1, 0)?;
    group.equal(0, 1)
}

/// The primary, 1, is killed while transactions wait for the replica, 0, which are committed in the
/// engines: others see them, and they stay. The server cannot follow the new primary.
fn committed_alone(group: &mut Group) -> Result<(), String> {
    let mut clients = commits_that_wait(group, 1, 0)?;
    let seen = "SELECT COUNT(*) > 0 FROM test.logged WHERE turn = 3";
    expect("rows that wait", &group.sql(1, seen)?, "1")?;
    // The log is synced up to the commits.
    group.sql(1, "SET GLOBAL millpond_flush_log_at_trx_commit = 3; FLUSH BINARY LOGS")?;
    group.kill(1)?;
    clients.iter_mut().for_each(end);
    promote(group, 0)?;
    group.sql(0, "INSERT INTO test.logged VALUES (4, 1, 1)")?;
    group.start_one(1)?;
    expect("rows that have waited", &group.sql(1, seen)?, "1")?;
    group.sql(1, &format!("CHANGE MASTER TO {}, MASTER_DEMOTE_TO_SLAVE=1; START SLAVE", group.address(0)))?;
    let errors = || group.status(1, "Last_IO_Error");
    super::super::steps::try_until("an error of the replica", || Ok(!errors()?.trim().is_empty()))?;
    expect("the replica's error", &errors()?, "which is not in the master's binlog")
}

/// Stops the receiver of the replica, and begins transactions of both engines that wait for it.
fn commits_that_wait(group: &Group, primary: usize, replica: usize) -> Result<Vec<Child>, String> {
    const COUNT: u32 = 5;
    group.until(primary, REPLICAS, "1")?;
    group.sql(replica, "STOP SLAVE IO_THREAD")?;
    let mut clients = Vec::new();
    for n in 1..=COUNT {
        let row = format!("(3, 1, {n})");
        let also = if n % 2 == 0 { format!("INSERT INTO inno VALUES {row};") } else { String::new() };
        let text = format!("BEGIN; INSERT INTO logged VALUES {row}; {also} COMMIT");
        let mut client = group.server(primary)?.client();
        client.args(["test", "--execute", &text]).stdin(Stdio::null()).stdout(Stdio::null());
        client.stderr(Stdio::null());
        clients.push(client.spawn().map_err(|e| format!("cannot start a client: {e}"))?);
        // The first is in the binary log alone. With AFTER_SYNC the server counts no other one: at
        // most one further group of transactions is in the binary log, and waits for its turn.
        group.until(primary, WAITED, "1")?;
    }
    std::thread::sleep(LOAD / 4);
    Ok(clients)
}

fn end(client: &mut Child) {
    let _ = client.wait();
}

/// Makes a replica whose primary is dead the primary.
fn promote(group: &Group, replica: usize) -> Result<(), String> {
    group.apply_what_is_there(replica)?;
    group.sql(replica, "STOP SLAVE; RESET SLAVE ALL").map(drop)
}

/// Makes an old primary the replica of the new one.
fn demote(group: &Group, old: usize, new: usize) -> Result<(), String> {
    group.sql(new, WAITING)?;
    group.follow(old, new, ", MASTER_DEMOTE_TO_SLAVE=1")?;
    group.until(new, REPLICAS, "1")
}

/// Makes a server anew that has what the others do not have. Its tables come with the binary log.
fn rebuild(group: &Group, n: usize) -> Result<(), String> {
    group.sql(n, "SET sql_log_bin = 0; DROP DATABASE test")?;
    group.sql(n, "RESET MASTER; SET GLOBAL gtid_slave_pos = ''").map(drop)
}

/// Returns how many transactions one has in its binary log beyond those of another.
fn beyond(group: &Group, one: usize, other: usize) -> Result<u64, String> {
    let last = |n| -> Result<u64, String> {
        let position = group.sql(n, "SELECT @@gtid_binlog_pos")?;
        let number = position.rsplit('-').next().and_then(|n| n.parse().ok());
        number.ok_or_else(|| format!("what is {position}"))
    };
    Ok(last(one)?.saturating_sub(last(other)?))
}

/// Checks that a server has what clients were told to be committed.
fn has_all(group: &Group, n: usize, acknowledged: &BTreeSet<Row>, turn: u32) -> Result<(), String> {
    let rows = load::in_table(group.server(n)?, "logged", turn, "1")?;
    match acknowledged.difference(&rows).next() {
        None => Ok(()),
        Some(first) => Err(format!(
            "{} of {} acknowledged rows are not on the replica, such as {first:?}",
            acknowledged.difference(&rows).count(),
            acknowledged.len()
        )),
    }
}

/// Checks that a replica gets all of its primary's transactions as a whole.
fn agree(group: &Group, replica: usize, primary: usize) -> Result<(), String> {
    group.catch_up(replica, primary)?;
    group.equal(primary, replica)?;
    load::agree(group.server(replica)?, group.place(replica))
}
