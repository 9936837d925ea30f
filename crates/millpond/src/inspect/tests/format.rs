//! Compares `docs/format.md` with the code: constants, tags of page changes, kinds of log records,
//! pages and undo records.

use crate::checkpoint::root;
use crate::inspect::log::op_name;
use crate::log::group::{self, Record};
use crate::log::{self, block};
use crate::mtr::MTR_REDO_BYTES_MAX;
use crate::page::header::{self, HEADER_BYTES, PageKind};
use crate::page::map::EXTENT_PAGES;
use crate::page::node::{CHILD_OVERHEAD, ROW_OVERHEAD, SETTLED_OVERHEAD, SLOT_BYTES, SLOTS};
use crate::page::op::PageOp;
use crate::page::overflow::ChainRef;
use crate::undo::UndoEntry;
use crate::undo::record::UndoRecord;
use base::{PageNo, TreeId, TxnId};

const PAGE: &str = include_str!("../../../../../docs/format.md");

/// Returns the first two cells of each row of the table whose head begins with `| head |`.
fn cells(head: &str) -> Vec<(String, String)> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let found: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split('|').map(|cell| cell.trim().to_owned()).skip(1);
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    assert!(!found.is_empty(), "no table begins with {head}");
    found
}

#[test]
fn constants() {
    let is: &[(&str, usize)] = &[
        ("format of `root`", root::FORMAT.into()),
        ("LSN: the greatest, bits", log::block::LSN_BITS as usize),
        ("transaction id, bits", 48),
        ("undo address, bits", 40),
        ("root slot, bytes", root::SLOT_BYTES),
        ("epochs in a root slot, at most", root::EPOCHS_MAX),
        ("log block, bytes", block::BLOCK_BYTES),
        ("log block header, bytes", block::HEADER_BYTES),
        ("log block payload, bytes", block::PAYLOAD_BYTES),
        ("group header, bytes", group::GROUP_HEADER_BYTES),
        ("group, bytes at most", group::GROUP_BYTES_MAX),
        ("mini-transaction's redo, bytes at most", MTR_REDO_BYTES_MAX),
        ("page header, bytes", HEADER_BYTES),
        ("leaf and inner page: slots begin at", SLOTS),
        ("slot, bytes", SLOT_BYTES),
        ("leaf entry before its key, bytes", ROW_OVERHEAD - SLOT_BYTES),
        ("the same without a version, bytes", SETTLED_OVERHEAD - SLOT_BYTES),
        ("inner entry before its key, bytes", CHILD_OVERHEAD - SLOT_BYTES),
        ("pages of an extent", EXTENT_PAGES as usize),
        ("long value's reference, bytes", ChainRef::BYTES),
    ];
    let is: Vec<_> = is.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    assert_eq!(cells("constant"), is);
}

#[test]
fn tags_of_page_changes() {
    let mut n = 0;
    for (tag, name) in cells("tag") {
        n += 1;
        assert_eq!(tag, n.to_string());
        // Zeros are valid fields of every change: numbers, empty strings, flags.
        let mut bytes = [0; 64];
        bytes[0] = n;
        let found =
            (1..bytes.len()).find_map(|len| PageOp::decode(&bytes[..len]).ok().map(|op| op_name(&op)));
        assert_eq!(found, Some(name.as_str()), "tag {tag}");
    }
    for tag in (0..=255).filter(|tag| !(1..=n).contains(tag)) {
        assert!((1..64).all(|len| PageOp::decode(&[&[tag][..], &vec![0; len]].concat()).is_err()), "{tag}");
    }
}

/// Returns numbers and names of the table of kinds whose head continues with `second`. A name ends
/// at its colon.
fn kinds(second: &str) -> Vec<String> {
    let cells = cells(&format!("kind | {second}"));
    cells.into_iter().map(|(number, name)| format!("{number} {}", name.split(':').next().unwrap())).collect()
}

#[test]
fn kinds_of_log_records() {
    let txn = TxnId(1);
    let all = [
        ("page", Record::Page { page: PageNo(1), prev: 0, op: &[] }),
        ("undo", Record::Undo { txn, at: 0, entry: &[] }),
        ("commit", Record::Commit { txn }),
        ("prepare", Record::Prepare { txn, xid: &[] }),
        ("abort", Record::Abort { txn }),
        ("reverted", Record::Reverted { txn }),
        ("checkpoint list", Record::Checkpoint { body: &[] }),
        ("purged", Record::Purged { txns: &[] }),
        ("counter", Record::Counter { tree: base::TreeId(1), next: 0 }),
        ("dirty pages", Record::DirtyPages { body: &[] }),
        ("filler", Record::Filler { body: &[] }),
        ("bookmark", Record::Bookmark { bookmark: &[] }),
    ];
    let written = all.map(|(name, record)| {
        let mut bytes = Vec::new();
        group::put_record(&mut bytes, &record);
        format!("{} {name}", bytes[1])
    });
    assert_eq!(kinds("record | body"), written);
}

#[test]
fn kinds_of_pages() {
    let written = PageKind::ALL.map(|kind| {
        let mut page = [0; 4096];
        page[5] = kind as u8;
        assert_eq!(header::kind(&page), Some(kind));
        format!("{} {}", kind as u8, format!("{kind:?}").to_lowercase())
    });
    assert_eq!(kinds("page"), written);
}

#[test]
fn kinds_of_undo_records() {
    let (tree, key) = (TreeId(1), &b"k"[..]);
    let all = [
        ("insert", UndoEntry::Insert { tree, key }),
        (
            "replace",
            UndoEntry::Replace {
                tree,
                key,
                before: crate::page::node::Version::default(),
                old_flags: 0,
                new_flags: 0,
                front: 0,
                back: 0,
                old_middle: &[],
            },
        ),
        ("chain", UndoEntry::Chain { tree, head: PageNo(1) }),
        ("rewind", UndoEntry::Rewind { end: 0, last: None }),
    ];
    let written = all.map(|(name, entry)| {
        let mut bytes = Vec::new();
        UndoRecord { owner: TxnId(1), prev: None, entry }.encode(0, &mut bytes);
        format!("{} {name}", bytes[6])
    });
    assert_eq!(kinds("record | fields"), written);
}
