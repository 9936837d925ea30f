//! The standard's twelve consistency conditions, each as one query that returns violations.

use super::super::schema::Schema;
use super::super::worker::failed;
use crate::workload::tpcc::conditions::{Condition, clause};
use crate::workload::tpcc::scale::Scale;
use client::{Access, Row};
use output::failure::{Failure, Outcome};
use output::stop;

/// Asks for the first `count` conditions.
pub(in crate::server) fn check(
    access: &Access,
    schema: &Schema,
    scale: Scale,
    count: usize,
) -> Outcome<Vec<Condition>> {
    let no = |trouble: client::Trouble| Failure::failed(trouble.to_string());
    let mut worker = access.work(None).map_err(no)?;
    let use_it = format!("USE `{}`", schema.name());
    worker.run(&use_it).map_err(|trouble| failed(&use_it, &trouble))?;
    let mut conditions = Vec::new();
    for (n, text) in (1..).zip(queries(scale).iter().take(count)) {
        stop::check()?;
        let rows = worker.rows(text).map_err(|trouble| failed(text, &trouble))?;
        conditions.push(judge(n, &rows));
    }
    Ok(conditions)
}

/// Makes the condition of the violations that a query has returned.
fn judge(number: usize, violations: &[Row]) -> Condition {
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
    let found = violations.first().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" "));
    Condition { condition: clause(number), ok: found.is_none(), found }
}

/// The orders of a customer that are delivered, with the sum of their lines.
const DELIVERED: &str = "LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS amount \
     FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS delivered \
     ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id";

/// Returns the query of each condition. Its rows are the place and the values that differ.
fn queries(scale: Scale) -> Vec<String> {
    let all = of_orders().into_iter().map(str::to_owned).chain(of_money(scale));
    all.map(|query| format!("{query} LIMIT 1")).collect()
}

/// Returns the queries of conditions 1 to 7.
fn of_orders() -> [&'static str; 7] {
    [
        // 1: W_YTD = sum(D_YTD).
        "SELECT w_id, w_ytd, SUM(d_ytd) AS s FROM warehouse JOIN district ON d_w_id = w_id \
         GROUP BY w_id, w_ytd HAVING w_ytd <> s",
        // 2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID).
        "SELECT d_w_id, d_id, d_next_o_id, o, n FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) AS a \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS n FROM new_orders GROUP BY no_w_id, no_d_id) AS b \
         ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE COALESCE(o, 0) <> d_next_o_id - 1 OR n <> d_next_o_id - 1",
        // 3: max(NO_O_ID) - min(NO_O_ID) + 1 = the number of rows.
        "SELECT no_w_id, no_d_id, MIN(no_o_id) AS least, MAX(no_o_id) AS most, COUNT(*) AS n \
         FROM new_orders GROUP BY no_w_id, no_d_id HAVING most - least + 1 <> n",
        // 4: sum(O_OL_CNT) = the number of lines.
        "SELECT d_w_id, d_id, o, l FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS o FROM orders GROUP BY o_w_id, o_d_id) AS a \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS l FROM order_line GROUP BY ol_w_id, ol_d_id) AS b \
         ON ol_w_id = d_w_id AND ol_d_id = d_id WHERE COALESCE(o, 0) <> COALESCE(l, 0)",
        // 5: an order has no carrier if and only if it is new.
        "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders LEFT JOIN new_orders \
         ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL) \
         UNION ALL SELECT no_w_id, no_d_id, no_o_id, NULL, NULL FROM new_orders LEFT JOIN orders \
         ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE o_id IS NULL",
        // 6: O_OL_CNT = the number of the order's lines.
        "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, n FROM orders \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line \
         GROUP BY ol_w_id, ol_d_id, ol_o_id) AS a \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_ol_cnt <> COALESCE(n, 0)",
        // 7: a line is delivered if and only if its order has a carrier.
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line \
         LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
         WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ]
}

/// Returns the queries of conditions 8 to 12.
fn of_money(scale: Scale) -> [String; 5] {
    let at_load = scale.first_new_order() - 1;
    [
        // 8: W_YTD = sum(H_AMOUNT).
        "SELECT w_id, w_ytd, h FROM warehouse \
         LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS h FROM history GROUP BY h_w_id) AS a ON h_w_id = w_id \
         WHERE w_ytd <> COALESCE(h, 0)"
            .to_owned(),
        // 9: D_YTD = sum(H_AMOUNT).
        "SELECT d_w_id, d_id, d_ytd, h FROM district \
         LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS h FROM history GROUP BY h_w_id, h_d_id) AS a \
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> COALESCE(h, 0)"
            .to_owned(),
        // 10: C_BALANCE = sum(OL_AMOUNT) of delivered lines - sum(H_AMOUNT).
        format!(
            "SELECT c_w_id, c_d_id, c_id, c_balance, amount, h FROM customer {DELIVERED} \
             LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS h FROM history \
             GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS paid \
             ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
             WHERE c_balance <> COALESCE(amount, 0) - COALESCE(h, 0)"
        ),
        // 11: orders - new orders = those of the load that were delivered, and those since. The
        // standard states it for the load alone.
        format!(
            "SELECT d_w_id, d_id, o, n, c FROM district \
             LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS o FROM orders GROUP BY o_w_id, o_d_id) AS a \
             ON o_w_id = d_w_id AND o_d_id = d_id \
             LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS n FROM new_orders GROUP BY no_w_id, no_d_id) AS b \
             ON no_w_id = d_w_id AND no_d_id = d_id \
             LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS c FROM customer \
             GROUP BY c_w_id, c_d_id) AS d ON c_w_id = d_w_id AND c_d_id = d_id \
             WHERE COALESCE(o, 0) - COALESCE(n, 0) <> {at_load} + COALESCE(c, 0)"
        ),
        // 12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered lines.
        format!(
            "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, amount FROM customer {DELIVERED} \
             WHERE c_balance + c_ytd_payment <> COALESCE(amount, 0)"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_query_is_a_violation() {
        assert_eq!(judge(2, &[]), Condition { condition: "3.3.2.2".into(), ok: true, found: None });
        let row = vec![Some("1".to_owned()), None];
        let broken = judge(12, &[row]);
        assert_eq!((broken.ok, broken.found.as_deref()), (false, Some("1 NULL")));
        assert_eq!(broken.condition, "3.3.2.12");
    }
}
