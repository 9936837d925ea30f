//! Trees as the `pages` file has them: walked level by level, and found by name in the catalog.

use super::pages::PagesFile;
use crate::btree::Tree;
use crate::catalog;
use crate::error::Result;
use crate::page::header::{self, PageKind};
use crate::page::node::{DELETED, Inner, Leaf, Node, OVERFLOW, Version};
use base::{PageNo, TreeId};
use std::collections::BTreeSet;

/// The result of a walk of a tree.
#[derive(Debug, Default)]
pub(super) struct TreeWalk {
    /// Pages that the walk reached.
    pub(super) reached: BTreeSet<PageNo>,
    /// Why the walk could not continue, one sentence each.
    pub(super) problems: Vec<String>,
}

/// Walks a tree from its root: each level from its first page along the right siblings. Calls
/// `each` for every page. If a level cannot be walked to its end, the walk continues with the next
/// level if the first page of that is known.
pub(super) fn walk(
    pages: &PagesFile,
    tree: Tree,
    each: &mut dyn FnMut(PageNo, Node<'_>),
) -> Result<TreeWalk> {
    let mut walk = TreeWalk::default();
    let (mut first, mut level) = (tree.root, None);
    while !first.is_none() {
        let mut next_level = PageNo::NONE;
        let mut no = first;
        while !no.is_none() {
            let bytes = match pages.read_kind(no, &[PageKind::Leaf, PageKind::Inner])? {
                Ok(bytes) => bytes,
                Err(problem) => {
                    walk.problems.push(problem);
                    break;
                }
            };
            let node = Node::new(&bytes);
            let expected = *level.get_or_insert(node.level());
            if header::tree(&bytes) != tree.id || node.level() != expected {
                let (owner, has) = (header::tree(&bytes), node.level());
                walk.problems.push(format!("{no:?} is of {owner:?}, level {has}; level {expected} led here"));
                break;
            }
            if !walk.reached.insert(no) {
                walk.problems.push(format!("{no:?} is reached twice"));
                break;
            }
            if no == first && node.level() > 0 {
                next_level = Inner::new(&bytes).child(0);
            }
            each(no, node);
            no = node.right();
        }
        first = next_level;
        level = level.map(|l: u8| l.saturating_sub(1));
    }
    Ok(walk)
}

/// A row of the catalog as the file has it.
#[derive(Debug)]
pub(super) struct CatalogRow {
    pub(super) name: String,
    /// `None`: the entry is malformed.
    pub(super) tree: Option<Tree>,
    pub(super) version: Version,
    /// A delete mark: the table was dropped or renamed, or that is in progress.
    pub(super) deleted: bool,
}

/// Returns all rows of the catalog in the file, and the problems in reading it.
pub(super) fn catalog(pages: &PagesFile) -> Result<(Vec<CatalogRow>, Vec<String>)> {
    let mut entries = Vec::new();
    let walk = walk(pages, catalog::CATALOG, &mut |_, node| {
        if node.level() > 0 {
            return;
        }
        let leaf = Leaf::new(node.bytes());
        for i in 0..leaf.len() {
            let row = leaf.row(i);
            let inline = row.flags & OVERFLOW == 0;
            entries.push(CatalogRow {
                name: String::from_utf8_lossy(&leaf.key(i).to_vec()).into_owned(),
                tree: catalog::decode(row.value).ok().map(|(tree, _)| tree).filter(|_| inline),
                version: row.version,
                deleted: row.flags & DELETED != 0,
            });
        }
    })?;
    Ok((entries, walk.problems))
}

/// The tree to view.
#[derive(Debug)]
pub(super) struct TreeTarget {
    pub(super) tree: Tree,
    pub(super) name: String,
    /// Its row in the catalog. The catalog itself has none, nor has a tree that no row names.
    pub(super) entry: Option<CatalogRow>,
}

/// Finds a tree by the name of its table, or by its number. `Err`: why it cannot be found.
pub(super) fn find(pages: &PagesFile, name: &str) -> Result<Result<TreeTarget, String>> {
    let (entries, problems) = catalog(pages)?;
    let number: Option<TreeId> = name.parse().ok().map(TreeId);
    let mut by_number = None;
    for entry in entries {
        let Some(tree) = entry.tree else { continue };
        if entry.name == name {
            return Ok(Ok(TreeTarget { tree, name: format!("{name:?}"), entry: Some(entry) }));
        }
        // The present name of a renamed table is the row without a delete mark.
        if Some(tree.id) == number && (by_number.is_none() || !entry.deleted) {
            let name = format!("{:?}", entry.name);
            by_number = Some(TreeTarget { tree, name, entry: Some(entry) });
        }
    }
    if let Some(target) = by_number {
        return Ok(Ok(target));
    }
    if number == Some(catalog::CATALOG.id) {
        return Ok(Ok(TreeTarget { tree: catalog::CATALOG, name: "the catalog".to_owned(), entry: None }));
    }
    if let Some(id) = number
        && let Some(root) = highest(pages, id)?
    {
        let name = "named by no table in the file".to_owned();
        return Ok(Ok(TreeTarget { tree: Tree { id, root }, name, entry: None }));
    }
    let mut why = format!("The pages file knows no table {name:?}.");
    for problem in problems {
        why.push_str(&format!("\nThe catalog could not be read whole: {problem}."));
    }
    Ok(Err(why))
}

/// Returns the page of the tree with the highest level, which is its root.
fn highest(pages: &PagesFile, id: TreeId) -> Result<Option<PageNo>> {
    let mut best: Option<(u8, PageNo)> = None;
    for (extent, used) in pages.extents(id)?.extents {
        for no in super::pages::used_pages(extent, used) {
            if let Ok(bytes) = pages.read_kind(no, &[PageKind::Leaf, PageKind::Inner])? {
                let level = Node::new(&bytes).level();
                if best.is_none_or(|(highest, _)| level > highest) {
                    best = Some((level, no));
                }
            }
        }
    }
    Ok(best.map(|(_, no)| no))
}
