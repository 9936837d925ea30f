//! Whether a whole database is right, and has recovered.

use crate::figures::{being_reverted, recovery_left_bytes, recovery_ms};
use output::failure::Outcome;
use output::stop;
use std::time::Duration;

/// Checks the whole database. Returns "ok", or what is wrong.
pub(crate) fn check_database(db: &millpond::Db) -> Outcome<String> {
    let report = db.check()?;
    Ok(if report.is_clean() { "ok".into() } else { report.to_string() })
}

/// Waits until all losers are reverted. Returns the milliseconds from the opening until all redo
/// was applied.
pub(crate) fn wait_recovered(db: &millpond::Db) -> Outcome<u64> {
    wait_recovered_with(db, || ())
}

/// The same. Calls `meanwhile` again and again.
pub(crate) fn wait_recovered_with(db: &millpond::Db, mut meanwhile: impl FnMut()) -> Outcome<u64> {
    loop {
        let snapshot = db.metrics();
        if being_reverted(&snapshot) == 0 && recovery_left_bytes(&snapshot) == 0 {
            return Ok(recovery_ms(&snapshot));
        }
        stop::check()?;
        meanwhile();
        std::thread::sleep(Duration::from_millis(1));
    }
}
