//! The bytes of one page. Pure: no I/O, no latches, no clock. All functions work on `&[u8]` and
//! `&mut [u8]`.
//!
//! Two rules make this module safe. First, [`verify::quick`] checks bytes from a file once, before
//! any other code reads them. After that no accessor and no [`op::PageOp`] panics, whatever the
//! bytes are. Second, a page changes only through [`op::PageOp::apply`]. Normal operation and redo
//! both call it, so both give the same bytes.

pub(crate) mod apply;
pub(crate) mod edit;
pub(crate) mod header;
pub(crate) mod map;
pub(crate) mod node;
pub(crate) mod op;
mod op_fields;
pub(crate) mod overflow;
pub(crate) mod owners;
mod row_op;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

/// Says what is wrong with a page, or with a change of a page, that this engine never wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Returns an error with the given text unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $what:literal) => {
        if !$cond {
            return Err($crate::page::Damage($what));
        }
    };
}
pub(crate) use ensure;

/// The page sizes that a database can be created with.
pub(crate) const PAGE_SIZES: [usize; 3] = [4096, 8192, 16384];

/// Returns the length of the longest key in bytes (Pa4). A leaf must always have room for two
/// fences and one longest row, an inner page for two fences and three children; see the assertions
/// in [`node`].
#[must_use]
pub(crate) const fn max_key(page_bytes: usize) -> usize {
    match page_bytes {
        ..8192 => 896,
        8192..16384 => 1920,
        _ => 3500,
    }
}

/// Returns the length of the longest value in bytes that a leaf stores itself. A longer value goes
/// to an overflow chain. The limit is a fifth of a page, so four such rows with keys of up to 1/64
/// of a page fit one leaf.
#[must_use]
pub(crate) const fn inline_limit(page_bytes: usize) -> usize {
    page_bytes / 5
}
