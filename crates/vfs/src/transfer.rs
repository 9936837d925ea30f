//! How far one read or write has come, and what the system's answer to it means: done, again from there, or failed.

use base::aligned::IO_ALIGN;
use rustix::io::Errno;
use std::io;

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

/// One read or write of `len` bytes at `offset`, of which `done` are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    direction: Direction,
    offset: u64,
    len: usize,
    done: usize,
    /// Positions at which the transfer may go on are multiples of this: direct I/O refuses others.
    grain: usize,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Progress {
    /// All bytes are done.
    Done,
    /// Ask for the rest.
    Again,
    /// It cannot be done.
    Failed(io::Error),
}

impl Transfer {
    /// A transfer of which nothing is done. `direct`: the file was opened for direct I/O.
    pub(crate) fn new(direction: Direction, offset: u64, len: usize, direct: bool) -> Transfer {
        Transfer { direction, offset, len, done: 0, grain: if direct { IO_ALIGN } else { 1 } }
    }

    /// What it does.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Bytes done.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.len - self.done
    }

    /// Where in the file the rest begins.
    pub(crate) fn at(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Takes the answer to a request for the rest.
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
        // What lies beyond the last multiple is asked for again.
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

    /// Says what was tried. The kind stays that of `cause`.
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
    fn direct_io_goes_on_at_an_aligned_place_and_ends_at_the_files_end() {
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
