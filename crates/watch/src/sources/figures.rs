//! The one schema: the figures of every target, with their meaning, and where a server has them.
//!
//! A name that Millpond's catalog has too means the same there. The figures of a server come from
//! its status variables and from `INNODB_METRICS`; both are read in lower case, the latter with
//! `metric.` before the name.

use output::samples::ColumnKind::{self, Counter, Gauge};

/// A figure of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its unit, for people.
    pub(crate) unit: &'static str,
    /// Counter or gauge.
    pub(crate) kind: ColumnKind,
    /// Where a server has it: the first origin that it has counts.
    pub(crate) origins: &'static [Origin],
    /// Its meaning.
    pub(crate) help: &'static str,
}

/// Where a server has a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// One value.
    Of(&'static str),
    /// One value times a factor.
    Times(&'static str, f64),
    /// A sum.
    Sum(&'static [&'static str]),
    /// The first without the second.
    Less(&'static str, &'static str),
    /// `SHOW ENGINE INNODB STATUS`.
    StatusText(TextFigure),
    /// Computed from other figures or settings; see [`super::of_server`].
    Computed,
}

/// A figure of `SHOW ENGINE INNODB STATUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFigure {
    /// "Log sequence number".
    Current,
    /// "Log flushed up to".
    Flushed,
    /// "Last checkpoint at".
    Checkpoint,
}

use Origin::{Computed, Less, Of, StatusText, Sum, Times};

macro_rules! figures {
    ($($name:literal $unit:literal $kind:ident [$($origin:expr),*] $help:literal;)*) => {
        /// The schema.
        pub(crate) const FIGURES: &[Figure] = &[$(Figure {
            name: $name, unit: $unit, kind: $kind, origins: &[$($origin),*], help: $help,
        }),*];
    };
}

figures! {
    "commits" "count" Counter
        [Of("metric.trx_commits_insert_update"), Of("metric.trx_rw_commits"), Computed, Sum(&["com_commit", "com_xa_commit"]), Of("com_commit")]
        "Transactions with changes that were committed. InnoDB counts those rolled back too; MySQL with its metrics off counts COMMIT statements only.";
    "statement_commits" "count" Counter [Of("handler_commit")]
        "Commits asked of the engines: of each statement and of each transaction, so several for a transaction of several statements.";
    "rollbacks" "count" Counter [Of("metric.trx_rollbacks")]
        "Transactions rolled back: by ROLLBACK, as victims of deadlocks, and where a statement with autocommit failed.";
    "rollback_statements" "count" Counter [Of("com_rollback")] "ROLLBACK statements.";
    "statements" "count" Counter [Of("questions")] "Statements that clients sent.";
    "row_reads" "count" Counter
        [Of("innodb_rows_read"), Of("metric.dml_reads"), Sum(&["handler_read_key", "handler_read_next", "handler_read_prev", "handler_read_rnd", "handler_read_rnd_next"])]
        "Rows read.";
    "row_inserts" "count" Counter [Of("innodb_rows_inserted"), Of("metric.dml_inserts"), Of("handler_write")] "Rows inserted.";
    "row_updates" "count" Counter [Of("innodb_rows_updated"), Of("metric.dml_updates"), Of("handler_update")] "Rows updated.";
    "row_deletes" "count" Counter [Of("innodb_rows_deleted"), Of("metric.dml_deletes"), Of("handler_delete")] "Rows deleted.";

    "current_lsn" "LSN" Gauge
        [Of("innodb_redo_log_current_lsn"), Of("innodb_lsn_current"), Of("metric.log_lsn_current"), StatusText(TextFigure::Current)]
        "End of the redo log.";
    "durable_lsn" "LSN" Gauge
        [Of("innodb_redo_log_flushed_to_disk_lsn"), Of("innodb_lsn_flushed"), Of("metric.log_lsn_last_flush"), StatusText(TextFigure::Flushed)]
        "All redo below it survives a power cut.";
    "checkpoint_lsn" "LSN" Gauge
        [Of("innodb_redo_log_checkpoint_lsn"), Of("innodb_lsn_last_checkpoint"), Of("metric.log_lsn_last_checkpoint"), StatusText(TextFigure::Checkpoint)]
        "No redo below it is needed for recovery.";
    "checkpoint_age_bytes" "bytes" Gauge
        [Less("innodb_redo_log_current_lsn", "innodb_redo_log_checkpoint_lsn"), Of("innodb_checkpoint_age"), Of("metric.log_lsn_checkpoint_age"), Computed]
        "Redo between the checkpoint and the end of the log: what a recovery reads.";
    "checkpoint_age_soft" "bytes" Gauge [Computed]
        "Soft limit of the checkpoint age: from it on InnoDB flushes with full force (its asynchronous point), and Millpond delays writers.";
    "checkpoint_age_limit" "bytes" Gauge [Computed]
        "Limit of the checkpoint age: at it writers wait (InnoDB: synchronous point).";
    "io_capacity_max" "pages" Gauge [Computed]
        "Pages a second that InnoDB writes at most from the soft limit on: innodb_io_capacity_max.";
    "redo_capacity_bytes" "bytes" Gauge [Computed] "Size of the redo log.";
    "redo_bytes_written" "bytes" Counter
        [Of("innodb_redo_log_current_lsn"), Of("innodb_lsn_current"), Of("metric.log_lsn_current"), StatusText(TextFigure::Current)]
        "Redo, by LSN.";
    "log_bytes_written" "bytes" Counter [Of("innodb_os_log_written"), Of("metric.os_log_bytes_written")]
        "Bytes written to the redo log's files, blocks that were written again included.";
    "log_writes" "count" Counter [Of("innodb_log_writes"), Of("metric.log_writes")] "Writes of the redo log.";

    "buffer_frames" "pages" Gauge [Of("innodb_buffer_pool_pages_total")] "Pages that the buffer pool may hold.";
    "lru_pages" "pages" Gauge [Of("innodb_buffer_pool_pages_data")] "Pages in the buffer pool.";
    "dirty_pages" "pages" Gauge [Of("innodb_buffer_pool_pages_dirty")] "Pages in the pool that differ from the file.";
    "free_frames" "pages" Gauge [Of("innodb_buffer_pool_pages_free")] "Free pages of the buffer pool.";
    "dirty_percent" "%" Gauge [Computed] "Dirty pages, of one, the pages in the pool and the free ones.";
    "pages_read" "pages" Counter [Of("innodb_pages_read"), Of("metric.buffer_pages_read")] "Pages read from files.";
    "pages_written" "pages" Counter [Of("innodb_pages_written"), Of("metric.buffer_pages_written")] "Pages written.";
    "pages_flushed_list" "pages" Counter
        [Less("innodb_buffer_pool_pages_flushed", "innodb_buffer_pool_pages_lru_flushed"), Less("innodb_buffer_pool_pages_flushed", "metric.buffer_lru_batch_flush_total_pages")]
        "Pages written from the dirty list, oldest change first.";
    "pages_flushed_lru" "pages" Counter
        [Of("innodb_buffer_pool_pages_lru_flushed"), Of("metric.buffer_lru_batch_flush_total_pages")]
        "Pages written from the LRU list, because free pages were needed.";
    "pages_written_by_force.adaptive" "pages" Counter [Of("metric.buffer_flush_adaptive_total_pages")] "Pages written by adaptive flushing.";
    "pages_written_by_force.background" "pages" Counter [Of("metric.buffer_flush_background_total_pages")] "Pages written at the rate of innodb_io_capacity: by a server that is idle, and in MariaDB also under load, ahead of a checkpoint.";
    "pages_written_by_force.sync" "pages" Counter [Of("metric.buffer_flush_sync_total_pages")] "Pages written with full force, because the age was near its limit or a checkpoint was asked for.";
    "pages_written_as_neighbours" "pages" Counter [Of("metric.buffer_flush_neighbor_total_pages")] "Pages written because they lie beside others; they are counted with those too.";
    "pages_written_by_force.lru" "pages" Counter
        [Of("innodb_buffer_pool_pages_lru_flushed"), Of("metric.buffer_lru_batch_flush_total_pages")]
        "Pages written because free pages were needed.";
    "doublewrite_pages" "pages" Counter [Of("innodb_dblwr_pages_written")] "Pages written to the doublewrite.";

    "fsyncs" "count" Counter [Of("innodb_data_fsyncs"), Of("metric.os_data_fsyncs")] "Syncs of all files of the engine.";
    "log_fsyncs" "count" Counter [Of("innodb_os_log_fsyncs")] "Syncs of the redo log.";
    "device_bytes_written" "bytes" Counter [Computed, Of("innodb_data_written"), Of("metric.buffer_data_written")]
        "Bytes written to all files of the engine: pages, their copies, and the redo log.";
    "pending_reads" "count" Gauge [Of("innodb_data_pending_reads")] "Reads in flight.";
    "pending_writes" "count" Gauge [Of("innodb_data_pending_writes")] "Writes in flight: more than none for long is too much I/O.";
    "pending_fsyncs" "count" Gauge [Of("innodb_data_pending_fsyncs")] "Syncs in flight.";

    "free_frame_waits" "count" Counter [Of("innodb_buffer_pool_wait_free")] "Times a thread waited for a free page.";
    "log_buffer_waits" "count" Counter [Of("innodb_log_waits")] "Times the log buffer was too small.";
    "hard_waits" "count" Counter [Of("metric.buffer_flush_sync_waits")] "Times a writer waited at the limit of the checkpoint age, as far as the server counts them; MariaDB 10.11.19 does not count all.";
    "throttled_us_total" "µs" Counter [] "Time for which writers were delayed.";
    "lock_waits" "count" Counter [Of("innodb_row_lock_waits")] "Row locks that were not granted at once.";
    "lock_wait_us_total" "µs" Counter [Times("innodb_row_lock_time", 1000.0)] "Time spent waiting for row locks.";
    "lock_waiters" "count" Gauge [Of("innodb_row_lock_current_waits")] "Transactions that wait for a row lock.";
    "deadlocks" "count" Counter [Of("innodb_deadlocks"), Of("metric.lock_deadlocks")] "Deadlocks.";
    "history_transactions" "count" Gauge [Of("innodb_history_list_length"), Of("metric.trx_rseg_history_len")]
        "Committed transactions that are not yet purged.";
    "open_connections" "count" Gauge [Of("threads_connected")] "Open connections.";
    "threads_running" "count" Gauge [Of("threads_running")] "Connections that run a statement.";
    "uptime_seconds" "s" Gauge [Of("uptime")] "Time since the start.";

    "processor_us_total" "µs" Counter [Of("host.processor_us_total")] "Processor time of the server's process.";
    "disk_reads" "count" Counter [Of("host.disk_reads")] "Reads of the device of the data directory, also by others.";
    "disk_bytes_read" "bytes" Counter [Of("host.disk_bytes_read")] "Bytes read from that device.";
    "disk_read_us_total" "µs" Counter [Of("host.disk_read_us_total")] "Time that these reads took.";
    "disk_writes" "count" Counter [Of("host.disk_writes")] "Writes to that device.";
    "disk_bytes_written" "bytes" Counter [Of("host.disk_bytes_written")] "Bytes written to that device.";
    "disk_write_us_total" "µs" Counter [Of("host.disk_write_us_total")] "Time that these writes took.";
    "disk_flushes" "count" Counter [Of("host.disk_flushes")] "Flushes of that device's cache.";
    "disk_flush_us_total" "µs" Counter [Of("host.disk_flush_us_total")] "Time that these flushes took.";
    "disk_busy_us_total" "µs" Counter [Of("host.disk_busy_us_total")] "Time for which that device had something to do.";
}

/// Tells whether a figure comes from this machine and not from the server, and so holds for all of
/// its engines.
#[must_use]
pub fn is_of_host(name: &str) -> bool {
    let of_host = |origin: &Origin| matches!(origin, Of(origin) if origin.starts_with(super::host::PREFIX));
    FIGURES.iter().any(|figure| figure.name == name && figure.origins.iter().any(of_host))
}

/// Endings and beginnings of the names of a server's own values that are levels, not counters.
const LEVELS: [&str; 26] = [
    "innodb_buffer_pool_pages_data",
    "innodb_buffer_pool_pages_dirty",
    "innodb_buffer_pool_pages_free",
    "innodb_buffer_pool_pages_misc",
    "innodb_buffer_pool_pages_old",
    "innodb_buffer_pool_pages_total",
    "innodb_buffer_pool_bytes_",
    "innodb_checkpoint_",
    "innodb_data_pending_",
    "innodb_history_list_length",
    "innodb_ibuf_free_list",
    "innodb_ibuf_s",
    "innodb_lsn_",
    "innodb_max_trx_id",
    "innodb_mem_",
    "innodb_num_open_files",
    "innodb_os_log_pending_",
    "innodb_page_size",
    "innodb_redo_log_",
    "innodb_row_lock_current_waits",
    "innodb_row_lock_time_",
    "innodb_undo_tablespaces_",
    "open_",
    "threads_",
    "uptime",
    "max_used_connections",
];

/// Tells whether a server's own status variable is a level or a counter.
pub(crate) fn kind_of_status(name: &str) -> ColumnKind {
    let level = LEVELS.iter().any(|level| name.starts_with(level)) && name != "threads_created";
    if level { Gauge } else { Counter }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_mean_the_same_as_in_the_catalog() {
        let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
        for figure in FIGURES {
            let Some(entry) = metrics::catalog::CATALOG.iter().find(|e| e.name == figure.name) else {
                continue;
            };
            let kind = if entry.kind == metrics::MetricKind::Gauge { Gauge } else { Counter };
            assert_eq!((figure.unit, figure.kind), (entry.unit.label(), kind), "{}", figure.name);
        }
    }

    #[test]
    fn origins_are_in_lower_case_as_they_are_read() {
        for figure in FIGURES {
            for origin in figure.origins {
                let names: Vec<&str> = match origin {
                    Of(name) | Times(name, _) => vec![name],
                    Sum(names) => names.to_vec(),
                    Less(a, b) => vec![a, b],
                    StatusText(_) | Computed => Vec::new(),
                };
                assert!(names.iter().all(|name| *name == name.to_lowercase()), "{}", figure.name);
            }
        }
    }

    #[test]
    fn levels_and_counters_of_a_server() {
        for name in ["innodb_checkpoint_age", "threads_running", "innodb_buffer_pool_pages_dirty", "uptime"] {
            assert_eq!(kind_of_status(name), Gauge, "{name}");
        }
        for name in ["threads_created", "com_commit", "innodb_buffer_pool_pages_flushed", "opened_tables"] {
            assert_eq!(kind_of_status(name), Counter, "{name}");
        }
    }
}
