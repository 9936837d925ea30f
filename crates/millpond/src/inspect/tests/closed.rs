//! Views of a database that was closed.

use super::{DIR, VIEWS, closed};
use crate::inspect::{log, page, root, table_size, tree};
use expect_test::expect;
use std::path::Path;
use vfs::Vfs;

#[test]
fn views_change_nothing() {
    let disk = closed();
    let (vfs, before) = (disk.vfs(1), disk.op_count());
    for view in VIEWS {
        view(&vfs, Path::new(DIR)).unwrap();
    }
    assert_eq!(disk.op_count(), before);
}

#[test]
fn the_root_and_the_log() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#"
        /db: not in use
        slot 0, at 0: whole, the older one
          database          b3f2af6d0fc710c5
          page bytes        4096
          sequence          2
          checkpoint LSN    0
          checkpoint record none
          durable LSN       0
          closed            not (open, or cut off)
          doublewrite       on
          segment blocks    64
          log buffer blocks 64
          replay rate       not measured yet
          epoch             2 from LSN 0
        slot 1, at 4096: whole, the newer one: it counts
          database          b3f2af6d0fc710c5
          page bytes        4096
          sequence          3
          checkpoint LSN    20749
          checkpoint record LSN 20749
          durable LSN       20785
          closed            cleanly
          doublewrite       on
          segment blocks    64
          log buffer blocks 64
          replay rate       not measured yet
          epoch             2 from LSN 0
    "#]]
    .assert_eq(&root::view(&vfs, dir).unwrap());
    expect![[r#"
        /db: not in use
        4 segments of 64 blocks (262144 bytes) in /db/redo
          file                  number  first block             LSN                 state
          0000000000000000.log       0            0        0–259584  holds the checkpoint
          0000000000000001.log       1           64   259584–519168  holds redo, or ready
          0000000000000002.log       2          128   519168–778752  holds redo, or ready
          0000000000000003.log       3          192  778752–1038336  holds redo, or ready
        epoch 2 from LSN 0
        checkpoint LSN 20749; the log ends at LSN 20785 (segment 0, block 5)
        nothing vouches for more: the end is sound
        redo behind the checkpoint: 36 bytes in 1 groups, 0 of them padding (0.0 %)
          record           number  bytes   share
          checkpoint list       1     28  77.8 %
        last groups:
          LSN 20749, 36 bytes: checkpoint list, 26 bytes
        checkpoint's list (LSN 20749): 0 unfinished transactions; next txn 3, next tree 3; 0 undo files
        at the log's end: 0 to revert, 0 prepared, 0 committed with something to purge; 0 bytes of undo; next txn 3
    "#]].assert_eq(&log::view(&vfs, dir).unwrap());
}

#[test]
fn a_tree_and_a_table() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#"
        /db: not in use
        No page changes stand in the log behind the checkpoint: the pages file has everything.
        tree 2, "cats": root page 17
          level  pages  entries    full  emptiest  fullest
          1          1        2   0.8 %     0.8 %    0.8 %
          0          2       40  87.8 %    77.2 %   98.4 %
        space: 1 extents, 6 pages in use, 3 of them overflow
    "#]]
    .assert_eq(&tree::view(&vfs, dir, "cats").unwrap());
    expect![[r#"
        /db: not in use
        No page changes stand in the log behind the checkpoint: the pages file has everything.
          table           "cats"
          tree            2, root page 17
          catalog entry   there, by txn 1
          rows            40 (as they stand, whatever became of their transactions)
          delete marks    0
          newest version  by txn 2
          key bytes       277
          value bytes     5850 in leaves
          long values     1, 9000 bytes in overflow pages
          pages           2 leaf, 1 inner, 3 overflow
          file bytes      24576 in pages in use, 1 extents
    "#]]
    .assert_eq(&table_size::view(&vfs, dir, "cats").unwrap());
    assert_eq!(table_size::view(&vfs, dir, "2").unwrap(), table_size::view(&vfs, dir, "cats").unwrap());
}

/// Shows page `no` of the database without the two lines that begin every view.
fn shown(vfs: &Vfs, no: u32) -> String {
    page::view(vfs, Path::new(DIR), no).unwrap().lines().skip(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn pages_of_the_file_and_its_space_map() {
    let vfs = closed().vfs(1);
    let show = |no| shown(&vfs, no);
    expect![[r#"
        page 0, 4096 bytes at 0 of /db/pages
        sound: checksum, number and structure are right
          checksum      9f57553e
          format        1
          kind          file
          flags         0
          page number   0
          tree          none
          page LSN      0
        file header: database b3f2af6d0fc710c5, 1 groups of the space map"#]]
    .assert_eq(&show(0));
    expect![[r#"
        page 1, 4096 bytes at 4096 of /db/pages
        sound: checksum, number and structure are right
          checksum      3970a549
          format        1
          kind          map
          flags         0
          page number   1
          tree          none
          page LSN      52
          extents       256 of 16 pages; 254 free; the first holds this page
          pages 0–15 (1 extents): free, used 0000000000000000
          pages 16–31 (1 extents): shared, used 0000000000000000
          pages 32–4095 (254 extents): free, used 0000000000000000"#]]
    .assert_eq(&show(1));
    expect![[r#"
        page 2, 4096 bytes at 8192 of /db/pages
        sound: checksum, number and structure are right
          checksum      c5cc1e91
          format        1
          kind          owners
          flags         0
          page number   2
          tree          none
          page LSN      19650
          pages 16–16: tree 1
          pages 17–22: tree 2"#]]
    .assert_eq(&show(2));
    expect![[r#"
        page 11, 4096 bytes at 45056 of /db/pages
        never written: zeros only"#]]
    .assert_eq(&show(11));
    let beyond = page::view(&vfs, Path::new(DIR), 1 << 20).unwrap_err().to_string();
    expect!["/db/pages: there is no page 1048576: the file has 64 pages"].assert_eq(&beyond);
}

#[test]
fn pages_of_a_tree() {
    let vfs = closed().vfs(1);
    let show = |no| shown(&vfs, no);
    expect![[r#"
        page 16, 4096 bytes at 65536 of /db/pages
        sound: checksum, number and structure are right
          checksum      52d92917
          format        1
          kind          leaf
          flags         0
          page number   16
          tree          1
          page LSN      168
          level         0
          right sibling none
          low fence     -infinity
          high fence    +infinity
          prefix        ""
          bytes         35 used, 3973 free
          entries       1
              0  "cats" = "\x02\x02\x00\x00\x00\x11\x00\x00\x00" [by txn 1, undo at 0]"#]]
    .assert_eq(&show(16));
    expect![[r#"
        page 17, 4096 bytes at 69632 of /db/pages
        sound: checksum, number and structure are right
          checksum      40e664d8
          format        1
          kind          inner
          flags         0
          page number   17
          tree          2
          page LSN      8298
          level         1
          right sibling none
          low fence     -infinity
          high fence    +infinity
          prefix        ""
          bytes         31 used, 3977 free
          entries       2
              0  child 18         from ""
              1  child 19         from "cat-022""#]]
    .assert_eq(&show(17));
}

#[test]
fn a_full_leaf_and_a_chain() {
    let vfs = closed().vfs(1);
    let head = |no, n| shown(&vfs, no).lines().take(n).collect::<Vec<_>>().join("\n");
    expect![[r#"
        page 18, 4096 bytes at 73728 of /db/pages
        sound: checksum, number and structure are right
          checksum      6906697e
          format        1
          kind          leaf
          flags         0
          page number   18
          tree          2
          page LSN      8231
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
              3  "cat-003" = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (150 bytes) [by txn 2, undo at 51]"#]]
    .assert_eq(&head(18, 20));
    let chain = (19..32).map(|no| shown(&vfs, no)).find(|text| text.contains("overflow")).unwrap();
    expect![[r#"
        page 20, 4096 bytes at 81920 of /db/pages
        sound: checksum, number and structure are right
          checksum      ccf7c44c
          format        1
          kind          overflow
          flags         0
          page number   20
          tree          2
          page LSN      15580
          first page of a chain by txn 2, undo at 663; next page 21
          ahead         21 22
          data          "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"… (4008 bytes)"#]]
    .assert_eq(&chain);
}
