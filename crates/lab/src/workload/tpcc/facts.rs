//! Reads from a database in this process what the consistency conditions need, one warehouse after
//! the other, by one snapshot.

use super::conditions::{
    Condition, CustomerFact, DistrictFacts, LineFact, OrderFact, Verdict, WarehouseFacts,
};
use super::field::Cents;
use super::rows::{Customer, District, History, NewOrder, Order, OrderLine, TableRow, Warehouse};
use super::scale::{DISTRICTS, Scale};
use super::tables::{Tables, district_prefix, end_of};
use millpond::{Db, Table, Transaction, TxnOptions};
use output::failure::{Failure, Outcome};
use output::stop;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The sums of the history: by place of the payment, and by customer.
#[derive(Default)]
struct Payments {
    at: HashMap<(u16, u8), i64>,
    of: HashMap<(u16, u8, u32), i64>,
}

/// Checks all conditions.
pub(super) fn check(db: &Db, scale: Scale) -> Outcome<Vec<Condition>> {
    let tables = Tables::open(db)?;
    let tx = db.begin_with(TxnOptions::new().read_only(true))?;
    let reader = Reader { tx, tables };
    let payments = reader.payments()?;
    let mut verdict = Verdict::new(scale);
    for w in scale.all_warehouses() {
        stop::check()?;
        verdict.add(&reader.warehouse(w, &payments)?);
    }
    Ok(verdict.conditions())
}

struct Reader {
    tx: Transaction,
    tables: Tables,
}

impl Reader {
    /// Shows the rows of a table whose keys begin with `prefix`; all rows, if it is empty. The keys
    /// of the history are not columns.
    fn each<R: TableRow>(&self, table: &Table, prefix: &[u8], mut show: impl FnMut(R)) -> Outcome {
        let keyless = R::TABLE == History::TABLE;
        let end = end_of(prefix);
        let end = if prefix.is_empty() { &[u8::MAX; 32][..] } else { &end[..] };
        let mut bad = None;
        self.tx.scan(table, prefix..end, |key, value| {
            match R::decode(if keyless { b"" } else { key }, value) {
                Some(row) => {
                    show(row);
                    ControlFlow::Continue(())
                }
                None => {
                    bad = Some(key.to_vec());
                    ControlFlow::Break(())
                }
            }
        })?;
        let name = R::TABLE;
        bad.map_or(Ok(()), |key| Err(Failure::failed(format!("row {key:02x?} of {name} is damaged"))))
    }

    fn payments(&self) -> Outcome<Payments> {
        let mut payments = Payments::default();
        self.each(&self.tables.history, &[], |row: History| {
            *payments.at.entry((row.h_w_id, row.h_d_id)).or_default() += row.h_amount.0;
            *payments.of.entry((row.h_c_w_id, row.h_c_d_id, row.h_c_id)).or_default() += row.h_amount.0;
        })?;
        Ok(payments)
    }

    fn warehouse(&self, w: u16, payments: &Payments) -> Outcome<WarehouseFacts> {
        let mut facts = WarehouseFacts { id: w, ..WarehouseFacts::default() };
        self.each(&self.tables.warehouse, &w.to_be_bytes(), |row: Warehouse| facts.ytd = row.w_ytd)?;
        facts.districts = (1..=DISTRICTS).map(|d| self.district(w, d, payments)).collect::<Outcome<_>>()?;
        Ok(facts)
    }

    fn district(&self, w: u16, d: u8, payments: &Payments) -> Outcome<DistrictFacts> {
        let place = district_prefix(w, d);
        let mut facts = DistrictFacts { id: d, ..DistrictFacts::default() };
        facts.history = Cents(payments.at.get(&(w, d)).copied().unwrap_or(0));
        self.each(&self.tables.district, &place, |row: District| {
            (facts.ytd, facts.next_order) = (row.d_ytd, row.d_next_o_id);
        })?;
        self.each(&self.tables.new_orders, &place, |row: NewOrder| facts.new_orders.push(row.no_o_id))?;
        self.each(&self.tables.orders, &place, |row: Order| {
            facts.orders.push(OrderFact {
                id: row.o_id,
                customer: row.o_c_id,
                has_carrier: row.o_carrier_id.is_some(),
                lines: row.o_ol_cnt,
            });
        })?;
        self.each(&self.tables.order_line, &place, |row: OrderLine| {
            facts.lines.push(LineFact {
                order: row.ol_o_id,
                delivered: row.ol_delivery_d.is_some(),
                amount: row.ol_amount,
            });
        })?;
        self.each(&self.tables.customer, &place, |row: Customer| {
            facts.customers.push(CustomerFact {
                id: row.c_id,
                balance: row.c_balance,
                ytd_payment: row.c_ytd_payment,
                deliveries: row.c_delivery_cnt,
                history: Cents(payments.of.get(&(w, d, row.c_id)).copied().unwrap_or(0)),
            });
        })?;
        Ok(facts)
    }
}
