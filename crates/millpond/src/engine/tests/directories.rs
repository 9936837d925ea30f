//! Directories: a new database takes none that is somebody's, one that stands takes its own alone, and a creation that is
//! cut short anywhere leaves what opens.

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

/// With the log and the doublewrite elsewhere.
fn apart(name: &str) -> Options {
    options().redo_dir(format!("/fast/{name}.redo")).doublewrite_dir(format!("/fast/{name}.areas"))
}

/// A disk with a directory beside the database's.
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

/// Every file and directory, and what the files hold.
fn everything(disk: &MemDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let tops = ["/db", "/fast", "/house", "/moved", "/other"].map(PathBuf::from);
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

/// A database in `/db` with rows in it, closed.
fn standing(options: &Options) -> (MemDisk, Tree, Rows) {
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

/// At every operation of a creation, and of the creation that goes on after it.
#[test]
fn a_creation_that_is_cut_short_anywhere_leaves_what_opens() {
    for options in [options(), apart("a")] {
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
                // What the walk has not come to yet is there in any case.
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
                // And cut again.
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

/// A new database was made over the log and the doublewrite of another, even while that one was open.
#[test]
fn a_new_database_takes_no_directory_that_is_anothers() {
    let (disk, tree, wanted) = standing(&apart("a"));
    let beside = [
        options().redo_dir("/fast/a.redo"),
        options().doublewrite_dir("/fast/a.areas"),
        options().redo_dir("/fast/a.areas"),
        options().redo_dir("/db/undo"),
        options().doublewrite_dir("/db"),
    ];
    for is_open in [false, true] {
        let engine = is_open.then(|| open(&disk, DIR, &apart("a")).unwrap());
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
        is_whole(&disk, &apart("a"), tree, &wanted);
    }
    // What was refused left nothing that stands in the way.
    drop(open(&disk, "/other", &options()).unwrap());
}

#[test]
fn a_database_without_its_root_is_not_made_anew() {
    let (disk, tree, wanted) = standing(&options());
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
fn a_new_database_wants_empty_directories() {
    let disk = disk();
    let mode = OpenMode { create: Create::New, direct: true, read_only: false };
    disk.create_dir(Path::new("/house")).unwrap();
    disk.open(Path::new("/house/letter"), mode).unwrap();
    disk.create_dir(Path::new("/fast/lost+found")).unwrap();
    let before = everything(&disk);
    let error = refused(&disk, "/house", &options());
    assert_eq!(
        error.to_string(),
        "/house holds no database and is not empty (letter): a new database wants an empty directory"
    );
    assert!(everything(&disk) == before, "something was changed");
    let error = refused(&disk, DIR, &options().redo_dir("/house"));
    let wanted = "/house is not empty (letter): a new database wants an empty redo directory";
    assert_eq!(error.to_string(), wanted);
    // What a file system puts into a directory of its own is nobody's.
    drop(open(&disk, DIR, &options().redo_dir("/fast")).unwrap());
    // In the database's own directory, one below another.
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
fn one_directory_twice_is_refused() {
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
fn a_database_takes_its_own_directories_alone() {
    let (disk, tree, wanted) = standing(&apart("a"));
    let other = open(&disk, "/other", &apart("b")).unwrap();
    drop(other);
    // Another's, one for another purpose, and none.
    let redo = |dir: &str| apart("a").redo_dir(dir);
    let error = refused(&disk, DIR, &redo("/fast/b.redo"));
    assert_eq!(error.to_string(), "/fast/b.redo is the redo directory of another database");
    let error = refused(&disk, DIR, &redo("/db/undo"));
    assert!(matches!(&error, Error::Misuse(what) if what.contains("each is one of its own")), "{error}");
    let error = refused(&disk, DIR, &apart("a").doublewrite_dir("/fast/b.areas"));
    assert_eq!(error.to_string(), "/fast/b.areas is the doublewrite directory of another database");
    disk.create_dir(Path::new("/fast/empty")).unwrap();
    let before = everything(&disk);
    let error = refused(&disk, DIR, &redo("/fast/empty"));
    assert_eq!(error.to_string(), "/fast/empty holds no redo log: the database's own is elsewhere");
    assert!(everything(&disk) == before, "something was changed");
    is_whole(&disk, &apart("a"), tree, &wanted);
    // Moved, and named anew.
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
    // Without the files that say whose they are, the rest is enough.
    for dir in ["/db", "/db/undo", "/moved", "/fast/a.areas"] {
        disk.remove(&Path::new(dir).join("LOCK")).unwrap();
    }
    is_whole(&disk, &redo("/moved"), tree, &wanted);
    let error = refused(&disk, "/third", &redo("/moved"));
    assert!(error.to_string().contains("of another database"), "{error}");
}
