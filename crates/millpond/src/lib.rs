//! millpond
