//! The log of a database of Millpond, as `millpond::inspect` reads it. The database may be open in
//! another process.

use super::table::{Count, Reading, Row, Rows};
use millpond::inspect::{Redo, RedoOwner, redo};
use output::failure::Outcome;
use output::stop;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Reads the log of a database: from the checkpoint to its end, or what is new in `length`.
pub(super) fn read(dir: &Path, length: Option<Duration>) -> Outcome<Reading> {
    stop::install();
    let first = redo(dir, None)?;
    let mut reading = Reading {
        title: format!("{}: from the checkpoint to the end of the log", dir.display()),
        rows: Rows::default(),
        from_lsn: first.from_lsn,
        to_lsn: first.to_lsn,
        missed: 0,
        seconds: None,
        notes: Vec::new(),
    };
    match length.filter(|length| !length.is_zero()) {
        None => add(&first, &mut reading.rows),
        Some(length) => follow(dir, length, &mut reading)?,
    }
    Ok(reading)
}

/// Follows the log from the end of what was read.
fn follow(dir: &Path, length: Duration, reading: &mut Reading) -> Outcome {
    reading.from_lsn = reading.to_lsn;
    let began = Instant::now();
    while began.elapsed() < length && !stop::asked() {
        std::thread::sleep(LOOK.min(length.saturating_sub(began.elapsed())));
        let next = redo(dir, Some(reading.to_lsn))?;
        reading.missed += next.from_lsn.saturating_sub(reading.to_lsn);
        reading.to_lsn = next.to_lsn;
        add(&next, &mut reading.rows);
    }
    let seconds = began.elapsed().as_secs_f64();
    reading.seconds = Some(seconds);
    reading.title = format!("{}: followed for {seconds:.1} s", dir.display());
    if reading.missed > 0 {
        reading.notes.push(format!(
            "{} bytes were below a checkpoint, and their segments used again, before they could be read",
            reading.missed
        ));
    }
    Ok(())
}

fn add(redo: &Redo, rows: &mut Rows) {
    for row in &redo.rows {
        let (table, index) = names(&row.owner);
        let count = Count { records: row.records, bytes: row.bytes };
        rows.add(Row { table, index, record: row.record.to_owned() }, count);
    }
}

/// Returns table and index. The trees of the plugin for MariaDB are `shop/orders`, for the rows,
/// and `shop/orders/by_day`.
fn names(owner: &RedoOwner) -> (String, String) {
    let (table, index) = match owner {
        RedoOwner::Tree(_, Some(name)) => {
            let parts: Vec<&str> = name.split('/').collect();
            return match parts.as_slice() {
                [database, table, index] => (format!("{database}.{table}"), (*index).to_owned()),
                [database, table] => (format!("{database}.{table}"), "(rows)".to_owned()),
                _ => (name.clone(), "(rows)".to_owned()),
            };
        }
        RedoOwner::Tree(tree, None) => return (format!("(tree {tree})"), "(rows)".to_owned()),
        RedoOwner::Catalog => ("(catalog)", "(rows)"),
        RedoOwner::Space => ("(space map)", "(allocation of pages)"),
        RedoOwner::UnknownPages => ("(unknown)", "(unknown: pages not in the file)"),
        RedoOwner::Transactions => ("(transactions)", "(their states and undo)"),
        _ => ("(log)", "(groups, padding, checkpoints)"),
    };
    (table.to_owned(), index.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use output::failure::Failure;

    fn names_of(name: &str) -> (String, String) {
        names(&RedoOwner::Tree(7, Some(name.to_owned())))
    }

    #[test]
    fn names_of_the_plugin_are_divided() {
        assert_eq!(names_of("shop/orders"), ("shop.orders".into(), "(rows)".into()));
        assert_eq!(names_of("shop/orders/by_day"), ("shop.orders".into(), "by_day".into()));
        assert_eq!(names_of("accounts"), ("accounts".into(), "(rows)".into()));
        assert_eq!(names(&RedoOwner::Tree(7, None)).0, "(tree 7)");
    }

    #[test]
    fn the_log_of_an_open_database_is_counted_to_the_byte() {
        let scratch = Scratch::new("redo");
        let dir = scratch.0.join("db");
        let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap();
        let table = db.create_table("accounts").unwrap();
        let mut txn = db.begin().unwrap();
        for i in 0..500_u32 {
            txn.insert(&table, &i.to_be_bytes(), &[7; 200]).unwrap();
        }
        txn.commit().unwrap();
        let reading = read(&dir, None).map_err(|e: Failure| e.to_string()).unwrap();
        assert!(reading.exact(), "{}", reading.text(crate::redo::By::Record));
        let text = reading.text(crate::redo::By::Table);
        assert!(text.contains("the sum is the log"), "{text}");
        assert!(reading.rows.sum().bytes > 100_000, "{text}");
        db.close().unwrap();
    }
}
