//! Opens a database that is there.

use output::existing::existing_database;
use output::failure::Outcome;
use output::units::show_size;
use std::path::Path;

/// Opens an existing database.
pub(super) fn open_existing(dir: &Path, options: millpond::Options) -> Outcome<millpond::Db> {
    existing_database(dir)?;
    Ok(options.open(dir)?)
}

/// Says which size the buffer pool has. Where nobody gave one, it follows from the memory that this
/// process may use.
pub(super) fn pool_sentence(db: &millpond::Db) -> String {
    let bytes = db.metrics().get("buffer_pool_bytes").unwrap_or(0.0);
    format!("buffer pool: {}, by the memory that this process may use", show_size(bytes))
}
