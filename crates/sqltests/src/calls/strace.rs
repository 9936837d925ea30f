//! The program `strace`: it counts the calls with which a thread changes files, and kills the
//! process at one of them.
//!
//! `strace` counts the calls of each thread by itself. So it is attached to one thread, that of a
//! connection, and not to the whole server: then the n-th call is the same one in each run. The
//! signal comes before the call happens.

use super::super::is_root;
use super::super::packages;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Calls that change files. `openat` does so if it creates one.
const CHANGES: &str = "write,pwrite64,writev,pwritev,pwritev2,rename,renameat,renameat2,unlink,unlinkat,\
                       openat,ftruncate,fallocate,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,\
                       io_uring_enter";
/// Calls that only make durable what was written before. A process that is killed leaves the same
/// files before and behind them.
pub(super) const SYNCS: [&str; 3] = ["fsync", "fdatasync", "sync_file_range"];

/// A running `strace`.
pub(super) struct Strace(Child);

/// Installs the program where it is missing.
pub(super) fn install() -> Result<(), String> {
    let there = || Command::new("strace").arg("--version").output().is_ok();
    if there() {
        return Ok(());
    }
    packages::install(&["strace"])
        .map_err(|why| format!("this needs the program strace (apt-get install strace): {why}"))
}

/// Checks that the program may look at another process.
pub(super) fn check() -> Result<(), String> {
    let mut sleep =
        Command::new("sleep").arg("60").spawn().map_err(|e| format!("cannot start sleep: {e}"))?;
    let attached = attach(Command::new("strace"), &sleep.id().to_string()).map(Strace::end);
    let _ = sleep.kill();
    let _ = sleep.wait();
    attached
}

impl Strace {
    /// Counts the calls of a thread, and writes them to a file.
    pub(super) fn count(thread: &str, file: &Path) -> Result<Strace, String> {
        let mut strace = Command::new("strace");
        strace.arg(format!("--trace={CHANGES},{}", SYNCS.join(","))).arg("--output").arg(file);
        attach(strace, thread)
    }

    /// Kills the process of a thread at its n-th call.
    pub(super) fn kill_at(thread: &str, call: &str, n: usize) -> Result<Strace, String> {
        let mut strace = Command::new("strace");
        strace.args([format!("--trace={call}"), format!("--inject={call}:signal=KILL:when={n}")]);
        strace.args(["--output", "/dev/null"]);
        attach(strace, thread)
    }

    /// Detaches.
    pub(super) fn end(mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns when the thread is traced.
fn attach(mut strace: Command, thread: &str) -> Result<Strace, String> {
    strace.args(["--attach", thread]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = strace.spawn().map_err(|e| format!("cannot start strace: {e}"))?;
    let mut said = BufReader::new(process.stderr.take().ok_or("strace says nothing")?);
    let mut line = String::new();
    said.read_line(&mut line).map_err(|e| format!("strace: {e}"))?;
    // Nobody reads on, and nothing more than a line is said at the end: it fits the pipe.
    let strace = Strace(process);
    if line.contains(" attached") {
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        return Ok(strace);
    }
    strace.end();
    let hint = if is_root() { "" } else { "; root may, or kernel.yama.ptrace_scope=0 lets others" };
    Err(format!("strace cannot look at the server: {}{hint}", line.trim()))
}

/// A call of a thread: its name, and its number among those with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) n: usize,
}

/// Reads what [`Strace::count`] has written: the calls at which a kill is worth it. Those that sync
/// are left out unless they are `asked` for.
pub(super) fn calls_of(text: &str, asked: Option<&str>) -> Vec<Call> {
    let mut counts = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        // Others are signals and ends of threads.
        let Some((name, arguments)) = line.split_once('(').filter(|(name, _)| is_name(name)) else {
            continue;
        };
        let n = counts.entry(name.to_owned()).or_insert(0);
        *n += 1;
        let creates = name != "openat" || arguments.contains("O_CREAT") || arguments.contains("O_TRUNC");
        let wanted = match asked {
            Some(asked) => name == asked,
            None => creates && !SYNCS.contains(&name),
        };
        if wanted {
            calls.push(Call { name: name.to_owned(), n: *n });
        }
    }
    calls
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name_and_those_that_change_nothing_are_left_out() {
        let text = "write(3, \"(\", 1) = 1\nopenat(AT_FDCWD, \"./a.frm\", O_RDONLY) = 4\n\
                    openat(AT_FDCWD, \"./b.frm\", O_RDWR|O_CREAT, 0660) = 4\nfdatasync(3) = 0\n\
                    --- stopped by SIGSTOP ---\nwrite(3, \"\", 0 <unfinished ...>\n+++ killed by SIGKILL +++\n";
        let calls = |asked| {
            calls_of(text, asked).iter().map(|call| format!("{} {}", call.name, call.n)).collect::<Vec<_>>()
        };
        assert_eq!(calls(None), ["write 1", "openat 2", "write 2"]);
        assert_eq!(calls(Some("fdatasync")), ["fdatasync 1"]);
        assert_eq!(calls(Some("openat")), ["openat 1", "openat 2"]);
    }
}
