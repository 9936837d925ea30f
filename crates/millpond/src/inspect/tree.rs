//! View of the shape of a tree: pages a level, their fill, and the pages of the tree that are in no
//! level.

use super::db_dir::{DbDir, percent, text_table};
use super::pages::{OwnedExtents, PageImage, PagesFile, used_pages};
use super::tail::headline;
use super::walk::{TreeTarget, find, walk};
use crate::btree::Tree;
use crate::error::Result;
use crate::page::header::{self, PageKind};
use crate::page::node::{Node, SLOTS};
use base::PageNo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use vfs::Vfs;

#[derive(Default)]
struct LevelStats {
    pages: u64,
    entries: u64,
    used: u64,
    /// Used bytes of the emptiest and the fullest page.
    least: u64,
    most: u64,
}

pub(super) fn view(vfs: &Vfs, dir: &Path, name: &str) -> Result<String> {
    let db = DbDir::open(vfs, dir)?;
    let root = db.root()?;
    let mut out = headline(&db, &root, &mut |_| {});
    let pages = PagesFile::open(&db, &root)?;
    match find(&pages, name)? {
        Err(why) => writeln!(out, "{why}").unwrap(),
        Ok(target) => shape(&pages, &target, &mut out)?,
    }
    Ok(out)
}

fn shape(pages: &PagesFile, target: &TreeTarget, out: &mut String) -> Result {
    let tree = target.tree;
    writeln!(out, "{:?}, {}: root {:?}", tree.id, target.name, tree.root).unwrap();
    let mut levels: BTreeMap<u8, LevelStats> = BTreeMap::new();
    let walked = walk(pages, tree, &mut |_, node: Node<'_>| {
        let (level, used) = (levels.entry(node.level()).or_default(), node.used_bytes() as u64);
        level.least = if level.pages == 0 { used } else { level.least.min(used) };
        level.most = level.most.max(used);
        level.pages += 1;
        level.entries += u64::from(node.len());
        level.used += used;
    })?;
    let room = (pages.page_bytes - SLOTS) as u64;
    let rows: Vec<Vec<String>> = levels
        .iter()
        .rev()
        .map(|(n, level)| {
            let fill = |used, pages| percent(used, pages * room);
            let (n, pages, entries) = (n.to_string(), level.pages.to_string(), level.entries.to_string());
            vec![n, pages, entries, fill(level.used, level.pages), fill(level.least, 1), fill(level.most, 1)]
        })
        .collect();
    out.push_str(&text_table(&["level", "pages", "entries", "full", "emptiest", "fullest"], &rows));
    let space = TreeSpace::of(pages, tree, &walked.reached)?;
    writeln!(out, "space: {space}").unwrap();
    for problem in walked.problems.iter().chain(&space.problems) {
        writeln!(out, "stopped: {problem}").unwrap();
    }
    Ok(())
}

/// The pages of a tree according to the space map.
#[derive(Debug, Default)]
pub(super) struct TreeSpace {
    pub(super) extents: u64,
    pub(super) in_use: u64,
    pub(super) overflow: u64,
    /// Leaf and inner pages that the walk did not reach.
    unreached: u64,
    blank: u64,
    damaged: u64,
    other: u64,
    pub(super) problems: Vec<String>,
}

impl TreeSpace {
    pub(super) fn of(pages: &PagesFile, tree: Tree, reached: &BTreeSet<PageNo>) -> Result<TreeSpace> {
        let OwnedExtents { extents, problems } = pages.extents(tree.id)?;
        let mut space = TreeSpace { extents: extents.len() as u64, problems, ..TreeSpace::default() };
        let used = extents.iter().flat_map(|&(extent, used)| used_pages(extent, used));
        for no in used {
            space.in_use += 1;
            if reached.contains(&no) {
                continue;
            }
            if no.0 >= pages.count {
                space.other += 1;
                continue;
            }
            match pages.read(no)? {
                PageImage::Blank => space.blank += 1,
                PageImage::Damaged { damage, .. } => {
                    space.damaged += 1;
                    space.problems.push(format!("{no:?} is damaged: {damage}"));
                }
                PageImage::Sound(bytes) if header::tree(&bytes) == tree.id => match header::kind(&bytes) {
                    Some(PageKind::Overflow) => space.overflow += 1,
                    Some(PageKind::Leaf | PageKind::Inner) => space.unreached += 1,
                    _ => space.other += 1,
                },
                PageImage::Sound(_) => space.other += 1,
            }
        }
        Ok(space)
    }
}

impl std::fmt::Display for TreeSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} extents, {} pages in use, {} of them overflow",
            self.extents, self.in_use, self.overflow
        )?;
        let rest = [
            (self.unreached, "in no level of this walk"),
            (self.blank, "never written to the file"),
            (self.damaged, "damaged"),
            (self.other, "free or another tree's in the file"),
        ];
        for (n, what) in rest.iter().filter(|(n, _)| *n > 0) {
            write!(f, ", {n} {what}")?;
        }
        Ok(())
    }
}
