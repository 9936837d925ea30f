//! What the threads of a process of this machine do: by gdb, or from `/proc`, which needs no
//! tool and does not stop the process.

use output::stop;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// gdb is ended after so long: while it looks, the process stands still.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// How stacks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// Of the kernel, from /proc; the process does not stop
    Proc,
    /// Of the program too, by gdb; the process stops meanwhile
    Gdb,
}

/// Returns the stacks of a process as text, or why there are none.
pub(super) fn of(pid: u32, way: Way) -> Result<String, String> {
    match way {
        Way::Proc => of_proc(pid),
        Way::Gdb => by_gdb(pid),
    }
}

fn of_proc(pid: u32) -> Result<String, String> {
    let dir = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&dir).map_err(|e| format!("cannot read {dir}: {e}"))?;
    let threads: Vec<Thread> = entries.flatten().filter_map(|entry| Thread::read(&entry.path())).collect();
    Ok(show(&threads))
}

/// A thread, as the kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thread {
    name: String,
    /// What it does, in a word: `sleeping`, `running`.
    state: String,
    /// The function of the kernel in which it waits.
    waits_in: String,
    /// Its stack in the kernel; none if it may not be read.
    stack: Option<String>,
}

impl Thread {
    fn read(dir: &Path) -> Option<Thread> {
        let file = |name: &str| fs::read_to_string(dir.join(name)).ok();
        let status = file("status")?;
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
        let calls = file("stack").map(|stack| {
            let call = |line: &str| {
                line.split_once("] ").map(|(_, call)| call.split('+').next().unwrap_or(call).to_owned())
            };
            stack.lines().filter_map(call).collect::<Vec<_>>().join(" < ")
        });
        Some(Thread {
            name: file("comm").unwrap_or_default().trim().to_owned(),
            state: state.trim().to_owned(),
            waits_in: file("wchan").filter(|text| text.trim() != "0").unwrap_or_default(),
            stack: calls.filter(|calls| !calls.is_empty()),
        })
    }
}

/// Returns threads as text, those that do the same as one.
fn show(threads: &[Thread]) -> String {
    let mut groups: BTreeMap<(&str, &str, &str, Option<&str>), usize> = BTreeMap::new();
    for thread in threads {
        let key =
            (thread.state.as_str(), thread.waits_in.as_str(), thread.name.as_str(), thread.stack.as_deref());
        *groups.entry(key).or_default() += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut out = format!("{} threads\n", threads.len());
    for ((state, waits_in, name, stack), count) in groups {
        let place = if waits_in.is_empty() { String::new() } else { format!(", in {waits_in}") };
        let _ = writeln!(out, "{count} x {name}: {state}{place}");
        if let Some(stack) = stack {
            let _ = writeln!(out, "      {stack}");
        }
    }
    if threads.iter().all(|thread| thread.stack.is_none()) {
        out.push_str("the stacks in the kernel can be read by root only (/proc/PID/task/TID/stack)\n");
    }
    out
}

fn by_gdb(pid: u32) -> Result<String, String> {
    let mut command = Command::new("gdb");
    command.args(["-p", &pid.to_string(), "-batch", "-nx", "-ex", "set pagination off"]);
    command.args(["-ex", "thread apply all backtrace"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("gdb does not start: {e}"))?;
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(_)) => break true,
            Ok(None) if begun.elapsed() < PATIENCE && !stop::asked() => std::thread::sleep(LOOK),
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reader.join().unwrap_or_default();
    match (ended, text.contains("#0 ")) {
        (true, true) => Ok(text),
        (false, _) => Err(format!("gdb did not end within {} s, and was ended", PATIENCE.as_secs())),
        _ => Err(
            "gdb shows no stack: it needs root, or the user of the process and kernel.yama.ptrace_scope=0"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn threads_that_do_the_same_are_one_line() {
        let thread = |name: &str, stack: Option<&str>| Thread {
            name: name.to_owned(),
            state: "S (sleeping)".to_owned(),
            waits_in: "futex_do_wait".to_owned(),
            stack: stack.map(str::to_owned),
        };
        let calls = Some("futex_do_wait < do_futex");
        let threads = [
            thread("mariadbd", calls),
            thread("mariadbd", calls),
            Thread { state: "R (running)".to_owned(), ..Thread::default() },
        ];
        expect![[r#"
            3 threads
            2 x mariadbd: S (sleeping), in futex_do_wait
                  futex_do_wait < do_futex
            1 x : R (running)
        "#]]
        .assert_eq(&show(&threads));
        expect![[r#"
            1 threads
            1 x one: S (sleeping), in futex_do_wait
            the stacks in the kernel can be read by root only (/proc/PID/task/TID/stack)
        "#]]
        .assert_eq(&show(&[thread("one", None)]));
    }

    #[test]
    fn the_threads_of_this_process_are_seen() {
        let text = of(std::process::id(), Way::Proc).unwrap();
        assert!(text.contains(" threads\n"), "{text}");
        assert!(of(u32::MAX, Way::Proc).unwrap_err().contains("cannot read /proc/"));
    }
}
