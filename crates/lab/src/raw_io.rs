//! Files below the engine: without the page cache where the file system allows that, and work in
//! many threads.

use base::aligned::AlignedBuf;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Opens a file without the page cache; with it if the file system does not allow that. Returns the
/// file, and whether it is without.
pub(crate) fn open_uncached(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    direct.map(|file| (file, true)).or_else(|_| Ok((options.open(path)?, false)))
}

/// Returns bytes for direct writes that are not zero.
pub(crate) fn filled(bytes: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(bytes);
    buffer.fill(1);
    buffer
}

/// Does the work in so many threads, each with its number, and returns their results.
pub(crate) fn in_threads<T: Send>(
    threads: u32,
    work: impl Fn(u32) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        let joined = started.into_iter().map(ScopedJoinHandle::join);
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Returns how long the work takes.
pub(crate) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    work().map(|()| begun.elapsed())
}
