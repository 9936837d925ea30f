//! A copy of a database does not use the directories of the original, also if the log and the
//! doublewrite were moved out of the database's directory.

use millpond::{Db, Error, Options};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory that is removed at the end of the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("millpond-copies-{name}-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Dir(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options::new().buffer_pool_bytes(4 << 20).redo_capacity_bytes(16 << 20)
}

fn put(db: &Db, value: &[u8]) {
    let table = db.open_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"key", value).unwrap();
    tx.commit().unwrap();
}

/// Makes a database in `db`, and moves its log and its doublewrite to `log` and `areas`.
fn moved_out(top: &Dir) {
    let db = options().open(top.path("db")).unwrap();
    db.create_table("t").unwrap();
    fs::create_dir(top.path("log")).unwrap();
    fs::create_dir(top.path("areas")).unwrap();
    db.set_redo_dir(top.path("log")).unwrap();
    db.set_doublewrite_dir(top.path("areas")).unwrap();
    put(&db, b"original");
    db.close().unwrap();
}

/// Opens a database and checks that its row has this value.
fn open_with(options: &Options, dir: &Path, value: &[u8]) -> Db {
    let db = options.open(dir).unwrap();
    let table = db.open_table("t").unwrap();
    assert_eq!(db.begin().unwrap().get(&table, b"key").unwrap().as_deref(), Some(value));
    db
}

/// Returns the error of opening, without the names of the directories above.
fn refused(top: &Dir, options: &Options, dir: &Path) -> String {
    let before = everything(&top.0);
    let error = options.open(dir).map(drop).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(everything(&top.0) == before, "refusing has changed a file");
    error.to_string().replace(top.0.to_str().unwrap(), "")
}

fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else if path.file_name().is_some_and(|name| name != "progress" && name != "recorder") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// The copy once opened, and wrote its redo over that of the original.
#[test]
fn a_copy_does_not_use_the_originals_log() {
    let top = Dir::new("log");
    moved_out(&top);
    copy(&top.path("db"), &top.path("copy"));
    let copied = top.path("copy");
    assert_eq!(
        refused(&top, &options(), &copied),
        "/log is the redo directory of the database in /db, and /copy is a copy of that: to give it a log of \
         its own, copy this directory and name the copy as redo_dir"
    );
    copy(&top.path("log"), &top.path("log2"));
    let own_log = options().redo_dir(top.path("log2"));
    assert_eq!(
        refused(&top, &own_log, &copied),
        "/areas is the doublewrite directory of the database in /db, and /copy is a copy of that: to give it a \
         doublewrite of its own, copy this directory and name the copy as doublewrite_dir"
    );
    copy(&top.path("areas"), &top.path("areas2"));
    let own = own_log.doublewrite_dir(top.path("areas2"));
    let copied_db = open_with(&own, &copied, b"original");
    let db = open_with(&options(), &top.path("db"), b"original");
    put(&copied_db, b"copy");
    put(&db, b"again");
    copied_db.close().unwrap();
    db.close().unwrap();
    // Each keeps its own, and needs no option any more.
    open_with(&options(), &copied, b"copy").close().unwrap();
    open_with(&options(), &top.path("db"), b"again").close().unwrap();
    // The options of the one are of no use to the other.
    let others = options().redo_dir(top.path("log")).doublewrite_dir(top.path("areas"));
    assert!(
        refused(&top, &others, &copied).starts_with("/log is the redo directory of the database in /db,")
    );
}

#[test]
fn directories_that_are_renamed_or_copied_together_are_still_used() {
    let top = Dir::new("renamed");
    moved_out(&top);
    fs::rename(top.path("db"), top.path("renamed")).unwrap();
    open_with(&options(), &top.path("renamed"), b"original").close().unwrap();
    // A backup of all of it is restored.
    for name in ["renamed", "log", "areas"] {
        copy(&top.path(name), &top.path("backup"));
        fs::remove_dir_all(top.path(name)).unwrap();
        fs::rename(top.path("backup"), top.path(name)).unwrap();
    }
    open_with(&options(), &top.path("renamed"), b"original").close().unwrap();
    // The log alone is moved to another device.
    copy(&top.path("log"), &top.path("elsewhere"));
    fs::remove_dir_all(top.path("log")).unwrap();
    let named = options().redo_dir(top.path("elsewhere"));
    open_with(&named, &top.path("renamed"), b"original").close().unwrap();
    copy(&top.path("renamed"), &top.path("copy"));
    assert!(refused(&top, &options(), &top.path("copy")).starts_with("/elsewhere is the redo directory"));
}

/// The directory is a part of the database's own by name only.
#[test]
fn a_copy_with_links_to_the_originals_directories_is_refused() {
    let top = Dir::new("links");
    moved_out(&top);
    let other = options().redo_dir(top.path("log")).doublewrite_dir(top.path("areas"));
    let db = other.open(top.path("db")).unwrap();
    db.close().unwrap();
    fs::rename(top.path("db/undo"), top.path("undo")).unwrap();
    std::os::unix::fs::symlink(top.path("undo"), top.path("db/undo")).unwrap();
    open_with(&options(), &top.path("db"), b"original").close().unwrap();
    copy(&top.path("db"), &top.path("copy"));
    fs::remove_dir_all(top.path("copy/undo")).unwrap();
    std::os::unix::fs::symlink(top.path("undo"), top.path("copy/undo")).unwrap();
    for name in ["log", "areas"] {
        copy(&top.path(name), &top.path(&format!("{name}2")));
    }
    let own = options().redo_dir(top.path("log2")).doublewrite_dir(top.path("areas2"));
    let error = refused(&top, &own, &top.path("copy"));
    assert!(error.starts_with("/copy/undo is the undo directory of the database in /db,"), "{error}");
}

/// Databases of earlier releases say nothing of their places. The next open adds it.
#[test]
fn a_database_that_does_not_say_where_it_is_says_so_after_an_open() {
    let top = Dir::new("old");
    moved_out(&top);
    for dir in ["db", "log", "areas", "db/undo"] {
        let lock = fs::File::options().write(true).open(top.path(dir).join("LOCK")).unwrap();
        lock.write_all_at(&[0; 480], 32).unwrap();
    }
    open_with(&options(), &top.path("db"), b"original").close().unwrap();
    copy(&top.path("db"), &top.path("copy"));
    assert!(refused(&top, &options(), &top.path("copy")).starts_with("/log is the redo directory"));
}
