//! Room in the log for redo that takes back or clears away. Who rolls back or purges asks for it before each row or few pages,
//! holding neither a latch nor a tree: who drops the tree waits for whoever holds it.

use crate::error::Result;

/// How whoever takes back or clears away waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For as long as it takes: the background, for which nobody waits.
    Endless,
    /// As a caller's row operation does: not where the checkpoint cannot move, because nobody knows how long a disk stays full.
    Call,
    /// Not at all: what finds no room is left to the background. It may use what is kept for those who finish.
    None,
}

/// Where redo that takes back or clears away asks for its room.
pub(crate) trait Room: Send + Sync + std::fmt::Debug {
    /// Waits until so many bytes of such redo, about, may be logged. False, of [`Patience::None`] only: not now. REQUIRES: no
    /// latch and no tree held.
    fn for_undoing(&self, redo_bytes: u64, patience: Patience) -> Result<bool>;
}
