//! The statements of the five transactions on a database in this process.

use super::field::{Cents, Moment, Rate};
use super::inputs::{Kind, Line, Place};
use super::rows::{
    Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, TableRow, Warehouse,
};
use super::tables::{
    Tables, customer_prefix, district_prefix, end_of, history_key, last_number, name_prefix, order_entry,
};
use super::transactions::{
    Account, CustomerAt, NewLine, OrderAt, OrderHead, Statements, StockChange, StockRead,
};
use crate::workload::{AttemptError, TxnSettings};
use millpond::{Db, LockWait, Table, Transaction};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

/// The tables, and the transaction that runs.
pub(super) struct RowStatements {
    db: Db,
    tables: Tables,
    settings: TxnSettings,
    tx: Option<Transaction>,
    /// The session of the history's keys, and how many payments it has noted.
    session: u64,
    payments: u64,
}

impl RowStatements {
    /// Makes the statements of a session, whose number no other session has had.
    pub(super) fn new(db: &Db, tables: Tables, settings: TxnSettings, session: u64) -> RowStatements {
        RowStatements { db: db.clone(), tables, settings, tx: None, session, payments: 0 }
    }

    /// Returns the transaction that runs, and the tables.
    fn parts(&mut self) -> Result<(&mut Transaction, &Tables), AttemptError> {
        let tx = self.tx.as_mut().ok_or_else(no_transaction)?;
        Ok((tx, &self.tables))
    }

    /// Changes a row that must be there, under its lock. Returns what `change` returns.
    fn change<R: TableRow, T>(
        &mut self,
        table: impl Fn(&Tables) -> &Table,
        key: &[u8],
        change: impl FnOnce(&mut R) -> T,
    ) -> Result<T, AttemptError> {
        let (tx, tables) = self.parts()?;
        let value = tx.get_for_update(table(tables), key)?;
        let mut row: R = decode(key, value.as_deref())?;
        let found = change(&mut row);
        tx.put(table(tables), key, &row.value())?;
        Ok(found)
    }

    /// Reads a row that must be there.
    fn read<R: TableRow>(
        &mut self,
        table: impl Fn(&Tables) -> &Table,
        key: &[u8],
    ) -> Result<R, AttemptError> {
        let (tx, tables) = self.parts()?;
        let value = tx.get(table(tables), key)?;
        decode(key, value.as_deref())
    }

    /// Inserts a row.
    fn insert<R: TableRow>(
        &mut self,
        table: impl Fn(&Tables) -> &Table,
        row: &R,
    ) -> Result<(), AttemptError> {
        let (tx, tables) = self.parts()?;
        Ok(tx.insert(table(tables), &row.key(), &row.value())?)
    }
}

fn no_transaction() -> AttemptError {
    AttemptError::Wrong("a statement runs outside of a transaction".to_owned())
}

/// Decodes a row that must be there.
fn decode<R: TableRow>(key: &[u8], value: Option<&[u8]>) -> Result<R, AttemptError> {
    let wrong = |what: &str| AttemptError::Wrong(format!("row {key:02x?} of {} is {what}", R::TABLE));
    let value = value.ok_or_else(|| wrong("missing"))?;
    R::decode(key, value).ok_or_else(|| wrong("not what was written"))
}

fn warehouse_key(w: u16) -> [u8; 2] {
    w.to_be_bytes()
}

fn customer_key(of: CustomerAt) -> Vec<u8> {
    customer_prefix(of.place.w, of.place.d, of.id)
}

/// Returns the key of an order, which is also that of the new order, and what the keys of its lines
/// begin with.
fn order_key(order: OrderAt) -> Vec<u8> {
    customer_prefix(order.place.w, order.place.d, order.id)
}

fn stock_key(w: u16, item: u32) -> Vec<u8> {
    [&w.to_be_bytes()[..], &item.to_be_bytes()].concat()
}

impl Statements for RowStatements {
    fn begin(&mut self, kind: Kind) -> Result<(), AttemptError> {
        let options = if kind.only_reads() { self.settings.reading() } else { self.settings.writing() };
        // The end of the last one, if it failed, comes first: it still holds its locks.
        self.tx = None;
        self.tx = Some(self.db.begin_with(options)?);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), AttemptError> {
        self.tx.take().ok_or_else(no_transaction)?.commit()?;
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), AttemptError> {
        self.tx.take().ok_or_else(no_transaction)?.rollback();
        Ok(())
    }

    fn take_order_number(&mut self, at: Place) -> Result<(Rate, u32), AttemptError> {
        self.change(
            |tables| &tables.district,
            &district_prefix(at.w, at.d),
            |district: &mut District| {
                let number = district.d_next_o_id;
                district.d_next_o_id += 1;
                (district.d_tax, number)
            },
        )
    }

    fn warehouse_tax(&mut self, w: u16) -> Result<Rate, AttemptError> {
        Ok(self.read::<Warehouse>(|tables| &tables.warehouse, &warehouse_key(w))?.w_tax)
    }

    fn discount(&mut self, of: CustomerAt) -> Result<Rate, AttemptError> {
        Ok(self.read::<Customer>(|tables| &tables.customer, &customer_key(of))?.c_discount)
    }

    fn insert_order(&mut self, order: OrderAt, head: OrderHead) -> Result<(), AttemptError> {
        let OrderAt { place: Place { w, d }, id } = order;
        let row = Order {
            o_w_id: w,
            o_d_id: d,
            o_id: id,
            o_c_id: head.customer,
            o_entry_d: Moment::now(),
            o_carrier_id: None,
            o_ol_cnt: head.lines,
            o_all_local: head.all_local.into(),
        };
        self.insert(|tables| &tables.orders, &row)?;
        let (tx, tables) = self.parts()?;
        tx.insert(&tables.orders_customer, &order_entry(w, d, head.customer, id), b"")?;
        self.insert(|tables| &tables.new_orders, &NewOrder { no_w_id: w, no_d_id: d, no_o_id: id })
    }

    fn item(&mut self, item: u32) -> Result<Option<Item>, AttemptError> {
        let (tx, tables) = self.parts()?;
        let key = item.to_be_bytes();
        let value = tx.get(&tables.item, &key)?;
        value.map(|value| decode(&key, Some(&value))).transpose()
    }

    fn lock_stock(&mut self, line: Line, d: u8) -> Result<StockRead, AttemptError> {
        let (tx, tables) = self.parts()?;
        let key = stock_key(line.supply_w, line.item);
        let stock: Stock = decode(&key, tx.get_for_update(&tables.stock, &key)?.as_deref())?;
        Ok(StockRead { quantity: stock.s_quantity, dist_info: stock.dist(d), data: stock.s_data })
    }

    fn change_stock(&mut self, line: Line, change: StockChange) -> Result<(), AttemptError> {
        self.change(
            |tables| &tables.stock,
            &stock_key(line.supply_w, line.item),
            |stock: &mut Stock| {
                stock.s_quantity = change.quantity;
                stock.s_ytd += u32::from(change.ordered);
                stock.s_order_cnt += 1;
                stock.s_remote_cnt += u32::from(change.remote);
            },
        )
    }

    fn insert_line(&mut self, order: OrderAt, new: &NewLine) -> Result<(), AttemptError> {
        let row = OrderLine {
            ol_w_id: order.place.w,
            ol_d_id: order.place.d,
            ol_o_id: order.id,
            ol_number: new.number,
            ol_i_id: new.line.item,
            ol_supply_w_id: new.line.supply_w,
            ol_delivery_d: None,
            ol_quantity: new.line.quantity,
            ol_amount: new.amount,
            ol_dist_info: new.dist_info,
        };
        self.insert(|tables| &tables.order_line, &row)
    }

    fn pay_warehouse(&mut self, w: u16, amount: Cents) -> Result<String, AttemptError> {
        self.change(
            |tables| &tables.warehouse,
            &warehouse_key(w),
            |warehouse: &mut Warehouse| {
                warehouse.w_ytd.0 += amount.0;
                warehouse.w_name.clone()
            },
        )
    }

    fn pay_district(&mut self, at: Place, amount: Cents) -> Result<String, AttemptError> {
        self.change(
            |tables| &tables.district,
            &district_prefix(at.w, at.d),
            |district: &mut District| {
                district.d_ytd.0 += amount.0;
                district.d_name.clone()
            },
        )
    }

    fn customers_named(&mut self, place: Place, last: &str) -> Result<Vec<u32>, AttemptError> {
        let (tx, tables) = self.parts()?;
        let first = name_prefix(place.w, place.d, last, "");
        let end = end_of(&first);
        let mut found = Vec::new();
        tx.scan(&tables.customer_name, &first[..]..&end[..], |key, _| {
            found.extend(last_number(key));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn lock_account(&mut self, of: CustomerAt) -> Result<Account, AttemptError> {
        let (tx, tables) = self.parts()?;
        let key = customer_key(of);
        let row: Customer = decode(&key, tx.get_for_update(&tables.customer, &key)?.as_deref())?;
        let bad = row.c_credit == *b"BC";
        Ok(Account { balance: row.c_balance, bad_credit_data: bad.then_some(row.c_data) })
    }

    fn pay(&mut self, of: CustomerAt, amount: Cents, account: &Account) -> Result<(), AttemptError> {
        self.change(
            |tables| &tables.customer,
            &customer_key(of),
            |customer: &mut Customer| {
                customer.c_balance = Cents(account.balance.0 - amount.0);
                customer.c_ytd_payment.0 += amount.0;
                customer.c_payment_cnt += 1;
                if let Some(data) = &account.bad_credit_data {
                    customer.c_data.clone_from(data);
                }
            },
        )
    }

    fn insert_history(
        &mut self,
        of: CustomerAt,
        at: Place,
        amount: Cents,
        data: &str,
    ) -> Result<(), AttemptError> {
        self.payments += 1;
        let key = history_key(at.w, at.d, self.session, self.payments);
        let row = History {
            h_c_id: of.id,
            h_c_d_id: of.place.d,
            h_c_w_id: of.place.w,
            h_d_id: at.d,
            h_w_id: at.w,
            h_date: Moment::now(),
            h_amount: amount,
            h_data: data.to_owned(),
        };
        let (tx, tables) = self.parts()?;
        Ok(tx.insert(&tables.history, &key, &row.value())?)
    }

    fn balance(&mut self, of: CustomerAt) -> Result<Cents, AttemptError> {
        Ok(self.read::<Customer>(|tables| &tables.customer, &customer_key(of))?.c_balance)
    }

    fn last_order(&mut self, of: CustomerAt) -> Result<(OrderAt, u8), AttemptError> {
        let (tx, tables) = self.parts()?;
        let first = customer_key(of);
        let end = end_of(&first);
        let last = tx.range(&tables.orders_customer, &first[..]..&end[..])?.next_back().transpose()?;
        let id = last.and_then(|(key, _)| last_number(&key));
        let none = || AttemptError::Wrong(format!("{of:?} has no order, and had one after the load"));
        let order = OrderAt { place: of.place, id: id.ok_or_else(none)? };
        let row: Order = self.read(|tables| &tables.orders, &order_key(order))?;
        Ok((order, row.o_ol_cnt))
    }

    fn read_lines(&mut self, order: OrderAt) -> Result<u64, AttemptError> {
        let (tx, tables) = self.parts()?;
        let first = order_key(order);
        let end = end_of(&first);
        let mut count = 0;
        for line in tx.range(&tables.order_line, &first[..]..&end[..])? {
            let (key, value) = line?;
            std::hint::black_box(decode::<OrderLine>(&key, Some(&value))?);
            count += 1;
        }
        Ok(count)
    }

    fn take_new_order(&mut self, at: Place) -> Result<Option<OrderAt>, AttemptError> {
        let (tx, tables) = self.parts()?;
        let first = district_prefix(at.w, at.d);
        let end = end_of(&first);
        let range = &first[..]..&end[..];
        let oldest = tx.range_for_update(&tables.new_orders, range, LockWait::Wait)?.next().transpose()?;
        let Some((key, value)) = oldest else { return Ok(None) };
        let row: NewOrder = decode(&key, Some(&value))?;
        if !tx.delete(&tables.new_orders, &key)? {
            return Err(AttemptError::Wrong(format!("{row:?} was deleted while locked")));
        }
        Ok(Some(OrderAt { place: at, id: row.no_o_id }))
    }

    fn set_carrier(&mut self, order: OrderAt, carrier: u8) -> Result<u32, AttemptError> {
        self.change(
            |tables| &tables.orders,
            &order_key(order),
            |row: &mut Order| {
                row.o_carrier_id = Some(carrier);
                row.o_c_id
            },
        )
    }

    fn deliver_lines(&mut self, order: OrderAt) -> Result<(u64, Cents), AttemptError> {
        let (tx, tables) = self.parts()?;
        let first = order_key(order);
        let end = end_of(&first);
        let lines: Vec<_> = tx
            .range_for_update(&tables.order_line, &first[..]..&end[..], LockWait::Wait)?
            .collect::<Result<_, _>>()?;
        let (now, mut sum) = (Moment::now(), Cents(0));
        for (key, value) in &lines {
            let row: OrderLine = decode(key, Some(value))?;
            sum.0 += row.ol_amount.0;
            tx.put(&tables.order_line, key, &OrderLine { ol_delivery_d: Some(now), ..row }.value())?;
        }
        Ok((lines.len() as u64, sum))
    }

    fn add_delivery(&mut self, of: CustomerAt, amount: Cents) -> Result<(), AttemptError> {
        self.change(
            |tables| &tables.customer,
            &customer_key(of),
            |customer: &mut Customer| {
                customer.c_balance.0 += amount.0;
                customer.c_delivery_cnt += 1;
            },
        )
    }

    fn next_order(&mut self, at: Place) -> Result<u32, AttemptError> {
        let key = district_prefix(at.w, at.d);
        Ok(self.read::<District>(|tables| &tables.district, &key)?.d_next_o_id)
    }

    fn count_low(&mut self, at: Place, orders: Range<u32>, threshold: u32) -> Result<u64, AttemptError> {
        let (tx, tables) = self.parts()?;
        let [first, end] = [orders.start, orders.end].map(|id| order_key(OrderAt { place: at, id }));
        let mut items = BTreeSet::new();
        let mut bad = None;
        tx.scan(&tables.order_line, &first[..]..&end[..], |key, value| {
            match decode::<OrderLine>(key, Some(value)) {
                Ok(line) => {
                    items.insert(line.ol_i_id);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    bad = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = bad {
            return Err(error);
        }
        let mut low = 0;
        for item in items {
            let stock: Stock = self.read(|tables| &tables.stock, &stock_key(at.w, item))?;
            low += u64::from(stock.s_quantity < threshold);
        }
        Ok(low)
    }
}
