//! Replicas that wait, that have several primaries, and that leave tables out.

use super::super::sql;
use super::super::steps::expect;
use super::group::{Group, Setting};
use std::time::{Duration, Instant};

/// How far a delayed replica is behind.
const DELAY: Duration = Duration::from_secs(3);
/// The primary does not log this database.
pub(super) const NOT_LOGGED: &str = "--binlog-ignore-db=private";
/// Transactions of each of several primaries.
const TRANSACTIONS: u32 = 400;

/// A replica with MASTER_DELAY: tables that were just made, changed and dropped.
pub(super) fn delayed(group: &Group) -> Result<(), String> {
    let delay = |seconds: u64| format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE");
    group.catch_up(1, 0)?;
    group.sql(1, &delay(DELAY.as_secs()))?;
    let began = Instant::now();
    group.sql(
        0,
        "CREATE DATABASE test; USE test; CREATE TABLE made (id INT PRIMARY KEY, v TEXT); \
         INSERT INTO made SELECT seq, REPEAT('v', seq) FROM seq_1_to_300; \
         CREATE TABLE gone LIKE made; INSERT INTO gone SELECT * FROM made; \
         BEGIN; DELETE FROM made WHERE id % 3 = 0; UPDATE made SET v = CONCAT(v, 'w'); COMMIT; \
         ALTER TABLE made ADD COLUMN w INT DEFAULT 7; RENAME TABLE gone TO went; DROP TABLE went; \
         CREATE TABLE copied AS SELECT * FROM made; TRUNCATE TABLE made; INSERT INTO made VALUES (1, 'x', 2)",
    )?;
    group.catch_up(1, 0)?;
    // The binary log has whole seconds.
    if began.elapsed() + Duration::from_secs(1) < DELAY {
        return Err(format!("the replica has all after {:?}", began.elapsed()));
    }
    group.equal(0, 1)?;
    group.sql(1, &delay(0))?;
    group.sql(0, "DROP DATABASE test").map(drop)
}

/// A replica that takes some tables, of a primary that logs some databases.
pub(super) fn filtered(group: &Group) -> Result<(), String> {
    let tables = ["kept.k1", "kept.k2", "kept.other", "left_out.k1", "private.k1"];
    for database in ["kept", "left_out", "private"] {
        group.sql(0, &format!("CREATE DATABASE {database}"))?;
    }
    group.catch_up(1, 0)?;
    let filters = |database: &str, ignored: &str, wild: &str| {
        format!(
            "STOP SLAVE; SET GLOBAL replicate_do_db = '{database}'; \
             SET GLOBAL replicate_ignore_table = '{ignored}'; \
             SET GLOBAL replicate_wild_do_table = '{wild}'; START SLAVE"
        )
    };
    group.sql(1, &filters("kept", "kept.k2", "kept.k%"))?;
    for table in tables {
        let (database, name) = table.split_once('.').unwrap_or_default();
        group.sql(
            0,
            &format!(
                "USE {database}; CREATE TABLE {name} (id INT PRIMARY KEY, v BLOB, KEY (v(10))); \
                 INSERT INTO {name} SELECT seq, REPEAT('v', seq) FROM seq_1_to_50"
            ),
        )?;
    }
    // One transaction changes all of them, whatever the default database is.
    for database in ["kept", "left_out", "private"] {
        let changes = tables.map(|table| {
            format!(
                "INSERT INTO {table} SELECT MAX(id) + 1, '{database}' FROM {table}; \
                 UPDATE {table} SET v = CONCAT(v, 'u') WHERE id % 5 = 1; DELETE FROM {table} WHERE id = 10"
            )
        });
        group.sql(0, &format!("USE {database}; BEGIN; {}; COMMIT", changes.join("; ")))?;
    }
    let alter = "USE kept; ALTER TABLE k1 ADD COLUMN w INT; ALTER TABLE k2 DROP COLUMN v; \
                 TRUNCATE TABLE other; UPDATE k1 SET w = id; UPDATE k2 SET id = id + 1000";
    group.sql(0, alter)?;
    group.catch_up(1, 0)?;
    let names = "SELECT GROUP_CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
                 WHERE table_name RLIKE '^(k1|k2|other)$'";
    expect("the tables", &format!("<{}>", group.sql(1, names)?), "<kept.k1>")?;
    let rows = |n| group.sql(n, "CHECKSUM TABLE kept.k1 EXTENDED; SELECT COUNT(*) FROM kept.k1");
    let (primary, replica) = (rows(0)?, rows(1)?);
    // With another default database the server logs no change of kept.k1 if that one is private.
    let logged = group.sql(0, "SELECT COUNT(*) FROM kept.k1 WHERE v = 'private'")?;
    expect("the rows", &format!("{replica} {logged}"), &format!("{primary} 1"))?;
    group.sql(1, &filters("", "", ""))?;
    for database in ["kept", "left_out", "private"] {
        group.sql(0, &format!("DROP DATABASE {database}"))?;
        group.sql(1, &format!("SET sql_log_bin = 0; DROP DATABASE IF EXISTS {database}"))?;
    }
    group.catch_up(1, 0)
}

/// A replica of two primaries, which is killed while both go on.
pub(super) fn multi_source(setting: &Setting) -> Result<(), String> {
    let mut group = Group::start(setting, &[&["--gtid-domain-id=1"], &["--gtid-domain-id=2"], &[]])?;
    let databases = ["one", "two"];
    for (n, name) in databases.iter().enumerate() {
        let connect = format!("CHANGE MASTER '{name}' TO {}", group.address(n));
        group.sql(2, &connect)?;
    }
    group.sql(2, "START ALL SLAVES")?;
    let servers = [group.server(0)?.clone(), group.server(1)?.clone()];
    let load = std::thread::spawn(move || -> Result<(), String> {
        std::thread::scope(|scope| {
            let both = [0, 1].map(|n| {
                scope.spawn({
                    let server = &servers[n];
                    move || sql(server, &transactions(databases[n]))
                })
            });
            both.into_iter()
                .try_for_each(|one| one.join().map_err(|_| "a client has panicked".to_owned())?.map(drop))
        })
    });
    std::thread::sleep(Duration::from_millis(700));
    group.kill(2)?;
    group.start_one(2)?;
    load.join().map_err(|_| "the load has panicked".to_owned())??;
    for (n, name) in databases.iter().enumerate() {
        group.catch_up(2, n)?;
        group.equal_in(name, n, 2)?;
    }
    let sources = group.sql(2, "SELECT @@gtid_slave_pos")?;
    expect("the position", &sources, "1-1-")?;
    expect("the position", &sources, ",2-2-")
}

/// Returns statements of a primary: its tables, many transactions, and changes of tables.
fn transactions(database: &str) -> String {
    let mut all = format!(
        "CREATE DATABASE {database}; USE {database}; \
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100), KEY (v)); \
         CREATE TABLE sums (id INT PRIMARY KEY, n INT); INSERT INTO sums VALUES (1, 0); \
         CREATE TABLE i (id INT PRIMARY KEY, v INT) ENGINE=InnoDB;"
    );
    for n in 1..=TRANSACTIONS {
        all += &format!(
            "BEGIN; INSERT INTO t (v) VALUES (REPEAT('{n}', 20)); UPDATE sums SET n = n + 1; \
             DELETE FROM t WHERE id = {n} / 2; REPLACE INTO i VALUES ({n} % 7, {n}); COMMIT;"
        );
    }
    all + "ALTER TABLE t ADD COLUMN w INT DEFAULT 5; INSERT INTO t (v) VALUES ('last');"
}
