//! The catalog: the table of all plain metrics, with name, unit, kind and meaning. To add a metric,
//! add a line here. Everything else follows from it.

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of events or objects.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Pages of the database's page size.
    Pages,
    /// I/O operations given to the device.
    Ios,
    /// I/O operations a second.
    PagesPerSecond,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// A position in the redo stream.
    Lsn,
    /// 0 or 1.
    Flag,
}

impl Unit {
    /// Returns the unit's name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Pages => "pages",
            Unit::Ios => "I/Os",
            Unit::PagesPerSecond => "pages/s",
            Unit::Microseconds => "µs",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Lsn => "LSN",
            Unit::Flag => "0/1",
        }
    }
}

/// How a metric changes, and so how two snapshots are subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows. The difference of two snapshots is what happened between them.
    Counter,
    /// A level. The difference of two snapshots keeps the later value.
    Gauge,
}

impl MetricKind {
    /// Returns the kind's name in Prometheus.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        }
    }
}

/// One line of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct CatalogEntry {
    /// The name by which [`crate::Snapshot::get`] finds it.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How it changes.
    pub kind: MetricKind,
    /// Its meaning, in a sentence or two.
    pub help: &'static str,
}

macro_rules! catalog {
    ($($id:ident $name:literal $unit:ident $kind:ident $help:literal;)*) => {
        /// A plain metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum M { $(#[doc = $help] $id),* }

        impl M {
            /// All metrics, in the catalog's order.
            pub const ALL: &'static [M] = &[$(M::$id),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
        }

        /// The catalog, in the order of [`M`].
        pub const CATALOG: &[CatalogEntry] =
            &[$(CatalogEntry { name: $name, unit: Unit::$unit, kind: MetricKind::$kind, help: $help }),*];
    };
}

impl M {
    /// Returns this metric's line of the catalog.
    #[must_use]
    pub fn entry(self) -> &'static CatalogEntry {
        &CATALOG[self as usize]
    }
}

catalog! {
    // Transactions and rows.
    Commits "commits" Count Counter "Transactions with changes that were committed, prepared ones included.";
    CommitsAsync "commits_async" Count Counter "Those of them that were requested by commit_async.";
    CommitsReadOnly "commits_read_only" Count Counter "Transactions that ended without a change to make durable.";
    Prepares "prepares" Count Counter "Transactions prepared for two-phase commit.";
    Rollbacks "rollbacks" Count Counter "Transactions rolled back, by request, drop or error.";
    RowInserts "row_inserts" Count Counter "Rows inserted by transactions.";
    RowUpdates "row_updates" Count Counter "Rows whose value was replaced by transactions.";
    RowDeletes "row_deletes" Count Counter "Rows deleted by transactions.";
    RowReads "row_reads" Count Counter "Rows returned to callers by get, range and scan.";
    RowReverts "row_reverts" Count Counter "Row versions of aborted transactions that were reverted.";
    ActiveTransactions "active_transactions" Count Gauge "Transactions that have begun and not ended.";
    PreparedTransactions "prepared_transactions" Count Gauge "Prepared transactions that wait for a decision.";
    AbortedTransactions "aborted_transactions" Count Gauge "Aborted transactions that are not yet fully reverted.";
    OpenSnapshots "open_snapshots" Count Gauge "Snapshots that hold back purge.";
    SnapshotsTooOld "snapshots_too_old" Count Counter "Snapshots that expired because there was no room for the versions that they need.";

    // Redo log.
    RedoBytesWritten "redo_bytes_written" Bytes Counter "Bytes of redo records, commit records included, padding excluded.";
    RedoPadBytes "redo_pad_bytes" Bytes Counter "Bytes of padding at seals. A seal makes sure that no two flushes write the same block.";
    RedoGroups "redo_groups" Count Counter "Groups appended to the log: mini-transactions and transaction-state records.";
    LogFlushes "log_flushes" Count Counter "Flushes of the log. Each writes and syncs every segment that it touches.";
    LogBlocksWritten "log_blocks_written" Count Counter "Log blocks of 4096 bytes written, including rewrites of the last block.";
    LogUnsyncedWrites "log_unsynced_writes" Count Counter "Writes of log into the page cache, for commits that are to outlive the process without a sync.";
    LogFlushesInFlight "log_flushes_in_flight" Count Gauge "Flushes of the log in flight.";
    LogFlushDepthMax "log_flush_depth_max" Count Gauge "The most flushes of the log that were in flight at the same time.";
    LogBufferWaits "log_buffer_waits" Count Counter "Times a mini-transaction waited for room in the log buffer.";
    LogSegmentsCreated "log_segments_created" Count Counter "Log segments created and zero-written.";
    LogSegmentsRecycled "log_segments_recycled" Count Counter "Log segments that were used again.";
    CurrentLsn "current_lsn" Lsn Gauge "End of the reserved part of the log.";
    DurableLsn "durable_lsn" Lsn Gauge "All redo below it survives a power cut.";

    // Checkpoint and redo capacity.
    Checkpoints "checkpoints" Count Counter "Checkpoints written to the root.";
    CheckpointLsn "checkpoint_lsn" Lsn Gauge "No redo below it is needed for recovery.";
    PagesFlushedLsn "pages_flushed_lsn" Lsn Gauge "The changes of all pages below it are in the pages file.";
    CheckpointAgeBytes "checkpoint_age_bytes" Bytes Gauge "Redo between the checkpoint LSN and the end of the log.";
    CheckpointAgeLimit "checkpoint_age_limit" Bytes Gauge "Checkpoint age at which new operations would wait.";
    CheckpointAgeTarget "checkpoint_age_target" Bytes Gauge "Checkpoint age that cleaning aims at.";
    CheckpointAgeSoft "checkpoint_age_soft" Bytes Gauge "Checkpoint age above which new operations are delayed.";
    RedoCapacityBytes "redo_capacity_bytes" Bytes Gauge "Redo that the log's segments may hold.";
    RedoHelpfulBytes "redo_helpful_bytes" Bytes Gauge "The greatest useful length of the log: a longer one would hardly save page writes. A capacity that follows from a recovery target is at most this.";
    RedoRate "redo_rate" BytesPerSecond Gauge "Smoothed rate at which redo is written.";
    ReplayRate "replay_rate" BytesPerSecond Gauge "Measured rate at which recovery replays redo; sizes the capacity.";

    // Pages.
    PagesRead "pages_read" Pages Counter "Pages read from the pages file.";
    PageReadsIo "page_reads_io" Ios Counter "Reads of the pages file given to the device.";
    PagesReadAhead "pages_read_ahead" Pages Counter "Those of them that scans read together with another page, before they came to them.";
    PagesReadAheadUnused "pages_read_ahead_unused" Pages Counter "Pages read ahead that were evicted before any use.";
    PagesWritten "pages_written" Pages Counter "Pages written in place, in the pages file.";
    PagesWrittenForeground "pages_written_foreground" Pages Counter "Those of them that a caller's thread wrote although the caller asked for no page write, as checkpoints, closing and bulk loads do. Must stay 0.";
    PageWritesIo "page_writes_io" Ios Counter "In-place page writes given to the device. Neighbouring pages share one.";
    PageBatches "page_batches" Count Counter "Batches of pages that were written in place.";
    DoublewritePages "doublewrite_pages" Pages Counter "Page images written to the doublewrite.";
    DoublewriteBatches "doublewrite_batches" Count Counter "Batches written to the doublewrite.";
    DirtyPages "dirty_pages" Pages Gauge "Pages in the pool that differ from the pages file, those being written included.";
    FreeFrames "free_frames" Pages Gauge "Frames that hold no page.";
    FreeFramesReserve "free_frames_reserve" Pages Gauge "Free frames that the cleaner keeps in reserve.";
    LruPages "lru_pages" Pages Gauge "Pages in the pool.";
    DoublewriteOff "doublewrite_off" Count Gauge "1 while pages are written without a copy, and a power cut may tear them for good.";
    BufferPoolBytes "buffer_pool_bytes" Bytes Gauge "Size of the buffer pool as it was set last.";
    BufferResizes "buffer_resizes" Count Counter "Times the buffer pool got another size while the database was open.";
    BufferFrames "buffer_frames" Pages Gauge "Frames of the buffer pool.";
    BufferOverheadBytes "buffer_overhead_bytes" Bytes Gauge "Memory of the buffer pool beside its pages: control blocks of frames, page table, free list; a part of buffer_pool_bytes.";
    FrameEvictions "frame_evictions" Count Counter "Clean pages evicted to free their frame.";
    FreeFrameWaits "free_frame_waits" Count Counter "Times a thread waited for a free frame.";
    LatchWaits "latch_waits" Count Counter "Times a thread slept for a page latch.";
    CleanerLatchMisses "cleaner_latch_misses" Count Counter "Dirty pages that the cleaner skipped because they were latched.";
    CleanerSteps "cleaner_steps" Count Counter "Steps of the cleaner that wrote at least one page.";
    CleaningBudget "cleaning_budget" PagesPerSecond Gauge "Pages a second that the page writers can clean for the checkpoint.";

    // Admission.
    ThrottledUsTotal "throttled_us_total" Microseconds Counter "Time for which admission delayed row operations.";
    ThrottledOps "throttled_ops" Count Counter "Row operations that admission delayed.";
    HardWaits "hard_waits" Count Counter "Row operations that found the log at its limit and waited. Must stay 0.";
    UndoWaits "undo_waits" Count Counter "Times rollback or purge found no room in the log and waited for the checkpoint.";

    // Locks.
    LockWaits "lock_waits" Count Counter "Locks of rows, ranges and tables that were not granted at once.";
    LockWaitUsTotal "lock_wait_us_total" Microseconds Counter "Time spent waiting for locks.";
    LockTimeouts "lock_timeouts" Count Counter "Operations that ended with LockTimeout, after a wait, or at once if the caller asked not to wait.";
    Deadlocks "deadlocks" Count Counter "Transactions chosen as deadlock victims.";
    DeadlockSearchUsTotal "deadlock_search_us_total" Microseconds Counter "Time spent looking for deadlocks.";
    DeadlockStoodUsMax "deadlock_stood_us_max" Microseconds Gauge "The longest time since the start from the wait that completed a deadlock cycle until the cycle was broken.";
    WriteConflicts "write_conflicts" Count Counter "Operations that found a version newer than their snapshot.";
    RangeLocks "range_locks" Count Gauge "Ranges of keys that serializable transactions have locked by reading them.";
    LocksHeld "locks_held" Count Gauge "Row locks held in queues: locks that were asked for, and locks of uncommitted versions that a transaction waits for.";

    // Trees and space.
    Splits "splits" Count Counter "Tree nodes split.";
    Merges "merges" Count Counter "Tree nodes merged into a sibling, or into a parent that had no other child.";
    DescentRestarts "descent_restarts" Count Counter "Tree descents that released their latches to wait, and began again.";
    OverflowPages "overflow_pages" Pages Counter "Overflow pages written for long values.";
    ExtentsAllocated "extents_allocated" Count Counter "Extents given to a tree, or made shared.";
    ExtentsFreed "extents_freed" Count Counter "Extents that trees returned, and shared extents that no tree used any more.";
    FilePages "file_pages" Pages Gauge "Length of the pages file.";
    FileGrowthsAhead "file_growths_ahead" Count Counter "Growths of the pages file before a caller needed the space.";
    FileGrowthsAwaited "file_growths_awaited" Count Counter "Growths of the pages file by a caller that found no free extent.";
    FileReserveBytes "file_reserve_bytes" Bytes Gauge "The pages file grows when its free space is below this.";
    FreePages "free_pages" Pages Gauge "Unused pages of the pages file: free extents, and free pages of the extents of trees and of shared extents.";
    SpaceMapBytes "space_map_bytes" Bytes Gauge "Memory of what is known about the space map without reading its pages.";

    // Undo and purge.
    UndoBytes "undo_bytes" Bytes Gauge "Memory of undo, with the bookkeeping of each transaction that has undo.";
    UndoFileBytes "undo_file_bytes" Bytes Gauge "Length of the undo files.";
    UndoFetches "undo_fetches" Count Counter "Reads of undo files for undo that was not in memory.";
    StatusBytes "status_bytes" Bytes Gauge "Memory of the status of ended transactions that a snapshot does not see, or that are not purged.";
    LockBytes "lock_bytes" Bytes Gauge "Memory of locks, with the spare capacity of their maps and lists.";
    HistoryBudgetBytes "history_budget_bytes" Bytes Gauge "Memory that undo, status and locks may take together.";
    HeapTrims "heap_trims" Count Counter "Times memory that the engine had freed after a peak was given back to the system. Stays 0 if the allocator is not that of glibc.";
    HeapTrimUsTotal "heap_trim_us_total" Microseconds Counter "Time that this took. Other threads may have waited for an allocation meanwhile.";
    UndoSpilledBytes "undo_spilled_bytes" Bytes Counter "Undo moved from memory to the undo files.";
    UndoHardenedBytes "undo_hardened_bytes" Bytes Counter "Undo of single transactions written to the undo files, for a checkpoint or to free memory.";
    HistoryTransactions "history_transactions" Count Gauge "Committed transactions that are not yet purged.";
    VersionSteps "version_steps" Count Counter "Steps of readers to an older version of a row.";
    ScanMarks "scan_marks" Count Counter "Delete marks that ranges and scans looked at.";
    PurgeRows "purge_rows" Count Counter "Delete-marked rows that purge removed, and old versions that it dropped.";
    TransactionsSetAside "transactions_set_aside" Count Gauge "Ended transactions, or pieces of their history, in quarantine because one of their pages or their undo cannot be read. Each is tried again now and then, and after the next open.";
    TreesWithoutTable "trees_without_table" Count Gauge "Trees that have pages and belong to no table: trees of tables that are being made or loaded, and trees of dropped tables until their pages are free. Freeing them waits while the disk is full or a page of the space map cannot be read.";

    // Recovery.
    RecoveryMs "recovery_ms" Milliseconds Gauge "Time from open until all redo of the last run was applied.";
    RecoveryOpenMs "recovery_open_ms" Milliseconds Gauge "Time from open until the first transaction could begin.";
    RecoveryLeftBytes "recovery_left_bytes" Bytes Gauge "Redo of the last run that replay has still to apply.";
    RecoveryReadBytes "recovery_read_bytes" Bytes Gauge "Log that opening read before the first transaction; the rest is read beside the callers.";
    RecoveryRedoBytes "recovery_redo_bytes" Bytes Gauge "Redo above the checkpoint found at open.";
    TornPagesRestored "torn_pages_restored" Pages Counter "Torn pages restored from the doublewrite.";

    // The flight recorder.
    RecorderSamples "recorder_samples" Count Counter "Samples of all metrics that the flight recorder has written.";
    RecorderBytes "recorder_bytes" Bytes Counter "Bytes of these samples.";
    RecorderUsTotal "recorder_us_total" Microseconds Counter "Time that the flight recorder took.";
    RecorderFailures "recorder_failures" Count Counter "Samples that could not be written, for example because the disk was full. After one the recorder rests for a minute.";

    // The instance.
    Durable "durable" Flag Gauge "1 if synced data survives a power cut; 0 in memory, and if a directory is on a memory file system.";
    DirectIo "direct_io" Flag Gauge "1 if the pages file and the log bypass the page cache; 0 if the file system refuses that.";
    IoUring "io_uring" Flag Gauge "1 if batches of pages use io_uring; 0 if io_uring is not available and threads do them.";
    UptimeSeconds "uptime_seconds" Seconds Gauge "Time since the database was opened.";
    Poisoned "poisoned" Flag Gauge "1 after a failed write or sync. Reopening recovers the database.";
}
