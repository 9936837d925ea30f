//! What the purge queue needs of undo.

#[derive(Debug)]
pub(crate) struct Stream;

impl Stream {
    pub(crate) fn needs_purge(&self) -> bool {
        false
    }

    pub(crate) fn prefetch(&self) {}
}
