//! The doublewrite switched off and on.

use super::*;
use crate::Doublewrite;

const HINT: &str = "may have been torn while the doublewrite was off";

fn open_with(disk: &MemDisk, doublewrite: Doublewrite) -> crate::Result<Db> {
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    Db::open_on(&vfs, Path::new(DIR), &options().doublewrite(doublewrite).eager_recovery(true))
}

/// Writes 40 rows and all their pages.
fn work(db: &Db, round: u8) {
    let table = db.open_table("t").unwrap();
    (0..40u64).for_each(|n| put(db, &table, &n.to_be_bytes(), &[round; 900]));
    db.checkpoint().unwrap();
}

#[test]
fn the_doublewrite_is_switched_while_the_database_is_used() {
    let (disk, db, _) = fresh();
    let pages = |db: &Db| figure(db, "doublewrite_pages");
    work(&db, 1);
    let protected = pages(&db);
    assert!(protected > 0 && figure(&db, "doublewrite_off") == 0);
    assert_eq!(db.check().unwrap().notes, Vec::<String>::new());
    db.set_doublewrite(Doublewrite::UnsafeOff).unwrap();
    work(&db, 2);
    assert_eq!((pages(&db), figure(&db, "doublewrite_off")), (protected, 1));
    let report = db.check().unwrap();
    let note = "the doublewrite is off: a power cut may tear pages that cannot be restored";
    assert_eq!(report.notes, [note]);
    assert!(report.to_string().ends_with(&format!("\nnote: {note}")) && report.is_clean(), "{report}");
    // A bulk load has no content in the redo, so its pages have copies all the same.
    let mut load = db.begin_bulk_load("loaded").unwrap();
    (0..100u64).for_each(|n| load.push(&n.to_be_bytes(), &[3; 900]).unwrap());
    load.commit().unwrap();
    assert!(pages(&db) > protected);
    db.set_doublewrite(Doublewrite::On).unwrap();
    let protected = pages(&db);
    work(&db, 4);
    assert!(pages(&db) > protected && figure(&db, "doublewrite_off") == 0);
    db.close().unwrap();
    drop(db);
    // An option of each open: what one open said does not bind the next.
    for (off, notes) in [(Doublewrite::UnsafeOff, 1), (Doublewrite::On, 0)] {
        let db = open_with(&disk, off).unwrap();
        work(&db, 5);
        assert_eq!(db.check().unwrap().notes.len(), notes);
        db.close().unwrap();
    }
}

/// Power cuts at every operation while pages are written without copies. Each state is either
/// whole, or the opening names the page that was torn. The disk tears pages, so some are.
#[test]
fn a_page_that_is_torn_without_a_copy_is_named() {
    let disk = MemDisk::default();
    let db = open_with(&disk, Doublewrite::UnsafeOff).unwrap();
    db.create_table("t").unwrap();
    work(&db, 1);
    let from = disk.op_count();
    work(&db, 2);
    let to = disk.op_count();
    drop(db);
    let (mut walk, mut whole, mut torn) = (disk.walk(), 0, 0);
    while walk.step() && walk.at() <= to {
        if walk.at() < from {
            continue;
        }
        let image = walk.image(CrashChoice::Random(walk.at()));
        match open_with(&image, Doublewrite::On) {
            Ok(db) => {
                let rows = all(&db, "t");
                assert_eq!(rows.len(), 40);
                assert!(rows.values().all(|row| row.len() == 900 && [1, 2].contains(&row[0])));
                whole += 1;
            }
            Err(Error::Corrupt { file, what }) => {
                assert!(file.ends_with("pages") && what.ends_with(HINT), "{what}");
                assert!(what.contains("page "), "{what}");
                torn += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(whole > 20 && torn > 0, "{whole} whole, {torn} torn");
}
