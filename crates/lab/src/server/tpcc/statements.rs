//! The statements of the five transactions, prepared when they are first needed.

use super::super::worker::RunWorker;
use crate::workload::AttemptError;
use crate::workload::tpcc::field::{Cents, Rate};
use crate::workload::tpcc::inputs::{Kind, Line, Place};
use crate::workload::tpcc::rows::Item;
use crate::workload::tpcc::transactions::{
    Account, CustomerAt, NewLine, OrderAt, OrderHead, Statements, StockChange, StockRead,
};
use client::{Param, Prepared, Row};
use std::collections::HashMap;
use std::ops::Range;

/// How many statements there are.
pub(in crate::server) const STATEMENTS: u64 = 41;

/// The statements on a connection.
pub(in crate::server) struct SqlStatements {
    worker: RunWorker,
    /// By their texts.
    prepared: HashMap<&'static str, Option<Prepared>>,
}

impl SqlStatements {
    pub(in crate::server) fn new(worker: RunWorker) -> SqlStatements {
        SqlStatements { worker, prepared: HashMap::new() }
    }

    /// Runs a statement that returns rows.
    fn rows(&mut self, text: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, AttemptError> {
        let place = self.prepared.entry(text).or_default();
        let statement = self.worker.prepared(place, || text.to_owned())?;
        self.worker.select(statement, params)
    }

    /// Runs a statement that returns one row.
    fn row(&mut self, text: &'static str, params: &[Param<'_>]) -> Result<Row, AttemptError> {
        let mut rows = self.rows(text, params)?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (_, more) => {
                Err(wrong(text, &format!("returned {more} rows more than one, or none, for {params:?}")))
            }
        }
    }

    /// Runs a statement that changes rows. Returns how many it met.
    fn execute(&mut self, text: &'static str, params: &[Param<'_>]) -> Result<u64, AttemptError> {
        let place = self.prepared.entry(text).or_default();
        let statement = self.worker.prepared(place, || text.to_owned())?;
        self.worker.execute(statement, params)
    }

    /// Runs a statement that changes one row.
    fn change(&mut self, text: &'static str, params: &[Param<'_>]) -> Result<(), AttemptError> {
        match self.execute(text, params)? {
            1 => Ok(()),
            n => Err(wrong(text, &format!("met {n} rows, not one, for {params:?}"))),
        }
    }
}

fn wrong(text: &str, what: &str) -> AttemptError {
    AttemptError::Wrong(format!("{text} {what}"))
}

fn number(n: impl Into<u64>) -> Param<'static> {
    Param::Number(n.into())
}

/// Returns the parameters of a district, and what else.
fn at<'p, const N: usize>(place: Place, more: [Param<'p>; N]) -> Vec<Param<'p>> {
    [number(place.w), number(place.d)].into_iter().chain(more).collect()
}

/// Returns a value of a row.
fn cell(row: &Row, column: usize) -> Result<&str, AttemptError> {
    let cell = row.get(column).and_then(Option::as_deref);
    cell.ok_or_else(|| AttemptError::Wrong(format!("column {column} of {row:?} has no value")))
}

fn integer(row: &Row, column: usize) -> Result<u32, AttemptError> {
    let text = cell(row, column)?;
    text.parse().map_err(|_| AttemptError::Wrong(format!("{text:?} is no number")))
}

/// Returns a decimal with so many places as an integer.
fn decimal(text: &str, places: usize) -> Option<i64> {
    let (digits, negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || part.len() > places {
        return None;
    }
    let value: i64 = format!("{whole}{part:0<places$}").parse().ok()?;
    Some(if negative { -value } else { value })
}

fn cents(row: &Row, column: usize) -> Result<Cents, AttemptError> {
    let text = cell(row, column)?;
    decimal(text, 2).map(Cents).ok_or_else(|| AttemptError::Wrong(format!("{text:?} is no amount")))
}

fn rate(row: &Row, column: usize) -> Result<Rate, AttemptError> {
    let text = cell(row, column)?;
    let rate = decimal(text, 4).and_then(|rate| u32::try_from(rate).ok());
    rate.map(Rate).ok_or_else(|| AttemptError::Wrong(format!("{text:?} is no tax or discount")))
}

/// The statement that locks stock, for each district: it reads the district's own text.
const LOCK_STOCK: [&str; 10] = [
    "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_02 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_04 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_05 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_06 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_07 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_08 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_09 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
    "SELECT s_quantity, s_data, s_dist_10 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
];

impl Statements for SqlStatements {
    fn begin(&mut self, _kind: Kind) -> Result<(), AttemptError> {
        self.worker.begin(false)
    }

    fn commit(&mut self) -> Result<(), AttemptError> {
        self.worker.run("COMMIT").map(drop)
    }

    fn rollback(&mut self) -> Result<(), AttemptError> {
        self.worker.run("ROLLBACK").map(drop)
    }

    fn take_order_number(&mut self, place: Place) -> Result<(Rate, u32), AttemptError> {
        let row = self.row(
            "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
            &at(place, []),
        )?;
        let (tax, id) = (rate(&row, 0)?, integer(&row, 1)?);
        let next = [number(id + 1), number(place.w), number(place.d)];
        self.change("UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?", &next)?;
        Ok((tax, id))
    }

    fn warehouse_tax(&mut self, w: u16) -> Result<Rate, AttemptError> {
        rate(&self.row("SELECT w_tax FROM warehouse WHERE w_id = ?", &[number(w)])?, 0)
    }

    fn discount(&mut self, of: CustomerAt) -> Result<Rate, AttemptError> {
        let row = self.row(
            "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &at(of.place, [number(of.id)]),
        )?;
        rate(&row, 0)
    }

    fn insert_order(&mut self, order: OrderAt, head: OrderHead) -> Result<(), AttemptError> {
        let all_local = u8::from(head.all_local);
        let values = [number(order.id), number(head.customer), number(head.lines), number(all_local)];
        self.change(
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, o_all_local, o_entry_d) \
             VALUES (?, ?, ?, ?, ?, ?, NOW())",
            &at(order.place, values),
        )?;
        self.change(
            "INSERT INTO new_orders (no_w_id, no_d_id, no_o_id) VALUES (?, ?, ?)",
            &at(order.place, [number(order.id)]),
        )
    }

    fn item(&mut self, item: u32) -> Result<Option<Item>, AttemptError> {
        let text = "SELECT i_im_id, i_name, i_price, i_data FROM item WHERE i_id = ?";
        let rows = self.rows(text, &[number(item)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Item {
            i_id: item,
            i_im_id: integer(row, 0)?,
            i_name: cell(row, 1)?.to_owned(),
            i_price: cents(row, 2)?,
            i_data: cell(row, 3)?.to_owned(),
        }))
    }

    fn lock_stock(&mut self, line: Line, d: u8) -> Result<StockRead, AttemptError> {
        let text = LOCK_STOCK[usize::from(d - 1)];
        let row = self.row(text, &[number(line.item), number(line.supply_w)])?;
        let info = cell(&row, 2)?.as_bytes();
        let dist_info = info.try_into().map_err(|_| wrong(text, "returned a text of another length"))?;
        Ok(StockRead { quantity: integer(&row, 0)?, data: cell(&row, 1)?.to_owned(), dist_info })
    }

    fn change_stock(&mut self, line: Line, change: StockChange) -> Result<(), AttemptError> {
        let StockChange { quantity, ordered, remote } = change;
        let values = [number(quantity), number(ordered), number(u8::from(remote))];
        let keys = [number(line.item), number(line.supply_w)];
        self.change(
            "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?",
            &[&values[..], &keys].concat(),
        )
    }

    fn insert_line(&mut self, order: OrderAt, new: &NewLine) -> Result<(), AttemptError> {
        let amount = new.amount.to_string();
        let NewLine { number: line, line: Line { item, supply_w, quantity }, .. } = *new;
        let values = [
            number(order.id),
            number(line),
            number(item),
            number(supply_w),
            number(quantity),
            Param::Text(amount.as_bytes()),
            Param::Text(&new.dist_info),
        ];
        self.change(
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
             ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &at(order.place, values),
        )
    }

    fn pay_warehouse(&mut self, w: u16, amount: Cents) -> Result<String, AttemptError> {
        let amount = amount.to_string();
        self.change(
            "UPDATE warehouse SET w_ytd = w_ytd + CAST(? AS DECIMAL(16,2)) WHERE w_id = ?",
            &[Param::Text(amount.as_bytes()), number(w)],
        )?;
        let row = self.row(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?",
            &[number(w)],
        )?;
        Ok(cell(&row, 0)?.to_owned())
    }

    fn pay_district(&mut self, place: Place, amount: Cents) -> Result<String, AttemptError> {
        let amount = amount.to_string();
        self.change(
            "UPDATE district SET d_ytd = d_ytd + CAST(? AS DECIMAL(16,2)) WHERE d_w_id = ? AND d_id = ?",
            &[Param::Text(amount.as_bytes()), number(place.w), number(place.d)],
        )?;
        let row = self.row(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
             WHERE d_w_id = ? AND d_id = ?",
            &at(place, []),
        )?;
        Ok(cell(&row, 0)?.to_owned())
    }

    fn customers_named(&mut self, place: Place, last: &str) -> Result<Vec<u32>, AttemptError> {
        let rows = self.rows(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
            &at(place, [Param::Text(last.as_bytes())]),
        )?;
        rows.iter().map(|row| integer(row, 0)).collect()
    }

    fn lock_account(&mut self, of: CustomerAt) -> Result<Account, AttemptError> {
        let key = at(of.place, [number(of.id)]);
        let row = self.row(
            "SELECT c_balance, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
             c_zip, c_phone, c_credit_lim, c_discount, c_since FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            &key,
        )?;
        let balance = cents(&row, 0)?;
        if cell(&row, 1)? != "BC" {
            return Ok(Account { balance, bad_credit_data: None });
        }
        let row =
            self.row("SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", &key)?;
        Ok(Account { balance, bad_credit_data: Some(cell(&row, 0)?.to_owned()) })
    }

    fn pay(&mut self, of: CustomerAt, amount: Cents, account: &Account) -> Result<(), AttemptError> {
        let balance = Cents(account.balance.0 - amount.0).to_string();
        let amount = amount.to_string();
        let values = [Param::Text(balance.as_bytes()), Param::Text(amount.as_bytes())];
        let key = at(of.place, [number(of.id)]);
        match &account.bad_credit_data {
            None => self.change(
                "UPDATE customer SET c_balance = ?, \
                 c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(16,2)), \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &[&values[..], &key].concat(),
            ),
            Some(data) => self.change(
                "UPDATE customer SET c_balance = ?, \
                 c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(16,2)), \
                 c_payment_cnt = c_payment_cnt + 1, c_data = ? \
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &[&values[..], &[Param::Text(data.as_bytes())], &key].concat(),
            ),
        }
    }

    fn insert_history(
        &mut self,
        of: CustomerAt,
        place: Place,
        amount: Cents,
        data: &str,
    ) -> Result<(), AttemptError> {
        let amount = amount.to_string();
        let customer = [number(of.id), number(of.place.d), number(of.place.w)];
        let payment = [Param::Text(amount.as_bytes()), Param::Text(data.as_bytes())];
        self.change(
            "INSERT INTO history (h_w_id, h_d_id, h_c_id, h_c_d_id, h_c_w_id, h_amount, h_data, h_date) \
             VALUES (?, ?, ?, ?, ?, ?, ?, NOW())",
            &[&at(place, customer)[..], &payment].concat(),
        )
    }

    fn balance(&mut self, of: CustomerAt) -> Result<Cents, AttemptError> {
        let row = self.row(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &at(of.place, [number(of.id)]),
        )?;
        cents(&row, 0)
    }

    fn last_order(&mut self, of: CustomerAt) -> Result<(OrderAt, u8), AttemptError> {
        let row = self.row(
            "SELECT o_id, o_ol_cnt, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders \
             WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1",
            &at(of.place, [number(of.id)]),
        )?;
        Ok((OrderAt { place: of.place, id: integer(&row, 0)? }, integer(&row, 1)? as u8))
    }

    fn read_lines(&mut self, order: OrderAt) -> Result<u64, AttemptError> {
        let rows = self.rows(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &at(order.place, [number(order.id)]),
        )?;
        Ok(rows.len() as u64)
    }

    fn take_new_order(&mut self, place: Place) -> Result<Option<OrderAt>, AttemptError> {
        let rows = self.rows(
            "SELECT no_o_id FROM new_orders WHERE no_w_id = ? AND no_d_id = ? \
             ORDER BY no_o_id LIMIT 1 FOR UPDATE",
            &at(place, []),
        )?;
        let Some(row) = rows.first() else { return Ok(None) };
        let id = integer(row, 0)?;
        self.change(
            "DELETE FROM new_orders WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            &at(place, [number(id)]),
        )?;
        Ok(Some(OrderAt { place, id }))
    }

    fn set_carrier(&mut self, order: OrderAt, carrier: u8) -> Result<u32, AttemptError> {
        let key = at(order.place, [number(order.id)]);
        let text = "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE";
        let customer = integer(&self.row(text, &key)?, 0)?;
        self.change(
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            &[&[number(carrier)], &key[..]].concat(),
        )?;
        Ok(customer)
    }

    fn deliver_lines(&mut self, order: OrderAt) -> Result<(u64, Cents), AttemptError> {
        let key = at(order.place, [number(order.id)]);
        let lines = self.execute(
            "UPDATE order_line SET ol_delivery_d = NOW() \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &key,
        )?;
        let row = self.row(
            "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &key,
        )?;
        Ok((lines, cents(&row, 0)?))
    }

    fn add_delivery(&mut self, of: CustomerAt, amount: Cents) -> Result<(), AttemptError> {
        let amount = amount.to_string();
        self.change(
            "UPDATE customer SET c_balance = c_balance + CAST(? AS DECIMAL(16,2)), \
             c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[&[Param::Text(amount.as_bytes())], &at(of.place, [number(of.id)])[..]].concat(),
        )
    }

    fn next_order(&mut self, place: Place) -> Result<u32, AttemptError> {
        let text = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
        integer(&self.row(text, &at(place, []))?, 0)
    }

    fn count_low(&mut self, place: Place, orders: Range<u32>, threshold: u32) -> Result<u64, AttemptError> {
        let values = [number(orders.start), number(orders.end), number(place.w), number(threshold)];
        let row = self.row(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? \
             AND ol_o_id >= ? AND ol_o_id < ? AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?",
            &at(place, values),
        )?;
        Ok(integer(&row, 0)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_statements() {
        let code = include_str!("statements.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE"];
        let count = verbs.map(|verb| code.matches(&format!("\"{verb} ")).count()).iter().sum::<usize>();
        assert_eq!(count as u64, STATEMENTS);
    }

    #[test]
    fn decimals_are_read_exactly() {
        assert_eq!(decimal("12.34", 2), Some(1234));
        assert_eq!(decimal("-10.05", 2), Some(-1005));
        assert_eq!(decimal("-0.05", 2), Some(-5));
        assert_eq!(decimal("7", 2), Some(700));
        assert_eq!(decimal("0.2000", 4), Some(2000));
        for text in ["", "x", "1.234"] {
            assert_eq!(decimal(text, 2), None, "{text}");
        }
    }
}
