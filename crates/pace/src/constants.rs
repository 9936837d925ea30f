//! The table of the constants that steer: times, rates, parts and limits by which the functions of
//! this crate and the threads of the engine decide. All else follows from what is measured.
//!
//! Each has its unit and its reason, or the number of the decision that has it (`docs/decisions`).
//! What must hold between two of them is an assertion below them, so no build breaks it. Most
//! decisions were measured on machines with two cores.
//!
//! A name begins with its subject, and its end says what it is: `_US` microseconds, `_S` seconds,
//! `_BYTES` bytes, `_SHARE` a number from 0 to 1, `_PART` one n-th of something.
//!
//! Not here: the numbers of InnoDB's law (`innodb`), which are InnoDB's, and numbers that belong to
//! one mechanism alone, like the size of a buffer. They stand where they are used.

// Cleaning: when the cleaner takes a step, and how many pages it orders.

/// The shortest time between two steps of the cleaner. Each takes samples of the pool and the log.
pub(crate) const CLEANING_STEP_US_MIN: u64 = 2_000;
/// The longest time between two steps, and the longest time that one step counts: after a long
/// sleep one step does not spend the budget of the whole sleep.
pub(crate) const CLEANING_STEP_US_MAX: u64 = 100_000;
const _: () = assert!(CLEANING_STEP_US_MIN < CLEANING_STEP_US_MAX);

/// Between two steps the log grows by at most this part of its target.
pub(crate) const CLEANING_GROWTH_PART: f64 = 8.0;
/// A batch that is smaller than it could be waits for more pages during this part of the time in
/// which the log grows so much.
pub(crate) const CLEANING_GATHER_PART: u64 = 4;
/// The longest such wait. Each batch costs two syncs (decision 0147).
pub(crate) const CLEANING_GATHER_US_MAX: u64 = 20_000;
const _: () = assert!(CLEANING_GATHER_US_MAX < CLEANING_STEP_US_MAX, "it ends before the next step");

/// Pages that a step should be worth, about: the syncs of a batch then cost little for each page.
pub(crate) const CLEANING_BATCH_PAGES: f64 = 256.0;
/// So much of the wanted cleaning may be ordered and not done yet, seconds. A device that was slow
/// for a while need not make up for it.
pub const CLEANING_BACKLOG_S: f64 = 0.1;
const _: () = assert!(CLEANING_BACKLOG_S * 1e6 >= CLEANING_STEP_US_MAX as f64, "one step orders so much");

/// The distance to a deadline is bent over this part of the target, so that it never reaches 0.
pub(crate) const CLEANING_BEND_PART: f64 = 16.0;
/// Bins of the log's capacity by which dirty pages are counted for the governor. All pages of a
/// bin have the deadline of its middle.
pub const CLEANING_AGE_BINS: u64 = 64;
// The target is more than two fifths of the capacity (`age_limits`).
const CLEANING_AGE_BINS_OF_TARGET: f64 = CLEANING_AGE_BINS as f64 * 2.0 / 5.0;
const _: () = assert!(CLEANING_AGE_BINS_OF_TARGET > CLEANING_BEND_PART, "a bin is less than what is bent");
const _: () = assert!(CLEANING_AGE_BINS_OF_TARGET > CLEANING_GROWTH_PART, "and than a step's growth");

/// An idle database writes its dirty pages within this time, seconds: then it recovers at once.
pub(crate) const CLEANING_IDLE_S: f64 = 60.0;
/// The least rate of idle cleaning, pages a second. Without it the last pages would take for ever.
pub(crate) const CLEANING_IDLE_PAGES_PER_S_MIN: u64 = 16;
/// The log is quiet if it would need this long to grow to its target, seconds.
pub(crate) const CLEANING_QUIET_FILL_S: f64 = 600.0;
const _: () = assert!(CLEANING_IDLE_S < CLEANING_QUIET_FILL_S, "a quiet log leaves time for idle cleaning");
/// Idle cleaning uses at most this share of the budget: it is never urgent.
pub(crate) const CLEANING_IDLE_SHARE: f64 = 0.125;
const _: () = assert!(CLEANING_IDLE_SHARE <= BUDGET_FLOOR_CHECKPOINT_SHARE, "the supply of frames leaves it");

/// Cleaning for too many dirty frames begins at this share of the pool: clean pages are left, whose
/// frames cost nothing.
pub(crate) const CLEANING_DIRTY_SHARE: f64 = 0.70;
const _: () = assert!(
    CLEANING_DIRTY_SHARE < 1.0 - 1.0 / FREE_FRAMES_POOL_PART as f64,
    "the free frames fit beside them"
);
/// It removes the excess within this time, seconds.
pub(crate) const CLEANING_DIRTY_EXCESS_S: f64 = 1.0;
/// Victims that a step cleans beyond the budget at most. The budget is only an estimate, and a
/// thread that waits for a frame is not background work.
pub(crate) const CLEANING_VICTIMS_AT_ONCE_MAX: u64 = 64;

// The budget of all page writes (Fl2). Its unit is the time of a page writer.

/// Page writers that work at the same time: while one waits for the device, the other one copies
/// (decision 0147).
pub const PAGE_WRITERS: usize = 2;
/// The share of the writers' time that is left to reads and commits: a device serves them better if
/// it has a pause.
const BUDGET_FOREGROUND_SHARE: f64 = 0.1;
/// The time that page writers may use, microseconds a second.
pub const BUDGET_US_PER_S: f64 = PAGE_WRITERS as f64 * 1e6 * (1.0 - BUDGET_FOREGROUND_SHARE);
const _: () = assert!(0.0 < BUDGET_US_PER_S && BUDGET_US_PER_S < PAGE_WRITERS as f64 * 1e6);

/// The share of the budget that cleaning for the checkpoint gets whenever it needs it.
pub(crate) const BUDGET_FLOOR_CHECKPOINT_SHARE: f64 = 0.30;
/// The share of the budget that the supply of free frames gets whenever it needs it. The rest goes
/// to the use that needs more.
pub(crate) const BUDGET_FLOOR_FREE_FRAMES_SHARE: f64 = 0.25;
const _: () = assert!(BUDGET_FLOOR_CHECKPOINT_SHARE + BUDGET_FLOOR_FREE_FRAMES_SHARE <= 1.0);

/// Batches with fewer units (pages, or I/Os) say nothing of the cost of a unit: their two syncs are
/// most of it.
pub(crate) const WRITE_COST_UNITS_MIN: u64 = 8;
/// The cost of a unit that is assumed before the first batch, microseconds.
pub(crate) const WRITE_COST_US_GUESS: f64 = 500.0;
/// The least cost of a unit, microseconds: above 0, because others are divided by it.
pub(crate) const WRITE_COST_US_MIN: f64 = 0.1;
/// The highest cost of a unit, microseconds: that of a spinning disk.
pub(crate) const WRITE_COST_US_MAX: f64 = 20_000.0;
const _: () = assert!(0.0 < WRITE_COST_US_MIN && WRITE_COST_US_MIN < WRITE_COST_US_GUESS);
const _: () = assert!(WRITE_COST_US_GUESS < WRITE_COST_US_MAX);
/// The weight of a batch that was cheaper than the estimate.
pub(crate) const WRITE_COST_CHEAPER_SHARE: f64 = 0.25;
/// The weight of a dearer one, which may be slow for another reason.
pub(crate) const WRITE_COST_DEARER_SHARE: f64 = 0.05;
const _: () = assert!(WRITE_COST_DEARER_SHARE < WRITE_COST_CHEAPER_SHARE && WRITE_COST_CHEAPER_SHARE < 1.0);

// Estimates: smoothed rates, and the number of threads.

/// Time constant of the quick average of a rate, microseconds.
pub(crate) const RATE_QUICK_US: f64 = 250_000.0;
/// Time constant of its slow average, microseconds: the end of a burst is believed that much later.
pub(crate) const RATE_SLOW_US: f64 = 4_000_000.0;
// The cleaner takes a sample in each step.
const _: () = assert!(RATE_QUICK_US > CLEANING_STEP_US_MAX as f64 && RATE_SLOW_US > RATE_QUICK_US);

/// Time in which an old maximum of the number of threads decays to about a third, microseconds.
pub(crate) const THREADS_FORGET_US: f64 = 2_000_000.0;
const _: () = assert!(THREADS_FORGET_US > CLEANING_STEP_US_MAX as f64, "a maximum outlives many samples");
/// The least number of threads that is ever assumed. The engine's own threads count too.
pub const THREADS_MIN: u64 = 4;

// The free-frame reserve (Bp5).

/// Frames that are kept free for each thread: as many as it takes at most before the cleaner's next
/// batch ends, for a leaf and an inner node that it reads, and for the new pages of a split.
pub(crate) const FREE_FRAMES_A_THREAD: u64 = 4;
/// The reserve is at most this part of the pool: it is memory that caches nothing.
pub(crate) const FREE_FRAMES_POOL_PART: u64 = 8;

// Admission: the limits on the scale of the checkpoint age, and how long operations wait (Fl6).

/// The most redo that one mini-transaction writes, bytes (Pa6).
pub const MTR_REDO_BYTES_MAX: u64 = 64 << 10;
/// The most mini-transactions that one thread may still run after its operation was admitted: the
/// row change, two splits, a separator.
pub(crate) const ADMISSION_MTRS_A_THREAD: u64 = 4;
/// The least room between the soft limit and the hard one, unless that is more than a quarter of
/// the log, bytes: what writers may write while a batch of pages is on its way (decision 0174).
pub(crate) const ADMISSION_SOFT_ROOM_BYTES: u64 = 2 << 20;

/// The least rate of cleaning that is used, bytes of redo a second: a short stop of the device must
/// not delay one operation for minutes.
pub(crate) const ADMISSION_CLEAN_BYTES_PER_S_MIN: f64 = 512.0 * 1024.0;
/// The highest price of one operation, nanoseconds.
pub(crate) const ADMISSION_PRICE_NS_MAX: f64 = 1e9;
/// A shorter delay is not slept, microseconds: a sleep and a wake cost as much. The debt stays in
/// the queue for the next operations.
pub(crate) const ADMISSION_DELAY_US_MIN: u64 = 100;
/// The longest that an operation is delayed before it asks again, with the age at that time,
/// microseconds.
pub(crate) const ADMISSION_DELAY_US_MAX: u64 = 50_000;
const _: () = assert!(ADMISSION_DELAY_US_MIN < ADMISSION_DELAY_US_MAX);
const _: () = assert!(
    ADMISSION_PRICE_NS_MAX > ADMISSION_DELAY_US_MAX as f64 * 1e3,
    "one dear operation fills the queue, and those behind it ask again"
);

/// For so long the last measured rate of cleaning is used as it is, microseconds.
pub(crate) const ADMISSION_BELIEVED_US: u64 = 100_000;
const _: () =
    assert!(ADMISSION_BELIEVED_US >= CLEANING_STEP_US_MAX, "a cleaner in its longest sleep is believed");
/// The cleaner is woken if it has not set the limits for this long, microseconds.
pub const ADMISSION_SILENCE_US: u64 = 1_000;
const _: () = assert!(ADMISSION_SILENCE_US < CLEANING_STEP_US_MIN, "else its next step comes first");

/// Redo of rollback and purge that is admitted at once above their delay limit, bytes.
pub const UNDO_SLICE_BYTES: u64 = 64 << 10;
const _: () = assert!(
    4 * UNDO_SLICE_BYTES <= ADMISSION_SOFT_ROOM_BYTES,
    "it fits between the delay limit and the hard one: a quarter of the room"
);
/// All slices together log this part of what is cleaned. Writers log a third at the delay limit, so
/// the age falls.
pub(crate) const UNDO_CLEAN_PART: f64 = 4.0;
const _: () = assert!(1.0 / UNDO_CLEAN_PART + 1.0 / 3.0 < 1.0);
/// The shortest pause before the next slice, microseconds.
pub(crate) const UNDO_PAUSE_US_MIN: u64 = 10_000;

// A full disk: there may be space once purge and rollback have removed what a checkpoint has to
// write, or once other programs have removed files.

/// After a growth of a file that found no disk space the next one is tried so much later,
/// microseconds (decision 0011).
pub const FULL_DISK_AGAIN_US: u64 = 10_000_000;
/// An operation fails when it has waited so long for disk space, microseconds.
pub const FULL_DISK_WAIT_US: u64 = 10_000_000;
const _: () = assert!(FULL_DISK_WAIT_US >= FULL_DISK_AGAIN_US, "a growth is tried while it waits");
/// It fails earlier when nothing has made progress for so long, microseconds, and the cleaner has
/// done this many steps meanwhile.
pub const FULL_DISK_NO_PROGRESS_US: u64 = 200_000;
/// The number of these steps: a single one may have begun before the operation did.
pub const FULL_DISK_ROUNDS: u64 = 2;
const _: () = assert!(
    FULL_DISK_NO_PROGRESS_US >= FULL_DISK_ROUNDS * CLEANING_STEP_US_MAX
        && FULL_DISK_NO_PROGRESS_US < FULL_DISK_WAIT_US,
    "a cleaner that has a core does its steps in this time"
);
/// The time between two looks at this progress, microseconds.
pub const FULL_DISK_RECHECK_US: u64 = 2_000;
const _: () = assert!(FULL_DISK_RECHECK_US < FULL_DISK_NO_PROGRESS_US);

// The size of the log: files (segments), their number, and checkpoints that free them.

/// A log that is written to needs at least so many files: one that is being left, one that is being
/// written, two ahead.
pub const LOG_FILES_MIN: u64 = 4;
/// A log without activity can be in two files: the one that is written, and one ahead.
pub const LOG_FILES_AT_REST: u64 = 2;
const _: () = assert!(LOG_FILES_AT_REST < LOG_FILES_MIN);
/// A log of at least so many files grows in the cleaner's usual steps: its free space lasts until
/// the next step, and the zeros of new files share the device with commits. A shorter log may be
/// full before the cleaner's next step.
pub const LOG_FILES_SHORT: u64 = 16;
const _: () = assert!(LOG_FILES_MIN < LOG_FILES_SHORT);
/// In one of these steps it grows by this part of its files.
pub const LOG_GROWTH_PART: u64 = 8;
const _: () = assert!(LOG_FILES_SHORT >= LOG_GROWTH_PART, "it grows by a file at least");
/// The most files that one step makes for a short log.
pub const LOG_FILES_PER_STEP: u64 = 4;
const _: () = assert!(
    LOG_FILES_PER_STEP >= LOG_FILES_SHORT / LOG_GROWTH_PART,
    "a short log grows no slower than the shortest of the others"
);

/// The rate of replay that is assumed before one was measured, bytes of redo a second.
pub(crate) const LOG_REPLAY_BYTES_PER_S_GUESS: u64 = 250_000_000;
/// The least capacity that follows from a recovery target, bytes. With a smaller log the engine
/// would do nothing but clean.
pub(crate) const LOG_CAPACITY_BYTES_MIN: u64 = 64 << 20;
/// A log of this size costs nobody anything, bytes (decision 0174).
pub(crate) const LOG_HELPFUL_BYTES_MIN: u64 = 256 << 20;
const _: () = assert!(LOG_CAPACITY_BYTES_MIN <= LOG_HELPFUL_BYTES_MIN, "the least log is helpful");
/// A log of so many times the bytes of the dirty pages is long enough (decision 0174). With a
/// working set of W bytes and a log that is cleaned at two thirds of its size, pages write W twice
/// (copy and place) for 2/3 * 4 * W bytes of redo: three bytes for four.
pub(crate) const LOG_HELPFUL_TIMES_DIRTY: u64 = 4;
/// The log gets shorter if less than half of its length was useful for so long, microseconds. So a
/// pause between two bursts does not remove files that the next burst would make again.
pub(crate) const LOG_HELPFUL_LOWER_AFTER_US: u64 = 60_000_000;
const _: () = assert!(LOG_HELPFUL_LOWER_AFTER_US as f64 > RATE_SLOW_US, "the burst is over by every average");

/// A checkpoint that could advance is written at least this often, microseconds, so that a quiet
/// database has a short log.
pub(crate) const CHECKPOINT_EVERY_US: u64 = 1_000_000;
const _: () = assert!(CHECKPOINT_EVERY_US >= CLEANING_STEP_US_MAX, "a step of the cleaner writes it");

/// Where a caller makes the log longer at once, each new file is followed by a pause of so many
/// times what it took: commits wait for the same device.
pub const LOG_PAUSE_TIMES: u64 = 3;
/// No such pause is longer, microseconds.
pub const LOG_PAUSE_US_MAX: u64 = 200_000;
/// A database that writes no more than this is idle, bytes of redo a second: it gives up unused
/// space of its file too.
pub const LOG_IDLE_BYTES_PER_S: u64 = 1 << 20;
/// After a shrink under load the files that are left hold at least the redo of this many seconds.
pub const LOG_KEPT_S: u64 = 2;
/// The redo rate that decides about it is measured over at least this time, microseconds: over a
/// shorter one it is too uncertain.
pub const LOG_RATE_US_MIN: u64 = 10_000;

// Flushes of the log (group commit).

/// How many flushes usually overlap. A second flush uses the time that the first spends in the
/// device. For a third there are too few committers left, and it costs a sync and a padded block
/// (decision 0020).
pub(crate) const LOG_FLUSHES_OVERLAP: u32 = 2;
/// More flushes overlap while the latest one takes more than so many times its usual time.
pub(crate) const LOG_FLUSH_SLOW_TIMES: u64 = 2;

// Reading ahead, and the frames of long scans (Bp6, Bp8, decision 0175).

/// The most leaves that are read together.
pub(crate) const READ_AHEAD_LEAVES_MAX: u32 = 64;
/// Leaves that a scan reads alone before it reads ahead: most scans end soon.
pub(crate) const READ_AHEAD_ALONE_LEAVES: u32 = 2;
/// Leaves that it reads together at first. From then on it reads twice as many each time.
pub(crate) const READ_AHEAD_FIRST_LEAVES: u32 = 4;
const _: () = assert!(1 < READ_AHEAD_FIRST_LEAVES && READ_AHEAD_FIRST_LEAVES <= READ_AHEAD_LEAVES_MAX);

/// Scans whose batches have room in the ring of frames that all long scans share: a batch takes all
/// its frames before it gives one back.
pub const SCAN_RING_BATCHES: usize = 4;
/// The ring is at most this part of the pool.
pub const SCAN_RING_POOL_PART: usize = 8;
/// And it has at most so many frames.
pub const SCAN_RING_FRAMES_MAX: usize = SCAN_RING_BATCHES * READ_AHEAD_LEAVES_MAX as usize;
/// At most this part of the pool is read together: a 32nd, which is the part of one scan in the
/// ring.
pub(crate) const READ_AHEAD_POOL_PART: u64 = (SCAN_RING_BATCHES * SCAN_RING_POOL_PART) as u64;

/// A scan is long when it has read this part of the pool. A value that is longer than this part is
/// not kept in the pool either.
pub const SCAN_LONG_POOL_PART: usize = 32;
/// But not before it has read this many pages: in a small pool the part is a few pages.
pub const SCAN_LONG_PAGES_MIN: usize = 64;
const _: () =
    assert!(SCAN_LONG_POOL_PART > SCAN_RING_POOL_PART && SCAN_LONG_PAGES_MIN < SCAN_RING_FRAMES_MAX);

// Growth of the pages file.

/// The space that so many seconds consume is kept free: a slice of growth takes a fraction of a
/// second on any device.
pub(crate) const GROWTH_AHEAD_S: f64 = 1.0;
/// At least this part of a step is kept free at any rate: the first consumer after a pause is
/// faster than any average.
pub(crate) const GROWTH_KEPT_STEP_PART: u64 = 4;
/// But in a short file this least is at most this part of the file, or a slice if that is more: a
/// small database takes little disk.
pub(crate) const GROWTH_LEAST_FILE_PART: u64 = 64;
/// At any rate at most this part of the file is kept free, or the least part of a step if that is
/// more.
pub(crate) const GROWTH_MOST_FILE_PART: u64 = 16;
const _: () = assert!(GROWTH_MOST_FILE_PART < GROWTH_LEAST_FILE_PART, "the least is below the most");
/// At most so many steps are kept free: a burst does not predict the minutes after it, and
/// zero-written space stays taken from the disk.
pub(crate) const GROWTH_KEPT_STEPS_MAX: u64 = 4;
/// One growth writes a slice, this part of a step: a caller that waits for it waits only so long.
pub(crate) const GROWTH_SLICE_PART: u64 = 8;
const _: () = assert!(GROWTH_SLICE_PART >= GROWTH_KEPT_STEP_PART, "a slice is no more than is kept free");
/// But a slice has at least so many bytes if a step has, because each growth ends with a sync.
pub const GROWTH_SLICE_BYTES_MIN: u64 = 2 << 20;

/// Sleep of the thread that grows the file while space is being used, microseconds. A thread that
/// uses space below what is kept free wakes it earlier.
pub const GROWTH_NAP_US: u64 = 100_000;
const _: () = assert!((GROWTH_NAP_US as f64) < GROWTH_AHEAD_S * 1e6, "it looks before the space is used up");
/// Its sleep while hardly any space is being used, microseconds.
pub const GROWTH_IDLE_US: u64 = 1_000_000;
const _: () = assert!(GROWTH_NAP_US < GROWTH_IDLE_US && GROWTH_IDLE_US < FULL_DISK_AGAIN_US);
/// Use of space below which the file hardly grows, bytes a second.
pub const GROWTH_IDLE_BYTES_PER_S: f64 = 65_536.0;
const _: () = assert!(
    GROWTH_IDLE_BYTES_PER_S * GROWTH_IDLE_US as f64 / 1e6 < GROWTH_SLICE_BYTES_MIN as f64,
    "less than a slice is used in such a sleep"
);

// Recovery: replay beside the callers.

/// Replay begins so many steps later than the callers: the catalog and the pages of the first
/// transactions are not read behind the many pages that replay reads at once.
pub const REPLAY_HEAD_START_STEPS: usize = 10;
/// The length of such a step, microseconds. If a thread waits for a permit to complete a page, the
/// next step begins replay.
pub const REPLAY_HEAD_START_STEP_US: u64 = 10_000;
/// Threads that apply redo, for each core: half of them wait for pages from the device.
pub const REPLAY_WORKERS_A_CORE: usize = 2;
/// More threads than this do not make replay faster: one thread reads and checks the log for all.
pub const REPLAY_WORKERS_MAX: usize = 4;

/// Before this share of the redo is replayed, the speed of replay says little.
pub(crate) const REPLAY_ENOUGH_SHARE: f64 = 0.05;
/// A replay of less redo says nothing of the rate of replay, bytes.
pub(crate) const REPLAY_SEEN_BYTES_MIN: u64 = 1 << 20;
/// The weight of a replay in the rate that is learned from all of them.
pub(crate) const REPLAY_SEEN_SHARE: f64 = 0.3;
const _: () = assert!(REPLAY_ENOUGH_SHARE < 1.0 && REPLAY_SEEN_SHARE < 1.0);

// History: undo, the status of transactions and locks share one budget of memory (decision 0092).

/// The budget is counted in so many parts.
pub(crate) const HISTORY_PARTS: u64 = 64;
/// Above so many of them undo is spilled to files.
pub(crate) const HISTORY_SPILL_ABOVE: u64 = 48;
/// Spilling goes on until memory has come down to so many.
pub(crate) const HISTORY_SPILL_TO: u64 = 40;
const _: () = assert!(HISTORY_SPILL_TO < HISTORY_SPILL_ABOVE && HISTORY_SPILL_ABOVE < HISTORY_PARTS);
/// Undo may always keep so many. Spilled in small portions, undo needs more memory for the index of
/// its files than it frees.
pub(crate) const HISTORY_UNDO_LEAST: u64 = 8;
/// Locks use up this part of the budget at most. Beyond it they have memory of their own.
pub const HISTORY_LOCKS_PART: u64 = 2;
const _: () = assert!(
    HISTORY_UNDO_LEAST + HISTORY_PARTS / HISTORY_LOCKS_PART <= HISTORY_SPILL_TO,
    "spilling can come to its end, whatever locks take"
);
/// At most so many committed transactions wait for purge in memory, even if there is room for more.
/// A checkpoint reads each of them, and the memory of more of them would not stay in the
/// processor's caches.
pub(crate) const HISTORY_WAITING_MAX: u64 = 8 << 10;
/// If more wait, all but so many are spilled.
pub(crate) const HISTORY_WAITING_LEFT: u64 = 6 << 10;
const _: () = assert!(HISTORY_WAITING_LEFT < HISTORY_WAITING_MAX);
/// About the most undo that is gathered for one write to its files, bytes: a bound on the memory of
/// a write.
pub const UNDO_WRITE_BYTES: usize = 4 << 20;

// Freed memory that goes back to the system (decision 0126).

/// The time for which memory must not have been needed, and the shortest time from one trim to the
/// next, microseconds.
pub const HEAP_TRIM_WINDOW_US: u64 = 5_000_000;
/// Less than this is not worth a trim, bytes.
pub(crate) const HEAP_TRIM_BYTES_MIN: u64 = 16 << 20;
/// Less than this part of the budget of history is not worth a trim.
pub(crate) const HEAP_TRIM_BUDGET_PART: u64 = 8;

// Background threads.

/// Pause of a background thread after a failure that may pass, microseconds.
pub const FAILURE_PAUSE_US: u64 = 500_000;
