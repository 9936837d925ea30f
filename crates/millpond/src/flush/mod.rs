//! Flushing of dirty pages, with the doublewrite. Nothing else writes pages in place.

pub(crate) mod batch;
pub(crate) mod doublewrite;
pub(crate) mod restore;
