//! Where the databases are made: a directory of one's own, of which only what was made is removed.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory for a run. Dropping it removes what the run made.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// The directory was there before, empty: it stays.
    was_there: bool,
}

impl Place {
    /// `dir`, new or empty; or a new directory below the current one.
    pub fn make(dir: Option<&Path>) -> std::result::Result<Place, String> {
        let made_up = format!("millpond-run-compare-{}", std::process::id());
        let dir = dir.map_or_else(|| PathBuf::from(made_up), Path::to_path_buf);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(Place { dir, was_there: false }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot make the directory {}: {error}", dir.display())),
        }
        let mut entries =
            fs::read_dir(&dir).map_err(|e| format!("cannot look into {}: {e}", dir.display()))?;
        if entries.next().is_some() {
            return Err(format!("{} is not empty; a comparison makes its own databases", dir.display()));
        }
        Ok(Place { dir, was_there: true })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether its file system keeps files in memory, so that no sync costs anything.
    pub fn in_memory(&self) -> bool {
        /// What statfs(2) calls TMPFS_MAGIC and RAMFS_MAGIC.
        const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
        rustix::fs::statfs(&self.dir).is_ok_and(|s| MEMORY.contains(&(s.f_type as u64 & 0xffff_ffff)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing could be done about a failure but to say that files are left, which the user sees.
        let _ = if self.was_there { empty(&self.dir) } else { fs::remove_dir_all(&self.dir) };
    }
}

fn empty(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// What the files below `dir` take on disk; what a file only reserves as a hole is not counted.
pub fn bytes_below(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    // A file that goes away meanwhile takes nothing.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(data) if data.is_dir() => sum += bytes_below(&entry.path()),
            Ok(data) => sum += data.blocks() * 512,
            Err(_) => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_is_removed() {
        let root = std::env::temp_dir().join(format!("compare-place-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let new = root.join("new");
        let place = Place::make(Some(&new)).unwrap();
        fs::create_dir(new.join("peer")).unwrap();
        fs::write(new.join("peer/file"), vec![1; 10_000]).unwrap();
        assert!(bytes_below(&new) >= 10_000);
        drop(place);
        assert!(!new.exists());

        fs::create_dir(&new).unwrap();
        let place = Place::make(Some(&new)).unwrap();
        fs::write(new.join("file"), "x").unwrap();
        drop(place);
        assert_eq!(fs::read_dir(&new).unwrap().count(), 0, "the user's own directory stays, emptied");

        fs::write(new.join("thesis.txt"), "years of work").unwrap();
        assert!(Place::make(Some(&new)).unwrap_err().contains("not empty"));
        assert!(new.join("thesis.txt").exists());
        assert!(Place::make(Some(&root.join("no/such"))).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
