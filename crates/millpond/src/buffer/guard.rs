//! Guards of pages: a pin (the page keeps its frame), and a pin with its latch (the page may be
//! read, or changed). When a guard is dropped, it releases the latch first and then the pin.

use std::ops::{Deref, DerefMut};

use base::PageNo;

use super::frame::{Exclusive, INCOMPLETE, Shared};
use super::pool::{Pool, Stamp};

/// Keeps a resident page in its frame.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pin<'p> {
    pool: &'p Pool,
    frame: u32,
    page: PageNo,
}

/// A page that may be read, under a shared latch.
#[derive(Debug)]
#[must_use]
pub(crate) struct PageRead<'p> {
    latched: Shared<'p>,
    pin: Pin<'p>,
}

/// A page that may be read and changed, under an exclusive latch.
#[derive(Debug)]
#[must_use]
pub(crate) struct PageWrite<'p> {
    latched: Exclusive<'p>,
    pin: Pin<'p>,
}

impl<'p> Pin<'p> {
    /// Takes over a pin that the frame with `page` already counts.
    #[inline]
    pub(super) fn adopt(pool: &'p Pool, frame: u32, page: PageNo) -> Pin<'p> {
        Pin { pool, frame, page }
    }

    /// Checks that the pinned page has kept its frame.
    #[inline]
    fn verify(&self) {
        base::verify!(
            self.pool.frames().get(self.frame).page_no() == self.page,
            "{:?} is pinned and its frame has another page",
            self.page
        );
    }

    #[inline]
    pub(super) fn frame(&self) -> u32 {
        self.frame
    }

    /// Latches the page for reading; waits for a writer.
    #[inline]
    pub(crate) fn read(self) -> PageRead<'p> {
        self.verify();
        PageRead { latched: self.pool.frames().share(self.frame), pin: self }
    }

    /// Latches the page for writing; waits for readers and a writer.
    #[inline]
    pub(crate) fn write(self) -> PageWrite<'p> {
        self.verify();
        PageWrite { latched: self.pool.frames().exclude(self.frame), pin: self }
    }

    /// Latches the page for reading if that is possible without waiting.
    #[cfg(test)]
    pub(crate) fn try_read(self) -> Result<PageRead<'p>, Pin<'p>> {
        match self.pool.frames().try_share(self.frame) {
            Some(latched) => Ok(PageRead { latched, pin: self }),
            None => Err(self),
        }
    }

    /// Latches the page for writing if that is possible without waiting.
    #[cfg(test)]
    pub(crate) fn try_write(self) -> Result<PageWrite<'p>, Pin<'p>> {
        match self.pool.frames().try_exclude(self.frame) {
            Some(latched) => Ok(PageWrite { latched, pin: self }),
            None => Err(self),
        }
    }
}

impl Pin<'_> {
    /// Returns the page's number.
    #[inline]
    pub(super) fn page(&self) -> PageNo {
        self.page
    }

    /// Whether the page lacks redo of the last run. It stays true only under the latch.
    pub(super) fn is_incomplete(&self) -> bool {
        self.pool.frames().get(self.frame).state() & INCOMPLETE != 0
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pool.frames().get(self.frame).unpin();
    }
}

impl<'p> PageRead<'p> {
    /// Returns the page's number.
    #[inline]
    pub(crate) fn page_no(&self) -> PageNo {
        self.pin.page
    }

    /// Returns the page's stamp. It stays the same as long as the page does not change.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.pin.pool.stamp_of(self.pin.frame).expect("no thread changes a page that is being read")
    }

    /// Releases the latch and keeps the pin.
    #[inline]
    pub(crate) fn unlatch(self) -> Pin<'p> {
        self.pin
    }
}

impl<'p> PageWrite<'p> {
    /// Whether the page lacks redo of the last run.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.pin.is_incomplete()
    }

    /// Notes that the page lacks no redo any more. REQUIRES: it is dirty if redo has changed it.
    pub(crate) fn completed(&self) {
        self.pin.pool.completed(self.pin.frame, self.pin.page);
    }

    #[inline]
    pub(super) fn join(latched: Exclusive<'p>, pin: Pin<'p>) -> PageWrite<'p> {
        PageWrite { latched, pin }
    }

    #[inline]
    pub(super) fn pin(&self) -> &Pin<'p> {
        &self.pin
    }

    /// Returns the page's number.
    #[inline]
    pub(crate) fn page_no(&self) -> PageNo {
        self.pin.page
    }

    /// Releases the latch and keeps the pin.
    pub(crate) fn unlatch(self) -> Pin<'p> {
        self.pin
    }
}

impl Deref for PageRead<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latched
    }
}

impl Deref for PageWrite<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latched
    }
}

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.latched
    }
}
