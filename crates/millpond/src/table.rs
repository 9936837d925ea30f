//! [`Table`]: a caller's handle on a table.

use crate::catalog::CatalogEntry;
use std::sync::Arc;

/// A table of an open database: a map of byte keys to byte values, ordered by key.
///
/// Keys are ordered as bytes are; numbers that are written big-endian are in their own order. Cheap to clone, usable from any thread, and only with transactions of the [`Db`](crate::Db) that it came from. It
/// goes on naming the same table when that is renamed; once it is dropped every use is
/// [`Error::NoSuchTable`](crate::Error::NoSuchTable).
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) entry: Arc<CatalogEntry>,
    /// Which open database it belongs to.
    pub(crate) db: u64,
}

impl Table {
    /// The table's present name.
    #[must_use]
    pub fn name(&self) -> String {
        self.entry.name()
    }
}
