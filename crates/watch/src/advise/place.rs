//! Where the data directory of a server is, if the server runs on this machine: which file system,
//! and whether the device rotates.

use super::facts::Place;
use super::settings::Settings;
use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File systems by the number that the kernel gives them.
const KINDS: [(u64, &str); 8] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlay"),
    (0x6969, "nfs"),
];

/// Returns the place; `None` if the server is on another machine, or in a container of its own.
pub(super) fn find(settings: &Settings) -> Option<Place> {
    let here = rustix::system::uname();
    if settings.text("hostname")? != here.nodename().to_str().ok()? {
        return None;
    }
    let dir = Path::new(settings.text("datadir")?);
    // A process with this number and this directory is the server, and not one with the same name
    // of the machine and the same path.
    let pid = dir.join(settings.text("pid_file")?);
    let pid: u32 = fs::read_to_string(pid).ok()?.trim().parse().ok()?;
    let runs = Path::new("/proc").join(pid.to_string()).exists();
    (runs && dir.is_dir()).then(|| Place { file_system: file_system(dir), rotates: rotates(dir) })
}

fn file_system(dir: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(dir).ok()?.f_type;
    KINDS.iter().find(|(number, _)| *number == kind as u64).map(|(_, name)| *name)
}

/// Returns whether the device of a directory rotates. File systems on several devices, and those
/// without one, do not tell.
fn rotates(dir: &Path) -> Option<bool> {
    let device = fs::metadata(dir).ok()?.dev();
    let block = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition has the queue of its disk.
    let flag = ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|path| fs::read_to_string(Path::new(&block).join(path)).ok())?;
    Some(flag.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(host: &str, dir: &Path) -> Settings {
        let all = [("hostname", host), ("datadir", dir.to_str().unwrap()), ("pid_file", "x.pid")];
        Settings::new(all.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn only_a_server_of_this_machine_that_runs_has_a_place() {
        let scratch = crate::scratch::Scratch::new("advise-place");
        let here = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        assert_eq!(find(&settings(&here, &scratch.0)), None, "no process");
        fs::write(scratch.0.join("x.pid"), format!("{}\n", std::process::id())).unwrap();
        assert!(find(&settings(&here, &scratch.0)).is_some());
        assert_eq!(find(&settings("another.example", &scratch.0)), None);
        assert_eq!(find(&Settings::default()), None);
    }
}
