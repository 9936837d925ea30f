//! The block device below a directory, as the kernel describes it.

use crate::mount::Mount;
use rustix::fs::{major, minor};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A disk. What the kernel does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BlockDevice {
    /// Its name, such as `nvme0n1`; that of the disk, not of a partition.
    pub(crate) name: String,
    /// The maker's name of it.
    pub(crate) model: Option<String>,
    /// Whether it says that it rotates. Virtual disks often say so too.
    pub(crate) rotational: Option<bool>,
    /// `write back`: it has a volatile cache, and the kernel flushes it at a sync. `write through`:
    /// it has none, and the kernel sends no flush.
    pub(crate) write_cache: Option<String>,
    /// Whether a single write can be made durable by itself (force unit access).
    pub(crate) fua: Option<bool>,
    /// The kernel's I/O scheduler for it.
    pub(crate) scheduler: Option<String>,
}

impl BlockDevice {
    /// Returns the device below `dir`. On btrfs and others a directory has a device number of its
    /// own; there it is the device that is mounted.
    pub(crate) fn below(dir: &Path) -> Option<BlockDevice> {
        BlockDevice::numbered(fs::metadata(dir).ok()?.dev()).or_else(|| {
            let source = Mount::of(dir)?.source;
            let device = fs::metadata(&source).ok().filter(|_| source.starts_with("/dev/"))?;
            BlockDevice::numbered(device.rdev())
        })
    }

    fn numbered(device: u64) -> Option<BlockDevice> {
        let path = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        BlockDevice::described(&fs::canonicalize(path).ok()?)
    }

    /// Reads the description in a directory of sysfs.
    fn described(path: &Path) -> Option<BlockDevice> {
        // A partition has its queue in its disk.
        let mut places = [Some(path), path.parent()].into_iter().flatten();
        let disk = places.find(|place| place.join("queue").is_dir())?;
        let word = |file: &str| word(disk.join(file));
        let flag = |file: &str| word(file).map(|word| word != "0");
        Some(BlockDevice {
            name: disk.file_name()?.to_string_lossy().into_owned(),
            model: word("device/model"),
            rotational: flag("queue/rotational"),
            write_cache: word("queue/write_cache"),
            fua: flag("queue/fua"),
            scheduler: word("queue/scheduler").map(|all| chosen(&all)),
        })
    }
}

/// Returns what a file of sysfs says; `None` if it is missing or empty.
fn word(file: PathBuf) -> Option<String> {
    let said = fs::read_to_string(file).ok()?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty())
}

/// Returns the choice in a list such as `none [mq-deadline]`.
fn chosen(all: &str) -> String {
    let inside = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(all, |(one, _)| one).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let scratch = Scratch::new("sysfs");
        let disk = scratch.0.join("sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        fs::write(disk.join("queue/write_cache"), "write back\n").unwrap();
        fs::write(disk.join("queue/fua"), "0\n").unwrap();
        fs::write(disk.join("queue/scheduler"), "none [mq-deadline]\n").unwrap();
        let expected = BlockDevice {
            name: "sda".into(),
            model: None,
            rotational: Some(true),
            write_cache: Some("write back".into()),
            fua: Some(false),
            scheduler: Some("mq-deadline".into()),
        };
        assert_eq!(BlockDevice::described(&disk), Some(expected.clone()));
        assert_eq!(BlockDevice::described(&disk.join("sda1")), Some(expected));
        assert_eq!(BlockDevice::described(&scratch.0), None);
    }
}
