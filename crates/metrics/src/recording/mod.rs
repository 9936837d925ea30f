//! The flight recorder's format: samples of all metrics in a ring of bytes, hours in a few MiB.
//!
//! A recording is a head and a ring of chunks. The head names the *cells*: all
//! numbers of a [`Snapshot`](crate::Snapshot) in a row, those of the histograms' buckets too. So a
//! program of another version still knows what each number means. A chunk is a sequence of records,
//! each with its checksum: the beginning of a session, or a sample, which holds only the cells that
//! have changed since the sample before. The first sample of a chunk and of a session has all that
//! are not 0, so each chunk can be read alone, and the oldest one can be overwritten.
//!
//! Everything here works on bytes in memory. The engine keeps the file.

mod cells;
mod delta;
mod layout;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Recording, Sample, Samples, Unreadable};
pub use write::{Moment, Piece, Writer};
