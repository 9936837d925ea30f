//! Growth of the pages file: ahead of need in the background, and what a full disk does to it.

use super::*;

fn figure(db: &Db, name: &str) -> f64 {
    db.metrics().get(name).unwrap()
}

#[test]
fn the_pages_file_grows_ahead_of_slow_writers() {
    // It must be many extents, because free pages include those in the extents of trees.
    let mut options = options();
    options.tuning.grow_pages = 1024;
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let table = db.create_table("t").unwrap();
    let mut n = 0u32;
    while figure(&db, "file_growths_ahead") < 3.0 {
        if figure(&db, "free_pages") * 4096.0 > figure(&db, "file_reserve_bytes") / 2.0 {
            put(&db, &table, &n.to_be_bytes(), &[7; 700]);
            n += 1;
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(figure(&db, "file_growths_awaited"), 0.0);
    purge_and_check(&db);
}

#[test]
fn growth_ahead_on_a_full_disk_fails_only_writers_that_need_pages() {
    let (faults, db, table) = fresh_with_faults();
    faults.limit_space("/db/pages", 0);
    let put = |n: u32| {
        let mut tx = db.begin().unwrap();
        tx.put(&table, &n.to_be_bytes(), &[7; 700])?;
        tx.commit().map(drop)
    };
    let (mut rows, mut free) = (0, f64::MAX);
    let error = loop {
        match put(rows) {
            Ok(()) => (rows, free) = (rows + 1, figure(&db, "free_pages")),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(free < 16.0, "{free} pages were free, and no extent of 16");
    assert!(matches!(put(rows), Err(Error::DiskFull { .. })));
    // Changes that need no page still work.
    put(0).unwrap();
    faults.heal();
    put(rows).unwrap();
    assert_eq!(all(&db, "t").len() as u32, rows + 1);
    purge_and_check(&db);
}

/// The pages of a long value are written before the row that links them. If one of them, or the
/// row's undo, finds no space, the call fails and its pages are freed, also if the transaction then
/// commits its other changes.
#[test]
fn a_long_value_that_finds_no_space_frees_its_pages() {
    for (full, value) in [("/db/pages", 4 << 20), ("/db/undo", 20 << 10)] {
        history::HISTORY_BYTES.set(4 << 10);
        let (faults, db, table) = fresh_with_faults();
        history::HISTORY_BYTES.set(0);
        let mut tx = db.begin().unwrap();
        tx.put(&table, b"before", b"x").unwrap();
        faults.limit_space(full, 0);
        // So little undo memory that the next change needs the disk.
        let (mut n, mut kept) = (0u32, 1);
        let error = loop {
            match tx.put(&table, &n.to_be_bytes(), &vec![7; value]) {
                Ok(()) => (n, kept) = (n + 1, kept + 1),
                Err(error) => break error,
            }
            assert!(n < 1000, "{full} is not full");
        };
        assert!(matches!(error, Error::DiskFull { .. }), "{full}: {error}");
        tx.commit().unwrap();
        faults.heal();
        assert_eq!(all(&db, "t").len(), kept, "{full}");
        purge_and_check(&db);
    }
}

/// After a fast load the file has grown ahead for a rate that is over, and the log has segments for
/// it.
#[test]
fn a_checkpoint_frees_disk_space_that_was_kept_ready() {
    let mut options = options();
    options.tuning.grow_pages = 2048;
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let table = db.create_table("t").unwrap();
    let mut n = 0u32;
    let bytes = |db: &Db| (figure(db, "file_pages"), db.core.engine.store.log.segments().count());
    let mut round = |db: &Db| {
        let before = figure(db, "file_growths_ahead") + figure(db, "file_growths_awaited");
        while figure(db, "file_growths_ahead") + figure(db, "file_growths_awaited") < before + 3.0 {
            put(db, &table, &n.to_be_bytes(), &[7; 700]);
            n += 1;
        }
        let (pages, segments) = bytes(db);
        db.checkpoint().unwrap();
        let (pages_after, segments_after) = bytes(db);
        assert!(pages_after < pages, "{pages_after} of {pages} pages are left");
        assert!(
            segments_after <= segments && (2..=4).contains(&segments_after),
            "{segments_after} of {segments}"
        );
        let len = vfs.disk.open(
            &Path::new(DIR).join("pages"),
            vfs::OpenMode { create: vfs::Create::Never, direct: false, read_only: true },
        );
        assert_eq!(len.unwrap().len().unwrap() as f64, pages_after * 4096.0);
        assert!(db.check().unwrap().is_clean());
        n
    };
    for _ in 0..3 {
        round(&db);
    }
    let rows = round(&db);
    // A database that was not closed is recovered from a file that may be longer than its last
    // state.
    let crashed = disk.fork();
    db.close().unwrap();
    for disk in [&disk, &crashed] {
        let db = Db::open_on(&disk.vfs(2), Path::new(DIR), &options).unwrap();
        assert_eq!(all(&db, "t").len() as u32, rows);
        purge_and_check(&db);
    }
}
