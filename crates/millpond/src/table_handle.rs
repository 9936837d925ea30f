//! [`Table`]: a caller's handle on a table.

use crate::catalog::CatalogEntry;
use std::sync::Arc;

/// A table of an open database: a map of byte keys to byte values, ordered by key.
///
/// Keys are ordered as bytes are; numbers written big-endian keep their order. A handle is cheap to
/// clone and usable from any thread, but only with transactions of the [`Db`](crate::Db) that it
/// came from. If the table is renamed, the handle still means the same table. If it is dropped,
/// every use returns [`Error::NoSuchTable`](crate::Error::NoSuchTable).
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) entry: Arc<CatalogEntry>,
    /// The open database that it belongs to.
    pub(crate) db: u64,
}

impl Table {
    /// Returns the table's present name.
    #[must_use]
    pub fn name(&self) -> String {
        self.entry.name()
    }
}
