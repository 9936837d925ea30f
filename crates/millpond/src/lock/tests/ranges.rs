//! Ranges: who waits for them, who does not, cycles through them; and any calls against a naive
//! model.

use super::*;
use proptest::prelude::*;

#[test]
fn a_change_in_a_range_waits_for_its_end() {
    check(
        "
        1 keeps b..d
        2 keeps c..
        1 writes c nowait
        3 writes a
        3 X d skip
        3 writes c
        4 writes b
        5 S c
        1 end
        2 end
        3 writes c
        ",
        &expect![[r#"
            1 keeps b..d
            2 keeps c..
            1 writes c nowait: Timeout
            3 writes a: granted
            3 X d skip: Skipped
            3 writes c: waits
            4 writes b: waits
            5 S c: granted
            1 end:  [4 granted]
            2 end:  [3 granted]
            3 writes c: waits
        "#]],
    );
}

#[test]
fn who_keeps_a_range_may_change_it_and_waits_for_others() {
    check(
        "
        1 keeps a..c
        2 keeps b..d
        1 writes a
        1 writes b
        2 works 1
        2 writes b
        2 looks
        1 end
        ",
        &expect![[r#"
            1 keeps a..c
            2 keeps b..d
            1 writes a: granted
            1 writes b: waits
            2 works 1
            2 writes b: waits
            2 looks:  [1 deadlock]
            1 end:  [2 granted]
        "#]],
    );
}

#[test]
fn a_circle_over_a_range_and_a_queue_is_found() {
    check(
        "
        1 keeps a..c
        2 X x
        2 works 4
        2 writes b
        2 looks
        1 S x
        1 looks
        1 end
        2 writes b
        ",
        &expect![[r#"
            1 keeps a..c
            2 X x: granted
            2 works 4
            2 writes b: waits
            2 looks
            1 S x: waits
            1 looks:  [1 deadlock]
            1 end:  [2 granted]
            2 writes b: granted
        "#]],
    );
}

#[test]
fn a_scan_lets_those_go_first_who_wait() {
    check(
        "
        1 scans a..e
        1 keeps a..c
        2 writes b
        3 scans a..e
        4 scans c..e
        5 scans a..b
        1 keeps c..e
        1 end
        2 writes b
        4 keeps c..e
        2 end
        3 keeps a..e
        2 writes b
        ",
        &expect![[r#"
            1 scans a..e: goes on
            1 keeps a..c
            2 writes b: waits
            3 scans a..e: waits
            4 scans c..e: goes on
            5 scans a..b: goes on
            1 keeps c..e
            1 end:  [2 granted]
            2 writes b: granted
            4 keeps c..e
            2 end:  [3 granted]
            3 keeps a..e
            2 writes b: waits
        "#]],
    );
}

#[test]
fn a_scan_passes_who_came_later() {
    check(
        "
        1 keeps b..c
        2 scans a..e
        2 keeps a..b
        3 writes b
        2 keeps b..e
        1 end
        2 end
        ",
        &expect![[r#"
            1 keeps b..c
            2 scans a..e: goes on
            2 keeps a..b
            3 writes b: waits
            2 keeps b..e
            1 end
            2 end:  [3 granted]
        "#]],
    );
}

#[test]
fn who_was_granted_a_key_is_passed_by_nobody() {
    check(
        "
        1 keeps b..e
        2 scans a..e
        3 scans a..e
        4 writes c
        5 writes d
        1 end
        2 keeps a..e
        3 keeps a..e backward
        2 writes b
        4 writes c
        2 keeps c..d
        ",
        &expect![[r#"
            1 keeps b..e
            2 scans a..e: goes on
            3 scans a..e: goes on
            4 writes c: waits
            5 writes d: waits
            1 end:  [4 granted] [5 granted]
            2 keeps a..e: to c
            3 keeps a..e backward: to d
            2 writes b: granted
            4 writes c: granted
            2 keeps c..d
        "#]],
    );
}

#[test]
fn a_scan_goes_over_its_own_range_again() {
    check(
        "
        1 scans a..e
        1 keeps a..e
        2 writes b
        1 scans a..e
        1 keeps a..e
        1 scans a..f
        1 keeps a..f
        1 end
        ",
        &expect![[r#"
            1 scans a..e: goes on
            1 keeps a..e
            2 writes b: waits
            1 scans a..e: goes on
            1 keeps a..e
            1 scans a..f: goes on
            1 keeps a..f
            1 end:  [2 granted]
        "#]],
    );
}

#[test]
fn a_scan_goes_on_when_nobody_waits_any_more_or_it_may_not_wait() {
    check(
        "
        1 keeps b..e
        2 writes b
        2 quits
        3 scans a..e
        4 writes c
        5 scans a..e
        6 scans a..e nowait
        6 keeps a..e
        4 quits
        7 writes d
        8 scans a..e
        8 quits
        9 scans a..e
        stop
        ",
        &expect![[r#"
            1 keeps b..e
            2 writes b: waits
            2 quits
            3 scans a..e: goes on
            4 writes c: waits
            5 scans a..e: waits
            6 scans a..e nowait: goes on
            6 keeps a..e
            4 quits:  [5 granted]
            7 writes d: waits
            8 scans a..e: waits
            8 quits
            9 scans a..e: waits
            stop:  [7 stopped] [9 stopped]
        "#]],
    );
}

#[test]
fn a_scan_that_would_close_a_circle_passes() {
    check(
        "
        1 keeps a..b
        2 keeps b..c
        3 writes a
        4 writes b
        1 works 5
        2 works 5
        1 scans b..c
        1 looks
        2 scans a..b
        2 looks
        2 end
        4 end
        1 end
        ",
        &expect![[r#"
            1 keeps a..b
            2 keeps b..c
            3 writes a: waits
            4 writes b: waits
            1 works 5
            2 works 5
            1 scans b..c: waits
            1 looks
            2 scans a..b: waits
            2 looks:  [2 passes]
            2 end:  [4 granted]
            4 end:  [1 granted]
            1 end:  [3 granted]
        "#]],
    );
}

#[test]
fn a_range_passes_nobody_who_has_or_wants_a_row() {
    check(
        "
        1 S a
        2 may-read a
        3 X a
        2 may-read a
        1 may-read a
        1 end
        2 may-read a
        3 may-read a
        3 end
        2 may-read a
        ",
        &expect![[r#"
            1 S a: granted
            2 may-read a: true
            3 X a: waits
            2 may-read a: false
            1 may-read a: false
            1 end:  [3 granted]
            2 may-read a: false
            3 may-read a: true
            3 end
            2 may-read a: true
        "#]],
    );
}

#[test]
fn an_undone_change_keeps_its_lock() {
    check(
        "
        1 undoes a
        1 undoes a
        2 X a
        1 S b
        1 undoes b
        show a
        show b
        1 end
        ",
        &expect![[r#"
            1 undoes a
            1 undoes a
            2 X a: waits
            1 S b: granted
            1 undoes b
            show a: T1:X T2:X?
            show b: T1:X
            1 end:  [2 granted]
        "#]],
    );
}

#[test]
fn stopping_ends_waits_for_ranges() {
    check(
        "
        1 keeps ..
        2 writes a
        3 writes b
        3 quits
        stop
        4 writes c
        1 end
        ",
        &expect![[r#"
            1 keeps ..
            2 writes a: waits
            3 writes b: waits
            3 quits
            stop:  [2 stopped]
            4 writes c: Stopped
            1 end
        "#]],
    );
}

const KEYS: u8 = 12;
const TXNS: u64 = 4;

/// A step of a transaction: cover a range, ask for a key without waiting, or end.
#[derive(Clone, Debug)]
enum Step {
    Cover(u64, u8, Option<u8>),
    Change(u64, u8),
    End(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=TXNS, 0..KEYS, prop::option::of(0..=KEYS)).prop_map(|(t, from, to)| Step::Cover(t, from, to)),
        8 => (1..=TXNS, 0..KEYS).prop_map(|(t, key)| Step::Change(t, key)),
        1 => (1..=TXNS).prop_map(Step::End),
    ]
}

proptest! {
    /// Ranges, changes and ends in any order: a change is let through exactly when no other
    /// transaction keeps the key. The model is a list of (transaction, key).
    #[test]
    fn a_change_is_let_through_when_nobody_else_keeps_the_key(steps in prop::collection::vec(step(), 0..80)) {
        let table = table();
        let mut kept: Vec<(u64, u8)> = Vec::new();
        let mut owners: BTreeMap<u64, Arc<Owner>> = BTreeMap::new();
        let mut next = 1;
        let mut names: BTreeMap<u64, u64> = BTreeMap::new();
        for step in steps {
            let (Step::Cover(slot, ..) | Step::Change(slot, _) | Step::End(slot)) = step;
            let id = *names.entry(slot).or_insert_with(|| {
                next += 1;
                next
            });
            let owner = Arc::clone(owners.entry(id).or_insert_with(|| table.begin(TxnId(id))));
            match step {
                Step::Cover(_, from, to) => {
                    let end = to.as_ref().map(std::slice::from_ref);
                    let (first, mode) = ([from], RangeMode::READ);
                    let range = KeyRange::new(TREE, &first, end);
                    table.cover(&owner, range, mode, ScanStart::NoYield, false).unwrap();
                    kept.extend((from..to.unwrap_or(KEYS)).map(|key| (id, key)));
                }
                Step::Change(_, key) => {
                    let free = !kept.iter().any(|&(other, k)| other != id && k == key);
                    let claimed = table.claim(&owner, TREE, &[key], KeyState::Row, Wait::NoWait);
                    prop_assert_eq!(claimed.is_ok(), free, "T{} and key {}", id, key);
                }
                Step::End(_) => {
                    table.release_all(&owner);
                    kept.retain(|&(other, _)| other != id);
                    owners.remove(&id);
                    names.remove(&slot);
                }
            }
        }
        for owner in owners.values() {
            table.release_all(owner);
        }
        prop_assert_eq!(table.bytes(), 0);
    }
}
