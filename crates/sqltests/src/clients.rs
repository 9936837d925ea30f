//! What the clients of a primary do: transactions of every kind, changes of tables between them.

use super::server::Server;
use super::write;
use clap::ValueEnum;
use std::path::Path;
use std::process::{Child, Stdio};

/// Who is killed. It decides what the load may have in it, because not all that the server does
/// survives a kill with any engine. A killed replica does not know whether it has applied a change
/// of tables or a decision of XA, and it has lost its temporary tables. A killed primary may have
/// logged what it has not prepared for XA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Killed {
    /// Nobody
    None,
    /// The primary
    Primary,
    /// The replica
    Replica,
    /// Both, in turn
    Both,
}

const CLIENTS: u32 = 8;
/// More than a client runs before it is ended.
const TRANSACTIONS: u32 = 20_000;
/// Every so many transactions of the first client it changes a table.
const DDL_EVERY: u32 = 25;
/// Rows that all clients change.
const HOT: u64 = 40;

/// The tables. Their engine is the server's default, but for one.
pub(super) const TABLES: &str = "CREATE DATABASE test; USE test; \
    CREATE TABLE accounts (id INT PRIMARY KEY, v BIGINT, note VARCHAR(100), KEY (v)); \
    INSERT INTO accounts SELECT seq, 100, REPEAT('n', seq) FROM seq_0_to_39; \
    CREATE TABLE history (n BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, t TEXT, b LONGBLOB, KEY (client)); \
    CREATE TABLE bare (a INT, b VARCHAR(30)); \
    CREATE TABLE coded (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE, v INT); \
    CREATE TABLE inno (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB; \
    INSERT INTO inno SELECT seq, 100 FROM seq_0_to_39; \
    CREATE TABLE changed (id INT PRIMARY KEY, v INT); \
    CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3; \
    CREATE SEQUENCE s CACHE 5";

/// Starts the clients.
pub(super) fn start(server: &Server, dir: &Path, turn: u32, killed: Killed) -> Result<Vec<Child>, String> {
    let mut clients = Vec::new();
    for client in 1..=CLIENTS {
        let script = dir.join(format!("client{client}.sql"));
        write(&script, &script_of(turn, client, killed))?;
        let input = std::fs::File::open(&script).map_err(|e| format!("{}: {e}", script.display()))?;
        let mut process = server.client();
        // A deadlock, or a duplicate, ends a transaction and not the client.
        process.args(["--batch", "--force", "--skip-reconnect", "test"]);
        process.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        clients.push(process.spawn().map_err(|e| format!("cannot start a client: {e}"))?);
    }
    Ok(clients)
}

/// Ends the clients.
pub(super) fn end(clients: Vec<Child>) {
    for mut client in clients {
        let _ = client.kill();
        let _ = client.wait();
    }
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn script_of(turn: u32, client: u32, killed: Killed) -> String {
    let changes_tables = client == 1 && matches!(killed, Killed::None | Killed::Primary);
    let mut numbers = Numbers(u64::from(turn) << 32 | u64::from(client));
    let mut script = String::new();
    for n in 1..=TRANSACTIONS {
        let one = if changes_tables && n % DDL_EVERY == 0 {
            change_of_tables(n / DDL_EVERY, &mut numbers)
        } else {
            transaction(&format!("{turn}.{client}.{n}"), client, killed, &mut numbers)
        };
        script += &one;
        script += ";\n";
    }
    script
}

/// A transaction. `name` is its own.
fn transaction(name: &str, client: u32, killed: Killed, numbers: &mut Numbers) -> String {
    let [one, two, three] = [0; 3].map(|_| numbers.below(HOT));
    let size = numbers.below(20_000);
    let transfer = format!(
        "UPDATE accounts SET v = v - 1 WHERE id = {one}; UPDATE accounts SET v = v + 1 WHERE id = {two}"
    );
    let insert = format!(
        "INSERT INTO history (client, t, b) VALUES ({client}, '{name}', REPEAT('{name}', {size} / 8))"
    );
    let kinds = match killed {
        Killed::None => 14,
        Killed::Primary => 13,
        Killed::Replica | Killed::Both => 12,
    };
    match numbers.below(kinds) {
        0..=2 => format!("BEGIN; {transfer}; COMMIT"),
        3 => format!("BEGIN; {insert}; {transfer}; COMMIT"),
        4 => insert,
        5 => format!(
            "UPDATE history SET t = CONCAT(t, 'x'), b = REPEAT('{name}', 1 + {size} / 16) \
             WHERE client = {client} ORDER BY n DESC LIMIT 2"
        ),
        6 => format!(
            "BEGIN; INSERT INTO bare VALUES ({one}, '{name}'), ({two}, '{name}'); \
             UPDATE bare SET b = CONCAT('u', LEFT(b, 20)) WHERE a = {three}; \
             DELETE FROM bare WHERE a = {two}; COMMIT"
        ),
        7 => format!("BEGIN; {transfer}; UPDATE inno SET v = v + 1 WHERE id = {three}; COMMIT"),
        8 => format!(
            "BEGIN; {insert}; SAVEPOINT p; {transfer}; ROLLBACK TO p; \
             UPDATE accounts SET note = '{name}' WHERE id = {three}; COMMIT"
        ),
        9 => format!(
            "BEGIN; INSERT INTO history (client, t) VALUES ({client}, NEXT VALUE FOR s); \
             INSERT INTO parts VALUES ({one}, 1), ({two} + 100, 2) ON DUPLICATE KEY UPDATE v = v + 1; COMMIT"
        ),
        10 => format!("REPLACE INTO coded VALUES ({one}, 'code {two}', {size}), ({two}, 'code {three}', 1)"),
        11 => format!(
            "BEGIN; DELETE FROM coded WHERE id IN ({one}, {two}); \
             INSERT IGNORE INTO coded VALUES ({two}, 'code {one}', 2); \
             DELETE FROM history WHERE client = {client} AND n < {size} ORDER BY n LIMIT 3; COMMIT"
        ),
        12 => format!(
            "CREATE TEMPORARY TABLE t{client} (v BIGINT); INSERT INTO t{client} SELECT v FROM accounts; \
             INSERT INTO history (client, t) SELECT {client}, COUNT(*) FROM t{client}; \
             DROP TEMPORARY TABLE t{client}"
        ),
        _ => format!(
            "XA START '{name}'; {transfer}; XA END '{name}'; XA PREPARE '{name}'; XA {} '{name}'",
            if one % 3 == 0 { "ROLLBACK" } else { "COMMIT" }
        ),
    }
}

/// The `n`-th statement of those that change tables.
fn change_of_tables(n: u32, numbers: &mut Numbers) -> String {
    let value = numbers.below(1000);
    match n % 12 {
        0 => format!("ALTER TABLE changed ADD COLUMN c INT DEFAULT {value}"),
        1 => format!("INSERT INTO changed (id, v) VALUES ({value}, 1), ({value} + 1000, 1)"),
        2 => "ALTER TABLE changed ADD INDEX i (c)".into(),
        3 => "ALTER TABLE changed DROP INDEX i, DROP COLUMN c, ALGORITHM=COPY".into(),
        4 => {
            "RENAME TABLE changed TO changed2, bare TO bare2; RENAME TABLE bare2 TO bare, changed2 TO changed"
                .into()
        }
        5 => {
            format!("CREATE OR REPLACE TABLE copied (PRIMARY KEY (id)) SELECT *, {value} AS x FROM accounts")
        }
        6 => "TRUNCATE TABLE bare".into(),
        7 => "DROP TABLE IF EXISTS copied, gone".into(),
        8 => "ALTER TABLE parts ADD PARTITION PARTITIONS 1".into(),
        9 => "ALTER TABLE parts COALESCE PARTITION 1".into(),
        10 => "CREATE TABLE IF NOT EXISTS gone LIKE coded; \
               CREATE OR REPLACE TRIGGER g AFTER INSERT ON gone FOR EACH ROW \
               UPDATE accounts SET note = 'g' WHERE id = 1; INSERT INTO gone SELECT * FROM coded"
            .into(),
        _ => "ALTER TABLE coded FORCE".into(),
    }
}
