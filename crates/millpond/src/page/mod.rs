//! The bytes of one page. Pure: no I/O, no latches, no clock; everything works on `&[u8]` and `&mut [u8]`.
//!
//! Two rules make this module safe to stand on. Bytes from a file are looked at once by [`verify::quick`] before anyone
//! else reads them; after that no accessor and no [`op::PageOp`] panics, whatever the bytes say. And a page changes only
//! through [`op::PageOp::apply`], in normal operation and in redo alike, so both give the same bytes.

pub(crate) mod apply;
pub(crate) mod edit;
pub(crate) mod header;
pub(crate) mod map;
pub(crate) mod node;
pub(crate) mod op;
pub(crate) mod overflow;
pub(crate) mod owners;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

/// A page, or a change of a page, that this engine never wrote: what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Fails with the given text unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $what:literal) => {
        if !$cond {
            return Err($crate::page::Damage($what));
        }
    };
}
pub(crate) use ensure;

/// The page sizes that a database may be created with.
pub(crate) const PAGE_SIZES: [usize; 3] = [4096, 8192, 16384];

/// The longest key in bytes (Pa4). A leaf must always hold two fences and one longest row, an inner page two fences and
/// three children; see the assertions in [`node`].
#[must_use]
pub(crate) const fn max_key(page_bytes: usize) -> usize {
    match page_bytes {
        ..8192 => 896,
        8192..16384 => 1920,
        _ => 3500,
    }
}

/// The longest value in bytes that a leaf holds itself; a longer one goes to an overflow chain. A fifth of a page, so
/// that four such rows with keys of up to 1/64 of a page share a leaf.
#[must_use]
pub(crate) const fn inline_limit(page_bytes: usize) -> usize {
    page_bytes / 5
}
