//! [`Purpose`]: what a directory of a database is for.

/// The purpose of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    /// The database's own directory.
    Database = 1,
    Redo = 2,
    Doublewrite = 3,
    Undo = 4,
}

impl Purpose {
    pub(super) fn description(self) -> &'static str {
        match self {
            Purpose::Database => "directory",
            Purpose::Redo => "redo directory",
            Purpose::Doublewrite => "doublewrite directory",
            Purpose::Undo => "undo directory",
        }
    }

    pub(super) fn from_u8(v: u8) -> Option<Purpose> {
        [Purpose::Database, Purpose::Redo, Purpose::Doublewrite, Purpose::Undo]
            .into_iter()
            .find(|p| *p as u8 == v)
    }
}
