//! [`PageFile`]: the `pages` file.

use super::failed_write::with_pages;
use super::read_images::read_images;
use crate::error::{Error, Result};
use crate::role;
use base::PageNo;
use base::aligned::AlignedBuf;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Clock, Create, File, OpenMode, ReadOp, Vfs, WriteOp};

/// Bytes of one write when the file grows.
const GROW_WRITE_BYTES: usize = 1 << 20;
/// The most bytes of one read of [`PageFile::read_runs`]. Several reads are in flight.
const READ_BYTES: usize = 128 << 10;

/// The `pages` file of a database.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: Arc<dyn File>,
    path: PathBuf,
    page_bytes: usize,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// Opens the file, or says what has failed.
fn open(vfs: &Vfs, path: &Path, create: Create, read_only: bool) -> Result<Arc<dyn File>> {
    let what = if create == Create::Never { "open" } else { "create" };
    let mode = OpenMode { create, direct: true, read_only };
    vfs.disk.open(path, mode).map_err(|e| Error::io(what, path, e))
}

impl PageFile {
    /// Makes the file, or empties one that an interrupted creation has left, and syncs it. The
    /// caller syncs the directory.
    pub(crate) fn create(vfs: &Vfs, path: &Path, metrics: &Metrics) -> Result {
        let file = open(vfs, path, Create::IfMissing, false)?;
        let start = vfs.clock.now_us();
        file.set_len(0).and_then(|()| file.sync()).map_err(|e| Error::io("create", path, e))?;
        metrics.fsync(FileKind::Pages, SyncReason::Create, vfs.clock.now_us() - start, role::callers());
        Ok(())
    }

    /// Opens the file of a database with pages of so many bytes.
    pub(crate) fn open(
        vfs: &Vfs,
        path: &Path,
        page_bytes: usize,
        metrics: &Arc<Metrics>,
    ) -> Result<PageFile> {
        let file = open(vfs, path, Create::Never, false)?;
        Ok(Self::over(file, path, page_bytes, vfs, metrics))
    }

    /// As [`PageFile::open`], and it is not written.
    pub(crate) fn open_read_only(vfs: &Vfs, path: &Path, page_bytes: usize) -> Result<PageFile> {
        let file = open(vfs, path, Create::Never, true)?;
        Ok(Self::over(file, path, page_bytes, vfs, &Arc::new(Metrics::new())))
    }

    fn over(
        file: Arc<dyn File>,
        path: &Path,
        page_bytes: usize,
        vfs: &Vfs,
        metrics: &Arc<Metrics>,
    ) -> PageFile {
        let (clock, metrics) = (Arc::clone(&vfs.clock), Arc::clone(metrics));
        PageFile { file, path: path.to_owned(), page_bytes, clock, metrics }
    }

    /// The pages of a file of a test.
    #[cfg(test)]
    pub(crate) fn of_test(
        file: Arc<dyn File>,
        path: &Path,
        page_bytes: usize,
        metrics: &Arc<Metrics>,
    ) -> Arc<PageFile> {
        Arc::new(Self::over(file, path, page_bytes, &Vfs::os(), metrics))
    }

    /// Whether there is such a file, and something in it.
    pub(crate) fn has_content(vfs: &Vfs, path: &Path) -> Result<bool> {
        match open(vfs, path, Create::Never, true) {
            Ok(file) => Ok(file.len().map_err(|e| Error::io("measure", path, e))? > 0),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the path, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Whether reads and writes bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Returns how many whole pages the file has; `u32::MAX` for more.
    pub(crate) fn count(&self) -> Result<u32> {
        let len = self.file.len().map_err(|e| Error::io("measure", &self.path, e))?;
        Ok(u32::try_from(len / self.page_bytes as u64).unwrap_or(u32::MAX))
    }

    /// Returns where the page begins in the file, to be shown.
    pub(crate) fn offset(&self, page: PageNo) -> u64 {
        u64::from(page.0) * self.page_bytes as u64
    }
}

/// Reading. What is read are images.
impl PageFile {
    /// Reads a page and those after it, as many as there is room for, in one read. Fails with
    /// `UnexpectedEof` if the file ends before.
    pub(crate) fn read(&self, first: PageNo, images: &mut [u8]) -> io::Result<()> {
        self.file.read_at(images, self.offset(first))
    }

    /// Reads pages, each into its own memory, with many reads in flight. After an error some have
    /// been read.
    pub(crate) fn read_many<'a>(
        &self,
        pages: impl Iterator<Item = (PageNo, &'a mut [u8])>,
    ) -> io::Result<()> {
        let op = |(page, bytes)| ReadOp { offset: self.offset(page), bytes };
        self.file.read_batch(&mut pages.map(op).collect::<Vec<_>>())
    }

    /// Reads pages, which are in ascending order, one after the other into `images`: neighbours in
    /// one read, with several reads in flight. Also returns the number of reads.
    pub(crate) fn read_runs(
        &self,
        pages: impl Iterator<Item = PageNo>,
        images: &mut [u8],
    ) -> (u64, io::Result<()>) {
        let most = (READ_BYTES / self.page_bytes).max(1) as u32;
        let (mut pages, mut rest, mut reads) = (pages.peekable(), images, Vec::new());
        while let Some(first) = pages.next() {
            let mut len = 1;
            while len < most && pages.next_if(|page| page.0 - first.0 == len).is_some() {
                len += 1;
            }
            let (bytes, others) = rest.split_at_mut(len as usize * self.page_bytes);
            rest = others;
            reads.push(ReadOp { offset: self.offset(first), bytes });
        }
        (reads.len() as u64, self.file.read_batch(&mut reads))
    }

    /// Reads pages and calls `each` with the index of each, in order.
    pub(crate) fn read_each<E>(
        &self,
        pages: &[PageNo],
        each: impl FnMut(usize, io::Result<&mut [u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let offsets: Vec<u64> = pages.iter().map(|page| self.offset(*page)).collect();
        read_images(&*self.file, &offsets, self.page_bytes, each)
    }
}

/// Writing, growth and syncs.
impl PageFile {
    /// Writes images in place, neighbours together. Returns the number of I/Os.
    pub(crate) fn write_runs(&self, pages: &[PageNo], images: &[u8]) -> Result<u64> {
        let page_bytes = self.page_bytes;
        let mut writes: Vec<WriteOp<'_>> = Vec::new();
        for (n, page) in pages.iter().enumerate() {
            let offset = self.offset(*page);
            match writes.last_mut() {
                Some(last) if last.offset + last.bytes.len() as u64 == offset => {
                    let from = n * page_bytes - last.bytes.len();
                    last.bytes = &images[from..(n + 1) * page_bytes];
                }
                _ => writes.push(WriteOp { offset, bytes: &images[n * page_bytes..][..page_bytes] }),
            }
        }
        let failed = |error| Error::io("write", &self.path, with_pages(error, &writes, page_bytes));
        self.file.write_batch(&writes).map_err(failed)?;
        Ok(writes.len() as u64)
    }

    /// Writes an image in the place of a torn one.
    pub(crate) fn restore(&self, page: PageNo, image: &[u8]) -> Result {
        self.file.write_at(image, self.offset(page)).map_err(|e| Error::io("restore", &self.path, e))
    }

    /// Makes all pages of `from..to` blank. REQUIRES: the file ends at `from`.
    pub(crate) fn grow(&self, from: u32, to: u32) -> Result {
        let (mut at, end) = (self.offset(PageNo(from)), self.offset(PageNo(to)));
        let zeros = AlignedBuf::zeroed((end - at).clamp(1, GROW_WRITE_BYTES as u64) as usize);
        while at < end {
            let n = (end - at).min(zeros.len() as u64);
            let written = self.file.write_at(&zeros[..n as usize], at);
            written.map_err(|e| Error::io("grow", &self.path, e))?;
            at += n;
        }
        Ok(())
    }

    /// Gives all pages after the first `count` back to the file system.
    pub(crate) fn shorten(&self, count: u32) -> Result {
        self.file.set_len(self.offset(PageNo(count))).map_err(|e| Error::io("shorten", &self.path, e))
    }

    /// Makes all writes and the length durable. `waiting` says how many callers have waited.
    pub(crate) fn sync(&self, reason: SyncReason, waiting: impl FnOnce() -> u64) -> Result {
        let start = self.clock.now_us();
        self.file.sync().map_err(|e| Error::io("sync", &self.path, e))?;
        self.metrics.fsync(FileKind::Pages, reason, self.clock.now_us() - start, waiting());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Disk;
    use vfs::mem::MemDisk;

    const PAGE: usize = 4096;

    /// The images of pages, each filled with bytes of its number.
    fn images(pages: &[PageNo]) -> AlignedBuf {
        let mut images = AlignedBuf::zeroed(pages.len() * PAGE);
        images.chunks_exact_mut(PAGE).zip(pages).for_each(|(image, page)| image.fill(page.0 as u8));
        images
    }

    #[test]
    fn neighbours_are_written_and_read_together() {
        let (disk, path, metrics) = (MemDisk::default(), Path::new("/db/pages"), Arc::new(Metrics::new()));
        disk.create_dir(Path::new("/db")).unwrap();
        let vfs = disk.vfs(1);
        assert!(!PageFile::has_content(&vfs, path).unwrap());
        PageFile::create(&vfs, path, &metrics).unwrap();
        assert!(!PageFile::has_content(&vfs, path).unwrap());
        let file = PageFile::open(&vfs, path, PAGE, &metrics).unwrap();
        file.grow(0, 128).unwrap();
        file.grow(128, 200).unwrap();
        assert_eq!(file.count().unwrap(), 200);

        let pages: Vec<PageNo> = [3, 4, 9].into_iter().chain(40..80).map(PageNo).collect();
        let written = images(&pages);
        assert_eq!(file.write_runs(&pages, &written).unwrap(), 3);
        let mut read = AlignedBuf::zeroed(written.len());
        // The longest read has 32 pages.
        let (reads, done) = file.read_runs(pages.iter().copied(), &mut read);
        assert!(done.is_ok() && reads == 4 && *read == *written);

        read.fill(1);
        file.read_many(pages.iter().copied().zip(read.chunks_exact_mut(PAGE))).unwrap();
        assert!(*read == *written);
        let mut seen = 0;
        let each = |n: usize, image: io::Result<&mut [u8]>| -> Result<(), ()> {
            assert!(*image.unwrap() == written[n * PAGE..][..PAGE]);
            seen += 1;
            Ok(())
        };
        file.read_each(&pages, each).unwrap();
        assert_eq!(seen, pages.len());
        file.read(PageNo(40), &mut read[..40 * PAGE]).unwrap();
        assert!(read[..40 * PAGE] == written[3 * PAGE..]);

        file.shorten(64).unwrap();
        assert_eq!(file.count().unwrap(), 64);
        let beyond = file.read(PageNo(64), &mut read[..PAGE]).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    }
}
