//! The kinds of work, their threads, and one step of each.

use crate::peer::{LOAD_BATCH, PeerKind, Promise, Result, Session, Write, key};
use crate::random::{Random, VALUE_BYTES, digest};
use std::hint::black_box;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// All rows in key order, 10,000 in a transaction, each transaction durable.
    Load,
    /// All rows in key order into an empty database, by the peer's bulk load.
    Bulk,
    /// A row read by its key in its own transaction.
    PointRead,
    /// 100 rows read by their keys in one transaction; each counts.
    PointReads100,
    /// 100 rows in key order, beginning at a random one.
    Scan,
    /// A row updated, durable.
    Update,
    /// Two rows put, one deleted and put again, durable.
    FourWrites,
    /// A row updated, not synced.
    Unsynced,
    /// A row updated, durable, with 1,000 commits in flight.
    Async,
    /// The size of the files, after the load and after minutes of updates.
    Size,
}

/// Rows of a scan, and reads of a transaction of [`Work::PointReads100`].
pub const MANY: usize = 100;
/// Commits in flight in [`Work::Async`].
pub const IN_FLIGHT: usize = 1_000;

impl Work {
    /// All of them, in the order of a round: reads come before writes.
    pub const ALL: [Work; 10] = [
        Work::Bulk,
        Work::Load,
        Work::PointRead,
        Work::PointReads100,
        Work::Scan,
        Work::Update,
        Work::FourWrites,
        Work::Unsynced,
        Work::Async,
        Work::Size,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Work::Load => "load",
            Work::Bulk => "bulk",
            Work::PointRead => "point-read",
            Work::PointReads100 => "point-reads-100",
            Work::Scan => "scan-100",
            Work::Update => "update",
            Work::FourWrites => "four-writes",
            Work::Unsynced => "unsynced",
            Work::Async => "async",
            Work::Size => "size",
        }
    }

    /// Returns what its result counts.
    pub fn unit(self) -> &'static str {
        match self {
            Work::Load => "rows loaded a second, sorted, durable every 10,000",
            Work::Bulk => "rows loaded a second, sorted, into an empty database, durable at the end",
            Work::PointRead => "rows read a second, one in a transaction",
            Work::PointReads100 => "rows read a second, 100 in a transaction",
            Work::Scan => "scans of 100 rows a second",
            Work::Update => "durable updates of one row a second",
            Work::FourWrites => "durable transactions of four writes a second",
            Work::Unsynced => "updates of one row a second, not synced",
            Work::Async => "durable updates a second, 1,000 in flight from one thread",
            Work::Size => "bytes on disk",
        }
    }

    /// Returns the numbers of threads with which it is done.
    pub fn threads(self) -> &'static [usize] {
        match self {
            Work::Load | Work::Bulk | Work::Async => &[1],
            Work::PointRead | Work::PointReads100 | Work::Scan | Work::Unsynced => &[1, 16],
            Work::Update => &[1, 4, 16, 64],
            Work::FourWrites => &[16, 64],
            Work::Size => &[16],
        }
    }

    /// Returns what its commits promise.
    pub fn promise(self) -> Promise {
        if matches!(self, Work::Unsynced | Work::Size) { Promise::Unsynced } else { Promise::Durable }
    }

    /// Returns whether a peer can do it.
    pub fn fits(self, kind: &PeerKind) -> bool {
        self != Work::Async || kind.submits
    }

    /// Parses a list such as `scan-100,update`.
    pub fn choose(list: Option<&str>) -> std::result::Result<Vec<Work>, String> {
        let Some(list) = list else { return Ok(Work::ALL.to_vec()) };
        let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(wrong) = names.iter().find(|name| !Work::ALL.iter().any(|work| work.name() == **name)) {
            let all: Vec<&str> = Work::ALL.iter().map(|work| work.name()).collect();
            return Err(format!("there is no workload {wrong:?}; there are {}", all.join(", ")));
        }
        Ok(Work::ALL.into_iter().filter(|work| names.contains(&work.name())).collect())
    }

    /// Does one step on random rows below `rows` and returns how much it counts. `step` is the
    /// number of the thread's steps before it.
    pub fn step(self, session: &mut dyn Session, rows: u64, random: &mut Random, step: u64) -> Result<u64> {
        let mut row = || key(random.below(rows));
        let mut sum = 0u64;
        match self {
            Work::PointRead => {
                session.get(&[row()], &mut |value| sum = sum.wrapping_add(digest(value)))?;
                black_box(sum);
            }
            Work::PointReads100 => {
                let keys: [_; MANY] = std::array::from_fn(|_| row());
                session.get(&keys, &mut |value| sum = sum.wrapping_add(digest(value)))?;
                black_box(sum);
                return Ok(MANY as u64);
            }
            Work::Scan => {
                session.scan(row(), MANY, &mut |key, value| {
                    sum = sum.wrapping_add(digest(key)).wrapping_add(digest(value));
                })?;
                black_box(sum);
            }
            Work::Update | Work::Unsynced | Work::Size => {
                let (row, value) = (row(), random.value());
                session.write(&[Write::Put(row, &value)], self.promise())?;
            }
            Work::FourWrites => {
                let keys = [row(), row(), row()];
                let values: [[u8; VALUE_BYTES]; 3] = std::array::from_fn(|_| random.value());
                let writes = [
                    Write::Put(keys[0], &values[0]),
                    Write::Put(keys[1], &values[1]),
                    Write::Delete(keys[2]),
                    Write::Put(keys[2], &values[2]),
                ];
                session.write(&writes, Promise::Durable)?;
            }
            Work::Async => {
                let row = row();
                session.submit(row, &random.value())?;
                if step < IN_FLIGHT as u64 {
                    return Ok(0);
                }
                session.acknowledge()?;
            }
            Work::Bulk => {
                session.bulk(&mut (0..rows).map(|n| (key(n), random.value())))?;
                return Ok(rows);
            }
            Work::Load => {
                let from = step * LOAD_BATCH;
                let keys = from..rows.min(from + LOAD_BATCH);
                let values: Vec<_> = keys.clone().map(|_| random.value()).collect();
                let writes: Vec<_> = keys.zip(&values).map(|(n, value)| Write::Put(key(n), value)).collect();
                session.write(&writes, Promise::Durable)?;
                return Ok(writes.len() as u64);
            }
        }
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_chosen_by_name() {
        assert_eq!(Work::choose(None).unwrap(), Work::ALL);
        assert_eq!(Work::choose(Some("size, scan-100")).unwrap(), [Work::Scan, Work::Size]);
        assert!(Work::choose(Some("scan")).unwrap_err().contains("\"scan\""));
    }
}
