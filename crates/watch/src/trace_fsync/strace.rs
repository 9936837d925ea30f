//! Traces a process by strace, for those who ask for it: strace stops the process at each call.

use super::line::Call;
use super::pairing::Sync;
use super::process::Process;
use super::result::{Tally, Trace};
use output::failure::{Failure, Outcome};
use output::stop;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is said before strace is started.
pub(crate) const COST: &str = "strace stops every thread of the process at each of these calls, so a server can become \
                               several times slower while it is traced; if strace is killed, a thread may stay stopped";

/// The calls that are traced.
const TRACED: &str = "trace=fsync,fdatasync,sync_file_range,syncfs,sync,msync";

/// Reads lines of `strace -f -ttt -T -y -o`.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The call that a thread is in: when it began, which, and its file.
    inside: HashMap<u32, (Call, Option<String>)>,
}

impl Parser {
    /// Takes a line. Returns the sync that it ends.
    pub(crate) fn take(&mut self, line: &str) -> Option<Sync> {
        let (tid, rest) = line.trim_start().split_once(' ')?;
        let tid = tid.parse().ok()?;
        let (stamp, text) = rest.trim_start().split_once(' ')?;
        let at_us = seconds_as_us(stamp)?;
        if let Some(resumed) = text.strip_prefix("<... ") {
            let (call, file) = self.inside.remove(&tid)?;
            let (failed, took_us) = end(resumed)?;
            return Some(Sync { end_us: at_us, took_us, call, file, failed });
        }
        let (name, arguments) = text.split_once('(')?;
        let call = Call::of(name)?;
        if call == Call::Msync && !arguments.contains("MS_SYNC") {
            return None;
        }
        // `-y` prints a descriptor with its path: `4</var/lib/mysql/ib_logfile0>`.
        let path = arguments
            .split_once('<')
            .filter(|(fd, _)| fd.bytes().all(|b| b.is_ascii_digit()) && !fd.is_empty());
        let file = path.and_then(|(_, path)| path.split_once('>')).map(|(path, _)| path.to_owned());
        if text.ends_with("<unfinished ...>") {
            self.inside.insert(tid, (call, file));
            return None;
        }
        let (failed, took_us) = end(arguments)?;
        Some(Sync { end_us: at_us + took_us, took_us, call, file, failed })
    }
}

/// Reads the end of a call: ` = 0 <0.003352>`. Returns whether it failed, and how long it took.
fn end(text: &str) -> Option<(bool, u64)> {
    let (_, result) = text.rsplit_once(" = ")?;
    let (_, took) = result.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    Some((!result.starts_with('0'), seconds_as_us(took)?))
}

fn seconds_as_us(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction: u64 = fraction.parse().ok().filter(|_| fraction.len() == 6)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

/// Traces `process` for `length`, or until it ends or the user stops it.
pub(crate) fn trace(process: Process, length: Duration, step_us: Option<u64>) -> Outcome<Trace> {
    let ponds = process.ponds();
    let mut strace = Strace::start(process)?;
    let begin = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut tally = Tally::new(now.as_micros() as u64, length.as_micros() as u64);
    let mut parser = Parser::default();
    let seconds = loop {
        let past = begin.elapsed();
        if past >= length || stop::asked() {
            break past.min(length).as_secs_f64();
        }
        match strace.lines.recv_timeout((length - past).min(Duration::from_millis(100))) {
            Ok(line) => {
                if let Some(sync) = parser.take(&line) {
                    tally.add(sync);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break past.as_secs_f64(),
        }
    };
    strace.end()?;
    let mut trace = tally.result(seconds, &ponds, step_us);
    trace.way = "strace";
    trace.how = "by strace".to_owned();
    trace.notes = vec![format!("the figures include what strace costs: {COST}")];
    if seconds + 0.001 < length.as_secs_f64() {
        trace.notes.push("the trace ended early".to_owned());
    }
    Ok(trace)
}

/// A strace that runs. Dropping it ends it.
struct Strace {
    child: Child,
    lines: Receiver<String>,
    ended: bool,
}

impl Strace {
    fn start(process: Process) -> Outcome<Strace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-ttt", "-T", "-y", "-qq", "-e", TRACED, "-o", "/dev/stdout", "-p"]);
        command.arg(process.0.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Failure::failed("strace is not installed"),
            _ => Failure::failed(format!("cannot start strace: {e}")),
        })?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let _ = lines.map(|line| sender.send(line)).take_while(Result::is_ok).count();
            });
        }
        Ok(Strace { child, lines, ended: false })
    }

    /// Ends strace, which then lets go of the process. A strace that could not attach is a failure.
    fn end(&mut self) -> Outcome {
        self.ended = true;
        if self.child.try_wait().ok().flatten().is_none() {
            self.interrupt();
        }
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.read_to_string(&mut said);
        }
        let _ = self.child.wait();
        match said.lines().find(|line| line.contains("attach") || line.contains("strace:")) {
            Some(line) => Err(Failure::failed(format!("strace failed: {line}"))),
            None => Ok(()),
        }
    }

    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        if !self.ended {
            self.interrupt();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn lines_of_strace() {
        let text = "
5629  1700000000.123456 fdatasync(4</var/lib/mysql/ib_logfile0>) = 0 <0.003352>
5630  1700000000.200000 fsync(9</srv/a (b) = <c>> <unfinished ...>
5629  1700000000.210000 fdatasync(4</var/lib/mysql/ib_logfile0>) = -1 EIO (Input/output error) <0.000010>
5630  1700000000.300000 <... fsync resumed>) = 0 <0.100000>
5631  1700000000.300000 msync(0x7f0000000000, 4096, MS_SYNC) = 0 <0.000020>
5631  1700000000.300000 msync(0x7f0000000000, 4096, MS_ASYNC) = 0 <0.000020>
5631  1700000000.400000 sync() = 0 <0.5>
5631  1700000000.400000 sync() = 0 <0.500000>
5631  1700000000.400000 <... fsync resumed>) = 0 <0.100000>
5632  +++ exited with 0 +++
5632  1700000000.500000 --- SIGINT {si_signo=SIGINT} ---
5633  1700000000.500000 fsync(3</x>) = ? ERESTARTSYS (To be restarted) <0.000100>
";
        let (mut parser, mut out) = (Parser::default(), String::new());
        for line in text.lines() {
            if let Some(sync) = parser.take(line) {
                out += &format!("{sync:?}\n");
            }
        }
        expect![[r#"
            Sync { end_us: 1700000000126808, took_us: 3352, call: Fdatasync, file: Some("/var/lib/mysql/ib_logfile0"), failed: false }
            Sync { end_us: 1700000000210010, took_us: 10, call: Fdatasync, file: Some("/var/lib/mysql/ib_logfile0"), failed: true }
            Sync { end_us: 1700000000300000, took_us: 100000, call: Fsync, file: Some("/srv/a (b) = <c"), failed: false }
            Sync { end_us: 1700000000300020, took_us: 20, call: Msync, file: None, failed: false }
            Sync { end_us: 1700000000900000, took_us: 500000, call: Sync, file: None, failed: false }
            Sync { end_us: 1700000000500100, took_us: 100, call: Fsync, file: Some("/x"), failed: true }
        "#]].assert_eq(&out);
    }
}
