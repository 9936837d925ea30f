//! Directories. A new database uses no directory of anything else. An existing one uses only its
//! own. A creation that is interrupted anywhere leaves a directory that opens.

use super::{DIR, Rows, TREE, options as common, put, rows};
use crate::btree::Tree;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Options;
use metrics::SyncReason;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vfs::mem::{CrashChoice, MemDisk};
use vfs::{Create, Disk, OpenMode};

fn options() -> Options {
    let mut options = common();
    options.tuning.grow_pages = 32;
    options.tuning.doublewrite_pages = 4;
    options.tuning.no_threads = true;
    options
}

/// Options with the log and the doublewrite in other directories.
fn separate(name: &str) -> Options {
    options().redo_dir(format!("/fast/{name}.redo")).doublewrite_dir(format!("/fast/{name}.areas"))
}

/// Returns a disk with a directory beside the database's.
fn disk() -> MemDisk {
    let disk = MemDisk::default();
    disk.create_dir(Path::new("/fast")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn open(disk: &MemDisk, dir: &str, options: &Options) -> Result<Engine> {
    Engine::open(&disk.vfs(disk.op_count()), Path::new(dir), options)
}

fn refused(disk: &MemDisk, dir: &str, options: &Options) -> Error {
    open(disk, dir, options).map(drop).expect_err("it must not open")
}

/// Puts some rows.
fn fill(engine: &Engine, tree: Tree) -> Rows {
    let mut rows = Rows::new();
    for n in 0..20u64 {
        let (key, value) = (n.to_be_bytes().to_vec(), vec![n as u8; 300]);
        let lsn = put(engine, tree, n, &key, &value).unwrap();
        engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
        rows.insert(key, value);
    }
    rows
}

/// Returns every file and directory, with the contents of the files.
fn everything(disk: &MemDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let tops = ["/db", "/fast", "/occupied", "/moved", "/other"].map(PathBuf::from);
    let (mut found, mut dirs) = (BTreeMap::new(), tops.to_vec());
    dirs.retain(|dir| disk.list(dir).is_ok());
    while let Some(dir) = dirs.pop() {
        for name in disk.list(&dir).unwrap() {
            let path = dir.join(name);
            if disk.list(&path).is_ok() {
                found.insert(path.clone(), Vec::new());
                dirs.push(path);
                continue;
            }
            let file = disk.open(&path, mode).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Makes a database in `/db` with rows in it, and closes it.
fn closed_database(options: &Options) -> (MemDisk, Tree, Rows) {
    let disk = disk();
    let engine = open(&disk, DIR, options).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let rows = fill(&engine, tree);
    engine.close().unwrap();
    (disk, tree, rows)
}

fn is_whole(disk: &MemDisk, options: &Options, tree: Tree, wanted: &Rows) {
    let engine = open(disk, DIR, options).unwrap();
    assert!(rows(&engine, tree).unwrap() == *wanted);
    engine.close().unwrap();
}

/// Cuts the power at every operation of a creation, and of the creation that continues it.
#[test]
fn a_creation_interrupted_anywhere_leaves_a_directory_that_opens() {
    for options in [options(), separate("a")] {
        let disk = disk();
        drop(open(&disk, DIR, &options).unwrap());
        let end = disk.op_count();
        let mut walk = disk.walk();
        let mut states = 0;
        loop {
            let at = walk.at();
            let choices =
                [CrashChoice::None, CrashChoice::All, CrashChoice::Random(at), CrashChoice::Random(!at)];
            for choice in choices {
                let image = walk.image(choice);
                // This directory exists in any case, also before the walk has made it.
                let _ = image.create_dir(Path::new("/fast"));
                let context = format!("cut before {at} of {end}, {choice:?}");
                let again = image.fork();
                let engine = open(&again, DIR, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
                let tree = Tree::create(&engine.store, TREE).unwrap();
                let wanted = fill(&engine, tree);
                drop(engine);
                is_whole(&again.fork(), &options, tree, &wanted);
                states += 1;
                if !at.is_multiple_of(4) || !matches!(choice, CrashChoice::Random(_)) {
                    continue;
                }
                // Cuts again.
                let mut second = again.walk();
                for _ in 0..at % 7 {
                    second.step();
                }
                while second.at() < 60 {
                    let image = second.image(CrashChoice::Random(second.at() + at));
                    let _ = image.create_dir(Path::new("/fast"));
                    let opened = open(&image, DIR, &options);
                    drop(opened.unwrap_or_else(|e| panic!("{context}, again before {}: {e}", second.at())));
                    states += 1;
                    if !(0..7).all(|_| second.step()) {
                        break;
                    }
                }
            }
            if !walk.step() {
                break;
            }
        }
        println!("{states} states");
        assert!(states > 400, "{states} states");
    }
}

/// A new database was once made over the log and the doublewrite of another, even while that one
/// was open.
#[test]
fn a_new_database_uses_no_directory_of_another_database() {
    let (disk, tree, wanted) = closed_database(&separate("a"));
    let beside = [
        options().redo_dir("/fast/a.redo"),
        options().doublewrite_dir("/fast/a.areas"),
        options().redo_dir("/fast/a.areas"),
        options().redo_dir("/db/undo"),
        options().doublewrite_dir("/db"),
    ];
    for is_open in [false, true] {
        let engine = is_open.then(|| open(&disk, DIR, &separate("a")).unwrap());
        let before = everything(&disk);
        for options in &beside {
            let error = refused(&disk, "/other", options);
            let (Error::Foreign { file, what } | Error::Corrupt { file, what }) = &error else {
                panic!("{error}");
            };
            assert!(file.starts_with("/fast") || file.starts_with("/db"), "{error}");
            assert!(what.contains("of another database"), "{error}");
        }
        let mut after = everything(&disk);
        after.retain(|path, _| !path.starts_with("/other"));
        assert!(after == before, "something was changed");
        if let Some(engine) = engine {
            engine.checkpoint().unwrap();
            engine.close().unwrap();
        }
        is_whole(&disk, &separate("a"), tree, &wanted);
    }
    // The refused creations left nothing that prevents a valid one.
    drop(open(&disk, "/other", &options()).unwrap());
}

#[test]
fn a_database_without_its_root_is_not_created_again() {
    let (disk, tree, wanted) = closed_database(&options());
    let mode = OpenMode { create: Create::New, direct: true, read_only: false };
    let root = everything(&disk)[Path::new("/db/root")].clone();
    disk.remove(Path::new("/db/root")).unwrap();
    for lock in ["there", "gone"] {
        let before = everything(&disk);
        let text = refused(&disk, DIR, &options()).to_string();
        let wanted = "/db is the directory of a database that has lost its root (doublewrite, pages, redo, … are there)";
        assert!(text.starts_with(wanted), "lock {lock}: {text}");
        assert!(everything(&disk) == before, "something was changed");
        if lock == "there" {
            disk.remove(Path::new("/db/LOCK")).unwrap();
        }
    }
    disk.open(Path::new("/db/root"), mode).unwrap().write_at(&root, 0).unwrap();
    is_whole(&disk, &options(), tree, &wanted);
}

#[test]
fn a_new_database_needs_empty_directories() {
    let disk = disk();
    let mode = OpenMode { create: Create::New, direct: true, read_only: false };
    disk.create_dir(Path::new("/occupied")).unwrap();
    disk.open(Path::new("/occupied/note"), mode).unwrap();
    disk.create_dir(Path::new("/fast/lost+found")).unwrap();
    let before = everything(&disk);
    let error = refused(&disk, "/occupied", &options());
    assert_eq!(
        error.to_string(),
        "/occupied holds no database and is not empty (note): a new database wants an empty directory"
    );
    assert!(everything(&disk) == before, "something was changed");
    let error = refused(&disk, DIR, &options().redo_dir("/occupied"));
    let wanted = "/occupied is not empty (note): a new database wants an empty redo directory";
    assert_eq!(error.to_string(), wanted);
    // A directory that the file system makes is allowed.
    drop(open(&disk, DIR, &options().redo_dir("/fast")).unwrap());
    // Inside the database's own directory, one below the other.
    drop(
        open(&disk, "/nested", &options().redo_dir("/nested/log").doublewrite_dir("/nested/log/areas"))
            .unwrap(),
    );
    drop(
        open(&disk, "/nested", &options().redo_dir("/nested/log").doublewrite_dir("/nested/log/areas"))
            .unwrap(),
    );
}

#[test]
fn one_directory_for_two_purposes_is_refused() {
    let disk = disk();
    let before = everything(&disk);
    for options in [
        options().redo_dir(DIR),
        options().doublewrite_dir(DIR),
        options().redo_dir("/fast/x").doublewrite_dir("/fast/./x/"),
        options().redo_dir("/db/undo"),
    ] {
        let error = refused(&disk, DIR, &options);
        assert!(matches!(&error, Error::Misuse(what) if what.contains("each is one of its own")), "{error}");
    }
    assert!(everything(&disk) == before, "something was changed");
    drop(open(&disk, DIR, &options()).unwrap());
}

#[test]
fn a_database_uses_only_its_own_directories() {
    let (disk, tree, wanted) = closed_database(&separate("a"));
    let other = open(&disk, "/other", &separate("b")).unwrap();
    drop(other);
    // The directory of another database, one with another purpose, and an empty one.
    let redo = |dir: &str| separate("a").redo_dir(dir);
    let error = refused(&disk, DIR, &redo("/fast/b.redo"));
    assert_eq!(error.to_string(), "/fast/b.redo is the redo directory of another database");
    let error = refused(&disk, DIR, &redo("/db/undo"));
    assert!(matches!(&error, Error::Misuse(what) if what.contains("each is one of its own")), "{error}");
    let error = refused(&disk, DIR, &separate("a").doublewrite_dir("/fast/b.areas"));
    assert_eq!(error.to_string(), "/fast/b.areas is the doublewrite directory of another database");
    disk.create_dir(Path::new("/fast/empty")).unwrap();
    let before = everything(&disk);
    let error = refused(&disk, DIR, &redo("/fast/empty"));
    assert_eq!(error.to_string(), "/fast/empty holds no redo log: the database's own is elsewhere");
    assert!(everything(&disk) == before, "something was changed");
    is_whole(&disk, &separate("a"), tree, &wanted);
    // The log was moved, and its new directory is named.
    disk.create_dir(Path::new("/moved")).unwrap();
    for (path, bytes) in everything(&disk) {
        if let Ok(name) = path.strip_prefix("/fast/a.redo")
            && !name.as_os_str().is_empty()
        {
            let mode = OpenMode { create: Create::New, direct: true, read_only: false };
            disk.open(&Path::new("/moved").join(name), mode).unwrap().write_at(&bytes, 0).unwrap();
            disk.remove(&path).unwrap();
        }
    }
    is_whole(&disk, &redo("/moved"), tree, &wanted);
    // Without the `LOCK` files the rest is enough.
    for dir in ["/db", "/db/undo", "/moved", "/fast/a.areas"] {
        disk.remove(&Path::new(dir).join("LOCK")).unwrap();
    }
    is_whole(&disk, &redo("/moved"), tree, &wanted);
    let error = refused(&disk, "/third", &redo("/moved"));
    assert!(error.to_string().contains("of another database"), "{error}");
}
