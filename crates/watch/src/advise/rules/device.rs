//! What depends on the file system and the device of the data directory: neighbours, the method of
//! writing, the doublewrite. Only where the server runs on this machine, so that both are known.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates::{self, asks_the_device, has_doublewrite_dir};
use output::units::show_size;

/// File systems on which `O_DIRECT` is known to work for InnoDB.
const DIRECT: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// Decides whether neighbours of a page are written with it.
pub(crate) fn neighbours(facts: &Facts) -> Option<Advice> {
    let pages = facts.writes.pages.filter(|pages| *pages > 0.0)?;
    let old = facts.settings.number("innodb_flush_neighbors").filter(|old| *old > 0.0)?;
    let solid = facts.place.as_ref()?.rotates == Some(false);
    if !solid || asks_the_device(facts.version?) {
        return None;
    }
    let counted = match facts.writes.neighbours {
        Some(0.0) => return None,
        Some(beside) => format!("{beside:.0} of them beside others"),
        None => "how many beside others is not counted".to_owned(),
    };
    let change = gates::online(&[("innodb_flush_neighbors", old, 0.0)]);
    Some(Advice {
        rule: "neighbours",
        urgency: Urgency::Useful,
        finding: "neighbours of a page are written with it, on a device that does not rotate".to_owned(),
        evidence: format!("{pages:.0} pages/s written in {:.0} s, {counted}", facts.seconds),
        action: change.action,
        costs: change.note.to_owned(),
        undo: change.undo,
        sure: "the system says that the device does not rotate; behind a virtual disk may be one that does"
            .to_owned(),
    })
}

/// Decides whether data files bypass the cache of the file system.
pub(crate) fn flush_method(facts: &Facts) -> Option<Advice> {
    let pages = facts.writes.pages.filter(|pages| *pages > 0.0)?;
    let file_system = facts.place.as_ref()?.file_system.filter(|kind| DIRECT.contains(kind))?;
    let old = facts.settings.text("innodb_flush_method")?;
    if !["fsync", "fdatasync", ""].contains(&old.to_lowercase().as_str()) {
        return None;
    }
    let change =
        gates::at_start("innodb_flush_method", if old.is_empty() { "fsync" } else { old }, "O_DIRECT");
    Some(Advice {
        rule: "flush method",
        urgency: Urgency::Useful,
        finding: "each page is in memory twice: in the buffer pool, and in the cache of the file system"
            .to_owned(),
        evidence: format!(
            "innodb_flush_method is {}, the data directory is on {file_system}; {pages:.0} pages/s written in \
             {:.0} s",
            if old.is_empty() { "not set" } else { old },
            facts.seconds
        ),
        action: change.action,
        costs: format!(
            "{}; what the cache has served is read from the device: give that memory to the pool",
            change.note
        ),
        undo: change.undo,
        sure:
            "with a small pool beside much free memory the cache is the larger part, and this makes it worse"
                .to_owned(),
    })
}

/// Decides whether the doublewrite is needed, and whether it is better elsewhere.
pub(crate) fn doublewrite(facts: &Facts) -> Option<Advice> {
    let copies = facts.writes.doublewrite.filter(|copies| *copies > 0.0)?;
    let on = facts.settings.text("innodb_doublewrite")?;
    if facts.settings.is_on("innodb_doublewrite") == Some(false) {
        return None;
    }
    let zfs = facts.place.as_ref().and_then(|place| place.file_system) == Some("zfs");
    if zfs {
        return Some(off(facts, copies, on));
    }
    // Elsewhere only where the writes are behind.
    facts.log.above_soft.filter(|above| *above > 0.0)?;
    let dir = facts.settings.text("innodb_doublewrite_dir").unwrap_or("");
    if !dir.is_empty() || !has_doublewrite_dir(facts.version?) {
        return None;
    }
    let change = gates::at_start("innodb_doublewrite_dir", "(not set)", "a directory on another device");
    Some(Advice {
        rule: "doublewrite",
        urgency: Urgency::Useful,
        finding: "every page is written twice to the device that is behind".to_owned(),
        evidence: copied(facts, copies),
        action: change.action,
        costs: format!("{}; another device, which must be there at each start", change.note),
        undo: change.undo,
        sure: "the writes move; it helps only if the device of the data is the bottleneck. A longer \
               log saves page writes without another device"
            .to_owned(),
    })
}

fn copied(facts: &Facts, copies: f64) -> String {
    let page = facts.settings.number("innodb_page_size").unwrap_or(16384.0);
    let of =
        facts.writes.device_bytes.map_or(String::new(), |all| format!(" of {}/s in all", show_size(all)));
    format!("{copies:.0} copies of pages/s, {}/s{of}, in {:.0} s", show_size(copies * page), facts.seconds)
}

fn off(facts: &Facts, copies: f64, on: &str) -> Advice {
    let change = gates::at_start("innodb_doublewrite", on, "OFF");
    Advice {
        rule: "doublewrite",
        urgency: Urgency::Useful,
        finding: "pages are written twice on ZFS, which tears no page".to_owned(),
        evidence: copied(facts, copies),
        action: change.action,
        costs: format!("{}; the data may then never be moved to a file system that tears pages", change.note),
        undo: change.undo,
        sure: "only if recordsize is a multiple of innodb_page_size: look at zfs get recordsize".to_owned(),
    }
}
