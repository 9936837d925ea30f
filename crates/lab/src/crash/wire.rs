//! The messages from a child process to the parent. They are short, so a pipe writes each
//! completely or not at all.
//!
//! ```text
//! kind u8 | thread u24 | number u64      all little-endian; kinds 4 and 6: `number` more bytes
//!                                        kind 8: the tenth of a second in place of `thread`
//!                                        kind 0: the upper half of `number` is a time
//! ```

use crate::workload::row::{ROW_BYTES, Row};
use output::failure::{Failure, Outcome};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;

const HEAD: usize = 12;
/// Together with the head, less than PIPE_BUF, 4096.
const LONGEST_TEXT: usize = 4000;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The victim's commit returned.
    Acknowledged {
        /// The thread, from 0.
        thread: u32,
        /// Its transaction, from 1.
        number: u32,
        /// When the commit was called, milliseconds since the victim's start.
        called_ms: u32,
    },
    /// The current redo length of the victim, for the progress line.
    RedoLength(u64),
    /// The last message of the victim: its redo length.
    Dying(u64),
    /// The time ended before the log was long enough; its length.
    NotReached(u64),
    /// The database is open after the kill.
    Opened,
    /// The reopener's first transaction is durable; the row that it had read.
    Committed(Option<Row>),
    /// All redo is applied and all losers are reverted.
    Recovered,
    /// The child runs, and ends with its parent from now on.
    Started,
    /// The commits of one tenth of a second, counted from 0.
    Commits {
        /// The tenth of a second, less than 2^24.
        tenth: u32,
        /// How many returned in it.
        commits: u64,
    },
    /// The open returned after so many microseconds.
    OpenedAfter(u64),
    /// The first commit returned so many microseconds after the start of the open.
    FirstCommit(u64),
    /// All redo was applied and all losers were reverted so many microseconds after the start of
    /// the open.
    RecoveredAfter(u64),
    /// The child failed; the reason.
    Failed(String),
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        let plain = |kind: u8, number: u64| (kind, 0, number, Vec::new());
        let (kind, thread, number, tail) = match self {
            Message::Acknowledged { thread, number, called_ms } => {
                (0u8, *thread, u64::from(*number) | u64::from(*called_ms) << 32, Vec::new())
            }
            Message::RedoLength(bytes) => plain(1, *bytes),
            Message::Dying(bytes) => plain(2, *bytes),
            Message::NotReached(bytes) => plain(3, *bytes),
            Message::Committed(None) => plain(4, 0),
            Message::Committed(Some(row)) => (4, 0, ROW_BYTES as u64, row.encode().to_vec()),
            Message::Recovered => plain(5, 0),
            Message::Opened => plain(7, 0),
            Message::Commits { tenth, commits } => (8, *tenth, *commits, Vec::new()),
            Message::FirstCommit(us) => plain(9, *us),
            Message::RecoveredAfter(us) => plain(10, *us),
            Message::Started => plain(11, 0),
            Message::OpenedAfter(us) => plain(12, *us),
            Message::Failed(text) => {
                let text = &text.as_bytes()[..text.len().min(LONGEST_TEXT)];
                (6, 0, text.len() as u64, text.to_vec())
            }
        };
        let mut out = vec![kind];
        out.extend_from_slice(&thread.to_le_bytes()[..3]);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&tail);
        out
    }
}

/// The child's end of the pipe.
pub(crate) struct Outbox(File);

impl Outbox {
    /// Uses stdout, which the parent has replaced by a pipe.
    pub(crate) fn stdout() -> Outcome<Outbox> {
        let fd = std::io::stdout().as_fd().try_clone_to_owned();
        fd.map(|fd| Outbox(File::from(fd))).map_err(|e| Failure::failed(format!("cannot use stdout: {e}")))
    }

    /// Sends a message with one write.
    pub(crate) fn send(&self, message: &Message) -> Outcome {
        (&self.0)
            .write_all(&message.encode())
            .map_err(|e| Failure::failed(format!("cannot write to the parent process: {e}")))
    }
}

/// Runs a child's work and sends a failure to the parent. Only the parent prints messages for the
/// user.
pub(crate) fn send_failure(work: impl FnOnce(&Outbox) -> Outcome) -> Outcome {
    let outbox = Outbox::stdout()?;
    work(&outbox).or_else(|failure| outbox.send(&Message::Failed(failure.to_string())))
}

/// The parent's end of the pipe.
pub(crate) struct Inbox<R>(BufReader<R>);

impl<R: Read> Inbox<R> {
    /// Reads messages from a pipe.
    pub(crate) fn new(pipe: R) -> Inbox<R> {
        Inbox(BufReader::new(pipe))
    }

    /// Returns the next message; `None` when the child has ended.
    pub(crate) fn next(&mut self) -> Outcome<Option<Message>> {
        let garbled = || Failure::failed("a child process sent an invalid message");
        let mut head = [0; HEAD];
        match self.0.read_exact(&mut head) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(Failure::failed(format!("cannot read from a child process: {e}"))),
        }
        let thread = u32::from_le_bytes([head[1], head[2], head[3], 0]);
        let [_, _, _, _, number @ ..] = head;
        let number = u64::from_le_bytes(number);
        Ok(Some(match head[0] {
            0 => Message::Acknowledged { thread, number: number as u32, called_ms: (number >> 32) as u32 },
            1 => Message::RedoLength(number),
            2 => Message::Dying(number),
            3 => Message::NotReached(number),
            4 if number == 0 => Message::Committed(None),
            4 if number == ROW_BYTES as u64 => {
                let mut row = [0; ROW_BYTES];
                self.0.read_exact(&mut row).map_err(|_| garbled())?;
                Message::Committed(Row::decode(&row))
            }
            5 => Message::Recovered,
            7 => Message::Opened,
            8 => Message::Commits { tenth: thread, commits: number },
            9 => Message::FirstCommit(number),
            10 => Message::RecoveredAfter(number),
            11 => Message::Started,
            12 => Message::OpenedAfter(number),
            6 if number <= LONGEST_TEXT as u64 => {
                let mut text = vec![0; number as usize];
                self.0.read_exact(&mut text).map_err(|_| garbled())?;
                Message::Failed(String::from_utf8_lossy(&text).into_owned())
            }
            _ => return Err(garbled()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let messages = [
            Message::Acknowledged { thread: 15, number: 70_000, called_ms: 1 << 31 },
            Message::RedoLength(5),
            Message::Committed(Some(Row::random(4, &mut Prng::new(1)))),
            Message::Committed(None),
            Message::Recovered,
            Message::Opened,
            Message::Commits { tenth: 70_000, commits: 500 },
            Message::FirstCommit(310_000),
            Message::RecoveredAfter(1 << 40),
            Message::Started,
            Message::OpenedAfter(120_000),
            Message::NotReached(1 << 40),
            Message::Dying(u64::MAX),
            Message::Failed("no space left".into()),
        ];
        let bytes: Vec<u8> = messages.iter().flat_map(|m| m.encode()).collect();
        let mut inbox = Inbox::new(&bytes[..]);
        for message in messages {
            assert_eq!(inbox.next().unwrap(), Some(message));
        }
        assert_eq!(inbox.next().unwrap(), None);
        assert!(Inbox::new(&[99u8; 12][..]).next().is_err());
    }
}
