//! Facts about the machine on which a report was made, which a reader needs to compare reports.

use output::units::show_size;
use std::fs;
use std::path::Path;

/// Returns the known facts, each with its name. Without a directory the database is in memory.
pub(crate) fn facts(dir: Option<&Path>, durable: bool) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| field(&text, "model name"));
    if cores > 0 {
        facts.push(("cores", model.map_or(cores.to_string(), |model| format!("{cores}, {model}"))));
    }
    if let Some(bytes) = fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory(&text)) {
        facts.push(("memory", show_size(bytes)));
    }
    if let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        facts.push(("kernel", format!("Linux {}", kernel.trim())));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some((kind, source)) =
        dir.and_then(|dir| dir.canonicalize().ok()).and_then(|dir| file_system(&mounts, &dir))
    {
        facts.push(("file system", format!("{kind} on {source}")));
    }
    let device = match dir {
        None => "the process's own memory: nothing here outlives the run",
        Some(_) if durable => "a disk",
        Some(_) => "memory: nothing here survives a power cut",
    };
    facts.push(("device", device.to_owned()));
    facts
}

/// Returns the value of a line `name : value`, as in /proc/cpuinfo.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns the bytes of memory from /proc/meminfo.
fn memory(text: &str) -> Option<f64> {
    let value = field(text, "MemTotal")?;
    let kib: f64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// Returns the kind and source of the mount that holds `dir`: the deepest one, and the last one of
/// several on the same path.
fn file_system(mountinfo: &str, dir: &Path) -> Option<(String, String)> {
    let mut best = None;
    let mut depth = 0;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(path) = left.split(' ').nth(4).map(unescaped) else { continue };
        let mut right = right.split(' ');
        let (Some(kind), Some(source)) = (right.next(), right.next()) else { continue };
        let path = Path::new(&path);
        if dir.starts_with(path) && path.components().count() >= depth {
            depth = path.components().count();
            best = Some((kind.to_owned(), unescaped(source)));
        }
    }
    best
}

/// Decodes a name: the kernel writes a blank as `\040`.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
40 22 0:35 / /dev/shm rw - tmpfs tmpfs rw\n\
41 22 254:1 / /mnt/my\\040disk rw shared:1 - xfs /dev/sdb1 rw\n\
nonsense\n";

    #[test]
    fn the_deepest_mount_holds_a_directory() {
        let of = |dir: &str| file_system(MOUNTS, Path::new(dir)).map(|(kind, _)| kind);
        assert_eq!(of("/var/db"), Some("ext4".into()));
        assert_eq!(of("/dev/shm/db"), Some("tmpfs".into()));
        assert_eq!(of("/dev/shmoo"), Some("ext4".into()));
        assert_eq!(of("/mnt/my disk/db"), Some("xfs".into()));
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn fields_of_proc() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz".into()));
        assert_eq!(field(text, "bogomips"), None);
        assert_eq!(memory("MemTotal:       16384 kB\n"), Some(16_777_216.0));
        assert_eq!(memory("MemTotal: many\n"), None);
    }
}
