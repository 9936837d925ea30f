//! The options of a program whose only work is its database.

use millpond::Options;

/// Options for a database to which the process belongs.
pub(crate) fn options() -> Options {
    Options::new().own_process(true)
}
