//! The visibility rule, as pure functions: what the state of a version's writer means to a reader,
//! and to a transaction that wants to lock or change the row.

use super::status::TxnState;
use base::Lsn;

/// What a reader with a snapshot does with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The reader sees this version. The LSN is that of its commit, if the commit may not be
    /// durable yet (Co10).
    Visible(Option<Lsn>),
    /// The reader sees an older version.
    Older,
    /// The commit LSN is not known yet: look again.
    Committing,
}

/// The state of a version's writer, as a transaction must treat it that wants to lock or change the
/// row or to read its newest committed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterState {
    /// The row may be changed on top of the version. The LSN is that of its commit, as in
    /// [`Sight::Visible`]; none also for the transaction's own version.
    Free(Option<Lsn>),
    /// The writer has not ended: wait for it.
    Locked,
    /// The writer committed after the transaction's snapshot: a write conflict.
    Conflict,
    /// The version must be reverted first (Un6).
    Aborted,
    /// The commit LSN is not known yet: look again.
    Committing,
}

/// Returns whether a reader sees a version. `own`: the reader's transaction made it.
pub(crate) fn sight(state: TxnState, own: bool, snapshot: Lsn) -> Sight {
    match state {
        _ if own => Sight::Visible(None),
        TxnState::Settled => Sight::Visible(None),
        TxnState::Committed(lsn) if lsn < snapshot => Sight::Visible(Some(lsn)),
        TxnState::Committing => Sight::Committing,
        TxnState::Committed(_) | TxnState::Active | TxnState::Prepared | TxnState::Aborted => Sight::Older,
    }
}

/// Returns how a transaction must treat a version that it wants to lock or change. `snapshot` is
/// the one that first-updater-wins measures by, if the transaction has one and it matters.
pub(crate) fn writer_state(state: TxnState, own: bool, snapshot: Option<Lsn>) -> WriterState {
    match state {
        _ if own => WriterState::Free(None),
        TxnState::Settled => WriterState::Free(None),
        TxnState::Committed(lsn) if snapshot.is_some_and(|snapshot| lsn >= snapshot) => WriterState::Conflict,
        TxnState::Committed(lsn) => WriterState::Free(Some(lsn)),
        TxnState::Active | TxnState::Prepared => WriterState::Locked,
        TxnState::Aborted => WriterState::Aborted,
        TxnState::Committing => WriterState::Committing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    #[test]
    fn every_state_against_a_snapshot_at_100() {
        let mut out = String::new();
        use TxnState::{Aborted, Active, Committed, Committing, Prepared, Settled};
        let states = [
            Settled,
            Committed(Lsn(99)),
            Committed(Lsn(100)),
            Committed(Lsn(101)),
            Committing,
            Active,
            Prepared,
            Aborted,
        ];
        for state in states {
            let reader = sight(state, false, Lsn(100));
            let (fixed, current) =
                (writer_state(state, false, Some(Lsn(100))), writer_state(state, false, None));
            writeln!(out, "{state:?}: reads {reader:?}, writes {fixed:?}, without snapshot {current:?}")
                .unwrap();
        }
        for own in [Active, Committing] {
            writeln!(
                out,
                "own {own:?}: {:?} {:?}",
                sight(own, true, Lsn(0)),
                writer_state(own, true, Some(Lsn(0)))
            )
            .unwrap();
        }
        expect![[r#"
            Settled: reads Visible(None), writes Free(None), without snapshot Free(None)
            Committed(lsn 99): reads Visible(Some(lsn 99)), writes Free(Some(lsn 99)), without snapshot Free(Some(lsn 99))
            Committed(lsn 100): reads Older, writes Conflict, without snapshot Free(Some(lsn 100))
            Committed(lsn 101): reads Older, writes Conflict, without snapshot Free(Some(lsn 101))
            Committing: reads Committing, writes Committing, without snapshot Committing
            Active: reads Older, writes Locked, without snapshot Locked
            Prepared: reads Older, writes Locked, without snapshot Locked
            Aborted: reads Older, writes Aborted, without snapshot Aborted
            own Active: Visible(None) Free(None)
            own Committing: Visible(None) Free(None)
        "#]].assert_eq(&out);
    }
}
