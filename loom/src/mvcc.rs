//! The status table: a transaction's state only goes forward, whoever looks, also while its id leaves the ring.

#[path = "../../crates/millpond/src/mvcc/status.rs"]
mod status;

use crate::model;
use base::{Lsn, TxnId};
use loom::sync::Arc;
use loom::thread::spawn;
use status::{State, Status};

fn rank(state: State) -> u32 {
    match state {
        State::Active => 0,
        State::Committing => 1,
        State::Committed(_) => 2,
        _ => 3,
    }
}

pub(crate) fn models() {
    model("status: a reader while a transaction commits and leaves the ring", 2, || {
        let status = Arc::new(Status::new(TxnId(1), []));
        let txn = status.begin();
        let committer = {
            let status = Arc::clone(&status);
            spawn(move || {
                status.set(txn, State::Committing);
                status.set(txn, State::Committed(Lsn(50)));
            })
        };
        let beginner = {
            let status = Arc::clone(&status);
            spawn(move || {
                (0..4).for_each(|_| {
                    status.begin();
                })
            })
        };
        let (first, second) = (rank(status.state(txn)), rank(status.state(txn)));
        assert!(first <= second && second <= 2, "from {first} to {second}");
        committer.join().unwrap();
        beginner.join().unwrap();
        assert_eq!(status.state(txn), State::Committed(Lsn(50)));
    });
    model("status: two begin while there is no room", 2, || {
        let status = Arc::new(Status::new(TxnId(1), []));
        let first = status.begin();
        (0..3).for_each(|_| {
            status.begin();
        });
        let other = {
            let status = Arc::clone(&status);
            spawn(move || status.begin())
        };
        let mine = status.begin();
        let other = other.join().unwrap();
        assert_ne!(mine, other);
        for txn in [first, mine, other] {
            assert_eq!(status.state(txn), State::Active);
        }
    });
}
