//! What power cuts and full disks leave of transactions.

use super::*;

/// Runs one random transaction and applies it to the models if it commits.
fn random_transaction(rng: &mut Prng, db: &Db, tables: &[Table], models: &mut [Rows]) {
    let mut tx = db.begin().unwrap();
    let mut scratch = models.to_vec();
    let mut savepoints = Vec::new();
    for _ in 0..rng.between(1, 12) {
        let i = rng.below(tables.len() as u64) as usize;
        let key = format!("key {}", rng.below(300)).into_bytes();
        match rng.below(10) {
            0..5 => {
                let len = if rng.one_in(12) { rng.between(2000, 14_000) } else { rng.between(0, 300) };
                let mut value = vec![0; len as usize];
                rng.fill(&mut value);
                tx.put(&tables[i], &key, &value).unwrap();
                scratch[i].insert(key, value);
            }
            5..8 => {
                let was = tx.delete(&tables[i], &key).unwrap();
                assert_eq!(was, scratch[i].remove(&key).is_some());
            }
            8 => savepoints.push((tx.savepoint(), scratch.clone())),
            _ => {
                if let Some((savepoint, state)) = savepoints.pop() {
                    tx.rollback_to(&savepoint).unwrap();
                    scratch = state;
                }
            }
        }
    }
    if rng.one_in(4) {
        tx.rollback();
    } else {
        tx.commit().unwrap();
        models.clone_from_slice(&scratch);
    }
}

/// Cuts the power before every `stride`-th operation of a run, and opens what each cut leaves.
/// `models_at` has the models after so many operations of the disk. A database must have what was
/// acknowledged before the cut, or one change more. Then `go_on` uses it; it gets what the database
/// has, and a name of the case.
pub(super) fn cut_power_everywhere<S: PartialEq>(
    disk: &MemDisk,
    (seed, stride): (u64, u64),
    models_at: &[(u64, S)],
    content: impl Fn(&Db) -> S,
    mut go_on: impl FnMut(&Db, S, &str),
) {
    let end = disk.op_count();
    let (mut walk, mut states) = (disk.walk(), 0);
    while walk.step() && walk.at() <= end {
        if walk.at() < models_at[0].0 || !(walk.at() + seed).is_multiple_of(stride) {
            continue;
        }
        for choice in [CrashChoice::None, CrashChoice::All, CrashChoice::Random(walk.at())] {
            let at = format!("seed {seed}, power cut before operation {}, {choice:?}", walk.at());
            let image = walk.image(choice);
            let db = try_open(&image).unwrap_or_else(|e| panic!("{at}: {e}"));
            let found = content(&db);
            let acked = models_at.partition_point(|(op, _)| *op <= walk.at()) - 1;
            let fits = models_at[acked..].iter().take(2).any(|(_, state)| *state == found);
            assert!(fits, "{at}: neither the {acked} acknowledged changes nor one more");
            purge_and_check(&db);
            go_on(&db, found, &at);
            states += 1;
        }
    }
    assert!(states > 20, "{states} states");
}

/// Returns the number in `MILLPOND_CRASH_STRIDE`.
pub(super) fn crash_stride(default: u64) -> u64 {
    std::env::var("MILLPOND_CRASH_STRIDE").map_or(default, |s| s.parse().unwrap())
}

/// Whatever a power cut leaves of a random run: it holds the acknowledged transactions, and perhaps
/// the one in flight, each as a whole. New transactions work on it.
#[test]
pub(super) fn every_power_cut_leaves_whole_transactions() {
    let stride = crash_stride(23);
    for seed in 0..3 {
        let disk = MemDisk::default();
        let db = open(&disk);
        let tables = db.create_tables(&["a", "b"]).unwrap();
        let mut models = vec![Rows::new(); 2];
        let mut rng = Prng::new(seed);
        // What had been acknowledged after so many operations of the disk.
        let mut models_at = vec![(disk.op_count(), models.clone())];
        let sleeper = {
            // A transaction that stays open across checkpoints and never ends.
            let mut tx = db.begin().unwrap();
            for n in 0..40 {
                tx.put(&tables[0], format!("sleeper {n}").as_bytes(), &[7; 60]).unwrap();
            }
            tx
        };
        for n in 0..150 {
            random_transaction(&mut rng, &db, &tables, &mut models);
            models_at.push((disk.op_count(), models.clone()));
            if n % 50 == 25 {
                db.checkpoint().unwrap();
            }
        }
        std::mem::forget(sleeper);
        let content = |db: &Db| vec![all(db, "a"), all(db, "b")];
        cut_power_everywhere(&disk, (seed, stride), &models_at, content, |db, _, _| {
            put(db, &db.open_table("a").unwrap(), b"goes on", b"yes");
        });
    }
}

/// Recovery finds a commit that has replaced a long value, and must still free the old one. The
/// next checkpoint must list that commit, or a second crash loses the value's pages for good.
#[test]
fn purge_that_recovery_owes_survives_a_checkpoint_and_a_second_crash() {
    let (disk, db, table) = fresh();
    let put = |byte: u8| {
        let mut tx = db.begin().unwrap();
        tx.put(&table, b"k", &[byte; 20_000]).unwrap();
        tx.commit().unwrap();
    };
    put(1);
    // A snapshot keeps the old value from being purged in this run.
    let reader = db.begin().unwrap();
    assert!(reader.get(&table, b"k").unwrap().is_some());
    put(2);
    let mut walk = disk.walk();
    while walk.step() {}
    let first = walk.image(CrashChoice::All);
    drop((reader, table, db));
    // The log is replayed and the checkpoint moves before anything is purged.
    let engine = crate::engine::Engine::open(&first.vfs(2), Path::new(DIR), &options()).unwrap();
    engine.checkpoint().unwrap();
    drop(engine);
    let mut walk = first.walk();
    while walk.step() {}
    let db = open(&walk.image(CrashChoice::All));
    let mut spins = 0;
    let report = loop {
        let report = db.check().unwrap();
        if report.unreachable_pages.is_some() {
            break report;
        }
        base::sync::spin(&mut spins);
    };
    assert!(report.is_clean(), "{report}");
}

/// Puts rows, and tries again when the disk is full. Returns how often it was full.
fn write_through(db: &Db, table: &Table, rows: u32, distinct: u32) -> u32 {
    let mut refused = 0;
    for n in 0..rows {
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
        while let Err(error) = tx.put(table, &(n % distinct).to_be_bytes(), &n.to_be_bytes().repeat(60)) {
            assert!(matches!(&error, Error::DiskFull { file } if file.starts_with("/db/undo")), "{error}");
            refused += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        tx.commit().unwrap();
    }
    refused
}

/// An unfinished transaction whose undo finds no disk space, and a writer of more redo than the log
/// holds.
struct FullUndo {
    faults: FaultDisk,
    db: Db,
    table: Table,
    unfinished: Transaction,
    /// Returns how often the disk was full.
    writer: std::thread::JoinHandle<u32>,
}

/// `distinct`: how many rows the writer changes in turn.
fn full_undo(distinct: u32) -> FullUndo {
    let (faults, db, table) = fresh_with_faults();
    // All rows exist already, so `pages` need not grow: that would give another error.
    for n in (0..distinct).step_by(100) {
        let mut tx = db.begin().unwrap();
        for n in n..distinct.min(n + 100) {
            tx.put(&table, &n.to_be_bytes(), &(!n).to_be_bytes().repeat(60)).unwrap();
        }
        tx.commit().unwrap();
    }
    let mut unfinished = db.begin().unwrap();
    unfinished.put(&table, b"unfinished", b"row").unwrap();
    faults.limit_space("/db/undo", 0);
    let writer = std::thread::spawn({
        let (db, table) = (db.clone(), table.clone());
        move || write_through(&db, &table, 30_000, distinct)
    });
    FullUndo { faults, db, table, unfinished, writer }
}

/// With a full disk under `undo/`, writers get `DiskFull` once the log is full, and work again when
/// there is space. (Once the cleaner thread ended, and later writers waited as long as the disk was
/// full.)
#[test]
fn a_full_disk_for_hardened_undo_is_reported_and_recovered_from() {
    let FullUndo { faults, db, unfinished, writer, .. } = full_undo(500);
    while db.metrics().get("hard_waits") < Some(2.0) {
        assert!(!writer.is_finished(), "the log never fills");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(db.checkpoint(), Err(Error::DiskFull { .. })));
    faults.heal();
    assert!(writer.join().unwrap() > 0);
    drop(unfinished);
    purge_and_check(&db);
}

/// While undo cannot be hardened, the cleaner still cleans pages, so readers get frames.
#[test]
fn a_full_disk_for_hardened_undo_does_not_block_readers() {
    let FullUndo { faults, db, table, unfinished, writer } = full_undo(30_000);
    while db.metrics().get("hard_waits") < Some(1.0) {
        assert!(!writer.is_finished(), "the log never fills");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Several times what the pool holds.
    let reader = std::thread::spawn({
        let (db, table) = (db.clone(), table.clone());
        move || (0..3).map(|_| db.begin().unwrap().range(&table, ..).unwrap().count()).min().unwrap()
    });
    let mut waited_ms = 0;
    while !reader.is_finished() {
        assert!(waited_ms < 120_000, "readers find no free frame");
        std::thread::sleep(Duration::from_millis(1));
        waited_ms += 1;
    }
    assert!(reader.join().unwrap() > 3_000);
    faults.heal();
    writer.join().unwrap();
    drop(unfinished);
    purge_and_check(&db);
}

/// A commit that was written and not synced is there after a kill, and a power cut may take it. A
/// synced commit takes it along.
#[test]
fn a_written_commit_survives_a_kill() {
    let (disk, db, table) = fresh();
    let end = || {
        let mut walk = disk.walk();
        while walk.step() {}
        walk
    };
    let put = |key: &[u8], durability| {
        let mut tx = db.begin().unwrap();
        tx.put(&table, key, b"").unwrap();
        tx.commit_with(durability).unwrap().durable
    };
    let keys = |image: &MemDisk| all(&open(image), "t").into_keys().collect::<Vec<_>>();
    assert!(!put(b"written", Durability::Written { ms: 60_000, bytes: u64::MAX }));
    assert_eq!(keys(&end().killed()), [b"written"]);
    assert!(keys(&end().image(CrashChoice::None)).is_empty());
    assert!(put(b"synced", Durability::Sync));
    assert_eq!(keys(&end().image(CrashChoice::None)), [&b"synced"[..], b"written"]);
    let options = TxnOptions::new().durability(Durability::Written { ms: 60_000, bytes: u64::MAX });
    let mut tx = db.begin_with(options).unwrap();
    tx.put(&table, b"xa", b"").unwrap();
    let held = tx.prepare_held(b"xid", Durability::Written { ms: 60_000, bytes: u64::MAX }).unwrap();
    let next = open(&end().killed());
    assert_eq!(next.prepared().unwrap(), [b"xid"]);
    drop((next, held));
}
