//! The sizes and settings of the databases that workloads run on.

/// The sizes of a database. Everything is tiny, so a short script reaches every mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Blocks of a log segment.
    pub segment_blocks: u64,
    /// Segments of log that the redo capacity allows.
    pub segments: u64,
    /// Pages in an area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Pages by which the file `pages` grows at once.
    pub grow_pages: u32,
    /// Memory for undo, transaction status and locks, bytes; 0 is the default size.
    pub history_memory: u64,
    /// Bytes that undo files may take before the oldest snapshot expires; 0 is the default size.
    pub history_files: u64,
    /// The disk can be full, or have pages that cannot be read.
    pub faults: bool,
    /// Copies of pages.
    pub doublewrite: Copies,
}

/// Whether there are copies of pages while they are written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// There are.
    On,
    /// There are none, or only at times. A page may be lost; then it must be named.
    Missing,
    /// There are none, and the disk writes a whole page or nothing.
    NotNeeded,
}

impl Shape {
    /// Returns an empty disk for a database of this shape.
    #[must_use]
    pub fn disk(&self) -> vfs::mem::MemDisk {
        match self.doublewrite {
            Copies::NotNeeded => vfs::mem::MemDisk::with_sectors(self.page_bytes),
            Copies::On | Copies::Missing => vfs::mem::MemDisk::default(),
        }
    }

    /// Returns whether a recovery may fail with this error: it names a page that was torn without a
    /// copy.
    #[must_use]
    pub fn may_fail(&self, what: &str) -> bool {
        self.doublewrite == Copies::Missing
            && what.contains("may have been torn while the doublewrite was off")
    }
}

/// The shape of most workloads.
pub const SMALL: Shape = Shape {
    page_bytes: 4096,
    frames: 64,
    segment_blocks: 16,
    segments: 8,
    doublewrite_pages: 8,
    grow_pages: 32,
    history_memory: 0,
    history_files: 0,
    faults: false,
    doublewrite: Copies::On,
};
