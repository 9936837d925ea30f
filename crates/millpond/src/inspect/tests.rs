//! Views of small databases: closed, cut off, in use, damaged, and of directories that hold none.

use super::{log, page, root, table, tree};
use crate::db::Db;
use crate::error::{Error, Result};
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
        cores: 2,
        flush_depth: 1,
        still: true,
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
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"cat-007", b"James").unwrap();
    tx.savepoint();
    let mut last = db.begin().unwrap();
    last.put(&t, b"last", b"committed").unwrap();
    last.commit().unwrap();
    let disk = disk.walk_to_end(CrashChoice::All);
    drop(tx);
    disk
}

trait WalkToEnd {
    fn walk_to_end(&self, choice: CrashChoice) -> MemDisk;
}

impl WalkToEnd for MemDisk {
    fn walk_to_end(&self, choice: CrashChoice) -> MemDisk {
        let mut walker = self.walk();
        while walker.step() {}
        walker.image(choice)
    }
}

type View = fn(&Vfs, &Path) -> Result<String>;

const VIEWS: [View; 6] = [
    root::view,
    log::view,
    |vfs, dir| page::view(vfs, dir, 0),
    |vfs, dir| page::view(vfs, dir, 33),
    |vfs, dir| tree::view(vfs, dir, "cats"),
    |vfs, dir| table::view(vfs, dir, "cats"),
];

#[test]
fn a_closed_database() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    let before = disk.op_count();
    expect![[r#""#]].assert_eq(&root::view(&vfs, dir).unwrap());
    expect![[r#""#]].assert_eq(&log::view(&vfs, dir).unwrap());
    expect![[r#""#]].assert_eq(&tree::view(&vfs, dir, "cats").unwrap());
    expect![[r#""#]].assert_eq(&table::view(&vfs, dir, "cats").unwrap());
    assert_eq!(table::view(&vfs, dir, "2").unwrap(), table::view(&vfs, dir, "cats").unwrap());
    assert_eq!(disk.op_count(), before, "looking changes nothing");
}

#[test]
fn pages_of_every_kind() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let show = |no| page::view(&vfs, Path::new(DIR), no).unwrap().lines().skip(2).collect::<Vec<_>>().join("\n");
    let head = |no, n| show(no).lines().take(n).collect::<Vec<_>>().join("\n");
    expect![[r#""#]].assert_eq(&show(0));
    expect![[r#""#]].assert_eq(&show(1));
    expect![[r#""#]].assert_eq(&show(2));
    expect![[r#""#]].assert_eq(&show(16));
    expect![[r#""#]].assert_eq(&show(32));
    expect![[r#""#]].assert_eq(&head(33, 20));
    let chain = (34..48).map(show).find(|text| text.contains("overflow")).unwrap();
    expect![[r#""#]].assert_eq(&chain);
    let beyond = page::view(&vfs, Path::new(DIR), 1 << 20).unwrap_err().to_string();
    expect![[r#""#]].assert_eq(&beyond);
}

#[test]
fn a_database_that_was_cut_off() {
    let disk = cut_off();
    let vfs = disk.vfs(1);
    let dir = Path::new(DIR);
    expect![[r#""#]].assert_eq(&log::view(&vfs, dir).unwrap());
    expect![[r#""#]].assert_eq(&table::view(&vfs, dir, "cats").unwrap());
    expect![[r#""#]].assert_eq(&page::view(&vfs, dir, 33).unwrap());
    // What the views promise is what an open finds.
    let db = open(&disk);
    assert_eq!(db.prepared().unwrap().len(), 1);
    let t = db.open_table("cats").unwrap();
    let value = db.begin().unwrap().get(&t, b"cat-007").unwrap();
    assert_eq!(value, Some(vec![b'x'; 150]));
}

#[test]
fn a_database_in_use() {
    let (disk, db) = filled();
    let vfs = disk.vfs(1);
    for view in VIEWS {
        let text = view(&vfs, Path::new(DIR)).unwrap();
        assert!(text.starts_with("/db: IN USE"), "{text}");
    }
    db.close().unwrap();
    assert!(root::view(&vfs, Path::new(DIR)).unwrap().starts_with("/db: not in use"));
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
    let pages = damaged("pages", &[33 * 4096 + 3000]);
    let leaf = page::view(&pages, dir, 33).unwrap();
    assert!(leaf.contains("DAMAGED: the page's checksum does not match") && leaf.contains("entries"), "{leaf}");
    let shape = tree::view(&pages, dir, "cats").unwrap();
    assert!(shape.contains("stopped: page 33 is damaged: the page's checksum"), "{shape}");
    let vfs = damaged("redo/0000000000000000.log", &[20]);
    let segment = log::view(&vfs, dir).unwrap();
    assert!(segment.contains("DAMAGED: /db/redo/0000000000000000.log is damaged"), "{segment}");
    let lag = table::view(&vfs, dir, "cats").unwrap();
    assert!(lag.contains("nobody knows how much older the pages file is"), "{lag}");
}

/// Every view of every damaged database is a text or an error, never a panic.
#[test]
fn no_flipped_byte_stops_a_view() {
    let whole = cut_off();
    let dir = Path::new(DIR);
    let files = ["root", "pages", "redo/0000000000000000.log", "redo/0000000000000001.log"];
    for file in files {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let len = whole.vfs(1).disk.open(&dir.join(file), mode).unwrap().len().unwrap();
        for at in (0..len.min(200 << 10)).step_by(len.min(200 << 10) as usize / 40 + 1) {
            let disk = whole.fork();
            disk.flip(&dir.join(file), at, 0x41).unwrap();
            for view in VIEWS {
                let _ = view(&disk.vfs(1), dir);
            }
        }
    }
}
