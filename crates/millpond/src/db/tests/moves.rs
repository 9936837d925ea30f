//! The log and the doublewrite move to other directories while the database is used.

use super::power_cuts::{crash_stride, cut_power_everywhere};
use super::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::fault::{Fault, FaultRule, OpKind};
use vfs::{Create, Disk, OpenMode};

const WRITERS: u64 = 3;

/// Makes empty directories, durably.
fn make_dirs(disk: &dyn Disk, names: &[&str]) {
    for name in names {
        disk.create_dir(Path::new(name)).unwrap();
    }
    disk.sync_dir(Path::new("/")).unwrap();
}

fn make_file(disk: &dyn Disk, path: &str) {
    let mode = OpenMode { create: Create::New, direct: false, read_only: false };
    disk.open(Path::new(path), mode).unwrap();
}

fn open_with(disk: &MemDisk, options: &Options) -> crate::Result<Db> {
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    Db::open_on(&vfs, Path::new(DIR), options)
}

/// Writes until the log has left the directory of before.
fn write_until_moved(db: &Db, model: &mut Rows) {
    let table = db.open_table("t").unwrap();
    for round in 0u64.. {
        assert!(round < 2000, "the log never leaves {:?}", db.redo_dir_before());
        if db.redo_dir_before().is_none() {
            return;
        }
        let (key, value) = ((round % 50).to_be_bytes().to_vec(), vec![round as u8; 900]);
        put(db, &table, &key, &value);
        model.insert(key, value);
        if round.is_multiple_of(100) {
            db.checkpoint().unwrap();
        }
    }
}

fn names(disk: &dyn Disk, dir: &str) -> Vec<String> {
    disk.list(Path::new(dir)).unwrap()
}

#[test]
fn both_move_under_writers_and_the_old_directories_are_empty() {
    let (disk, db, _) = fresh();
    make_dirs(&disk, &["/one", "/two", "/areas"]);
    let stop = AtomicBool::new(false);
    let mut model = Rows::new();
    std::thread::scope(|scope| {
        let writers = (0..WRITERS).map(|writer| {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let (table, mut rng, mut rows) =
                    (db.open_table("t").unwrap(), Prng::new(writer), Rows::new());
                while !stop.load(Ordering::Relaxed) {
                    let key = [writer.to_be_bytes(), rng.below(200).to_be_bytes()].concat();
                    let value = vec![rng.below(256) as u8; rng.below(900) as usize];
                    put(db, &table, &key, &value);
                    rows.insert(key, value);
                }
                rows
            })
        });
        let writers: Vec<_> = writers.collect();
        for dir in ["/one", "/two", "/db/redo", "/two"] {
            let before = db.redo_dir();
            db.set_redo_dir(dir).unwrap();
            assert_eq!(db.redo_dir(), Path::new(dir));
            for areas in ["/areas", "/db/doublewrite"] {
                db.set_doublewrite_dir(areas).unwrap();
                assert_eq!(db.doublewrite_dir(), Path::new(areas));
            }
            // The writers go on, so the checkpoint passes what is left behind.
            while db.redo_dir_before().is_some() {
                db.checkpoint().unwrap();
            }
            assert_eq!(names(&disk, before.to_str().unwrap()), ["LOCK"]);
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| model.extend(writer.join().unwrap()));
    });
    db.set_doublewrite_dir("/areas").unwrap();
    assert_eq!(all(&db, "t"), model);
    db.close().unwrap();
    drop(db);
    assert_eq!(names(&disk, "/areas"), ["LOCK", "areas"]);
    assert_eq!(names(&disk, "/db/doublewrite"), ["LOCK"]);
    // The root knows where they are, whatever the options say.
    for options in [options(), options().redo_dir("/one").doublewrite_dir("/db/doublewrite")] {
        let db = open_with(&disk, &options).unwrap();
        assert_eq!((db.redo_dir(), db.doublewrite_dir()), (PathBuf::from("/two"), PathBuf::from("/areas")));
        assert_eq!(all(&db, "t"), model);
        db.close().unwrap();
    }
}

/// Nobody writes, so the log itself fills the segments that it leaves.
#[test]
fn an_idle_database_leaves_its_directories() {
    let (disk, db, table) = fresh();
    make_dirs(&disk, &["/one"]);
    put(&db, &table, b"key", b"value");
    db.set_redo_dir("/one").unwrap();
    wait_until_left(&db);
    assert_eq!(names(&disk, "/db/redo"), ["LOCK"]);
    drop((db, table));
    assert_eq!(all(&open(&disk), "t").len(), 1);
}

#[test]
fn whatever_a_power_cut_leaves_of_a_move_opens_with_every_row() {
    let (disk, db, table) = fresh();
    make_dirs(&disk, &["/one", "/two", "/areas"]);
    let mut model = Rows::new();
    let mut models_at = Vec::new();
    let mut n = 0u64;
    let mut work = |models_at: &mut Vec<(u64, Rows)>, rows: u64| {
        for _ in 0..rows {
            n += 1;
            let (key, value) = ((n % 40).to_be_bytes().to_vec(), vec![n as u8; 700]);
            put(&db, &table, &key, &value);
            model.insert(key, value);
            models_at.push((disk.op_count(), model.clone()));
        }
    };
    work(&mut models_at, 40);
    let from = models_at.len() - 1;
    for (redo, areas) in [("/one", "/areas"), ("/db/redo", "/db/doublewrite")] {
        db.set_redo_dir(redo).unwrap();
        work(&mut models_at, 20);
        db.set_doublewrite_dir(areas).unwrap();
        for _ in 0..10 {
            work(&mut models_at, 40);
            db.checkpoint().unwrap();
        }
        assert_eq!(db.redo_dir_before(), None);
    }
    drop((db, table));
    let go_on = |db: &Db, mut model: Rows, at: &str| {
        // A directory that does not exist after the cut was not durable.
        let target = if db.redo_dir() == Path::new("/one") { "/db/redo" } else { "/one" };
        match db.set_redo_dir(target) {
            Ok(()) => write_until_moved(db, &mut model),
            Err(Error::Misuse(_)) => assert!(db.redo_dir_before().is_some(), "{at}"),
            Err(error) => panic!("{at}: {error}"),
        }
        assert_eq!(all(db, "t"), model, "{at}");
    };
    cut_power_everywhere(&disk, (0, crash_stride(7)), &models_at[from..], |db| all(db, "t"), go_on);
}

#[test]
fn a_directory_that_does_not_do_is_refused_and_nothing_moves() {
    let (faults, db, table) = fresh_with_faults();
    make_dirs(&faults, &["/full", "/foreign", "/other", "/broken", "/good"]);
    make_file(&faults, "/foreign/photo.jpg");
    let vfs = Vfs { disk: Arc::new(faults.clone()), clock: Vfs::os().clock };
    let separate = options().redo_dir("/other/redo").doublewrite_dir("/other/areas");
    let other = Db::open_on(&vfs, Path::new("/other/db"), &separate).unwrap();
    faults.limit_space("/full", 300 << 10);
    let fault = Fault::Refused(std::io::ErrorKind::Other);
    let rule = FaultRule { kind: OpKind::Write, nth: 1, for_ever: true, fault };
    ["/broken/moved", "/broken/areas"].into_iter().for_each(|part| faults.fail_on(part, rule));
    let long = format!("/{}", "x".repeat(501));
    let mut out = String::new();
    for dir in [
        "/missing",
        "/full",
        "/foreign",
        "/other/redo",
        "/other/areas",
        "/broken",
        "relative",
        "/db",
        "/db/undo",
        "/db/redo/",
        "/db/doublewrite",
        &long,
    ] {
        for what in ["redo", "doublewrite"] {
            let set = if what == "redo" { db.set_redo_dir(dir) } else { db.set_doublewrite_dir(dir) };
            let told = set.map_or_else(|e| e.to_string(), |()| "ok".to_owned());
            out.push_str(&format!("{what}: {told}\n").replace(&long, "(502 bytes)"));
            put(&db, &table, dir.as_bytes(), what.as_bytes());
            db.checkpoint().unwrap();
        }
    }
    expect_test::expect![[r#"
        redo: cannot list /missing: entity not found
        doublewrite: cannot list /missing: entity not found
        redo: no space left for /full/moved-0001.new
        doublewrite: no space left for /full/LOCK
        redo: /foreign is not empty (photo.jpg): a move wants an empty redo directory
        doublewrite: /foreign is not empty (photo.jpg): a move wants an empty doublewrite directory
        redo: /other/redo is the redo directory of another database
        doublewrite: /other/redo is the redo directory of another database
        redo: /other/areas is the doublewrite directory of another database
        doublewrite: /other/areas is the doublewrite directory of another database
        redo: cannot create /broken/moved-0000.new: an injected fault
        doublewrite: cannot write /broken/areas: an injected fault
        redo: relative: a relative path may lead elsewhere after a restart: an absolute one is needed
        doublewrite: relative: a relative path may lead elsewhere after a restart: an absolute one is needed
        redo: /db: is the directory of the database itself
        doublewrite: /db: is the directory of the database itself
        redo: /db/undo is the undo directory of this database and cannot be its redo directory as well: each is one of its own
        doublewrite: /db/undo is the undo directory of this database and cannot be its doublewrite directory as well: each is one of its own
        redo: ok
        doublewrite: /db/redo/ is the redo directory of this database and cannot be its doublewrite directory as well: each is one of its own
        redo: /db/doublewrite is the doublewrite directory of this database and cannot be its redo directory as well: each is one of its own
        doublewrite: ok
        redo: (502 bytes): the path has more than 500 bytes, so the root file cannot name it
        doublewrite: (502 bytes): the path has more than 500 bytes, so the root file cannot name it
    "#]].assert_eq(&out);
    other.close().unwrap();
    assert_eq!((db.redo_dir(), db.redo_dir_before()), (PathBuf::from("/db/redo"), None));
    assert_eq!(db.doublewrite_dir(), Path::new("/db/doublewrite"));
    assert_eq!(names(&faults, "/full"), ["LOCK"], "drafts are left");
    // What was refused can be used once it does.
    faults.heal();
    one_move_of_the_log_after_the_other(&db);
    db.close().unwrap();
}

/// Waits until the log has left the directory where it was. The limit is for a move that never
/// ends, not for a slow machine.
fn wait_until_left(db: &Db) {
    let begun = Instant::now();
    while db.redo_dir_before().is_some() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(60), "the old directory is still in use");
    }
}

fn one_move_of_the_log_after_the_other(db: &Db) {
    db.set_doublewrite_dir("/broken").unwrap();
    let error = loop {
        db.set_redo_dir("/full").unwrap();
        match db.set_redo_dir("/good") {
            Err(error) => break error.to_string(),
            // The database is idle, and on a busy machine it had left the first directory already.
            Ok(()) => wait_until_left(db),
        }
        db.set_redo_dir("/db/redo").unwrap();
        wait_until_left(db);
    };
    assert_eq!(error, "the redo log is still moving from /db/redo to /full: it can only go back to /db/redo");
    db.set_redo_dir("/db/redo").unwrap();
}

#[test]
fn a_database_in_memory_has_no_directories() {
    let db = Db::open_in_memory().unwrap();
    for error in [db.set_redo_dir("/x").unwrap_err(), db.set_doublewrite_dir("/x").unwrap_err()] {
        assert!(error.to_string().ends_with("_dir /x: a database in memory has no directories"), "{error}");
    }
}

/// Returns a closed database whose log and doublewrite have moved to `/fast`, and its rows.
fn moved() -> (MemDisk, Rows) {
    let (disk, db, _) = fresh();
    make_dirs(&disk, &["/fast", "/fast/redo", "/fast/areas"]);
    let mut model = Rows::new();
    db.set_redo_dir("/fast/redo").unwrap();
    db.set_doublewrite_dir("/fast/areas").unwrap();
    write_until_moved(&db, &mut model);
    db.close().unwrap();
    (disk, model)
}

fn move_files(disk: &MemDisk, from: &str, to: &str) {
    for name in names(disk, from) {
        disk.rename(&Path::new(from).join(&name), &Path::new(to).join(&name)).unwrap();
    }
}

#[test]
fn a_directory_that_has_vanished_is_named() {
    for (dir, what) in [("/fast/redo", "redo log"), ("/fast/areas", "doublewrite")] {
        let (disk, model) = moved();
        make_dirs(&disk, &["/hidden"]);
        // As a device that is not mounted: the directory is there, and empty.
        move_files(&disk, dir, "/hidden");
        let option = if what == "redo log" { "redo_dir" } else { "doublewrite_dir" };
        let error = try_open(&disk).map(drop).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{dir} is empty: the root file says that the {what} was moved there; put it back, or name the \
                 directory that its files are in now as {option}"
            )
        );
        // Named by an option, the files are found, and the root knows them from then on.
        let by_hand = match what {
            "redo log" => options().redo_dir("/hidden"),
            _ => options().doublewrite_dir("/hidden"),
        };
        for options in [by_hand, options()] {
            let db = open_with(&disk, &options).unwrap();
            assert_eq!(all(&db, "t"), model);
            db.close().unwrap();
        }
    }
}

/// A copy of the database, with copies of its directories, does not use those of the original.
#[test]
fn options_that_name_other_files_of_the_database_count() {
    let (disk, model) = moved();
    make_dirs(&disk, &["/copy", "/copy/redo"]);
    for name in names(&disk, "/fast/redo") {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let from = disk.open(&Path::new("/fast/redo").join(&name), mode).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(&mut bytes, 0).unwrap();
        disk.open(&Path::new("/copy/redo").join(&name), mode).unwrap().write_at(&bytes, 0).unwrap();
    }
    let db = open_with(&disk, &options().redo_dir("/copy/redo")).unwrap();
    assert_eq!(db.redo_dir(), Path::new("/copy/redo"));
    assert_eq!(all(&db, "t"), model);
    db.close().unwrap();
}

/// A move that a crash cut short before the root named the directory leaves a claim there. The
/// program may have set its option to that directory already; then the error says that the move was
/// cut short.
#[test]
fn a_directory_of_a_move_that_was_cut_short_is_not_the_logs() {
    let (disk, db, _) = fresh();
    make_dirs(&disk, &["/fast"]);
    let from = disk.op_count();
    db.set_redo_dir("/fast").unwrap();
    let to = disk.op_count();
    drop(db);
    let (mut walk, mut told) = (disk.walk(), 0);
    while walk.step() && walk.at() <= to {
        if walk.at() < from {
            continue;
        }
        match open_with(&walk.image(CrashChoice::All), &options().redo_dir("/fast")) {
            Ok(db) => assert_eq!(db.redo_dir(), Path::new("/fast")),
            Err(error) => {
                let text = error.to_string();
                let cut = "/fast was to become the redo directory of this database, and the move was cut \
                           short: it is elsewhere";
                let empty = "/fast holds no redo log: the database's own is elsewhere";
                assert!(text == cut || text == empty, "{text}");
                told += u32::from(text == cut);
                open_with(&walk.image(CrashChoice::All), &options()).unwrap().close().unwrap();
            }
        }
    }
    assert!(told > 5, "{told} states");
}
