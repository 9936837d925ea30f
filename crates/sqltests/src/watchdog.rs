//! A test that does not end: what its servers and clients wait for is printed, and all ends. Else
//! whoever runs the tests learns of a time limit and nothing more.

use super::output;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The programs that are looked at: what their names have.
const LOOKED_AT: &str = "mariadb";
/// Seconds for a client that asks a server which may answer nobody.
const ASK_SECONDS: &str = "20";

/// Runs a test that takes far less than `limit`.
pub(super) fn within<T>(limit: Duration, name: &str, test: impl FnOnce() -> T) -> T {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(limit) {
                println!("{name}: not after {} s", limit.as_secs());
                println!("{}", waits(Path::new("/proc")).join("\n"));
                std::process::exit(1);
            }
        });
        let outcome = test();
        drop(ended);
        outcome
    })
}

/// Returns what the processes wait for, in lines.
fn waits(proc: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for process in numbered(proc) {
        let Some(command) = command_of(&process).filter(|command| command.contains(LOOKED_AT)) else {
            continue;
        };
        lines.push(format!("{}: {command}", process.display()));
        let mut threads = BTreeMap::<String, u32>::new();
        for thread in numbered(&process.join("task")) {
            *threads.entry(wait_of(&thread)).or_default() += 1;
        }
        lines.extend(threads.into_iter().map(|(wait, count)| format!("  {count} x {wait}")));
        lines.extend(statements(&command));
    }
    lines
}

/// Returns the directories below `dir` whose names are numbers.
fn numbered(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_number =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    entries.map(|entry| entry.path()).filter(is_number).collect()
}

/// Returns a process's command line.
fn command_of(process: &Path) -> Option<String> {
    let line = std::fs::read(process.join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned())
}

/// Returns a thread's name and state, and where in the kernel it is.
fn wait_of(thread: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
    let status = read("status");
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    // Only root sees the stack.
    let stack = read("stack");
    let frames = stack.lines().take(4).filter_map(|line| line.split_whitespace().nth(1));
    format!("{} {} {}", field("Name:"), field("State:"), frames.collect::<Vec<_>>().join(" < "))
}

/// Returns what a server's connections do.
fn statements(command: &str) -> Vec<String> {
    let is_server = command.split_whitespace().next().is_some_and(|program| program.ends_with("mariadbd"));
    let socket = command.split_whitespace().find(|word| word.starts_with("--socket="));
    let Some(socket) = socket.filter(|_| is_server) else { return Vec::new() };
    let mut client = Command::new("timeout");
    client.args([ASK_SECONDS, "mariadb", "--no-defaults", "--user=root", socket]);
    match output(client.args(["--execute", "SHOW FULL PROCESSLIST"])) {
        Ok(list) => list.lines().map(|line| format!("  {line}")).collect(),
        Err(why) => vec![format!("  {why}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_servers_and_clients_are_told_with_their_waits() {
        let proc = std::env::temp_dir().join(format!("waits-{}", std::process::id()));
        let thread = proc.join("12/task/13");
        std::fs::create_dir_all(&thread).unwrap();
        std::fs::create_dir_all(proc.join("14")).unwrap();
        std::fs::write(proc.join("12/cmdline"), "mariadb\0--user=root\0").unwrap();
        std::fs::write(proc.join("14/cmdline"), "bash\0").unwrap();
        std::fs::write(thread.join("status"), "Name:\tmariadb\nState:\tD (disk sleep)\n").unwrap();
        std::fs::write(thread.join("stack"), "[<0>] io_wait+0x1/0x2\n[<0>] do_exit+0x3/0x4\n").unwrap();
        let told = waits(&proc);
        std::fs::remove_dir_all(&proc).unwrap();
        let wanted = "  1 x mariadb D (disk sleep) io_wait+0x1/0x2 < do_exit+0x3/0x4";
        assert_eq!(told[1..], [wanted]);
        assert!(told[0].ends_with("/12: mariadb --user=root"), "{}", told[0]);
    }

    #[test]
    fn a_test_that_ends_is_not_disturbed() {
        assert_eq!(within(Duration::from_secs(3600), "a test", || 7), 7);
    }
}
