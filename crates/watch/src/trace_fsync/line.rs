//! Lines of the kernel's trace: when a thread entered and left a system call.
//!
//! ```text
//!         mariadbd-5629    [001] ..... 12339.192996: sys_fdatasync(fd: 4)
//!         mariadbd-5629    [001] ..... 12339.196344: sys_fdatasync -> 0x0
//! CPU:1 [LOST 17 EVENTS]
//! ```

/// A system call that makes data durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Syncfs,
    Sync,
    /// `msync` with `MS_SYNC`.
    Msync,
    /// A write to a file that was opened with `O_DSYNC` or `O_SYNC`.
    Write,
}

/// The calls with their names in the kernel, where one call has several.
pub(crate) const CALLS: [(&str, Call); 11] = [
    ("fsync", Call::Fsync),
    ("fdatasync", Call::Fdatasync),
    ("sync_file_range", Call::SyncFileRange),
    ("syncfs", Call::Syncfs),
    ("sync", Call::Sync),
    ("msync", Call::Msync),
    ("write", Call::Write),
    ("writev", Call::Write),
    ("pwrite64", Call::Write),
    ("pwritev", Call::Write),
    ("pwritev2", Call::Write),
];

/// The flag of `msync` that waits until the data is on disk.
const MS_SYNC: u64 = 4;

impl Call {
    /// Returns the call of a name in the kernel.
    pub(crate) fn of(name: &str) -> Option<Call> {
        CALLS.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }

    /// Returns the name for people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Call::Fsync => "fsync",
            Call::Fdatasync => "fdatasync",
            Call::SyncFileRange => "sync_file_range",
            Call::Syncfs => "syncfs",
            Call::Sync => "sync",
            Call::Msync => "msync",
            Call::Write => "synchronous write",
        }
    }
}

/// A line of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A thread entered a call.
    Enter { tid: u32, at_us: u64, call: Call, fd: Option<u32> },
    /// A thread left a call; negative results are errors.
    Exit { tid: u32, at_us: u64, call: Call, result: i64 },
    /// The kernel had no room for so many events.
    Lost(u64),
}

/// Reads a line; `None` if it says nothing about a call that syncs.
pub(crate) fn parse(line: &str) -> Option<Line> {
    if let Some(count) = line.trim().strip_prefix("CPU:").and_then(|rest| rest.split_once("[LOST ")) {
        return count.1.split(' ').next()?.parse().ok().map(Line::Lost);
    }
    let (tid, rest) = thread(line)?;
    let (stamp, event) = rest.split_once(": ")?;
    let at_us = micros(stamp.split_whitespace().last()?)?;
    let event = event.trim().strip_prefix("sys_")?;
    if let Some((name, arguments)) = event.split_once('(')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        let call = Call::of(name)?;
        if call == Call::Msync && argument(arguments, "flags")? & MS_SYNC == 0 {
            return None;
        }
        let fd = argument(arguments, "fd").and_then(|fd| fd.try_into().ok());
        return Some(Line::Enter { tid, at_us, call, fd });
    }
    let (name, result) = event.split_once(" -> ")?;
    Some(Line::Exit { tid, at_us, call: Call::of(name)?, result: number(result)? as i64 })
}

/// Splits a line behind the number of the processor. A thread's name may hold any character, so the
/// thread's number is the digits before the last bracketed number at the beginning of the line.
fn thread(line: &str) -> Option<(u32, &str)> {
    let mut found = None;
    for (at, _) in line.match_indices(" [") {
        let Some((cpu, rest)) = line[at + 2..].split_once("] ") else { continue };
        let tid = line[..at].trim_end().rsplit('-').next().and_then(|tid| tid.parse().ok());
        if let Some(tid) = tid
            && !cpu.is_empty()
            && cpu.bytes().all(|b| b.is_ascii_digit())
        {
            found = found.or(Some((tid, rest)));
        }
    }
    found
}

/// Reads seconds with six digits behind the dot.
fn micros(stamp: &str) -> Option<u64> {
    let (seconds, fraction) = stamp.trim_end_matches(':').split_once('.')?;
    let fraction: u64 = fraction.parse().ok().filter(|_| fraction.len() == 6)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

/// Returns the value of an argument such as `fd: 0x63`.
fn argument(arguments: &str, name: &str) -> Option<u64> {
    arguments.split([',', ')', '(']).find_map(|part| {
        let (key, value) = part.trim().split_once(": ")?;
        if key == name { number(value.split_whitespace().next()?) } else { None }
    })
}

/// Reads a number, in hex if it begins with `0x`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(|n| n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn lines_of_a_trace() {
        let trace = "
# tracer: nop
        mariadbd-5629    [001] ..... 12339.192996: sys_fdatasync(fd: 4)
        mariadbd-5629    [001] ..... 12339.196344: sys_fdatasync -> 0x0
         python3-5764    [000] ..... 12339.556077: sys_fsync(fd: 0x63)
         python3-5764    [000] ..... 12339.556079: sys_fsync -> 0xfffffffffffffff7
   my [pond] 1-2-77      [011] d..1. 5.000001: sys_sync_file_range(fd: 7, offset: 0, nbytes: 1000, flags: 7)
  we: sys_a-1-78      [000] ..... 5.000002: sys_pwrite64(fd: 9, buf: 7ffd (sys_b -> 0x0: (fd: 3), count: 4)
           lmdb-79      [000] ..... 5.000003: sys_msync(start: 0x7f00, len: 0x1000, flags: 4)
           lmdb-79      [000] ..... 5.000004: sys_msync(start: 0x7f00, len: 0x1000, flags: 1)
           lmdb-79      [000] ..... 5.000005: sys_sync()
           lmdb-79      [000] ..... 5.000006: sys_openat -> 0x3
CPU:1 [LOST 17 EVENTS]
";
        let mut out = String::new();
        for line in trace.lines() {
            if let Some(line) = parse(line) {
                out += &format!("{line:?}\n");
            }
        }
        expect![[r#"
            Enter { tid: 5629, at_us: 12339192996, call: Fdatasync, fd: Some(4) }
            Exit { tid: 5629, at_us: 12339196344, call: Fdatasync, result: 0 }
            Enter { tid: 5764, at_us: 12339556077, call: Fsync, fd: Some(99) }
            Exit { tid: 5764, at_us: 12339556079, call: Fsync, result: -9 }
            Enter { tid: 77, at_us: 5000001, call: SyncFileRange, fd: Some(7) }
            Enter { tid: 78, at_us: 5000002, call: Write, fd: Some(9) }
            Enter { tid: 79, at_us: 5000003, call: Msync, fd: None }
            Enter { tid: 79, at_us: 5000005, call: Sync, fd: None }
            Lost(17)
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn nonsense_is_no_line_and_no_panic() {
        for line in [
            "",
            "-",
            " [",
            " [] ",
            "a-1 [000] x",
            "a-1 [000] .... 1: sys_fsync(",
            "a-1 [000] .... 1.5: sys_fsync(fd: 3)",
            "a-1 [000] .... 99999999999999999999.000000: sys_fsync(fd: 3)",
            "a-1 [000] .... 99999999999999999.000000: sys_fsync(fd: 3)",
            "a-99999999999 [000] .... 1.000000: sys_fsync(fd: 3)",
            "a-1 [000] .... 1.000000: sys_fsync -> ",
            "a-1 [000] .... 1.000000: sys_msync()",
            "CPU:1 [LOST many EVENTS]",
            "\u{e9}-1 [000\u{e9}] .... 1.000000: sys_fsync(fd: 3)",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        let last = parse("a-1 [000] .... 1.000000: sys_fsync(fd: 99999999999)");
        assert!(matches!(last, Some(Line::Enter { fd: None, .. })));
    }
}
