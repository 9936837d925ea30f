//! The program as a process in a directory of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A directory of this test, which is also where the program runs.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Makes it, empty.
    pub(crate) fn new(name: &str) -> Scratch {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// Returns the command that runs the program here with `args`.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
        command.args(args.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs it.
    pub(crate) fn millpond(&self, args: &str) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs it and expects success. Returns its output.
    pub(crate) fn ok(&self, args: &str) -> String {
        let out = self.millpond(args);
        assert_eq!(out.status.code(), Some(0), "millpond {args}: {}", text(&out.stderr));
        text(&out.stdout)
    }

    /// Runs it and expects one sentence and `status`. Returns the sentence.
    pub(crate) fn refused(&self, status: i32, args: &str) -> String {
        let out = self.millpond(args);
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "millpond {args}: {complaint}");
        assert_eq!(text(&out.stdout), "", "millpond {args} printed to stdout");
        let lines: Vec<_> = complaint.lines().collect();
        assert_eq!(lines.len(), 1, "millpond {args}: {complaint}");
        assert!(lines[0].starts_with("millpond: "), "{complaint}");
        complaint
    }

    /// Runs it, asks it to stop (Ctrl-C) once it has made a file here, and expects that it stops
    /// with a sentence and leaves nothing behind.
    pub(crate) fn interrupted(&self, args: &str) {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while self.names().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains("interrupted"), "{}", text(&out.stderr));
        assert_eq!(self.names(), Vec::<String>::new());
    }

    /// Returns the names of the files here.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the text of a stream.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
