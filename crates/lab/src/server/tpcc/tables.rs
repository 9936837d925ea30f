//! The definitions of the nine tables.

/// The names, each after those that its foreign keys name.
pub(in crate::server) const NAMES: [&str; 9] =
    ["item", "warehouse", "stock", "district", "customer", "history", "orders", "new_orders", "order_line"];

/// Returns the columns and the primary key of a table.
///
/// Sums and counters are wider than the standard asks for: without pauses a warehouse takes in some
/// hours what its users pay in years.
fn columns(table: &str) -> &'static str {
    match table {
        "item" => {
            "i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), \
             PRIMARY KEY (i_id)"
        }
        "warehouse" => {
            "w_id SMALLINT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), \
             w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(16,2), \
             PRIMARY KEY (w_id)"
        }
        "stock" => {
            "s_i_id INT NOT NULL, s_w_id SMALLINT NOT NULL, s_quantity SMALLINT, s_dist_01 CHAR(24), \
             s_dist_02 CHAR(24), s_dist_03 CHAR(24), s_dist_04 CHAR(24), s_dist_05 CHAR(24), \
             s_dist_06 CHAR(24), s_dist_07 CHAR(24), s_dist_08 CHAR(24), s_dist_09 CHAR(24), \
             s_dist_10 CHAR(24), s_ytd DECIMAL(10,0), s_order_cnt INT, s_remote_cnt INT, \
             s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)"
        }
        "district" => {
            "d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), \
             d_street_2 VARCHAR(20), d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), \
             d_tax DECIMAL(4,4), d_ytd DECIMAL(16,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)"
        }
        "customer" => {
            "c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id SMALLINT NOT NULL, c_first VARCHAR(16), \
             c_middle CHAR(2), c_last VARCHAR(16), c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), \
             c_city VARCHAR(20), c_state CHAR(2), c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME, \
             c_credit CHAR(2), c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4), \
             c_balance DECIMAL(16,2), c_ytd_payment DECIMAL(16,2), c_payment_cnt INT, \
             c_delivery_cnt INT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id)"
        }
        "history" => {
            "h_c_id INT, h_c_d_id TINYINT NOT NULL, h_c_w_id SMALLINT NOT NULL, h_d_id TINYINT NOT NULL, \
             h_w_id SMALLINT NOT NULL, h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24)"
        }
        "orders" => {
            "o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id SMALLINT NOT NULL, o_c_id INT, \
             o_entry_d DATETIME, o_carrier_id TINYINT, o_ol_cnt TINYINT, o_all_local TINYINT, \
             PRIMARY KEY (o_w_id, o_d_id, o_id)"
        }
        "new_orders" => {
            "no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id SMALLINT NOT NULL, \
             PRIMARY KEY (no_w_id, no_d_id, no_o_id)"
        }
        _ => {
            "ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id SMALLINT NOT NULL, \
             ol_number TINYINT NOT NULL, ol_i_id INT, ol_supply_w_id SMALLINT, ol_delivery_d DATETIME, \
             ol_quantity TINYINT, ol_amount DECIMAL(6,2), ol_dist_info CHAR(24), \
             PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"
        }
    }
}

/// Returns the statement that makes a table, without its other indexes.
pub(super) fn create(table: &str, engine_clause: &str) -> String {
    // Names are compared and sorted byte by byte.
    format!(
        "CREATE TABLE {table} ({}) CHARACTER SET latin1 COLLATE latin1_bin{engine_clause}",
        columns(table)
    )
}

/// The indexes, which are made after the load.
pub(super) const INDEXES: [&str; 2] = [
    "CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX idx_orders ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// The foreign keys: the name, the table, its columns, and what they name.
const FOREIGN_KEYS: [(&str, &str, &str, &str); 10] = [
    ("fkey_stock_1", "stock", "s_w_id", "warehouse (w_id)"),
    ("fkey_stock_2", "stock", "s_i_id", "item (i_id)"),
    ("fkey_district_1", "district", "d_w_id", "warehouse (w_id)"),
    ("fkey_customer_1", "customer", "c_w_id, c_d_id", "district (d_w_id, d_id)"),
    ("fkey_history_1", "history", "h_c_w_id, h_c_d_id, h_c_id", "customer (c_w_id, c_d_id, c_id)"),
    ("fkey_history_2", "history", "h_w_id, h_d_id", "district (d_w_id, d_id)"),
    ("fkey_orders_1", "orders", "o_w_id, o_d_id, o_c_id", "customer (c_w_id, c_d_id, c_id)"),
    ("fkey_new_orders_1", "new_orders", "no_w_id, no_d_id, no_o_id", "orders (o_w_id, o_d_id, o_id)"),
    ("fkey_order_line_1", "order_line", "ol_w_id, ol_d_id, ol_o_id", "orders (o_w_id, o_d_id, o_id)"),
    ("fkey_order_line_2", "order_line", "ol_supply_w_id, ol_i_id", "stock (s_w_id, s_i_id)"),
];

/// Returns the statements that make all tables, in their order; rows are inserted after the first
/// nine.
pub(in crate::server) fn made(engine_clause: &str, with_foreign_keys: bool) -> Vec<String> {
    let tables = NAMES.iter().map(|table| create(table, engine_clause));
    let keys = with_foreign_keys.then(foreign_keys).into_iter().flatten();
    tables.chain(INDEXES.map(str::to_owned)).chain(keys).collect()
}

/// Returns the statements that make the foreign keys, one for each table.
pub(super) fn foreign_keys() -> Vec<String> {
    let of = |table: &str| {
        let keys = FOREIGN_KEYS.iter().filter(|key| key.1 == table);
        let keys: Vec<String> = keys
            .map(|(name, _, columns, named)| {
                format!("ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {named}")
            })
            .collect();
        (!keys.is_empty()).then(|| format!("ALTER TABLE {table} {}", keys.join(", ")))
    };
    NAMES.iter().filter_map(|table| of(table)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::rows::{
        Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, TableRow, Warehouse,
    };
    use std::collections::BTreeSet;

    fn same<R: TableRow>() {
        let text = format!(" {}", columns(R::TABLE));
        let (list, _) = text.split_once(", PRIMARY KEY").unwrap_or((&text, ""));
        let defined: BTreeSet<&str> =
            list.split(", ").filter_map(|column| column.split_whitespace().next()).collect();
        assert_eq!(defined, R::COLUMNS.iter().copied().collect::<BTreeSet<_>>(), "{}", R::TABLE);
        assert!(NAMES.contains(&R::TABLE));
    }

    #[test]
    fn the_columns_are_those_of_the_rows() {
        same::<Warehouse>();
        same::<District>();
        same::<Customer>();
        same::<History>();
        same::<NewOrder>();
        same::<Order>();
        same::<OrderLine>();
        same::<Item>();
        same::<Stock>();
    }

    #[test]
    fn each_table_with_foreign_keys_gets_them_in_one_statement() {
        let all = foreign_keys();
        assert_eq!(all.len(), 7);
        assert_eq!(
            all[1],
            "ALTER TABLE district ADD CONSTRAINT fkey_district_1 FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)"
        );
    }
}
