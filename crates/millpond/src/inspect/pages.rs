//! The `pages` file as the views read it: one page at a time, checked as it is read; and its space
//! map.

use super::db_dir::DbDir;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::page::header::{self, HEADER_BYTES, PageKind};
use crate::page::map::{self, EXTENT_PAGES, SHARED, extents_per_map, page_of_group};
use crate::page::owners;
use crate::page::{Damage, verify};
use crate::page_file::{PageFile, check_image};
use crate::space::FILE_MAGIC;
use base::aligned::AlignedBuf;
use base::codec::{Reader, Truncated};
use base::{PageNo, TreeId};
use std::path::Path;

/// The `pages` file.
pub(super) struct PagesFile {
    file: PageFile,
    pub(super) page_bytes: usize,
    /// Whole pages in the file.
    pub(super) count: u32,
}

/// The extents in which one tree has pages, according to the space map.
#[derive(Debug, Default)]
pub(super) struct OwnedExtents {
    /// Number of the extent, and the bits of its pages in use.
    pub(super) extents: Vec<(u32, u16)>,
    /// Problems of the map.
    pub(super) problems: Vec<String>,
}

/// A page as the file has it.
pub(super) enum PageImage {
    /// Zeros only: never written.
    Blank,
    /// Its checksum, number and structure are right.
    Sound(AlignedBuf),
    /// Something is wrong. `walkable`: its structure is right, so its entries can be read all the
    /// same.
    Damaged { bytes: AlignedBuf, damage: Damage, walkable: bool },
}

impl PagesFile {
    pub(super) fn open(db: &DbDir, root: &Root) -> Result<PagesFile> {
        let file = PageFile::open_read_only(&db.vfs, &db.paths.pages, root.page_bytes)?;
        let count = file.count()?;
        Ok(PagesFile { file, page_bytes: root.page_bytes, count })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns where the page begins in the file, for a caller that reads the bytes itself.
    pub(super) fn offset(&self, no: PageNo) -> u64 {
        self.file.offset(no)
    }

    /// Reads page `no`. REQUIRES: it lies in the file.
    pub(super) fn read(&self, no: PageNo) -> Result<PageImage> {
        let mut bytes = AlignedBuf::zeroed(self.page_bytes);
        self.file.read(no, &mut bytes).map_err(|e| Error::io("read", self.path(), e))?;
        if header::is_blank(&bytes) {
            return Ok(PageImage::Blank);
        }
        let image = check_image(&mut bytes, no);
        let structure = verify::quick(&bytes);
        Ok(match image.and(structure) {
            Ok(()) => PageImage::Sound(bytes),
            Err(damage) => PageImage::Damaged { bytes, damage, walkable: structure.is_ok() },
        })
    }

    /// Returns a sound page of one of the kinds, or a sentence that says why there is none.
    pub(super) fn read_kind(&self, no: PageNo, kinds: &[PageKind]) -> Result<Result<AlignedBuf, String>> {
        if no.0 >= self.count {
            return Ok(Err(format!("{no:?} lies beyond the file's {} pages", self.count)));
        }
        Ok(match self.read(no)? {
            PageImage::Blank => Err(format!("{no:?} was never written to the file")),
            PageImage::Damaged { damage, .. } => Err(format!("{no:?} is damaged: {damage}")),
            PageImage::Sound(bytes) => match header::kind(&bytes) {
                Some(kind) if kinds.contains(&kind) => Ok(bytes),
                Some(kind) => Err(format!("{no:?} is a page of kind {kind:?} in the file")),
                None => Err(format!("{no:?} has an unknown kind")),
            },
        })
    }

    /// Adds the shared extents in which the tree has pages.
    fn add_shared_extents(&self, shared: &[u32], tree: TreeId, owned: &mut OwnedExtents) -> Result<()> {
        let owners_page = |extent: u32| owners::page_of(self.page_bytes, extent);
        for extents in shared.chunk_by(|a, b| owners_page(*a) == owners_page(*b)) {
            match self.read_kind(owners_page(extents[0]), &[PageKind::Owners])? {
                Err(problem) => owned.problems.push(format!("owners of shared pages: {problem}")),
                Ok(page) => {
                    let bits = |extent| {
                        let owners = owners::of_extent(&page, extent).into_iter().enumerate();
                        owners.filter(|(_, owner)| *owner == tree).fold(0, |bits, (i, _)| bits | 1 << i)
                    };
                    let found = extents.iter().map(|&extent| (extent, bits(extent)));
                    owned.extents.extend(found.filter(|(_, bits)| *bits != 0));
                }
            }
        }
        Ok(())
    }

    /// Returns the extents that the space map gives to a tree.
    pub(super) fn extents(&self, tree: TreeId) -> Result<OwnedExtents> {
        let (mut found, mut shared) = (OwnedExtents::default(), Vec::new());
        let each = extents_per_map(self.page_bytes);
        for group in 0..self.count.div_ceil(each * EXTENT_PAGES) {
            match self.read_kind(page_of_group(self.page_bytes, group), &[PageKind::Map])? {
                Err(problem) => found.problems.push(format!("group {group} of the space map: {problem}")),
                Ok(page) => {
                    for (i, number) in (0..each as u16).zip(group * each..) {
                        let extent = map::extent(&page, i);
                        if extent.tree == SHARED {
                            shared.push(number);
                        } else if extent.tree == tree {
                            found.extents.push((number, extent.used));
                        }
                    }
                }
            }
        }
        self.add_shared_extents(&shared, tree, &mut found)?;
        Ok(found)
    }
}

/// Returns the numbers of an extent's pages in use. An extent beyond the greatest page number has
/// none.
pub(super) fn used_pages(extent: u32, used: u16) -> impl Iterator<Item = PageNo> {
    let first = extent.checked_mul(EXTENT_PAGES);
    (0..EXTENT_PAGES)
        .filter(move |bit| used & 1 << bit != 0)
        .filter_map(move |bit| Some(PageNo(first? + bit)))
}

/// Decodes the content of the file's header: database id and number of groups of the space map.
pub(super) fn file_header(page: &[u8]) -> Result<(u64, u32), Truncated> {
    let mut r = Reader::new(&page[HEADER_BYTES..]);
    if r.bytes(FILE_MAGIC.len())? != FILE_MAGIC {
        return Err(Truncated);
    }
    Ok((r.u64()?, r.u32()?))
}
