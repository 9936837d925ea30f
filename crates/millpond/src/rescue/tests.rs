//! Rescues of databases that were closed, killed, damaged in each page, left without a part of the
//! log, and that have lost a write.

use super::{RescueProblem, RescueReport, rescue_on};
use crate::db::Db;
use crate::error::Error;
use crate::options::{Options, Tuning};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vfs::mem::{CrashChoice, MemDisk};
use vfs::{Create, Disk, File, OpenMode};

const DIR: &str = "/db";
const TO: &str = "/saved";
const PAGE: usize = 4096;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// By table: metadata, the counter, rows.
type Tables = BTreeMap<String, (Vec<u8>, u64, Rows)>;

/// No thread works in the background, so every run writes the same bytes.
fn options() -> Options {
    let mut options = Options::new().page_bytes(PAGE).redo_capacity_bytes(8 << 20);
    options.tuning = Tuning {
        segment_blocks: 32,
        ring_blocks: 64,
        grow_pages: 64,
        doublewrite_pages: 16,
        frames: 512,
        flush_depth: 1,
        no_threads: true,
        ..Tuning::default()
    };
    options
}

fn open(disk: &MemDisk, dir: &str) -> Db {
    Db::open_on(&disk.vfs(1), Path::new(dir), &options()).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("row-{n:05}").into_bytes()
}

/// A value that tells its key and its round; each 50th is long.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(50) { 9000 } else { 90 };
    let mut value = format!("{n}/{round}/").into_bytes();
    value.resize(len, b'x');
    value
}

const ROWS: u32 = 400;

/// Makes a database of two tables, one with rows, deleted ones too.
fn filled() -> (MemDisk, Db) {
    filled_with(&options())
}

fn filled_with(options: &Options) -> (MemDisk, Db) {
    let disk = MemDisk::default();
    let db = Db::open_on(&disk.vfs(1), Path::new(DIR), options).unwrap();
    let mut load = db.begin_bulk_load_with("loaded", b"its metadata").unwrap();
    (0..50).for_each(|n| load.push(&key(n), &value(n + 1, 0)).unwrap());
    let loaded = load.commit().unwrap();
    db.raise_counter(&loaded, 51).unwrap();
    let t = db.create_table("t").unwrap();
    for first in (0..ROWS).step_by(40) {
        let mut tx = db.begin().unwrap();
        (first..first + 40).for_each(|n| tx.insert(&t, &key(n), &value(n, 0)).unwrap());
        tx.commit().unwrap();
    }
    let mut tx = db.begin().unwrap();
    (0..ROWS).step_by(7).for_each(|n| assert!(tx.delete(&t, &key(n)).unwrap()));
    tx.commit().unwrap();
    (disk, db)
}

fn update(db: &Db, rows: impl Iterator<Item = u32>, round: u32) {
    let t = db.open_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    rows.for_each(|n| tx.put(&t, &key(n), &value(n, round)).unwrap());
    tx.commit().unwrap();
}

/// Closes the database twice: the log of the first run would make most pages anew.
fn closed() -> MemDisk {
    let (disk, db) = filled();
    db.close().unwrap();
    let db = open(&disk, DIR);
    db.checkpoint().unwrap();
    db.close().unwrap();
    disk
}

/// Returns the disk as a killed process leaves it.
fn killed(disk: &MemDisk) -> MemDisk {
    let mut walker = disk.walk();
    while walker.step() {}
    walker.image(CrashChoice::All)
}

fn contents(db: &Db) -> Tables {
    let mut tables = Tables::new();
    for name in db.table_names().unwrap() {
        let table = db.open_table(&name).unwrap();
        let rows = db.begin().unwrap().range(&table, ..).unwrap().map(Result::unwrap).collect();
        tables.insert(name, (table.metadata(), table.entry.counter.next(), rows));
    }
    tables
}

/// What opening the database shows, without its prepared transactions.
fn recovered(disk: &MemDisk) -> Tables {
    let disk = disk.fork();
    let db = open(&disk, DIR);
    for xid in db.prepared().unwrap() {
        db.rollback_prepared(xid.as_ref()).unwrap();
    }
    contents(&db)
}

fn file(disk: &MemDisk, name: &str) -> std::sync::Arc<dyn File> {
    let mode = OpenMode { create: Create::Never, direct: false, read_only: false };
    disk.open(&Path::new(DIR).join(name), mode).unwrap()
}

fn read(disk: &MemDisk, name: &str) -> Vec<u8> {
    let file = file(disk, name);
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Leaves no copy of a page in the doublewrite.
fn forget_copies(disk: &MemDisk) {
    let file = file(disk, "doublewrite/areas");
    let len = file.len().unwrap() as usize - 4096;
    file.write_at(&vec![0; len], 4096).unwrap();
}

fn segments(disk: &MemDisk) -> Vec<String> {
    disk.list(&Path::new(DIR).join("redo"))
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with(".log"))
        .collect()
}

/// Rescues, and checks that no byte of the old database has changed.
fn rescue(disk: &MemDisk) -> (RescueReport, Vec<RescueProblem>, Tables) {
    let names = |disk: &MemDisk| {
        let redo = segments(disk).into_iter().map(|name| format!("redo/{name}"));
        redo.chain(["root", "pages", "doublewrite/areas", "LOCK"].map(String::from)).collect::<Vec<_>>()
    };
    let bytes = |disk: &MemDisk| names(disk).iter().map(|name| read(disk, name)).collect::<Vec<_>>();
    let before = bytes(disk);
    let mut problems = Vec::new();
    let (dir, to) = (Path::new(DIR), Path::new(TO));
    let report = rescue_on(&disk.vfs(1), dir, to, &options(), &mut |problem| problems.push(problem)).unwrap();
    assert!(bytes(disk) == before, "the rescue has changed the old database");
    assert_eq!(report.problems, problems.len() as u64);
    let db = open(disk, TO);
    assert!(db.check().unwrap().is_clean());
    let tables = contents(&db);
    let rows: usize = tables.values().map(|(_, _, rows)| rows.len()).sum();
    assert_eq!((report.tables, report.rows), (tables.len() as u64, rows as u64));
    db.close().unwrap();
    (report, problems, tables)
}

fn sentences(problems: &[RescueProblem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// Whether a problem names this key.
fn names_key(problems: &[RescueProblem], name: &str, key: &[u8]) -> bool {
    problems.iter().any(|problem| match problem {
        RescueProblem::Range { table, from, to } => {
            table == name && key >= &from[..] && to.as_ref().is_none_or(|to| key < &to[..])
        }
        RescueProblem::Row { table, key: row, .. } => table == name && key == row,
        _ => false,
    })
}

#[test]
fn a_closed_database_is_copied_whole() {
    let disk = closed();
    let (report, problems, tables) = rescue(&disk);
    assert_eq!(sentences(&problems), "");
    assert!(report.pages >= 64, "{report:?}");
    assert_eq!(tables["loaded"].1, 51);
    assert!(tables == recovered(&disk));
}

/// A transaction that is open, one that is prepared, one that was rolled back; their undo in files
/// and in the log.
#[test]
fn of_a_killed_database_the_rescue_shows_what_recovery_shows() {
    let (disk, db) = filled();
    let t = db.open_table("t").unwrap();
    let (mut open_before, mut open_after) = (db.begin().unwrap(), db.begin().unwrap());
    let change = |tx: &mut crate::db::Transaction, first: u32| {
        tx.put(&t, &key(first), b"not committed").unwrap();
        tx.put(&t, &key(first), b"not committed, again").unwrap();
        tx.delete(&t, &key(first + 1)).unwrap();
        tx.put(&t, &key(first + 2), &[b'z'; 7000]).unwrap();
        tx.insert(&t, &key(10_000 + first), b"new").unwrap();
    };
    change(&mut open_before, 11);
    let mut prepared = db.begin().unwrap();
    change(&mut prepared, 31);
    prepared.prepare(b"xid-1").unwrap();
    db.checkpoint().unwrap();
    change(&mut open_after, 51);
    // The same transaction, with undo in a file and in the log.
    open_before.put(&t, &key(11), b"a third time").unwrap();
    let mut back = db.begin().unwrap();
    change(&mut back, 71);
    back.rollback();
    update(&db, 90..130, 1);
    let image = killed(&disk);
    drop((open_before, open_after));
    let (_, problems, tables) = rescue(&image);
    assert_eq!(sentences(&problems), "prepared transaction \"xid-1\": its changes are left out\n");
    assert!(tables == recovered(&image));
}

/// Whichever page is damaged: each row is saved as it was, or it is named.
#[test]
fn damage_in_any_page_costs_the_rows_of_that_page() {
    let disk = closed();
    forget_copies(&disk);
    let expected = recovered(&disk);
    let pages = read(&disk, "pages").len() / PAGE;
    let mut lost = BTreeSet::new();
    for page in 0..pages {
        if read(&disk, "pages")[page * PAGE..][..PAGE].iter().all(|byte| *byte == 0) {
            continue;
        }
        let disk = disk.fork();
        disk.flip(&Path::new(DIR).join("pages"), (page * PAGE + 2000) as u64, 0x40).unwrap();
        let (_, problems, tables) = rescue(&disk);
        let text = sentences(&problems);
        let is_named = text.contains(&format!("page {page}"));
        // Purge may have freed a page.
        assert!(is_named || tables == expected, "page {page}: {text}");
        // Without the leaf of the catalog the tables have made-up names.
        let renamed: Vec<&(_, _, Rows)> = tables.values().collect();
        for (n, (name, (_, _, rows))) in expected.iter().enumerate() {
            let saved = tables.get(name).map_or(&renamed[n].2, |(_, _, rows)| rows);
            assert!(saved.iter().all(|(key, value)| rows.get(key) == Some(value)), "page {page}: {text}");
            for key in rows.keys().filter(|key| !saved.contains_key(*key)) {
                lost.insert(page);
                assert!(names_key(&problems, name, key), "page {page}, {}: {text}", key.escape_ascii());
            }
        }
        if !tables.contains_key("t") {
            assert!(text.contains("page 16 of table \"(catalog)\""), "page {page}: {text}");
            assert_eq!(tables.keys().cloned().collect::<Vec<_>>(), ["rescued-tree-2", "rescued-tree-3"]);
        }
    }
    assert!(lost.len() > 20, "leaves and pages of long values were damaged: {lost:?}");
}

#[test]
fn without_a_segment_of_the_log_each_row_is_one_that_was_written() {
    // The cleaner makes the log longer.
    let mut with_cleaner = options();
    with_cleaner.tuning.no_threads = false;
    let (disk, db) = filled_with(&with_cleaner);
    db.checkpoint().unwrap();
    let live = || (0..ROWS).filter(|n| n % 7 != 0 && n % 50 != 0);
    for round in 1..12 {
        update(&db, live(), round);
    }
    let image = killed(&disk);
    let expected = recovered(&image);
    let names = segments(&image);
    let mut refused = 0;
    for missing in names.iter().take(16) {
        let image = image.fork();
        image.remove(&Path::new(DIR).join("redo").join(missing)).unwrap();
        let (_, problems, tables) = rescue(&image);
        let text = sentences(&problems);
        if Db::open_on(&image.fork().vfs(1), Path::new(DIR), &options()).is_ok() {
            assert!(tables == recovered(&image), "{missing}: {text}");
            continue;
        }
        assert!(text.contains("the redo log from LSN "), "{missing}: {text}");
        refused += 1;
        let (saved, was) = (&tables["loaded"], &expected["loaded"]);
        assert!(saved.0 == was.0 && saved.2 == was.2, "{missing}: {text}");
        assert!(saved.1 == was.1 || text.contains("counters may be lower"), "{missing}: {text}");
        for (key, value) in &tables["t"].2 {
            let n: u32 = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
            let written = (0..12).any(|round| *value == super::tests::value(n, round));
            assert!(written, "{missing}: {}", key.escape_ascii());
        }
        for key in expected["t"].2.keys().filter(|key| !tables["t"].2.contains_key(*key)) {
            assert!(names_key(&problems, "t", key), "{missing}, {}: {text}", key.escape_ascii());
        }
    }
    assert!(refused >= 1, "{names:?}");
}

/// A page of the file is as it was before its last write, and the log goes on from that write.
#[test]
fn a_lost_write_costs_the_newest_versions_of_that_page() {
    let disk = closed();
    let before = read(&disk, "pages");
    let db = open(&disk, DIR);
    update(&db, [201].into_iter(), 1);
    db.close().unwrap();
    let between = read(&disk, "pages");
    let holds = |pages: &[u8], page: usize, what: &[u8]| {
        pages[page * PAGE..][..PAGE].windows(what.len()).any(|window| window == what)
    };
    let page = (0..before.len() / PAGE).find(|page| holds(&between, *page, b"201/1/")).unwrap();
    // A checkpoint of the next run: the log of the run before is not read any more.
    for (keeps_log, expected) in [(true, &[(201, 1), (202, 2), (300, 2)][..]), (false, &[(300, 2)][..])] {
        let disk = disk.fork();
        let db = open(&disk, DIR);
        update(&db, [300].into_iter(), 2);
        if !keeps_log {
            db.checkpoint().unwrap();
        }
        update(&db, [202].into_iter(), 2);
        let image = killed(&disk);
        drop(db);
        let back = &before[page * PAGE..][..PAGE];
        file(&image, "pages").write_at(back, (page * PAGE) as u64).unwrap();
        forget_copies(&image);
        let (_, problems, tables) = rescue(&image);
        let text = sentences(&problems);
        assert!(tables["t"].2 == rows_of(expected), "{text}");
        if keeps_log {
            assert_eq!(text, "");
            continue;
        }
        assert_eq!(problems.len(), 1, "{text}");
        assert!(text.starts_with(&format!("page {page} of table \"t\": the change at LSN ")), "{text}");
        assert!(text.ends_with("its rows may be older than they were\n"), "{text}");
    }
}

/// The rows of table `t` with these rounds.
fn rows_of(rounds: &[(u32, u32)]) -> Rows {
    let rounds: BTreeMap<u32, u32> = rounds.iter().copied().collect();
    let live = (0..ROWS).filter(|n| n % 7 != 0);
    live.map(|n| (key(n), value(n, rounds.get(&n).copied().unwrap_or(0)))).collect()
}

#[test]
fn a_rescue_is_refused_where_it_could_do_harm() {
    let disk = closed();
    let vfs = disk.vfs(1);
    let refused = |dir: &str, to: &str| {
        rescue_on(&vfs, Path::new(dir), Path::new(to), &options(), &mut |_| ()).unwrap_err().to_string()
    };
    assert_eq!(refused(DIR, "/db/saved"), "/db/saved lies in /db: a rescue changes nothing there");
    assert!(refused(DIR, DIR).contains("lies in /db"));
    vfs.disk.create_dir(Path::new("/other")).unwrap();
    assert!(refused("/other", TO).contains("it has no root"));
    let mode = OpenMode { create: Create::New, direct: false, read_only: false };
    vfs.disk.open(Path::new("/other/file"), mode).unwrap();
    assert!(refused(DIR, "/other").starts_with("/other is not empty: "));
    let held = vfs.disk.lock(Path::new("/db/LOCK")).unwrap();
    assert_eq!(refused(DIR, TO), "/db is in use by another process");
    drop(held);
    for slot in [100, 4196] {
        disk.flip(Path::new("/db/root"), slot, 1).unwrap();
    }
    let both = rescue_on(&vfs, Path::new(DIR), Path::new(TO), &options(), &mut |_| ()).unwrap_err();
    assert!(matches!(both, Error::Corrupt { .. }), "{both}");
    assert!(vfs.disk.list(Path::new(TO)).is_err(), "no new directory was made");
}
