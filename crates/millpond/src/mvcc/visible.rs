//! The rule, pure: what a version's transaction means to who looks at it.

use super::status::TxnState;
use base::Lsn;

/// What a version is to a reader with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It sees this version. The LSN is that of its commit, if the commit may not be durable yet (Co10).
    Visible(Option<Lsn>),
    /// It sees an older one.
    Older,
    /// Nobody knows yet: look again.
    Undecided,
}

/// What a version is to who wants to lock or change the row, or to read its newest committed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterState {
    /// The row may be changed on top of it. The LSN is that of its commit, as in [`Sight::Visible`]; `None` also for
    /// the transaction's own version.
    Free(Option<Lsn>),
    /// Another transaction has not ended: wait for it.
    Locked,
    /// It committed after the looker's snapshot: a write conflict.
    Conflict,
    /// It must be reverted first (Un6).
    Aborted,
    /// Nobody knows yet: look again.
    Undecided,
}

/// Judges a version for a reader. `own`: the reader's transaction made it.
pub(crate) fn sight(state: TxnState, own: bool, snapshot: Lsn) -> Sight {
    match state {
        _ if own => Sight::Visible(None),
        TxnState::Settled => Sight::Visible(None),
        TxnState::Committed(lsn) if lsn < snapshot => Sight::Visible(Some(lsn)),
        TxnState::Committing => Sight::Undecided,
        TxnState::Committed(_) | TxnState::Active | TxnState::Prepared | TxnState::Aborted => Sight::Older,
    }
}

/// Judges a version for a locker. `snapshot`: what first-updater-wins measures by, if the transaction has one and cares.
pub(crate) fn writer_state(state: TxnState, own: bool, snapshot: Option<Lsn>) -> WriterState {
    match state {
        _ if own => WriterState::Free(None),
        TxnState::Settled => WriterState::Free(None),
        TxnState::Committed(lsn) if snapshot.is_some_and(|snapshot| lsn >= snapshot) => WriterState::Conflict,
        TxnState::Committed(lsn) => WriterState::Free(Some(lsn)),
        TxnState::Active | TxnState::Prepared => WriterState::Locked,
        TxnState::Aborted => WriterState::Aborted,
        TxnState::Committing => WriterState::Undecided,
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
            Committing: reads Undecided, writes Undecided, without snapshot Undecided
            Active: reads Older, writes Locked, without snapshot Locked
            Prepared: reads Older, writes Locked, without snapshot Locked
            Aborted: reads Older, writes Aborted, without snapshot Aborted
            own Active: Visible(None) Free(None)
            own Committing: Visible(None) Free(None)
        "#]].assert_eq(&out);
    }
}
