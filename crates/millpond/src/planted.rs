//! Mistakes that can be planted on purpose, so that the simulator can show how soon it finds each
//! of them.
//!
//! A mistake is on only in a simulated world whose flags name it. Worlds with it and without it can
//! run side by side. Without the feature `planted` the check is the constant `false`, and none of
//! this is compiled into the program.

/// A planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A log flush is not synced.
    NoLogSync,
    /// If a log flush lies in two segments, only the second is synced.
    OneSegmentSynced,
    /// The in-place writes of a page batch are not synced.
    NoPagesSync,
    /// The doublewrite is not synced before pages are written in place.
    NoDoublewriteSync,
    /// The doublewrite is not written.
    NoDoublewrite,
    /// An area of the doublewrite is used again before the in-place writes that it protects are
    /// synced.
    AreaReusedEarly,
    /// The root is not synced.
    NoRootSync,
    /// A segment's new name is not made durable.
    NoSegmentDirSync,
    /// A segment's new header is not made durable.
    NoSegmentSync,
    /// Pages are written before their redo is durable.
    PageBeforeRedo,
    /// The checkpoint ignores dirty pages.
    CheckpointIgnoresDirty,
    /// The checkpoint ignores dirty pages that a batch is writing now.
    CheckpointIgnoresWriting,
    /// The checkpoint reads the dirty pages first and the published LSN afterwards.
    CheckpointOrder,
    /// Segments are recycled by a checkpoint that the root does not name durably yet.
    RecycledEarly,
    /// The durable LSN passes flushes that are still in flight.
    DurableOutOfOrder,
    /// Recovery treats the last group of the log as torn.
    EndEarly,
    /// Recovery ends the log one block too late.
    EndLate,
    /// Recovery does not make the new epoch durable.
    NoEpoch,
    /// Recovery does not sync the log that it has read.
    NoRecoverySync,
    /// Torn pages are not restored.
    NoRestore,
    /// Redo skips some changes.
    RedoSkips,
    /// The growth of the `pages` file is not synced.
    NoGrowSync,
    /// A commit is acknowledged before it is durable.
    CommitNotAwaited,
    /// A checkpoint does not harden the undo of unfinished transactions.
    NoHardening,
    /// Hardened undo is not synced.
    NoUndoSync,
    /// A checkpoint does not list unfinished transactions.
    UnlistedLosers,
    /// Purge does not wait for the oldest snapshot.
    PurgedEarly,
    /// A rollback to a savepoint is not logged.
    RewindNotLogged,
    /// While redo is replayed, the checkpoint follows the dirty pages alone.
    CheckpointIgnoresReplay,
    /// Replay reports how far it has read, not how far it has changed pages.
    ReplayedEarly,
    /// A prepare is acknowledged before it is durable.
    PrepareNotAwaited,
    /// Writers do not check whether another transaction locks the range of their key.
    RangesIgnored,
    /// A serializable reader locks the rows that it found and not the gaps between them.
    GapsFree,
    /// The log records that transactions are purged before they are.
    PurgedLoggedEarly,
    /// The pages of a bulk load are not synced before it commits.
    LoadNotSynced,
    /// A bulk load commits while a batch of its pages is still being written.
    LoadNotAwaited,
    /// A history batch contains commits on both sides of a snapshot.
    BatchedAcross,
    /// The memory of undo is freed before the undo is in the files.
    ForgottenEarly,
    /// A history batch that a checkpoint lists is not synced.
    HistoryNotSynced,
    /// A reader does not check whether its snapshot has expired meanwhile.
    ExpiryUnseen,
    /// If a flush fails, or ends in a poisoned database, the waiters of the log are not woken.
    WaitersNotWoken,
    /// The leader of a flush calls the wakers of the tasks that it covered, inside its own call.
    WakersCalledByLeader,
    /// A transaction continues after a rollback to a savepoint that failed half way.
    HalfUndoneGoesOn,
    /// Rollback and purge log their redo without asking admission for room.
    UndoingUnasked,
    /// Undo that cannot be reverted or purged blocks all undo after it.
    StuckAtUnreadable,
    /// A damaged page is restored from any copy, however old.
    RestoredStale,
    /// A new database does not check which database a directory belongs to.
    CreatedOverOthers,
    /// A writer that inserts a row does not remove its key from the cleared range.
    ClearedForEver,
    /// Readers skip several versions at once although a snapshot sees only some of them.
    PassedAcross,
    /// A checkpoint frees disk space that the log needs to be opened.
    LogShrunkTooFar,
    /// Writers are admitted although the ballast for hardening undo is spent.
    BallastRunDown,
    /// The deadlock search finds no cycle that is longer than two.
    CycleUnseen,
    /// A transaction that is granted a lock is not woken.
    GrantUnwoken,
    /// Dropping a table frees the extents that it shares with other tables.
    SharedFreedWhole,
    /// Dropping tables logs its redo without asking admission for room.
    ReleaseUnasked,
    /// A scan passes a writer who has waited since before it began.
    ScanPasses,
    /// A scan that locks ranges latches its leaf shared, so a request for a row's own lock passes
    /// it.
    ScanLatchedShared,
    /// A checkpoint lists the counters of tables as they were at the opening, so a counter goes
    /// back once the log before the checkpoint is not read any more.
    CounterUnlisted,
    /// A part of a replaced long value is freed, and the value's first pages go on naming the freed
    /// pages. If purge stops there, it later frees pages that other values have got meanwhile.
    FreedPagesNamed,
    /// Admission counts segments below the checkpoint, which are not recycled yet, as room.
    FilesBelowCounted,
    /// Segments are removed before admission knows that there will be fewer.
    ShrunkBeforeLimits,
    /// A caller gets a page that lacks redo, because replay has not come to it.
    IncompleteUnseen,
    /// A page that a caller has completed by redo is not dirty, so replay and the checkpoint pass
    /// it.
    RedoNotDirty,
    /// The log's position that a list of dirty pages covers is read after the pages.
    DirtyListOrder,
    /// The log's position that the list of transactions covers is read after the list.
    UndoFromLate,
    /// A pool that gets smaller drops pages that differ from their file.
    ShrunkWhileDirty,
    /// The doublewrite is switched off and the root does not say so.
    OffUnrecorded,
    /// The pages of a chain of the page table move to another one without its mutex.
    ChainsMovedUnlocked,
    /// The root forgets the directory that the log leaves while segments are still there.
    RedoForgottenEarly,
    /// The root forgets the doublewrite that is left before the pages that it protects are synced
    /// in place.
    DoublewriteForgottenEarly,
    /// The segment that is being written is replaced by one in the directory to which the log
    /// moves.
    ReplacedInUse,
    /// Replay does not look for a later change that makes a page anew if the page is not the
    /// version that its next change was made to.
    AnewUnseen,
    /// A commit that is to outlive the process is acknowledged before it is in the page cache.
    WrittenNotAwaited,
    /// Log that outlived a killed process is not synced before it is counted as part of the log.
    UnsyncedNotSynced,
    /// A checkpoint does not list the prepared transactions that sessions hold.
    HeldUnlisted,
    /// A checkpoint does not list the bookmark.
    BookmarkUnlisted,
    /// A transaction that its coordinator may repeat does not wait for the commits that it may have
    /// seen.
    SeenNotAwaited,
}

impl Bug {
    /// All planted mistakes. A world has flags for 128.
    pub const ALL: &[Bug] = &[
        Bug::NoLogSync,
        Bug::OneSegmentSynced,
        Bug::NoPagesSync,
        Bug::NoDoublewriteSync,
        Bug::NoDoublewrite,
        Bug::AreaReusedEarly,
        Bug::NoRootSync,
        Bug::NoSegmentDirSync,
        Bug::NoSegmentSync,
        Bug::PageBeforeRedo,
        Bug::CheckpointIgnoresDirty,
        Bug::CheckpointIgnoresWriting,
        Bug::CheckpointOrder,
        Bug::RecycledEarly,
        Bug::DurableOutOfOrder,
        Bug::EndEarly,
        Bug::EndLate,
        Bug::NoEpoch,
        Bug::NoRecoverySync,
        Bug::NoRestore,
        Bug::RedoSkips,
        Bug::NoGrowSync,
        Bug::CommitNotAwaited,
        Bug::NoHardening,
        Bug::NoUndoSync,
        Bug::UnlistedLosers,
        Bug::PurgedEarly,
        Bug::RewindNotLogged,
        Bug::CheckpointIgnoresReplay,
        Bug::ReplayedEarly,
        Bug::PrepareNotAwaited,
        Bug::RangesIgnored,
        Bug::GapsFree,
        Bug::PurgedLoggedEarly,
        Bug::LoadNotSynced,
        Bug::LoadNotAwaited,
        Bug::BatchedAcross,
        Bug::ForgottenEarly,
        Bug::HistoryNotSynced,
        Bug::ExpiryUnseen,
        Bug::WaitersNotWoken,
        Bug::WakersCalledByLeader,
        Bug::HalfUndoneGoesOn,
        Bug::UndoingUnasked,
        Bug::StuckAtUnreadable,
        Bug::RestoredStale,
        Bug::CreatedOverOthers,
        Bug::ClearedForEver,
        Bug::PassedAcross,
        Bug::LogShrunkTooFar,
        Bug::BallastRunDown,
        Bug::CycleUnseen,
        Bug::GrantUnwoken,
        Bug::SharedFreedWhole,
        Bug::ReleaseUnasked,
        Bug::ScanPasses,
        Bug::ScanLatchedShared,
        Bug::CounterUnlisted,
        Bug::FreedPagesNamed,
        Bug::FilesBelowCounted,
        Bug::ShrunkBeforeLimits,
        Bug::IncompleteUnseen,
        Bug::RedoNotDirty,
        Bug::DirtyListOrder,
        Bug::UndoFromLate,
        Bug::ShrunkWhileDirty,
        Bug::OffUnrecorded,
        Bug::ChainsMovedUnlocked,
        Bug::RedoForgottenEarly,
        Bug::DoublewriteForgottenEarly,
        Bug::ReplacedInUse,
        Bug::AnewUnseen,
        Bug::WrittenNotAwaited,
        Bug::UnsyncedNotSynced,
        Bug::HeldUnlisted,
        Bug::BookmarkUnlisted,
        Bug::SeenNotAwaited,
    ];

    /// The flag of this mistake in the flags of a world.
    #[must_use]
    pub const fn flag(self) -> u128 {
        1 << self as u8
    }
}

/// Whether the mistake is on in the world of the calling thread.
#[cfg(feature = "planted")]
#[inline]
pub(crate) fn planted(bug: Bug) -> bool {
    base::sync::world_flags() & bug.flag() != 0
}

/// Whether the mistake is on: never.
#[cfg(not(feature = "planted"))]
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_flag_of_its_own() {
        let all = Bug::ALL.iter().fold(0, |all, bug| all ^ bug.flag());
        assert_eq!(all.count_ones() as usize, Bug::ALL.len());
    }
}
