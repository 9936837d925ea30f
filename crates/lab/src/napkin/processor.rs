//! What a thread does alone: hashes, a mutex, a system call, a sort.

use super::timing::{ns_each, ns_each_of};
use crate::raw_io::timed;
use base::crc::crc32c;
use base::prng::Prng;
use std::hash::{DefaultHasher, Hasher};
use std::hint::black_box;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Operations between two looks at the clock.
const BATCH: u64 = 1000;
/// Bytes of a hash.
const HASHED_BYTES: usize = 64;
/// Integers of a sort: 8 MiB of them.
const SORTED: usize = 1 << 20;
/// The bytes of the operation of [`sort`].
pub(super) const SORTED_BYTES: u64 = SORTED as u64 * 8;

/// Returns the nanoseconds of one operation.
fn repeated(mut operation: impl FnMut()) -> io::Result<f64> {
    ns_each(|| {
        (0..BATCH).for_each(|_| operation());
        Ok(BATCH)
    })
}

/// Returns the nanoseconds of CRC32C over 64 bytes.
pub(super) fn crc() -> io::Result<f64> {
    let bytes = [7; HASHED_BYTES];
    repeated(|| {
        black_box(crc32c(black_box(&bytes)));
    })
}

/// Returns the nanoseconds of the standard library's hash over 64 bytes.
pub(super) fn sip_hash() -> io::Result<f64> {
    let bytes = [7; HASHED_BYTES];
    repeated(|| {
        let mut hasher = DefaultHasher::new();
        hasher.write(black_box(&bytes));
        black_box(hasher.finish());
    })
}

/// Returns the nanoseconds in which a mutex that nobody holds is locked and unlocked.
pub(super) fn mutex() -> io::Result<f64> {
    let mutex = Mutex::new(0u64);
    repeated(|| *black_box(&mutex).lock().unwrap_or_else(PoisonError::into_inner) += 1)
}

/// Returns the nanoseconds of a system call that does nearly nothing.
pub(super) fn system_call() -> io::Result<f64> {
    repeated(|| {
        black_box(rustix::process::getpid());
    })
}

/// Returns the nanoseconds in which [`SORTED`] random integers are sorted.
pub(super) fn sort() -> io::Result<f64> {
    let mut random = Prng::new(1);
    let unsorted: Vec<u64> = (0..SORTED).map(|_| random.next_u64()).collect();
    let mut sorted = unsorted.clone();
    ns_each_of(|| {
        sorted.copy_from_slice(&unsorted);
        let took = timed(|| {
            black_box(&mut sorted).sort_unstable();
            Ok(())
        })?;
        Ok((1, took))
    })
}
