//! Settings of a server that are changed for a time and put back. A file says how to put them back,
//! in case that this program is killed: it is there, and durable, before the first change.

use crate::access::Access;
use crate::connection::Row;
use crate::trouble::Trouble;
use crate::worker::Worker;
use output::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the file that puts all settings back: statements, one a line.
pub const UNDO: &str = "undo.sql";

/// What a user lacks who may not change settings.
pub const SETTINGS_NEED: &str =
    "it needs the privilege to change settings: SUPER, in MySQL from 8.0 on SYSTEM_VARIABLES_ADMIN";

/// Access denied for want of a privilege.
const NO_PRIVILEGE: [u16; 2] = [1227, 1142];

/// Settings of a server that are changed for a time.
#[derive(Debug)]
pub struct Settings {
    access: Access,
    undo: PathBuf,
    /// Every setting of the server before.
    before: BTreeMap<String, String>,
    /// What has to be put back, in the order of the statements.
    changed: Vec<String>,
}

impl Settings {
    /// Reads the values that the settings have, and writes how to put them back, in the order of
    /// the names. If an earlier process that used this directory was killed, its file is used
    /// first, so the values that it set are not taken for the server's own.
    pub fn remember(access: &Access, dir: &Path, names: &[&str]) -> Outcome<Settings> {
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
            worker.run(&statement).map_err(|trouble| refused(&statement, &trouble))?;
            settings.changed.push(name);
        }
        settings.write()?;
        Ok(settings)
    }

    /// Runs statements that change the settings. An error names a value that the server does not
    /// take as it is.
    pub fn set(&mut self, statements: &[String]) -> Outcome {
        let mut worker = self.worker()?;
        for statement in statements {
            worker.run(statement).map_err(|trouble| refused(statement, &trouble))?;
            // A value out of range is only a warning in most modes: the server takes another one.
            let warnings = worker.rows("SHOW WARNINGS").map_err(|trouble| refused(statement, &trouble))?;
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

    /// Returns the statements that put everything back.
    pub fn undo(&self) -> Vec<String> {
        let statement = |name: &String| Some(set_to(name, self.before.get(name)?));
        self.changed.iter().filter_map(statement).collect()
    }

    /// Writes them. After a power cut the file is the old one or the new one.
    fn write(&self) -> Outcome {
        let text: String = self.undo().iter().map(|statement| format!("{statement};\n")).collect();
        let new = self.undo.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.undo)?;
            let dir = self.undo.parent().filter(|dir| !dir.as_os_str().is_empty());
            File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|e| Failure::failed(format!("cannot write {}: {e}", self.undo.display())))
    }

    /// Gives the settings the old values, if a file says what they were. The file stays.
    pub fn restore(&self) -> Outcome {
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
        Ok(())
    }

    /// Fails if a setting does not have its old value.
    pub fn check(&self) -> Outcome {
        let now = all(&mut self.worker()?)?;
        match self.changed.iter().find(|name| now.get(*name) != self.before.get(*name)) {
            None => Ok(()),
            Some(name) => {
                let of = |all: &BTreeMap<String, String>| all.get(name).cloned().unwrap_or_default();
                let (now, before) = (of(&now), of(&self.before));
                Err(Failure::failed(format!("the server has {name} = {now} instead of {before}")))
            }
        }
    }

    /// Puts the old values back, if a file says what they were, and removes the file.
    pub fn put_back(&self) -> Outcome {
        self.restore()?;
        match fs::remove_file(&self.undo) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::failed(format!("cannot remove {}: {e}", self.undo.display())))
            }
            _ => Ok(()),
        }
    }

    fn worker(&self) -> Outcome<Worker> {
        self.access.work(None).map_err(|trouble| Failure::failed(trouble.to_string()))
    }
}

/// Says why a statement failed.
fn refused(statement: &str, trouble: &Trouble) -> Failure {
    match trouble {
        Trouble::Refused { code, why } if NO_PRIVILEGE.contains(code) => {
            Failure::misuse(format!("{statement} fails: {why}; {SETTINGS_NEED}"))
        }
        Trouble::Refused { why, .. } => Failure::misuse(format!("{statement}: {why}")),
        Trouble::Gone(why) => Failure::failed(format!("{statement}: {why}")),
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

/// Returns the statement that gives a setting a value.
pub fn set_to(name: &str, value: &str) -> String {
    format!("SET GLOBAL {name} = {}", literal(value))
}

/// Returns a value as SQL has it: numbers and words as they are, other text in quotes. A size as
/// the server's option files have it, `512M`, is the number of its bytes: SET GLOBAL has no units.
fn literal(value: &str) -> String {
    if let Some(bytes) = size(value) {
        return bytes.to_string();
    }
    let number = value.parse::<f64>().is_ok();
    let word = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !value.is_empty();
    let word = word && value.starts_with(|c: char| c.is_ascii_alphabetic());
    if number || word { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
}

/// Returns the bytes of a whole number with one of the units K, M, G and T.
fn size(value: &str) -> Option<u64> {
    let (number, shift) = match value.char_indices().last()? {
        (at, 'k' | 'K') => (&value[..at], 10),
        (at, 'm' | 'M') => (&value[..at], 20),
        (at, 'g' | 'G') => (&value[..at], 30),
        (at, 't' | 'T') => (&value[..at], 40),
        _ => return None,
    };
    if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
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
        assert_eq!(literal("é"), "'é'");
    }

    /// `sweep innodb_log_file_size=96M,512M` was refused: the server got a text.
    #[test]
    fn a_size_is_written_in_bytes() {
        assert_eq!(literal("512M"), "536870912");
        assert_eq!(literal("8k"), "8192");
        assert_eq!(literal("2G"), "2147483648");
        assert_eq!(literal("1T"), "1099511627776");
        assert_eq!(literal("M"), "M");
        assert_eq!(literal("+1M"), "'+1M'");
        assert_eq!(literal("1.5M"), "'1.5M'");
        assert_eq!(literal("99999999999T"), "'99999999999T'");
    }
}
