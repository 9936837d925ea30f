//! Where the measurement is made: the file system, and the device below it.

use crate::block_device::BlockDevice;
use crate::mount::{Mount, is_memory};
use output::existing::readable_directory;
use output::failure::Outcome;
use serde::Serialize;
use std::path::Path;

/// A directory, as the system describes it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TestedDir {
    /// The kind of its file system; `None` if the system does not tell.
    pub(super) file_system: Option<String>,
    /// What is mounted.
    pub(super) source: Option<String>,
    /// The options of the mount.
    pub(super) mount_options: Option<String>,
    /// Whether the file system is in memory.
    pub(super) memory: bool,
    /// The device below it, if the kernel tells.
    pub(super) device: Option<BlockDevice>,
}

impl TestedDir {
    /// Describes a directory, which must be there.
    pub(super) fn of(dir: &Path) -> Outcome<TestedDir> {
        readable_directory(dir)?;
        let (mount, memory) = (Mount::of(dir), is_memory(dir));
        let part = |of: fn(&Mount) -> &String| mount.as_ref().map(|mount| of(mount).clone());
        Ok(TestedDir {
            file_system: part(|mount| &mount.kind),
            source: part(|mount| &mount.source),
            mount_options: part(|mount| &mount.options),
            memory,
            device: if memory { None } else { BlockDevice::below(dir) },
        })
    }

    /// Returns the file system in one line.
    pub(super) fn file_system_line(&self) -> String {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let memory = if self.memory { ", in memory" } else { "" };
        let (kind, source) = (known(&self.file_system), known(&self.source));
        format!("{kind} on {source}{memory} ({})", known(&self.mount_options))
    }

    /// Returns the device in one line.
    pub(super) fn device_line(&self) -> String {
        match &self.device {
            Some(device) => describe(device),
            None if self.memory => "none".to_owned(),
            None => "unknown: the kernel names no block device for this directory".to_owned(),
        }
    }
}

fn describe(device: &BlockDevice) -> String {
    let model = device.model.as_ref().map_or_else(String::new, |model| format!(" ({model})"));
    let rotates = match device.rotational {
        Some(true) => ", says that it rotates",
        Some(false) => ", does not rotate",
        None => "",
    };
    let cache = device.write_cache.as_deref().unwrap_or("unknown");
    let fua = match device.fua {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let scheduler = device.scheduler.as_deref().unwrap_or("unknown");
    format!("{}{model}{rotates}; cache: {cache}; FUA: {fua}; scheduler: {scheduler}", device.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_described_in_two_lines() {
        let device = BlockDevice {
            name: "sda".into(),
            model: Some("Fast 9000".into()),
            rotational: Some(false),
            write_cache: Some("write back".into()),
            fua: Some(true),
            scheduler: None,
        };
        let mut dir = TestedDir {
            file_system: Some("ext4".into()),
            source: Some("/dev/sda1".into()),
            mount_options: Some("rw,noatime".into()),
            memory: false,
            device: Some(device),
        };
        assert_eq!(dir.file_system_line(), "ext4 on /dev/sda1 (rw,noatime)");
        assert_eq!(
            dir.device_line(),
            "sda (Fast 9000), does not rotate; cache: write back; FUA: yes; scheduler: unknown"
        );
        dir.device = None;
        assert!(dir.device_line().starts_with("unknown"));
        dir.memory = true;
        assert_eq!(
            (dir.device_line().as_str(), dir.file_system_line().contains("in memory")),
            ("none", true)
        );
    }
}
