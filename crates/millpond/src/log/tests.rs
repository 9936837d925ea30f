//! The log as a whole. Acknowledged commits are read back; a log that was cut or has a hole ends
//! there or is refused, by the rule.

use super::block::{
    BLOCK_BYTES, HEADER_BYTES, LSN_END, PAYLOAD_BYTES, block_of, block_start, offset_in_block, round_up,
};
use super::group::{self, GROUP_HEADER_BYTES, Record, Records};
use super::reader::{EpochStart, Scanner};
use super::segment::{SegmentShape, Segments, file_offset};
use super::{Log, LogOptions, LogStart};
use crate::environment::Environment;
use crate::error::{Error, Result};
use base::sync::{Parker, Unparker};
use base::{Lsn, TxnId};
use metrics::{M, Metrics, SyncReason};
use std::path::PathBuf;
use std::sync::Arc;
use vfs::Vfs;

pub(super) const SHAPE: SegmentShape = SegmentShape { db_id: 77, blocks: 64 };
const OPTIONS: LogOptions = LogOptions { ring_blocks: 64, flush_depth: 4 };
pub(super) const WINDOW: u64 = 64 * PAYLOAD_BYTES as u64;
pub(super) const FIRST: EpochStart = EpochStart { epoch: 1, first: Lsn(0) };

pub(crate) struct LogDir(PathBuf);

impl LogDir {
    pub(crate) fn new(name: &str) -> LogDir {
        let dir = std::env::temp_dir().join(format!("millpond-log-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        LogDir(dir)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn segments(&self) -> Segments {
        Segments::open(&Vfs::os(), &[&self.0], SHAPE, &Arc::new(Metrics::new())).unwrap()
    }

    pub(crate) fn log(&self, start: LogStart) -> Log {
        self.log_of(Vfs::os(), start, Parker::new().unparker())
    }

    /// A log with the clock of `vfs` that wakes this log thread.
    pub(super) fn log_of(&self, vfs: Vfs, start: LogStart, log_thread: Unparker) -> Log {
        Log::new(&Environment::new(vfs), OPTIONS, start, self.segments(), log_thread)
    }

    /// Reads every commit, checks the end, and returns both. Read-ahead must make no difference.
    fn read(&self, epochs: &[EpochStart], from: Lsn, known: Lsn) -> Result<(Vec<u64>, Lsn)> {
        let segments = self.segments();
        let plain = Self::read_by(Scanner::new(&segments, epochs, from), known);
        let ahead = Self::read_by(Scanner::new(&segments, epochs, from).read_ahead()?, known);
        assert_eq!(format!("{plain:?}"), format!("{ahead:?}"));
        plain
    }

    fn read_by(mut scanner: Scanner<'_>, known: Lsn) -> Result<(Vec<u64>, Lsn)> {
        let mut commits = Vec::new();
        while let Some(group) = scanner.next()? {
            for record in Records::new(group.records) {
                if let Ok(Record::Commit { txn }) = record {
                    commits.push(txn.0);
                }
            }
        }
        scanner.check_end(WINDOW, known)?;
        Ok((commits, scanner.position()))
    }

    /// Overwrites block `block` with zeros, as if it had never been written.
    fn lose(&self, block: u64) {
        let segments = self.segments();
        let segment = segments.find(SHAPE.segment_of(block)).unwrap();
        let zeros = base::aligned::AlignedBuf::zeroed(BLOCK_BYTES);
        segment.file.write_at(&zeros, file_offset(SHAPE, block)).unwrap();
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn start() -> LogStart {
    LogStart { lsn: Lsn(0), end: Lsn(0), prev_used: PAYLOAD_BYTES as u16, epoch: 1 }
}

/// Appends a commit of transaction `n` with `bulk` bytes before it in the same group.
pub(crate) fn commit(log: &Log, n: u64, bulk: usize) -> Lsn {
    let mut group = Vec::new();
    group::begin(&mut group);
    if bulk > 0 {
        group::put_record(&mut group, &Record::Checkpoint { body: &vec![n as u8; bulk] });
    }
    group::put_record(&mut group, &Record::Commit { txn: TxnId(n) });
    log.append(&mut group, |_| ())
}

#[test]
fn flushed_groups_are_read_back_across_segments_and_laps_of_the_ring() {
    let dir = LogDir::new("round");
    let log = dir.log(start());
    for n in 0..2000 {
        let lsn = commit(&log, n, (n as usize * 37) % 3000);
        if n % 3 == 0 {
            log.flush_to(lsn, SyncReason::Commit).unwrap();
            assert!(log.durable_lsn() > lsn);
        }
        log.make_room().unwrap();
    }
    let last = commit(&log, 2000, 0);
    log.flush_to(last, SyncReason::Commit).unwrap();
    let end = log.durable_lsn();
    assert!(SHAPE.segment_of(block_of(end)) > 5, "several segments");
    let (commits, read_to) = dir.read(&[FIRST], Lsn(0), end).unwrap();
    assert_eq!(commits, (0..=2000).collect::<Vec<_>>());
    assert_eq!(read_to, end);
}

/// A word of the ring once held only 52 bits of a position, and the log ended there.
#[test]
fn the_log_continues_beyond_four_pebibytes() {
    let dir = LogDir::new("far");
    let first = block_start(block_of(Lsn(1 << 52)) / SHAPE.blocks * SHAPE.blocks - SHAPE.blocks);
    let log = dir.log(LogStart { lsn: first, end: first, ..start() });
    for n in 0..400 {
        let lsn = commit(&log, n, (n as usize * 37) % 5000);
        if n % 3 == 0 {
            log.flush_to(lsn, SyncReason::Commit).unwrap();
            assert!(log.durable_lsn() > lsn);
        }
        log.make_room().unwrap();
    }
    let last = commit(&log, 400, 0);
    log.flush_to(last, SyncReason::Commit).unwrap();
    let end = log.durable_lsn();
    assert!(first < Lsn(1 << 52) && end > Lsn(1 << 52), "{first} to {end}");
    let (commits, read_to) = dir.read(&[EpochStart { epoch: 1, first }], first, end).unwrap();
    assert_eq!((commits, read_to), ((0..=400).collect::<Vec<_>>(), end));
}

/// The very last position poisons: a position beyond it could not be told from the beginning.
#[test]
fn the_last_position_of_the_log_is_an_error() {
    let dir = LogDir::new("last");
    let first = block_start(block_of(LSN_END) / SHAPE.blocks * SHAPE.blocks);
    let log = dir.log(LogStart { lsn: first, end: first, ..start() });
    let error = (0..2000).find_map(|n| {
        let lsn = commit(&log, n, 3000);
        log.flush_to(lsn, SyncReason::Commit).err()
    });
    let error = error.unwrap().to_string();
    assert!(error.contains("the log has reached its last position"), "{error}");
    assert!(log.durable_lsn() < LSN_END);
}

#[test]
fn after_the_end_of_the_log_a_block_is_zero() {
    let dir = LogDir::new("zeros");
    let log = dir.log(start());
    for n in 1..200 {
        let lsn = commit(&log, n, (n as usize * 613) % 5000);
        log.flush_to(lsn, SyncReason::Commit).unwrap();
        let end = log.durable_lsn();
        let (block, used) = (block_of(Lsn(end.0 - 1)), offset_in_block(end));
        if used == 0 {
            continue;
        }
        let segment = dir.segments().find(SHAPE.segment_of(block)).unwrap();
        let mut bytes = base::aligned::AlignedBuf::zeroed(BLOCK_BYTES);
        segment.file.read_at(&mut bytes, file_offset(SHAPE, block)).unwrap();
        let rest = &bytes[BLOCK_BYTES - PAYLOAD_BYTES + used..];
        assert!(rest.iter().all(|byte| *byte == 0), "commit {n}: block {block} holds more than the log");
    }
}

#[test]
fn many_threads_commit_and_nothing_acknowledged_is_missing() {
    let dir = LogDir::new("threads");
    let log = Arc::new(dir.log(start()));
    let threads: Vec<_> = (0..8u64)
        .map(|id| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let mut lsns = Vec::new();
                for n in 0..200 {
                    let committing = log.committing();
                    let lsn = commit(&log, id * 1000 + n, 50);
                    log.flush_to(lsn, SyncReason::Commit).unwrap();
                    assert!(log.durable_lsn() > lsn);
                    drop(committing);
                    lsns.push(lsn);
                }
                assert!(lsns.is_sorted());
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let (mut commits, end) = dir.read(&[FIRST], Lsn(0), log.durable_lsn()).unwrap();
    commits.sort_unstable();
    let expected: Vec<_> = (0..8).flat_map(|id| (0..200).map(move |n| id * 1000 + n)).collect();
    assert_eq!(commits, expected);
    // Also where the last flush was sealed and nothing follows its padding.
    assert_eq!(end, log.durable_lsn());
}

/// A hole ends the log if nothing proves that the log was longer. A new epoch begins there, and the
/// blocks of the old epoch after the hole are never read again.
#[test]
fn a_torn_tail_ends_the_log_and_later_blocks_are_never_read_again() {
    let dir = LogDir::new("tail");
    let log = dir.log(start());
    let mut lsns = Vec::new();
    for n in 0..40 {
        lsns.push(commit(&log, n, 1000));
    }
    log.flush_to(lsns[39], SyncReason::Commit).unwrap();
    drop(log);
    dir.lose(block_of(lsns[20]));
    let (commits, end) = dir.read(&[FIRST], Lsn(0), Lsn(0)).unwrap();
    let kept = commits.len() as u64;
    assert_eq!(commits, (0..kept).collect::<Vec<_>>());
    assert!(kept <= 20);

    let again = round_up(end);
    let used = if offset_in_block(end) == 0 { PAYLOAD_BYTES } else { offset_in_block(end) };
    let log = dir.log(LogStart { lsn: again, end, prev_used: used as u16, epoch: 2 });
    let lsn = commit(&log, 1000, 3900);
    log.flush_to(lsn, SyncReason::Commit).unwrap();
    let epochs = [FIRST, EpochStart { epoch: 2, first: again }];
    let (commits, _) = dir.read(&epochs, Lsn(0), log.durable_lsn()).unwrap();
    assert_eq!(commits, (0..kept).chain([1000]).collect::<Vec<_>>());
}

/// A group is looked at by itself, also where the groups before it in its block were whole.
#[test]
fn a_flipped_bit_in_the_middle_of_a_block_ends_the_log() {
    let dir = LogDir::new("flipped");
    let log = dir.log(start());
    let lsns: Vec<Lsn> = (0..100).map(|n| commit(&log, n, 60)).collect();
    log.flush_to(lsns[99], SyncReason::Commit).unwrap();
    drop(log);
    for n in [93u64, 92, 60, 20, 1, 0] {
        let at = lsns[n as usize].plus(GROUP_HEADER_BYTES as u64 + 5);
        let segments = dir.segments();
        let segment = segments.find(SHAPE.segment_of(block_of(at))).unwrap();
        let mut block = base::aligned::AlignedBuf::zeroed(BLOCK_BYTES);
        segment.file.read_at(&mut block, file_offset(SHAPE, block_of(at))).unwrap();
        block[HEADER_BYTES + offset_in_block(at)] ^= 4;
        segment.file.write_at(&block, file_offset(SHAPE, block_of(at))).unwrap();
        let (commits, _) = dir.read(&[FIRST], Lsn(0), Lsn(0)).unwrap();
        assert_eq!(commits, (0..n).collect::<Vec<_>>());
    }
}

/// The first block of an epoch is lost, a later one of the same flush is not. The later one once
/// named the start of the epoch as durable, beyond the end of the groups before it, and the log was
/// called damaged.
#[test]
fn a_lost_first_flush_of_an_epoch_is_no_damage() {
    let dir = LogDir::new("epoch");
    let log = dir.log(start());
    let lsn = commit(&log, 1, 1000);
    log.flush_to(lsn, SyncReason::Commit).unwrap();
    let end = log.durable_lsn();
    drop(log);
    assert!(offset_in_block(end) > 0);
    let (again, prev_used) = (round_up(end), offset_in_block(end) as u16);
    let log = dir.log(LogStart { lsn: again, end, prev_used, epoch: 2 });
    let lsn = commit(&log, 2, 9000);
    log.flush_to(lsn, SyncReason::Commit).unwrap();
    drop(log);
    dir.lose(block_of(again));
    let epochs = [FIRST, EpochStart { epoch: 2, first: again }];
    let (commits, found) = dir.read(&epochs, Lsn(0), end).unwrap();
    assert_eq!((commits, found), (vec![1], end));
}

/// The same hole is damage as soon as a later flush named a durable LSN above it, or the root names
/// one.
#[test]
fn a_hole_below_the_durable_lsn_is_reported() {
    let dir = LogDir::new("hole");
    let log = dir.log(start());
    let mut last = Lsn(0);
    for n in 0..10 {
        last = commit(&log, n, 5000);
        log.flush_to(last, SyncReason::Commit).unwrap();
    }
    let durable = log.durable_lsn();
    drop(log);
    dir.lose(3);
    let error = dir.read(&[FIRST], Lsn(0), Lsn(0)).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what, .. } if what.contains("names LSN")), "{error}");
    assert!(error.to_string().contains("0000000000000000.log"), "{error}");

    let dir = LogDir::new("known");
    let log = dir.log(start());
    let lsn = commit(&log, 1, 5000);
    log.flush_to(lsn, SyncReason::Commit).unwrap();
    drop(log);
    dir.lose(1);
    let error = dir.read(&[FIRST], Lsn(0), durable.min(last)).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what, .. } if what.contains("the root knows")), "{error}");
}

#[test]
fn a_single_committer_rewrites_the_tail_block_without_padding() {
    let dir = LogDir::new("alone");
    let log = dir.log(start());
    for n in 0..50 {
        let _committing = log.committing();
        let lsn = commit(&log, n, 0);
        log.flush_to(lsn, SyncReason::Commit).unwrap();
    }
    assert_eq!(log.metrics.get(M::RedoPadBytes), 0);
    assert_eq!(log.metrics.get(M::LogFlushes), 50);
    assert_eq!(block_of(log.durable_lsn()), 0);
}

#[test]
fn segments_below_the_checkpoint_are_recycled() {
    let dir = LogDir::new("recycle");
    let log = dir.log(start());
    let mut durable = Lsn(0);
    for n in 0..600 {
        let lsn = commit(&log, n, 3000);
        log.make_room().unwrap();
        log.flush_to(lsn, SyncReason::Commit).unwrap();
        durable = log.durable_lsn();
        log.segments().recycle_below(durable).unwrap();
    }
    assert!(SHAPE.segment_of(block_of(durable)) > 5);
    let files = std::fs::read_dir(&dir.0).unwrap().count();
    assert!(files <= 4, "{files} files for a capacity of four segments");
}

/// A thread may still read the redo of a page when replay ends. The file that it opened for that
/// stayed open until the database was closed.
#[test]
fn no_segment_is_opened_once_more_when_no_thread_has_use_for_it() {
    let dir = LogDir::new("cached");
    let segments = dir.segments();
    segments.at_least(1, Lsn(0)).unwrap();
    let (written, cached) = (segments.find(0).unwrap(), segments.find_cached(0).unwrap());
    assert!(!Arc::ptr_eq(&written, &cached) && Arc::ptr_eq(&cached, &segments.find_cached(0).unwrap()));
    segments.end_cached();
    assert_eq!(Arc::strong_count(&cached), 1, "it is closed with its last reader");
    assert!(Arc::ptr_eq(&written, &segments.find_cached(0).unwrap()));
}

#[test]
fn a_shrinking_log_keeps_the_segments_that_may_be_written() {
    let dir = LogDir::new("shrink");
    let log = dir.log(start());
    let segments = log.segments();
    segments.make_more(10, Lsn(0)).unwrap();
    let mut n = 0;
    let mut write_into = |segment: u64| {
        while SHAPE.segment_of(block_of(log.reserved_lsn())) < segment {
            let lsn = commit(&log, n, 3000);
            log.make_room().unwrap();
            log.flush_to(lsn, SyncReason::Commit).unwrap();
            n += 1;
        }
    };
    write_into(3);
    segments.shrink_to(8, Lsn::ZERO, || log.reserved_lsn()).unwrap();
    assert_eq!(segments.numbers(), (0..8).collect::<Vec<_>>());
    segments.shrink_to(1, Lsn::ZERO, || log.reserved_lsn()).unwrap();
    assert_eq!(segments.numbers(), (0..5).collect::<Vec<_>>(), "the one being written and one ahead");
    write_into(5);
    segments.recycle_below(block_start(2 * SHAPE.blocks)).unwrap();
    assert_eq!(segments.numbers(), (2..8).collect::<Vec<_>>());
}
