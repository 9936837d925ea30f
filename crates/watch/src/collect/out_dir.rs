//! The directory of a collection. An older collection is kept under another name; anything else is
//! never touched.

use super::STATS;
use output::failure::{Failure, Outcome};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
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
    /// Makes a directory with an empty file of samples, which is locked while it is open. A
    /// collection that is there already is renamed to `DIR.bak`, or to `DIR.bak2` and so on if that
    /// exists, unless a process still writes to it.
    pub(super) fn make(dir: &Path) -> Outcome<(OutDir, File)> {
        let name = dir.display();
        let (mut made, mut moved) = (true, None);
        match fs::read_dir(dir) {
            Ok(mut entries) => match entries.next() {
                None => made = false,
                Some(_) => moved = Some(set_aside(dir)?),
            },
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Failure::misuse(format!("cannot write samples to {name}: {e}"))),
        }
        if made {
            fs::create_dir(dir).map_err(|e| Failure::misuse(format!("cannot create {name}: {e}")))?;
        }
        let out = OutDir { path: dir.to_owned(), made, aside: moved };
        let path = dir.join(STATS);
        match File::create_new(&path) {
            Ok(stats) => {
                // It is new, so nobody else has locked it but another collection that looks.
                let _ = flock(&stats, FlockOperation::NonBlockingLockExclusive);
                Ok((out, stats))
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(busy(dir)),
            Err(e) => {
                out.take_back(&[]);
                Err(Failure::failed(format!("cannot create {}: {e}", path.display())))
            }
        }
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

fn busy(dir: &Path) -> Failure {
    Failure::misuse(format!(
        "another `millpond collect` writes to {} now: end it, or give another directory as --out",
        dir.display()
    ))
}

/// Renames a collection that has ended. Anything else is refused.
fn set_aside(dir: &Path) -> Outcome<PathBuf> {
    let name = dir.display();
    let stats = match File::open(dir.join(STATS)) {
        Ok(stats) => stats,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(Failure::misuse(format!(
                "{name} is not empty and is no older collection; nothing is written to it"
            )));
        }
        Err(e) => return Err(Failure::misuse(format!("cannot read {name}/{STATS}: {e}"))),
    };
    // Held until the directory has its new name, so that of two collections one gets it. Where a
    // file system has no locks, there is no protection.
    if flock(&stats, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(busy(dir));
    }
    let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
    if inode(stats.metadata()) != inode(fs::metadata(dir.join(STATS))) {
        return Err(busy(dir));
    }
    let aside = aside(dir);
    fs::rename(dir, &aside)
        .map_err(|e| Failure::failed(format!("cannot rename {name} to {}: {e}", aside.display())))?;
    Ok(aside)
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

    /// A second collection renamed the directory under the first, which wrote on where nobody
    /// looked.
    #[test]
    fn a_directory_that_a_collection_writes_to_is_refused() {
        let scratch = Scratch::new("collect-busy");
        let dir = scratch.0.join("run");
        let (_, first) = OutDir::make(&dir).unwrap();
        for path in [dir.clone(), scratch.0.join("./run/")] {
            let Err(Failure::Misuse(why)) = OutDir::make(&path) else { panic!("{path:?}") };
            assert!(why.contains("another `millpond collect` writes to"), "{why}");
        }
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
        drop(first);
        OutDir::make(&dir).unwrap();
        assert!(scratch.0.join("run.bak").join(STATS).exists());
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
            let (out, _stats) = OutDir::make(&dir).unwrap();
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
