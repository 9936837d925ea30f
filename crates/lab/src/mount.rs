//! The mount that holds a directory, whether it is memory, and whether it has room.

use output::failure::{Failure, Outcome};
use output::units::show_size;
use std::fs;
use std::path::Path;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its kind, such as `ext4`.
    pub(crate) kind: String,
    /// What is mounted: mostly the path of a device.
    pub(crate) source: String,
    /// The options, of the mount and of the file system, separated by commas.
    pub(crate) options: String,
}

impl Mount {
    /// Returns the mount that holds `dir`; `None` if the system does not tell.
    pub(crate) fn of(dir: &Path) -> Option<Mount> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        Mount::among(&mounts, &dir.canonicalize().ok()?)
    }

    /// Returns the deepest mount that holds `dir`, and the last one of several on the same path.
    fn among(mountinfo: &str, dir: &Path) -> Option<Mount> {
        let mut best = None;
        let mut depth = 0;
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let mut left = left.split(' ').skip(4);
            let (Some(path), own) = (left.next().map(unescaped), left.next().unwrap_or("")) else { continue };
            let mut right = right.split(' ');
            let (Some(kind), Some(source)) = (right.next(), right.next()) else { continue };
            let path = Path::new(&path);
            if dir.starts_with(path) && path.components().count() >= depth {
                depth = path.components().count();
                let options = joined_options(own, right.next().unwrap_or(""));
                best = Some(Mount { kind: kind.to_owned(), source: unescaped(source), options });
            }
        }
        best
    }
}

/// Joins the options of a mount and those of its file system; the same option stands there once.
fn joined_options(mount: &str, file_system: &str) -> String {
    let mut all: Vec<&str> = mount.split(',').filter(|option| !option.is_empty()).collect();
    for option in file_system.split(',').filter(|option| !option.is_empty()) {
        // A bind mount may be read-only on a file system that is not.
        if !all.contains(&option) && !["rw", "ro"].contains(&option) {
            all.push(option);
        }
    }
    unescaped(&all.join(","))
}

/// Decodes a name: the kernel writes a blank as `\040`.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Returns whether `dir` is on a memory file system: nothing there survives a power cut.
pub(crate) fn is_memory(dir: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|s| [TMPFS, RAMFS].contains(&s.f_type))
}

/// Fails if the file system of `dir` has less than `needed` bytes free. `advice` says what to do
/// besides freeing space.
pub(crate) fn check_room(dir: &Path, needed: u64, advice: &str) -> Outcome {
    // A file system that does not tell may have room.
    let Ok(told) = rustix::fs::statvfs(dir) else { return Ok(()) };
    let free = told.f_bavail.saturating_mul(told.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(Failure::misuse(format!(
        "{} has {} free and the measurement needs {}: free space, or {advice}",
        dir.display(),
        show_size(free as f64),
        show_size(needed as f64)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
40 22 0:35 / /dev/shm rw - tmpfs tmpfs rw,size=10k\n\
41 22 254:1 / /mnt/my\\040disk ro,noatime shared:1 - xfs /dev/sdb1 rw,noquota\n\
nonsense\n";

    #[test]
    fn the_deepest_mount_holds_a_directory() {
        let of = |dir: &str| Mount::among(MOUNTS, Path::new(dir)).map(|mount| mount.kind);
        assert_eq!(of("/var/db"), Some("ext4".into()));
        assert_eq!(of("/dev/shm/db"), Some("tmpfs".into()));
        assert_eq!(of("/dev/shmoo"), Some("ext4".into()));
        assert_eq!(of("/mnt/my disk/db"), Some("xfs".into()));
        assert_eq!(Mount::among("", Path::new("/")), None);
    }

    #[test]
    fn a_mount_has_its_own_options_and_those_of_its_file_system() {
        let mount = Mount::among(MOUNTS, Path::new("/mnt/my disk")).unwrap();
        assert_eq!(mount.options, "ro,noatime,noquota");
        assert_eq!(mount.source, "/dev/sdb1");
        assert_eq!(Mount::among(MOUNTS, Path::new("/")).unwrap().options, "rw,relatime");
    }

    #[test]
    fn a_directory_without_room_is_refused() {
        let scratch = Scratch::new("room");
        assert!(check_room(&scratch.0, 1, "ask for less").is_ok());
        let Err(Failure::Misuse(why)) = check_room(&scratch.0, u64::MAX, "ask for less") else {
            panic!("accepted")
        };
        assert!(why.ends_with("free space, or ask for less"), "{why}");
    }
}
