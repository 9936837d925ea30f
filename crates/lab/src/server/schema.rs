//! The schema of a server in which a run works: which schemas a run may use, and what it may
//! delete.
//!
//! A run makes its schema, and in it a table `millpond_load` that says what is loaded. A later run
//! uses a schema only if it has this table. A schema that somebody else has made is refused.

use super::worker::failed;
use client::{Access, Row, Trouble, Worker};
use output::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};

/// The table that says what is loaded: one row.
const MARK: &str = "millpond_load";
/// A statement of another version; a command that is denied.
const UNKNOWN: u16 = 1064;
const DENIED: [u16; 2] = [1227, 1142];
/// A schema, or a table, that is not there.
const NO_TABLE: u16 = 1146;

/// A finished load. A run may use the schema of another run if these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerLoad {
    /// The tables' family.
    pub(crate) load: String,
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows in each.
    pub(crate) rows: u32,
    /// What the tables hold, if not so many rows in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contents: Option<String>,
    /// The engine, in lower case; empty is the server's default.
    pub(crate) engine: String,
}

impl ServerLoad {
    fn describe(&self) -> String {
        let engine = if self.engine.is_empty() { "the server's default engine" } else { &self.engine };
        let contents = self.contents.clone();
        let contents = contents.unwrap_or_else(|| format!("{} tables x {} rows", self.tables, self.rows));
        format!("{}, {contents}, {engine}", self.load)
    }
}

/// What the schema contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing: the run must load its tables.
    Empty,
    /// The finished load that the run needs.
    Load,
}

/// The schema of a run.
#[derive(Debug)]
pub(crate) struct Schema {
    access: Access,
    name: String,
    remove: bool,
}

impl Schema {
    /// Takes the schema `name`, and makes it if it is not there. What this run makes is removed at
    /// the end, unless `keep`.
    pub(crate) fn take(
        access: &Access,
        name: &str,
        wanted: &ServerLoad,
        keep: bool,
    ) -> Outcome<(Schema, Contents)> {
        valid_name(name)?;
        let mut worker = open(access)?;
        refuse_read_only(&mut worker)?;
        let schema = |remove| Schema { access: access.clone(), name: name.to_owned(), remove };
        match look(&mut worker, name, wanted)? {
            There::Nothing => make(&mut worker, name, wanted)?,
            There::Unfinished => {
                run(&mut worker, &format!("DROP DATABASE `{name}`"))?;
                make(&mut worker, name, wanted)?;
            }
            There::Load => return Ok((schema(false), Contents::Load)),
        }
        Ok((schema(!keep), Contents::Empty))
    }

    /// Says what [`Schema::take`] and the end would do. Refuses what they would refuse.
    pub(crate) fn would(access: &Access, name: &str, wanted: &ServerLoad, keep: bool) -> Outcome<String> {
        valid_name(name)?;
        let mut worker = open(access)?;
        refuse_read_only(&mut worker)?;
        let end = if keep { "it stays" } else { "DROP DATABASE at the end" };
        Ok(match look(&mut worker, name, wanted)? {
            There::Nothing => format!("{name} is not there: CREATE DATABASE, and {end}"),
            There::Unfinished => {
                format!("{name} is of a run that was killed: DROP DATABASE, CREATE DATABASE, and {end}")
            }
            There::Load => format!("{name} has these tables already: they are used, and stay"),
        })
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes that all tables are loaded.
    pub(crate) fn load_finished(&self) -> Outcome {
        run(&mut open(&self.access)?, &format!("UPDATE `{}`.{MARK} SET finished = 1", self.name))
    }

    /// Removes what the run made. Returns a sentence that says what is left.
    pub(crate) fn end(self) -> Outcome<String> {
        if !self.remove {
            return Ok(format!("{} stays; DROP DATABASE removes it", self.name));
        }
        run(&mut open(&self.access)?, &format!("DROP DATABASE `{}`", self.name))?;
        Ok(format!("{} was made for this run, and is dropped", self.name))
    }
}

/// What is there under the name of a schema.
enum There {
    Nothing,
    /// A run was killed while it loaded.
    Unfinished,
    /// The finished load that is wanted.
    Load,
}

/// Looks what is there. Refuses what a run may not use.
fn look(worker: &mut Worker, name: &str, wanted: &ServerLoad) -> Outcome<There> {
    if !exists(worker, name)? {
        return Ok(There::Nothing);
    }
    match mark(worker, name)? {
        None => Err(Failure::misuse(format!(
            "the schema {name} is there and was not made by this program; --schema names another"
        ))),
        Some((false, _)) => Ok(There::Unfinished),
        Some((true, found)) if found == *wanted => Ok(There::Load),
        Some((true, found)) => Err(Failure::misuse(format!(
            "the schema {name} holds another load ({}) than the one asked for ({}); --schema names another",
            found.describe(),
            wanted.describe()
        ))),
    }
}

/// Removes a schema that this program has made, if it is there. One that somebody else has made
/// stays.
pub(crate) fn remove(access: &Access, name: &str) -> Outcome {
    valid_name(name)?;
    let mut worker = open(access)?;
    if exists(&mut worker, name)? && mark(&mut worker, name)?.is_some() {
        run(&mut worker, &format!("DROP DATABASE `{name}`"))?;
    }
    Ok(())
}

/// Refuses names that would have to be quoted.
fn valid_name(name: &str) -> Outcome {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let good = (1..=64).contains(&name.len()) && name.chars().all(plain);
    let reserved = ["mysql", "sys", "information_schema", "performance_schema"];
    if good && !reserved.contains(&name.to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::misuse(format!(
        "{name:?} is no name for the schema of a run: up to 64 letters, digits, _ and $, not one of the server's own"
    )))
}

fn open(access: &Access) -> Outcome<Worker> {
    access.work(None).map_err(|trouble| Failure::failed(trouble.to_string()))
}

fn run(worker: &mut Worker, statement: &str) -> Outcome {
    worker.run(statement).map(drop).map_err(|trouble| failed(statement, &trouble))
}

fn rows(worker: &mut Worker, statement: &str) -> Outcome<Vec<Row>> {
    worker.rows(statement).map_err(|trouble| failed(statement, &trouble))
}

/// Refuses a server that does not take writes, and a replica: its tables would not be those of its
/// source any more.
fn refuse_read_only(worker: &mut Worker) -> Outcome {
    let read_only = rows(worker, "SELECT @@global.read_only")?;
    let off = ["0", "OFF"];
    if first_cell(&read_only).is_some_and(|value| !off.contains(&value.to_uppercase().as_str())) {
        return Err(Failure::misuse("the server is read-only (read_only), and a run writes"));
    }
    for statement in ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
        match worker.rows(statement) {
            Ok(rows) if rows.is_empty() => return Ok(()),
            Ok(_) => {
                let why = "the server is a replica: a run would write what its source does not have";
                return Err(Failure::misuse(why));
            }
            Err(Trouble::Refused { code: UNKNOWN, .. }) => {}
            // This user cannot know.
            Err(Trouble::Refused { code, .. }) if DENIED.contains(&code) => return Ok(()),
            Err(trouble) => return Err(failed(statement, &trouble)),
        }
    }
    Ok(())
}

fn first_cell(rows: &[Row]) -> Option<String> {
    rows.first()?.first()?.clone()
}

fn exists(worker: &mut Worker, name: &str) -> Outcome<bool> {
    let statement = format!("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{name}'");
    Ok(first_cell(&rows(worker, &statement)?).as_deref() != Some("0"))
}

fn make(worker: &mut Worker, name: &str, load: &ServerLoad) -> Outcome {
    // Strings and numbers alone, so this cannot fail.
    let text = serde_json::to_string(load).unwrap_or_default();
    run(worker, &format!("CREATE DATABASE `{name}`"))?;
    let table = format!("CREATE TABLE `{name}`.{MARK} (finished INT NOT NULL, mark VARCHAR(1000) NOT NULL)");
    run(worker, &table)?;
    run(worker, &format!("INSERT INTO `{name}`.{MARK} VALUES (0, '{text}')"))
}

/// Reads what is loaded, and whether the load was finished; `None` if the schema is not of this
/// program.
fn mark(worker: &mut Worker, name: &str) -> Outcome<Option<(bool, ServerLoad)>> {
    let statement = format!("SELECT finished, mark FROM `{name}`.{MARK}");
    let found = match worker.rows(&statement) {
        Ok(found) => found,
        Err(Trouble::Refused { code: NO_TABLE, .. }) => return Ok(None),
        Err(trouble) => return Err(failed(&statement, &trouble)),
    };
    let Some([Some(finished), Some(text)]) = found.first().map(Vec::as_slice) else { return Ok(None) };
    Ok(serde_json::from_str(text).ok().map(|load| (finished != "0", load)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_need_quotes_are_refused() {
        assert!(["sbtest", "my_run$2", "X"].iter().all(|name| valid_name(name).is_ok()));
        for name in ["", "a b", "a`b", "mysql", "SYS", "ü", &"x".repeat(65)] {
            assert!(matches!(valid_name(name), Err(Failure::Misuse(_))), "{name}");
        }
    }
}
