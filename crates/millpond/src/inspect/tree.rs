//! The shape of a tree: pages a level, how full they are, and what of its space is in no level.

use super::pages::{Image, Owned, Pages, used_pages};
use super::place::{Place, percent, table};
use super::rows::{Target, find, walk};
use super::tail::head;
use crate::btree::Tree;
use crate::error::Result;
use crate::page::header::{self, Kind};
use crate::page::node::{Node, SLOTS};
use base::PageNo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use vfs::Vfs;

#[derive(Default)]
struct Level {
    pages: u64,
    entries: u64,
    used: u64,
    /// Used bytes of the emptiest and the fullest page.
    least: u64,
    most: u64,
}

pub(super) fn view(vfs: &Vfs, dir: &Path, name: &str) -> Result<String> {
    let place = Place::open(vfs, dir)?;
    let root = place.root()?;
    let mut out = head(&place, &root, &mut |_| {});
    let pages = Pages::open(&place, &root)?;
    match find(&pages, name)? {
        Err(why) => writeln!(out, "{why}").unwrap(),
        Ok(target) => shape(&pages, &target, &mut out)?,
    }
    Ok(out)
}

fn shape(pages: &Pages, target: &Target, out: &mut String) -> Result {
    let tree = target.tree;
    writeln!(out, "{:?}, {}: root {:?}", tree.id, target.name, tree.root).unwrap();
    let mut levels: BTreeMap<u8, Level> = BTreeMap::new();
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
    out.push_str(&table(&["level", "pages", "entries", "full", "emptiest", "fullest"], &rows));
    let space = Space::of(pages, tree, &walked.reached)?;
    writeln!(out, "space: {space}").unwrap();
    for problem in walked.problems.iter().chain(&space.problems) {
        writeln!(out, "stopped: {problem}").unwrap();
    }
    Ok(())
}

/// What the space map gives a tree.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) extents: u64,
    pub(super) in_use: u64,
    pub(super) overflow: u64,
    /// Leaf and inner pages that the walk did not reach.
    apart: u64,
    blank: u64,
    damaged: u64,
    other: u64,
    pub(super) problems: Vec<String>,
}

impl Space {
    pub(super) fn of(pages: &Pages, tree: Tree, reached: &BTreeSet<PageNo>) -> Result<Space> {
        let Owned { extents, problems } = pages.extents(tree.id)?;
        let mut space = Space { extents: extents.len() as u64, problems, ..Space::default() };
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
                Image::Blank => space.blank += 1,
                Image::Damaged { damage, .. } => {
                    space.damaged += 1;
                    space.problems.push(format!("{no:?} is damaged: {damage}"));
                }
                Image::Sound(bytes) if header::tree(&bytes) == tree.id => match header::kind(&bytes) {
                    Some(Kind::Overflow) => space.overflow += 1,
                    Some(Kind::Leaf | Kind::Inner) => space.apart += 1,
                    _ => space.other += 1,
                },
                Image::Sound(_) => space.other += 1,
            }
        }
        Ok(space)
    }
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} extents, {} pages in use, {} of them overflow",
            self.extents, self.in_use, self.overflow
        )?;
        let rest = [
            (self.apart, "in no level of this walk"),
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
