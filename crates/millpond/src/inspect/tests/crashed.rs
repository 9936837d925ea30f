//! Views of a database whose process was killed.

use super::{DIR, killed, open};
use crate::inspect::{log, page, redo, table_size};
use expect_test::expect;
use std::path::Path;

#[test]
fn the_log_and_a_table_that_lags_behind_it() {
    let disk = killed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#"
        /db: not in use
        2 segments of 64 blocks (262144 bytes) in /db/redo
          file                  number  first block            LSN                 state
          0000000000000000.log       0            0       0–259584  holds the checkpoint
          0000000000000001.log       1           64  259584–519168  holds redo, or ready
        epoch 2 from LSN 0
        checkpoint LSN 20815; the log ends at LSN 21141 (segment 0, block 5)
        nothing vouches for more: the end is sound
        redo behind the checkpoint: 326 bytes in 4 groups, 0 of them padding (0.0 %)
          record           number  bytes   share
          checkpoint list       1     58  17.8 %
          commit                1      8   2.5 %
          row insert            1     35  10.7 %
          row replace           1    193  59.2 %
        last groups:
          LSN 20815, 66 bytes: checkpoint list, 56 bytes
          LSN 20881, 201 bytes: row replace, page 18, txn 4
          LSN 21082, 43 bytes: row insert, page 19, txn 5
          LSN 21125, 16 bytes: commit txn 5
        checkpoint's list (LSN 20815): 1 unfinished transactions; next txn 4, next tree 3; 1 undo files
          undo file 00000001, 8192 bytes
          txn 3: prepared as "xid-1"; undo hardened up to 15
        at the log's end: 1 to revert, 1 prepared, 0 committed with something to purge; 189 bytes of undo; next txn 6
          to revert: txn 4, 174 bytes of undo
          prepared: txn 3 as "xid-1"
    "#]].assert_eq(&log::view(&vfs, dir).unwrap());
    expect![[r#"
        /db: not in use
        The pages file may be older than the log by 326 bytes of redo, 2 page changes (checkpoint LSN 20815 to the log's end at 21141).
          table           "cats"
          tree            2, root page 17
          catalog entry   there, by txn 1
          rows            41 (as they stand, whatever became of their transactions)
          delete marks    0
          newest version  by txn 3
          key bytes       282
          value bytes     5860 in leaves
          long values     1, 9000 bytes in overflow pages
          pages           2 leaf, 1 inner, 3 overflow
          file bytes      24576 in pages in use, 1 extents
    "#]].assert_eq(&table_size::view(&vfs, dir, "cats").unwrap());
    // An open finds what the views say.
    let db = open(&disk);
    assert_eq!(db.prepared().unwrap().len(), 1);
    let t = db.open_table("cats").unwrap();
    let value = db.begin().unwrap().get(&t, b"cat-007").unwrap();
    assert_eq!(value, Some(vec![b'x'; 150]));
}

#[test]
fn a_page_that_lacks_redo() {
    let disk = killed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#"
        /db: not in use
        The pages file may be older than the log by 326 bytes of redo, 2 page changes (checkpoint LSN 20815 to the log's end at 21141).
        page 18, 4096 bytes at 73728 of /db/pages
        sound: checksum, number and structure are right
          checksum      6906697e
          format        1
          kind          leaf
          flags         0
          page number   18
          tree          2
          page LSN      8231
        redo behind the checkpoint: 1 changes of this page, of which the file lacks 1
          LSN 20881        row replace
          level         0
          right sibling 19
          low fence     -infinity
          high fence    "cat-022"
          prefix        ""
          bytes         3945 used, 63 free
          entries       22
              0  "cat-000" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 0]
              1  "cat-001" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 17]
              2  "cat-002" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 34]
              3  "cat-003" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 51]
              4  "cat-004" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 68]
              5  "cat-005" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 85]
              6  "cat-006" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 102]
              7  "cat-007" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 119]
              8  "cat-008" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 136]
              9  "cat-009" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 153]
             10  "cat-010" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 170]
             11  "cat-011" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 187]
             12  "cat-012" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 204]
             13  "cat-013" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 221]
             14  "cat-014" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 238]
             15  "cat-015" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 255]
             16  "cat-016" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 272]
             17  "cat-017" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 289]
             18  "cat-018" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 306]
             19  "cat-019" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 323]
             20  "cat-020" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 340]
             21  "cat-021" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 357]
    "#]].assert_eq(&page::view(&vfs, dir, 18).unwrap());
}

/// Returns the rows of a part of the log as text, and its length less the sum of the rows.
fn redo_rows(from: Option<u64>) -> (Vec<String>, u64) {
    let redo = redo::read(&killed().vfs(1), Path::new(DIR), from).unwrap();
    let row = |row: &redo::RedoRow| format!("{:?} {} {} {}", row.owner, row.record, row.records, row.bytes);
    let sum: u64 = redo.rows.iter().map(|row| row.bytes).sum();
    (redo.rows.iter().map(row).collect(), redo.to_lsn - redo.from_lsn - sum)
}

#[test]
fn the_redo_by_tree_is_all_of_the_log() {
    let (rows, rest) = redo_rows(None);
    assert_eq!(rest, 0);
    let of_the_tree =
        ["Tree(2, Some(\"cats\")) row insert 1 35", "Tree(2, Some(\"cats\")) row replace 1 193"];
    assert_eq!(rows[..2], of_the_tree);
    assert_eq!(rows[2..], ["Transactions commit 1 8", "Log checkpoint list 1 58", "Log group header 4 32"]);
    // From a group on that is not the first, and from the end.
    let (rows, rest) = redo_rows(Some(21_082));
    assert_eq!(rest, 0);
    assert_eq!(rows, [of_the_tree[0], "Transactions commit 1 8", "Log group header 2 16"]);
    assert_eq!(redo_rows(Some(21_141)), (Vec::new(), 0));
}
