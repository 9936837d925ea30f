//! View of one page: its header, its content, and the redo that its image in the file lacks.

use super::db_dir::{DbDir, quoted};
use super::pages::{PageImage, PagesFile, file_header};
use super::tail::headline;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::flush::doublewrite::Doublewrite;
use crate::log::group::{Record, Records};
use crate::log::reader::Group;
use crate::page::header::{self, HEADER_BYTES, PageKind};
use crate::page::map::{self, EXTENT_PAGES, Extent, SHARED, extents_per_map};
use crate::page::node::{DELETED, Inner, Leaf, Node, OVERFLOW};
use crate::page::op::PageOp;
use crate::page::overflow::{ChainRef, Overflow};
use crate::page::owners;
use crate::page::verify;
use base::codec::fixed::{get_u16, get_u32};
use base::{Lsn, PageNo, TreeId, TxnId};
use metrics::Metrics;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;

/// One change of the page in the log after the checkpoint.
struct PageChange {
    lsn: Lsn,
    what: &'static str,
}

pub(super) fn view(vfs: &Vfs, dir: &Path, number: u32) -> Result<String> {
    let db = DbDir::open(vfs, dir)?;
    let root = db.root()?;
    let no = PageNo(number);
    let mut redo = Vec::new();
    let mut out = headline(&db, &root, &mut |group| changes_of(group, no, &mut redo));
    let pages = PagesFile::open(&db, &root)?;
    if number >= pages.count {
        let what = format!("there is no {no:?}: the file has {} pages", pages.count);
        if redo.is_empty() {
            return Err(Error::Misuse(format!("{}: {what}", pages.path().display())));
        }
        writeln!(out, "DAMAGED: {what}").unwrap();
        show_redo(&redo, Lsn::ZERO, &mut out);
        return Ok(out);
    }
    let offset = pages.offset(no);
    writeln!(out, "{no:?}, {} bytes at {offset} of {}", pages.page_bytes, pages.path().display()).unwrap();
    match pages.read(no)? {
        PageImage::Blank => {
            writeln!(out, "never written: zeros only").unwrap();
            show_redo(&redo, Lsn::ZERO, &mut out);
        }
        PageImage::Sound(page) => {
            writeln!(out, "sound: checksum, number and structure are right").unwrap();
            show_header(&page, &mut out);
            show_redo(&redo, header::lsn(&page), &mut out);
            show_content(&page, no, &mut out);
            for problem in verify::problems(&page) {
                writeln!(out, "DAMAGED: {problem}").unwrap();
            }
        }
        PageImage::Damaged { bytes: page, damage, walkable } => {
            writeln!(out, "DAMAGED: {damage}; what follows is what the bytes say").unwrap();
            writeln!(out, "{}", doublewrite_copy(&db, &root, no)).unwrap();
            show_header(&page, &mut out);
            show_redo(&redo, header::lsn(&page), &mut out);
            if walkable {
                show_content(&page, no, &mut out);
            }
        }
    }
    Ok(out)
}

/// Tells whether the doublewrite has a copy from which opening would restore the damaged page.
fn doublewrite_copy(db: &DbDir, root: &Root, no: PageNo) -> String {
    let (files, metrics) = (db.paths.doublewrite_files(), Arc::new(Metrics::new()));
    let copies = Doublewrite::open(&db.vfs, &files, root.db_id, root.page_bytes, &metrics)
        .map(|doublewrite| doublewrite.copies());
    match copies.map(|mut copies| copies.remove(&no)) {
        Ok(Some((lsn, at))) if lsn < root.checkpoint => {
            let at = at.offset;
            format!(
                "the doublewrite has an old copy, LSN {lsn}, at {at}, below the checkpoint: an open uses it if redo found it so"
            )
        }
        Ok(Some((lsn, at))) => {
            let at = at.offset;
            format!("the doublewrite has a whole copy, LSN {lsn}, at {at}: an open restores the page from it")
        }
        Ok(None) => "the doublewrite has no copy of it".to_owned(),
        Err(error) => format!("the doublewrite cannot be read: {error}"),
    }
}

fn changes_of(group: &Group<'_>, no: PageNo, redo: &mut Vec<PageChange>) {
    for record in Records::new(group.records).flatten() {
        if let Record::Page { page, op, .. } = record
            && page == no
        {
            let what = PageOp::decode(op).map_or("malformed", |op| super::log::op_name(&op));
            redo.push(PageChange { lsn: group.lsn, what });
        }
    }
}

/// Lists the page's redo. `has` is the LSN of the image in the file.
fn show_redo(redo: &[PageChange], has: Lsn, out: &mut String) {
    const SHOWN: usize = 20;
    if redo.is_empty() {
        return;
    }
    let lacks = redo.iter().filter(|r| r.lsn > has || has == Lsn::ZERO).count();
    writeln!(
        out,
        "redo behind the checkpoint: {} changes of this page, of which the file lacks {lacks}",
        redo.len()
    )
    .unwrap();
    if redo.len() > SHOWN {
        writeln!(out, "  … {} earlier ones", redo.len() - SHOWN).unwrap();
    }
    for r in &redo[redo.len().saturating_sub(SHOWN)..] {
        writeln!(out, "  LSN {:<12} {}", r.lsn.0, r.what).unwrap();
    }
}

fn show_header(page: &[u8], out: &mut String) {
    let kind =
        header::kind(page).map_or_else(|| format!("unknown ({})", page[5]), |kind| format!("{kind:?}"));
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<14}{value}").unwrap();
    line("checksum", format!("{:08x}", get_u32(page, 0)));
    line("format", page[4].to_string());
    line("kind", kind.to_lowercase());
    line("flags", get_u16(page, 6).to_string());
    line("page number", header::page_no(page).0.to_string());
    line("tree", owner_name(header::tree(page)));
    line("page LSN", header::lsn(page).to_string());
}

fn owner_name(tree: TreeId) -> String {
    if tree == TreeId::NONE { "none".to_owned() } else { tree.0.to_string() }
}

/// Shows the part that depends on the kind. REQUIRES: `page` has passed [`verify::quick`].
fn show_content(page: &[u8], no: PageNo, out: &mut String) {
    match header::kind(page) {
        Some(PageKind::Leaf | PageKind::Inner) => show_node(page, out),
        Some(PageKind::Overflow) => show_overflow(page, out),
        Some(PageKind::Map) => show_map(page, no, out),
        Some(PageKind::File) => match file_header(page) {
            Ok((db, groups)) => {
                writeln!(out, "file header: database {db:016x}, {groups} groups of the space map").unwrap();
            }
            Err(_) => writeln!(out, "DAMAGED: not the header of a pages file").unwrap(),
        },
        Some(PageKind::Owners) => show_owners(page, no, out),
        Some(PageKind::Free) => writeln!(out, "{} bytes of nothing", page.len() - HEADER_BYTES).unwrap(),
        None => {}
    }
}

fn show_node(page: &[u8], out: &mut String) {
    let node = Node::new(page);
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<14}{value}").unwrap();
    line("level", node.level().to_string());
    line("right sibling", if node.right().is_none() { "none".to_owned() } else { node.right().to_string() });
    let low = if node.low_fence().is_empty() { "-infinity".to_owned() } else { quoted(node.low_fence()) };
    line("low fence", low);
    line("high fence", node.high_fence().map_or_else(|| "+infinity".to_owned(), quoted));
    line("prefix", quoted(node.prefix()));
    line("bytes", format!("{} used, {} free", node.used_bytes(), node.free_bytes()));
    line("entries", node.len().to_string());
    if node.level() == 0 {
        show_rows(Leaf::new(page), out);
        return;
    }
    let inner = Inner::new(page);
    for i in 0..inner.len() {
        let key = inner.key(i).to_vec();
        writeln!(out, "  {i:>5}  child {:<10} from {}", inner.child(i).0, quoted(&key)).unwrap();
    }
}

fn show_rows(leaf: Leaf<'_>, out: &mut String) {
    for i in 0..leaf.len() {
        let row = leaf.row(i);
        let mark = if row.flags & DELETED == 0 { "" } else { " DELETED" };
        let by = match row.version.txn {
            TxnId::NONE => "seen by all".to_owned(),
            txn => format!("by {txn:?}, undo at {}", row.version.undo_at),
        };
        let value = match ChainRef::decode(row.value) {
            _ if row.flags & OVERFLOW == 0 => quoted(row.value),
            Ok(chain) => format!("{} bytes in a chain from {:?}", chain.len, chain.head),
            Err(_) => format!("DAMAGED reference {}", quoted(row.value)),
        };
        writeln!(out, "  {i:>5}  {} = {value}{mark} [{by}]", quoted(&leaf.key(i).to_vec())).unwrap();
    }
}

fn show_overflow(page: &[u8], out: &mut String) {
    let Some(part) = Overflow::new(page) else { return };
    let place = if part.is_head() { "first" } else { "later" };
    let next = if part.next().is_none() { "none".to_owned() } else { part.next().to_string() };
    let by = part.owner();
    writeln!(out, "  {place} page of a chain by {:?}, undo at {}; next page {next}", by.txn, by.undo_at)
        .unwrap();
    let following: Vec<_> = part.following().map(|page| page.to_string()).collect();
    if !following.is_empty() {
        writeln!(out, "  ahead         {}", following.join(" ")).unwrap();
    }
    writeln!(out, "  data          {}", quoted(part.data())).unwrap();
}

/// Shows one line for every run of pages with one owner.
fn show_owners(page: &[u8], no: PageNo, out: &mut String) {
    let each = owners::extents_per_page(page.len());
    // The page is in the first extent of its group. Its place there tells which extents of the
    // group it describes.
    let first =
        u64::from(no.0 / EXTENT_PAGES) + u64::from(no.0 % EXTENT_PAGES).saturating_sub(2) * u64::from(each);
    let all: Vec<TreeId> = (0..each).flat_map(|extent| owners::of_extent(page, extent)).collect();
    let mut at = first * u64::from(EXTENT_PAGES);
    for run in all.chunk_by(|a, b| a == b) {
        let last = at + run.len() as u64 - 1;
        if run[0] != TreeId::NONE {
            writeln!(out, "  pages {at}–{last}: {:?}", run[0]).unwrap();
        }
        at = last + 1;
    }
}

/// Shows one line for every run of equal extents.
fn show_map(page: &[u8], no: PageNo, out: &mut String) {
    let each = extents_per_map(page.len());
    // The first map page follows the file's header, all others are the first page of their group.
    let first = u64::from(if no.0 == 1 { 0 } else { no.0 / EXTENT_PAGES });
    let extents: Vec<Extent> = (0..each as u16).map(|i| map::extent(page, i)).collect();
    let free = extents[1..].iter().filter(|e| e.tree == TreeId::NONE).count();
    writeln!(out, "  extents       {} of 16 pages; {free} free; the first holds this page", extents.len())
        .unwrap();
    let mut at = 0;
    for run in extents.chunk_by(|a, b| a == b) {
        let from = first + at;
        let last = from + run.len() as u64 - 1;
        at += run.len() as u64;
        let pages = u64::from(EXTENT_PAGES);
        let Extent { tree, used } = run[0];
        let (a, b) = (from * pages, last * pages + pages - 1);
        let owner = match tree {
            TreeId::NONE => "free".to_owned(),
            SHARED => "shared".to_owned(),
            _ => format!("{tree:?}"),
        };
        let n = run.len();
        writeln!(out, "  pages {a}–{b} ({n} extents): {owner}, used {used:016b}").unwrap();
    }
}
