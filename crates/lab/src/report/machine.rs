//! Facts about the machine on which a report was made, which a reader needs to compare reports.

use crate::mount::Mount;
use output::units::show_size;
use std::fs;
use std::path::Path;

/// Returns the known facts of a machine with a database. Without a directory that is in memory.
pub(crate) fn facts(dir: Option<&Path>, durable: bool) -> Vec<(&'static str, String)> {
    let mut facts = of_this_machine();
    if let Some(Mount { kind, source, .. }) = dir.and_then(Mount::of) {
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

/// Returns the known facts of this machine, each with its name.
pub(crate) fn of_this_machine() -> Vec<(&'static str, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz".into()));
        assert_eq!(field(text, "bogomips"), None);
        assert_eq!(memory("MemTotal:       16384 kB\n"), Some(16_777_216.0));
        assert_eq!(memory("MemTotal: many\n"), None);
    }
}
