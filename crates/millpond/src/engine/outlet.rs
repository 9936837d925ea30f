//! What a bulk build asks of the engine: a place in the redo, and pages written.

use super::Engine;
use crate::btree::Outlet;
use crate::error::Result;
use base::PageNo;

impl Outlet for Engine {
    fn admit(&self, redo_bytes: usize) -> Result {
        self.shared.admission.admit(redo_bytes as u64).map(drop)
    }

    fn batch_pages(&self) -> usize {
        self.shared.flusher.lock().batch_pages()
    }

    fn write(&self, pages: &[PageNo], images: &mut [u8]) -> Result {
        self.shared.flusher.lock().write_new(pages, images)
    }
}
