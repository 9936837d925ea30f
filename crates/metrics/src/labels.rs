//! Labels of the metric families: why a page was written, which file was synced and why, what took
//! time.

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($id:ident $label:literal $help:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum $name { $(#[doc = $help] $id),* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [$name] = &[$($name::$id),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the label as it is printed.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $($name::$id => $label),* }
            }

            /// Returns the meaning of the label.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $($name::$id => $help),* }
            }
        }
    };
}

labels! {
    /// What forced a page to be written.
    Force {
        CheckpointAge "checkpoint_age" "The checkpoint had to advance past the page's redo.",
        FreeFrames "free_frames" "A frame was needed and no clean page could give one.",
        DirtyShare "dirty_share" "Too many of the frames were dirty.",
        Idle "idle" "The device had nothing else to do.",
        Shutdown "shutdown" "The database was closing, or a caller asked for a checkpoint.",
        Recovery "recovery" "A torn page was restored from the doublewrite file.",
        BulkLoad "bulk_load" "A bulk load wrote pages whose content is not in the redo.",
    }
}

labels! {
    /// What kind of file was synced.
    FileKind {
        Log "log" "A redo segment.",
        Pages "pages" "The pages file.",
        Doublewrite "doublewrite" "The doublewrite file.",
        Undo "undo" "An undo file.",
        Root "root" "The root.",
        Dir "dir" "A directory.",
        Lock "lock" "The LOCK file of a directory, which names the database of the directory.",
    }
}

labels! {
    /// Why a file was synced.
    SyncReason {
        Commit "commit" "A commit waited for its durability.",
        Prepare "prepare" "A prepared transaction had to be durable.",
        Bounded "bounded" "The time or byte bound of Durability::Bounded.",
        Purge "purge" "Commits that no caller made durable had to be durable before their undo could be purged.",
        LogFullBuffer "log_full_buffer" "The log buffer was filling up.",
        LogRoll "log_roll" "A segment was closed, created or recycled.",
        WriteAhead "write_ahead" "Write-ahead: the redo of pages had to be durable before the pages were written.",
        Checkpoint "checkpoint" "A checkpoint was taken.",
        Doublewrite "doublewrite" "Page images had to be durable before the in-place writes.",
        PageBatch "page_batch" "In-place writes had to be durable before the doublewrite file was used again.",
        BulkLoad "bulk_load" "Pages of a bulk load had to be durable before it committed.",
        Ddl "ddl" "A table was created, dropped or renamed.",
        Grow "grow" "A file was extended while a caller waited for it.",
        GrowAhead "grow_ahead" "The pages file was extended before a caller needed it.",
        Harden "harden" "Undo was hardened for a checkpoint.",
        Recovery "recovery" "Crash recovery.",
        Create "create" "The database was created.",
        Close "close" "The database was closed.",
    }
}

labels! {
    /// What took time. Each has a histogram.
    Latency {
        Commit "commit_us" "Time from the call of commit to its return, for commits that wait for durability.",
        LogSync "log_sync_us" "Write and sync of one flush of the log.",
        LockWait "lock_wait_us" "One wait for a lock of a row, a range or a table.",
        Admission "admission_us" "One delay imposed on a row operation.",
        FreeFrameWait "free_frame_wait_us" "One wait for a free frame.",
        PageRead "page_read_us" "One read of the pages file, of one page or of many at once.",
    }
}
