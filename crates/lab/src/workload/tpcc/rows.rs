//! The rows of the nine tables, under the names of the standard. A row's key are its first
//! columns; a history row has no key of its own.

#[cfg(feature = "watch")]
use super::field::Cell;
use super::field::{Cents, Field, KeyField, Moment, Rate};

/// A row of one of the tables.
pub(crate) trait TableRow: Sized {
    /// The table's name.
    const TABLE: &'static str;
    /// The names of the columns, in the order of `cells`.
    #[cfg(feature = "watch")]
    const COLUMNS: &'static [&'static str];

    /// Returns the key.
    fn key(&self) -> Vec<u8>;
    /// Returns what is stored under the key.
    fn value(&self) -> Vec<u8>;
    /// Decodes a row; `None` if it cannot have been stored.
    fn decode(key: &[u8], value: &[u8]) -> Option<Self>;
    /// Returns the values of all columns.
    #[cfg(feature = "watch")]
    fn cells(&self) -> Vec<Cell<'_>>;
}

macro_rules! row {
    (
        $(#[$doc:meta])* $name:ident in $table:literal,
        key { $($key:ident: $key_type:ty),* $(,)? } value { $($column:ident: $type:ty),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $name {
            $(pub(crate) $key: $key_type,)*
            $(pub(crate) $column: $type,)*
        }

        impl TableRow for $name {
            const TABLE: &'static str = $table;
            #[cfg(feature = "watch")]
            const COLUMNS: &'static [&'static str] =
                &[$(stringify!($key),)* $(stringify!($column),)*];

            fn key(&self) -> Vec<u8> {
                #[allow(unused_mut)]
                let mut out = Vec::with_capacity(16);
                $(self.$key.put_in_order(&mut out);)*
                out
            }

            fn value(&self) -> Vec<u8> {
                #[allow(unused_mut)]
                let mut out = Vec::new();
                $(self.$column.put(&mut out);)*
                out
            }

            fn decode(key: &[u8], value: &[u8]) -> Option<$name> {
                #[allow(unused_mut)]
                let (mut key, mut value) = (key, value);
                let row = $name {
                    $($key: KeyField::take_in_order(&mut key)?,)*
                    $($column: Field::take(&mut value)?,)*
                };
                (key.is_empty() && value.is_empty()).then_some(row)
            }

            #[cfg(feature = "watch")]
            fn cells(&self) -> Vec<Cell<'_>> {
                vec![$(self.$key.cell(),)* $(self.$column.cell(),)*]
            }
        }
    };
}

row! {
    /// A warehouse.
    Warehouse in "warehouse",
    key { w_id: u16 }
    value {
        w_name: String, w_street_1: String, w_street_2: String, w_city: String, w_state: [u8; 2],
        w_zip: [u8; 9], w_tax: Rate, w_ytd: Cents,
    }
}

row! {
    /// A district of a warehouse.
    District in "district",
    key { d_w_id: u16, d_id: u8 }
    value {
        d_name: String, d_street_1: String, d_street_2: String, d_city: String, d_state: [u8; 2],
        d_zip: [u8; 9], d_tax: Rate, d_ytd: Cents, d_next_o_id: u32,
    }
}

row! {
    /// A customer of a district.
    Customer in "customer",
    key { c_w_id: u16, c_d_id: u8, c_id: u32 }
    value {
        c_first: String, c_middle: [u8; 2], c_last: String, c_street_1: String, c_street_2: String,
        c_city: String, c_state: [u8; 2], c_zip: [u8; 9], c_phone: [u8; 16], c_since: Moment,
        c_credit: [u8; 2], c_credit_lim: Cents, c_discount: Rate, c_balance: Cents,
        c_ytd_payment: Cents, c_payment_cnt: u32, c_delivery_cnt: u32, c_data: String,
    }
}

row! {
    /// A payment of a customer.
    History in "history",
    key {}
    value {
        h_c_id: u32, h_c_d_id: u8, h_c_w_id: u16, h_d_id: u8, h_w_id: u16, h_date: Moment,
        h_amount: Cents, h_data: String,
    }
}

row! {
    /// An order that is not delivered yet.
    NewOrder in "new_orders",
    key { no_w_id: u16, no_d_id: u8, no_o_id: u32 }
    value {}
}

row! {
    /// An order.
    Order in "orders",
    key { o_w_id: u16, o_d_id: u8, o_id: u32 }
    value {
        o_c_id: u32, o_entry_d: Moment, o_carrier_id: Option<u8>, o_ol_cnt: u8, o_all_local: u8,
    }
}

row! {
    /// A line of an order.
    OrderLine in "order_line",
    key { ol_w_id: u16, ol_d_id: u8, ol_o_id: u32, ol_number: u8 }
    value {
        ol_i_id: u32, ol_supply_w_id: u16, ol_delivery_d: Option<Moment>, ol_quantity: u8,
        ol_amount: Cents, ol_dist_info: [u8; 24],
    }
}

row! {
    /// An item.
    Item in "item",
    key { i_id: u32 }
    value { i_im_id: u32, i_name: String, i_price: Cents, i_data: String }
}

row! {
    /// What a warehouse has of an item.
    Stock in "stock",
    key { s_w_id: u16, s_i_id: u32 }
    value {
        s_quantity: u32,
        s_dist_01: [u8; 24], s_dist_02: [u8; 24], s_dist_03: [u8; 24], s_dist_04: [u8; 24],
        s_dist_05: [u8; 24], s_dist_06: [u8; 24], s_dist_07: [u8; 24], s_dist_08: [u8; 24],
        s_dist_09: [u8; 24], s_dist_10: [u8; 24],
        s_ytd: u32, s_order_cnt: u32, s_remote_cnt: u32, s_data: String,
    }
}

impl Stock {
    /// Returns the text for orders of district `d`, from 1 to 10.
    pub(crate) fn dist(&self, d: u8) -> [u8; 24] {
        match d {
            1 => self.s_dist_01,
            2 => self.s_dist_02,
            3 => self.s_dist_03,
            4 => self.s_dist_04,
            5 => self.s_dist_05,
            6 => self.s_dist_06,
            7 => self.s_dist_07,
            8 => self.s_dist_08,
            9 => self.s_dist_09,
            _ => self.s_dist_10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_encoding_and_keys_sort_as_numbers() {
        let order = Order {
            o_w_id: 3,
            o_d_id: 10,
            o_id: 4711,
            o_c_id: 7,
            o_entry_d: Moment(1),
            o_carrier_id: None,
            o_ol_cnt: 5,
            o_all_local: 1,
        };
        assert_eq!(Order::decode(&order.key(), &order.value()), Some(order.clone()));
        assert_eq!(Order::decode(&order.key(), b""), None);
        assert_eq!(Order::decode(&[&order.key()[..], b"x"].concat(), &order.value()), None);
        let next = |w, d, o| Order { o_w_id: w, o_d_id: d, o_id: o, ..order.clone() }.key();
        let keys = [next(1, 2, 300), next(1, 2, 4711), next(1, 3, 1), next(2, 1, 1), next(256, 1, 1)];
        assert!(keys.is_sorted());
    }
}
