//! Databases in memory: the same engine, and nothing in them is ever durable.

use super::{Rows, rows};
use crate::{Db, Durability, Error, Isolation, Options, TxnOptions};
use base::prng::Prng;

#[test]
fn nothing_of_it_is_ever_durable() {
    let db = Db::open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    assert!(!db.is_durable());
    assert_eq!(db.metrics().get("durable"), Some(0.0));
    let durabilities = [Durability::Sync, Durability::Bounded { ms: 0, bytes: 0 }, Durability::None];
    for durability in durabilities {
        for (asynchronous, read_only) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut tx =
                db.begin_with(TxnOptions::new().durability(durability).read_only(read_only)).unwrap();
            match read_only {
                true => drop(tx.get(&table, b"k").unwrap()),
                false => tx.put(&table, b"k", b"v").unwrap(),
            }
            let receipt = match asynchronous {
                true => tx.commit_async().unwrap().wait().unwrap(),
                false => tx.commit().unwrap(),
            };
            assert!(!receipt.durable, "{durability:?} {asynchronous} {read_only}");
            assert_eq!(receipt.lsn > 0, !read_only);
        }
    }
}

#[test]
fn on_a_disk_it_is_durable() {
    let (_disk, db, _) = super::fresh();
    assert!(db.is_durable());
    assert_eq!(db.metrics().get("durable"), Some(1.0));
}

#[test]
fn a_database_in_memory_behaves_like_one_on_disk() {
    let db = Db::open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&table, b"a", b"1").unwrap();
    assert!(matches!(tx.insert(&table, b"a", b"2"), Err(Error::KeyExists)));
    tx.prepare(b"x").unwrap();
    assert_eq!(db.prepared().unwrap(), [b"x"]);
    db.checkpoint().unwrap();
    db.commit_prepared(b"x").unwrap();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(one.get(&table, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    two.put(&table, b"a", b"2").unwrap();
    two.commit().unwrap();
    assert!(matches!(one.put(&table, b"a", b"3"), Err(Error::WriteConflict)));
    let serial = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).unwrap();
    assert_eq!(rows(&serial, &table), Rows::from([(b"a".to_vec(), b"2".to_vec())]));
    drop(serial);
    db.rename_table("t", "u").unwrap();
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
    db.close().unwrap();
    assert!(matches!(db.begin(), Err(Error::Closed)));
}

#[test]
fn two_databases_in_memory_are_separate() {
    let (one, two) = (Db::open_in_memory().unwrap(), Db::open_in_memory().unwrap());
    let table = one.create_table("t").unwrap();
    assert_eq!(two.table_names().unwrap(), Vec::<String>::new());
    assert!(matches!(two.begin().unwrap().get(&table, b"k"), Err(Error::Misuse(_))));
}

#[test]
fn directories_are_refused() {
    for options in [Options::new().redo_dir("r"), Options::new().doublewrite_dir("d")] {
        let error = options.open_in_memory().unwrap_err();
        assert!(matches!(&error, Error::Misuse(what) if what.contains("memory")), "{error}");
    }
    assert!(!std::path::Path::new("r").exists() && !std::path::Path::new("memory:").exists());
}

/// Far more redo than the log may hold, through a pool that holds a part of the rows. Pages and
/// segments are reused again and again, and the rows stay equal to a model.
#[test]
fn memory_grows_with_rows_but_not_with_changes() {
    const KEYS: u64 = 4000;
    let options = Options::new().page_bytes(4096).buffer_pool_bytes(1 << 20).redo_capacity_bytes(16 << 20);
    let db = options.open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let (mut rng, mut model) = (Prng::new(7), Rows::new());
    for _ in 0..150 {
        let mut tx = db.begin().unwrap();
        for _ in 0..500 {
            let mut value = vec![0; 300 + rng.below(300) as usize];
            rng.fill(&mut value);
            let key = rng.below(KEYS).to_be_bytes();
            tx.put(&table, &key, &value).unwrap();
            model.insert(key.to_vec(), value);
        }
        tx.commit().unwrap();
    }
    assert!(rows(&db.begin().unwrap(), &table) == model);
    let figures = db.metrics();
    let figure = |name: &str| figures.get(name).unwrap();
    assert!(figure("redo_bytes_written") > 2.0 * 16e6, "{}", figure("redo_bytes_written"));
    assert!(figure("log_segments_created") <= 4.0 && figure("log_segments_recycled") > 0.0);
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
}
