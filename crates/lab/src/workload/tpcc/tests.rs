//! The workload on a small database in memory, and a planted mistake.

use super::inputs::{Choices, Deck, Input, Kind, Place};
use super::row_statements::RowStatements;
use super::rows::{District, Order, TableRow};
use super::tables::{Tables, district_prefix, order_entry};
use super::transactions::{Done, run};
use super::*;
use crate::workload::TxnSettings;
use crate::workload::distribution::Distribution;
use millpond::{Durability, Isolation, Table};
use std::sync::atomic::AtomicU64;

const SCALE: Scale = Scale { warehouses: 2, part: 100 };

fn params() -> WorkloadParams {
    WorkloadParams {
        tables: 1,
        rows: 1,
        distribution: Distribution::Uniform,
        seed: 1,
        begin: TxnSettings { durability: Durability::None, isolation: Isolation::RepeatableRead },
        tpcc: TpccSetup { scale: SCALE, think: false, foreign_keys: false },
    }
}

/// A database in memory with the load.
fn loaded() -> (Db, Tpcc) {
    let db = millpond::Options::new().open_in_memory().unwrap();
    let tpcc = Tpcc::new(params());
    let rows_loaded = AtomicU64::new(0);
    tpcc.load(&Loader { db: &db, threads: 2, rows_loaded: &rows_loaded }).unwrap();
    assert!(rows_loaded.into_inner() > 10_000);
    (db, tpcc)
}

/// Returns the clauses of the conditions that do not hold.
fn broken(db: &Db, tpcc: &Tpcc) -> Vec<String> {
    let all = tpcc.conditions(db).unwrap().unwrap();
    assert_eq!(all.len(), 12);
    all.into_iter().filter(|one| !one.ok).map(|one| one.condition).collect()
}

/// Returns the keys of a table.
fn entries(db: &Db, table: impl Fn(&Tables) -> &Table) -> Vec<Vec<u8>> {
    let tables = Tables::open(db).unwrap();
    let tx = db.begin().unwrap();
    tx.range(table(&tables), ..).unwrap().map(|row| row.unwrap().0).collect()
}

/// Returns the entries that the index of the orders by customer must have.
fn entries_of_orders(db: &Db) -> Vec<Vec<u8>> {
    let tables = Tables::open(db).unwrap();
    let tx = db.begin().unwrap();
    let entry = |row: millpond::Result<(Vec<u8>, Vec<u8>)>| {
        let (key, value) = row.unwrap();
        let order = Order::decode(&key, &value).unwrap();
        order_entry(order.o_w_id, order.o_d_id, order.o_c_id, order.o_id)
    };
    let mut all: Vec<_> = tx.range(&tables.orders, ..).unwrap().map(entry).collect();
    all.sort();
    all
}

#[test]
fn the_load_and_what_four_threads_make_of_it_meet_all_conditions() {
    let (db, tpcc) = loaded();
    assert_eq!(broken(&db, &tpcc), Vec::<String>::new());
    let thread = |number| {
        let mut session = tpcc.session(&db, number).unwrap();
        let (mut rolled_back, mut kinds) = (0, std::collections::BTreeSet::new());
        for _ in 0..400 {
            assert!(session.draw());
            while let Err(error) = session.attempt() {
                assert!(error.retryable().is_some(), "{error:?}");
            }
            rolled_back += u32::from(!session.has_committed());
            kinds.extend(session.kind());
        }
        assert_eq!(kinds.len(), 5);
        rolled_back
    };
    let rolled_back: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || thread(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((1..40).contains(&rolled_back), "{rolled_back} of about 720 new orders");
    assert_eq!(broken(&db, &tpcc), Vec::<String>::new());
    assert_eq!(entries_of_orders(&db), entries(&db, |tables| &tables.orders_customer));
    assert_eq!(entries(&db, |tables| &tables.customer_name).len(), 600);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn a_district_whose_next_order_is_not_counted_up_is_found() {
    let (db, tpcc) = loaded();
    let place = Place { w: 2, d: 7 };
    let choices = Choices::new(SCALE, 1);
    let mut statements = RowStatements::new(&db, Tables::open(&db).unwrap(), params().begin, 9);
    let mut rng = Prng::new(1);
    let order = loop {
        let order = choices.input(Kind::NewOrder, place, &mut rng);
        if matches!(&order, Input::NewOrder { at, lines, .. } if *at == place && lines.iter().all(|l| l.item <= 1000))
        {
            break order;
        }
    };
    let Done { committed, row_changes } = run(&mut statements, &order).unwrap();
    assert!(committed && row_changes >= 13);
    assert_eq!(broken(&db, &tpcc), Vec::<String>::new());
    // The mistake: the number is taken, and the district does not know it.
    let tables = Tables::open(&db).unwrap();
    let key = district_prefix(place.w, place.d);
    let mut tx = db.begin().unwrap();
    let mut district = District::decode(&key, &tx.get(&tables.district, &key).unwrap().unwrap()).unwrap();
    district.d_next_o_id -= 1;
    tx.put(&tables.district, &key, &district.value()).unwrap();
    tx.commit().unwrap();
    assert_eq!(broken(&db, &tpcc), ["3.3.2.2"]);
}

#[test]
fn an_order_that_rolls_back_leaves_nothing() {
    let (db, tpcc) = loaded();
    let choices = Choices::new(SCALE, 1);
    let mut statements = RowStatements::new(&db, Tables::open(&db).unwrap(), params().begin, 9);
    let mut rng = Prng::new(1);
    let place = Place { w: 1, d: 1 };
    let order = loop {
        let order = choices.input(Kind::NewOrder, place, &mut rng);
        if matches!(&order, Input::NewOrder { lines, .. } if lines.iter().any(|l| l.item > 1000)) {
            break order;
        }
    };
    assert_eq!(run(&mut statements, &order).unwrap(), Done { committed: false, row_changes: 0 });
    assert_eq!(broken(&db, &tpcc), Vec::<String>::new());
    let mut deck = Deck::default();
    for _ in 0..100 {
        let input = choices.input(deck.next(&mut rng), place, &mut rng);
        run(&mut statements, &input).unwrap();
    }
    assert_eq!(broken(&db, &tpcc), Vec::<String>::new());
}
