//! Dropping tables with a nearly full log, on a full disk, and with an unreadable map page.

use super::rollback::{evict, key, until, vfs_of};
use super::*;
use base::TreeId;
use std::cell::RefCell;
use vfs::fault::FaultDisk;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("table {n:05}")).collect()
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn log_fits(db: &Db) {
    let log = &db.core.engine.store.log;
    let files = log.segments().count() * log.segments().block_bytes();
    assert!(files <= 1 << 20, "the log has {files} bytes of files");
    assert!(figure(db, "checkpoint_age_bytes") <= 1 << 20);
}

fn a_megabyte() -> Options {
    let mut options = options().redo_capacity_bytes(1 << 20);
    options.tuning.segment_blocks = 32;
    options
}

/// One call may create or drop more tables than fit into the log at once. (Once it asked for log
/// space for all of them together, and waited for ever.)
#[test]
fn thousands_of_tables_are_created_and_dropped_with_a_log_of_one_megabyte() {
    let db = Db::open_on(&vfs_of(MemDisk::default()), Path::new(DIR), &a_megabyte()).unwrap();
    let (names, free) = (names(3_000), db.core.engine.store.space.free_pages());
    let tables = db.create_tables(&refs(&names)).unwrap();
    assert_eq!((tables.len(), figure(&db, "trees_without_table")), (3_000, 0));
    log_fits(&db);
    db.drop_tables(&refs(&names)).unwrap();
    log_fits(&db);
    assert!(db.table_names().unwrap().is_empty());
    until("the last pages", || figure(&db, "trees_without_table") == 0);
    purge_and_check(&db);
    assert!(db.core.engine.store.space.free_pages() > free);
}

/// A check looked at the pages of tables alone and said "ok" while replay had not come yet to a
/// page that it could not complete. A moment later the database was poisoned.
#[test]
fn a_check_waits_for_redo_that_no_table_needs() {
    let disk = MemDisk::default();
    let db = open(&disk);
    let (tree, _) = large(&db);
    db.checkpoint().unwrap();
    let pages = db.core.engine.store.space.used_pages().unwrap()[&tree].clone();
    let table = db.open_table("large").unwrap();
    (0..20).for_each(|n| put(&db, &table, &key(n, 0), &[8; 500]));
    db.drop_table("large").unwrap();
    let killed = disk.fork();
    let path = Path::new(DIR).join("pages");
    for page in pages {
        (0..64).for_each(|at| killed.flip(&path, u64::from(page.0) * 4096 + at, 0x5a).unwrap());
    }
    let db = open(&killed);
    match db.check() {
        Err(Error::Corrupt { .. } | Error::Poisoned { .. }) => {}
        // The background has freed the pages before replay came to them. Then no redo needs them,
        // and nothing may fail later.
        Ok(checked) => {
            db.close().unwrap_or_else(|error| panic!("{checked:?}, and then: {error}"));
            open(&killed).check().unwrap();
        }
        Err(error) => panic!("{error}"),
    }
}

/// Fills the log until only rollback and drops are admitted, while no checkpoint can move: the
/// returned transaction's undo finds no disk space.
fn full_log_on_a_full_disk(db: &Db, faults: &FaultDisk) -> Transaction {
    let t = db.create_table("rows").unwrap();
    (0..50).for_each(|n: u64| put(db, &t, &n.to_be_bytes(), &[7; 700]));
    db.checkpoint().unwrap();
    faults.limit_space(DIR, 0);
    let mut open = db.begin().unwrap();
    for n in 0..100_000_u64 {
        match open.put(&t, &(n % 50).to_be_bytes(), &[n as u8; 700]) {
            Ok(()) => {}
            Err(Error::DiskFull { .. }) => return open,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the log never fills");
}

fn drops_on_a_full_disk() {
    let faults = FaultDisk::new(Arc::new(MemDisk::default()));
    let db = Db::open_on(&vfs_of(faults.clone()), Path::new(DIR), &a_megabyte()).unwrap();
    let names = names(4_000);
    db.create_tables(&refs(&names)).unwrap();
    let open = full_log_on_a_full_disk(&db, &faults);
    let refused = db.drop_tables(&refs(&names));
    assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    log_fits(&db);
    assert_eq!((db.table_names().unwrap().len(), figure(&db, "poisoned")), (names.len() + 1, 0));
    // While the log has room for it, tables can be dropped one by one.
    let mut gone = 0;
    while gone < names.len() {
        match db.drop_table(&names[gone]) {
            Ok(()) => gone += 1,
            Err(Error::DiskFull { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    log_fits(&db);
    assert_eq!(figure(&db, "poisoned"), 0);
    faults.heal();
    drop(open);
    until("room in the log", || {
        let dropped = db.drop_tables(&refs(&names[gone..]));
        db.checkpoint().unwrap();
        dropped.is_ok()
    });
    until("the last pages", || {
        db.checkpoint().unwrap();
        figure(&db, "trees_without_table") == 0
    });
    log_fits(&db);
    assert_eq!(db.table_names().unwrap(), ["rows"]);
}

#[test]
fn on_a_full_disk_a_drop_is_refused_before_the_log_is_full() {
    drops_on_a_full_disk();
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_drop_without_admission_is_found() {
    failure_of(crate::planted::Bug::ReleaseUnasked, drops_on_a_full_disk);
}

/// Makes a table with pages in shared extents and extents of its own. Returns its tree, and how
/// many pages are free.
fn large(db: &Db) -> (TreeId, u64) {
    let t = db.create_table("large").unwrap();
    (0..400u32).for_each(|n| put(db, &t, &n.to_be_bytes(), &[7; 700]));
    purge_and_check(db);
    (t.entry.tree.id, db.core.engine.store.space.free_pages())
}

/// Releasing a tree takes several steps. If one fails, the next call continues with what is left.
#[test]
fn a_failed_step_of_releasing_a_tree_can_be_repeated() {
    let damaged = || Error::corrupt(Path::new("/db/pages"), "page 1 is damaged");
    let full = || Error::DiskFull { file: "/db/pages".into() };
    for (refused, error) in (0..3).flat_map(|step| [(step, damaged()), (step, full())]) {
        let disk = MemDisk::default();
        let db = open(&disk);
        let (tree, free) = large(&db);
        // The space map finds the tree's extents after opening too.
        db.close().unwrap();
        let db = open(&disk);
        let space = &db.core.engine.store.space;
        let used = space.used_pages().unwrap()[&tree].len() as u64;
        let steps = RefCell::new(0);
        let room = |_| {
            *steps.borrow_mut() += 1;
            if *steps.borrow() == refused + 1 { Err(error.clone()) } else { Ok(()) }
        };
        let given = space.release_tree(tree, &room).map_err(|error| error.to_string());
        let last = refused == 2 && matches!(error, Error::Corrupt { .. });
        assert_eq!(given, if last { Ok(()) } else { Err(error.to_string()) });
        let (asked, left) =
            (*steps.borrow(), space.used_pages().unwrap().get(&tree).map_or(0, Vec::len) as u64);
        match error {
            Error::Corrupt { .. } => assert_eq!((asked, left > 0), (3, refused < 2), "after step {refused}"),
            _ => assert_eq!((asked, left > 0), (refused + 1, refused < 2), "after step {refused}"),
        }
        assert!(left < used || (refused == 0 && asked == 1));
        space.release_tree(tree, &|_| Ok(())).unwrap();
        assert!(!space.used_pages().unwrap().contains_key(&tree));
        assert!(
            space.free_pages() >= free + used,
            "{} free, {free} before and {used} used",
            space.free_pages()
        );
    }
}

/// A release that a drop could not finish is counted, and the report names what could not be read.
/// It is tried again later, and by the next open.
#[test]
fn a_release_that_failed_is_reported_and_tried_again() {
    let disk = MemDisk::default();
    let db = open(&disk);
    let (tree, free) = large(&db);
    // Drops the table as if a page of the map were unreadable.
    let txns = &db.core.engine.txns;
    let no_room = || Ok(());
    let (dropped, lsn) = db.core.catalog.drop_tables(&["large"], Duration::ZERO, no_room).unwrap();
    db.core.flush(lsn).unwrap();
    txns.trees.remove(dropped[0].tree.id);
    assert_eq!(figure(&db, "trees_without_table"), 1);
    txns.releaser().quarantine_release(tree, Error::corrupt(Path::new("/db/pages"), "page 1 is damaged"));
    let report = db.check().unwrap();
    assert_eq!(report.unreachable_pages, None, "it looks for pages that nothing leads to");
    assert!(report.to_string().contains("tree 2, which no table has, cannot be given back"), "{report}");
    assert_eq!(figure(&db, "transactions_set_aside"), 0);
    let image = disk.fork();
    until("the next try", || figure(&db, "trees_without_table") == 0);
    purge_and_check(&db);
    assert!(db.core.engine.store.space.free_pages() > free);
    let db = open(&image);
    purge_and_check(&db);
    assert!(!db.core.engine.store.space.used_pages().unwrap().contains_key(&tree));
}

/// A drop succeeds although a page of the map is unreadable. Only the pages that it describes stay
/// in use.
#[test]
fn an_unreadable_map_page_delays_only_the_pages_it_describes() {
    let disk = MemDisk::default();
    let db = open(&disk);
    let others = db.create_table("others").unwrap();
    let mut tx = db.begin().unwrap();
    (0..800).for_each(|n| tx.put(&others, &key(n, 0), &[7; 700]).unwrap());
    tx.commit().unwrap();
    let small = db.create_table("small").unwrap();
    put(&db, &small, b"k", b"v");
    let (tree, _) = large(&db);
    db.checkpoint().unwrap();
    evict(&db);
    // The first group's map page.
    let flip = || disk.flip(&Path::new(DIR).join("pages"), 4096 + 100, 1).unwrap();
    flip();
    db.drop_tables(&["large", "small"]).unwrap();
    assert_eq!((figure(&db, "trees_without_table"), db.table_names().unwrap().len()), (1, 1));
    assert!(matches!(db.check(), Err(Error::Corrupt { .. })));
    // The same bit again: the page is as it was.
    flip();
    until("the next try", || figure(&db, "trees_without_table") == 0);
    purge_and_check(&db);
    assert!(!db.core.engine.store.space.used_pages().unwrap().contains_key(&tree));
}
