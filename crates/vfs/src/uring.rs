//! One io_uring. It does a batch of reads or writes of one file with many in flight, and returns
//! when the kernel no longer uses any byte of the batch.
#![allow(unsafe_code)]

use crate::transfer::{Direction, Progress, Transfer};
use base::sync::spin;
use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The places of a ring, and the most reads in flight. The device gains nothing from more than 32.
const DEPTH: u32 = 64;
/// The most writes in flight. A commit's write of the log queues behind them, and its sync waits
/// for them. The device is as busy with 8 of them as with 64 (decision 0173).
const WRITES: usize = 16;

/// One read or write of a batch, with the memory that it borrows.
pub(crate) struct RingJob<'a> {
    transfer: Transfer,
    memory: *mut u8,
    _borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> RingJob<'a> {
    /// Makes a job that fills `bytes` from `offset`.
    pub(crate) fn read(bytes: &'a mut [u8], offset: u64, direct: bool) -> RingJob<'a> {
        let transfer = Transfer::new(Direction::Read, offset, bytes.len(), direct);
        RingJob { transfer, memory: bytes.as_mut_ptr(), _borrowed: PhantomData }
    }

    /// Makes a job that writes `bytes` at `offset`. The kernel only reads the memory of a write.
    pub(crate) fn write(bytes: &'a [u8], offset: u64, direct: bool) -> RingJob<'a> {
        let transfer = Transfer::new(Direction::Write, offset, bytes.len(), direct);
        RingJob { transfer, memory: bytes.as_ptr().cast_mut(), _borrowed: PhantomData }
    }

    fn entry(&self, fd: types::Fd, index: usize) -> io_uring::squeue::Entry {
        // SAFETY: `done` is at most the length of the borrowed memory.
        let from = unsafe { self.memory.add(self.transfer.done()) };
        // A longer request comes back short, and goes on from there.
        let len = self.transfer.left().min(1 << 30) as u32;
        let at = self.transfer.at();
        let entry = match self.transfer.direction() {
            Direction::Read => opcode::Read::new(fd, from, len).offset(at).build(),
            Direction::Write => opcode::Write::new(fd, from, len).offset(at).build(),
        };
        entry.user_data(index as u64)
    }
}

/// A ring. It holds the files that it was made with open. So a lock on one of them survives this
/// process until the kernel has finished the requests that were in flight when the process died
/// (Fi6).
pub(crate) struct Ring {
    ring: IoUring,
    /// The kernel has refused to go on. No other batch may use this ring, because it may still have
    /// entries of this one.
    broken: bool,
    /// The number of the set of files that it holds.
    pub(crate) generation: u64,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring(generation {})", self.generation)
    }
}

impl Ring {
    /// Makes a ring that holds `files` open.
    pub(crate) fn new(files: &[Arc<OwnedFd>], generation: u64) -> io::Result<Ring> {
        let ring = IoUring::new(DEPTH)?;
        if !files.is_empty() {
            let raw: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
            ring.submitter().register_files(&raw)?;
        }
        Ok(Ring { ring, broken: false, generation })
    }

    /// Checks whether this kernel can do batches. Returns what is missing.
    pub(crate) fn probe() -> Result<(), String> {
        let ring = IoUring::new(DEPTH).map_err(|e| format!("io_uring: {e}"))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|e| format!("io_uring: {e}"))?;
        let has = |code| probe.is_supported(code);
        if has(opcode::Read::CODE) && has(opcode::Write::CODE) {
            Ok(())
        } else {
            Err("io_uring: the kernel is too old to read and write by it".into())
        }
    }

    /// Whether another batch may use it.
    pub(crate) fn is_sound(&self) -> bool {
        !self.broken
    }

    /// Does all jobs, which are all reads or all writes, in any order. After an error some of the
    /// others are done and some are not.
    pub(crate) fn run(&mut self, fd: BorrowedFd<'_>, jobs: &mut [RingJob<'_>]) -> io::Result<()> {
        let fd = types::Fd(fd.as_raw_fd());
        let reads = jobs.first().is_none_or(|job| job.transfer.direction() == Direction::Read);
        let most = if reads { DEPTH as usize } else { WRITES };
        let mut in_flight = InFlight { ring: self, unanswered: 0 };
        let mut again: Vec<usize> = Vec::new();
        let mut next = 0;
        let mut answers = Vec::with_capacity(DEPTH as usize);
        let mut spins = 0;
        loop {
            while in_flight.unanswered < most {
                let index = match again.pop() {
                    Some(index) => index,
                    None if next < jobs.len() => {
                        next += 1;
                        next - 1
                    }
                    None => break,
                };
                // SAFETY: `jobs` borrows the entry's memory, and nothing else uses it during this
                // call; `fd` borrows its file. A return or a panic ends this call only after
                // `InFlight` has been dropped, which waits until the kernel has answered every
                // entry.
                unsafe { in_flight.push(&jobs[index].entry(fd, index)) };
            }
            if in_flight.unanswered == 0 {
                return Ok(());
            }
            match in_flight.ring.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) => match Errno::from_io_error(&e) {
                    Some(Errno::INTR) => {}
                    // Memory or room for answers is short. It goes on when some answers have been
                    // taken.
                    Some(Errno::AGAIN | Errno::BUSY) => spin(&mut spins),
                    _ => {
                        in_flight.ring.broken = true;
                        return Err(io::Error::new(e.kind(), format!("io_uring: {e}")));
                    }
                },
            }
            in_flight.take_answers(&mut answers);
            for (index, result) in answers.drain(..) {
                let answer = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
                match jobs[index].transfer.answered(answer) {
                    Progress::Done => {}
                    Progress::Again => again.push(index),
                    Progress::Failed(error) => return Err(error),
                }
            }
        }
    }
}

/// Entries that have been pushed and not answered. Dropping it waits for the answers.
struct InFlight<'r> {
    ring: &'r mut Ring,
    unanswered: usize,
}

impl InFlight<'_> {
    /// Pushes an entry.
    ///
    /// # Safety
    /// The entry's memory and file must stay valid until this has been dropped.
    unsafe fn push(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: the caller guarantees it.
        let pushed = unsafe { self.ring.ring.submission().push(entry) };
        base::check!(pushed.is_ok(), "the ring has {DEPTH} places, and fewer are in use");
        self.unanswered += 1;
    }

    fn take_answers(&mut self, answers: &mut Vec<(usize, i32)>) {
        let before = answers.len();
        answers.extend(self.ring.ring.completion().map(|cqe| (cqe.user_data() as usize, cqe.result())));
        self.unanswered -= answers.len() - before;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut spins = 0;
        let mut answers = Vec::new();
        while self.unanswered > 0 {
            let waited = if self.ring.broken { Ok(0) } else { self.ring.ring.submit_and_wait(1) };
            match waited.map_err(|e| Errno::from_io_error(&e)) {
                Ok(0) | Err(Some(Errno::AGAIN | Errno::BUSY)) => spin(&mut spins),
                Ok(_) | Err(Some(Errno::INTR)) => {}
                Err(_) => self.ring.broken = true,
            }
            self.take_answers(&mut answers);
            answers.clear();
            if self.ring.broken {
                // The kernel will never take the entries that it has not taken yet: a broken ring
                // is not submitted again.
                let not_taken = self.ring.ring.submission().len();
                if self.unanswered == not_taken {
                    break;
                }
            }
        }
    }
}
