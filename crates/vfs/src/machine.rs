//! Memory and cores that this process may use.

/// Files with the memory limit of a container, in bytes or as a word: control groups of version 2
/// and 1.
const MEMORY_LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// Returns the memory of the machine or of the container, whichever is less, bytes.
pub(crate) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram as u64 * u64::from(info.mem_unit.max(1));
    let limit = |path| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    MEMORY_LIMITS.iter().filter_map(limit).fold(machine, u64::min)
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
