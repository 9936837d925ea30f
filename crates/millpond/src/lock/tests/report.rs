//! What others are shown of locks, waits and deadlocks.

use super::super::seen::SeenDeadlock;
use super::*;
use std::sync::Mutex;

const LONG: Wait = Wait::Until(std::time::Duration::from_secs(60));

fn owners(table: &LockTable, count: u64) -> Vec<Arc<Owner>> {
    let owner = |id| {
        let owner = table.begin(TxnId(id));
        owner.set_tag(100 + id);
        owner
    };
    (1..=count).map(owner).collect()
}

/// Returns locks in short.
fn shown(table: &LockTable) -> Vec<String> {
    let text = |lock: &SeenLock| {
        let place = match &lock.place {
            SeenPlace::Row(key) => String::from_utf8_lossy(key).into_owned(),
            SeenPlace::Range { from, to, gaps } => {
                let to = to.as_ref().map_or("end".into(), |to| String::from_utf8_lossy(to));
                format!("{}..{to}{}", String::from_utf8_lossy(from), if *gaps { " gaps" } else { "" })
            }
            other => format!("{other:?}"),
        };
        format!("{} {:?} {place}{}", lock.tag, lock.mode, if lock.waits { " waits" } else { "" })
    };
    table.locks(usize::MAX).iter().map(text).collect()
}

#[test]
fn locks_and_waits_are_shown_as_they_are() {
    let table = table();
    let all = owners(&table, 3);
    acquire(&table, &all[0], b"a", Mode::Shared, LONG).unwrap();
    acquire(&table, &all[1], b"a", Mode::Shared, LONG).unwrap();
    table.lock_table(&all[1], TREE, TableLock::Counter, LONG).unwrap().finish().unwrap();
    let ticket = table.enqueue(&all[2], TREE, b"a", KeyState::Row, Mode::Exclusive, LONG).unwrap();
    assert_eq!(
        shown(&table),
        ["101 Shared a", "102 Exclusive Counter", "102 Shared a", "103 Exclusive a waits"]
    );
    let waiting = table.waiting(usize::MAX);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].request.tag, 103);
    assert_eq!(waiting[0].blockers, [(TxnId(1), 101), (TxnId(2), 102)]);
    let txns: Vec<_> =
        table.transactions().iter().map(|txn| (txn.tag, txn.locks, txn.waits_for.is_some())).collect();
    assert_eq!(txns, [(101, 1, false), (102, 2, false), (103, 0, true)]);
    drop(ticket);
    all.iter().for_each(|owner| table.release_all(owner));
    assert!(shown(&table).is_empty() && table.waiting(usize::MAX).is_empty());
    assert!(table.transactions().is_empty());
}

#[test]
fn ranges_and_requests_that_wait_for_them_are_shown() {
    let table = table();
    let all = owners(&table, 2);
    let range = KeyRange::new(TREE, b"b", Some(b"d"));
    assert_eq!(table.cover(&all[0], range, RangeMode::READ, ScanStart::NoYield, false).unwrap(), None);
    let asked = table.claim(&all[1], TREE, b"c", KeyState::NoRow, LONG).unwrap();
    assert_eq!(shown(&table), ["101 Shared b..d gaps", "102 Exclusive c waits"]);
    assert_eq!(table.waiting(usize::MAX)[0].blockers, [(TxnId(1), 101)]);
    drop(asked);
    all.iter().for_each(|owner| table.release_all(owner));
}

#[test]
fn no_more_locks_are_shown_than_wanted() {
    let table = table();
    let all = owners(&table, 2);
    for n in 0..5000u32 {
        acquire(&table, &all[0], &n.to_be_bytes(), Mode::Exclusive, LONG).unwrap();
    }
    assert_eq!(table.locks(10).len(), 10);
    assert_eq!(table.locks(usize::MAX).len(), 5000);
    assert_eq!(table.transactions()[0].locks, 5000);
    all.iter().for_each(|owner| table.release_all(owner));
}

/// Makes a cycle of two, and returns the deadlock as it was told and as it is remembered.
fn cycle(table: &Arc<LockTable>, ids: [u64; 2]) -> SeenDeadlock {
    let [first, second] = ids.map(|id| {
        let owner = table.begin(TxnId(id));
        owner.set_tag(100 + id);
        owner
    });
    acquire(table, &first, b"a", Mode::Exclusive, LONG).unwrap();
    acquire(table, &second, b"b", Mode::Shared, LONG).unwrap();
    // The second waits, and then the first closes the cycle.
    let waiting = table.enqueue(&second, TREE, b"a", KeyState::Row, Mode::Exclusive, LONG).unwrap();
    let closing = acquire(table, &first, b"b", Mode::Exclusive, LONG);
    assert_eq!(closing, Err(Denied::Deadlock));
    table.release_all(&first);
    waiting.finish().unwrap();
    table.release_all(&second);
    table.last_deadlocks().pop().unwrap()
}

#[test]
fn a_deadlock_is_told_while_it_stands_and_then_remembered() {
    let table = Arc::new(table());
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let (list, weak) = (Arc::clone(&told), Arc::downgrade(&table));
    table.tell_deadlocks(Arc::new(move |number, tags| {
        let table = weak.upgrade().unwrap();
        let waiting = table.owners.list().iter().filter(|owner| owner.waits_for().is_some()).count();
        assert_eq!(waiting, tags.len(), "all of them still wait");
        list.lock().unwrap().push((number, tags.to_vec()));
    }));
    let report = cycle(&table, [1, 2]);
    assert_eq!(*told.lock().unwrap(), [(1, vec![101, 102])]);
    assert_eq!(report.number, 1);
    let members: Vec<_> = report
        .members
        .iter()
        .map(|member| {
            let (wants, holds) = (member.txn.waits_for.as_ref().unwrap(), member.holds.as_ref().unwrap());
            (member.txn.tag, wants.place.clone(), wants.mode, holds.place.clone(), holds.mode, member.victim)
        })
        .collect();
    let row = |key: &[u8]| SeenPlace::Row(key.to_vec());
    assert_eq!(
        members,
        [
            (101, row(b"b"), Mode::Exclusive, row(b"a"), Mode::Exclusive, true),
            (102, row(b"a"), Mode::Exclusive, row(b"b"), Mode::Shared, false)
        ]
    );
    // Only the last ones are remembered.
    for n in 2..=20 {
        assert_eq!(cycle(&table, [2 * n, 2 * n + 1]).number, n);
    }
    let kept: Vec<u64> = table.last_deadlocks().iter().map(|deadlock| deadlock.number).collect();
    assert_eq!(kept, (5..=20).collect::<Vec<_>>());
}
