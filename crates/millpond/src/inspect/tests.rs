//! Views of small databases.
