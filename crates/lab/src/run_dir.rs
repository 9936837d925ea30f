//! The directory of a run's database: which directories the run may use, what it may delete, and
//! whether the directory is on a disk.
//!
//! A finished load leaves the file `millpond-load.json` in the directory. It shows a later run that
//! the directory holds a complete load of this program. A directory without this file is used only
//! if it is empty.

use crate::mount::is_memory;
use output::failure::{Failure, Outcome};
use output::stop;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const MARK: &str = "millpond-load.json";

/// The parameters of a finished load. A run may use the directory of another run if these are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadMark {
    /// The workload's name.
    pub(crate) workload: String,
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows in each.
    pub(crate) rows: u32,
    /// Bytes of a page.
    pub(crate) page_bytes: u32,
    /// What the tables hold, if not so many rows in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contents: Option<String>,
}

impl LoadMark {
    fn describe(&self) -> String {
        let contents = self.contents.clone();
        let contents = contents.unwrap_or_else(|| format!("{} tables x {} rows", self.tables, self.rows));
        format!("{}, {contents}, {} KiB pages", self.workload, self.page_bytes / 1024)
    }
}

/// What the directory contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirContents {
    /// Nothing: the run must load its tables.
    Empty,
    /// The finished load that the run needs.
    Load,
}

/// What the drop of a [`RunDir`] deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleanup {
    Nothing,
    Contents,
    Directory,
}

/// The directory of a run. Its drop deletes what the run made, unless that shall be kept.
#[derive(Debug)]
pub(crate) struct RunDir {
    dir: PathBuf,
    remove: Cleanup,
    keep_after_load: bool,
}

impl RunDir {
    /// Makes a new directory below the current one. It is removed at the end unless `keep`.
    pub(crate) fn fresh(keep: bool) -> Outcome<RunDir> {
        let pid = std::process::id();
        for attempt in 0..1000 {
            let name = if attempt == 0 {
                format!("millpond-run-{pid}")
            } else {
                format!("millpond-run-{pid}-{attempt}")
            };
            match create_private(Path::new(&name)) {
                Ok(()) => return Ok(RunDir::made(PathBuf::from(name), Cleanup::Directory, keep)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(Failure::failed(format!(
                        "cannot create {name} in the current directory: {e}"
                    )));
                }
            }
        }
        Err(Failure::failed(format!("the current directory is full of millpond-run-{pid} directories")))
    }

    /// Makes a new directory below `parent`, which is removed at the end.
    pub(crate) fn fresh_below(parent: &Path) -> Outcome<RunDir> {
        let dir = parent.join(format!("millpond-run-{}", std::process::id()));
        create_private(&dir).map_err(|e| Failure::failed(format!("cannot create {}: {e}", dir.display())))?;
        Ok(RunDir::made(dir, Cleanup::Directory, false))
    }

    /// The same below a directory that the user named: where none can be made, that is misuse.
    pub(crate) fn fresh_in(parent: &Path) -> Outcome<RunDir> {
        RunDir::fresh_below(parent).map_err(|failure| Failure::misuse(failure.to_string()))
    }

    /// Opens the directory that the user named. It must be missing, empty, or contain the load
    /// `wanted`. It is kept, unless the load of this run does not finish.
    pub(crate) fn named(dir: &Path, wanted: &LoadMark) -> Outcome<(RunDir, DirContents)> {
        if let Some(place) = RunDir::new_or_empty(dir)? {
            return Ok((place, DirContents::Empty));
        }
        let name = dir.display();
        let text = match fs::read_to_string(dir.join(MARK)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::misuse(format!(
                    "{name} is not empty and holds no finished load of this program"
                )));
            }
            Err(e) => return Err(Failure::misuse(format!("cannot read {name}/{MARK}: {e}"))),
        };
        let found: LoadMark = serde_json::from_str(&text)
            .map_err(|e| Failure::misuse(format!("{name}/{MARK} is not a load of this program: {e}")))?;
        if found != *wanted {
            return Err(Failure::misuse(format!(
                "{name} holds another load ({}) than the one asked for ({})",
                found.describe(),
                wanted.describe()
            )));
        }
        Ok((
            RunDir { dir: dir.to_owned(), remove: Cleanup::Nothing, keep_after_load: true },
            DirContents::Load,
        ))
    }

    /// Opens the directory that the user named. It must be missing or empty.
    pub(crate) fn named_empty(dir: &Path) -> Outcome<RunDir> {
        RunDir::new_or_empty(dir)?.ok_or_else(|| Failure::misuse(format!("{} is not empty", dir.display())))
    }

    /// Creates the directory or opens an empty one; `None` if it is not empty.
    fn new_or_empty(dir: &Path) -> Outcome<Option<RunDir>> {
        let name = dir.display();
        match fs::read_dir(dir) {
            Ok(mut entries) => match entries.next() {
                None => Ok(Some(RunDir::made(dir.to_owned(), Cleanup::Contents, true))),
                Some(_) => Ok(None),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => match create_private(dir) {
                Ok(()) => Ok(Some(RunDir::made(dir.to_owned(), Cleanup::Directory, true))),
                Err(e) => Err(Failure::misuse(format!("cannot create {name}: {e}"))),
            },
            Err(e) => Err(Failure::misuse(format!("cannot use {name} as a database directory: {e}"))),
        }
    }

    fn made(dir: PathBuf, remove: Cleanup, keep_after_load: bool) -> RunDir {
        RunDir { dir, remove, keep_after_load }
    }

    /// Returns the path.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the file which shows that the load is complete and durable.
    pub(crate) fn load_finished(&mut self, mark: &LoadMark) -> Outcome {
        if !self.keep_after_load {
            return Ok(());
        }
        let path = self.dir.join(MARK);
        let text = serde_json::to_string_pretty(mark).unwrap_or_default() + "\n";
        fs::write(&path, text)
            .map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))?;
        self.keep();
        Ok(())
    }

    /// Keeps the directory from now on, if the user asked for that.
    pub(crate) fn keep_if_asked(&mut self) {
        if self.keep_after_load {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.remove = Cleanup::Nothing;
        stop::forget(&absolute(&self.dir));
    }

    /// Returns whether synced data here survives a power cut. On a memory file system it does not.
    pub(crate) fn is_durable(&self) -> bool {
        !is_memory(&self.dir)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Best effort: the result is valid whether or not the files are deleted.
        match self.remove {
            Cleanup::Nothing => {}
            Cleanup::Directory => drop(fs::remove_dir_all(&self.dir)),
            Cleanup::Contents => {
                for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                    let path = entry.path();
                    let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
                    let _ = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                }
            }
        }
        stop::forget(&absolute(&self.dir));
    }
}

fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

fn create_private(dir: &Path) -> io::Result<()> {
    stop::make(absolute(dir), || fs::DirBuilder::new().mode(0o700).create(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn mark() -> LoadMark {
        LoadMark { workload: "insert".into(), tables: 2, rows: 10, page_bytes: 8192, contents: None }
    }

    #[test]
    fn a_named_directory_is_kept_once_its_load_is_finished() {
        let scratch = Scratch::new("kept");
        let dir = scratch.0.join("db");
        let (mut place, found) = RunDir::named(&dir, &mark()).unwrap();
        assert_eq!(found, DirContents::Empty);
        fs::write(dir.join("root"), "x").unwrap();
        place.load_finished(&mark()).unwrap();
        drop(place);
        let (place, found) = RunDir::named(&dir, &mark()).unwrap();
        assert_eq!(found, DirContents::Load);
        drop(place);
        assert!(dir.join("root").exists());
    }

    #[test]
    fn only_an_unfinished_load_is_removed() {
        let scratch = Scratch::new("unfinished");
        let new = scratch.0.join("new");
        let (place, _) = RunDir::named(&new, &mark()).unwrap();
        fs::write(new.join("root"), "x").unwrap();
        drop(place);
        assert!(!new.exists());

        let empty = scratch.0.join("empty");
        fs::create_dir(&empty).unwrap();
        let (place, found) = RunDir::named(&empty, &mark()).unwrap();
        assert_eq!(found, DirContents::Empty);
        fs::create_dir(empty.join("redo")).unwrap();
        fs::write(empty.join("root"), "x").unwrap();
        drop(place);
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "the user's own directory stays, emptied");
    }

    #[test]
    fn foreign_files_and_other_loads_are_refused_and_not_changed() {
        let scratch = Scratch::new("foreign");
        let dir = scratch.0.join("db");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(RunDir::named(&dir, &mark()), Err(Failure::Misuse(_))));
        assert!(matches!(RunDir::named_empty(&dir), Err(Failure::Misuse(_))));
        assert!(dir.join("thesis.txt").exists());

        let file = scratch.0.join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(RunDir::named(&file, &mark()), Err(Failure::Misuse(_))));
        assert!(matches!(RunDir::named(&scratch.0.join("no/such"), &mark()), Err(Failure::Misuse(_))));

        let other = scratch.0.join("other");
        let (mut place, _) = RunDir::named(&other, &mark()).unwrap();
        place.load_finished(&mark()).unwrap();
        drop(place);
        let wanted = LoadMark { rows: 11, ..mark() };
        let Err(Failure::Misuse(text)) = RunDir::named(&other, &wanted) else {
            panic!("accepted another load")
        };
        assert!(text.contains("2 tables x 10 rows") && text.contains("2 tables x 11 rows"), "{text}");
        let wanted = LoadMark { contents: Some("3 warehouses".into()), ..mark() };
        let Err(Failure::Misuse(text)) = RunDir::named(&other, &wanted) else {
            panic!("accepted another load")
        };
        assert!(text.contains("insert, 3 warehouses, 8 KiB pages"), "{text}");
        fs::write(other.join(MARK), "{").unwrap();
        assert!(matches!(RunDir::named(&other, &mark()), Err(Failure::Misuse(_))));
    }
}
