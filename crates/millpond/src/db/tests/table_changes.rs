//! Several changes of the set of tables in one step.

use super::*;
use crate::TableChange::{Create, Drop, Rename, Replace, SetMetadata};

const WAIT: Duration = Duration::from_millis(200);

/// The tables with their metadata, which their one row repeats.
fn tables(db: &Db) -> Vec<(String, Vec<u8>)> {
    let names = db.table_names().unwrap().into_iter();
    names.map(|name| (name.clone(), db.open_table(&name).unwrap().metadata())).collect()
}

fn named(db: &Db) -> Vec<(String, String)> {
    tables(db).into_iter().map(|(name, metadata)| (name, text(Some(metadata)))).collect()
}

fn as_text(tables: &[(&str, &str)]) -> Vec<(String, String)> {
    tables.iter().map(|(name, metadata)| ((*name).to_owned(), (*metadata).to_owned())).collect()
}

fn two() -> (MemDisk, Db) {
    let disk = MemDisk::default();
    let db = open(&disk);
    let (a, b) = (Create { name: "a", metadata: b"A" }, Create { name: "b", metadata: b"B" });
    db.change_tables(&[a, b], WAIT).unwrap();
    for name in ["a", "b"] {
        put(&db, &db.open_table(name).unwrap(), b"row of", name.as_bytes());
    }
    (disk, db)
}

#[test]
fn tables_exchange_their_names() {
    let (disk, db) = two();
    let a = db.open_table("a").unwrap();
    let swap = [Rename { from: "a", to: "x" }, Rename { from: "b", to: "a" }, Rename { from: "x", to: "b" }];
    db.change_tables(&swap, WAIT).unwrap();
    assert_eq!(named(&db), as_text(&[("a", "B"), ("b", "A")]));
    assert_eq!((a.name(), text(all(&db, "b").into_values().next())), ("b".to_owned(), "a".to_owned()));
    let mut walk = disk.walk();
    while walk.step() {}
    let again = open(&walk.image(CrashChoice::None));
    assert_eq!(named(&again), as_text(&[("a", "B"), ("b", "A")]));
    assert_eq!(text(all(&again, "b").into_values().next()), "a");
    purge_and_check(&again);
    purge_and_check(&db);
}

#[test]
fn a_replaced_table_is_empty_and_has_a_counter_of_its_own() {
    let (_disk, db) = two();
    let old = db.open_table("a").unwrap();
    db.raise_counter(&old, 7).unwrap();
    db.change_tables(&[Replace { name: "a", metadata: b"A2" }], WAIT).unwrap();
    assert!(matches!(db.begin().unwrap().get(&old, b"k"), Err(Error::NoSuchTable { .. })));
    let new = db.open_table("a").unwrap();
    assert_eq!((all(&db, "a").len(), new.next_value(), text(Some(new.metadata()))), (0, 1, "A2".into()));
    db.change_tables(&[SetMetadata { name: "a", metadata: b"A3" }], WAIT).unwrap();
    assert_eq!((new.metadata(), new.name()), (b"A3".to_vec(), "a".to_owned()));
    purge_and_check(&db);
}

#[test]
fn a_list_that_fails_changes_nothing() {
    let (_disk, db) = two();
    let before = tables(&db);
    let long = "n".repeat(801);
    let lists: [&[crate::TableChange<'_>]; 8] = [
        &[Drop { name: "a" }, Drop { name: "a" }],
        &[Create { name: "c", metadata: b"" }, Drop { name: "c" }],
        &[Create { name: "c", metadata: b"" }, Create { name: "b", metadata: b"" }],
        &[Rename { from: "a", to: "b" }],
        &[Rename { from: "none", to: "c" }],
        &[Drop { name: "a" }, Create { name: "", metadata: b"" }],
        &[Rename { from: "a", to: &long }],
        &[SetMetadata { name: "a", metadata: &[0; (1 << 20) + 1] }],
    ];
    for list in lists {
        let error = db.change_tables(list, WAIT).unwrap_err();
        let expected =
            matches!(error, Error::NoSuchTable { .. } | Error::TableExists { .. } | Error::Misuse(_));
        assert!(expected && tables(&db) == before, "{error}");
    }
    let mut tx = db.begin().unwrap();
    tx.put(&db.open_table("b").unwrap(), b"k", b"").unwrap();
    let in_use = [Create { name: "c", metadata: b"" }, Drop { name: "b" }];
    assert!(matches!(db.change_tables(&in_use, WAIT), Err(Error::LockTimeout)));
    assert_eq!(tables(&db), before);
    tx.commit().unwrap();
    db.change_tables(&in_use, WAIT).unwrap();
    db.change_tables(&[], WAIT).unwrap();
    assert_eq!(named(&db), as_text(&[("a", "A"), ("c", "")]));
    purge_and_check(&db);
}

/// The longest name and metadata of many pages survive a restart and a rename.
#[test]
fn long_names_and_long_metadata_are_kept() {
    let (disk, db) = two();
    let (name, metadata) = ("n".repeat(800), vec![b'm'; 40_000]);
    db.change_tables(&[Create { name: &name, metadata: &metadata }], WAIT).unwrap();
    db.change_tables(&[Rename { from: &name, to: "short" }], WAIT).unwrap();
    db.rename_table("short", &name).unwrap();
    purge_and_check(&db);
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    assert_eq!(db.open_table(&name).unwrap().metadata(), metadata);
    db.drop_table(&name).unwrap();
    purge_and_check(&db);
}

/// Whatever a power cut leaves of a list of changes: all or nothing, and no page is lost.
#[test]
fn every_power_cut_leaves_a_whole_list_of_changes() {
    let (disk, db) = two();
    let mut models_at = vec![(disk.op_count(), named(&db))];
    let long = vec![b'm'; 9000];
    let lists: [&[crate::TableChange<'_>]; 4] = [
        &[Create { name: "c", metadata: b"C" }, Drop { name: "a" }, Rename { from: "b", to: "a" }],
        &[Replace { name: "a", metadata: &long }, SetMetadata { name: "c", metadata: b"C2" }],
        &[Rename { from: "a", to: "x" }, Rename { from: "c", to: "a" }, Rename { from: "x", to: "c" }],
        &[Drop { name: "a" }, Drop { name: "c" }, Create { name: "d", metadata: b"D" }],
    ];
    for list in lists {
        db.change_tables(list, WAIT).unwrap();
        models_at.push((disk.op_count(), named(&db)));
    }
    let end = disk.op_count();
    let (mut walk, mut states) = (disk.walk(), 0);
    while walk.step() && walk.at() <= end {
        if walk.at() < models_at[0].0 {
            continue;
        }
        for choice in [CrashChoice::None, CrashChoice::All, CrashChoice::Random(walk.at())] {
            let db = open(&walk.image(choice));
            let acked = models_at.partition_point(|(op, _)| *op <= walk.at()) - 1;
            let found = named(&db);
            let fits = models_at[acked..].iter().take(2).any(|(_, state)| *state == found);
            assert!(fits, "before operation {}, {choice:?}: {:?}", walk.at(), db.table_names());
            purge_and_check(&db);
            states += 1;
        }
    }
    assert!(states > 20, "{states} states");
}

#[test]
fn names_are_listed_by_their_begin() {
    let (disk, db) = two();
    let names = ["d/t", "d/t#P#p0", "d/t/i", "d/t/j", "d/t1", "d/t1/i", "d/\u{10ffff}", "d0/t"];
    db.create_tables(&names).unwrap();
    let table: &[(&str, &[&str])] = &[
        ("d/t/", &["d/t/i", "d/t/j"]),
        ("d/t#P#", &["d/t#P#p0"]),
        ("d/t1", &["d/t1", "d/t1/i"]),
        ("d/t", &["d/t", "d/t#P#p0", "d/t/i", "d/t/j", "d/t1", "d/t1/i"]),
        ("d/\u{10ffff}", &["d/\u{10ffff}"]),
        ("d/t/i2", &[]),
        ("e", &[]),
        (" ", &[]),
    ];
    for (prefix, wanted) in table {
        assert_eq!(db.table_names_with_prefix(prefix).unwrap(), *wanted, "{prefix:?}");
    }
    assert_eq!(db.table_names_with_prefix("").unwrap(), db.table_names().unwrap());
    db.rename_table("d/t/i", "d/t/k").unwrap();
    db.drop_table("d/t/j").unwrap();
    drop(db);
    assert_eq!(open(&disk).table_names_with_prefix("d/t/").unwrap(), ["d/t/k"]);
}
