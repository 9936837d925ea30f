//! The rows of the load (clause 4.3.3). What is made follows from the seed, the table and the
//! district alone, so each table can be made by another thread, and orders agree with their lines.

use super::field::{Cents, Moment, Rate};
use super::random::{data, digits, last_name, last_name_of_load, letters, permutation, state, text, zip};
use super::rows::{Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse};
use super::scale::{DISTRICTS, Scale};
use base::prng::Prng;

/// What each customer has paid before the load.
const PAID: Cents = Cents(1000);

/// Which rows a generator is for: each has random numbers of its own.
#[derive(Clone, Copy, Debug)]
enum Part {
    Item = 1,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Order,
}

/// The rows of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    scale: Scale,
    seed: u64,
    /// The time of the load, which all rows have.
    now: Moment,
}

impl Population {
    /// Makes the rows for a scale.
    pub(crate) fn new(scale: Scale, seed: u64, now: Moment) -> Population {
        Population { scale, seed, now }
    }

    /// Returns the scale.
    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    fn rng(&self, part: Part, w: u16, d: u8) -> Prng {
        let place = (part as u64) << 32 | u64::from(w) << 8 | u64::from(d);
        Prng::new(Prng::new(self.seed).next_u64() ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the items.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item> + use<> {
        let mut rng = self.rng(Part::Item, 0, 0);
        (1..=self.scale.items()).map(move |i_id| Item {
            i_id,
            i_im_id: rng.between(1, 10_000) as u32,
            i_name: text(14, 24, &mut rng),
            i_price: Cents(rng.between(100, 10_000) as i64),
            i_data: data(&mut rng),
        })
    }

    /// Returns a warehouse.
    pub(crate) fn warehouse(&self, w: u16) -> Warehouse {
        let rng = &mut self.rng(Part::Warehouse, w, 0);
        Warehouse {
            w_id: w,
            w_name: text(6, 10, rng),
            w_street_1: text(10, 20, rng),
            w_street_2: text(10, 20, rng),
            w_city: text(10, 20, rng),
            w_state: state(rng),
            w_zip: zip(rng),
            w_tax: Rate(rng.between(0, 2000) as u32),
            w_ytd: Cents(self.paid_in_a_district().0 * i64::from(DISTRICTS)),
        }
    }

    /// Returns a district.
    pub(crate) fn district(&self, w: u16, d: u8) -> District {
        let rng = &mut self.rng(Part::District, w, d);
        District {
            d_w_id: w,
            d_id: d,
            d_name: text(6, 10, rng),
            d_street_1: text(10, 20, rng),
            d_street_2: text(10, 20, rng),
            d_city: text(10, 20, rng),
            d_state: state(rng),
            d_zip: zip(rng),
            d_tax: Rate(rng.between(0, 2000) as u32),
            d_ytd: self.paid_in_a_district(),
            d_next_o_id: self.scale.customers() + 1,
        }
    }

    fn paid_in_a_district(&self) -> Cents {
        Cents(PAID.0 * i64::from(self.scale.customers()))
    }

    /// Returns the stock of a warehouse.
    pub(crate) fn stock(&self, w: u16) -> impl Iterator<Item = Stock> + use<> {
        let mut rng = self.rng(Part::Stock, w, 0);
        (1..=self.scale.items()).map(move |i| {
            let rng = &mut rng;
            Stock {
                s_w_id: w,
                s_i_id: i,
                s_quantity: rng.between(10, 100) as u32,
                s_dist_01: letters(rng),
                s_dist_02: letters(rng),
                s_dist_03: letters(rng),
                s_dist_04: letters(rng),
                s_dist_05: letters(rng),
                s_dist_06: letters(rng),
                s_dist_07: letters(rng),
                s_dist_08: letters(rng),
                s_dist_09: letters(rng),
                s_dist_10: letters(rng),
                s_ytd: 0,
                s_order_cnt: 0,
                s_remote_cnt: 0,
                s_data: data(rng),
            }
        })
    }

    /// Returns the customers of a district. The first thousand have all last names.
    pub(crate) fn customers(&self, w: u16, d: u8) -> impl Iterator<Item = Customer> + use<> {
        let mut rng = self.rng(Part::Customer, w, d);
        let (now, names) = (self.now, self.scale.last_names());
        (1..=self.scale.customers()).map(move |c_id| {
            let rng = &mut rng;
            let name = match c_id - 1 {
                number if number < names => number,
                _ => last_name_of_load().pick(0, u64::from(names) - 1, rng) as u32,
            };
            Customer {
                c_w_id: w,
                c_d_id: d,
                c_id,
                c_first: text(8, 16, rng),
                c_middle: *b"OE",
                c_last: last_name(name),
                c_street_1: text(10, 20, rng),
                c_street_2: text(10, 20, rng),
                c_city: text(10, 20, rng),
                c_state: state(rng),
                c_zip: zip(rng),
                c_phone: digits(rng),
                c_since: now,
                c_credit: if rng.one_in(10) { *b"BC" } else { *b"GC" },
                c_credit_lim: Cents(5_000_000),
                c_discount: Rate(rng.between(0, 5000) as u32),
                c_balance: Cents(-PAID.0),
                c_ytd_payment: PAID,
                c_payment_cnt: 1,
                c_delivery_cnt: 0,
                c_data: text(300, 500, rng),
            }
        })
    }

    /// Returns the history of a district: one payment of each customer.
    pub(crate) fn history(&self, w: u16, d: u8) -> impl Iterator<Item = History> + use<> {
        let mut rng = self.rng(Part::History, w, d);
        let now = self.now;
        (1..=self.scale.customers()).map(move |c| History {
            h_c_id: c,
            h_c_d_id: d,
            h_c_w_id: w,
            h_d_id: d,
            h_w_id: w,
            h_date: now,
            h_amount: PAID,
            h_data: text(12, 24, &mut rng),
        })
    }

    /// Returns the orders of a district with their lines. Each customer has one.
    pub(crate) fn orders(&self, w: u16, d: u8) -> impl Iterator<Item = (Order, Vec<OrderLine>)> + use<> {
        let mut rng = self.rng(Part::Order, w, d);
        let customers = permutation(self.scale.customers(), &mut rng);
        let population = *self;
        (1..).zip(customers).map(move |(o_id, o_c_id)| {
            let delivered = o_id < population.scale.first_new_order();
            let order = Order {
                o_w_id: w,
                o_d_id: d,
                o_id,
                o_c_id,
                o_entry_d: population.now,
                o_carrier_id: delivered.then(|| rng.between(1, 10) as u8),
                o_ol_cnt: rng.between(5, 15) as u8,
                o_all_local: 1,
            };
            let lines = (1..=order.o_ol_cnt).map(|n| population.line(&order, n, &mut rng)).collect();
            (order, lines)
        })
    }

    fn line(&self, order: &Order, ol_number: u8, rng: &mut Prng) -> OrderLine {
        let delivered = order.o_carrier_id.is_some();
        OrderLine {
            ol_w_id: order.o_w_id,
            ol_d_id: order.o_d_id,
            ol_o_id: order.o_id,
            ol_number,
            ol_i_id: rng.between(1, self.scale.items().into()) as u32,
            ol_supply_w_id: order.o_w_id,
            ol_delivery_d: delivered.then_some(order.o_entry_d),
            ol_quantity: 5,
            ol_amount: if delivered { Cents(0) } else { Cents(rng.between(1, 999_999) as i64) },
            ol_dist_info: letters(rng),
        }
    }

    /// Returns the orders of a district that are not delivered.
    pub(crate) fn new_orders(&self, w: u16, d: u8) -> impl Iterator<Item = NewOrder> + use<> {
        (self.scale.first_new_order()..=self.scale.customers()).map(move |o| NewOrder {
            no_w_id: w,
            no_d_id: d,
            no_o_id: o,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn full() -> Population {
        Population::new(Scale::default(), 1, Moment(7))
    }

    #[test]
    fn the_numbers_of_rows_are_those_of_the_standard() {
        let full = full();
        assert_eq!(full.items().count(), 100_000);
        assert_eq!(full.stock(1).count(), 100_000);
        assert_eq!(full.customers(1, 1).count(), 3000);
        assert_eq!(full.history(1, 1).count(), 3000);
        assert_eq!(full.orders(1, 1).count(), 3000);
        assert_eq!(full.new_orders(1, 1).count(), 900);
        assert_eq!(full.warehouse(1).w_ytd.to_string(), "300000.00");
        assert_eq!(full.district(1, 1).d_ytd.to_string(), "30000.00");
        assert_eq!(full.district(1, 1).d_next_o_id, 3001);
    }

    #[test]
    fn orders_have_their_lines_and_each_customer_has_one() {
        let full = full();
        let mut customers = BTreeSet::new();
        for (order, lines) in full.orders(1, 3) {
            assert_eq!(usize::from(order.o_ol_cnt), lines.len());
            let delivered = order.o_id < 2101;
            assert_eq!(order.o_carrier_id.is_some(), delivered);
            assert!(lines.iter().all(|line| line.ol_delivery_d.is_some() == delivered));
            assert!(lines.iter().all(|line| (line.ol_amount == Cents(0)) == delivered));
            customers.insert(order.o_c_id);
        }
        assert_eq!(customers.len(), 3000);
        assert!(full.orders(1, 3).eq(full.orders(1, 3)), "made again, they are the same");
        assert!(full.orders(1, 3).ne(full.orders(1, 4)));
        let again = Population { seed: 2, ..full };
        assert!(full.orders(1, 3).ne(again.orders(1, 3)));
    }

    #[test]
    fn a_tenth_of_the_customers_has_bad_credit_and_all_last_names_are_there() {
        let all: Vec<Customer> = full().customers(1, 2).collect();
        let names: BTreeSet<&str> = all.iter().map(|customer| customer.c_last.as_str()).collect();
        assert_eq!(names.len(), 1000);
        let bad = all.iter().filter(|customer| customer.c_credit == *b"BC").count();
        assert!((230..370).contains(&bad), "{bad}");
    }
}
