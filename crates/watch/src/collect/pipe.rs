//! A workload's output: it is passed on byte by byte as it is, and its lines are looked at.

use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};

/// A longer line is not looked at as one, bytes.
const LINE_BYTES: usize = 1 << 20;
/// What is read at once, bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Reads standard input in a thread of its own, so that Ctrl-C is seen while nothing comes.
pub(super) fn stdin() -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(64);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match stdin.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => {
                    if sender.send(chunk[..n].to_vec()).is_err() {
                        break;
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    });
    receiver
}

/// Cuts chunks into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Returns the lines that end in a chunk.
    pub(super) fn add(&mut self, chunk: &[u8]) -> Vec<String> {
        let mut whole = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= LINE_BYTES {
                whole.extend(self.end());
            }
        }
        whole
    }

    /// Returns the line that has begun; the output has ended.
    pub(super) fn end(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        let text = String::from_utf8_lossy(&line);
        (!line.is_empty()).then(|| text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_into_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"one\r\ntw"), ["one"]);
        assert_eq!(lines.add(b"o\n\nthr\xff"), ["two", ""]);
        assert_eq!(lines.end().as_deref(), Some("thr\u{fffd}"));
        assert_eq!(lines.end(), None);
        assert_eq!(
            lines.add(&vec![b'x'; LINE_BYTES + 1]).len(),
            1,
            "a line without an end is no lack of memory"
        );
    }
}
