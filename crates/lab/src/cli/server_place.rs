//! Where a run on a server works: the server, the engine and the schema.

use super::run::Run;
use crate::server::{Contents, Schema, ServerLoad, build, load_name};
use crate::workload::Shape;
use client::{Access, Row, Trouble};
use output::failure::{Failure, Outcome};

/// Connections that a run needs beside those of its threads.
const OTHER_CONNECTIONS: u64 = 3;

/// Where a run works.
pub(super) struct Place {
    pub(super) access: Access,
    /// The engine's name, as the server writes it.
    pub(super) engine: String,
    pub(super) schema: Schema,
    pub(super) contents: Contents,
}

impl Place {
    /// Takes the schema `name` of a server, for tables of an engine that [`find_engine`] has found.
    pub(super) fn take(run: &Run, access: &Access, engine: String, name: &str) -> Outcome<Place> {
        let (schema, contents) = Schema::take(access, name, &load_on(&engine, run), run.keep)?;
        Ok(Place { access: access.clone(), engine, schema, contents })
    }
}

/// Returns what a run loads on an engine.
pub(super) fn load_on(engine: &str, run: &Run) -> ServerLoad {
    let Shape { tables, rows, .. } = run.shape();
    let (load, contents) = (load_name(run.workload), run.contents());
    ServerLoad { load, tables, rows, contents, engine: engine.to_lowercase() }
}

/// Asks the server which engines it has, and whether it has room for as many threads as the run
/// has.
pub(super) fn find_engine(access: &Access, run: &Run, wanted: Option<&str>) -> Outcome<String> {
    let mut connection = access.connect()?;
    let mut ask = |statement: &str| -> Outcome<Vec<Row>> {
        let no = |trouble: Trouble| Failure::failed(format!("{statement} fails: {trouble}"));
        connection.rows(statement).map_err(no)
    };
    let limits = ask("SELECT @@max_connections, @@max_prepared_stmt_count")?;
    let used = ask("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")?;
    let threads = u64::from(run.clients.most_threads());
    let statements = build(run.workload, run.params(), None, None).statements_a_session();
    has_room("connections (max_connections)", number(&limits, 0), 0, (threads, threads + OTHER_CONNECTIONS))?;
    has_room(
        "prepared statements (max_prepared_stmt_count)",
        number(&limits, 1),
        number(&used, 1).unwrap_or(0),
        (threads, threads * statements),
    )?;
    choose(&ask("SHOW ENGINES")?, wanted)
}

/// Returns the number in a column of the first row.
fn number(rows: &[Row], column: usize) -> Option<u64> {
    rows.first()?.get(column)?.as_ref()?.parse().ok()
}

/// Refuses a run of so many threads, which needs so much of something, if a server has less.
fn has_room(what: &str, limit: Option<u64>, used: u64, (threads, needed): (u64, u64)) -> Outcome {
    let Some(limit) = limit.filter(|limit| needed > limit.saturating_sub(used)) else { return Ok(()) };
    let used = if used == 0 { String::new() } else { format!(", of which {used} are in use") };
    Err(Failure::misuse(format!(
        "the server has room for {limit} {what}{used}, and a run of {threads} threads needs {needed}"
    )))
}

/// Chooses an engine of those of `SHOW ENGINES`: name, and whether it is there.
fn choose(engines: &[Row], wanted: Option<&str>) -> Outcome<String> {
    let there: Vec<(&str, &str)> = engines
        .iter()
        .filter_map(|row| Some((row.first()?.as_deref()?, row.get(1)?.as_deref()?)))
        .filter(|(_, support)| ["YES", "DEFAULT"].contains(support))
        .collect();
    let found = match wanted {
        Some(wanted) => there.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)),
        None => there.iter().find(|(_, support)| *support == "DEFAULT"),
    };
    let names: Vec<&str> = there.iter().map(|(name, _)| *name).collect();
    found.map(|(name, _)| (*name).to_owned()).ok_or_else(|| {
        let wanted = wanted.unwrap_or("by default");
        Failure::misuse(format!("the server has no engine {wanted}; it has {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 256 threads on 8 tables loaded for minutes, and failed when the server would
    /// prepare no more.
    #[test]
    fn a_run_that_needs_more_than_the_server_has_is_refused() {
        let refused = |limit, used, needed| match has_room("things", limit, used, (256, needed)) {
            Ok(()) => String::new(),
            Err(Failure::Misuse(why) | Failure::Failed(why)) => why,
        };
        assert_eq!(refused(Some(16_382), 0, 16_382), "");
        assert_eq!(refused(None, 0, u64::MAX), "");
        assert_eq!(
            refused(Some(16_382), 0, 18_432),
            "the server has room for 16382 things, and a run of 256 threads needs 18432"
        );
        assert_eq!(
            refused(Some(10), 8, 3),
            "the server has room for 10 things, of which 8 are in use, and a run of 256 threads needs 3"
        );
    }

    #[test]
    fn an_engine_is_found_by_name_or_is_the_default() {
        let row = |name: &str, support: &str| vec![Some(name.to_owned()), Some(support.to_owned())];
        let engines =
            [row("InnoDB", "DEFAULT"), row("MILLPOND", "YES"), row("ROCKSDB", "NO"), row("Aria", "YES")];
        assert_eq!(choose(&engines, None).unwrap(), "InnoDB");
        assert_eq!(choose(&engines, Some("millpond")).unwrap(), "MILLPOND");
        let Err(Failure::Misuse(why)) = choose(&engines, Some("rocksdb")) else { panic!() };
        assert_eq!(why, "the server has no engine rocksdb; it has InnoDB, MILLPOND, Aria");
    }
}
