//! A replica of the server. After each case its tables have what the server's have.

use crate::compare::answer::{Answer, Row};
use crate::compare::client::Client;
use crate::compare::world::SIDES;
use std::io::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the replica may take for a case.
const PATIENCE: Duration = Duration::from_secs(60);
/// The column of SHOW SLAVE STATUS.
const LAST_SQL_ERROR: usize = 37;

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
    let mut differ = Vec::new();
    while let Some(error) = stops_before(&mut replica, &position)? {
        // The error has the statement's database.
        let (database, engine) = SIDES[0];
        if !error.contains(database) {
            return Err(Error::other(format!("the replica does not reach {position}: {error}")));
        }
        differ.push(Differs { engine, what: error });
        rows(&mut replica, "SET GLOBAL sql_slave_skip_counter = 1")?;
        rows(&mut replica, "START SLAVE")?;
    }
    for (database, engine) in SIDES {
        let contents = [contents(&mut server, database)?, contents(&mut replica, database)?];
        let [here, there] = contents;
        if here != there {
            differ.push(Differs { engine, what: format!("server:\n{here}replica:\n{there}") });
        }
    }
    Ok(differ)
}

/// Waits until the replica has applied what the server has logged up to a position. Returns its
/// error if it does not come so far.
fn stops_before(replica: &mut Client, position: &str) -> Result<Option<String>> {
    let began = Instant::now();
    let wait = format!("SELECT MASTER_GTID_WAIT('{position}', 0.5)");
    while text(&rows(replica, &wait)?, 0) != "0" {
        let status = rows(replica, "SHOW SLAVE STATUS")?;
        let error = text(&status, LAST_SQL_ERROR);
        if !error.is_empty() || began.elapsed() > PATIENCE {
            return Ok(Some(if error.is_empty() { "it is too slow".to_owned() } else { error }));
        }
    }
    Ok(None)
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
