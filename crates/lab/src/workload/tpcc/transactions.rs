//! The five transactions: which statements, in which order. What each statement does is elsewhere,
//! once for a database in this process and once for a server.
//!
//! A transaction locks what many want first, and reads without locks after that: so its snapshot
//! is drawn when it has the row of the district, and seldom meets newer versions.

use super::field::{Cents, Rate};
use super::inputs::{Input, Kind, Line, Place, Who};
use super::rows::Item;
use super::scale::DISTRICTS;
use crate::workload::AttemptError;

/// The longest data of a customer.
const DATA_BYTES: usize = 500;
/// A stock level counts the items of so many orders.
const RECENT_ORDERS: u32 = 20;

/// A customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CustomerAt {
    pub(crate) place: Place,
    pub(crate) id: u32,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderAt {
    pub(crate) place: Place,
    pub(crate) id: u32,
}

/// The account of a customer, as a payment reads and changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) balance: Cents,
    /// The data, of a customer with bad credit.
    pub(crate) bad_credit_data: Option<String>,
}

/// What a new order reads of stock, which it has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StockRead {
    pub(crate) quantity: u32,
    /// The text for the order's district.
    pub(crate) dist_info: [u8; 24],
    pub(crate) data: String,
}

/// How a line changes stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StockChange {
    pub(crate) quantity: u32,
    pub(crate) ordered: u8,
    pub(crate) remote: bool,
}

/// The head of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderHead {
    pub(crate) customer: u32,
    pub(crate) lines: u8,
    pub(crate) all_local: bool,
}

/// A line of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewLine {
    pub(crate) number: u8,
    pub(crate) line: Line,
    pub(crate) amount: Cents,
    pub(crate) dist_info: [u8; 24],
}

/// The statements, as one engine runs them. A statement that does not find a row that must be there
/// is an error.
pub(crate) trait Statements: Send {
    /// Begins a transaction. The last one may have failed in its middle.
    fn begin(&mut self, kind: Kind) -> Result<(), AttemptError>;
    /// Commits.
    fn commit(&mut self) -> Result<(), AttemptError>;
    /// Rolls back.
    fn rollback(&mut self) -> Result<(), AttemptError>;

    /// Locks a district, and takes the number of its next order. Returns the tax and the number.
    fn take_order_number(&mut self, at: Place) -> Result<(Rate, u32), AttemptError>;
    /// Returns the tax of a warehouse.
    fn warehouse_tax(&mut self, w: u16) -> Result<Rate, AttemptError>;
    /// Returns the discount of a customer; reads last name and credit too.
    fn discount(&mut self, of: CustomerAt) -> Result<Rate, AttemptError>;
    /// Inserts an order, and says that it is new.
    fn insert_order(&mut self, order: OrderAt, head: OrderHead) -> Result<(), AttemptError>;
    /// Returns an item; `None` if there is none of this number.
    fn item(&mut self, item: u32) -> Result<Option<Item>, AttemptError>;
    /// Locks stock and returns what a line of an order of district `d` needs of it.
    fn lock_stock(&mut self, line: Line, d: u8) -> Result<StockRead, AttemptError>;
    /// Changes locked stock.
    fn change_stock(&mut self, line: Line, change: StockChange) -> Result<(), AttemptError>;
    /// Inserts a line of an order.
    fn insert_line(&mut self, order: OrderAt, line: &NewLine) -> Result<(), AttemptError>;

    /// Adds a payment to a warehouse. Returns its name.
    fn pay_warehouse(&mut self, w: u16, amount: Cents) -> Result<String, AttemptError>;
    /// Adds a payment to a district. Returns its name.
    fn pay_district(&mut self, at: Place, amount: Cents) -> Result<String, AttemptError>;
    /// Returns the customers with a last name, sorted by first name.
    fn customers_named(&mut self, place: Place, last: &str) -> Result<Vec<u32>, AttemptError>;
    /// Locks a customer, and returns the account.
    fn lock_account(&mut self, of: CustomerAt) -> Result<Account, AttemptError>;
    /// Takes a payment from a locked account, and stores its data if it has bad credit.
    fn pay(&mut self, of: CustomerAt, amount: Cents, account: &Account) -> Result<(), AttemptError>;
    /// Notes a payment at a district.
    fn insert_history(
        &mut self,
        of: CustomerAt,
        at: Place,
        amount: Cents,
        data: &str,
    ) -> Result<(), AttemptError>;

    /// Returns the balance of a customer; reads the names too.
    fn balance(&mut self, of: CustomerAt) -> Result<Cents, AttemptError>;
    /// Returns the last order of a customer, and how many lines it has.
    fn last_order(&mut self, of: CustomerAt) -> Result<(OrderAt, u8), AttemptError>;
    /// Reads the lines of an order, and returns how many there are.
    fn read_lines(&mut self, order: OrderAt) -> Result<u64, AttemptError>;

    /// Locks the oldest new order of a district and removes it from the new ones; `None` if there
    /// is none.
    fn take_new_order(&mut self, at: Place) -> Result<Option<OrderAt>, AttemptError>;
    /// Notes who delivers an order. Returns its customer.
    fn set_carrier(&mut self, order: OrderAt, carrier: u8) -> Result<u32, AttemptError>;
    /// Notes that all lines of an order are delivered. Returns how many there are, and the sum of
    /// their amounts.
    fn deliver_lines(&mut self, order: OrderAt) -> Result<(u64, Cents), AttemptError>;
    /// Adds a delivered order to the balance of a customer.
    fn add_delivery(&mut self, of: CustomerAt, amount: Cents) -> Result<(), AttemptError>;

    /// Returns the number of the next order of a district.
    fn next_order(&mut self, at: Place) -> Result<u32, AttemptError>;
    /// Counts the different items in the orders `orders` of a district whose stock is below the
    /// threshold.
    fn count_low(
        &mut self,
        at: Place,
        orders: std::ops::Range<u32>,
        threshold: u32,
    ) -> Result<u64, AttemptError>;
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// False if it has rolled back, as its input has asked for.
    pub(crate) committed: bool,
    /// Table rows that it changed.
    pub(crate) row_changes: u64,
}

/// Runs a transaction from begin to its end.
pub(crate) fn run(s: &mut impl Statements, input: &Input) -> Result<Done, AttemptError> {
    s.begin(input.kind())?;
    let changes = match input {
        Input::NewOrder { at, customer, lines } => new_order(s, *at, *customer, lines)?,
        Input::Payment { at, of, who, amount } => Some(payment(s, *at, *of, who, *amount)?),
        Input::OrderStatus { at, who } => Some(order_status(s, *at, who)?),
        Input::Delivery { w, carrier } => Some(delivery(s, *w, *carrier)?),
        Input::StockLevel { at, threshold } => Some(stock_level(s, *at, *threshold)?),
    };
    match changes {
        Some(row_changes) => s.commit().map(|()| Done { committed: true, row_changes }),
        None => s.rollback().map(|()| Done { committed: false, row_changes: 0 }),
    }
}

/// Returns the quantity of stock after `ordered` are taken: below 10 it is filled up by 91.
pub(crate) fn quantity_after(quantity: u32, ordered: u8) -> u32 {
    match quantity.checked_sub(ordered.into()) {
        Some(left) if left >= 10 => left,
        _ => quantity + 91 - u32::from(ordered),
    }
}

/// Returns the data of a customer with bad credit after a payment: what was paid comes first, and
/// what is too long is cut off.
pub(crate) fn data_after(old: &str, of: CustomerAt, at: Place, amount: Cents) -> String {
    let CustomerAt { place, id } = of;
    let mut data = format!("{id} {} {} {} {} {amount} {old}", place.d, place.w, at.d, at.w);
    // All characters are ASCII.
    data.truncate(DATA_BYTES);
    data
}

/// The new order (clause 2.4.2); `None` if it must roll back.
fn new_order(
    s: &mut impl Statements,
    at: Place,
    customer: u32,
    lines: &[Line],
) -> Result<Option<u64>, AttemptError> {
    let (district_tax, id) = s.take_order_number(at)?;
    let order = OrderAt { place: at, id };
    let warehouse_tax = s.warehouse_tax(at.w)?;
    let discount = s.discount(CustomerAt { place: at, id: customer })?;
    let all_local = lines.iter().all(|line| line.supply_w == at.w);
    s.insert_order(order, OrderHead { customer, lines: lines.len() as u8, all_local })?;
    let mut total = Cents(0);
    for (number, line) in (1..).zip(lines) {
        let Some(item) = s.item(line.item)? else { return Ok(None) };
        let stock = s.lock_stock(*line, at.d)?;
        let quantity = quantity_after(stock.quantity, line.quantity);
        let change = StockChange { quantity, ordered: line.quantity, remote: line.supply_w != at.w };
        s.change_stock(*line, change)?;
        let amount = Cents(item.i_price.0 * i64::from(line.quantity));
        // What the terminal shows.
        std::hint::black_box(item.i_data.contains("ORIGINAL") && stock.data.contains("ORIGINAL"));
        s.insert_line(order, &NewLine { number, line: *line, amount, dist_info: stock.dist_info })?;
        total.0 += amount.0;
    }
    std::hint::black_box(total_after(total, discount, warehouse_tax, district_tax));
    Ok(Some(3 + 2 * lines.len() as u64))
}

/// Returns what a customer has to pay for an order.
fn total_after(sum: Cents, discount: Rate, warehouse_tax: Rate, district_tax: Rate) -> Cents {
    let (discount, tax) = (i64::from(discount.0), i64::from(warehouse_tax.0 + district_tax.0));
    Cents(sum.0 * (10_000 - discount) / 10_000 * (10_000 + tax) / 10_000)
}

/// The payment (clause 2.5.2).
fn payment(
    s: &mut impl Statements,
    at: Place,
    of: Place,
    who: &Who,
    amount: Cents,
) -> Result<u64, AttemptError> {
    let warehouse = s.pay_warehouse(at.w, amount)?;
    let district = s.pay_district(at, amount)?;
    let of = find(s, of, who)?;
    let mut account = s.lock_account(of)?;
    if let Some(data) = &mut account.bad_credit_data {
        *data = data_after(data, of, at, amount);
    }
    s.pay(of, amount, &account)?;
    s.insert_history(of, at, amount, &format!("{warehouse}    {district}"))?;
    Ok(4)
}

/// Returns the customer whom a user has named: of those with a last name the one in the middle.
fn find(s: &mut impl Statements, place: Place, who: &Who) -> Result<CustomerAt, AttemptError> {
    let id = match who {
        Who::Id(id) => *id,
        Who::LastName(last) => {
            let named = s.customers_named(place, last)?;
            let none = || AttemptError::Wrong(format!("no customer of {place:?} has the name {last}"));
            middle(&named).ok_or_else(none)?
        }
    };
    Ok(CustomerAt { place, id })
}

/// Returns element n/2, rounded up, counted from 1.
fn middle(sorted: &[u32]) -> Option<u32> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The order status (clause 2.6.2).
fn order_status(s: &mut impl Statements, at: Place, who: &Who) -> Result<u64, AttemptError> {
    let of = find(s, at, who)?;
    std::hint::black_box(s.balance(of)?);
    let (order, lines) = s.last_order(of)?;
    let found = s.read_lines(order)?;
    if found != u64::from(lines) {
        return Err(AttemptError::Wrong(format!("{order:?} has {found} lines, and should have {lines}")));
    }
    Ok(0)
}

/// The delivery (clause 2.7.4), of all districts in one transaction.
fn delivery(s: &mut impl Statements, w: u16, carrier: u8) -> Result<u64, AttemptError> {
    let mut changes = 0;
    for d in 1..=DISTRICTS {
        let at = Place { w, d };
        // Where nothing is new, nothing is delivered.
        let Some(order) = s.take_new_order(at)? else { continue };
        let customer = s.set_carrier(order, carrier)?;
        let (lines, amount) = s.deliver_lines(order)?;
        s.add_delivery(CustomerAt { place: at, id: customer }, amount)?;
        changes += 3 + lines;
    }
    Ok(changes)
}

/// The stock level (clause 2.8.2).
fn stock_level(s: &mut impl Statements, at: Place, threshold: u32) -> Result<u64, AttemptError> {
    let next = s.next_order(at)?;
    let first = next.saturating_sub(RECENT_ORDERS).max(1);
    std::hint::black_box(s.count_low(at, first..next, threshold)?);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_filled_up_before_it_falls_below_ten() {
        assert_eq!(quantity_after(50, 10), 40);
        assert_eq!(quantity_after(20, 10), 10);
        assert_eq!(quantity_after(19, 10), 100);
        assert_eq!(quantity_after(5, 7), 89);
    }

    #[test]
    fn the_customer_in_the_middle_is_chosen() {
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[7]), Some(7));
        assert_eq!(middle(&[7, 8]), Some(7));
        assert_eq!(middle(&[7, 8, 9]), Some(8));
        assert_eq!(middle(&[7, 8, 9, 10]), Some(8));
    }

    #[test]
    fn data_of_bad_credit_has_the_payment_in_front_and_does_not_grow_for_ever() {
        let of = CustomerAt { place: Place { w: 1, d: 2 }, id: 3 };
        let data = data_after("old", of, Place { w: 4, d: 5 }, Cents(1050));
        assert_eq!(data, "3 2 1 5 4 10.50 old");
        let long = data_after(&"x".repeat(500), of, of.place, Cents(1));
        assert_eq!(long.len(), 500);
    }

    #[test]
    fn discount_and_taxes_change_the_total() {
        assert_eq!(total_after(Cents(10_000), Rate(1000), Rate(500), Rate(500)), Cents(9900));
    }
}
