//! [`Db::check`](crate::Db::check): checks all trees, pages and the space map of a database.

use super::db_core::DbCore;
use crate::checkpoint::protection::Protection;
use crate::error::Result;
use base::{PageNo, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most quarantined items that a report lists.
const QUARANTINED_SHOWN_MAX: usize = 10;

/// The result of [`Db::check`](crate::Db::check). As text it is one line, `ok: …`, or one line for
/// each problem, and one for each note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables checked.
    pub tables: u64,
    /// Rows of the tables, those of unfinished transactions included.
    pub rows: u64,
    /// Pages that the trees lead to.
    pub pages: u64,
    /// Splits whose separator key is not yet in the parent page. This is no damage.
    pub unposted_splits: u64,
    /// Pages that belong to a tree but cannot be reached from its root. `None` if it cannot be
    /// known, because transactions were not purged yet or changes were made during the check.
    pub unreachable_pages: Option<u64>,
    /// What is no damage and yet should be known, one sentence each: that the doublewrite is off,
    /// or was off in a run that was cut off.
    pub notes: Vec<String>,
    /// The problems, one sentence each.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether no problem was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            write!(f, "ok: {} tables, {} rows, {} pages", self.tables, self.rows, self.pages)?;
        } else {
            writeln!(f, "{} problems:", self.problems.len())?;
            self.problems.iter().try_for_each(|problem| writeln!(f, "  {problem}"))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

/// Checks all trees, all pages and the space map. The database stays open for others meanwhile.
pub(super) fn check(core: &DbCore) -> Result<CheckReport> {
    // A page that no tree leads to can lack redo too. If replay cannot complete it, the database
    // does not recover, whatever its trees are like.
    core.engine.finish_replay()?;
    let log = &core.engine.store.log;
    let quiet_before = nothing_to_purge(core);
    let log_before = log.reserved_lsn();
    let mut check = Check { core, report: CheckReport::default(), reached: BTreeSet::new() };
    let reached_twice = check.trees()?;
    if log.reserved_lsn() == log_before {
        check.report.problems.extend(reached_twice);
    }
    let used = core.engine.store.space.used_pages()?;
    check.pages_outside_trees()?;
    if quiet_before && nothing_to_purge(core) && log.reserved_lsn() == log_before {
        check.space_map(used);
    }
    let mut report = check.report;
    report.problems.extend(core.engine.txns.ended.unreadable_sentences(QUARANTINED_SHOWN_MAX));
    report.notes.extend(note_on_torn_pages(core.engine.switches().protection()).map(str::to_owned));
    Ok(report)
}

/// Returns what should be known about torn pages.
fn note_on_torn_pages(protection: Protection) -> Option<&'static str> {
    match protection {
        Protection::On => None,
        Protection::Off => Some("the doublewrite is off: a power cut may tear pages that cannot be restored"),
        Protection::WasOff => Some(
            "the doublewrite was off in the last run, which was cut off: a page that is torn is found when its \
             redo is applied, and some redo is left",
        ),
    }
}

/// Whether no transaction has undo, and nothing waits for purge or for a later try.
fn nothing_to_purge(core: &DbCore) -> bool {
    let txns = &core.engine.txns;
    txns.versions.have_no_undo() && txns.ended.unreadable() == 0 && txns.trees.tableless() == 0
}

/// A check in progress.
struct Check<'c> {
    core: &'c DbCore,
    report: CheckReport,
    /// Pages that a tree leads to.
    reached: BTreeSet<PageNo>,
}

impl Check<'_> {
    /// Checks the trees of all tables and of the catalog. Returns a sentence for each page that two
    /// places lead to. That is damage only if nothing changed meanwhile: a page that was freed and
    /// used again during the check is also reached twice.
    fn trees(&mut self) -> Result<Vec<String>> {
        let (catalog, txns) = (&self.core.catalog, &self.core.engine.txns);
        let mut twice = Vec::new();
        let mut trees: Vec<_> = catalog.list().iter().map(|entry| (entry.name(), entry.tree)).collect();
        let report = &mut self.report;
        report.tables = trees.len() as u64;
        trees.push(("(catalog)".to_owned(), catalog.tree()));
        for (name, tree) in trees {
            // Held, so that the table cannot be dropped during its check.
            let Some(_live) = txns.trees.get(tree.id) else { continue };
            let found = tree.check(&self.core.engine.store)?;
            if tree.id != catalog.tree().id {
                report.rows += found.rows;
            }
            report.pages += found.pages.len() as u64;
            report.unposted_splits += found.unposted;
            let problems = found.problems.into_iter();
            report.problems.extend(problems.map(|problem| format!("table {name:?}: {problem}")));
            for page in found.pages {
                if !self.reached.insert(page) {
                    twice.push(format!("table {name:?}: {page:?} hangs from two places"));
                }
            }
        }
        Ok(twice)
    }

    /// Reads the pages of tables that no tree leads to: long values that only undo names. Damage
    /// there would stop purge again and again.
    fn pages_outside_trees(&mut self) -> Result {
        let (store, txns) = (&self.core.engine.store, &self.core.engine.txns);
        // Pages of a tree without a table are left out: a bulk load may be writing them past the
        // pool, and a frame must not keep their old content.
        let has_table = |tree: &TreeId| txns.trees.get(*tree).is_some();
        let of_tables =
            || store.space.used_pages().map(|used| used.into_iter().filter(|(tree, _)| has_table(tree)));
        let all = of_tables()?.flat_map(|(_, pages)| pages);
        let outside: Vec<PageNo> = all.filter(|page| !self.reached.contains(page)).collect();
        let damaged = store.pool.damaged_in_file(&outside)?;
        if damaged.is_empty() {
            return Ok(());
        }
        // A page that was freed meanwhile may hold anything.
        let still_used: BTreeSet<PageNo> = of_tables()?.flat_map(|(_, pages)| pages).collect();
        let damaged = damaged.into_iter().map(|(page, _)| page);
        let damaged: Vec<PageNo> = damaged.filter(|page| still_used.contains(page)).collect();
        // A page that was being written meanwhile is read once more.
        let damaged = store.pool.damaged_in_file(&damaged)?.into_iter();
        self.report.problems.extend(damaged.map(|(_, error)| error.to_string()));
        Ok(())
    }

    /// Compares the pages that trees lead to with the pages in use by the space map. REQUIRES:
    /// nothing has changed since the check began, and nothing is to be purged.
    fn space_map(&mut self, used: BTreeMap<TreeId, Vec<PageNo>>) {
        let problems = &mut self.report.problems;
        let mut unreachable = 0;
        for (tree, pages) in &used {
            for page in pages.iter().filter(|page| !self.reached.contains(page)) {
                unreachable += 1;
                if unreachable <= 10 {
                    problems.push(format!("{page:?} belongs to {tree:?}, which does not lead to it"));
                }
            }
        }
        let used: BTreeSet<PageNo> = used.into_values().flatten().collect();
        let unknown = self.reached.iter().filter(|page| !used.contains(page));
        problems.extend(unknown.map(|page| format!("{page:?} is in use and the space map does not know")));
        self.report.unreachable_pages = Some(unreachable);
    }
}
