//! A replica of the server. After each case its tables have what the server's have.

use crate::answer::{Answer, Row};
use crate::client::Client;
use crate::world::SIDES;
use std::io::{Error, Result};
use std::path::Path;

/// Why InnoDB's tables may differ on the replica.
pub(crate) const OF_STATEMENTS: &str = "On a replica InnoDB's table differs: with binlog_format=MIXED its changes are \
    logged as statements, which may do something else there; Millpond's are logged as rows";

/// How long the replica may take for a case, in seconds.
const PATIENCE: u32 = 60;

/// What of a side's tables is not the same.
pub(crate) struct Differs {
    pub(crate) engine: &'static str,
    pub(crate) what: String,
}

/// Waits until the replica has all that the server has, and compares the tables of both sides.
/// Nobody else uses the server.
pub(crate) fn compare(server: &Path, replica: &Path) -> Result<Vec<Differs>> {
    let (mut server, mut replica) = (Client::connect(server)?, Client::connect(replica)?);
    let position = text(&rows(&mut server, "SELECT @@gtid_binlog_pos")?, 0);
    let reached = rows(&mut replica, &format!("SELECT MASTER_GTID_WAIT('{position}', {PATIENCE})"))?;
    if text(&reached, 0) != "0" {
        let status = rows(&mut replica, "SHOW SLAVE STATUS")?;
        let status: Vec<String> = (0..status.first().map_or(0, Vec::len)).map(|n| text(&status, n)).collect();
        return Err(Error::other(format!("the replica does not reach {position}: {}", status.join(" | "))));
    }
    let mut differ = Vec::new();
    for (database, engine) in SIDES {
        let contents = [contents(&mut server, database)?, contents(&mut replica, database)?];
        let [here, there] = contents;
        if here != there {
            differ.push(Differs { engine, what: format!("server:\n{here}replica:\n{there}") });
        }
    }
    Ok(differ)
}

/// Returns the checksums of a database's tables and how many rows they have, each in a line.
fn contents(client: &mut Client, database: &str) -> Result<String> {
    let tables = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' \
         AND table_type = 'BASE TABLE' ORDER BY 1"
    );
    let mut lines = String::new();
    for table in rows(client, &tables)? {
        let name = format!("`{database}`.`{}`", text(&[table], 0));
        let sum = text(&rows(client, &format!("CHECKSUM TABLE {name} EXTENDED"))?, 1);
        let count = text(&rows(client, &format!("SELECT COUNT(*) FROM {name}"))?, 0);
        lines += &format!("{name}: checksum {sum}, rows {count}\n");
    }
    Ok(lines)
}

fn rows(client: &mut Client, statement: &str) -> Result<Vec<Row>> {
    match client.run(statement)? {
        Answer::Failed { code, text } => Err(Error::other(format!("{statement}: {code} {text}"))),
        answer => Ok(answer.rows().to_vec()),
    }
}

/// Returns a field of the first row.
fn text(rows: &[Row], field: usize) -> String {
    let value = rows.first().and_then(|row| row.get(field)?.as_ref());
    value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
}
