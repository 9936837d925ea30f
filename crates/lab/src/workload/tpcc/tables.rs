//! The tables of a database in this process, two indexes, and their load. A table is filled by one
//! thread in the order of its keys, several tables at once.

use super::population::Population;
use super::rows::{
    Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, TableRow, Warehouse,
};
use crate::workload::Loader;
use millpond::{Db, Table};
use output::failure::Outcome;
use std::sync::atomic::Ordering;

/// The customers by last name and first name.
const CUSTOMER_NAME: &str = "customer_name";
/// The orders by customer.
const ORDERS_CUSTOMER: &str = "orders_customer";

/// After so many rows a load reports its progress and looks whether it shall stop.
const STEP: usize = 1000;

/// The tables and indexes.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) warehouse: Table,
    pub(super) district: Table,
    pub(super) customer: Table,
    pub(super) customer_name: Table,
    pub(super) history: Table,
    pub(super) new_orders: Table,
    pub(super) orders: Table,
    pub(super) orders_customer: Table,
    pub(super) order_line: Table,
    pub(super) item: Table,
    pub(super) stock: Table,
}

impl Tables {
    /// Opens the existing tables.
    pub(super) fn open(db: &Db) -> Outcome<Tables> {
        Ok(Tables {
            warehouse: db.open_table(Warehouse::TABLE)?,
            district: db.open_table(District::TABLE)?,
            customer: db.open_table(Customer::TABLE)?,
            customer_name: db.open_table(CUSTOMER_NAME)?,
            history: db.open_table(History::TABLE)?,
            new_orders: db.open_table(NewOrder::TABLE)?,
            orders: db.open_table(Order::TABLE)?,
            orders_customer: db.open_table(ORDERS_CUSTOMER)?,
            order_line: db.open_table(OrderLine::TABLE)?,
            item: db.open_table(Item::TABLE)?,
            stock: db.open_table(Stock::TABLE)?,
        })
    }
}

/// The bytes that come before the rows of one place in all keys that begin with a district.
pub(super) fn district_prefix(w: u16, d: u8) -> Vec<u8> {
    [&w.to_be_bytes()[..], &[d]].concat()
}

/// Returns the entry of a customer in the index of names, without its last part, the number. An
/// empty first name gives what comes before all customers of the last name.
pub(super) fn name_prefix(w: u16, d: u8, last: &str, first: &str) -> Vec<u8> {
    // A byte that no name has ends each name, so a name sorts before its longer ones.
    [&district_prefix(w, d)[..], last.as_bytes(), &[0], first.as_bytes()].concat()
}

/// Returns the entry of a customer in the index of names.
fn name_key(customer: &Customer) -> Vec<u8> {
    let Customer { c_w_id, c_d_id, c_id, c_first, c_last, .. } = customer;
    let names = name_prefix(*c_w_id, *c_d_id, c_last, c_first);
    [&names[..], &[0], &c_id.to_be_bytes()].concat()
}

/// Returns what comes before all orders of a customer in the index of orders.
pub(super) fn customer_prefix(w: u16, d: u8, c: u32) -> Vec<u8> {
    [&district_prefix(w, d)[..], &c.to_be_bytes()].concat()
}

/// Returns the entry of an order in the index of customers.
pub(super) fn order_entry(w: u16, d: u8, c: u32, o: u32) -> Vec<u8> {
    [&customer_prefix(w, d, c)[..], &o.to_be_bytes()].concat()
}

/// Returns the number that an index entry ends with.
pub(super) fn last_number(entry: &[u8]) -> Option<u32> {
    entry.last_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the key of payment `number` that `session` notes at a district; the standard gives these
/// rows none. The load is session 0.
pub(super) fn history_key(w: u16, d: u8, session: u64, number: u64) -> Vec<u8> {
    [&district_prefix(w, d)[..], &session.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// Returns the smallest key that is larger than all keys with this prefix.
///
/// REQUIRES: not all bytes of the prefix are 255.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// A row with its key, as it is stored.
type Stored = (Vec<u8>, Vec<u8>);

fn stored<R: TableRow>(row: &R) -> Stored {
    (row.key(), row.value())
}

/// Returns a table's name, and its rows in the order of their keys. The largest tables come first,
/// so that no thread begins with one of them at the end.
fn contents(population: Population) -> Vec<(&'static str, Box<dyn Iterator<Item = Stored> + Send>)> {
    let p = population;
    let (warehouses, districts) = (|| p.scale().all_warehouses(), || p.scale().all_districts());
    let orders = move |(w, d)| p.orders(w, d);
    let lines = move |place| orders(place).flat_map(|(_, lines)| lines);
    vec![
        (OrderLine::TABLE, Box::new(districts().flat_map(lines).map(|row| stored(&row)))),
        (Stock::TABLE, Box::new(warehouses().flat_map(move |w| p.stock(w)).map(|row| stored(&row)))),
        (
            Customer::TABLE,
            Box::new(districts().flat_map(move |(w, d)| p.customers(w, d)).map(|row| stored(&row))),
        ),
        (CUSTOMER_NAME, Box::new(districts().flat_map(move |(w, d)| names(p, w, d)))),
        (Order::TABLE, Box::new(districts().flat_map(orders).map(|(order, _)| stored(&order)))),
        (ORDERS_CUSTOMER, Box::new(districts().flat_map(move |(w, d)| by_customer(p, w, d)))),
        (History::TABLE, Box::new(districts().flat_map(move |(w, d)| history(p, w, d)))),
        (Item::TABLE, Box::new(p.items().map(|row| stored(&row)))),
        (
            NewOrder::TABLE,
            Box::new(districts().flat_map(move |(w, d)| p.new_orders(w, d)).map(|row| stored(&row))),
        ),
        (District::TABLE, Box::new(districts().map(move |(w, d)| stored(&p.district(w, d))))),
        (Warehouse::TABLE, Box::new(warehouses().map(move |w| stored(&p.warehouse(w))))),
    ]
}

fn names(population: Population, w: u16, d: u8) -> Vec<Stored> {
    sorted(population.customers(w, d).map(|customer| name_key(&customer)))
}

fn by_customer(population: Population, w: u16, d: u8) -> Vec<Stored> {
    sorted(population.orders(w, d).map(|(order, _)| order_entry(w, d, order.o_c_id, order.o_id)))
}

/// Returns entries of an index, sorted.
fn sorted(entries: impl Iterator<Item = Vec<u8>>) -> Vec<Stored> {
    let mut entries: Vec<Stored> = entries.map(|entry| (entry, Vec::new())).collect();
    entries.sort_unstable();
    entries
}

fn history(population: Population, w: u16, d: u8) -> impl Iterator<Item = Stored> {
    (1..).zip(population.history(w, d)).map(move |(n, row)| (history_key(w, d, 0, n), row.value()))
}

/// Loads all tables.
pub(super) fn load(loader: &Loader<'_>, population: Population) -> Outcome {
    let count = contents(population).len() as u32;
    loader.each_table(count, |number, go_on| {
        let (name, rows) = contents(population).swap_remove(number as usize - 1);
        let mut load = loader.db.begin_bulk_load(name)?;
        let mut pushed = 0;
        for (key, value) in rows {
            load.push(&key, &value)?;
            pushed += 1;
            if pushed % STEP == 0 {
                loader.rows_loaded.fetch_add(STEP as u64, Ordering::Relaxed);
                if !go_on() {
                    return Ok(());
                }
            }
        }
        load.commit()?;
        loader.rows_loaded.fetch_add((pushed % STEP) as u64, Ordering::Relaxed);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::field::Moment;
    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn every_table_comes_in_the_order_of_its_keys() {
        let population = Population::new(Scale { warehouses: 2, part: 100 }, 1, Moment(1));
        let mut counts = Vec::new();
        for (name, rows) in contents(population) {
            let keys: Vec<Vec<u8>> = rows.map(|(key, _)| key).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{name}");
            if name != OrderLine::TABLE {
                counts.push((name, keys.len()));
            }
        }
        assert_eq!(
            counts,
            [
                ("stock", 2000),
                ("customer", 600),
                ("customer_name", 600),
                ("orders", 600),
                ("orders_customer", 600),
                ("history", 600),
                ("item", 1000),
                ("new_orders", 180),
                ("district", 20),
                ("warehouse", 2),
            ]
        );
    }

    #[test]
    fn the_end_of_a_prefix_is_after_all_its_keys() {
        assert_eq!(end_of(&[1, 2]), [1, 3]);
        assert_eq!(end_of(&[1, 255]), [2]);
        assert!(name_prefix(1, 1, "BAR", "zz") < name_prefix(1, 1, "BARBAR", "a"));
    }
}
