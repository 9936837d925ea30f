//! View of the redo log: its segments, its end, its records, and the transactions that it leaves
//! unfinished.

use super::db_dir::{DbDir, percent, text_table};
use super::tail::{LogTail, scan_log};
use crate::checkpoint::list::{List, ListedBatches, Stage};
use crate::checkpoint::root::Root;
use crate::error::{Error, Poison, Result};
use crate::log::block::{BLOCK_BYTES, block_of, block_start};
use crate::log::group::{self, GROUP_HEADER_BYTES, Record, Records};
use crate::log::segment::{SegmentHeader, SegmentShape, Segments, read_header};
use crate::page::op::{PageOp, RowChange};
use crate::recover::undo::{Rebuild, read_list};
use crate::undo::Streams;
use crate::undo::journal::{Journal, JournalOptions};
use base::Lsn;
use base::codec::Reader;
use metrics::Metrics;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use vfs::{Create, OpenMode, Vfs};

/// How many of the last groups are shown.
const LAST_GROUPS: usize = 8;
/// How many transactions of one kind are shown.
const TRANSACTIONS_SHOWN: usize = 20;

pub(super) fn view(vfs: &Vfs, dir: &Path) -> Result<String> {
    let db = DbDir::open(vfs, dir)?;
    let root = db.root()?;
    let mut out = format!("{}: {}\n", db.dir.display(), db.in_use.sentence());
    show_segments(&db, &root, &mut out)?;
    for epoch in &root.epochs {
        writeln!(out, "epoch {} from LSN {}", epoch.epoch, epoch.first).unwrap();
    }
    let segments = match db.segments(&root) {
        Ok(segments) => segments,
        Err(error) => {
            writeln!(out, "DAMAGED: {error}").unwrap();
            return Ok(out);
        }
    };
    let mut content = LogContent::default();
    let tail = scan_log(&segments, &root, &mut |group| content.add(group.lsn, group.records))?;
    show_end(&root, &segments, &tail, &content, &mut out);
    content.show(&mut out);
    match read_list(&segments, &root) {
        Ok(list) => {
            show_list(&list, &root, &mut out);
            match unfinished(&db, &root, &segments, list) {
                Ok(text) => out.push_str(&text),
                Err(error) => writeln!(out, "DAMAGED: {error}").unwrap(),
            }
        }
        Err(error) => writeln!(out, "DAMAGED: {error}").unwrap(),
    }
    Ok(out)
}

fn show_segments(db: &DbDir, root: &Root, out: &mut String) -> Result {
    db.paths.redo_dirs().iter().try_for_each(|dir| show_segments_in(dir, db, root, out))
}

fn show_segments_in(dir: &Path, db: &DbDir, root: &Root, out: &mut String) -> Result {
    let names = db.vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let shape = SegmentShape { db_id: root.db_id, blocks: root.segment_blocks };
    let needed = shape.segment_of(block_of(root.checkpoint));
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        let path = dir.join(&name);
        if name == "LOCK" {
            continue;
        }
        if !name.ends_with(".log") {
            problems.push(format!("{name}: no segment, a draft that a crash left or a foreign file"));
            continue;
        }
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let file = db.vfs.disk.open(&path, mode).map_err(|e| Error::io("open", &path, e));
        match file.and_then(|file| read_header(&*file, &path, shape)) {
            Ok(SegmentHeader::Number(number)) => {
                let first = number * shape.blocks;
                let from = block_start(first);
                let state = if number < needed { "below the checkpoint" } else { "holds redo, or ready" };
                let state = if number == needed { "holds the checkpoint" } else { state };
                let range = format!("{from}–{}", from.plus(shape.payload_bytes()));
                rows.push(vec![name, number.to_string(), first.to_string(), range, state.to_owned()]);
            }
            Ok(SegmentHeader::Unfinished) => {
                problems.push(format!("{name}: no header was ever completed in it"));
            }
            Err(error) => problems.push(format!("DAMAGED: {error}")),
        }
    }
    let bytes = shape.blocks * BLOCK_BYTES as u64;
    writeln!(out, "{} segments of {} blocks ({bytes} bytes) in {}", rows.len(), shape.blocks, dir.display())
        .unwrap();
    out.push_str(&text_table(&["file", "number", "first block", "LSN", "state"], &rows));
    for problem in problems {
        writeln!(out, "  {problem}").unwrap();
    }
    Ok(())
}

fn show_end(root: &Root, segments: &Segments, tail: &LogTail, content: &LogContent, out: &mut String) {
    let number = segments.shape().segment_of(block_of(tail.end));
    writeln!(
        out,
        "checkpoint LSN {}; the log ends at LSN {} (segment {number}, block {})",
        root.checkpoint,
        tail.end,
        block_of(tail.end)
    )
    .unwrap();
    match &tail.broken {
        None => writeln!(out, "nothing vouches for more: the end is sound").unwrap(),
        Some(error) => writeln!(out, "DAMAGED: {error}").unwrap(),
    }
    let redo = tail.end.since(root.checkpoint);
    let pad = redo - content.group_bytes;
    writeln!(
        out,
        "redo behind the checkpoint: {redo} bytes in {} groups, {pad} of them padding ({})",
        tail.groups,
        percent(pad, redo)
    )
    .unwrap();
}

/// Counts the records of the groups.
#[derive(Default)]
struct LogContent {
    /// Number of records and their bytes, by kind.
    kinds: BTreeMap<&'static str, (u64, u64)>,
    group_bytes: u64,
    /// LSN and records of the last groups.
    last: VecDeque<(Lsn, Vec<u8>)>,
}

impl LogContent {
    fn add(&mut self, lsn: Lsn, records: &[u8]) {
        self.group_bytes += (GROUP_HEADER_BYTES + records.len()) as u64;
        let mut lengths = Reader::new(records);
        for record in Records::new(records) {
            let before = lengths.taken();
            let whole = lengths.prefixed().is_ok();
            let bytes = if whole { lengths.taken() - before } else { 0 };
            let kind = record.as_ref().map_or("malformed", kind_of);
            let sum = self.kinds.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes as u64);
        }
        let mut kept = match self.last.len() {
            LAST_GROUPS => self.last.pop_front().map(|(_, kept)| kept).unwrap_or_default(),
            _ => Vec::new(),
        };
        kept.clear();
        kept.extend_from_slice(records);
        self.last.push_back((lsn, kept));
    }

    fn show(&self, out: &mut String) {
        let rows: Vec<Vec<String>> = self
            .kinds
            .iter()
            .map(|(kind, (n, bytes))| {
                vec![(*kind).to_owned(), n.to_string(), bytes.to_string(), percent(*bytes, self.group_bytes)]
            })
            .collect();
        if rows.is_empty() {
            return;
        }
        out.push_str(&text_table(&["record", "number", "bytes", "share"], &rows));
        writeln!(out, "last groups:").unwrap();
        for (lsn, records) in &self.last {
            let what: Vec<String> = Records::new(records).map(|record| sentence(&record)).collect();
            let bytes = GROUP_HEADER_BYTES + records.len();
            writeln!(out, "  LSN {lsn}, {bytes} bytes: {}", what.join("; ")).unwrap();
        }
    }
}

/// Returns the name of a page change.
pub(super) fn op_name(op: &PageOp<'_>) -> &'static str {
    match op {
        PageOp::Row(row) => match row.change {
            RowChange::Insert { .. } => "row insert",
            RowChange::Replace { .. } => "row replace",
        },
        PageOp::Restore { .. } => "row restore",
        PageOp::Remove { .. } => "row remove",
        PageOp::Init { .. } => "node init",
        PageOp::PutChild { .. } => "put child",
        PageOp::RemoveChild { .. } => "remove child",
        PageOp::Cut { .. } => "cut",
        PageOp::Absorb { .. } => "absorb",
        PageOp::Free => "free page",
        PageOp::InitMap => "map init",
        PageOp::MapOwn { .. } => "map own",
        PageOp::MapSet { .. } => "map set",
        PageOp::MapClear { .. } => "map clear",
        PageOp::MapRelease { .. } => "map release",
        PageOp::InitOverflow { .. } => "overflow init",
        PageOp::SetNext { .. } => "overflow link",
        PageOp::CutNames { .. } => "cut overflow names",
        PageOp::InitFile { .. } => "file header",
        PageOp::InitOwners => "owners init",
        PageOp::OwnerSet { .. } => "owner set",
        PageOp::OwnerClear { .. } => "owner clear",
    }
}

/// Returns the name of a record.
pub(super) fn kind_of(record: &Record<'_>) -> &'static str {
    match *record {
        Record::Page { op, .. } => PageOp::decode(op).map_or("malformed", |op| op_name(&op)),
        Record::Undo { .. } => "undo",
        Record::Commit { .. } => "commit",
        Record::Prepare { .. } => "prepare",
        Record::Abort { .. } => "abort",
        Record::Reverted { .. } => "reverted",
        Record::Checkpoint { .. } => "checkpoint list",
        Record::DirtyPages { .. } => "dirty pages",
        Record::Filler { .. } => "filler",
        Record::Bookmark { .. } => "bookmark",
        Record::Purged { .. } => "purged",
        Record::Counter { .. } => "counter",
    }
}

fn sentence<E>(record: &Result<Record<'_>, E>) -> String {
    let Ok(record) = record else { return "malformed".to_owned() };
    let kind = kind_of(record);
    match *record {
        Record::Page { page, op, .. } => match PageOp::decode(op) {
            Ok(PageOp::Row(row)) => format!("{kind}, {page:?}, {:?}", row.version.txn),
            _ => format!("{kind}, {page:?}"),
        },
        Record::Undo { txn, at, .. } => format!("{kind} of {txn:?} at {at}"),
        Record::Commit { txn }
        | Record::Prepare { txn, .. }
        | Record::Abort { txn }
        | Record::Reverted { txn } => format!("{kind} {txn:?}"),
        Record::Checkpoint { body } | Record::DirtyPages { body } | Record::Filler { body } => {
            format!("{kind}, {} bytes", body.len())
        }
        Record::Bookmark { bookmark } => format!("{kind} \"{}\"", bookmark.escape_ascii()),
        Record::Purged { txns } => format!("{kind}, {} transactions", group::ids(txns).count()),
        Record::Counter { tree, next } => format!("{kind} of tree {}: {next}", tree.0),
    }
}

fn show_list(list: &List, root: &Root, out: &mut String) {
    let place = if root.record == Lsn::MAX { "none yet".to_owned() } else { format!("LSN {}", root.record) };
    writeln!(
        out,
        "checkpoint's list ({place}): {} unfinished transactions; next {:?}, next {:?}; {} undo files",
        list.txns.len(),
        list.next_txn,
        list.next_tree,
        list.files.len()
    )
    .unwrap();
    if !list.bookmark.is_empty() {
        writeln!(out, "  bookmark \"{}\"", list.bookmark.escape_ascii()).unwrap();
    }
    for (number, len) in &list.files {
        writeln!(out, "  undo file {number:08}, {len} bytes").unwrap();
    }
    for listed in &list.history_batches {
        let ListedBatches { file, from, to, txns } = listed;
        writeln!(
            out,
            "  committed history in undo file {file:08} from {from} to {to}: {txns} transactions to purge"
        )
        .unwrap();
    }
    for txn in list.txns.iter().take(TRANSACTIONS_SHOWN) {
        let stage = match &txn.stage {
            Stage::Active => "active".to_owned(),
            Stage::Prepared(xid) => format!("prepared as \"{}\"", xid.escape_ascii()),
            Stage::Aborted => "aborted".to_owned(),
            Stage::Committed(lsn) => format!("committed at LSN {lsn}"),
        };
        writeln!(out, "  {:?}: {stage}; undo hardened up to {}", txn.txn, txn.hardened).unwrap();
    }
    if list.txns.len() > TRANSACTIONS_SHOWN {
        writeln!(out, "  … {} more", list.txns.len() - TRANSACTIONS_SHOWN).unwrap();
    }
}

/// Shows the unfinished transactions that opening would find, from the checkpoint's list, the
/// hardened undo and the redo.
fn unfinished(db: &DbDir, root: &Root, segments: &Segments, list: List) -> Result<String> {
    let hardened = list.txns.iter().map(|listed| (listed.txn, listed.hardened)).collect();
    let (metrics, poison) = (Arc::new(Metrics::new()), Arc::new(Poison::default()));
    let streams = Streams::default();
    let options = JournalOptions {
        vfs: &db.vfs,
        dir: &db.paths.undo,
        db_id: root.db_id,
        listed: &list.files,
        hardened: &hardened,
        // Undo in files is not loaded; its place is enough.
        memory: 0,
        metrics: &metrics,
        poison: &poison,
    };
    let journal = Journal::open(&options, &streams)?;
    // The limit prevents any write to a file.
    let mut rebuild =
        Rebuild::begin(&db.paths.redo.now, root.record, list, streams).within(u64::MAX, journal);
    let mut first_error = None;
    scan_log(segments, root, &mut |group| {
        for record in Records::new(group.records).flatten() {
            let op = match record {
                Record::Page { op, .. } => PageOp::decode(op).ok(),
                _ => None,
            };
            if first_error.is_none() {
                first_error = rebuild.record(group.lsn, &record, op.as_ref()).err();
            }
        }
    })?;
    if let Some(error) = first_error {
        return Err(error);
    }
    let left = rebuild.finish(Vec::new());
    let needs_purge = |txn| left.streams.get(txn).is_some_and(|stream| stream.needs_purge());
    let mut out = format!(
        "at the log's end: {} to revert, {} prepared, {} committed with something to purge; {} bytes of undo; next {:?}\n",
        left.aborted.len(),
        left.prepared.len(),
        left.committed.iter().filter(|(_, txn)| needs_purge(*txn)).count(),
        left.streams.list().iter().map(|stream| stream.end()).sum::<u64>(),
        left.next_txn
    );
    for txn in left.aborted.iter().take(TRANSACTIONS_SHOWN) {
        let end = left.streams.get(*txn).map_or(0, |stream| stream.end());
        writeln!(out, "  to revert: {txn:?}, {end} bytes of undo").unwrap();
    }
    for (txn, xid) in left.prepared.iter().take(TRANSACTIONS_SHOWN) {
        writeln!(out, "  prepared: {txn:?} as \"{}\"", xid.escape_ascii()).unwrap();
    }
    Ok(out)
}
