//! Where the data directory of a server is, if the server runs on this machine: which file system,
//! and whether the device rotates.

use super::facts::Place;
use super::settings::Settings;
use crate::sources::process_here;
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
    let (_, dir) = process_here(|name| settings.text(name))?;
    Some(Place { file_system: file_system(&dir), rotates: rotates(&dir) })
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
