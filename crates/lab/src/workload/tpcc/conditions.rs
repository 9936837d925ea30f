//! The standard's twelve consistency conditions (clauses 3.3.2.1 to 3.3.2.12), as functions of what
//! the tables of a warehouse hold. Each returns the first violation.

use super::field::Cents;
use super::scale::Scale;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Whether a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Condition {
    /// The clause of the standard.
    pub(crate) condition: String,
    /// Whether it holds everywhere.
    pub(crate) ok: bool,
    /// The first violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<String>,
}

/// How many conditions there are.
pub(crate) const CONDITIONS: usize = 12;

/// Returns the clause of condition `number`, from 1.
pub(crate) fn clause(number: usize) -> String {
    format!("3.3.2.{number}")
}

/// An order, as the conditions need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderFact {
    pub(crate) id: u32,
    pub(crate) customer: u32,
    pub(crate) has_carrier: bool,
    pub(crate) lines: u8,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineFact {
    pub(crate) order: u32,
    pub(crate) delivered: bool,
    pub(crate) amount: Cents,
}

/// A customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CustomerFact {
    pub(crate) id: u32,
    pub(crate) balance: Cents,
    pub(crate) ytd_payment: Cents,
    pub(crate) deliveries: u32,
    /// The sum of the customer's payments, at any warehouse, in the history.
    pub(crate) history: Cents,
}

/// A district.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DistrictFacts {
    pub(crate) id: u8,
    pub(crate) ytd: Cents,
    pub(crate) next_order: u32,
    /// The sum of the payments at this district in the history.
    pub(crate) history: Cents,
    pub(crate) new_orders: Vec<u32>,
    pub(crate) orders: Vec<OrderFact>,
    pub(crate) lines: Vec<LineFact>,
    pub(crate) customers: Vec<CustomerFact>,
}

/// A warehouse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarehouseFacts {
    pub(crate) id: u16,
    pub(crate) ytd: Cents,
    pub(crate) districts: Vec<DistrictFacts>,
}

/// Which conditions hold so far.
#[derive(Debug)]
pub(crate) struct Verdict {
    scale: Scale,
    found: Vec<Option<String>>,
}

impl Verdict {
    /// Begins without violations.
    pub(crate) fn new(scale: Scale) -> Verdict {
        Verdict { scale, found: vec![None; CONDITIONS] }
    }

    /// Adds a warehouse.
    pub(crate) fn add(&mut self, facts: &WarehouseFacts) {
        for (number, found) in (1..).zip(&mut self.found) {
            if found.is_none() {
                *found = violation(number, facts, self.scale);
            }
        }
    }

    /// Returns all conditions.
    pub(crate) fn conditions(self) -> Vec<Condition> {
        let all = (1..).zip(self.found);
        all.map(|(n, found)| Condition { condition: clause(n), ok: found.is_none(), found }).collect()
    }
}

/// Returns the first violation of condition `number` in a warehouse.
fn violation(number: usize, facts: &WarehouseFacts, scale: Scale) -> Option<String> {
    let of_district: fn(&DistrictFacts) -> Option<String> = match number {
        1 => return warehouse_is_sum_of_districts(facts),
        2 => next_order_follows_the_last,
        3 => new_orders_have_no_gap,
        4 => lines_are_as_many_as_orders_say,
        5 => orders_without_carrier_are_new,
        6 => each_order_has_its_lines,
        7 => lines_are_delivered_with_their_order,
        8 => return warehouse_is_sum_of_history(facts),
        9 => district_is_sum_of_history,
        10 => balance_is_deliveries_less_payments,
        11 => {
            let at_load = scale.first_new_order() - 1;
            return first(facts, |district| orders_are_new_or_delivered(district, at_load));
        }
        _ => balance_and_payments_are_deliveries,
    };
    first(facts, of_district)
}

/// Returns the first violation in a district, with the district's name.
fn first(facts: &WarehouseFacts, of: impl Fn(&DistrictFacts) -> Option<String>) -> Option<String> {
    let at =
        |district: &DistrictFacts, why| format!("warehouse {}, district {}: {why}", facts.id, district.id);
    facts.districts.iter().find_map(|district| of(district).map(|why| at(district, why)))
}

/// Says that two values differ, if they do.
fn differ<T: PartialEq + std::fmt::Display>(what: &str, is: T, other: &str, should_be: T) -> Option<String> {
    (is != should_be).then(|| format!("{what} is {is}, and {other} is {should_be}"))
}

/// 1: W_YTD = sum(D_YTD).
fn warehouse_is_sum_of_districts(facts: &WarehouseFacts) -> Option<String> {
    let sum: Cents = facts.districts.iter().map(|district| district.ytd).sum();
    differ("w_ytd", facts.ytd, "the sum of d_ytd", sum).map(|why| format!("warehouse {}: {why}", facts.id))
}

/// 2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID). Without new orders the last part does not apply.
fn next_order_follows_the_last(district: &DistrictFacts) -> Option<String> {
    let last = i64::from(district.next_order) - 1;
    let orders = district.orders.iter().map(|order| order.id).max().map_or(0, i64::from);
    let new = district.new_orders.iter().max().map_or(last, |id| i64::from(*id));
    differ("d_next_o_id - 1", last, "the largest o_id", orders)
        .or_else(|| differ("d_next_o_id - 1", last, "the largest no_o_id", new))
}

/// 3: max(NO_O_ID) - min(NO_O_ID) + 1 = the number of rows.
fn new_orders_have_no_gap(district: &DistrictFacts) -> Option<String> {
    let (least, most) = (district.new_orders.iter().min()?, district.new_orders.iter().max()?);
    let rows = district.new_orders.len() as u64;
    differ("the range of no_o_id", u64::from(most - least) + 1, "the number of new orders", rows)
}

/// 4: sum(O_OL_CNT) = the number of lines.
fn lines_are_as_many_as_orders_say(district: &DistrictFacts) -> Option<String> {
    let sum: u64 = district.orders.iter().map(|order| u64::from(order.lines)).sum();
    differ("the sum of o_ol_cnt", sum, "the number of lines", district.lines.len() as u64)
}

/// 5: an order has no carrier if and only if it is new.
fn orders_without_carrier_are_new(district: &DistrictFacts) -> Option<String> {
    let new: BTreeSet<u32> = district.new_orders.iter().copied().collect();
    let open: BTreeSet<u32> =
        district.orders.iter().filter(|order| !order.has_carrier).map(|order| order.id).collect();
    let odd = new.symmetric_difference(&open).next()?;
    let is_new = if new.contains(odd) { "is new" } else { "is not new" };
    let carrier = if open.contains(odd) { "has no carrier" } else { "has a carrier or does not exist" };
    Some(format!("order {odd} {is_new} and {carrier}"))
}

/// 6: O_OL_CNT = the number of the order's lines.
fn each_order_has_its_lines(district: &DistrictFacts) -> Option<String> {
    let mut lines: HashMap<u32, u64> = HashMap::new();
    district.lines.iter().for_each(|line| *lines.entry(line.order).or_default() += 1);
    let wrong = district.orders.iter().find_map(|order| {
        let found = lines.remove(&order.id).unwrap_or(0);
        differ(
            &format!("o_ol_cnt of order {}", order.id),
            order.lines.into(),
            "the number of its lines",
            found,
        )
    });
    wrong.or_else(|| {
        lines.keys().min().map(|order| format!("there are lines of order {order}, which is missing"))
    })
}

/// 7: a line is delivered if and only if its order has a carrier.
fn lines_are_delivered_with_their_order(district: &DistrictFacts) -> Option<String> {
    let carriers: HashMap<u32, bool> =
        district.orders.iter().map(|order| (order.id, order.has_carrier)).collect();
    let carrier = |line: &LineFact| carriers.get(&line.order).copied().unwrap_or(false);
    let odd = district.lines.iter().find(|line| line.delivered != carrier(line))?;
    let (line, order) = if odd.delivered { ("is", "no") } else { ("is not", "a") };
    Some(format!("a line of order {} {line} delivered, and the order has {order} carrier", odd.order))
}

/// 8: W_YTD = sum(H_AMOUNT).
fn warehouse_is_sum_of_history(facts: &WarehouseFacts) -> Option<String> {
    let sum: Cents = facts.districts.iter().map(|district| district.history).sum();
    differ("w_ytd", facts.ytd, "the sum of h_amount", sum).map(|why| format!("warehouse {}: {why}", facts.id))
}

/// 9: D_YTD = sum(H_AMOUNT).
fn district_is_sum_of_history(district: &DistrictFacts) -> Option<String> {
    differ("d_ytd", district.ytd, "the sum of h_amount", district.history)
}

/// Returns the sum of the delivered lines of each customer.
fn delivered(district: &DistrictFacts) -> HashMap<u32, i64> {
    let customers: HashMap<u32, u32> =
        district.orders.iter().map(|order| (order.id, order.customer)).collect();
    let mut sums = HashMap::new();
    for line in district.lines.iter().filter(|line| line.delivered) {
        if let Some(customer) = customers.get(&line.order) {
            *sums.entry(*customer).or_default() += line.amount.0;
        }
    }
    sums
}

/// Compares a figure of each customer with the sum of the customer's delivered lines.
fn against_delivered(
    district: &DistrictFacts,
    what: &str,
    figure: impl Fn(&CustomerFact) -> Cents,
) -> Option<String> {
    let sums = delivered(district);
    district.customers.iter().find_map(|customer| {
        let sum = Cents(sums.get(&customer.id).copied().unwrap_or(0));
        differ(&format!("{what} of customer {}", customer.id), figure(customer), "the sum of ol_amount", sum)
    })
}

/// 10: C_BALANCE = sum(OL_AMOUNT) of delivered lines - sum(H_AMOUNT).
fn balance_is_deliveries_less_payments(district: &DistrictFacts) -> Option<String> {
    against_delivered(district, "c_balance + sum of h_amount", |customer| {
        Cents(customer.balance.0 + customer.history.0)
    })
}

/// 11: the orders that are not new are those that the load has delivered (2,100 of 3,000), and
/// those that a run has delivered since, which c_delivery_cnt counts. The standard states it for
/// the load alone.
fn orders_are_new_or_delivered(district: &DistrictFacts, at_load: u32) -> Option<String> {
    let since: u64 = district.customers.iter().map(|customer| u64::from(customer.deliveries)).sum();
    let old = district.orders.len() as i64 - district.new_orders.len() as i64;
    let text = format!("{at_load} + the sum of c_delivery_cnt");
    differ("orders - new orders", old, &text, i64::from(at_load) + since as i64)
}

/// 12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered lines.
fn balance_and_payments_are_deliveries(district: &DistrictFacts) -> Option<String> {
    against_delivered(district, "c_balance + c_ytd_payment", |customer| {
        Cents(customer.balance.0 + customer.ytd_payment.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { warehouses: 1, part: 300 };

    /// A district of ten customers with an order each, seven of which are delivered, and an
    /// eleventh order that a run has made.
    fn sound() -> WarehouseFacts {
        let customer = |id| CustomerFact {
            id,
            balance: Cents(-1000),
            ytd_payment: Cents(1000),
            deliveries: 0,
            history: Cents(1000),
        };
        let order = |id| OrderFact { id, customer: id.min(10), has_carrier: id < 8, lines: 2 };
        let line = |order: u32| LineFact {
            order,
            delivered: order < 8,
            amount: Cents(if order < 8 { 0 } else { 500 }),
        };
        let district = DistrictFacts {
            id: 1,
            ytd: Cents(10_000),
            next_order: 12,
            history: Cents(10_000),
            new_orders: (8..=11).collect(),
            orders: (1..=11).map(order).collect(),
            lines: (1..=11).flat_map(|id| [line(id), line(id)]).collect(),
            customers: (1..=10).map(customer).collect(),
        };
        WarehouseFacts { id: 1, ytd: Cents(10_000), districts: vec![district] }
    }

    /// Returns the numbers of the conditions that do not hold.
    fn broken(facts: &WarehouseFacts) -> Vec<usize> {
        (1..=CONDITIONS).filter(|n| violation(*n, facts, SCALE).is_some()).collect()
    }

    #[test]
    fn sound_tables_meet_all_conditions() {
        assert_eq!(broken(&sound()), Vec::<usize>::new());
        let mut delivered = sound();
        delivered.districts[0].new_orders.clear();
        let district = &mut delivered.districts[0];
        district.orders.iter_mut().for_each(|order| order.has_carrier = true);
        district.lines.iter_mut().for_each(|line| line.delivered = true);
        for customer in &mut district.customers[7..] {
            let orders = if customer.id == 10 { 2 } else { 1 };
            customer.deliveries = orders;
            customer.balance.0 += 1000 * i64::from(orders);
        }
        assert_eq!(broken(&delivered), Vec::<usize>::new());
    }

    /// A mistake, and the conditions that it breaks.
    type Planted = (&'static str, fn(&mut WarehouseFacts), &'static [usize]);

    #[test]
    fn each_condition_finds_what_is_wrong() {
        let planted: [Planted; 13] = [
            ("a payment is not added to the warehouse", |w| w.ytd.0 -= 1, &[1, 8]),
            ("d_next_o_id stays", |w| w.districts[0].next_order -= 1, &[2]),
            ("a new order in the middle is lost", |w| _ = w.districts[0].new_orders.remove(1), &[3, 5, 11]),
            ("the last new order is lost", |w| _ = w.districts[0].new_orders.pop(), &[2, 5, 11]),
            ("a line is lost", |w| _ = w.districts[0].lines.pop(), &[4, 6]),
            ("a line has another order", |w| w.districts[0].lines[20].order = 10, &[6]),
            ("a carrier is not noted", |w| w.districts[0].orders[2].has_carrier = false, &[5, 7]),
            ("a line is not delivered", |w| w.districts[0].lines[0].delivered = false, &[7]),
            ("a payment is lost in the history", |w| w.districts[0].history.0 -= 5, &[8, 9]),
            (
                "a payment is not taken from the balance",
                |w| w.districts[0].customers[3].balance.0 += 7,
                &[10, 12],
            ),
            ("a payment is not noted for a customer", |w| w.districts[0].customers[3].history.0 -= 7, &[10]),
            ("a delivery is not counted", |w| w.districts[0].customers[3].deliveries = 1, &[11]),
            ("the sum of payments is wrong", |w| w.districts[0].customers[3].ytd_payment.0 += 7, &[12]),
        ];
        let mut seen = BTreeSet::new();
        for (mistake, plant, expected) in planted {
            let mut facts = sound();
            plant(&mut facts);
            assert_eq!(broken(&facts), expected, "{mistake}");
            seen.extend(expected);
        }
        assert!(seen.into_iter().copied().eq(1..=CONDITIONS), "each condition can fail");
    }

    #[test]
    fn a_violation_names_the_place_and_the_values() {
        let mut facts = sound();
        facts.districts[0].next_order = 9;
        let mut verdict = Verdict::new(SCALE);
        verdict.add(&sound());
        verdict.add(&facts);
        let conditions = verdict.conditions();
        assert!(conditions[0].ok && conditions[0].condition == "3.3.2.1");
        assert_eq!(
            conditions[1].found.as_deref(),
            Some("warehouse 1, district 1: d_next_o_id - 1 is 8, and the largest o_id is 11")
        );
    }
}
