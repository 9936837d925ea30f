//! What a bulk load asks of the engine: admission of its redo, and writes of its pages.

use super::core::Engine;
use crate::btree::{BulkSink, PageBatch};
use crate::error::Result;
use crate::role;

impl BulkSink for Engine {
    fn admit(&self, redo_bytes: usize) -> Result {
        self.admission.admit(redo_bytes as u64).map(drop)
    }

    fn batch_pages(&self) -> usize {
        self.parts.flusher.batch_pages()
    }

    fn write(&self, mut batch: PageBatch) -> Result<PageBatch> {
        let _asked = role::page_writes();
        let (pages, images) = batch.parts();
        self.parts.flusher.write_new(pages, images)?;
        batch.pages.clear();
        Ok(batch)
    }

    fn wait_for_writes(&self) -> Result {
        // `write` returns when its pages are written.
        Ok(())
    }
}
