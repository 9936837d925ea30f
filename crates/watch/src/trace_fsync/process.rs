//! What /proc says about a process: its threads, its open files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The bit of `O_DSYNC` in the flags of a descriptor; `O_SYNC` has it too.
const O_DSYNC: u32 = 0o10000;

/// A process that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    fn dir(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0))
    }

    /// Returns whether it runs. One that has ended and was not waited for does not.
    pub(crate) fn runs(self) -> bool {
        let status = fs::read_to_string(self.dir().join("status")).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_some_and(|state| !state.trim_start().starts_with(['Z', 'X']))
    }

    /// Returns its name, such as `mariadbd`.
    pub(crate) fn name(self) -> String {
        fs::read_to_string(self.dir().join("comm")).unwrap_or_default().trim().to_owned()
    }

    /// Returns the numbers of its threads.
    pub(crate) fn threads(self) -> Vec<u32> {
        let Ok(tasks) = fs::read_dir(self.dir().join("task")) else { return Vec::new() };
        tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
    }

    /// Returns the paths of its open files.
    pub(crate) fn files(self) -> Vec<PathBuf> {
        let Ok(fds) = fs::read_dir(self.dir().join("fd")) else { return Vec::new() };
        fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok()).collect()
    }

    /// Returns the directories of the databases of Millpond that it has open: those where it holds
    /// a file `LOCK`, and that have a `root`.
    pub(crate) fn ponds(self) -> Vec<PathBuf> {
        let locks =
            self.files().into_iter().filter(|file| file.file_name().is_some_and(|name| name == "LOCK"));
        let dirs = locks.filter_map(|lock| Some(lock.parent()?.to_owned()));
        let mut ponds: Vec<PathBuf> = dirs.filter(|dir| dir.join("root").is_file()).collect();
        ponds.sort();
        ponds.dedup();
        ponds
    }

    /// Returns the descriptors whose writes are durable when they return.
    pub(crate) fn synchronous(self) -> Vec<u32> {
        let Ok(infos) = fs::read_dir(self.dir().join("fdinfo")) else { return Vec::new() };
        let mut fds: Vec<u32> = infos
            .flatten()
            .filter(|info| fs::read_to_string(info.path()).is_ok_and(|text| is_synchronous(&text)))
            .filter_map(|info| info.file_name().to_str()?.parse().ok())
            .collect();
        fds.sort_unstable();
        fds
    }
}

/// Returns the processes that run, by number.
fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<Process> = numbers.map(Process).filter(|process| process.runs()).collect();
    all.sort_by_key(|process| process.0);
    all
}

/// Returns the processes of a name, such as `mariadbd`. The kernel keeps 15 bytes of it.
pub(crate) fn named(name: &str) -> Vec<Process> {
    let kept = name.as_bytes().get(..15).unwrap_or(name.as_bytes());
    all().into_iter().filter(|process| process.name().as_bytes() == kept).collect()
}

/// Returns the processes whose working directory this is and that have a file of it open: a server
/// does, and a shell in its data directory does not.
pub(crate) fn working_in(dir: &Path) -> Vec<Process> {
    let Ok(dir) = dir.canonicalize() else { return Vec::new() };
    let works = |process: &Process| {
        fs::read_link(process.dir().join("cwd")).is_ok_and(|cwd| cwd == dir)
            && process.files().iter().any(|file| file.parent() == Some(&dir))
    };
    all().into_iter().filter(works).collect()
}

/// Returns the process that has a database of Millpond open.
pub(crate) fn holding(dir: &Path) -> Option<Process> {
    let dir = dir.canonicalize().ok()?;
    all().into_iter().find(|process| process.ponds().contains(&dir))
}

/// Returns whether the text of a file of /proc/PID/fdinfo is of a file that was opened with
/// `O_DSYNC` or `O_SYNC`.
fn is_synchronous(text: &str) -> bool {
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & O_DSYNC != 0)
}

/// Names descriptors by the links of /proc. A path that was seen once is used again if the file is
/// closed before it can be looked at.
#[derive(Debug, Default)]
pub(crate) struct Names {
    seen: HashMap<u32, String>,
}

impl Names {
    /// Returns the path of a thread's descriptor.
    pub(crate) fn name(&mut self, tid: u32, fd: u32) -> String {
        match fs::read_link(format!("/proc/{tid}/fd/{fd}")) {
            Ok(path) => {
                let path = path.to_string_lossy().into_owned();
                self.seen.insert(fd, path.clone());
                path
            }
            Err(_) => {
                self.seen.get(&fd).cloned().unwrap_or_else(|| format!("(descriptor {fd}, closed at once)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn flags_of_a_descriptor() {
        assert!(is_synchronous("pos:\t0\nflags:\t0110001\nmnt_id:\t29\n"));
        assert!(is_synchronous("flags:\t04010002\n"));
        for text in ["pos:\t0\nflags:\t0100001\n", "", "flags:\tx\n"] {
            assert!(!is_synchronous(text), "{text}");
        }
    }

    #[test]
    fn processes_are_found_by_name_and_by_where_they_work() {
        let me = Process(std::process::id());
        assert!(named(&me.name()).contains(&me) && named("no such name").is_empty());
        // The directory of the crate, where tests run; a file of it must be open.
        let here = std::env::current_dir().unwrap();
        let file = fs::File::open(here.join("Cargo.toml")).unwrap();
        assert!(working_in(&here).contains(&me));
        drop(file);
        assert!(working_in(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn this_process_is_known_and_its_files_have_names() {
        let me = Process(std::process::id());
        assert!(me.runs() && !me.name().is_empty() && me.threads().contains(&me.0));
        assert!(!Process(u32::MAX).runs() && Process(u32::MAX).threads().is_empty());
        let path = std::env::current_exe().unwrap();
        let file = fs::File::open(&path).unwrap();
        assert!(me.files().contains(&path));
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u32;
        let mut names = Names::default();
        assert_eq!(Path::new(&names.name(me.0, fd)), path);
        drop(file);
        assert_eq!(names.name(u32::MAX, fd), path.to_string_lossy());
        assert_eq!(names.name(u32::MAX, 1 << 30), "(descriptor 1073741824, closed at once)");
    }
}
