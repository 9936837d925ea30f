//! Without the binary log the server writes into a file of its own (`tc.log`) which transactions of
//! several engines are decided. The engines need not have their commits on disk by then, so a kill
//! leaves decided transactions that are only prepared: in one engine, or in both.

use super::repeated::kill;
use super::server;
use super::{make_dir, sql};
use std::path::Path;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(600);
/// Transactions of each life. The server forgets decisions 512 at a time.
const LIVES: [u32; 4] = [1, 30, 511, 514];

/// The test.
pub(super) fn both(dir: &Path) -> Result<(), String> {
    make_dir(dir)?;
    let mut rows = 0;
    for (life, transactions) in LIVES.into_iter().enumerate() {
        // InnoDB does not write what no other commit makes it write. The name of what is prepared
        // has the server's number.
        let options = [format!("--server-id={}", life + 7), "--innodb-flush-log-at-timeout=2700".into()];
        let options = options.each_ref().map(String::as_str);
        let server = server::start(dir, LIFE, &options)?;
        if life == 0 {
            sql(
                &server,
                "CREATE DATABASE test; CREATE TABLE test.m (id INT PRIMARY KEY) ENGINE=Millpond; \
                 CREATE TABLE test.i (id INT PRIMARY KEY) ENGINE=InnoDB",
            )?;
        }
        let found = found(&server)?;
        if found != [rows; 2] {
            return Err(format!("{rows} transactions have committed, {found:?} are in Millpond and InnoDB"));
        }
        let transaction = |n: u32| {
            format!("BEGIN; INSERT INTO test.m VALUES ({n}); INSERT INTO test.i VALUES ({n}); COMMIT;")
        };
        sql(&server, &(rows + 1..=rows + transactions).map(transaction).collect::<String>())?;
        rows += transactions;
        kill(&server)?;
    }
    // Nothing of it is left for the server to look at.
    let server = server::start(dir, LIFE, &[])?;
    let found = found(&server)?;
    server::stop(dir)?;
    if found == [rows; 2] { Ok(()) } else { Err(format!("of {rows} rows {found:?} are there")) }
}

/// Returns how many rows are in Millpond and in InnoDB.
fn found(server: &server::Server) -> Result<[u32; 2], String> {
    let count = |table: &str| {
        let rows = sql(server, &format!("SELECT COUNT(*) FROM test.{table}"))?;
        rows.parse().map_err(|_| format!("{rows} is no number of rows"))
    };
    Ok([count("m")?, count("i")?])
}
