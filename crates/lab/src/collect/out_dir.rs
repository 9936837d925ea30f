//! The directory of a collection. An older collection is kept under another name; anything else is
//! never touched.

use super::STATS;
use crate::failure::{Failure, Outcome};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An empty directory for a collection.
#[derive(Debug)]
pub(super) struct OutDir {
    path: PathBuf,
    /// It was made, and not only found empty.
    made: bool,
    /// Where the older collection is now.
    aside: Option<PathBuf>,
}

impl OutDir {
    /// Makes an empty directory. A collection that is there already is renamed to `DIR.bak`, or to
    /// `DIR.bak2` and so on if that exists.
    pub(super) fn make(dir: &Path) -> Outcome<OutDir> {
        let name = dir.display();
        let mut moved = None;
        match fs::read_dir(dir) {
            Ok(mut entries) => {
                if entries.next().is_none() {
                    return Ok(OutDir { path: dir.to_owned(), made: false, aside: None });
                }
                if !dir.join(STATS).exists() {
                    return Err(Failure::misuse(format!(
                        "{name} is not empty and is no older collection; nothing is written to it"
                    )));
                }
                let aside = aside(dir);
                fs::rename(dir, &aside).map_err(|e| {
                    Failure::failed(format!("cannot rename {name} to {}: {e}", aside.display()))
                })?;
                moved = Some(aside);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Failure::misuse(format!("cannot write samples to {name}: {e}"))),
        }
        fs::create_dir(dir).map_err(|e| Failure::misuse(format!("cannot create {name}: {e}")))?;
        Ok(OutDir { path: dir.to_owned(), made: true, aside: moved })
    }

    /// Returns the path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Takes everything back, files of these names included: the collection has not begun.
    pub(super) fn take_back(self, files: &[&str]) {
        for name in files {
            let _ = fs::remove_file(self.file(name));
        }
        if self.made
            && fs::remove_dir(&self.path).is_ok()
            && let Some(aside) = self.aside
        {
            let _ = fs::rename(aside, &self.path);
        }
    }
}

fn aside(dir: &Path) -> PathBuf {
    // Without a slash at the end, which `with_file_name` would keep.
    let whole = dir.components().collect::<PathBuf>();
    let named = |n: u32| {
        let number = if n == 1 { String::new() } else { n.to_string() };
        let mut name = whole.clone().into_os_string();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    let mut n = 1;
    while named(n).symlink_metadata().is_ok() {
        n += 1;
    }
    named(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn older_collections_are_kept() {
        let scratch = Scratch::new("collect");
        let dir = scratch.0.join("run/");
        for n in 0..3 {
            OutDir::make(&dir).unwrap();
            fs::write(dir.join(STATS), n.to_string()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(scratch.0.join(name).join(STATS)).unwrap();
        assert_eq!((read("run.bak"), read("run.bak2"), read("run")), ("0".into(), "1".into(), "2".into()));
    }

    #[test]
    fn foreign_directories_are_refused_and_not_changed() {
        let scratch = Scratch::new("collect-foreign");
        let dir = scratch.0.join("photos");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("me.jpg"), "x").unwrap();
        assert!(
            matches!(OutDir::make(&dir), Err(Failure::Misuse(text)) if text.contains("no older collection"))
        );
        assert!(dir.join("me.jpg").exists());
        assert!(matches!(OutDir::make(&dir.join("me.jpg")), Err(Failure::Misuse(_))));
        assert!(matches!(OutDir::make(&scratch.0.join("no/such")), Err(Failure::Misuse(_))));
    }

    /// A full disk left a directory with half a file, which no later collection would write to.
    #[test]
    fn a_collection_that_has_not_begun_leaves_what_was_there() {
        let scratch = Scratch::new("collect-back");
        let dir = scratch.0.join("run");
        let begin = || {
            let out = OutDir::make(&dir).unwrap();
            fs::write(out.file("figures.txt"), "half").unwrap();
            out.take_back(&["figures.txt", STATS]);
        };
        begin();
        assert!(!dir.exists());
        fs::create_dir(&dir).unwrap();
        begin();
        assert!(fs::read_dir(&dir).unwrap().next().is_none(), "it was there, and empty");
        fs::write(dir.join(STATS), "older").unwrap();
        begin();
        assert_eq!(fs::read_to_string(dir.join(STATS)).unwrap(), "older");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    }
}
