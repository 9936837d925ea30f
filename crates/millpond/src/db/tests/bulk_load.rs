//! Bulk loads: their visibility, failures and power cuts.

use super::*;

/// Rows in key order, some with long values.
fn some_rows(seed: u64, count: u64) -> Rows {
    let mut rng = Prng::new(seed);
    (0..count)
        .map(|n| {
            let len = if rng.one_in(40) { rng.between(900, 9000) } else { rng.between(0, 200) };
            let mut value = vec![0; len as usize];
            rng.fill(&mut value);
            (format!("key {n:06}").into_bytes(), value)
        })
        .collect()
}

fn free_pages(db: &Db) -> f64 {
    db.metrics().get("free_pages").unwrap()
}

#[test]
fn older_snapshots_do_not_read_a_loaded_table() {
    let (disk, db, other) = fresh();
    put(&db, &other, b"k", b"v");
    let mut old = db.begin().unwrap();
    assert!(old.get(&other, b"k").unwrap().is_some(), "draws the snapshot");
    let mut model = some_rows(1, 3000);
    let table = db.bulk_load("loaded", &model).unwrap();
    assert_eq!(
        (table.name(), db.table_names().unwrap()),
        ("loaded".into(), vec!["loaded".into(), "t".into()])
    );
    assert!(matches!(old.range(&table, ..).err(), Some(Error::TableChanged { .. })), "a younger table");
    assert!(matches!(old.get(&table, b"key 000007"), Err(Error::TableChanged { .. })));
    assert!(all(&db, "loaded") == model);
    // First updater wins; a loaded row counts as an update.
    assert!(matches!(old.put(&table, b"key 000007", b"x"), Err(Error::WriteConflict)));
    drop(old);
    let mut rng = Prng::new(2);
    for _ in 0..300 {
        let key = format!("key {:06}", rng.below(4000)).into_bytes();
        let mut tx = db.begin().unwrap();
        if rng.one_in(3) {
            assert_eq!(tx.delete(&table, &key).unwrap(), model.remove(&key).is_some());
        } else {
            let value = vec![3; rng.below(1500) as usize];
            tx.put(&table, &key, &value).unwrap();
            model.insert(key, value);
        }
        tx.commit().unwrap();
    }
    assert!(all(&db, "loaded") == model);
    purge_and_check(&db);
    db.close().unwrap();
    let db = open(&disk);
    assert!(all(&db, "loaded") == model);
    db.drop_table("loaded").unwrap();
    // The catalog may still hold the dropped table's entry as a delete mark.
    let again = db.bulk_load("loaded", [(b"only", b"row")]).unwrap();
    assert_eq!(db.begin().unwrap().get(&again, b"only").unwrap().as_deref(), Some(&b"row"[..]));
    let empty = db.bulk_load("empty", Rows::new()).unwrap();
    assert!(rows(&db.begin().unwrap(), &empty).is_empty());
    put(&db, &empty, b"", b"the empty key is a key");
    assert_eq!(all(&db, "empty").len(), 1);
    purge_and_check(&db);
}

/// The snapshot stays open while purge runs.
#[test]
fn a_snapshot_taken_during_a_load_never_sees_its_rows() {
    let (_disk, db, other) = fresh();
    put(&db, &other, b"k", b"v");
    let mut load = db.begin_bulk_load("loaded").unwrap();
    for (key, value) in some_rows(3, 500) {
        load.push(&key, &value).unwrap();
    }
    let old = db.begin().unwrap();
    assert!(old.get(&other, b"k").unwrap().is_some());
    let table = load.commit().unwrap();
    for n in 0..200u32 {
        put(&db, &table, b"key 000001", &n.to_be_bytes());
    }
    assert!(matches!(old.get(&table, b"key 000001"), Err(Error::TableChanged { .. })));
    // A session that knows that it made the table itself sees the rows that it loaded, and not what
    // was changed since.
    table.allow_older_snapshots();
    let seen = rows(&old, &table);
    assert!(seen.len() == 500 && seen[&b"key 000001"[..]].len() != 4);
    assert_eq!(all(&db, "loaded").len(), 500);
    drop(old);
    purge_and_check(&db);
}

/// The first change of a loaded row gives it a version, so also a delete makes it longer. Then a
/// leaf without room splits.
#[test]
fn loaded_rows_are_deleted_from_leaves_without_room() {
    let (_disk, db, _) = fresh();
    let model: Rows = (0..3000).map(|n| (format!("{n:06}").into_bytes(), vec![b'v'; n % 5])).collect();
    let table = db.bulk_load("loaded", &model).unwrap();
    let delete_all = || {
        let mut tx = db.begin().unwrap();
        model.keys().for_each(|key| assert!(tx.delete(&table, key).unwrap()));
        assert!(rows(&tx, &table).is_empty());
        tx
    };
    delete_all().rollback();
    assert!(all(&db, "loaded") == model);
    let reader = db.begin().unwrap();
    assert!(rows(&reader, &table) == model);
    delete_all().commit().unwrap();
    assert!(rows(&reader, &table) == model, "an older snapshot sees the rows");
    reader.rollback();
    assert!(all(&db, "loaded").is_empty());
    purge_and_check(&db);
}

#[test]
fn a_failed_load_leaves_nothing() {
    let (disk, db, _) = fresh();
    put(&db, &db.open_table("t").unwrap(), b"k", b"v");
    let rows = some_rows(4, 2000);
    let long = vec![b'z'; 5000];
    let push_all = |load: &mut crate::BulkLoad| rows.iter().for_each(|(k, v)| load.push(k, v).unwrap());
    purge_and_check(&db);
    let free = free_pages(&db);
    for (bad, says) in [
        (&b"key 001999"[..], "row 2001 has the key of the row before it"),
        (b"key 001", "row 2001 belongs before the row before it"),
        (&long, "the key is 5000 bytes long"),
    ] {
        let mut load = db.begin_bulk_load("loaded").unwrap();
        push_all(&mut load);
        let error = load.push(bad, b"").unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(matches!(load.push(b"z", b""), Err(Error::Aborted)));
        assert!(matches!(load.commit(), Err(Error::Aborted)));
        purge_and_check(&db);
        assert!(free_pages(&db) >= free, "all pages are free again");
    }
    let mut load = db.begin_bulk_load("loaded").unwrap();
    push_all(&mut load);
    // The name is taken until the load has ended.
    assert!(matches!(db.create_table("loaded"), Err(Error::LockTimeout)));
    assert!(matches!(db.begin_bulk_load("loaded"), Err(Error::LockTimeout)));
    assert!(matches!(db.rename_table("t", "loaded"), Err(Error::LockTimeout)));
    assert!(matches!(db.open_table("loaded"), Err(Error::NoSuchTable { .. })));
    assert!(matches!(db.drop_table("loaded"), Err(Error::NoSuchTable { .. })));
    assert_eq!(db.table_names().unwrap(), ["t"]);
    drop(load);
    purge_and_check(&db);
    assert!(matches!(db.begin_bulk_load("t"), Err(Error::TableExists { .. })));
    assert!(matches!(db.begin_bulk_load(""), Err(Error::Misuse(_))));
    db.create_table("loaded").unwrap();
    db.drop_table("loaded").unwrap();
    // A load that is open when the database closes.
    let mut load = db.begin_bulk_load("loaded").unwrap();
    push_all(&mut load);
    db.close().unwrap();
    assert!(matches!(load.push(b"z", b""), Err(Error::Closed)));
    assert!(matches!(load.commit(), Err(Error::Closed)));
    let db = open(&disk);
    assert_eq!(db.table_names().unwrap(), ["t"]);
    assert!(free_pages(&db) >= free);
    purge_and_check(&db);
}

#[test]
fn a_load_on_a_full_disk_frees_its_pages() {
    let (faults, db, table) = fresh_with_faults();
    faults.limit_space("/db/pages", 2 << 20);
    let error = db.bulk_load("loaded", (0..100_000u32).map(|n| (n.to_be_bytes(), [1; 100]))).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    purge_and_check(&db);
    put(&db, &table, b"k", b"v");
    db.bulk_load("loaded", (0..1000u32).map(|n| (n.to_be_bytes(), [1; 100]))).unwrap();
    assert_eq!(all(&db, "loaded").len(), 1000);
    purge_and_check(&db);
}

/// After a power cut at any operation a load is there with all its rows or not at all; it is there
/// if its commit was acknowledged. Nothing else changes, and no page is lost.
#[test]
fn every_power_cut_leaves_all_or_nothing_of_a_load() {
    let stride = std::env::var("MILLPOND_CRASH_STRIDE").map_or(5, |s| s.parse().unwrap());
    let (disk, db, table) = fresh();
    let put = |n: u32| put(&db, &table, b"row", &n.to_be_bytes());
    put(0);
    // Pages that the loads will use again: some still in memory, some only in the file, all with
    // redo above the checkpoint.
    let old = db.create_table("old").unwrap();
    for (key, value) in some_rows(7, 900).iter().chain(&some_rows(8, 900)) {
        super::put(&db, &old, key, value);
    }
    db.drop_table("old").unwrap();
    let begun = disk.op_count();
    let (first, second) = (some_rows(5, 700), some_rows(6, 400));
    let mut load = db.begin_bulk_load("a").unwrap();
    let mut abandoned = db.begin_bulk_load("b").unwrap();
    for (n, (key, value)) in first.iter().enumerate() {
        load.push(key, value).unwrap();
        if n < 300 {
            abandoned.push(key, value).unwrap();
        }
        if n % 200 == 100 {
            put(n as u32);
            db.checkpoint().unwrap();
        }
    }
    drop(abandoned);
    load.commit().unwrap();
    let first_at = disk.op_count();
    db.bulk_load("b", &second).unwrap();
    let second_at = disk.op_count();
    put(1);
    db.close().unwrap();
    let (mut walk, mut states) = (disk.walk(), 0);
    let mut seen = std::collections::BTreeSet::new();
    while walk.step() {
        if walk.at() < begun || !walk.at().is_multiple_of(stride) {
            continue;
        }
        for choice in [CrashChoice::None, CrashChoice::All, CrashChoice::Random(walk.at())] {
            if !seen.insert(walk.image_key(choice)) {
                continue;
            }
            let at = format!("power cut before operation {}, {choice:?}", walk.at());
            let image = walk.image(choice);
            let db = try_open(&image).unwrap_or_else(|e| panic!("{at}: {e}"));
            let names = db.table_names().unwrap();
            for (name, model, acked_at) in [("a", &first, first_at), ("b", &second, second_at)] {
                let there = names.iter().any(|found| found == name);
                assert!(there || walk.at() < acked_at, "{at}: {name} was acknowledged");
                assert!(!there || all(&db, name) == *model, "{at}: {name} has other rows");
            }
            purge_and_check(&db);
            // Unfinished loads have freed their pages and their names.
            if !names.iter().any(|name| name == "b") {
                db.bulk_load("b", &second).unwrap();
            }
            assert!(all(&db, "b") == second, "{at}");
            assert!(db.check().unwrap().is_clean(), "{at}");
            states += 1;
        }
    }
    assert!(states > 50, "{states} states");
}

/// A load writes its pages past the pool. A check meanwhile must not report them as damaged. It
/// also must not read a reused page into a frame, where its old content would stay.
#[test]
fn a_check_during_a_load_reports_nothing_and_caches_no_old_page() {
    let (_disk, db, table) = fresh();
    for n in 0..600u32 {
        put(&db, &table, &n.to_be_bytes(), &[1; 900]);
    }
    db.checkpoint().unwrap();
    db.drop_table("t").unwrap();
    purge_and_check(&db);
    let model = some_rows(3, 6000);
    let mut load = db.begin_bulk_load("loaded").unwrap();
    for (n, (key, value)) in model.iter().enumerate() {
        load.push(key, value).unwrap();
        if n % 500 == 0 {
            let report = db.check().unwrap();
            assert!(report.is_clean(), "after {n} rows: {report}");
        }
    }
    load.commit().unwrap();
    assert!(all(&db, "loaded") == model);
    purge_and_check(&db);
}
