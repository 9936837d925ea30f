//! Memory and cores that this process may use.

use crate::control_group::memory_limit;
use rustix::process::{Resource, getrlimit};

/// Returns the memory that the process may use, bytes: that of the machine, or what the limits of
/// its control group or of the process leave of it (`ulimit -v`, `ulimit -d`).
pub(crate) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram as u64 * u64::from(info.mem_unit.max(1));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
    let limits = [
        memory_limit(read),
        getrlimit(Resource::As).current,
        // It counts what a process may write, whatever it is.
        getrlimit(Resource::Data).current,
    ];
    limits.into_iter().flatten().fold(machine, u64::min)
}

/// Returns how many bytes of addresses the process may still take; `None` if there is no limit.
pub(crate) fn address_bytes() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// Returns the number of cores that the process may use.
pub(crate) fn cores() -> u32 {
    base::sync::cores()
}

#[cfg(test)]
mod tests {
    use crate::Vfs;

    #[test]
    fn the_machine_has_memory_and_cores() {
        let vfs = Vfs::os();
        assert!(vfs.clock.memory_bytes() >= 16 << 20);
        assert!(vfs.clock.cores() >= 1);
    }
}
