//! Two databases on one disk: the second one is given directories of the first.

use crate::driver::Driver;
use crate::engine::options;
use crate::shape::SMALL;
use base::sync::sim::pause;
use millpond::{Db, Error, Options};
use std::path::Path;
use vfs::mem::MemDisk;
use vfs::{Disk, Vfs};

const ONE: &str = "/one";
const OTHER: &str = "/other";

fn open(disk: &MemDisk, seed: u64, dir: &str, with: impl Fn(Options) -> Options) -> millpond::Result<Db> {
    let vfs: Vfs = disk.vfs(seed);
    millpond::sim::open(&vfs, Path::new(dir), &with(options(&vfs, &SMALL)))
}

/// A new database is told to put its log or its doublewrite into a directory of another database,
/// which is open or closed. This is refused, and the other database loses nothing.
pub(super) fn foreign(d: &Driver) {
    let mut rng = d.rng(1);
    let disk = MemDisk::default();
    disk.create_dir(Path::new("/fast")).expect("it is not there");
    disk.sync_dir(Path::new("/")).expect("a disk that does not fail");
    let mine = |options: Options| options.redo_dir("/fast/redo").doublewrite_dir("/fast/areas");
    let mut one = open(&disk, 1, ONE, mine).expect("a new one");
    let table = one.create_table("t").expect("a new one");
    let rows = rng.between(1, 40);
    for n in 0..rows {
        let mut tx = one.begin().expect("it is open");
        tx.put(&table, &n.to_be_bytes(), &[7; 300]).expect("there is no conflict");
        tx.commit().expect("there is no conflict");
    }
    drop(table);
    for turn in 0..3 {
        let theirs = |options: Options| match turn {
            0 => options.redo_dir("/fast/redo"),
            1 => options.doublewrite_dir("/fast/areas"),
            _ => options.redo_dir("/fast/areas").doublewrite_dir("/fast/redo"),
        };
        let is_open = rng.one_in(2);
        if !is_open {
            one.close().expect("a disk that does not fail");
        }
        match open(&disk, 2, OTHER, theirs) {
            Err(Error::Foreign { what, .. }) if what.contains("another database") => {}
            Err(other) => panic!("turn {turn}: {other}"),
            Ok(_) => panic!("turn {turn}: a new database took another's directory"),
        }
        pause(rng.below(10_000));
        if is_open {
            one.checkpoint().expect("its files are unchanged");
            one.close().expect("its files are unchanged");
        }
        one = open(&disk, 3, ONE, mine).expect("its files are unchanged");
        let found = one.begin().expect("it is open");
        let table = one.open_table("t").expect("it was made");
        assert_eq!(found.range(&table, ..).expect("it is open").count() as u64, rows, "rows are gone");
        found.rollback();
    }
    one.close().expect("a disk that does not fail");
}
