//! Looks at the whole database.

use super::Core;
use crate::error::{Error, Result};
use base::{PageNo, TreeId};
use std::collections::BTreeSet;
use std::fmt;

/// So many of those that are set aside are named.
const NAMED: usize = 10;

/// What a check of the whole database found: [`Db::check`](crate::Db::check). Shown as text it is one line, `ok: …`, or one line
/// for each problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables looked at.
    pub tables: u64,
    /// Rows in them and in the catalog, delete marks included.
    pub rows: u64,
    /// Pages that the trees lead to.
    pub pages: u64,
    /// Splits whose separator is not posted yet: no damage.
    pub unposted_splits: u64,
    /// Pages that belong to a tree which does not lead to them. `None` where transactions that had not been purged, or
    /// changes meanwhile, made that impossible to tell.
    pub unreachable_pages: Option<u64>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return write!(f, "ok: {} tables, {} rows, {} pages", self.tables, self.rows, self.pages);
        }
        writeln!(f, "{} problems:", self.problems.len())?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "  {problem}"))
    }
}

pub(super) fn check(core: &Core) -> Result<CheckReport> {
    let (engine, txns) = (&core.engine, &core.engine.txns);
    let store = &engine.store;
    let mut report = CheckReport::default();
    let nothing_left = || {
        let of_txns = txns.streams.len() == 0 && txns.history.is_empty() && txns.unreadable() == 0;
        of_txns && txns.tableless() == 0
    };
    let quiet = nothing_left();
    let begun = store.log.reserved_lsn();
    let mut reached: BTreeSet<PageNo> = BTreeSet::new();
    // A page that was freed and used again while this went on is met twice and hangs from one place all the same.
    let mut twice = Vec::new();
    let mut trees: Vec<_> = core.catalog.list().iter().map(|entry| (entry.name(), entry.tree)).collect();
    report.tables = trees.len() as u64;
    trees.push(("(catalog)".to_owned(), core.catalog.tree()));
    for (name, tree) in trees {
        // Held so that the table is not dropped under the check.
        let Some(_live) = txns.trees.get(tree.id) else { continue };
        let found = tree.check(store)?;
        report.rows += found.rows;
        report.pages += found.pages.len() as u64;
        report.unposted_splits += found.unposted;
        report
            .problems
            .extend(found.problems.into_iter().map(|problem| format!("table {name:?}: {problem}")));
        for page in found.pages {
            if !reached.insert(page) {
                twice.push(format!("table {name:?}: {page:?} hangs from two places"));
            }
        }
    }
    if store.log.reserved_lsn() == begun {
        report.problems.append(&mut twice);
    }
    let used = store.space.used_pages()?;
    // Values that only undo still leads to: no tree tells of damage there, and purge would meet it over and over.
    let mut damaged = Vec::new();
    // Not those of a tree that no table has: a bulk load is writing them, and no frame must show what stood there before.
    let listed = |tree: &TreeId| txns.trees.get(*tree).is_some();
    let of_tables = || store.space.used_pages().map(|used| used.into_iter().filter(|(tree, _)| listed(tree)));
    for page in of_tables()?.flat_map(|(_, pages)| pages).filter(|page| !reached.contains(page)) {
        match store.pool.look(page) {
            Ok(_) => {}
            Err(error @ Error::Corrupt { .. }) => damaged.push((page, error)),
            Err(error) => return Err(error),
        }
    }
    if !damaged.is_empty() {
        // What was freed meanwhile may hold anything.
        let still: BTreeSet<PageNo> = of_tables()?.flat_map(|(_, pages)| pages).collect();
        let there = damaged.into_iter().filter(|(page, _)| still.contains(page));
        // And what was just being written was not read whole.
        let there = there.filter(|(page, _)| store.pool.look(*page).is_err());
        report.problems.extend(there.map(|(_, error)| error.to_string()));
    }
    if quiet && nothing_left() && store.log.reserved_lsn() == begun {
        let mut lost = 0;
        for (tree, pages) in &used {
            for page in pages.iter().filter(|page| !reached.contains(page)) {
                lost += 1;
                if lost <= 10 {
                    report.problems.push(format!("{page:?} belongs to {tree:?}, which does not lead to it"));
                }
            }
        }
        let used: BTreeSet<PageNo> = used.into_values().flatten().collect();
        let stray = reached.iter().filter(|page| !used.contains(page));
        report
            .problems
            .extend(stray.map(|page| format!("{page:?} is in use and the space map does not know")));
        report.unreachable_pages = Some(lost);
    }
    report.problems.extend(txns.unreadable_sentences(NAMED));
    Ok(report)
}
