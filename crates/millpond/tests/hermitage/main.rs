//! The ten cases of Hermitage (Martin Kleppmann, <https://github.com/ept/hermitage>) at each level:
//! which of Adya's anomalies a level allows, and how it prevents others. One thread runs each case:
//! a lock that is not free fails at once with the result `waits`. The last test really waits.
//!
//! | | READ COMMITTED | REPEATABLE READ (snapshot isolation) | SERIALIZABLE |
//! | --- | --- | --- | --- |
//! | G0 dirty write | prevented | prevented | prevented |
//! | G1a aborted read | prevented | prevented | prevented |
//! | G1b intermediate read | prevented | prevented | prevented |
//! | G1c circular information flow | prevented | prevented | prevented |
//! | OTV observed transaction vanishes | prevented | prevented | prevented |
//! | PMP predicate-many-preceders | happens | prevented | prevented |
//! | P4 lost update | happens | prevented | prevented |
//! | G-single read skew | happens | prevented | prevented |
//! | G2-item write skew | happens | happens | prevented |
//! | G2 anti-dependency cycle | happens | happens | prevented |

mod script;

use expect_test::expect;
use millpond::{Error, Isolation, Transaction};
use script::{TestDb, check, step};
use std::time::Duration;

/// The second of two writers of the same rows waits for the first, so their changes do not mix.
#[test]
fn g0_dirty_writes() {
    check(
        "g0",
        "
        T1 put 1 11
        T2 put 1 12
        T1 put 2 21
        T1 commit
        T2 put 1 12
        T2 put 2 22
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T2 put 1 12            | waits               | waits               | waits
            T1 put 2 21            | done                | done                | done
            T1 commit              | done                | done                | done
            T2 put 1 12            | done                | done                | done
            T2 put 2 22            | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=12 2=22           | 1=12 2=22           | 1=12 2=22
        "#]],
    );
}

/// No transaction sees a change that is rolled back later.
#[test]
fn g1a_aborted_reads() {
    check(
        "g1a",
        "
        T1 put 1 101
        T2 where all
        T1 abort
        T2 where all
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 101           | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | waits
            T1 abort               | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 commit              | done                | done                | done
            in the end             | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
        "#]],
    );
}

/// No transaction sees a value that its writer replaces before the commit.
#[test]
fn g1b_intermediate_reads() {
    check(
        "g1b",
        "
        T1 put 1 101
        T2 where all
        T1 put 1 11
        T1 commit
        T2 where all
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 101           | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | waits
            T1 put 1 11            | done                | done                | done
            T1 commit              | done                | done                | done
            T2 where all           | 1=11 2=20           | 1=10 2=20           | 1=11 2=20
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=20           | 1=11 2=20           | 1=11 2=20
        "#]],
    );
}

/// Two transactions never both see each other's change.
#[test]
fn g1c_circular_information_flow() {
    check(
        "g1c",
        "
        T1 put 1 11
        T2 put 2 22
        T1 get 2
        T2 get 1
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T2 put 2 22            | done                | done                | done
            T1 get 2               | 20                  | 20                  | waits
            T2 get 1               | 10                  | 10                  | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=22           | 1=11 2=22           | 1=11 2=22
        "#]],
    );
}

/// A transaction that sees one change of another sees its other changes too, until the next change.
#[test]
fn otv_an_observed_transaction_does_not_vanish() {
    check(
        "otv",
        "
        T1 put 1 11
        T1 put 2 19
        T2 put 1 12
        T1 commit
        T3 get 1
        T2 put 1 12
        T2 put 2 18
        T3 get 2
        T2 commit
        T3 get 2
        T3 get 1
        T3 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T1 put 2 19            | done                | done                | done
            T2 put 1 12            | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T3 get 1               | 11                  | 11                  | 11
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T3 get 2               | 19                  | 19                  | waits
            T2 commit              | done                | done                | done
            T3 get 2               | 18                  | 19                  | 18
            T3 get 1               | 12                  | 11                  | 11
            T3 commit              | done                | done                | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=11 2=18
        "#]],
    );
}

/// A predicate that is read twice gives the same rows, except at READ COMMITTED.
#[test]
fn pmp_predicate_many_preceders() {
    check(
        "pmp",
        "
        T1 where =30
        T2 put 3 30
        T2 commit
        T1 where %3
        T1 commit
        ",
        &expect![[r#"
            T1 where =30           | none                | none                | none
            T2 put 3 30            | done                | done                | waits
            T2 commit              | done                | done                | done
            T1 where %3            | 3=30                | none                | none
            T1 commit              | done                | done                | done
            in the end             | 1=10 2=20 3=30      | 1=10 2=20 3=30      | 1=10 2=20
        "#]],
    );
}

/// The same for a predicate that selects the rows of a write.
#[test]
fn pmp_for_a_condition_of_a_write() {
    check(
        "pmp-write",
        "
        T1 add-where all 10
        T2 where =20
        T2 delete-where =20
        T1 commit
        T2 delete-where =20
        T2 where =20
        T2 commit
        ",
        &expect![[r#"
            T1 add-where all 10    | done                | done                | done
            T2 where =20           | 2=20                | 2=20                | waits
            T2 delete-where =20    | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T2 delete-where =20    | done                | conflict            | done
            T2 where =20           | none                | rolled back         | none
            T2 commit              | done                | rolled back         | done
            in the end             | 2=30                | 1=20 2=30           | 2=30
        "#]],
    );
}

/// A change that was computed from a read does not overwrite a newer one, except at READ COMMITTED.
#[test]
fn p4_lost_updates() {
    check(
        "p4",
        "
        T1 get 1
        T2 get 1
        T1 put 1 11
        T2 put 1 11
        T1 commit
        T2 put 1 11
        T2 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 get 1               | 10                  | 10                  | 10
            T1 put 1 11            | done                | done                | waits
            T2 put 1 11            | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T2 put 1 11            | done                | conflict            | done
            T2 commit              | done                | rolled back         | done
            in the end             | 1=11 2=20           | 1=11 2=20           | 1=11 2=20
        "#]],
    );
}

/// All reads see one state, except at READ COMMITTED.
#[test]
fn g_single_read_skew() {
    check(
        "g-single",
        "
        T1 get 1
        T2 get 1
        T2 get 2
        T2 put 1 12
        T2 put 2 18
        T2 commit
        T1 get 2
        T1 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 get 1               | 10                  | 10                  | 10
            T2 get 2               | 20                  | 20                  | 20
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T2 commit              | done                | done                | done
            T1 get 2               | 18                  | 20                  | 18
            T1 commit              | done                | done                | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=10 2=18
        "#]],
    );
}

/// The same with predicates.
#[test]
fn g_single_with_conditions() {
    check(
        "g-single-predicate",
        "
        T1 where %5
        T2 add-where =10 2
        T2 commit
        T1 where %3
        T1 commit
        ",
        &expect![[r#"
            T1 where %5            | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 add-where =10 2     | done                | done                | waits
            T2 commit              | done                | done                | done
            T1 where %3            | 1=12                | none                | none
            T1 commit              | done                | done                | done
            in the end             | 1=12 2=20           | 1=12 2=20           | 1=10 2=20
        "#]],
    );
}

/// The same if the second read is part of a write.
#[test]
fn g_single_with_a_write() {
    check(
        "g-single-write",
        "
        T1 get 1
        T2 where all
        T2 put 1 12
        T2 put 2 18
        T2 commit
        T1 delete-where =20
        T1 where all
        T1 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T2 commit              | done                | done                | done
            T1 delete-where =20    | done                | conflict            | done
            T1 where all           | 1=12 2=18           | rolled back         | 1=10 2=18
            T1 commit              | done                | rolled back         | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=10 2=18
        "#]],
    );
}

/// Two transactions read the same rows and change different ones: below SERIALIZABLE both commit.
#[test]
fn g2_item_write_skew() {
    check(
        "g2-item",
        "
        T1 get 1
        T1 get 2
        T2 get 1
        T2 get 2
        T1 put 1 11
        T2 put 2 21
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T1 get 2               | 20                  | 20                  | 20
            T2 get 1               | 10                  | 10                  | 10
            T2 get 2               | 20                  | 20                  | 20
            T1 put 1 11            | done                | done                | waits
            T2 put 2 21            | done                | done                | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=21           | 1=11 2=21           | 1=10 2=20
        "#]],
    );
}

/// Two transactions find no row and insert one each: below SERIALIZABLE both commit.
#[test]
fn g2_anti_dependency_cycles() {
    check(
        "g2",
        "
        T1 where %3
        T2 where %3
        T1 put 3 30
        T2 put 4 42
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 where %3            | none                | none                | none
            T2 where %3            | none                | none                | none
            T1 put 3 30            | done                | done                | waits
            T2 put 4 42            | done                | done                | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=10 2=20 3=30 4=42 | 1=10 2=20 3=30 4=42 | 1=10 2=20
        "#]],
    );
}

/// A reader sees the second of two writers but not the first, which has read what the second wrote
/// (Fekete, O'Neil, O'Neil, "A Read-Only Transaction Anomaly under Snapshot Isolation", 2004).
#[test]
fn g2_of_a_reader_and_two_writers() {
    check(
        "g2-two-edges",
        "
        T1 where all
        T2 add-where =20 5
        T2 commit
        T3 where all
        T3 commit
        T1 put 1 0
        T1 commit
        ",
        &expect![[r#"
            T1 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 add-where =20 5     | done                | done                | waits
            T2 commit              | done                | done                | done
            T3 where all           | 1=10 2=25           | 1=10 2=25           | 1=10 2=20
            T3 commit              | done                | done                | done
            T1 put 1 0             | done                | done                | done
            T1 commit              | done                | done                | done
            in the end             | 1=0 2=25            | 1=0 2=25            | 1=0 2=20
        "#]],
    );
}

/// Two serializable transactions read what the other one changes, in threads that wait for locks.
/// Both first read one row, two rows, or a predicate that no row matches. One is the victim.
#[test]
fn one_of_two_serializable_transactions_in_a_cycle_is_the_deadlock_victim() {
    let test = TestDb::new("cycles");
    let cycles = [
        ("p4", &["get 1"][..], ["put 1 11", "put 1 12"]),
        ("g2-item", &["get 1", "get 2"], ["put 1 11", "put 2 21"]),
        ("g2", &["where %3"], ["put 3 30", "put 4 42"]),
    ];
    for (name, reads, writes) in cycles {
        let table = test.table(name);
        for _ in 0..20 {
            let both_have_read = std::sync::Barrier::new(2);
            let run = |write: &str| {
                let mut tx = test.begin(Isolation::Serializable, Duration::from_secs(3600));
                let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
                let go = |tx: &mut Transaction, line: &str| {
                    let words = words(line);
                    step(tx, &table, false, &words.iter().map(String::as_str).collect::<Vec<_>>())
                };
                for line in reads {
                    go(&mut tx, line).unwrap();
                }
                both_have_read.wait();
                match go(&mut tx, write) {
                    Ok(_) => tx.commit().map(|_| true).unwrap(),
                    Err(Error::Deadlock) => false,
                    Err(other) => panic!("{name}: {other}"),
                }
            };
            let done = std::thread::scope(|scope| {
                let other = scope.spawn(|| run(writes[0]));
                [run(writes[1]), other.join().unwrap()]
            });
            assert!(done[0] != done[1], "{name}: {done:?}");
        }
    }
}
