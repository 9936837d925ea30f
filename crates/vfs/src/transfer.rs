//! The progress of one read or write: whether the system's answer means that it is done, must go
//! on, or has failed.

use base::aligned::IO_ALIGN;
use rustix::io::Errno;
use std::io;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

/// One read or write of `len` bytes at `offset`. The first `done` bytes are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    direction: Direction,
    offset: u64,
    len: usize,
    done: usize,
    /// The transfer can only go on at multiples of this: direct I/O refuses other offsets.
    grain: usize,
}

/// What to do after an answer of the system.
#[derive(Debug)]
pub(crate) enum Progress {
    /// All bytes are done.
    Done,
    /// Ask for the rest.
    Again,
    /// The transfer has failed.
    Failed(io::Error),
}

impl Transfer {
    /// Makes a transfer with nothing done. `direct`: the file was opened for direct I/O.
    pub(crate) fn new(direction: Direction, offset: u64, len: usize, direct: bool) -> Transfer {
        Transfer { direction, offset, len, done: 0, grain: if direct { IO_ALIGN } else { 1 } }
    }

    /// Returns the direction.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns how many bytes are done.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Returns how many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.len - self.done
    }

    /// Returns the file offset at which the rest begins.
    pub(crate) fn at(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Takes the system's answer to a request for the rest.
    pub(crate) fn answered(&mut self, answer: Result<usize, Errno>) -> Progress {
        let done = match answer {
            Ok(n) => self.done + n.min(self.left()),
            Err(Errno::INTR | Errno::AGAIN) => return Progress::Again,
            Err(errno) => return Progress::Failed(self.error(errno.into())),
        };
        if done == self.len {
            self.done = done;
            return Progress::Done;
        }
        // The part after the last multiple is asked for again.
        let done = done - done % self.grain;
        if done == self.done {
            let kind = match self.direction {
                Direction::Read => io::ErrorKind::UnexpectedEof,
                Direction::Write => io::ErrorKind::WriteZero,
            };
            return Progress::Failed(self.error(kind.into()));
        }
        self.done = done;
        Progress::Again
    }

    /// Returns an error that names the transfer. Its kind is that of `cause`.
    pub(crate) fn error(&self, cause: io::Error) -> io::Error {
        let what = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let (len, offset) = (self.len, self.offset);
        io::Error::new(cause.kind(), format!("{what} of {len} bytes at offset {offset}: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(direct: bool) -> Transfer {
        Transfer::new(Direction::Read, 8192, 16384, direct)
    }

    #[test]
    fn a_short_answer_goes_on_where_it_stopped() {
        let mut t = read(false);
        assert!(matches!(t.answered(Ok(5000)), Progress::Again));
        assert_eq!((t.at(), t.left()), (13192, 11384));
        assert!(matches!(t.answered(Err(Errno::INTR)), Progress::Again));
        assert!(matches!(t.answered(Err(Errno::AGAIN)), Progress::Again));
        assert_eq!(t.done(), 5000, "an interruption changes nothing");
        assert!(matches!(t.answered(Ok(11384)), Progress::Done));
    }

    #[test]
    fn direct_io_goes_on_at_an_aligned_offset_and_fails_at_the_end_of_the_file() {
        let mut t = read(true);
        assert!(matches!(t.answered(Ok(5000)), Progress::Again));
        assert_eq!((t.at(), t.left()), (12288, 12288));
        let Progress::Failed(e) = t.answered(Ok(904)) else { panic!("the file ends inside a block") };
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_error_names_the_operation_and_keeps_its_kind() {
        let mut t = Transfer::new(Direction::Write, 4096, 8192, true);
        let Progress::Failed(e) = t.answered(Err(Errno::NOSPC)) else {
            panic!("no space is no reason to go on")
        };
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        assert!(e.to_string().starts_with("write of 8192 bytes at offset 4096: "), "{e}");
        let Progress::Failed(e) = t.answered(Ok(0)) else { panic!("nothing was written") };
        assert_eq!(e.kind(), io::ErrorKind::WriteZero);
    }
}
