//! The scripts. Each is short, and each forces a mechanism that a crash may meet half done.

mod beside;
mod decay;
mod growth;
mod history;
mod load;
mod places;
mod schema;
mod serial;
mod several;
mod transactions;
mod undoing;
mod waiters;
mod waits;

use crate::driver::Driver;
use crate::subject::{SMALL, Shape};
use base::prng::Prng;

/// A script and the database it runs on.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it forces.
    pub about: &'static str,
    /// How small the database is.
    pub shape: Shape,
    /// What it does, in a world.
    pub script: fn(&Driver),
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Workload {
    /// A number that does not change when workloads are added.
    #[must_use]
    pub fn number(&self) -> u64 {
        u64::from(base::crc::crc32c(self.name.as_bytes()))
    }
}

const TINY_LOG: Shape = Shape { segment_blocks: 8, segments: 8, ..SMALL };
const TINY_POOL: Shape = Shape { frames: 32, ..SMALL };
const BIG_PAGES: Shape = Shape { page_bytes: 16384, ..SMALL };

/// Nearly all undo goes to files.
const TINY_PAST: Shape = Shape { history_memory: 4 << 10, ..SMALL };
/// Room for what must stay in memory of the segments of a few dozen transactions.
const SMALL_PAST: Shape = Shape { history_memory: 24 << 10, ..SMALL };
/// Files hold little.
const SHORT_PAST: Shape = Shape { history_files: 24 << 10, ..TINY_PAST };

/// The disk fills up, or has pages that cannot be read.
const FAULTS: Shape = Shape { faults: true, frames: 32, ..SMALL };
const FAULTS_TINY_LOG: Shape = Shape { faults: true, segment_blocks: 8, ..SMALL };

/// All workloads.
pub const ALL: &[Workload] = &[
    w("splits", "rows in ascending and random order: leaves and inner nodes split", SMALL, growth::splits),
    w("merges", "most rows go again, purge removes them, leaves merge", SMALL, growth::merges),
    w("overflow", "values longer than a page, replaced and deleted", SMALL, growth::overflow),
    w("overflow-undone", "long values in transactions that roll back", SMALL, growth::overflow_undone),
    w("recycle", "updates through many tiny segments of log", TINY_LOG, growth::recycle),
    w("checkpoints", "checkpoints between and beside updates", SMALL, growth::checkpoints),
    w("eviction", "more data than frames: pages go out through the doublewrite", TINY_POOL, growth::eviction),
    w("big-pages", "pages of 16 KiB, torn in more ways", BIG_PAGES, growth::big_pages),
    w("reopen", "closed and opened again between the rows", SMALL, growth::reopen),
    w(
        "full-disk",
        "at rest on a disk that others have filled, opened, rows deleted",
        SMALL,
        growth::full_disk,
    ),
    w("drop-reopen", "let go of without closing, and opened again", TINY_LOG, growth::drop_reopen),
    w("schema", "tables created, renamed, dropped, created again", SMALL, schema::schema),
    w("schema-beside", "tables come and go while another thread writes", SMALL, schema::beside),
    w("schema-in-use", "tables dropped and renamed while others read them", SMALL, schema::in_use),
    w("small-tables", "many small tables come and go in extents that they share", SMALL, schema::small),
    w("drop-full", "a table of many pages dropped, its space used again", TINY_POOL, schema::drop_full),
    w(
        "loads",
        "tables loaded over the pages of dropped ones and of loads given up",
        TINY_POOL,
        load::over_old_pages,
    ),
    w("loads-beside", "tables loaded while others write and take checkpoints", SMALL, load::beside),
    w("loads-long", "tables loaded batch after batch, and given up in the midst", TINY_POOL, load::long),
    w("savepoints", "savepoints, nested, rolled back to and written past", SMALL, transactions::savepoints),
    w(
        "long-commit",
        "a transaction that is open across checkpoints, then commits",
        SMALL,
        transactions::long_commit,
    ),
    w(
        "long-rollback",
        "a transaction that is open across checkpoints, then rolls back",
        TINY_LOG,
        transactions::long_rollback,
    ),
    w(
        "large-rollback",
        "many rows rolled back, their keys used again at once",
        TINY_POOL,
        transactions::large_rollback,
    ),
    w(
        "unfinished",
        "transactions still open when the database is let go of",
        SMALL,
        transactions::unfinished,
    ),
    w("bounded", "commits acknowledged a bounded time before they are durable", SMALL, transactions::bounded),
    w("unsynced", "commits acknowledged at once", TINY_LOG, transactions::unsynced),
    w("prepared", "prepared transactions, decided both ways", SMALL, transactions::prepared),
    w(
        "prepared-reopen",
        "prepared transactions that outlive a restart and checkpoints",
        SMALL,
        transactions::prepared_reopen,
    ),
    w("futures", "commits waited for as futures", SMALL, transactions::futures),
    w(
        "insert-delete",
        "the same keys deleted and inserted again and again",
        SMALL,
        transactions::insert_delete,
    ),
    w("writers", "three threads on keys of their own: group commit", SMALL, several::writers),
    w("same-rows", "three threads count up the same rows", SMALL, several::same_rows),
    w("deadlocks", "threads lock rows in opposite orders", SMALL, several::deadlocks),
    w("transfers", "money moves between rows; a reader sums up", SMALL, several::transfers),
    w(
        "old-snapshot",
        "a reader keeps its snapshot while rows change many times",
        TINY_LOG,
        several::old_snapshot,
    ),
    w("durabilities", "threads with different durability", SMALL, several::durabilities),
    w(
        "checkpoint-race",
        "checkpoints while pages are changed and written",
        TINY_LOG,
        several::checkpoint_race,
    ),
    w(
        "checkpoint-always",
        "a checkpoint as soon as anything has changed",
        TINY_LOG,
        several::checkpoint_always,
    ),
    w("flights", "many small commits: flushes of the log beside each other", SMALL, several::flights),
    w("serializable", "serializable threads check and insert", SMALL, serial::first),
    w(
        "overdrafts",
        "serializable threads read pairs of rows and write one of them",
        SMALL,
        serial::overdrafts,
    ),
    w("hot-row", "a hundred at once want one row", SMALL, waiters::one_row),
    w("hot-rows", "a hundred at once want two of four rows in any order", SMALL, waiters::cycles),
    w("serializable-prepared", "serializable transactions that are prepared first", SMALL, serial::prepared),
    w(
        "spilled",
        "transactions with more undo than memory has room for: undone in part, committed, rolled back",
        TINY_PAST,
        history::spilled,
    ),
    w(
        "segments",
        "readers keep snapshots while committed history goes to segments, across checkpoints",
        SMALL_PAST,
        history::segments,
    ),
    w(
        "segments-long-values",
        "long values replaced and deleted under a snapshot, their undo in segments",
        SMALL_PAST,
        history::long_values,
    ),
    w(
        "queue",
        "rows go from one end and come back in between, beside a snapshot",
        SMALL_PAST,
        history::queue,
    ),
    w(
        "expired",
        "snapshots that expire for want of room: their reads fail or are right",
        SHORT_PAST,
        history::expired,
    ),
    w("crowd", "four threads, a tiny pool, checkpoints", TINY_POOL, several::crowd),
    w("victims", "circles of transactions with much to undo, beside checkpoints", SMALL, beside::victims),
    w(
        "prepared-beside",
        "prepared transactions whose rows others want, while the log goes round",
        TINY_LOG,
        beside::prepared,
    ),
    w(
        "rollbacks-beside",
        "rollbacks in the background, while others want the rows",
        TINY_POOL,
        beside::rollbacks,
    ),
    w(
        "neighbour-fails",
        "a crowd in every wait, and a write or sync that fails in another thread",
        SMALL,
        waits::neighbour_fails,
    ),
    w("closed-beside", "a crowd in every wait, and another thread closes the database", SMALL, waits::closed),
    w("wakers", "futures whose wakers close the database", SMALL, waits::wakers),
    w(
        "full-disk-undo",
        "a transaction that cannot take a part back, because others have taken the last of the space",
        FAULTS,
        undoing::full_disk,
    ),
    w("full-log-undo", "a rollback longer than the log, on a full disk", FAULTS_TINY_LOG, undoing::full_log),
    w(
        "unreadable",
        "a page that cannot be read for a while, under purge and rollback",
        FAULTS,
        undoing::unreadable,
    ),
    w("purge-beside", "rows deleted and inserted again while purge is at them", SMALL, beside::purge),
    w(
        "decayed",
        "many checkpoints, then a page is damaged: named, or all is as it was",
        SMALL,
        decay::decayed,
    ),
    w("others-places", "a new database is pointed at the directories of another", SMALL, places::anothers),
];

const fn w(name: &'static str, about: &'static str, shape: Shape, script: fn(&Driver)) -> Workload {
    Workload { name, about, shape, script }
}

/// A workload by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|w| w.name == name)
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

/// A value that tells where it comes from, of `lo..=hi` bytes more.
fn value(rng: &mut Prng, lo: u64, hi: u64) -> Vec<u8> {
    let mut value = format!("{:08x}", rng.next_u64() as u32).into_bytes();
    let from = value.len();
    value.resize(from + rng.between(lo, hi) as usize, 0);
    rng.fill(&mut value[from..]);
    value
}

/// Whether something stands in for the engine, of which a script asks less than the engine's files and figures: then a few rows
/// are all that is done.
fn stands_in(driver: &Driver) -> bool {
    let stands_in = !driver.is_engine();
    if stands_in {
        driver.create("t");
        fill(driver, "t", 400, 100);
    }
    stands_in
}

fn fill(driver: &Driver, table: &str, rows: u64, bytes: u64) {
    let mut rng = driver.rng(rows ^ bytes);
    let mut n = 0;
    while n < rows {
        let mut tx = driver.tx();
        for _ in 0..40.min(rows - n) {
            tx.put(table, &key(n), &value(&mut rng, bytes / 2, bytes)).expect("nobody is in the way");
            n += 1;
        }
        tx.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_are_unique() {
        let names: BTreeSet<_> = ALL.iter().map(|w| w.name).collect();
        let numbers: BTreeSet<_> = ALL.iter().map(Workload::number).collect();
        assert!(names.len() == ALL.len() && numbers.len() == ALL.len() && ALL.len() >= 20);
    }
}
