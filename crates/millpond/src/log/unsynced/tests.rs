//! What a log that was not synced leaves to the next process.

use super::*;
use crate::log::LogStart;
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::tests::{FIRST, LogDir, SHAPE, WINDOW, commit, start};
use base::prng::Prng;
use metrics::SyncReason;

/// Returns the commits that the next process finds, where they end, and where those of the segments
/// end.
fn found(
    segments: &Segments,
    unsynced: Option<&UnsyncedBlocks>,
    epochs: &[EpochStart],
) -> (Vec<u64>, Lsn, Option<Lsn>) {
    let scanner = Scanner::new(segments, epochs, Lsn(0)).and_unsynced(unsynced);
    let (mut scanner, mut commits) = (scanner.read_ahead().unwrap(), Vec::new());
    while let Some(group) = scanner.next().unwrap() {
        for record in Records::new(group.records) {
            if let Ok(Record::Commit { txn }) = record {
                commits.push(txn.0);
            }
        }
    }
    let (end, segments_end) = (scanner.position(), scanner.segments_end());
    scanner.check_end(WINDOW, Lsn(0)).unwrap();
    (commits, end, segments_end)
}

/// Some commits are synced, some outlive the process, some do neither. The next process finds all
/// up to the last that had to outlive this one, over several laps of the log buffer.
#[test]
fn what_outlives_the_process_is_found_and_copied_into_the_segments() {
    for seed in 0..12 {
        let dir = LogDir::new(&format!("unsynced-{seed}"));
        let mut rng = Prng::new(seed);
        let vfs = Vfs::os();
        let log = dir.log(start()).with_unsynced(&vfs, dir.path());
        let (mut promised, count) = (None, rng.between(1, 400));
        for n in 0..count {
            let lsn = commit(&log, n, rng.below(3000) as usize);
            match rng.below(8) {
                0 => drop(log.flush_to(lsn, SyncReason::Commit).unwrap()),
                1 => continue,
                _ => log.outlive(lsn, SyncReason::Commit).unwrap(),
            }
            promised = Some(n);
            log.make_room().unwrap();
        }
        drop(log);
        let (segments, epochs) = (dir.segments(), [FIRST]);
        let unsynced = UnsyncedBlocks::read(&vfs, dir.path(), SHAPE.db_id, 1).unwrap();
        let (commits, end, from) = found(&segments, Some(&unsynced), &epochs);
        assert!(commits.iter().copied().eq(0..commits.len() as u64), "seed {seed}: {commits:?}");
        assert!(commits.len() as u64 >= promised.map_or(0, |n| n + 1), "seed {seed}: of {promised:?}");
        unsynced.copy_into(&segments, from.unwrap(), end).unwrap();
        let (again, same_end, _) = found(&dir.segments(), None, &epochs);
        assert_eq!((again, same_end), (commits, end), "seed {seed}");
    }
}

/// The next run begins an epoch. What is left in the file is of the last one, and counts no more.
#[test]
fn blocks_of_an_earlier_epoch_do_not_count() {
    let (dir, vfs) = (LogDir::new("unsynced-epoch"), Vfs::os());
    let log = dir.log(start()).with_unsynced(&vfs, dir.path());
    let first = commit(&log, 1, 100);
    log.flush_to(first, SyncReason::Commit).unwrap();
    let end = log.durable_lsn();
    log.outlive(commit(&log, 2, 9000), SyncReason::Commit).unwrap();
    drop(log);
    // A power cut has lost the file, and it comes back after the next run has begun.
    let epochs = [FIRST, EpochStart { epoch: 2, first: block_start(1) }];
    let prev_used = offset_in_block(end) as u16;
    let log = dir.log(LogStart { lsn: block_start(1), end, prev_used, epoch: 2 });
    log.flush_to(commit(&log, 3, 100), SyncReason::Commit).unwrap();
    drop(log);
    let unsynced = UnsyncedBlocks::read(&vfs, dir.path(), SHAPE.db_id, 2).unwrap();
    assert_eq!(found(&dir.segments(), Some(&unsynced), &epochs).0, [1, 3]);
    let other = UnsyncedBlocks::read(&vfs, dir.path(), SHAPE.db_id + 1, 1).unwrap();
    assert!(other.offsets.is_empty(), "of another database");
}

#[test]
fn commits_are_synced_where_the_file_cannot_be_written() {
    let (dir, vfs) = (LogDir::new("unsynced-refused"), Vfs::os());
    let log = dir.log(start()).with_unsynced(&vfs, Path::new("/proc/no such directory"));
    for n in 0..3 {
        let lsn = commit(&log, n, 100);
        log.outlive(lsn, SyncReason::Commit).unwrap();
        assert!(log.durable_lsn() > lsn);
    }
}

/// In the block where the log of the segments ends, a power cut may leave anything in the file
/// below that end.
#[test]
fn a_torn_block_of_the_file_harms_nothing_below_the_end_of_the_segments() {
    let (dir, vfs) = (LogDir::new("unsynced-torn"), Vfs::os());
    let log = dir.log(start()).with_unsynced(&vfs, dir.path());
    log.flush_to(commit(&log, 1, 1500), SyncReason::Commit).unwrap();
    log.outlive(commit(&log, 2, 100), SyncReason::Commit).unwrap();
    drop(log);
    let mut unsynced = UnsyncedBlocks::read(&vfs, dir.path(), SHAPE.db_id, 1).unwrap();
    let at = unsynced.offsets[&0];
    unsynced.bytes[at + 512..at + 1024].fill(7);
    let segments = dir.segments();
    let (commits, end, from) = found(&segments, Some(&unsynced), &[FIRST]);
    assert_eq!(commits, [1, 2]);
    unsynced.copy_into(&segments, from.unwrap(), end).unwrap();
    assert_eq!(found(&dir.segments(), None, &[FIRST]).0, [1, 2]);
}
