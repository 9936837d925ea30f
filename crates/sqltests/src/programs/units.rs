//! What can run by itself: a test file of SQLAlchemy, an app of Django's tests; and which of these
//! run.

use super::fetch::Fetched;
use super::lists::read;
use super::options::Options;
use std::path::{Path, PathBuf};

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Sqlalchemy,
    Django,
}

/// A part of a program's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) program: Program,
    pub(super) name: String,
}

impl Program {
    pub(super) const ALL: [Program; 2] = [Program::Sqlalchemy, Program::Django];

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Sqlalchemy => "sqlalchemy",
            Program::Django => "django",
        }
    }

    /// Returns the programs of units.
    pub(super) fn of(units: &[Unit]) -> impl Iterator<Item = Program> {
        let has = |program: &Program| units.iter().any(|unit| unit.program == *program);
        Program::ALL.into_iter().filter(has)
    }

    /// Returns the name of the unit that a test belongs to.
    pub(super) fn unit(self, test: &str) -> &str {
        let end = match self {
            Program::Sqlalchemy => test.find("::"),
            Program::Django => test.find('.'),
        };
        &test[..end.unwrap_or(test.len())]
    }
}

impl Unit {
    /// Tells whether a test of the list, `PROGRAM TEST`, belongs to the unit.
    pub(super) fn has(&self, listed: &str) -> bool {
        let (program, test) = listed.split_once(' ').unwrap_or((listed, ""));
        program == self.program.name() && self.program.unit(test) == self.name
    }
}

/// Returns the units that the list `tests` names.
pub(super) fn all(fetched: &Fetched) -> Result<Vec<Unit>, String> {
    let mut units = Vec::new();
    for line in read("tests")?.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next() {
            None => {}
            Some("sqlalchemy") => {
                let source = fetched.source("sqlalchemy")?;
                let mut files = Vec::new();
                words.try_for_each(|part| collect(&source.join(part), &mut files))?;
                for file in files {
                    let name = file.strip_prefix(&source).map_err(|e| e.to_string())?.display().to_string();
                    units.push(Unit { program: Program::Sqlalchemy, name });
                }
            }
            Some("django") => {
                let app = |name: &str| Unit { program: Program::Django, name: name.to_owned() };
                units.extend(words.map(app));
            }
            Some(other) => return Err(format!("tests: {other} is no program")),
        }
    }
    Ok(units)
}

/// Collects the test files of a directory and those below it.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if path.is_dir() {
        return entries(path)?.iter().try_for_each(|entry| collect(entry, files));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("test_") && name.ends_with(".py") {
        files.push(path.to_owned());
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let read = std::fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the units that the options choose.
pub(super) fn choose(all: &[Unit], options: &Options) -> Result<Vec<Unit>, String> {
    let mut chosen = all.to_vec();
    for name in &options.only {
        if !all.iter().any(|unit| is_named(unit, name)) {
            return Err(format!("{name} is no program, test file or app"));
        }
    }
    if !options.only.is_empty() {
        chosen.retain(|unit| options.only.iter().any(|name| is_named(unit, name)));
    }
    if options.share.is_part() {
        let slow = read("slow")?;
        let is_slow = |unit: &Unit| slow.lines().any(|line| line.trim() == unit.name);
        chosen.retain(|unit| options.share.has(&unit.name) && !is_slow(unit));
    }
    if chosen.is_empty() { Err("no test is chosen".to_owned()) } else { Ok(chosen) }
}

fn is_named(unit: &Unit, name: &str) -> bool {
    unit.name == name || unit.program.name() == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn chosen(words: &str) -> Result<Vec<String>, String> {
        let unit = |program, name: &str| Unit { program, name: name.to_owned() };
        let mut all = vec![unit(Program::Sqlalchemy, "test/orm/test_query.py")];
        all.extend((0..99).map(|n| unit(Program::Django, &format!("app{n}"))));
        let line = Line::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        Ok(choose(&all, &line.options)?.into_iter().map(|unit| unit.name).collect())
    }

    #[test]
    fn units_are_chosen_by_name_by_program_and_by_share() {
        assert_eq!(chosen("").unwrap().len(), 100);
        assert_eq!(chosen("app3 sqlalchemy").unwrap(), ["test/orm/test_query.py", "app3"]);
        assert!(chosen("app100").is_err() && chosen("--share=2/1").is_err());
        let share = chosen("--share=1/5 --seed=7").unwrap();
        assert!((10..30).contains(&share.len()), "{share:?}");
        assert_ne!(share, chosen("--share=1/5 --seed=8").unwrap());
    }

    #[test]
    fn a_test_belongs_to_its_file_or_app() {
        let unit = Unit { program: Program::Sqlalchemy, name: "test/a.py".to_owned() };
        assert!(unit.has("sqlalchemy test/a.py::Some::test_it[x y]"));
        assert!(!unit.has("sqlalchemy test/ab.py::Some::test_it") && !unit.has("django test.a"));
        let unit = Unit { program: Program::Django, name: "schema".to_owned() };
        assert!(unit.has("django schema.tests.Some.test_it"));
    }
}
