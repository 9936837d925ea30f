//! Tests of the views, on small databases: closed, killed, in use, damaged; and on directories that
//! hold no database.

mod closed;
mod crashed;
mod format;

use super::{log, page, root, table_size, tree};
use crate::db::Db;
use crate::error::Result;
use crate::options::{Options, Tuning};
use std::path::Path;
use vfs::mem::{CrashChoice, MemDisk};
use vfs::{Create, OpenMode, Vfs};

const DIR: &str = "/db";

/// Returns options with which only the purging thread runs. It has nothing to do after inserts, so
/// every run writes the same bytes.
fn options() -> Options {
    let mut options = Options::new().page_bytes(4096).redo_capacity_bytes(4 << 20);
    options.tuning = Tuning {
        segment_blocks: 64,
        ring_blocks: 64,
        grow_pages: 64,
        doublewrite_pages: 16,
        frames: 256,
        flush_depth: 1,
        no_threads: true,
        ..Tuning::default()
    };
    options
}

fn open(disk: &MemDisk) -> Db {
    Db::open_on(&disk.vfs(1), Path::new(DIR), &options()).unwrap()
}

/// Makes a database with one table of 40 rows, one of them long.
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

/// Returns the file systems of a database whose process was killed in the middle of a transaction.
fn killed() -> MemDisk {
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
    |vfs, dir| table_size::view(vfs, dir, "cats"),
];

/// Uses files of the operating system, where the lock is a file.
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
fn a_directory_without_a_database_is_refused() {
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
fn damage_is_shown() {
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
    assert!(leaf.contains("the doublewrite has an old copy, LSN 8231, at "), "{leaf}");
    let shape = tree::view(&pages, dir, "cats").unwrap();
    assert!(shape.contains("stopped: page 18 is damaged: the page's checksum"), "{shape}");
    let vfs = damaged("redo/0000000000000000.log", &[20]);
    let segment = log::view(&vfs, dir).unwrap();
    assert!(segment.contains("DAMAGED: /db/redo/0000000000000000.log is damaged"), "{segment}");
    let lag = table_size::view(&vfs, dir, "cats").unwrap();
    assert!(lag.contains("it is unknown how much older the pages file is"), "{lag}");
}

/// Every view of every damaged database is a text or an error, never a panic.
#[test]
fn no_flipped_byte_makes_a_view_panic() {
    let disk = killed();
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
    // The headers, slots and fences that a view follows: of the map, of owners, of a root, of a
    // leaf.
    for (page, views) in [(1, &VIEWS[4..]), (2, &VIEWS[4..]), (17, &VIEWS[4..]), (18, &VIEWS[3..])] {
        (0..140).for_each(|at| look("pages", page * 4096 + at, views));
    }
    assert!(page::view(&vfs, dir, 18).unwrap().contains("sound:"), "all flips are taken back");
}

/// Redo tells what every transaction did. The log must also tell which transactions are purged.
/// Otherwise an open after a crash would keep the undo of all transactions in the log, look for
/// something to purge in each, and list them in every checkpoint meanwhile.
#[test]
fn transactions_purged_before_a_crash_are_not_purged_again() {
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
    // This commit also makes the records of purge durable.
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"last", b"").unwrap();
    tx.commit().unwrap();
    let text = log::view(&disk.fork().vfs(1), Path::new(DIR)).unwrap();
    let line = text.lines().find(|line| line.starts_with("at the log's end")).unwrap();
    let left: usize = line.split(' ').nth(9).unwrap().parse().unwrap();
    // 390 deletes, and 390 inserts over delete marks unless purge was faster.
    assert!(left < 64, "{line}");
}
