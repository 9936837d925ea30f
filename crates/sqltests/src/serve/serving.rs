//! A running `millpond serve`.

use crate::output;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
pub(super) const LIFE: Duration = Duration::from_secs(420);

/// A running `millpond serve`. Dropping it kills it.
pub(super) struct Serving {
    child: Child,
    pub(super) url: String,
    pub(super) port: u16,
    pub(super) token: String,
}

impl Serving {
    pub(super) fn start(program: &Path, dir: &Path, targets: &[&str]) -> Result<Serving, String> {
        let mut command = Command::new("timeout");
        // Without `--foreground` it passes each signal on twice: to the program, and to its group.
        command.args(["--foreground", &LIFE.as_secs().to_string()]).arg(program);
        command.arg("serve").args(targets).args(["--listen", "127.0.0.1:0"]);
        command.env("HOME", dir).env_remove("MYSQL_PWD").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start the program: {e}"))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("the program has no output")?;
        BufReader::new(out).read_line(&mut line).map_err(|e| e.to_string())?;
        let parsed = line.strip_prefix("dashboard:").map(str::trim).and_then(|url| {
            let (address, token) = url.strip_prefix("http://")?.trim_end_matches('/').split_once('/')?;
            Some((url.to_owned(), address.split_once(':')?.1.parse().ok()?, token.to_owned()))
        });
        let (url, port, token) = parsed.ok_or_else(|| format!("serve says {line:?}"))?;
        Ok(Serving { child, url, port, token })
    }

    /// Sends a signal as Ctrl-C does, and waits for the end.
    pub(super) fn interrupt(mut self) -> Result<(), String> {
        output(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("after Ctrl-C: {status}")) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = output(Command::new("kill").arg(self.child.id().to_string()));
        let _ = self.child.wait();
    }
}
