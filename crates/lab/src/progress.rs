//! The progress line on stderr: rewritten in place on a terminal, else one plain line a second.

use std::io::{IsTerminal, Write};

/// The progress line.
#[derive(Debug)]
pub(crate) struct Progress {
    in_place: bool,
    open_line: bool,
}

impl Progress {
    /// Shows progress on stderr.
    pub(crate) fn on_stderr() -> Progress {
        Progress { in_place: std::io::stderr().is_terminal(), open_line: false }
    }

    /// Shows a line.
    pub(crate) fn show(&mut self, line: &str) {
        let mut err = std::io::stderr().lock();
        // The reader of stderr may have ended; the run continues.
        let _ = if self.in_place { write!(err, "\r\x1b[2K{line}") } else { writeln!(err, "{line}") };
        let _ = err.flush();
        self.open_line = self.in_place;
    }

    /// Ends the line that is being rewritten, so the next output starts on a new line.
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
