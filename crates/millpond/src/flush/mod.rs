//! Flushing of dirty pages, with the doublewrite. Nothing else writes pages in place.

mod areas;
pub(crate) mod batch;
pub(crate) mod doublewrite;
pub(crate) mod restore;
pub(crate) mod runs;
