//! An open database keeps to its own files, whatever becomes of the paths by which they were found
//! (Fi7). Each test runs in its own process.

mod process;

use millpond::{Db, Options};
use process::in_a_process;
use rustix::process::{Resource, Rlimit, chdir, chroot, fchdir, setrlimit};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const ROWS: u64 = 1000;

/// Few files of the log are open at once, so most of them are opened again while the test runs.
fn few_descriptors() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(56), maximum: Some(56) }).unwrap();
}

fn options() -> Options {
    Options::new().buffer_pool_bytes(4 << 20).redo_capacity_bytes(80 << 20)
}

/// Options with the log and the doublewrite outside of the database's directory.
fn separate(dir: &Path) -> Options {
    options().redo_dir(dir.join("log")).doublewrite_dir(dir.join("areas"))
}

/// Makes a database whose rows have `value`, and closes it.
fn make(options: &Options, dir: &Path, value: u8) {
    let db = options.open(dir).unwrap();
    db.create_table("t").unwrap();
    put(&db, value);
    db.close().unwrap();
}

fn put(db: &Db, value: u8) {
    let table = db.open_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    for n in 0..ROWS {
        tx.put(&table, &n.to_be_bytes(), &[value; 1500]).unwrap();
    }
    tx.commit().unwrap();
}

/// Makes, renames, opens again and removes files of every kind: segments of the log, undo of an
/// unfinished transaction, the doublewrite of another directory. Log and doublewrite move to
/// `fast`. The rows have value 100 then.
fn work(db: &Db, fast: Option<&Path>) {
    let snapshot = db.begin().unwrap();
    for round in 0..=100u8 {
        put(db, round);
        if round % 20 == 7 {
            let mut open = db.begin().unwrap();
            open.put(&db.open_table("t").unwrap(), b"open", &[1; 1000]).unwrap();
            db.checkpoint().unwrap();
        }
        if let Some(fast) = fast.filter(|_| round == 50) {
            fs::create_dir_all(fast.join("log")).unwrap();
            fs::create_dir_all(fast.join("areas")).unwrap();
            db.set_redo_dir(fast.join("log")).unwrap();
            db.set_doublewrite_dir(fast.join("areas")).unwrap();
        }
    }
    snapshot.commit().unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.redo_dir_before(), None, "the log has left its first directory");
}

/// Checks that the database opens and that its rows have `value`.
fn holds(options: &Options, dir: &Path, value: u8) {
    let db = options.open(dir).unwrap();
    let (table, tx) = (db.open_table("t").unwrap(), db.begin().unwrap());
    let rows = tx.range(&table, ..).unwrap().map(Result::unwrap);
    assert_eq!(rows.map(|(_, found)| assert_eq!(found, [value; 1500])).count() as u64, ROWS);
    assert!(db.check().unwrap().notes.is_empty());
    drop(tx);
    db.close().unwrap();
}

/// Returns every file below a directory, with its content.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for (path, bytes) in everything(from) {
        let to = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, bytes).unwrap();
    }
}

/// A server that opened its database by a relative path and then changed its working directory went
/// on without an error. Afterwards neither that database nor the one at the new place opened.
#[test]
fn another_working_directory_does_not_matter() {
    in_a_process("another_working_directory_does_not_matter", |dir| {
        let (here, there, fast) = (dir.join("here"), dir.join("there"), dir.join("fast"));
        for name in ["db", "separate"] {
            fs::create_dir_all(&here).unwrap();
            fs::create_dir_all(&there).unwrap();
            few_descriptors();
            let (one, other) = match name {
                "db" => (options(), options()),
                _ => (separate(Path::new("")), separate(&there)),
            };
            make(&other, &there.join(name), 200);
            chdir(&here).unwrap();
            let db = {
                make(&one, Path::new(name), 0);
                one.open(name).unwrap()
            };
            let before = everything(&there);
            chdir(&there).unwrap();
            work(&db, Some(&fast.join(name)));
            db.close().unwrap();
            assert!(everything(&there) == before, "the other database's files are as they were");
            chdir("/").unwrap();
            holds(&one, &here.join(name), 100);
            holds(&other, &there.join(name), 200);
        }
    });
}

#[test]
fn a_renamed_directory_stays_the_databases() {
    in_a_process("a_renamed_directory_stays_the_databases", |dir| {
        few_descriptors();
        for (name, options) in [("db", options()), ("separate", separate(dir))] {
            let (path, moved) = (dir.join(name), dir.join(name.to_owned() + "-moved"));
            make(&options, &path, 0);
            let db = options.open(&path).unwrap();
            fs::rename(&path, &moved).unwrap();
            if name == "separate" {
                fs::rename(dir.join("log"), dir.join("log-moved")).unwrap();
                fs::rename(dir.join("areas"), dir.join("areas-moved")).unwrap();
            }
            work(&db, Some(&dir.join("fast").join(name)));
            db.close().unwrap();
            assert!(!path.exists() && !dir.join("log").exists() && !dir.join("areas").exists());
            holds(&Options::new(), &moved, 100);
        }
    });
}

/// A backup is put in the place of a database that is still open.
#[test]
fn a_directory_put_in_the_place_of_another_is_left_alone() {
    in_a_process("a_directory_put_in_the_place_of_another_is_left_alone", |dir| {
        few_descriptors();
        for (name, options) in [("db", options()), ("separate", separate(dir))] {
            let path = dir.join(name);
            let places: Vec<PathBuf> = match name {
                "db" => vec![path.clone()],
                _ => vec![path.clone(), dir.join("log"), dir.join("areas")],
            };
            let aside = |place: &Path| place.with_extension("aside");
            make(&options, &path, 0);
            let db = options.open(&path).unwrap();
            put(&db, 200);
            db.close().unwrap();
            let backup = |place: &Path| place.with_extension("backup");
            places.iter().for_each(|place| copy(place, &backup(place)));
            let db = options.open(&path).unwrap();
            for place in &places {
                fs::rename(place, aside(place)).unwrap();
                fs::rename(backup(place), place).unwrap();
            }
            let restored = || places.iter().map(|place| everything(place)).collect::<Vec<_>>();
            let before = restored();
            work(&db, Some(&dir.join("fast").join(name)));
            db.close().unwrap();
            assert!(restored() == before, "the restored files are as they were");
            holds(&Options::new(), &aside(&path), 100);
            holds(&options, &path, 200);
        }
    });
}

/// Changing the root directory needs the right to do so.
#[test]
fn another_root_directory_does_not_matter() {
    in_a_process("another_root_directory_does_not_matter", |dir| {
        let (path, prison) = (dir.join("db"), dir.join("prison"));
        fs::create_dir(&prison).unwrap();
        make(&options(), &path, 0);
        let db = options().open(&path).unwrap();
        let top = fs::File::open("/").unwrap();
        if chroot(&prison).is_err() {
            return;
        }
        chdir("/").unwrap();
        work(&db, None);
        db.close().unwrap();
        fchdir(&top).unwrap();
        chroot(".").unwrap();
        holds(&options(), &path, 100);
        assert_eq!(fs::read_dir(&prison).unwrap().count(), 0);
    });
}
