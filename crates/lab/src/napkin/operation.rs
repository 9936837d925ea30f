//! What is measured, and what napkin-math has published of it.
//!
//! The figures are those of the table of <https://github.com/sirupsen/napkin-math>, as it was
//! renewed on 2026-03-08: a virtual machine of GCP, c4-standard-48-lssd, with 24 cores of an Intel
//! Xeon 6985P-C; its disks are several local ones as one. They are rounded.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    SequentialMemory,
    SequentialMemoryAllCores,
    RandomMemory,
    Crc32c,
    SipHash,
    Mutex,
    SystemCall,
    ContextSwitch,
    TcpEcho,
    Sort,
    SequentialRead,
    RandomRead,
    Write,
    WriteFsync,
}

/// The unit of a row. Of a rate more is better, of a time less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    GibPerSecond,
    MibPerSecond,
    Nanoseconds,
    Microseconds,
}

use Operation as O;

impl Operation {
    /// All, in the order of the table. Memory comes first, then what needs no disk.
    pub(super) const ALL: [Operation; 14] = [
        O::SequentialMemory,
        O::SequentialMemoryAllCores,
        O::RandomMemory,
        O::Crc32c,
        O::SipHash,
        O::Mutex,
        O::SystemCall,
        O::ContextSwitch,
        O::TcpEcho,
        O::Sort,
        O::SequentialRead,
        O::RandomRead,
        O::Write,
        O::WriteFsync,
    ];

    /// Says what it does.
    pub(super) fn name(self) -> &'static str {
        match self {
            O::SequentialMemory => "read memory in order, one thread",
            O::SequentialMemoryAllCores => "read memory in order, a thread for each core",
            O::RandomMemory => "read 64 bytes of memory at a random place",
            O::Crc32c => "hash 64 bytes, CRC32C",
            O::SipHash => "hash 64 bytes, SipHash-1-3",
            O::Mutex => "lock and unlock a mutex that nobody holds",
            O::SystemCall => "system call (getpid)",
            O::ContextSwitch => "context switch between two threads",
            O::TcpEcho => "TCP echo of 32 KiB, loopback",
            O::Sort => "sort 64-bit integers",
            O::SequentialRead => "read a file in order, 8 KiB each",
            O::RandomRead => "read 8 KiB of a file at a random place",
            O::Write => "write a file in order, 8 KiB each, no fsync",
            O::WriteFsync => "write 8 KiB and fsync",
        }
    }

    /// Returns the published figure, if there is one, in the unit of the row. Both hashes stand
    /// beside the one row for hashes that are not cryptographic.
    pub(super) fn published(self) -> Option<f64> {
        Some(match self {
            O::SequentialMemory => 20.0,
            O::SequentialMemoryAllCores => 200.0,
            O::RandomMemory => 20.0,
            O::Crc32c | O::SipHash => 10.0,
            O::Mutex => return None,
            O::SystemCall => 300.0,
            O::ContextSwitch => 10.0,
            O::TcpEcho => 50.0,
            O::Sort => 500.0,
            O::SequentialRead => 8.0,
            O::RandomRead => 100.0,
            O::Write => 3.0,
            O::WriteFsync => 300.0,
        })
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            O::SequentialMemory | O::SequentialMemoryAllCores | O::SequentialRead | O::Write => {
                Unit::GibPerSecond
            }
            O::Sort => Unit::MibPerSecond,
            O::RandomMemory | O::Crc32c | O::SipHash | O::Mutex | O::SystemCall => Unit::Nanoseconds,
            O::ContextSwitch | O::TcpEcho | O::RandomRead | O::WriteFsync => Unit::Microseconds,
        }
    }
}

impl Unit {
    /// Converts what `bytes` bytes took.
    pub(super) fn of(self, ns: f64, bytes: u64) -> f64 {
        let per_second = bytes as f64 / (ns.max(1e-9) / 1e9);
        match self {
            Unit::GibPerSecond => per_second / f64::from(1 << 30),
            Unit::MibPerSecond => per_second / f64::from(1 << 20),
            Unit::Nanoseconds => ns,
            Unit::Microseconds => ns / 1e3,
        }
    }

    /// Returns how many times as fast `here` is as `published`.
    pub(super) fn times_as_fast(self, here: f64, published: f64) -> f64 {
        match self {
            Unit::GibPerSecond | Unit::MibPerSecond => here / published,
            Unit::Nanoseconds | Unit::Microseconds => published / here.max(1e-9),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::GibPerSecond => "GiB/s",
            Unit::MibPerSecond => "MiB/s",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "µs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_converted_and_compared_by_its_unit() {
        assert!((Unit::GibPerSecond.of(1e9, 3 << 30) - 3.0).abs() < 1e-9);
        assert!((Unit::MibPerSecond.of(1e6, 1 << 20) - 1000.0).abs() < 1e-9);
        assert!((Unit::Nanoseconds.of(20.0, 64) - 20.0).abs() < 1e-9);
        assert!((Unit::Microseconds.of(20_000.0, 8192) - 20.0).abs() < 1e-9);
        assert!((Unit::GibPerSecond.times_as_fast(10.0, 20.0) - 0.5).abs() < 1e-9);
        assert!((Unit::Microseconds.times_as_fast(10.0, 20.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn every_row_is_there_once() {
        for (n, one) in Operation::ALL.iter().enumerate() {
            assert!(!Operation::ALL[..n].contains(one), "{one:?}");
            assert!(one.published().is_none_or(|published| published > 0.0), "{one:?}");
        }
    }
}
