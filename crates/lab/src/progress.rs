//! The live line on stderr: rewritten in place on a terminal, one plain line a second elsewhere.

use std::io::{IsTerminal, Write};

/// Where progress goes.
#[derive(Debug)]
pub(crate) struct Progress {
    in_place: bool,
    open_line: bool,
}

impl Progress {
    /// Progress on stderr.
    pub(crate) fn on_stderr() -> Progress {
        Progress { in_place: std::io::stderr().is_terminal(), open_line: false }
    }

    /// Shows how things stand.
    pub(crate) fn show(&mut self, line: &str) {
        let mut err = std::io::stderr().lock();
        // Who reads stderr may be gone; the run goes on without an audience.
        let _ = if self.in_place { write!(err, "\r\x1b[2K{line}") } else { writeln!(err, "{line}") };
        let _ = err.flush();
        self.open_line = self.in_place;
    }

    /// Ends the line that is being rewritten, so that what follows starts on its own.
    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.open_line) {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
