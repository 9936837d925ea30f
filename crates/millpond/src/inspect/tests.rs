//! Views of small databases: closed, cut off, in use, damaged, and of directories that hold none.

mod format;

use super::{log, page, root, table, tree};
use crate::db::Db;
use crate::error::Result;
use crate::options::{Options, Tuning};
use expect_test::expect;
use std::path::Path;
use vfs::mem::{CrashChoice, MemDisk};
use vfs::{Create, OpenMode, Vfs};

const DIR: &str = "/db";

/// No thread but the one that purges, which has nothing to do after inserts: the same bytes in every run.
fn options() -> Options {
    let mut options = Options::new().page_bytes(4096).redo_capacity_bytes(4 << 20);
    options.tuning = Tuning {
        segment_blocks: 64,
        ring_blocks: 64,
        grow_pages: 64,
        doublewrite_pages: 16,
        frames: 256,
        flush_depth: 1,
        still: true,
        ..Tuning::default()
    };
    options
}

fn open(disk: &MemDisk) -> Db {
    Db::open_on(&disk.vfs(1), Path::new(DIR), &options()).unwrap()
}

/// A database with one table of 40 rows, one of them long.
fn filled() -> (MemDisk, Db) {
    let disk = MemDisk::default();
    let db = open(&disk);
    let t = db.create_table("cats").unwrap();
    let mut tx = db.begin().unwrap();
    for i in 0..39 {
        tx.insert(&t, format!("cat-{i:03}").as_bytes(), &[b'x'; 150]).unwrap();
    }
    tx.insert(&t, b"long", &[b'y'; 9000]).unwrap();
    tx.commit().unwrap();
    (disk, db)
}

fn closed() -> MemDisk {
    let (disk, db) = filled();
    db.close().unwrap();
    disk
}

/// The file systems of a database whose process was killed in the middle of a transaction.
fn cut_off() -> MemDisk {
    let (disk, db) = filled();
    let t = db.open_table("cats").unwrap();
    let mut other = db.begin().unwrap();
    other.put(&t, b"other", b"in prepare").unwrap();
    other.prepare(b"xid-1").unwrap();
    db.checkpoint().unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"cat-007", b"James").unwrap();
    tx.savepoint();
    let mut last = db.begin().unwrap();
    last.put(&t, b"last", b"committed").unwrap();
    last.commit().unwrap();
    let mut walker = disk.walk();
    while walker.step() {}
    drop(tx);
    walker.image(CrashChoice::All)
}

type View = fn(&Vfs, &Path) -> Result<String>;

const VIEWS: [View; 6] = [
    root::view,
    log::view,
    |vfs, dir| page::view(vfs, dir, 0),
    |vfs, dir| page::view(vfs, dir, 18),
    |vfs, dir| tree::view(vfs, dir, "cats"),
    |vfs, dir| table::view(vfs, dir, "cats"),
];

#[test]
fn a_closed_database() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    let before = disk.op_count();
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
          segment blocks    64
          log buffer blocks 64
          replay rate       not measured yet
          epoch             2 from LSN 0
        slot 1, at 4096: whole, the newer one: it counts
          database          b3f2af6d0fc710c5
          page bytes        4096
          sequence          3
          checkpoint LSN    20617
          checkpoint record LSN 20617
          durable LSN       20651
          closed            cleanly
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
        checkpoint LSN 20617; the log ends at LSN 20651 (segment 0, block 5)
        nothing vouches for more: the end is sound
        redo behind the checkpoint: 34 bytes in 1 groups, 0 of them padding (0.0 %)
          record           number  bytes   share
          checkpoint list       1     26  76.5 %
        last groups:
          LSN 20617, 34 bytes: checkpoint list, 24 bytes
        checkpoint's list (LSN 20617): 0 unfinished transactions; next txn 3, next tree 3; 0 undo files
        at the log's end: 0 to revert, 0 prepared, 0 committed with something to purge; 0 bytes of undo; next txn 3
    "#]].assert_eq(&log::view(&vfs, dir).unwrap());
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
    .assert_eq(&table::view(&vfs, dir, "cats").unwrap());
    assert_eq!(table::view(&vfs, dir, "2").unwrap(), table::view(&vfs, dir, "cats").unwrap());
    assert_eq!(disk.op_count(), before, "looking changes nothing");
}

#[test]
fn pages_of_every_kind() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let show =
        |no| page::view(&vfs, Path::new(DIR), no).unwrap().lines().skip(2).collect::<Vec<_>>().join("\n");
    let head = |no, n| show(no).lines().take(n).collect::<Vec<_>>().join("\n");
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
          checksum      e8dc7018
          format        1
          kind          owners
          flags         0
          page number   2
          tree          none
          page LSN      19521
          pages 16–16: tree 1
          pages 17–22: tree 2"#]]
    .assert_eq(&show(2));
    expect![[r#"
        page 11, 4096 bytes at 45056 of /db/pages
        never written: zeros only"#]]
    .assert_eq(&show(11));
    expect![[r#"
        page 16, 4096 bytes at 65536 of /db/pages
        sound: checksum, number and structure are right
          checksum      4b76253e
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
              0  "cats" = "\x01\x02\x00\x00\x00\x11\x00\x00\x00" [by txn 1, undo at 0]"#]]
    .assert_eq(&show(16));
    expect![[r#"
        page 17, 4096 bytes at 69632 of /db/pages
        sound: checksum, number and structure are right
          checksum      21a43d4e
          format        1
          kind          inner
          flags         0
          page number   17
          tree          2
          page LSN      8220
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
    expect![[r#"
        page 18, 4096 bytes at 73728 of /db/pages
        sound: checksum, number and structure are right
          checksum      a2938043
          format        1
          kind          leaf
          flags         0
          page number   18
          tree          2
          page LSN      8153
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
    let chain = (19..32).map(show).find(|text| text.contains("overflow")).unwrap();
    expect![[r#"
        page 20, 4096 bytes at 81920 of /db/pages
        sound: checksum, number and structure are right
          checksum      0be7399a
          format        1
          kind          overflow
          flags         0
          page number   20
          tree          2
          page LSN      15451
          first page of a chain by txn 2, undo at 663; next page 21
          ahead         21 22
          data          "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"… (4008 bytes)"#]]
    .assert_eq(&chain);
    let beyond = page::view(&vfs, Path::new(DIR), 1 << 20).unwrap_err().to_string();
    expect!["/db/pages: there is no page 1048576: the file has 64 pages"].assert_eq(&beyond);
}

#[test]
fn a_database_that_was_cut_off() {
    let disk = cut_off();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#"
        /db: not in use
        2 segments of 64 blocks (262144 bytes) in /db/redo
          file                  number  first block            LSN                 state
          0000000000000000.log       0            0       0–259584  holds the checkpoint
          0000000000000001.log       1           64  259584–519168  holds redo, or ready
        epoch 2 from LSN 0
        checkpoint LSN 20679; the log ends at LSN 20993 (segment 0, block 5)
        nothing vouches for more: the end is sound
        redo behind the checkpoint: 314 bytes in 4 groups, 0 of them padding (0.0 %)
          record           number  bytes   share
          checkpoint list       1     56  17.8 %
          commit                1      8   2.5 %
          row insert            1     31   9.9 %
          row replace           1    187  59.6 %
        last groups:
          LSN 20679, 64 bytes: checkpoint list, 54 bytes
          LSN 20743, 195 bytes: row replace, page 18, txn 4
          LSN 20938, 39 bytes: row insert, page 19, txn 5
          LSN 20977, 16 bytes: commit txn 5
        checkpoint's list (LSN 20679): 1 unfinished transactions; next txn 4, next tree 3; 1 undo files
          undo file 00000001, 8192 bytes
          txn 3: prepared as "xid-1"; undo hardened up to 15
        at the log's end: 1 to revert, 1 prepared, 0 committed with something to purge; 189 bytes of undo; next txn 6
          to revert: txn 4, 174 bytes of undo
          prepared: txn 3 as "xid-1"
    "#]].assert_eq(&log::view(&vfs, dir).unwrap());
    expect![[r#"
        /db: not in use
        The pages file may be older than the log by 314 bytes of redo, 2 page changes (checkpoint LSN 20679 to the log's end at 20993).
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
    "#]].assert_eq(&table::view(&vfs, dir, "cats").unwrap());
    expect![[r#"
        /db: not in use
        The pages file may be older than the log by 314 bytes of redo, 2 page changes (checkpoint LSN 20679 to the log's end at 20993).
        page 18, 4096 bytes at 73728 of /db/pages
        sound: checksum, number and structure are right
          checksum      a2938043
          format        1
          kind          leaf
          flags         0
          page number   18
          tree          2
          page LSN      8153
        redo behind the checkpoint: 1 changes of this page, of which the file lacks 1
          LSN 20743        row replace
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
    // What the views promise is what an open finds.
    let db = open(&disk);
    assert_eq!(db.prepared().unwrap().len(), 1);
    let t = db.open_table("cats").unwrap();
    let value = db.begin().unwrap().get(&t, b"cat-007").unwrap();
    assert_eq!(value, Some(vec![b'x'; 150]));
}

/// On the operating system's files, where the lock is a file.
#[test]
fn a_database_in_use() {
    let dir = std::env::temp_dir().join(format!("millpond-inspect-{}", std::process::id()));
    let db = Db::open_on(&Vfs::os(), &dir, &options()).unwrap();
    let t = db.create_table("cats").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"cat", b"Tom").unwrap();
    tx.commit().unwrap();
    let views = || {
        let tree = super::tree(&dir, "cats").unwrap();
        [super::root(&dir).unwrap(), super::log(&dir).unwrap(), super::page(&dir, 1).unwrap(), tree]
    };
    for text in views() {
        assert!(text.lines().next().unwrap().contains(": IN USE by another process"), "{text}");
    }
    db.close().unwrap();
    for text in views() {
        assert!(text.lines().next().unwrap().ends_with(": not in use"), "{text}");
    }
    assert!(super::table(&dir, "cats").unwrap().contains("rows            1 "));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn directories_that_hold_no_database() {
    let disk = MemDisk::default();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    let refused = |vfs: &Vfs| {
        let errors: Vec<String> = VIEWS.iter().map(|view| view(vfs, dir).unwrap_err().to_string()).collect();
        assert!(errors.iter().all(|e| e == &errors[0]), "{errors:?}");
        errors[0].clone()
    };
    assert!(refused(&vfs).contains("cannot list /db"), "{}", refused(&vfs));
    vfs.disk.create_dir(dir).unwrap();
    assert_eq!(refused(&vfs), "/db is not the directory of a database: it has no root");
    let mode = OpenMode { create: Create::New, direct: true, read_only: false };
    let file = vfs.disk.open(&dir.join("root"), mode).unwrap();
    file.write_at(&[b'#'; 8192], 0).unwrap();
    assert_eq!(refused(&vfs), "/db/root is not the root of a database");
    assert!(!vfs.disk.list(dir).unwrap().contains(&"LOCK".to_owned()), "no lock file is made");
}

#[test]
fn damage_is_named() {
    let dir = Path::new(DIR);
    let damaged = |file: &str, places: &[u64]| {
        let disk = closed();
        places.iter().for_each(|&at| disk.flip(&dir.join(file), at, 1).unwrap());
        disk.vfs(1)
    };
    let one = root::view(&damaged("root", &[100]), dir).unwrap();
    assert!(one.contains("slot 0, at 0: NOT WHOLE") && one.contains("it counts"), "{one}");
    let both = root::view(&damaged("root", &[100, 4200]), dir).unwrap();
    assert!(both.contains("neither slot of the root is whole"), "{both}");
    let pages = damaged("pages", &[18 * 4096 + 3000]);
    let leaf = page::view(&pages, dir, 18).unwrap();
    assert!(
        leaf.contains("DAMAGED: the page's checksum does not match") && leaf.contains("entries"),
        "{leaf}"
    );
    assert!(leaf.contains("the doublewrite has an old copy, LSN 8153, at "), "{leaf}");
    let shape = tree::view(&pages, dir, "cats").unwrap();
    assert!(shape.contains("stopped: page 18 is damaged: the page's checksum"), "{shape}");
    let vfs = damaged("redo/0000000000000000.log", &[20]);
    let segment = log::view(&vfs, dir).unwrap();
    assert!(segment.contains("DAMAGED: /db/redo/0000000000000000.log is damaged"), "{segment}");
    let lag = table::view(&vfs, dir, "cats").unwrap();
    assert!(lag.contains("nobody knows how much older the pages file is"), "{lag}");
}

/// Every view of every damaged database is a text or an error, never a panic.
#[test]
fn no_flipped_byte_stops_a_view() {
    let disk = cut_off();
    let (vfs, dir) = (disk.vfs(1), Path::new(DIR));
    let look = |file: &str, at: u64, views: &[View]| {
        disk.flip(&dir.join(file), at, 0xff).unwrap();
        for view in views {
            let _ = view(&vfs, dir);
        }
        disk.flip(&dir.join(file), at, 0xff).unwrap();
    };
    for file in ["root", "pages", "redo/0000000000000000.log", "redo/0000000000000001.log", "undo/00000001"] {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let len = vfs.disk.open(&dir.join(file), mode).unwrap().len().unwrap();
        let part = len.min(200 << 10);
        (0..part).step_by(part as usize / 40 + 1).for_each(|at| look(file, at, &VIEWS));
    }
    // Headers, slots and fences, which a view follows: the map, owners, a root, a leaf.
    for (page, views) in [(1, &VIEWS[4..]), (2, &VIEWS[4..]), (17, &VIEWS[4..]), (18, &VIEWS[3..])] {
        (0..140).for_each(|at| look("pages", page * 4096 + at, views));
    }
    assert!(page::view(&vfs, dir, 18).unwrap().contains("sound:"), "all flips are taken back");
}

/// Redo says of every transaction what it did. Before the log also said whose traces are gone, an open after a crash kept the
/// undo of all that the log showed, looked for what to purge of each in vain, and every checkpoint meanwhile listed them.
#[test]
fn what_is_purged_is_not_purged_again_after_a_crash() {
    let (disk, db) = filled();
    let t = db.open_table("cats").unwrap();
    for round in 0..20 {
        for i in 0..39 {
            let mut tx = db.begin().unwrap();
            let key = format!("cat-{i:03}");
            if round % 2 == 0 {
                assert!(tx.delete(&t, key.as_bytes()).unwrap());
            } else {
                tx.insert(&t, key.as_bytes(), b"back").unwrap();
            }
            tx.commit().unwrap();
        }
    }
    while db.metrics().get("history_transactions").unwrap() > 0.0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // Takes with it to the disk what purge has logged.
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"last", b"").unwrap();
    tx.commit().unwrap();
    let text = log::view(&disk.fork().vfs(1), Path::new(DIR)).unwrap();
    let line = text.lines().find(|line| line.starts_with("at the log's end")).unwrap();
    let left: usize = line.split(' ').nth(9).unwrap().parse().unwrap();
    // 390 deletes, and 390 inserts over delete marks unless purge was faster.
    assert!(left < 64, "{line}");
}
