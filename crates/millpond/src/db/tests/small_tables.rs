//! Small tables share extents: the pages they take, the pages that are free after a drop, and power
//! cuts in between.

use super::power_cuts::{crash_stride, cut_power_everywhere};
use super::*;
use base::{PageNo, TreeId};
use std::collections::BTreeSet;

/// Pages of an extent.
const EXTENT: u64 = 16;

fn used(db: &Db) -> BTreeMap<TreeId, Vec<PageNo>> {
    db.core.engine.store.space.used_pages().unwrap()
}

fn free_pages(db: &Db) -> u64 {
    db.core.engine.store.space.free_pages()
}

/// Counts the extents that have an owner or are shared.
fn extents(db: &Db) -> usize {
    let pages = used(db).into_values().flatten();
    pages.map(|page| u64::from(page.0) / EXTENT).collect::<BTreeSet<_>>().len()
}

#[test]
fn a_table_of_one_row_takes_one_page_and_frees_it() {
    const TABLES: usize = 300;
    let disk = MemDisk::default();
    let db = open(&disk);
    let (free, owned) = (free_pages(&db), extents(&db));
    let names: Vec<String> = (0..TABLES).map(|n| format!("table {n}")).collect();
    for name in &names {
        let table = db.create_table(name).unwrap();
        put(&db, &table, b"k", name.as_bytes());
    }
    purge_and_check(&db);
    let catalog: usize = used(&db)[&TreeId(1)].len();
    let pages: usize = used(&db).values().map(Vec::len).sum();
    assert_eq!(pages, TABLES + catalog);
    assert!(extents(&db) <= pages.div_ceil(EXTENT as usize) + 2, "{} extents", extents(&db));
    db.close().unwrap();
    let db = open(&disk);
    // A table that grows has extents of its own; a drop frees them.
    let big = db.open_table("table 7").unwrap();
    (0..200u32).for_each(|n| put(&db, &big, &n.to_be_bytes(), &[7; 700]));
    let (grown, id) = (extents(&db), big.entry.tree.id);
    let shared = |page: &&PageNo| {
        let neighbours = page.0 / 16 * 16..page.0 / 16 * 16 + 16;
        used(&db).iter().any(|(tree, pages)| *tree != id && pages.iter().any(|p| neighbours.contains(&p.0)))
    };
    let of_big = used(&db)[&id].clone();
    assert_eq!((of_big.len() > 32, of_big.iter().filter(shared).count()), (true, EXTENT as usize));
    drop(big);
    db.drop_table("table 7").unwrap();
    assert!(extents(&db) + 2 <= grown, "{} extents of {grown}", extents(&db));
    for name in names.iter().filter(|name| *name != "table 7") {
        assert_eq!(all(&db, name).values().next().unwrap(), name.as_bytes());
        db.drop_table(name).unwrap();
    }
    purge_and_check(&db);
    assert!(extents(&db) <= owned + 2, "{} extents, {owned} in the beginning", extents(&db));
    let file = figure(&db, "file_pages");
    assert!(free_pages(&db) >= free.min(file) && figure(&db, "extents_freed") > 0);
    db.close().unwrap();
    let db = open(&disk);
    purge_and_check(&db);
    assert!(extents(&db) <= owned + 2);
}

/// All tables with their rows.
type Tables = BTreeMap<String, Rows>;

fn tables_of(db: &Db) -> Tables {
    db.table_names().unwrap().into_iter().map(|name| (name.clone(), all(db, &name))).collect()
}

/// Creates a table, drops one, or puts rows into one, sometimes so many that it outgrows its shared
/// extent.
fn change(db: &Db, rng: &mut Prng, n: u32, model: &mut Tables) {
    let some = model.keys().nth(rng.below(model.len().max(1) as u64) as usize).cloned();
    match (rng.below(8), some) {
        (0..3, _) | (_, None) => {
            let name = format!("table {n}");
            db.create_table(&name).unwrap();
            model.insert(name, Rows::new());
        }
        (3..5, Some(name)) => {
            db.drop_table(&name).unwrap();
            model.remove(&name);
        }
        (what, Some(name)) => {
            let (count, bytes) = if what == 5 { (120, 900) } else { (rng.between(1, 3), 40) };
            let table = db.open_table(&name).unwrap();
            let mut tx = db.begin().unwrap();
            for i in 0..count {
                let row = (format!("{n} {i}").into_bytes(), vec![n as u8; bytes]);
                tx.put(&table, &row.0, &row.1).unwrap();
                model.get_mut(&name).unwrap().insert(row.0, row.1);
            }
            tx.commit().unwrap();
        }
    }
}

/// A power cut may interrupt sharing an extent, taking pages of it, returning them, or freeing it.
/// Afterwards the tables are the acknowledged ones, perhaps with one change more. Every page has an
/// owner or is free, and tables can be created and dropped.
#[test]
fn power_cuts_leave_every_shared_page_to_its_table() {
    let stride = crash_stride(31);
    for seed in 0..2 {
        let disk = MemDisk::default();
        let (db, mut rng, mut model) = (open(&disk), Prng::new(seed), Tables::new());
        let mut models_at = vec![(disk.op_count(), model.clone())];
        for n in 0..90 {
            change(&db, &mut rng, n, &mut model);
            models_at.push((disk.op_count(), model.clone()));
            if n % 30 == 12 {
                db.checkpoint().unwrap();
            }
        }
        cut_power_everywhere(&disk, (seed, stride), &models_at, tables_of, |db, mut now, at| {
            (1000..1006).for_each(|n| change(db, &mut rng, n, &mut now));
            assert!(tables_of(db) == now, "{at}: changes after the power cut are missing");
            purge_and_check(db);
        });
    }
}
