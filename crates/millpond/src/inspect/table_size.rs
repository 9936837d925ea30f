//! View of the size of a table: rows, delete marks, bytes and pages, as the `pages` file has them.

use super::db_dir::DbDir;
use super::pages::PagesFile;
use super::tail::headline;
use super::tree::TreeSpace;
use super::walk::{TreeTarget, find, walk};
use crate::catalog::CATALOG;
use crate::error::Result;
use crate::log::group::{Record, Records};
use crate::log::reader::Group;
use crate::page::node::{DELETED, Leaf, OVERFLOW};
use crate::page::op::PageOp;
use crate::page::overflow::ChainRef;
use base::TxnId;
use std::fmt::Write;
use std::path::Path;
use vfs::Vfs;

pub(super) fn view(vfs: &Vfs, dir: &Path, name: &str) -> Result<String> {
    let db = DbDir::open(vfs, dir)?;
    let root = db.root()?;
    let mut in_log = None;
    let mut out = headline(&db, &root, &mut |group| {
        in_log = catalog_change(group, name.as_bytes()).map(|txn| (group.lsn, txn)).or(in_log);
    });
    let pages = PagesFile::open(&db, &root)?;
    match find(&pages, name)? {
        Err(why) => writeln!(out, "{why}").unwrap(),
        Ok(target) => sizes(&pages, &target, &mut out)?,
    }
    if let Some((lsn, txn)) = in_log {
        writeln!(out, "The log's last change of the catalog's entry {name:?}: LSN {lsn}, by {txn:?}.")
            .unwrap();
    }
    Ok(out)
}

/// Returns the transaction that changes the catalog's row `name` in this group.
fn catalog_change(group: &Group<'_>, name: &[u8]) -> Option<TxnId> {
    Records::new(group.records).flatten().find_map(|record| match record {
        Record::Page { op, .. } => match PageOp::decode(op) {
            Ok(PageOp::Row(row)) if row.tree == CATALOG.id && row.key == name => Some(row.version.txn),
            _ => None,
        },
        _ => None,
    })
}

#[derive(Default)]
struct TableSizes {
    rows: u64,
    marks: u64,
    key_bytes: u64,
    value_bytes: u64,
    chains: u64,
    chain_bytes: u64,
    malformed: u64,
    leaves: u64,
    inner: u64,
    /// The greatest id of a transaction that made a row.
    newest: TxnId,
}

impl TableSizes {
    fn add(&mut self, leaf: Leaf<'_>) {
        for i in 0..leaf.len() {
            let row = leaf.row(i);
            self.newest = self.newest.max(row.version.txn);
            self.key_bytes += leaf.key(i).len() as u64;
            if row.flags & DELETED == 0 {
                self.rows += 1;
            } else {
                self.marks += 1;
            }
            if row.flags & OVERFLOW == 0 {
                self.value_bytes += row.value.len() as u64;
            } else if let Ok(chain) = ChainRef::decode(row.value) {
                self.chains += 1;
                self.chain_bytes += u64::from(chain.len);
            } else {
                self.malformed += 1;
            }
        }
    }
}

fn sizes(pages: &PagesFile, target: &TreeTarget, out: &mut String) -> Result {
    let tree = target.tree;
    let mut sizes = TableSizes::default();
    let walked = walk(pages, tree, &mut |_, node| {
        if node.level() == 0 {
            sizes.leaves += 1;
            sizes.add(Leaf::new(node.bytes()));
        } else {
            sizes.inner += 1;
        }
    })?;
    let space = TreeSpace::of(pages, tree, &walked.reached)?;
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<16}{value}").unwrap();
    line("table", target.name.clone());
    line("tree", format!("{}, root {:?}", tree.id, tree.root));
    if let Some(entry) = &target.entry {
        let state = if entry.deleted { "a delete mark" } else { "there" };
        line("catalog entry", format!("{state}, by {:?}", entry.version.txn));
    }
    line("rows", format!("{} (as they stand, whatever became of their transactions)", sizes.rows));
    line("delete marks", sizes.marks.to_string());
    line("newest version", newest(sizes.newest));
    line("key bytes", sizes.key_bytes.to_string());
    line("value bytes", format!("{} in leaves", sizes.value_bytes));
    line("long values", format!("{}, {} bytes in overflow pages", sizes.chains, sizes.chain_bytes));
    line("pages", format!("{} leaf, {} inner, {} overflow", sizes.leaves, sizes.inner, space.overflow));
    let total = space.in_use * pages.page_bytes as u64;
    line("file bytes", format!("{total} in pages in use, {} extents", space.extents));
    if sizes.malformed > 0 {
        writeln!(out, "DAMAGED: {} rows refer to overflow pages in no known way", sizes.malformed).unwrap();
    }
    for problem in walked.problems.iter().chain(&space.problems) {
        writeln!(out, "stopped: {problem}").unwrap();
    }
    Ok(())
}

fn newest(txn: TxnId) -> String {
    match txn {
        TxnId::NONE => "seen by all".to_owned(),
        txn => format!("by {txn:?}"),
    }
}
