//! The settings of a server during a sweep: they are put back at the end, and a file says how, in
//! case that this program is killed.

use super::grid::Point;
use client::{Access, Row, Trouble, Worker};
use output::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that puts all settings back: statements, one a line.
const UNDO: &str = "undo.sql";

/// The settings that a sweep changes.
pub(crate) struct Settings {
    access: Access,
    undo: PathBuf,
    /// Every setting of the server before the sweep.
    before: BTreeMap<String, String>,
    /// What has to be put back, in the order of the statements.
    changed: Vec<String>,
}

impl Settings {
    /// Reads the values that the settings have, and writes how to put them back. If a sweep in this
    /// directory was killed, its file is used first, so its last point is not taken for the
    /// server's own values.
    pub(crate) fn remember(access: &Access, dir: &Path, names: &[&str]) -> Outcome<Settings> {
        let (undo, before) = (dir.join(UNDO), BTreeMap::new());
        let mut settings = Settings { access: access.clone(), undo, before, changed: Vec::new() };
        settings.put_back()?;
        let mut worker = settings.worker()?;
        settings.before = all(&mut worker)?;
        for name in names {
            let name = name.to_lowercase();
            let Some(value) = settings.before.get(&name) else {
                return Err(Failure::misuse(format!("the server has no setting {name}")));
            };
            // The value that it has: a setting that cannot be changed says so before any load.
            let statement = set_to(&name, value);
            worker.run(&statement).map_err(|trouble| Failure::misuse(format!("{statement}: {trouble}")))?;
            settings.changed.push(name);
        }
        settings.write()?;
        Ok(settings)
    }

    /// Sets a point. An error names a value that the server does not take as it is.
    pub(crate) fn set(&mut self, point: &Point) -> Outcome {
        let mut worker = self.worker()?;
        for (name, value) in point {
            let statement = set_to(name, value);
            let failed = |trouble: Trouble| Failure::misuse(format!("{statement}: {trouble}"));
            worker.run(&statement).map_err(failed)?;
            // A value out of range is only a warning in most modes: the server takes another one.
            let warnings = worker.rows("SHOW WARNINGS").map_err(failed)?;
            self.note_others(&mut worker)?;
            if let Some(why) = warnings.first().and_then(|row| row.get(2)?.clone()) {
                return Err(Failure::misuse(format!("{statement}: {why}")));
            }
        }
        Ok(())
    }

    /// Notes settings of InnoDB that the server has changed with another one, as it does with
    /// innodb_io_capacity_max. They are put back after that one.
    fn note_others(&mut self, worker: &mut Worker) -> Outcome {
        let others: Vec<String> = all(worker)?
            .into_iter()
            .filter(|(name, value)| name.starts_with("innodb_") && self.before.get(name) != Some(value))
            .map(|(name, _)| name)
            .filter(|name| !self.changed.contains(name))
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        self.changed.extend(others);
        self.write()
    }

    /// Writes the statements that put everything back.
    fn write(&self) -> Outcome {
        let statement = |name: &String| Some(format!("{};\n", set_to(name, self.before.get(name)?)));
        let text: String = self.changed.iter().filter_map(statement).collect();
        fs::write(&self.undo, text)
            .map_err(|e| Failure::failed(format!("cannot write {}: {e}", self.undo.display())))
    }

    /// Puts the old values back, if a file says what they were.
    pub(crate) fn put_back(&self) -> Outcome {
        let Ok(text) = fs::read_to_string(&self.undo) else { return Ok(()) };
        let mut worker = self.worker()?;
        for statement in text.lines().map(|line| line.trim_end_matches(';')) {
            worker.run(statement).map_err(|trouble| {
                Failure::failed(format!(
                    "{statement}: {trouble}; {} has all statements that put the settings back",
                    self.undo.display()
                ))
            })?;
        }
        fs::remove_file(&self.undo)
            .map_err(|e| Failure::failed(format!("cannot remove {}: {e}", self.undo.display())))
    }

    fn worker(&self) -> Outcome<Worker> {
        self.access.work(None).map_err(|trouble| Failure::failed(trouble.to_string()))
    }
}

/// Reads all settings of the server.
fn all(worker: &mut Worker) -> Outcome<BTreeMap<String, String>> {
    let statement = "SHOW GLOBAL VARIABLES";
    let rows =
        worker.rows(statement).map_err(|trouble| Failure::failed(format!("{statement}: {trouble}")))?;
    let setting = |row: &Row| Some((row.first()?.clone()?.to_lowercase(), row.get(1)?.clone()?));
    Ok(rows.iter().filter_map(setting).collect())
}

fn set_to(name: &str, value: &str) -> String {
    format!("SET GLOBAL {name} = {}", literal(value))
}

/// Returns a value as SQL has it: numbers and words as they are, other text in quotes.
fn literal(value: &str) -> String {
    let number = value.parse::<f64>().is_ok();
    let word = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !value.is_empty();
    let word = word && value.starts_with(|c: char| c.is_ascii_alphabetic());
    if number || word { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_sql_has_them() {
        assert_eq!(literal("200"), "200");
        assert_eq!(literal("0.5"), "0.5");
        assert_eq!(literal("ON"), "ON");
        assert_eq!(literal("a,b"), "'a,b'");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(""), "''");
    }
}
