//! The counters of tables across crashes.

use super::*;
use crate::CounterStep;

const STEP: CounterStep = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };

/// Inserts a row with the next number.
fn numbered(db: &Db, t: &Table, durability: Durability) -> u64 {
    let mut tx = db.begin_with(TxnOptions::new().durability(durability)).unwrap();
    let id = t.take_values(STEP).unwrap().first;
    tx.raise_counter(t, id + 1).unwrap();
    tx.insert(t, &id.to_be_bytes(), &[7; 100]).unwrap();
    tx.commit().unwrap();
    id
}

fn greatest(db: &Db) -> u64 {
    all(db, "t").into_keys().next_back().map_or(0, |key| u64::from_be_bytes(key.try_into().unwrap()))
}

/// Whatever a power cut leaves: the counter is beyond every number that a row has. Checkpoints, a
/// second crash and closing keep it, also when the log before is gone.
#[test]
fn no_number_is_given_twice_whatever_a_crash_leaves() {
    let (disk, db, t) = fresh();
    let idle = db.create_table("idle").unwrap();
    db.raise_counter(&idle, 1000).unwrap();
    for n in 0..60 {
        numbered(&db, &t, if n % 3 == 0 { Durability::Sync } else { Durability::None });
        if n % 20 == 10 {
            db.checkpoint().unwrap();
        }
    }
    let end = disk.op_count();
    let (mut walk, mut states) = (disk.walk(), 0);
    while walk.step() && walk.at() <= end {
        if !walk.at().is_multiple_of(5) {
            continue;
        }
        for choice in [CrashChoice::None, CrashChoice::All, CrashChoice::Random(walk.at())] {
            let Ok(db) = try_open(&walk.image(choice)) else { continue };
            let Ok(t) = db.open_table("t") else { continue };
            assert!(t.next_value() > greatest(&db), "before operation {}, {choice:?}", walk.at());
            let last = greatest(&db);
            assert!(numbered(&db, &t, Durability::Sync) > last);
            states += 1;
        }
    }
    assert!(states > 20, "{states} states");
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop((db, t, idle));
    let db = open(&disk);
    assert_eq!(db.open_table("idle").unwrap().next_value(), 1000);
    assert_eq!((db.open_table("t").unwrap().next_value(), greatest(&db)), (61, 60));
    db.rename_table("t", "u").unwrap();
    db.drop_table("idle").unwrap();
    db.checkpoint().unwrap();
    drop(db);
    let db = open(&disk);
    assert_eq!(db.open_table("u").unwrap().next_value(), 61, "the counter goes with the table");
    assert_eq!(db.create_table("idle").unwrap().next_value(), 1, "a new table has a new one");
    purge_and_check(&db);
}

#[test]
fn many_threads_get_different_numbers() {
    let (_disk, db, t) = fresh();
    let work = || {
        let (db, t) = (db.clone(), t.clone());
        move || (0..100).map(|_| numbered(&db, &t, Durability::None)).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work())).collect();
    let mut taken: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, (1..=400).collect::<Vec<_>>());
    let mut reader = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert!(matches!(reader.raise_counter(&t, 1000), Err(Error::Misuse(_))));
    let other = Db::open_in_memory().unwrap();
    assert!(matches!(other.raise_counter(&t, 1000), Err(Error::Misuse(_))));
    assert!(matches!(other.begin().unwrap().raise_counter(&t, 5), Err(Error::Misuse(_))));
    assert_eq!(t.next_value(), 401);
}
