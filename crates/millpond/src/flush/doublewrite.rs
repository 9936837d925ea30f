//! The doublewrite: safe copies of pages whose in-place writes may be torn.
//!
//! ```text
//!  0            4096                 4096 + slots * page bytes
//!  +------------+--------------------+--------------------+
//!  | header     | area 0: page slots | area 1: page slots |
//!  +------------+--------------------+--------------------+
//!  header: magic 8 | format u16 | 0 u16 | page bytes u32 | db id u64 | slots of an area u32
//!          | areas u32 | crc32c u32
//! ```
//! A batch fills one area from its start and syncs it. Only then is any of its pages
//! written in place. The area is used again only after the in-place writes are synced (To2). A slot
//! holds a page image as it is written in place, with its own checksum and page number.

use super::restore::{LogBounds, PageInPlace, PageRedo, Verdict, judge};
use crate::error::{Error, Result};
use crate::page::header;
use crate::page_file::{PageFile, check_any_image, check_image, read_images};
use crate::planted::{Bug, planted};
use crate::role;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::{Lsn, PageNo, crc};
use metrics::{FileKind, Force, M, Metrics, SyncReason};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, File, OpenMode, Vfs};

const MAGIC: &[u8; 8] = b"MPONDDBW";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 4096;
/// A batch is written in pieces of so many bytes, one after the other: a commit's write of the log
/// queues behind no more than one (decision 0173).
const PIECE_BYTES: usize = 512 << 10;
/// Areas of the file: so many batches are under way at once. The number is part of the format.
pub(super) const AREAS: usize = 2;
const _: () = assert!(AREAS == pace::constants::PAGE_WRITERS, "each page writer has a batch under way");

/// The newest valid copy of each page: its LSN, and its place.
pub(crate) type PageCopies = BTreeMap<PageNo, (Lsn, CopyAt)>;

/// Where a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CopyAt {
    /// Which of the files.
    file: usize,
    /// The offset in it.
    pub(crate) offset: u64,
}

/// What follows from the copies when a database is opened.
#[derive(Debug, Default)]
pub(crate) struct RestorePlan {
    /// Damaged pages, and the copy that replaces each.
    restore: Vec<(PageNo, CopyAt)>,
    /// Whole pages that are older than an image that was once written and synced, and the LSN of
    /// that image.
    pub(crate) stale: BTreeMap<PageNo, Lsn>,
}

/// One file with areas.
#[derive(Debug)]
struct AreasFile {
    path: PathBuf,
    file: Arc<dyn File>,
    slots: usize,
}

/// The doublewrite of an open database.
#[derive(Debug)]
pub(crate) struct Doublewrite {
    vfs: Vfs,
    /// The first is the one that is written. The other is there while recovery reads it: a crash
    /// has come between (INV-32).
    files: Vec<AreasFile>,
    page_bytes: usize,
    metrics: Arc<Metrics>,
}

impl Doublewrite {
    /// Creates the file. The caller syncs the directory.
    pub(crate) fn create(
        vfs: &Vfs,
        path: &Path,
        db_id: u64,
        page_bytes: usize,
        slots: usize,
        metrics: &Arc<Metrics>,
    ) -> Result<()> {
        let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
        let file = vfs.disk.open(path, mode).map_err(|e| Error::io("create", path, e))?;
        let mut head = AlignedBuf::zeroed(HEADER_BYTES);
        head[..8].copy_from_slice(MAGIC);
        set_u16(&mut head, 8, FORMAT);
        set_u32(&mut head, 12, page_bytes as u32);
        set_u64(&mut head, 16, db_id);
        set_u32(&mut head, 24, slots as u32);
        set_u32(&mut head, 28, AREAS as u32);
        let crc = crc::crc32c(&head[..32]);
        set_u32(&mut head, 32, crc);
        let zeros = AlignedBuf::zeroed(slots * page_bytes);
        let io = |e| Error::io("write", path, e);
        for area in 0..AREAS {
            let at = HEADER_BYTES + area * zeros.len();
            file.write_at(&zeros, at as u64).map_err(io)?;
        }
        file.write_at(&head, 0).map_err(io)?;
        let start = vfs.clock.now_us();
        file.sync().map_err(|e| Error::io("sync", path, e))?;
        metrics.fsync(FileKind::Doublewrite, SyncReason::Create, vfs.clock.now_us() - start, role::callers());
        Ok(())
    }

    /// Opens the files of database `db_id`. The first is the one that is written; another one is
    /// left by a move and may be gone. An error if a file is damaged, or of another database or
    /// format.
    pub(crate) fn open(
        vfs: &Vfs,
        paths: &[PathBuf],
        db_id: u64,
        page_bytes: usize,
        metrics: &Arc<Metrics>,
    ) -> Result<Doublewrite> {
        let mut files = Vec::new();
        for path in paths {
            match Self::open_file(vfs, path, db_id, page_bytes) {
                Ok(file) => files.push(file),
                // Nothing in it is needed since it was removed.
                Err(Error::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && !files.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Doublewrite { vfs: vfs.clone(), files, page_bytes, metrics: Arc::clone(metrics) })
    }

    fn open_file(vfs: &Vfs, path: &Path, db_id: u64, page_bytes: usize) -> Result<AreasFile> {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        let file = vfs.disk.open(path, mode).map_err(|e| Error::io("open", path, e))?;
        let mut head = AlignedBuf::zeroed(HEADER_BYTES);
        file.read_at(&mut head, 0).map_err(|e| Error::io("read", path, e))?;
        if &head[..8] != MAGIC || get_u32(&head, 32) != crc::crc32c(&head[..32]) {
            return Err(Error::corrupt(path, "its header is not that of a doublewrite"));
        }
        let foreign = |what: String| Err(Error::Foreign { file: path.to_owned(), what });
        if get_u16(&head, 8) != FORMAT {
            return Err(Error::other_format(path, get_u16(&head, 8).into(), FORMAT.into()));
        }
        if get_u64(&head, 16) != db_id {
            return foreign("belongs to another database".into());
        }
        let slots = get_u32(&head, 24) as usize;
        let fits = get_u32(&head, 12) as usize == page_bytes
            && get_u32(&head, 28) as usize == AREAS
            && (1..=1 << 16).contains(&slots);
        if !fits {
            return Err(Error::corrupt(path, "its header does not fit the database"));
        }
        Ok(AreasFile { path: path.to_owned(), file, slots })
    }

    /// Returns how many pages one batch may hold.
    pub(crate) fn slots(&self) -> usize {
        self.files[0].slots
    }

    /// Closes the file of before. REQUIRES: no copy in it is needed any more.
    pub(crate) fn forget_before(&mut self) {
        self.files.truncate(1);
    }

    /// Makes page images durable in an area, while `waiting` callers wait. REQUIRES: the
    /// in-place writes of the batch that used the area before are synced.
    pub(super) fn protect(&self, area: usize, images: &[u8], waiting: u64) -> Result {
        let AreasFile { path, file, slots } = &self.files[0];
        assert!(images.len() <= slots * self.page_bytes && images.len().is_multiple_of(self.page_bytes));
        let at = HEADER_BYTES + area * slots * self.page_bytes;
        for (n, piece) in images.chunks(PIECE_BYTES).enumerate() {
            let at = (at + n * PIECE_BYTES) as u64;
            file.write_at(piece, at).map_err(|e| Error::io("write", path, e))?;
        }
        let start = self.vfs.clock.now_us();
        if !planted(Bug::NoDoublewriteSync) {
            file.sync().map_err(|e| Error::io("sync", path, e))?;
        }
        let took = self.vfs.clock.now_us() - start;
        self.metrics.fsync(FileKind::Doublewrite, SyncReason::Doublewrite, took, waiting);
        self.metrics.add(M::DoublewritePages, (images.len() / self.page_bytes) as u64);
        self.metrics.add(M::DoublewriteBatches, 1);
        Ok(())
    }

    /// Returns the newest valid copy of each page. A slot that cannot be read holds none.
    pub(crate) fn copies(&self) -> PageCopies {
        let mut newest = PageCopies::new();
        for (at, AreasFile { file, slots, .. }) in self.files.iter().enumerate() {
            let slots: Vec<u64> =
                (0..AREAS * slots).map(|slot| (HEADER_BYTES + slot * self.page_bytes) as u64).collect();
            let Ok(()) = read_images::<Infallible>(&**file, &slots, self.page_bytes, |n, image| {
                // A slot that cannot be read is most likely not needed. If it is, recovery finds a
                // damaged page without a copy.
                let Ok(image) = image else { return Ok(()) };
                if let Ok((page, lsn)) = check_any_image(image) {
                    let copy = (lsn, CopyAt { file: at, offset: slots[n] });
                    let kept = newest.entry(page).or_insert(copy);
                    *kept = copy.max(*kept);
                }
                Ok(())
            });
        }
        newest
    }

    /// Reads the image of a copy.
    pub(crate) fn read(&self, at: CopyAt, image: &mut [u8]) -> Result {
        let AreasFile { path, file, .. } = &self.files[at.file];
        file.read_at(image, at.offset).map_err(|e| Error::io("read", path, e))
    }

    /// Judges the copies, and changes nothing. `redo` tells what the log holds about a page. An
    /// error if a copy proves that the log or the file has lost its end.
    pub(crate) fn plan(
        &self,
        copies: &PageCopies,
        mut redo: impl FnMut(PageNo) -> Result<PageRedo>,
        bounds: LogBounds,
        pages: &PageFile,
        redo_dir: &Path,
    ) -> Result<RestorePlan> {
        let mut plan = RestorePlan::default();
        let copies: Vec<_> = copies.iter().map(|(page, copy)| (*page, *copy)).collect();
        let places: Vec<PageNo> = copies.iter().map(|(page, _)| *page).collect();
        pages.read_each(&places, |n, image| {
            let (page, (lsn, at)) = copies[n];
            let place = match image {
                Ok(image) => match check_image(image, page) {
                    Ok(()) => PageInPlace::Whole(header::lsn(image)),
                    Err(_) => PageInPlace::Damaged,
                },
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => PageInPlace::Beyond,
                // A page that cannot be read is like any other damaged page: writing may mend it.
                Err(_) => PageInPlace::Damaged,
            };
            let is_damaged = place == PageInPlace::Damaged;
            let redo = if is_damaged { redo(page)? } else { PageRedo::default() };
            match judge(lsn, place, redo, bounds) {
                Verdict::Leave => {}
                Verdict::Restore => plan.restore.push((page, at)),
                Verdict::Stale => drop(plan.stale.insert(page, lsn)),
                Verdict::FileCut => {
                    let what = format!("it ends before {page:?}, of which the doublewrite has a copy");
                    return Err(Error::corrupt(pages.path(), what));
                }
                Verdict::LogCut => {
                    let end = bounds.end;
                    let what = format!("the log ends at LSN {end}, and a copy of {page:?} names LSN {lsn}");
                    return Err(Error::corrupt(redo_dir, what));
                }
            }
            Ok(())
        })?;
        if planted(Bug::NoRestore) {
            plan.restore.clear();
        }
        Ok(plan)
    }

    /// Writes the copies of a plan in place and syncs them (To6).
    pub(crate) fn restore(&self, plan: &RestorePlan, pages: &PageFile) -> Result {
        let mut image = AlignedBuf::zeroed(self.page_bytes);
        for &(page, at) in &plan.restore {
            self.read(at, &mut image)?;
            pages.restore(page, &image)?;
        }
        // Also if nothing is restored: writes of the last run may be in a cache only, and must not
        // vanish later.
        pages.sync(SyncReason::Recovery, role::callers)?;
        let restored = plan.restore.len() as u64;
        self.metrics.page_writes(Force::Recovery, restored, restored, role::is_foreground());
        self.metrics.add(M::TornPagesRestored, restored);
        Ok(())
    }
}
