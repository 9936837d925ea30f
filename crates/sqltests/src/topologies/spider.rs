//! Spider: a table whose rows are on two other servers, in tables of Millpond. A transaction over
//! both is one of XA on each of them.

use super::super::packages::unpack;
use super::super::steps::refused;
use super::super::steps::{expect, try_until};
use super::super::{make_dir, sql};
use super::group::{Group, Setting};

const PLUGIN: &str = "ha_spider.so";
const LOAD: &str = "--plugin-load-add=ha_spider.so";
/// The server with Spider, and the two that have the rows.
const FRONT: usize = 0;
const BACKS: [usize; 2] = [1, 2];
/// Spider tells the parts of a transaction by the address alone, without the port.
const OTHER: &str = "127.0.0.2";
const TABLE: &str = "(id INT PRIMARY KEY, v BIGINT, t TEXT, KEY (v)) CHARACTER SET utf8mb4";

/// The check.
pub(super) fn over_two_servers(setting: &Setting) -> Result<(), String> {
    let from = unpack("mariadb-plugin-spider", "usr/lib/mysql/plugin")?.join(PLUGIN);
    let plugins = setting.dir.join(FRONT.to_string()).join("plugin");
    make_dir(&plugins)?;
    std::fs::copy(&from, plugins.join(PLUGIN)).map_err(|e| format!("{}: {e}", from.display()))?;
    let mut group = Group::start(setting, &[&[LOAD], &[], &[&format!("--bind-address={OTHER}")]])?;
    make_tables(&group)?;
    group.sql(
        FRONT,
        "USE test; INSERT INTO t SELECT seq, seq * 3, REPEAT('ß', seq) FROM seq_1_to_200; \
         UPDATE t SET v = v + 1 WHERE id % 2; DELETE FROM t WHERE id % 10 = 0; \
         REPLACE INTO t VALUES (1, 0, 'replaced'), (199, 0, 'replaced')",
    )?;
    rows_are_split(&group, 180)?;
    expect("by the index", &group.sql(FRONT, "SELECT id FROM test.t WHERE v = 6 + 1 - 1")?, "2")?;
    transactions(&group)?;
    one_is_killed(&mut group)?;
    decided_by_name(&mut group)
}

/// Makes the table on both servers, and the one of Spider over them.
fn make_tables(group: &Group) -> Result<(), String> {
    let mut parts = Vec::new();
    for (n, (host, limit)) in BACKS.into_iter().zip([("127.0.0.1", "100"), (OTHER, "MAXVALUE")]) {
        group.sql(n, &format!("CREATE DATABASE test; CREATE TABLE test.t {TABLE}"))?;
        let server = format!(
            "CREATE SERVER back{n} FOREIGN DATA WRAPPER mysql OPTIONS (HOST '{host}', \
             DATABASE 'test', USER 'replica', PORT {})",
            group.port(n)
        );
        group.sql(FRONT, &server)?;
        parts.push(format!("PARTITION p{n} VALUES LESS THAN ({limit}) COMMENT = 'server \"back{n}\"'"));
    }
    let table = format!(
        "CREATE DATABASE test; CREATE TABLE test.t {TABLE} ENGINE=Spider COMMENT='table \"t\"' \
         PARTITION BY RANGE COLUMNS (id) ({})",
        parts.join(", ")
    );
    group.sql(FRONT, &table)?;
    // Whatever a transaction changes, it is prepared on both before it is committed on one.
    group.sql(FRONT, "SET GLOBAL spider_internal_xa = ON").map(drop)
}

/// Checks that each server has its part of the rows, and the front all of them.
fn rows_are_split(group: &Group, count: u32) -> Result<(), String> {
    const SUM: &str = "SELECT COUNT(*), SUM(v), SUM(CRC32(CONCAT(id, ':', v, ':', t))) FROM test.t";
    let numbers = |n: usize| -> Result<Vec<u64>, String> {
        let said = group.sql(n, SUM)?;
        said.split('\t').map(|n| n.parse().map_err(|_| format!("what is {said}"))).collect()
    };
    let (front, [one, two]) = (numbers(FRONT)?, BACKS.map(numbers));
    let (one, two) = (one?, two?);
    let both: Vec<u64> = one.iter().zip(&two).map(|(one, two)| one + two).collect();
    if front != both || front[0] != u64::from(count) || one[0] == 0 || two[0] == 0 {
        return Err(format!("the front has {front:?}, the others {one:?} and {two:?}, wanted {count} rows"));
    }
    for n in BACKS {
        expect("CHECK TABLE", &group.sql(n, "CHECK TABLE test.t")?, "status\tOK")?;
        expect("what is prepared", &format!("<{}>", group.sql(n, "XA RECOVER")?), "<>")?;
        let engine = "SELECT engine FROM information_schema.tables WHERE table_name = 't'";
        expect("the engine", &group.sql(n, engine)?, &group.sql(n, "SELECT @@default_storage_engine")?)?;
    }
    Ok(())
}

/// Transactions over both that commit, and that roll back.
fn transactions(group: &Group) -> Result<(), String> {
    let prepared = |n| group.sql(n, "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'");
    let before = BACKS.map(prepared);
    group.sql(
        FRONT,
        "USE test; BEGIN; INSERT INTO t VALUES (-1, 1, 'both'), (1000, 1, 'both'); \
         UPDATE t SET v = v - 5 WHERE id = 1; UPDATE t SET v = v + 5 WHERE id = 199; COMMIT; \
         BEGIN; DELETE FROM t WHERE id < 190; UPDATE t SET t = 'gone'; ROLLBACK",
    )?;
    for (before, n) in before.into_iter().zip(BACKS) {
        if before? == prepared(n)? {
            return Err(format!("server {n} has prepared nothing"));
        }
    }
    rows_are_split(group, 182)
}

/// One of the two is killed in the middle of a transaction over both: nothing of it stays.
fn one_is_killed(group: &mut Group) -> Result<(), String> {
    let text = "USE test; BEGIN; INSERT INTO t VALUES (-2, 1, 'lost'), (1001, 1, 'lost'); \
                SELECT SLEEP(4); COMMIT";
    let front = group.server(FRONT)?.clone();
    let client = std::thread::spawn(move || sql(&front, text));
    let sleeps = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    group.until(FRONT, sleeps, "1")?;
    group.kill(BACKS[1])?;
    group.start_one(BACKS[1])?;
    if let Ok(said) = client.join().map_err(|_| "a client has panicked".to_owned())? {
        return Err(format!("a transaction commits although a server has lost it: {said}"));
    }
    let rows = || sql(group.server(FRONT)?, "SELECT COUNT(*) FROM test.t");
    // Spider connects again at the next use.
    try_until("the front after the kill", || Ok(rows().is_ok_and(|count| count == "182")))?;
    rows_are_split(group, 182)
}

/// One is killed with a prepared transaction. Its decision comes by its name.
fn decided_by_name(group: &mut Group) -> Result<(), String> {
    let prepare =
        "XA START 'x'; INSERT INTO t VALUES (-3, 1, 'x'), (1002, 1, 'x'); XA END 'x'; XA PREPARE 'x'";
    group.sql(FRONT, &format!("USE test; {prepare}"))?;
    for n in BACKS {
        if group.sql(n, "XA RECOVER")?.is_empty() {
            return Err(format!("server {n} has prepared nothing"));
        }
    }
    group.kill(BACKS[0])?;
    group.start_one(BACKS[0])?;
    expect(
        "a locked row",
        &refused(
            group.server(BACKS[0])?,
            "SET innodb_lock_wait_timeout = 1; INSERT INTO test.t VALUES (-3, 2, 'other')",
        )?,
        "Lock wait timeout",
    )?;
    for n in BACKS {
        let known = group.sql(n, "XA RECOVER FORMAT='SQL'")?;
        let name = known.split('\t').next_back().unwrap_or_default();
        group.sql(n, &format!("XA COMMIT {name}"))?;
    }
    rows_are_split(group, 184)
}
