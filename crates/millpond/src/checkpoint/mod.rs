//! Where recovery starts, and what moves that place.

pub(crate) mod fuzzy;
pub(crate) mod root;
