//! How large the tables are. The standard fixes all numbers but that of the warehouses; a smaller
//! part is for tests, and every result names it.

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u8 = 10;
/// The standard's items; each warehouse has stock of each.
const ITEMS: u32 = 100_000;
/// The standard's customers of a district, and its orders.
const CUSTOMERS: u32 = 3000;
/// Last names are made of three syllables of ten.
const LAST_NAMES: u32 = 1000;
/// The most warehouses: their number is a SMALLINT over SQL.
pub(crate) const WAREHOUSES_MAX: u32 = 32_767;
/// The smallest part: with it a district has ten customers.
pub(crate) const PART_MAX: u32 = 300;

/// How many rows the tables have after the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// How many warehouses.
    pub(crate) warehouses: u16,
    /// Items and customers are divided by this number; 1 is the standard's scale.
    pub(crate) part: u32,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { warehouses: 1, part: 1 }
    }
}

impl Scale {
    /// Returns how many items there are.
    pub(crate) fn items(self) -> u32 {
        ITEMS / self.part
    }

    /// Returns how many customers a district has. It has as many orders.
    pub(crate) fn customers(self) -> u32 {
        CUSTOMERS / self.part
    }

    /// Returns how many different last names are in use: those of the first customers of a
    /// district, each of which has another one.
    pub(crate) fn last_names(self) -> u32 {
        self.customers().min(LAST_NAMES)
    }

    /// Returns the first order of a district that is not delivered yet: three in ten are not.
    pub(crate) fn first_new_order(self) -> u32 {
        self.customers() * 7 / 10 + 1
    }

    /// Returns the numbers of the warehouses.
    pub(crate) fn all_warehouses(self) -> impl Iterator<Item = u16> {
        1..=self.warehouses
    }

    /// Returns the numbers of all districts: warehouse and district, in order.
    pub(crate) fn all_districts(self) -> impl Iterator<Item = (u16, u8)> {
        self.all_warehouses().flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
    }

    /// Returns the scale for people. A part of the standard's scale is always named.
    pub(crate) fn show(self) -> String {
        let warehouses = match self.warehouses {
            1 => "1 warehouse".to_owned(),
            n => format!("{n} warehouses"),
        };
        if self.part == 1 {
            return warehouses;
        }
        format!(
            "{warehouses} at 1/{} of the full scale: {} items, {} customers and orders a district",
            self.part,
            self.items(),
            self.customers()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_fixes_all_numbers_and_a_part_is_named() {
        let full = Scale { warehouses: 2, part: 1 };
        assert_eq!((full.items(), full.customers(), full.last_names()), (100_000, 3000, 1000));
        assert_eq!(full.first_new_order(), 2101, "the last 900 orders are new");
        assert_eq!(full.all_districts().count(), 20);
        assert_eq!(full.show(), "2 warehouses");
        let part = Scale { warehouses: 1, part: 100 };
        assert_eq!((part.items(), part.customers(), part.last_names()), (1000, 30, 30));
        assert_eq!(part.first_new_order(), 22);
        assert_eq!(
            part.show(),
            "1 warehouse at 1/100 of the full scale: 1000 items, 30 customers and orders a district"
        );
    }
}
