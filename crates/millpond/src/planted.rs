//! Mistakes that can be planted, so that the simulator can show how soon it finds each.
//!
//! A mistake is on in a simulated world whose flags name it and nowhere else; worlds with it and without it can run side
//! by side. Without the feature `planted` the question is a constant `false` and nothing of this is left in the program.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A log flush is not synced.
    NoLogSync,
    /// Of a log flush that lies in two segments only the second is synced.
    OneSegmentSynced,
    /// A page batch is not synced in place.
    NoPagesSync,
    /// The doublewrite is not synced before pages are written in place.
    NoDoublewriteSync,
    /// The doublewrite is not written.
    NoDoublewrite,
    /// An area of the doublewrite is used again before the in-place writes it protects are synced.
    AreaReusedEarly,
    /// A root is not synced.
    NoRootSync,
    /// A segment's new name is not made durable.
    NoSegmentDirSync,
    /// A segment's new header is not made durable.
    NoSegmentSync,
    /// Pages are written before their redo is durable.
    PageBeforeRedo,
    /// The checkpoint ignores dirty pages.
    CheckpointIgnoresDirty,
    /// The checkpoint ignores copies that are on their way to the file.
    CheckpointIgnoresWriting,
    /// The checkpoint looks at the dirty pages first and at the published log afterwards.
    CheckpointOrder,
    /// Segments are recycled by a checkpoint that the root does not hold yet.
    RecycledEarly,
    /// The durable LSN passes flushes that are still in flight.
    DurableOutOfOrder,
    /// Recovery takes the last group of the log for a torn one.
    EndEarly,
    /// Recovery lets the log go on a block too far.
    EndLate,
    /// Recovery does not make the new epoch durable.
    NoEpoch,
    /// Recovery does not sync the log it has read.
    NoRecoverySync,
    /// Torn pages are not restored.
    NoRestore,
    /// Redo is applied to pages that have it already.
    RedoTwice,
    /// Redo skips one change in some.
    RedoSkips,
    /// The file's growth is not synced.
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
    /// While redo is replayed, the checkpoint goes by the dirty pages alone.
    CheckpointIgnoresReplay,
    /// Replay says how far it has read, not how far it has changed pages.
    ReplayedEarly,
    /// A prepare is acknowledged before it is durable.
    PrepareNotAwaited,
    /// Writers do not ask whether somebody keeps the range that they change.
    RangesIgnored,
    /// A serializable reader keeps the rows that it found and not what lies between them.
    GapsFree,
    /// The log says that transactions are purged before they are.
    PurgedLoggedEarly,
    /// The pages of a bulk load are not synced before it commits.
    LoadNotSynced,
    /// A bulk load commits while a batch of its pages is still being written.
    LoadNotAwaited,
    /// A segment of committed history reaches over a snapshot.
    SealedAcross,
    /// Memory of undo is let go of before the undo is in the files.
    ForgottenEarly,
    /// A segment that a checkpoint lists is not synced.
    SegmentNotSynced,
    /// A reader does not look whether its snapshot has been given up meanwhile.
    GivenUpUnseen,
    /// Where a flush fails, or ends in a poisoned database, those who wait for the log are not woken.
    FailureUnheard,
    /// Whoever leads a flush calls the wakers of those it served, in the midst of its own call.
    ToldByLeader,
    /// A transaction goes on after a rollback to a savepoint that failed half way.
    HalfUndoneGoesOn,
    /// Rollback and purge log their redo without asking for room.
    UndoingUnasked,
    /// What cannot be reverted or purged stays in front of all others.
    StuckAtUnreadable,
    /// A damaged page is restored from any copy, however old.
    RestoredStale,
    /// A new database does not ask whose a directory is.
    CreatedOverOthers,
    /// Who makes a row does not say so to those who know the range as cleared.
    ClearedForEver,
    /// Readers go past versions together that a snapshot tells apart.
    PassedAcross,
    /// A checkpoint gives the disk back what the log needs to be opened.
    LogGivenAway,
    /// Writers are let in although the space is spent that hardening has on a full disk.
    ReserveRunDown,
    /// Nobody finds a circle of waits that is longer than two.
    CycleUnseen,
    /// Who is granted a lock is not woken.
    GrantUnwoken,
    /// Dropping a table frees the extents that it shares with others.
    SharedFreedWhole,
    /// Dropping tables asks for no room in the log.
    ReleaseUnasked,
    /// A scan passes a writer who has waited since before it began.
    ScanPasses,
}

impl Bug {
    /// All of them.
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
        Bug::RedoTwice,
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
        Bug::SealedAcross,
        Bug::ForgottenEarly,
        Bug::SegmentNotSynced,
        Bug::GivenUpUnseen,
        Bug::FailureUnheard,
        Bug::ToldByLeader,
        Bug::HalfUndoneGoesOn,
        Bug::UndoingUnasked,
        Bug::StuckAtUnreadable,
        Bug::RestoredStale,
        Bug::CreatedOverOthers,
        Bug::ClearedForEver,
        Bug::PassedAcross,
        Bug::LogGivenAway,
        Bug::ReserveRunDown,
        Bug::CycleUnseen,
        Bug::GrantUnwoken,
        Bug::SharedFreedWhole,
        Bug::ReleaseUnasked,
        Bug::ScanPasses,
    ];

    /// What a world's flags hold for it.
    #[must_use]
    pub const fn flag(self) -> u64 {
        1 << self as u8
    }
}

/// Whether the mistake is on in the calling thread's world.
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
