//! The workloads: short scripts, each of which forces a mechanism that a crash may interrupt.

mod bookmarks;
mod concurrent;
mod decay;
mod directories;
mod growth;
mod held;
mod history;
mod lives;
mod load;
mod locking;
mod rows;
mod schema;
mod serial;
mod several;
mod sizes;
mod sql;
mod transactions;
mod undoing;
mod waiters;
mod waits;

use crate::driver::Driver;
use crate::shape::{Copies, SMALL, Shape};
use rows::{fill, key, value};

/// A script and the database it runs on.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it forces.
    pub about: &'static str,
    /// The sizes of the database.
    pub shape: Shape,
    /// The script, which runs in a world.
    pub script: fn(&Driver),
    /// How many processes run it, one after the other, on the same database. All but the last are
    /// killed.
    pub lives: u64,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Workload {
    /// Returns a number that follows from the name, so it does not change when workloads are added.
    #[must_use]
    pub fn number(&self) -> u64 {
        u64::from(base::crc::crc32c(self.name.as_bytes()))
    }
}

const TINY_LOG: Shape = Shape { segment_blocks: 8, segments: 8, ..SMALL };
const TINY_POOL: Shape = Shape { frames: 32, ..SMALL };
/// Segments are recycled soon, and pages are written by the doublewrite.
const TINY_LOG_POOL: Shape = Shape { frames: 32, ..TINY_LOG };
/// All pages stay in the pool; the log alone makes the cleaner write them.
const WHOLE_POOL: Shape = Shape { frames: 256, ..TINY_LOG };
const WHOLE_POOL_BIG_PAGES: Shape = Shape { page_bytes: 16384, ..WHOLE_POOL };
const BIG_PAGES: Shape = Shape { page_bytes: 16384, ..SMALL };

/// Nearly all undo goes to files.
const TINY_PAST: Shape = Shape { history_memory: 4 << 10, ..SMALL };
/// Memory for the part of the history batches of a few dozen transactions that must stay in memory.
const SMALL_PAST: Shape = Shape { history_memory: 24 << 10, ..SMALL };
/// The undo files may hold little.
const SHORT_PAST: Shape = Shape { history_files: 24 << 10, ..TINY_PAST };

/// No copies of pages, on a disk that tears them and on one that does not.
const TORN: Shape = Shape { doublewrite: Copies::Missing, ..TINY_POOL };
const ATOMIC: Shape = Shape { doublewrite: Copies::NotNeeded, ..TINY_POOL };

/// The disk can be full, or have pages that cannot be read.
const FAULTS: Shape = Shape { faults: true, frames: 32, ..SMALL };
const FAULTS_TINY_LOG: Shape = Shape { faults: true, segment_blocks: 8, ..SMALL };

/// All workloads.
pub const ALL: &[Workload] = &[
    w("splits", "rows in ascending and random order: leaves and inner nodes split", SMALL, growth::splits),
    w("merges", "most rows are deleted, purge removes them, leaves merge", SMALL, growth::merges),
    w("overflow", "values longer than a page, replaced and deleted", SMALL, growth::overflow),
    w("overflow-steps", "values so long that they are freed in steps", TINY_POOL, growth::overflow_steps),
    w("overflow-undone", "long values in transactions that roll back", SMALL, growth::overflow_undone),
    w("recycle", "updates through many tiny segments of log", TINY_LOG, growth::recycle),
    w("checkpoints", "checkpoints between updates and during them", SMALL, growth::checkpoints),
    w("eviction", "more data than frames: pages are written by the doublewrite", TINY_POOL, growth::eviction),
    w("big-pages", "pages of 16 KiB, which can tear in more ways", BIG_PAGES, growth::big_pages),
    w("reopen", "closed and opened again between the rows", SMALL, growth::reopen),
    w(
        "full-disk",
        "a closed database on a disk that others fill, opened again, rows deleted",
        SMALL,
        growth::full_disk,
    ),
    w("drop-reopen", "dropped without closing, and opened again", TINY_LOG, growth::drop_reopen),
    w("schema", "tables created, renamed, dropped, created again", SMALL, schema::schema),
    w("schema-beside", "tables created and dropped while another thread writes", SMALL, schema::beside),
    w("schema-in-use", "tables dropped and renamed while others read them", SMALL, schema::in_use),
    w("small-tables", "many small tables created and dropped in shared extents", SMALL, schema::small),
    w("drop-full", "a table of many pages dropped, its space used again", TINY_POOL, schema::drop_full),
    w(
        "loads",
        "bulk loads into pages of dropped tables and abandoned loads",
        TINY_POOL,
        load::over_old_pages,
    ),
    w("loads-beside", "bulk loads while others write and take checkpoints", SMALL, load::beside),
    w("loads-long", "bulk loads of many batches, some abandoned half way", TINY_POOL, load::long),
    w(
        "savepoints",
        "nested savepoints, rollbacks to them, writes after them",
        SMALL,
        transactions::savepoints,
    ),
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
        "many rows rolled back, their keys written again at once",
        TINY_POOL,
        transactions::large_rollback,
    ),
    w(
        "unfinished",
        "transactions that are open when the database is dropped",
        SMALL,
        transactions::unfinished,
    ),
    w("bounded", "commits acknowledged a bounded time before they are durable", SMALL, transactions::bounded),
    w("unsynced", "commits acknowledged at once", TINY_LOG, transactions::unsynced),
    w("prepared", "prepared transactions, committed and rolled back", SMALL, transactions::prepared),
    w(
        "prepared-reopen",
        "prepared transactions across a restart and checkpoints",
        SMALL,
        transactions::prepared_reopen,
    ),
    w("futures", "commits by futures", SMALL, transactions::futures),
    w(
        "insert-delete",
        "the same keys deleted and inserted again and again",
        SMALL,
        transactions::insert_delete,
    ),
    w("writers", "three threads on different keys: group commit", SMALL, several::writers),
    w("same-rows", "three threads increment the same rows", SMALL, several::same_rows),
    w("deadlocks", "threads lock rows in opposite orders", SMALL, several::deadlocks),
    w("transfers", "money moves between rows; a reader adds them up", SMALL, several::transfers),
    w(
        "old-snapshot",
        "a reader keeps its snapshot while rows change many times",
        TINY_LOG,
        several::old_snapshot,
    ),
    w("durabilities", "threads with different durability", SMALL, several::durabilities),
    w("written", "commits that outlive the process, and synced ones", TINY_LOG, several::written),
    Workload {
        lives: 4,
        ..w("written-lives", "processes with such commits, one after the other", TINY_LOG, several::written)
    },
    w(
        "checkpoint-race",
        "checkpoints while pages are being changed and written",
        TINY_LOG,
        several::checkpoint_race,
    ),
    w(
        "checkpoint-always",
        "a checkpoint as soon as anything has changed",
        TINY_LOG,
        several::checkpoint_always,
    ),
    w(
        "overlapping-flushes",
        "many small commits: several log flushes in flight at once",
        SMALL,
        several::overlapping_flushes,
    ),
    w("serializable", "serializable transactions scan and insert", SMALL, serial::first),
    w(
        "overdrafts",
        "serializable transactions read pairs of rows and write one of them (write skew)",
        SMALL,
        serial::overdrafts,
    ),
    w("hot-row", "a hundred transactions lock the same row", SMALL, waiters::one_row),
    w("hot-rows", "a hundred transactions lock two of four rows in any order", SMALL, waiters::cycles),
    w("hot-ranges", "writers beside scanners that always lock their range", SMALL, waiters::ranges),
    w(
        "locking-scans",
        "scans that lock rows and gaps beside lookups, inserts and deletes",
        SMALL,
        locking::scans,
    ),
    w("serializable-prepared", "serializable transactions that are prepared first", SMALL, serial::prepared),
    w(
        "spilled",
        "transactions with more undo than fits into memory: partly undone, committed, rolled back",
        TINY_PAST,
        history::spilled,
    ),
    w(
        "segments",
        "readers hold snapshots while committed history goes to batches in undo files, across checkpoints",
        SMALL_PAST,
        history::batches,
    ),
    w(
        "segments-long-values",
        "long values replaced and deleted under a snapshot, their undo in history batches",
        SMALL_PAST,
        history::long_values,
    ),
    w(
        "queue",
        "a queue under an old snapshot: rows leave at one end, some come back in the deleted range",
        SMALL_PAST,
        history::queue,
    ),
    w(
        "expired",
        "snapshots that expire for want of room: their reads fail or are right",
        SHORT_PAST,
        history::expired,
    ),
    w("crowd", "four threads, a tiny pool, checkpoints", TINY_POOL, several::mixed),
    w("pool-sizes", "the buffer pool gets other sizes while threads write", SMALL, sizes::pool),
    w(
        "pool-sizes-tiny",
        "a pool that shrinks to a few frames under threads that make pages",
        SMALL,
        sizes::tiny_pool,
    ),
    w(
        "doublewrite-off",
        "pages are torn without a copy: each is named, and no row is wrong",
        TORN,
        sizes::off,
    ),
    w("doublewrite-switched", "the doublewrite is switched on and off", TORN, sizes::switched),
    w(
        "doublewrite-atomic",
        "no doublewrite, on a disk that writes a page whole or not at all",
        ATOMIC,
        sizes::off,
    ),
    w(
        "directories-moved",
        "log and doublewrite move to other directories under writers",
        TINY_LOG_POOL,
        sizes::moved,
    ),
    w("victims", "deadlock victims with much to undo, and checkpoints", SMALL, concurrent::victims),
    w(
        "prepared-beside",
        "prepared transactions whose rows others wait for, while log segments are recycled",
        TINY_LOG,
        concurrent::prepared,
    ),
    w(
        "bookmarks",
        "commits with bookmarks, some of which their coordinator could repeat, beside commits without",
        TINY_LOG,
        bookmarks::beside,
    ),
    w(
        "held",
        "transactions that their sessions prepare and hold, decided in order, by name and not at all",
        TINY_LOG,
        held::beside,
    ),
    w("held-reopen", "held transactions that the end of a process leaves undecided", SMALL, held::reopen),
    w(
        "rollbacks-beside",
        "rollbacks in the background, while others wait for the rows",
        TINY_POOL,
        concurrent::rollbacks,
    ),
    w(
        "neighbour-fails",
        "sessions in every wait when a write or sync fails in another thread",
        SMALL,
        waits::neighbour_fails,
    ),
    w(
        "closed-beside",
        "sessions in every wait when another thread closes the database",
        SMALL,
        waits::closed,
    ),
    w("wakers", "futures whose wakers close the database", SMALL, waits::wakers),
    w(
        "full-disk-undo",
        "a rollback to a savepoint that fails because others have taken the last of the space",
        FAULTS,
        undoing::full_disk,
    ),
    w(
        "full-disk-snapshot",
        "a snapshot held on a full disk while others delete, and let go of",
        TINY_LOG,
        undoing::full_snapshot,
    ),
    w("full-log-undo", "a rollback longer than the log, on a full disk", FAULTS_TINY_LOG, undoing::full_log),
    w(
        "unreadable",
        "a page that cannot be read for a while, during purge and rollback",
        FAULTS,
        undoing::unreadable,
    ),
    w("purge-beside", "rows deleted and inserted again while purge works on them", SMALL, concurrent::purge),
    w(
        "decayed",
        "a page is damaged after many checkpoints: the damage is named, or changes nothing",
        SMALL,
        decay::decayed,
    ),
    w(
        "index-rows",
        "rows with entries in a unique index; conflicts and statements undone",
        SMALL,
        sql::index_rows,
    ),
    w("numbered", "rows numbered by the counters of their tables", TINY_LOG, sql::numbered),
    w("table-sets", "sets of tables created, exchanged, replaced, dropped", SMALL, sql::table_sets),
    Workload {
        lives: 4,
        ..w(
            "lives",
            "four processes, each killed but the last, that work at once beside replay, scans and checkpoints",
            WHOLE_POOL,
            lives::at_once,
        )
    },
    Workload {
        lives: 4,
        ..w("lives-big-pages", "the same with pages of 16 KiB", WHOLE_POOL_BIG_PAGES, lives::at_once)
    },
    w("others-places", "a new database is given directories of another one", SMALL, directories::foreign),
];

const fn w(name: &'static str, about: &'static str, shape: Shape, script: fn(&Driver)) -> Workload {
    Workload { name, about, shape, script, lives: 1 }
}

/// Returns a workload by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|w| w.name == name)
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
