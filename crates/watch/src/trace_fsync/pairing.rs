//! Joins the entry of a thread into a call and its return: that is one sync, and how long it took.

use super::line::{Call, Line};
use std::collections::HashMap;

/// A sync that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    /// When it ended, on the clock of the trace.
    pub(crate) end_us: u64,
    /// How long it took.
    pub(crate) took_us: u64,
    /// The call.
    pub(crate) call: Call,
    /// The path of the file; `None` for calls that name no file.
    pub(crate) file: Option<String>,
    /// Whether it returned an error.
    pub(crate) failed: bool,
}

/// What threads are in, and what was lost.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    inside: HashMap<u32, (u64, Call, Option<String>)>,
    /// Events for which the kernel had no room.
    pub(crate) lost: u64,
}

impl Pairing {
    /// Takes a line. Returns the sync that it ends. `name` gives the path of a thread's descriptor;
    /// it is asked when the call begins, while the file is surely open.
    pub(crate) fn take(&mut self, line: Line, name: &mut dyn FnMut(u32, u32) -> String) -> Option<Sync> {
        match line {
            Line::Lost(count) => {
                self.lost += count;
                // A thread's return may be among them.
                self.inside.clear();
                None
            }
            Line::Enter { tid, at_us, call, fd } => {
                self.inside.insert(tid, (at_us, call, fd.map(|fd| name(tid, fd))));
                None
            }
            Line::Exit { tid, at_us, call, result } => {
                let (began_us, entered, file) = self.inside.remove(&tid)?;
                let took_us = at_us.saturating_sub(began_us);
                (entered == call).then_some(Sync { end_us: at_us, took_us, call, file, failed: result < 0 })
            }
        }
    }

    /// Returns how many calls have begun and not ended.
    pub(crate) fn under_way(&self) -> usize {
        self.inside.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::parse;
    use super::*;
    use expect_test::expect;

    #[test]
    fn calls_of_several_threads_are_joined() {
        let trace = "
            old-1 [000] ..... 1.000000: sys_fsync -> 0x0
            a-2 [000] ..... 1.000100: sys_fsync(fd: 3)
            b-3 [001] ..... 1.000150: sys_fdatasync(fd: 4)
            a-2 [001] ..... 1.000900: sys_fsync -> 0x0
            b-3 [001] ..... 1.002150: sys_fdatasync -> 0xfffffffffffffffb
            a-2 [001] ..... 1.003000: sys_fsync(fd: 3)
            a-2 [001] ..... 1.003000: sys_pwrite64 -> 0x10
            c-4 [001] ..... 1.003000: sys_sync()
            c-4 [001] ..... 1.003500: sys_sync -> 0x0
            b-3 [001] ..... 1.004000: sys_fdatasync(fd: 4)
            CPU:0 [LOST 5 EVENTS]
            b-3 [001] ..... 1.005000: sys_fdatasync -> 0x0
            d-5 [001] ..... 1.006000: sys_fsync(fd: 5)
        ";
        let (mut pairing, mut out) = (Pairing::default(), String::new());
        for line in trace.lines().filter_map(parse) {
            if let Some(sync) = pairing.take(line, &mut |_, fd| format!("file {fd}")) {
                out += &format!("{sync:?}\n");
            }
        }
        expect![[r#"
            Sync { end_us: 1000900, took_us: 800, call: Fsync, file: Some("file 3"), failed: false }
            Sync { end_us: 1002150, took_us: 2000, call: Fdatasync, file: Some("file 4"), failed: true }
            Sync { end_us: 1003500, took_us: 500, call: Sync, file: None, failed: false }
        "#]]
        .assert_eq(&out);
        assert_eq!((pairing.lost, pairing.under_way()), (5, 1));
    }
}
