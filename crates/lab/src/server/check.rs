//! What a run asks the server at its end: whether its tables are whole, and have the rows that they
//! must have.

use super::schema::Schema;
use super::worker::failed;
use client::{Access, Row, Worker};
use output::failure::{Failure, Outcome};
use output::stop;

/// Checks tables: each with the number of rows that it must have. Returns "ok", or what is wrong.
pub(crate) fn check(access: &Access, schema: &Schema, tables: &[(String, Option<u64>)]) -> Outcome<String> {
    let no = |trouble: client::Trouble| Failure::failed(trouble.to_string());
    let mut worker = access.work(None).map_err(no)?;
    for (table, expected) in tables {
        stop::check()?;
        let name = format!("`{}`.{table}", schema.name());
        let said = ask(&mut worker, &format!("CHECK TABLE {name}"))?;
        if let Some(wrong) = verdict(&said) {
            return Ok(format!("{table}: {wrong}"));
        }
        let Some(expected) = expected else { continue };
        let counted = ask(&mut worker, &format!("SELECT COUNT(*) FROM {name}"))?;
        let counted = counted.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
        if counted != expected.to_string() {
            return Ok(format!("{table} has {counted} rows, not {expected}"));
        }
    }
    Ok("ok".to_owned())
}

fn ask(worker: &mut Worker, statement: &str) -> Outcome<Vec<Row>> {
    worker.rows(statement).map_err(|trouble| failed(statement, &trouble))
}

/// Returns what CHECK TABLE finds wrong: its rows are table, operation, kind of message, message.
fn verdict(said: &[Row]) -> Option<String> {
    let cell = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let wrong: Vec<String> = said
        .iter()
        .filter(|row| ["error", "warning"].contains(&cell(row, 2).to_lowercase().as_str()))
        .map(|row| cell(row, 3))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, text: &str) -> Row {
        ["s.t", "check", kind, text].iter().map(|cell| Some((*cell).to_owned())).collect()
    }

    #[test]
    fn a_table_that_is_damaged_is_told_from_one_that_cannot_be_checked() {
        assert_eq!(verdict(&[row("status", "OK")]), None);
        let note = row("note", "The storage engine for the table doesn't support check");
        assert_eq!(verdict(&[note]), None);
        let damaged = [row("Warning", "index k has 7 entries"), row("error", "Corrupt")];
        assert_eq!(verdict(&damaged).as_deref(), Some("index k has 7 entries; Corrupt"));
    }
}
