//! The undo files: hardened undo is read back, unused files are removed, and damage is detected.

use super::super::fetch::{HeldPiece, PieceCache, UndoAccess};
use super::super::history_batch::BatchMember;
use super::super::history_batches::HistoryBatches;
use super::super::record::UndoEntry;
use super::super::stream::Stream;
use super::*;
use base::{Lsn, TreeId};
use vfs::mem::MemDisk;

const DIR: &str = "/undo";

fn open(disk: &MemDisk, files: &[(u32, u64)], wanted: &[(u64, u64)]) -> Result<(Journal, Streams)> {
    open_within(disk, files, wanted, u64::MAX)
}

fn open_within(
    disk: &MemDisk,
    files: &[(u32, u64)],
    wanted: &[(u64, u64)],
    memory: u64,
) -> Result<(Journal, Streams)> {
    let hardened = wanted.iter().map(|&(txn, len)| (TxnId(txn), len)).collect();
    let vfs = disk.vfs(1);
    let _ = vfs.disk.create_dir(Path::new(DIR));
    let streams = Streams::default();
    let (metrics, poison) = (Arc::default(), Arc::default());
    let options = JournalOptions {
        vfs: &vfs,
        dir: Path::new(DIR),
        db_id: 9,
        listed: files,
        hardened: &hardened,
        memory,
        metrics: &metrics,
        poison: &poison,
    };
    let journal = Journal::open(&options, &streams)?;
    Ok((journal, streams))
}

fn write(stream: &Stream, records: u64) {
    for n in 0..records {
        let key = vec![n as u8; (n % 50) as usize];
        stream.append(UndoEntry::Insert { tree: TreeId(3), key: &key });
    }
}

/// Hardens all undo of the streams. Returns the files of a list that names them.
fn harden(journal: &mut Journal, streams: &[&Stream]) -> Vec<(u32, u64)> {
    let mut numbers = Vec::new();
    for stream in streams {
        let chunks = stream.unplaced(true, usize::MAX);
        let locations = journal.append(&chunks).unwrap();
        for (chunk, location) in chunks.iter().zip(locations) {
            stream.set_location(chunk.from, location);
        }
        stream.files(&mut numbers);
    }
    journal.sync(&numbers.into_iter().collect()).unwrap()
}

fn bytes(stream: &Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(stream.copy(&mut bytes));
    bytes
}

#[test]
fn hardened_undo_is_read_back_up_to_the_length_in_the_list() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let (a, b) = (streams.begin(TxnId(1)), streams.begin(TxnId(2)));
    write(&a, 10);
    write(&b, 300);
    harden(&mut journal, &[&a, &b]);
    let first = a.end();
    write(&a, 5);
    let files = harden(&mut journal, &[&a, &b]);
    assert_eq!((a.in_files(), b.in_files()), (a.end(), b.end()));
    let (_, back) = open(&disk, &files, &[(1, first), (2, b.end()), (3, 0)]).unwrap();
    assert_eq!(back.len(), 2);
    let back = |txn| bytes(&back.get(TxnId(txn)).unwrap());
    assert!(back(1) == bytes(&a)[..first as usize] && back(2) == bytes(&b));
    let missing = open(&disk, &files, &[(1, a.end() + 1)]).unwrap_err();
    assert!(matches!(missing, Error::Corrupt { .. }), "{missing}");
}

/// A transaction may have changed more than memory holds when a crash cuts it off. Opening must not
/// need that much memory.
#[test]
fn undo_that_is_read_back_stays_within_its_memory_limit() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let (a, b) = (streams.begin(TxnId(1)), streams.begin(TxnId(2)));
    write(&a, 40_000);
    write(&b, 10);
    let (all, few) = (bytes(&a), bytes(&b));
    let files = harden(&mut journal, &[&a, &b]);
    let memory = 100_000;
    assert!(all.len() > 10 * memory);
    let wanted = [(1, a.end()), (2, b.end())];
    let (_journal, back) = open_within(&disk, &files, &wanted, memory as u64).unwrap();
    assert!(back.bytes() <= memory as u64, "{} bytes", back.bytes());
    let (again, short) = (back.get(TxnId(1)).unwrap(), back.get(TxnId(2)).unwrap());
    assert_eq!((again.end(), again.position(), short.position()), (a.end(), a.position(), b.position()));
    let (cache, mut held) = (PieceCache::default(), HeldPiece::default());
    for (stream, wanted) in [(again, all), (short, few)] {
        let mut at = 0;
        while at < wanted.len() as u64 {
            let mut out = Vec::new();
            match stream.read(at, &held, |record| record.encode(at, &mut out)).unwrap() {
                UndoAccess::Away(piece) => cache.fetch(&piece, &mut held).unwrap(),
                UndoAccess::Here(()) => {
                    assert_eq!(out, wanted[at as usize..at as usize + out.len()]);
                    at += out.len() as u64;
                }
            }
        }
    }
}

#[test]
fn a_stream_that_was_hardened_twice_in_other_chunks_is_read_back_once() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let (first, again) = (streams.begin(TxnId(1)), Stream::new(TxnId(1), Arc::default()));
    write(&first, 7);
    harden(&mut journal, &[&first]);
    write(&again, 4);
    harden(&mut journal, &[&again]);
    for n in 4..60 {
        again.append(UndoEntry::Insert { tree: TreeId(3), key: &vec![n as u8; (n % 50) as usize] });
    }
    let files = harden(&mut journal, &[&again]);
    let (_, back) = open(&disk, &files, &[(1, again.end())]).unwrap();
    assert!(bytes(&back.get(TxnId(1)).unwrap()) == bytes(&again));
}

#[test]
fn undo_that_was_freed_from_memory_is_fetched() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let stream = streams.begin(TxnId(1));
    write(&stream, 20_000);
    let all = bytes(&stream);
    let before = streams.bytes();
    harden(&mut journal, &[&stream]);
    assert!(stream.forget(100_000) >= 100_000 && streams.bytes() < before);
    write(&stream, 300);
    stream.forget(u64::MAX);
    let (cache, mut held, mut at, mut seen) = (PieceCache::default(), HeldPiece::default(), 0, 0);
    while at < all.len() as u64 {
        let look = |held: &HeldPiece| {
            stream.read(at, held, |record| {
                let mut out = Vec::new();
                record.encode(at, &mut out);
                out
            })
        };
        match look(&held).unwrap() {
            UndoAccess::Away(piece) => cache.fetch(&piece, &mut held).unwrap(),
            UndoAccess::Here(record) => {
                assert_eq!(record, all[at as usize..at as usize + record.len()]);
                at += record.len() as u64;
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 20_000);
    assert!(cache.reads() > 3 && cache.reads() < 40, "{} reads", cache.reads());
    let (disk, files) = (disk.fork(), stream.in_files());
    disk.flip(Path::new("/undo/00000001"), 5000, 1).unwrap();
    assert!(files > 5000);
    let (journal, again) = open(&disk, &[], &[]).unwrap();
    drop((journal, again));
}

#[test]
fn history_batches_return_the_undo_and_a_commit_that_stands_for_each_member() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let (history, cache) = (HistoryBatches::default(), PieceCache::default());
    let member = |n: u64| {
        // Commits in another order than ids.
        let txn = TxnId(100 + n * 37 % 120);
        let stream = streams.begin(txn);
        write(&stream, n % 7);
        BatchMember {
            txn,
            lsn: Lsn(1000 + 10 * n),
            purge: n.is_multiple_of(5),
            len: stream.end() as usize,
            stream,
        }
    };
    let mut members: Vec<BatchMember> = (0..120).map(member).collect();
    let all: Vec<_> = members.iter().map(|m| (m.txn, m.lsn, m.purge, bytes(&m.stream))).collect();
    for written in [1, 119] {
        let (now, later) = members.split_at_mut(written);
        let (ones, twos) = now.split_at_mut(written / 3);
        let groups = [ones, twos].into_iter().filter(|group| !group.is_empty());
        history.insert(journal.append_history_batches(groups).unwrap());
        members = later.iter_mut().map(|m| BatchMember { stream: Arc::clone(&m.stream), ..*m }).collect();
    }
    // The first member of each batch.
    let firsts = [0, 1, 40];
    for (n, (txn, lsn, _, bytes)) in all.iter().enumerate() {
        let first = firsts.into_iter().rfind(|first| *first <= n).unwrap();
        assert_eq!(history.commit_of(*txn, Lsn(1000)), Some(all[first].1));
        assert_eq!(history.commit_of(*txn, all[119].1), Some(all[first].1), "{lsn:?}");
        assert_eq!(history.commit_of(*txn, Lsn(all[119].1.0 + 1)), None, "all history batches lie below");
        let (piece, mut held) = (history.piece_of(*txn).unwrap(), HeldPiece::default());
        cache.fetch(&piece, &mut held).unwrap();
        assert_eq!(held.bytes(&piece), Some(&bytes[..]), "{txn}");
    }
    assert_eq!(history.commit_of(TxnId(99), Lsn::ZERO), None);
    let mut to_purge = Vec::new();
    while let Some(batch) = history.due(Lsn::MAX) {
        let (piece, mut held) = (batch.piece(), HeldPiece::default());
        cache.fetch(&piece, &mut held).unwrap();
        to_purge.extend(held.to_purge(&piece).unwrap());
        history.remove(&batch);
    }
    to_purge.sort();
    let wanted = all.into_iter().filter(|(.., purge, _)| *purge).map(|(txn, _, _, bytes)| (txn, bytes));
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort();
    assert!(to_purge == wanted && history.is_empty() && history.memory() == 0);
}

#[test]
fn a_file_is_removed_when_it_is_unused() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let stream = streams.begin(TxnId(1));
    write(&stream, 1);
    let files = harden(&mut journal, &[&stream]);
    // Another run: it has its own file, beside that of the transaction which is still unfinished.
    let (mut journal, streams) = open(&disk, &files, &[(1, stream.end())]).unwrap();
    let (old, new) = (streams.get(TxnId(1)).unwrap(), streams.begin(TxnId(2)));
    write(&new, 1);
    journal.retire().unwrap();
    assert_eq!(harden(&mut journal, &[&old, &new]).len(), 2);
    journal.remove_retired().unwrap();
    let names = |disk: &MemDisk| disk.vfs(1).disk.list(Path::new(DIR)).unwrap();
    assert_eq!(names(&disk), ["00000001", "00000002"]);
    streams.remove(TxnId(1));
    drop(old);
    journal.sweep().unwrap();
    // Only now may the root of the list that names it be written.
    journal.remove_retired().unwrap();
    assert_eq!(names(&disk), ["00000001", "00000002"], "the durable root names it");
    journal.retire().unwrap();
    assert_eq!(harden(&mut journal, &[&new]).len(), 1);
    assert_eq!(names(&disk), ["00000001", "00000002"], "the durable root may still name it");
    journal.remove_retired().unwrap();
    assert_eq!(names(&disk), ["00000002"]);
}

/// The first run's checkpoint hardened a transaction. It committed, so the next checkpoint did not
/// list it. A crash lost the redo of the commit. The second run rebuilt the undo from redo and
/// hardened it again, in other pieces.
#[test]
fn an_older_copy_in_other_pieces_does_no_harm() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let (stream, other) = (streams.begin(TxnId(1)), streams.begin(TxnId(2)));
    write(&other, 1);
    for _ in 0..3 {
        write(&stream, 10);
        harden(&mut journal, &[&stream]);
    }
    let files = harden(&mut journal, &[&stream, &other]);
    // The other transaction keeps the file. The list says nothing of this one.
    let (mut journal, streams) = open(&disk, &files, &[(2, other.end())]).unwrap();
    let (stream, other) = (streams.begin(TxnId(1)), streams.get(TxnId(2)).unwrap());
    for _ in 0..4 {
        write(&stream, 10);
    }
    let files = harden(&mut journal, &[&stream, &other]);
    assert_eq!(files.len(), 2);
    let (_, streams) = open(&disk, &files, &[(1, stream.end()), (2, other.end())]).unwrap();
    let again = streams.get(TxnId(1)).unwrap();
    assert!(bytes(&again) == bytes(&stream));
}

#[test]
fn every_flipped_byte_that_matters_is_detected() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    let stream = streams.begin(TxnId(1));
    write(&stream, 10);
    let (files, end) = (harden(&mut journal, &[&stream]), stream.end());
    let used = (0..BLOCK)
        .chain(BLOCK..BLOCK + 12)
        .chain(BLOCK + BATCH_HEAD..BLOCK + BATCH_HEAD + CHUNK_HEAD + end as usize);
    for at in used.step_by(7) {
        let disk = disk.fork();
        disk.flip(Path::new("/undo/00000001"), at as u64, 1).unwrap();
        assert!(open(&disk, &files, &[(1, end)]).is_err(), "byte {at}");
    }
}

/// Where undo files may take no space at all, undo that must go to a file does not begin a new one
/// each time.
#[test]
fn a_file_takes_many_batches_however_small_the_limit_of_all_files_is() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    journal.set_total_bytes(0);
    let stream = streams.begin(TxnId(1));
    let mut files = Vec::new();
    for _ in 0..20 {
        write(&stream, 3);
        files = harden(&mut journal, &[&stream]);
    }
    assert_eq!(files.len(), 3, "{files:?}");
}

/// Other files in the directory are left alone unless they are named like undo files.
#[test]
fn foreign_files_are_left_alone_and_the_last_number_is_an_error() {
    let disk = MemDisk::default();
    drop(open(&disk, &[], &[]).unwrap());
    let vfs = disk.vfs(1);
    let mode = OpenMode { create: Create::New, direct: false, read_only: false };
    let make = |name: &str| drop(vfs.disk.open(&Path::new(DIR).join(name), mode).unwrap());
    ["7", "00000003", "+0000009", "notes"].into_iter().for_each(make);
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    write(&streams.begin(TxnId(1)), 3);
    harden(&mut journal, &[&streams.get(TxnId(1)).unwrap()]);
    journal.remove_retired().unwrap();
    assert_eq!(vfs.disk.list(Path::new(DIR)).unwrap(), ["+0000009", "00000004", "7", "notes"]);
    make("4294967295");
    let error = open(&disk, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("/undo/4294967295") && error.contains("no number is left"), "{error}");
}

/// A list says where history batches are. An impossible location is an error, not an overflow.
#[test]
fn listed_batches_at_an_impossible_place_are_an_error() {
    let disk = MemDisk::default();
    let (mut journal, streams) = open(&disk, &[], &[]).unwrap();
    write(&streams.begin(TxnId(1)), 3);
    harden(&mut journal, &[&streams.get(TxnId(1)).unwrap()]);
    for (from, to) in [(8192, 4096), (0, 8192), (5000, 8192), (u64::MAX, 8192)] {
        let batches = ListedBatches { file: 1, from, to, txns: 1 };
        let error = journal.open_history_batches(&[batches]).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{from} to {to}: {error}");
    }
}
