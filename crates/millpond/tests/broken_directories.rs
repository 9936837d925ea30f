//! A database directory with a missing, truncated or foreign file: opening names it in one sentence
//! and changes nothing.

use millpond::{Db, Error, Options};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that is removed at the end of the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("millpond-broken-{name}-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Dir(dir)
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

/// Makes a database with one row and closes it.
fn fill(options: &Options, dir: &Path) {
    let db = options.open(dir).unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"key", b"value").unwrap();
    tx.commit().unwrap();
    db.close().unwrap();
}

/// Returns the error of opening, and its text without the directory's name.
fn refused(options: &Options, dir: &Path) -> (Error, String) {
    let error = options.open(dir).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n') && !text.contains("not tried"), "{text}");
    (error, text.replace(dir.to_str().unwrap(), "DB"))
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

#[test]
fn each_broken_file_is_named() {
    let top = Dir::new("each");
    let whole = top.0.join("whole");
    fill(&options(), &whole);
    type Breaks = fn(&Path);
    let cases: [(&str, Breaks, &str); 7] = [
        ("no-undo", |dir| fs::remove_dir_all(dir.join("undo")).unwrap(), "cannot list DB/undo: "),
        ("no-redo", |dir| fs::remove_dir_all(dir.join("redo")).unwrap(), "cannot list DB/redo: "),
        (
            "no-doublewrite",
            |dir| fs::remove_dir_all(dir.join("doublewrite")).unwrap(),
            "cannot list DB/doublewrite: ",
        ),
        (
            "no-areas",
            |dir| fs::remove_file(dir.join("doublewrite/areas")).unwrap(),
            "cannot open DB/doublewrite/areas: ",
        ),
        (
            "short-areas",
            |dir| fs::write(dir.join("doublewrite/areas"), "").unwrap(),
            "DB/doublewrite/areas is damaged: it is too short: ",
        ),
        ("no-pages", |dir| fs::remove_file(dir.join("pages")).unwrap(), "cannot open DB/pages: "),
        (
            "foreign-root",
            |dir| fs::write(dir.join("root"), [b'x'; 8192]).unwrap(),
            "DB/root is not the root of a database",
        ),
    ];
    for (name, breaks, wanted) in cases {
        let dir = top.0.join(name);
        copy(&whole, &dir);
        breaks(&dir);
        let (_, text) = refused(&options(), &dir);
        assert!(text.starts_with(wanted), "{name}: {text}");
    }
}

/// A directory with a foreign file `root` and nothing else was said to have no log.
#[test]
fn a_foreign_root_is_named_before_what_is_missing_besides() {
    let top = Dir::new("foreign");
    for (name, bytes, wanted) in [
        ("short", &b"rubbish"[..], "DB/root is not the root of a database"),
        ("foreign", &[b'x'; 8192][..], "DB/root is not the root of a database"),
        ("empty", &[0; 8192][..], "DB/root is damaged: neither of its two slots is whole"),
    ] {
        let dir = top.0.join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("root"), bytes).unwrap();
        let (_, text) = refused(&options(), &dir);
        assert!(text.starts_with(wanted), "{name}: {text}");
        assert_eq!(fs::read(dir.join("root")).unwrap(), bytes, "it is not changed");
    }
}

/// If the redo directory is not given, opening names what is missing, and a later opening finds
/// everything.
#[test]
fn a_forgotten_redo_dir_is_named_and_nothing_is_lost() {
    let top = Dir::new("redo");
    let dir = top.0.join("db");
    let elsewhere = options().redo_dir(top.0.join("log"));
    fill(&elsewhere, &dir);
    let (error, text) = refused(&options(), &dir);
    assert!(matches!(error, Error::Io { .. }) && text.starts_with("cannot list DB/redo: "), "{text}");
    let db: Db = elsewhere.open(&dir).unwrap();
    let table = db.open_table("t").unwrap();
    assert_eq!(db.begin().unwrap().get(&table, b"key").unwrap().as_deref(), Some(&b"value"[..]));
}
