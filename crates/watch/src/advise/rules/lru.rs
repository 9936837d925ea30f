//! Free pages: whether threads wait for them, or write pages themselves to get one.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates::{Change, has_lru_flush_size, online};
use crate::advise::words::round_up;

const RULE: &str = "free pages";
/// The article that proposed it found two to four times the number of threads best.
const PAGES_A_THREAD: f64 = 3.0;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let version = facts.version?;
    let pool = &facts.pool;
    let (waits, singles) = (pool.free_waits.unwrap_or(0.0), pool.single_flushes.unwrap_or(0.0));
    if waits + singles <= 0.0 {
        return None;
    }
    let change = if has_lru_flush_size(version) { flush_size(facts) } else { scan_depth(facts) }?;
    let mut evidence = format!("{waits:.0} waits for a free page in {:.0} s", facts.seconds);
    let more = [
        (pool.single_flushes, "pages written by the threads themselves"),
        (pool.lru_pages, "pages/s written from the LRU list"),
        (pool.reads, "pages/s read"),
        (pool.threads, "threads at most"),
    ];
    for (figure, words) in more {
        evidence.push_str(&figure.map_or(String::new(), |figure| format!("; {figure:.0} {words}")));
    }
    Some(Advice {
        rule: RULE,
        urgency: Urgency::of_waits(waits + singles, facts.seconds),
        finding: "threads wait for free pages".to_owned(),
        evidence,
        action: change.action,
        costs: format!("{}; pages leave the pool a little earlier", change.note),
        undo: change.undo,
        sure:
            "that they wait is sure. If it does not get better, the pool is too small for the load, or the \
               device too slow: a larger innodb_buffer_pool_size helps both"
                .to_owned(),
    })
}

/// Proposes the batch that a thread frees at once, and a scan that is deeper than it.
fn flush_size(facts: &Facts) -> Option<Change> {
    let old = facts.settings.number("innodb_lru_flush_size").filter(|old| *old > 0.0)?;
    let depth = facts.settings.number("innodb_lru_scan_depth")?;
    let wanted = round_up(facts.pool.threads? * PAGES_A_THREAD);
    if wanted <= old {
        return scan_depth(facts);
    }
    let deeper = depth.max(2.0 * wanted);
    let mut changes = vec![("innodb_lru_flush_size", old, wanted)];
    if deeper > depth {
        changes.insert(0, ("innodb_lru_scan_depth", depth, deeper));
    }
    Some(online(&changes))
}

/// Proposes as many free pages as are read in a second.
fn scan_depth(facts: &Facts) -> Option<Change> {
    let depth = facts.settings.number("innodb_lru_scan_depth")?;
    let instances = facts.settings.number("innodb_buffer_pool_instances").unwrap_or(1.0).max(1.0);
    let wanted = round_up((facts.pool.reads.unwrap_or(0.0) / instances).max(2.0 * depth));
    Some(online(&[("innodb_lru_scan_depth", depth, wanted)]))
}
