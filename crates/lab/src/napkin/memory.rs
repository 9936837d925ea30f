//! Reads of memory that is much larger than the caches.

use super::timing::ns_each;
use crate::raw_io::in_threads;
use base::aligned::AlignedBuf;
use base::prng::Prng;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A line of the caches, bytes.
const LINE_BYTES: usize = 64;
/// The buffer has at most and at least so many bytes; both are powers of two.
const MOST_BYTES: u64 = 512 << 20;
const LEAST_BYTES: u64 = 16 << 20;
/// A reader looks at the clock each time it has read so many bytes, and so many lines.
const PIECE_BYTES: usize = 1 << 20;
const LINES: u64 = 1 << 14;
/// How long the threads of all cores read.
const ALL_CORES_TIME: Duration = Duration::from_millis(400);

/// The memory that is read.
pub(super) struct Memory {
    buffer: AlignedBuf,
    /// Where the next piece begins.
    at: usize,
    places: Prng,
}

impl Memory {
    /// Takes it from what is free.
    pub(super) fn new() -> Memory {
        let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let buffer = AlignedBuf::zeroed(bytes_for(available(&told)) as usize);
        Memory { buffer, at: 0, places: Prng::new(1) }
    }

    /// Returns the nanoseconds in which one thread reads [`PIECE_BYTES`] in order.
    pub(super) fn in_order(&mut self) -> io::Result<f64> {
        ns_each(|| {
            black_box(sum(&self.buffer[self.at..][..PIECE_BYTES]));
            self.at = (self.at + PIECE_BYTES) % self.buffer.len();
            Ok(1)
        })
    }

    /// Returns the nanoseconds in which the threads of all cores read [`PIECE_BYTES`], each its own
    /// part in order.
    pub(super) fn in_order_by_all(&mut self) -> io::Result<f64> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Each has a whole piece at least.
        let cores = cores.min(self.buffer.len() / PIECE_BYTES);
        let part_bytes = self.buffer.len() / cores / PIECE_BYTES * PIECE_BYTES;
        let (pieces, stop, begun) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
        in_threads(cores as u32, |n| {
            let part = &self.buffer[n as usize * part_bytes..][..part_bytes];
            while !stop.load(Ordering::Relaxed) {
                for piece in part.chunks(PIECE_BYTES) {
                    black_box(sum(piece));
                    pieces.fetch_add(1, Ordering::Relaxed);
                    if begun.elapsed() >= ALL_CORES_TIME {
                        stop.store(true, Ordering::Relaxed);
                        break;
                    }
                }
            }
            Ok(())
        })?;
        Ok(begun.elapsed().as_nanos() as f64 / pieces.load(Ordering::Relaxed) as f64)
    }

    /// Returns the nanoseconds of a read of [`LINE_BYTES`] at a random place. The places do not
    /// depend on what was read, so the processor reads some of them at the same time.
    pub(super) fn at_random(&mut self) -> io::Result<f64> {
        let lines = (self.buffer.len() / LINE_BYTES) as u64;
        ns_each(|| {
            let mut all = 0;
            for _ in 0..LINES {
                let at = (self.places.next_u64() & (lines - 1)) as usize * LINE_BYTES;
                all ^= sum(&self.buffer[at..][..LINE_BYTES]);
            }
            black_box(all);
            Ok(LINES)
        })
    }
}

/// The bytes of the operation of [`Memory::in_order`].
pub(super) const IN_ORDER_BYTES: u64 = PIECE_BYTES as u64;

/// Reads all bytes.
fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// Returns the bytes of memory that are available, from /proc/meminfo; 0 if it does not tell.
fn available(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the size of the buffer: at most a quarter of what is available, and a power of two.
fn bytes_for(available: u64) -> u64 {
    let quarter = (available / 4).clamp(LEAST_BYTES, MOST_BYTES);
    1 << quarter.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_follows_from_the_memory_that_is_available() {
        for (available, bytes) in [
            (0, LEAST_BYTES),
            (100 << 20, LEAST_BYTES),
            (1 << 30, 256 << 20),
            (1500 << 20, 256 << 20),
            (64 << 30, MOST_BYTES),
        ] {
            assert_eq!(bytes_for(available), bytes, "{available}");
        }
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), 2 << 20);
        assert_eq!(available(""), 0);
    }

    #[test]
    fn a_sum_reads_every_word() {
        let mut bytes = vec![0; 128];
        (bytes[0], bytes[64], bytes[120]) = (1, 2, 3);
        assert_eq!(sum(&bytes), 6);
    }
}
