//! Commands on a pseudo-terminal: how they end when it is closed, or when they are asked to.
//!
//! `top` went round and round in the library that reads keys when its terminal was gone: it asked
//! the server each second for ever, and took no notice of the first SIGTERM.

use crate::common::Scratch;
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take, on a machine that does other work.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a terminal is told to show its usual screen again.
const RESTORED: &str = "\u{1b}[?1049l";

/// A command on a terminal. Dropping it kills the command.
struct OnTerminal {
    child: Child,
    /// The other end of the terminal, until it is closed.
    master: Option<File>,
    shown: Vec<u8>,
}

/// Whether the terminal is the one of the command's session, so that its end is a signal too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    OfTheTerminal,
    Another,
}

impl OnTerminal {
    fn start(scratch: &Scratch, args: &str, session: Session) -> OnTerminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        ioctl_fionbio(&master, true).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave: OwnedFd = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        // The test itself may have been started by nohup.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", "setsid"]);
        if session == Session::OfTheTerminal {
            command.arg("--ctty");
        }
        command.arg(env!("CARGO_BIN_EXE_millpond")).args(args.split_whitespace());
        command.current_dir(&scratch.0).env("TERM", "xterm");
        command.stdin(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap()).stdout(slave);
        let child = command.spawn().unwrap();
        OnTerminal { child, master: Some(master.into()), shown: Vec::new() }
    }

    /// Takes what the terminal shows.
    fn look(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(n @ 1..) = self.master.as_mut().and_then(|master| master.read(&mut bytes).ok()) {
            self.shown.extend_from_slice(&bytes[..n]);
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Waits until the terminal shows a text.
    fn until_shown(&mut self, text: &str) {
        let began = Instant::now();
        while !self.shown().contains(text) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended with {ended:?}: {}", self.shown());
            assert!(began.elapsed() < PATIENCE, "{text:?} is not shown: {}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
            self.look();
        }
    }

    /// Closes the terminal, as its window or a lost connection does.
    fn close(&mut self) {
        self.master = None;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the command, and returns its status.
    fn status(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            self.look();
            if let Some(status) = self.child.try_wait().unwrap() {
                self.look();
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "the command does not end: {}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a closed database.
fn database(scratch: &Scratch) {
    scratch.ok("run napkin --threads 1 --pool 64MiB --db db");
}

#[test]
fn top_ends_with_its_terminal() {
    let scratch = Scratch::new("top-terminal");
    database(&scratch);
    for session in [Session::OfTheTerminal, Session::Another] {
        let mut top = OnTerminal::start(&scratch, "top db", session);
        top.until_shown("overview");
        top.close();
        // It is not killed by a signal, as by a panic in a panic.
        let status = top.status();
        assert!(matches!(status, Some(0 | 1)), "{session:?}: {status:?}");
    }
}

#[test]
fn top_ends_by_one_signal_or_one_key_and_restores_the_terminal() {
    let scratch = Scratch::new("top-signal");
    database(&scratch);
    for signal in [Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP), None] {
        let mut top = OnTerminal::start(&scratch, "top db", Session::Another);
        top.until_shown("overview");
        match signal {
            Some(signal) => top.signal(signal),
            None => std::io::Write::write_all(top.master.as_mut().unwrap(), b"q").unwrap(),
        }
        assert_eq!(top.status(), Some(0), "{signal:?}: {}", top.shown());
        assert!(top.shown().contains(RESTORED), "{signal:?}: {}", top.shown());
    }
}

/// The others are relatives: each shows a progress or waits for long, and must end with the
/// terminal that it was started from, and leave nothing behind.
#[test]
fn long_commands_end_with_their_terminal() {
    let scratch = Scratch::new("long-terminal");
    database(&scratch);
    for (args, shown) in [
        ("serve db --listen 127.0.0.1:0", "Ctrl-C ends it"),
        ("run --seconds 600 --warmup 600 --tables 1 --rows 1000 --threads 1 --pool 64MiB --db run", "tps"),
        ("crash --kills 1000 --db crash", ""),
    ] {
        let mut command = OnTerminal::start(&scratch, args, Session::OfTheTerminal);
        command.until_shown(shown);
        command.close();
        command.status();
    }
    let pid = std::process::id();
    let trace = format!("trace-fsync {pid} --seconds 600 --strace");
    let mut trace = OnTerminal::start(&scratch, &trace, Session::OfTheTerminal);
    trace.until_shown("strace");
    trace.close();
    trace.status();
}

/// A command took SIGHUP although `nohup` had switched it off, and ended with its terminal.
#[test]
fn what_nohup_has_started_outlives_its_terminal() {
    let scratch = Scratch::new("nohup");
    database(&scratch);
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_millpond")).args(["serve", "db", "--listen", "127.0.0.1:0"]);
    let out = scratch.0.join("out");
    command.current_dir(&scratch.0).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(File::create(&out).unwrap()).spawn().unwrap();
    let began = Instant::now();
    // It listens to signals before it says this.
    while !std::fs::read_to_string(&out).unwrap().contains("Ctrl-C ends it") {
        assert!(began.elapsed() < PATIENCE, "serve does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 1, 1, "SIGHUP is not ignored: {status}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
