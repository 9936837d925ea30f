//! The directory of `--report`: checked and made before the run, filled after it.
//!
//! The directory may contain other files, and a new report replaces an old one. A report never
//! replaces a file that is not part of a report: `--report .` in the directory of a web site does
//! not destroy the site.

use crate::failure::{Failure, Outcome};
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file name of the page.
pub const PAGE: &str = "index.html";
/// This text in the page shows that this program made it, so the other files with names of a report
/// belong to it too.
const MADE_HERE: &str = "<meta name=\"generator\" content=\"millpond ";

/// A directory that can take a report.
#[derive(Debug)]
pub struct ReportDir {
    dir: PathBuf,
    /// This run made the directory, and it is still empty.
    remove: bool,
}

impl ReportDir {
    /// Checks that a report with files among `names` can be written to `dir`, and creates a missing
    /// directory. If no report is written, the drop removes it. `dir` must not be inside the
    /// database's directory `db`.
    pub fn claim(dir: &Path, names: &[String], db: Option<&Path>) -> Outcome<ReportDir> {
        let name = dir.display();
        let remove = match fs::metadata(dir) {
            Ok(meta) if !meta.is_dir() => {
                return Err(Failure::misuse(format!(
                    "cannot write a report to {name}: it is not a directory"
                )));
            }
            Ok(_) => false,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(dir).map_err(|e| {
                    Failure::misuse(format!("cannot create the report directory {name}: {e}"))
                })?;
                true
            }
            Err(e) => return Err(Failure::misuse(format!("cannot write a report to {name}: {e}"))),
        };
        let report = ReportDir { dir: dir.to_owned(), remove };
        access(dir, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| {
            Failure::misuse(format!("cannot write a report to {name}: {}", io::Error::from(e)))
        })?;
        if let Some(db) = db
            && let (Ok(inside), Ok(db)) = (dir.canonicalize(), resolved(db))
            && inside.starts_with(&db)
        {
            return Err(Failure::misuse(format!(
                "--report {name} lies in the database's own directory {}",
                db.display()
            )));
        }
        report.check_foreign(names)?;
        Ok(report)
    }

    /// Fails if one of the names belongs to a file that is not part of a report.
    fn check_foreign(&self, names: &[String]) -> Outcome {
        let page = self.dir.join(PAGE);
        if fs::read(&page).is_ok_and(|text| contains(&text, MADE_HERE.as_bytes())) {
            return Ok(());
        }
        match names.iter().map(|name| self.dir.join(name)).find(|path| path.symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(path) => Err(Failure::misuse(format!(
                "{} is not part of a report, and a report would overwrite it",
                path.display()
            ))),
        }
    }

    /// Writes a report and removes the files of an older one. `names` are file names that every
    /// report may have; the plots of the older one are those that its page links to.
    pub fn write(mut self, files: &[(String, String)], names: &[String]) -> Outcome<PathBuf> {
        let old = fs::read_to_string(self.dir.join(PAGE)).map_or_else(|_| Vec::new(), |page| plots_of(&page));
        for name in names.iter().chain(&old).filter(|name| files.iter().all(|(written, _)| written != *name))
        {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::failed(format!("cannot remove {}: {e}", path.display())));
                }
                _ => {}
            }
        }
        // The page first: it has all plots in it, and without it the next run would treat what a
        // killed one has left as foreign.
        let mut files: Vec<&(String, String)> = files.iter().collect();
        files.sort_by_key(|(name, _)| name != PAGE);
        for (i, (name, text)) in files.iter().enumerate() {
            let path = self.dir.join(name);
            if let Err(e) = fs::write(&path, text) {
                // Half a report is useless.
                for (name, _) in &files[..=i] {
                    let _ = fs::remove_file(self.dir.join(name));
                }
                return Err(Failure::failed(format!("cannot write {}: {e}", path.display())));
            }
        }
        self.remove = false;
        Ok(self.dir.join(PAGE))
    }
}

/// Returns the plots that a page of this program links to.
fn plots_of(page: &str) -> Vec<String> {
    if !page.contains(MADE_HERE) {
        return Vec::new();
    }
    let links = page.split("<a href=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let own = |name: &&str| {
        name.ends_with(".svg") && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    links.map(|(name, _)| name).filter(own).map(str::to_owned).collect()
}

impl Drop for ReportDir {
    fn drop(&mut self) {
        if self.remove {
            // Only if it is still empty.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// Returns an absolute path without symbolic links. The last component need not exist.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => Ok(path),
        (Err(_), Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        (Err(e), ..) => Err(e),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn names() -> Vec<String> {
        [PAGE, "a.svg", "b.svg"].map(str::to_owned).to_vec()
    }

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    fn refused(dir: &Path, db: Option<&Path>) -> String {
        match ReportDir::claim(dir, &names(), db) {
            Err(Failure::Misuse(text)) => text,
            other => panic!("{}: {other:?}", dir.display()),
        }
    }

    #[test]
    fn an_unused_new_directory_is_removed() {
        let scratch = Scratch::new("nothing");
        let dir = scratch.0.join("r");
        let report = ReportDir::claim(&dir, &names(), None).unwrap();
        assert!(dir.is_dir());
        drop(report);
        assert!(!dir.exists());
        drop(ReportDir::claim(&scratch.0, &names(), None).unwrap());
        assert!(scratch.0.is_dir(), "an existing directory stays");
    }

    #[test]
    fn a_new_report_replaces_only_an_old_one() {
        let scratch = Scratch::new("again");
        fs::write(scratch.0.join("out.json"), "{}").unwrap();
        let page = format!("<html>{MADE_HERE}0.1.0\">");
        let claim = || ReportDir::claim(&scratch.0, &names(), None);
        claim().unwrap().write(&[file("a.svg", "1"), file(PAGE, &page)], &names()).unwrap();
        claim().unwrap().write(&[file("b.svg", "2"), file(PAGE, &page)], &names()).unwrap();
        assert!(!scratch.0.join("a.svg").exists(), "nothing of the old report stays");
        assert!(scratch.0.join("b.svg").exists() && scratch.0.join("out.json").exists());
    }

    /// A plot that was killed left plots without a page, and the next one was refused.
    #[test]
    fn the_page_is_written_first() {
        let scratch = Scratch::new("first");
        let report = ReportDir::claim(&scratch.0, &names(), None).unwrap();
        for name in [PAGE, "a.svg"] {
            fs::create_dir(scratch.0.join(name)).unwrap();
        }
        let failure = report.write(&[file("a.svg", "1"), file(PAGE, "2")], &names()).unwrap_err();
        assert!(failure.to_string().contains(PAGE), "{failure}");
    }

    #[test]
    fn plots_that_only_the_old_page_names_are_removed() {
        let scratch = Scratch::new("links");
        let page =
            format!("<html>{MADE_HERE}0.1.0\"><a href=\"own-7.svg\">x</a><a href=\"../far.svg\">y</a>");
        let claim = || ReportDir::claim(&scratch.0, &names(), None).unwrap();
        claim().write(&[file("own-7.svg", "1"), file(PAGE, &page)], &names()).unwrap();
        fs::write(scratch.0.join("mine.svg"), "a drawing").unwrap();
        claim().write(&[file("a.svg", "2"), file(PAGE, "3")], &names()).unwrap();
        assert!(!scratch.0.join("own-7.svg").exists());
        assert!(scratch.0.join("mine.svg").exists() && scratch.0.join("a.svg").exists());
        assert_eq!(plots_of(&page), ["own-7.svg"]);
        assert!(plots_of("<a href=\"own-7.svg\">").is_empty(), "the page of another program");
    }

    #[test]
    fn half_a_report_does_not_stay() {
        let scratch = Scratch::new("half");
        let dir = scratch.0.join("r");
        let claim = || ReportDir::claim(&dir, &names(), None);
        let report = claim().unwrap();
        fs::create_dir(dir.join("b.svg")).unwrap();
        let result = report.write(&[file("a.svg", "1"), file("b.svg", "2"), file(PAGE, "3")], &names());
        let Err(Failure::Failed(text)) = result else { panic!("wrote over a directory") };
        assert!(text.contains("b.svg"), "{text}");
        assert!(!dir.join("a.svg").exists() && !dir.join(PAGE).exists());
        fs::remove_dir(dir.join("b.svg")).unwrap();
        assert!(claim().is_ok(), "no file is left that would be foreign");
    }

    #[test]
    fn foreign_files_are_named_and_not_changed() {
        let scratch = Scratch::new("foreign");
        let dir = &scratch.0;
        fs::write(dir.join(PAGE), "<html>my site</html>").unwrap();
        assert!(refused(dir, None).contains("index.html"));
        fs::remove_file(dir.join(PAGE)).unwrap();
        fs::write(dir.join("a.svg"), "my drawing").unwrap();
        assert!(refused(dir, None).contains("a.svg"));
        assert!(refused(&dir.join("a.svg"), None).contains("not a directory"));
        assert!(refused(&dir.join("no/such"), None).contains("no/such"));
        assert_eq!(fs::read_to_string(dir.join("a.svg")).unwrap(), "my drawing");
    }

    #[test]
    fn a_report_does_not_go_into_the_database() {
        let scratch = Scratch::new("db");
        let db = scratch.0.join("db");
        assert!(refused(&db, Some(&db)).contains("--report"));
        assert!(!db.exists(), "nothing is created");
        fs::create_dir(&db).unwrap();
        assert!(refused(&db.join("r"), Some(&db)).contains("--report"));
        assert!(
            ReportDir::claim(&scratch.0, &names(), Some(&db)).is_ok(),
            "the database may be inside the report's directory"
        );
    }
}
