//! The directory of the databases. At the end only what the run made is removed.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory for a run. Its drop removes what the run made.
#[derive(Debug)]
pub struct WorkDir {
    dir: PathBuf,
    /// The directory existed before, empty: it stays.
    was_there: bool,
}

impl WorkDir {
    /// Opens `dir`, which must be new or empty; without it, makes a new directory below the current
    /// one.
    pub fn make(dir: Option<&Path>) -> std::result::Result<WorkDir, String> {
        let made_up = format!("millpond-run-compare-{}", std::process::id());
        let dir = dir.map_or_else(|| PathBuf::from(made_up), Path::to_path_buf);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(WorkDir { dir, was_there: false }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot make the directory {}: {error}", dir.display())),
        }
        let mut entries =
            fs::read_dir(&dir).map_err(|e| format!("cannot look into {}: {e}", dir.display()))?;
        if entries.next().is_some() {
            return Err(format!("{} is not empty; a comparison makes its own databases", dir.display()));
        }
        Ok(WorkDir { dir, was_there: true })
    }

    /// Returns the path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether its file system keeps files in memory, where a sync costs nothing.
    pub fn in_memory(&self) -> bool {
        /// What statfs(2) calls TMPFS_MAGIC and RAMFS_MAGIC.
        const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
        rustix::fs::statfs(&self.dir).is_ok_and(|s| MEMORY.contains(&(s.f_type as u64 & 0xffff_ffff)))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // Ignores a failure: the user sees the files that are left.
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

/// Returns the disk space of the files below `dir`, without holes.
pub fn bytes_below(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    // A file that is deleted meanwhile counts as 0.
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
        let work_dir = WorkDir::make(Some(&new)).unwrap();
        fs::create_dir(new.join("peer")).unwrap();
        fs::write(new.join("peer/file"), vec![1; 10_000]).unwrap();
        assert!(bytes_below(&new) >= 10_000);
        drop(work_dir);
        assert!(!new.exists());

        fs::create_dir(&new).unwrap();
        let work_dir = WorkDir::make(Some(&new)).unwrap();
        fs::write(new.join("file"), "x").unwrap();
        drop(work_dir);
        assert_eq!(fs::read_dir(&new).unwrap().count(), 0, "the user's own directory stays, emptied");

        fs::write(new.join("thesis.txt"), "years of work").unwrap();
        assert!(WorkDir::make(Some(&new)).unwrap_err().contains("not empty"));
        assert!(new.join("thesis.txt").exists());
        assert!(WorkDir::make(Some(&root.join("no/such"))).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
