//! Queues and deadlocks as text scripts, one line a call; then threads against a counter.

mod cycles;
mod memory;
mod observed;
mod ranges;
mod report;
mod row_ranges;
mod script;

use super::key::LockKey;
use super::queue::Queue;
use super::*;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{TreeId, TxnId};
use expect_test::{Expect, expect};
use script::check;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const TREE: TreeId = TreeId(1);

/// A clock that moves by a millisecond with each call.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl vfs::Clock for Ticking {
    fn now_us(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
    fn unix_seconds(&self) -> u64 {
        0
    }
    fn random_u64(&self) -> u64 {
        0
    }
}

fn table() -> LockTable {
    LockTable::new(Arc::<Ticking>::default(), u64::MAX)
}

/// Requests a lock and waits for it.
fn acquire(table: &LockTable, owner: &Arc<Owner>, key: &[u8], mode: Mode, wait: Wait) -> Result<(), Denied> {
    table.enqueue(owner, TREE, key, KeyState::Row, mode, wait)?.finish()
}

#[test]
fn who_comes_first_goes_first() {
    check(
        "
        1 S a
        2 S a
        3 X a
        4 S a
        5 S a
        show a
        1 end
        2 end
        3 end
        show a
        ",
        &expect![[r#"
            1 S a: granted
            2 S a: granted
            3 X a: waits
            4 S a: waits
            5 S a: waits
            show a: T1:S T2:S T3:X? T4:S? T5:S?
            1 end
            2 end:  [3 granted]
            3 end:  [4 granted] [5 granted]
            show a: T4:S T5:S
        "#]],
    );
}

#[test]
fn a_lock_is_entered_once_and_can_be_made_stronger() {
    check(
        "
        1 S a
        1 S a
        1 X a
        1 S a
        show a
        2 X a
        1 X a
        1 end
        show a
        ",
        &expect![[r#"
            1 S a: granted
            1 S a: granted
            1 X a: granted
            1 S a: granted
            show a: T1:X
            2 X a: waits
            1 X a: granted
            1 end:  [2 granted]
            show a: T2:X
        "#]],
    );
}

#[test]
fn an_upgrade_waits_before_the_others() {
    check(
        "
        1 S a
        2 S a
        3 X a
        1 X a
        show a
        1 looks
        2 end
        show a
        1 end
        ",
        &expect![[r#"
            1 S a: granted
            2 S a: granted
            3 X a: waits
            1 X a: waits
            show a: T1:S T2:S T1:X? T3:X?
            1 looks
            2 end:  [1 granted]
            show a: T1:X T3:X?
            1 end:  [3 granted]
        "#]],
    );
}

#[test]
fn two_upgrades_are_a_deadlock() {
    check(
        "
        1 S a
        2 S a
        1 works 3
        2 works 1
        1 X a
        2 X a
        2 looks
        2 end
        show a
        ",
        &expect![[r#"
            1 S a: granted
            2 S a: granted
            1 works 3
            2 works 1
            1 X a: waits
            2 X a: waits
            2 looks:  [2 deadlock]
            2 end:  [1 granted]
            show a: T1:X
        "#]],
    );
}

#[test]
fn the_victim_has_done_least() {
    check(
        "
        1 X a
        2 X b
        3 X c
        1 works 5
        2 works 2
        3 works 9
        1 X b
        1 looks
        2 X c
        2 looks
        3 X a
        3 looks
        2 end
        show b
        ",
        &expect![[r#"
            1 X a: granted
            2 X b: granted
            3 X c: granted
            1 works 5
            2 works 2
            3 works 9
            1 X b: waits
            1 looks
            2 X c: waits
            2 looks
            3 X a: waits
            3 looks:  [2 deadlock]
            2 end:  [1 granted]
            show b: T1:X
        "#]],
    );
}

#[test]
fn one_request_may_close_two_circles() {
    check(
        "
        1 S a
        2 S a
        3 X b
        1 works 1
        2 works 1
        3 works 9
        1 X b
        2 X b
        3 X a
        3 looks
        1 end
        2 end
        show b
        ",
        &expect![[r#"
            1 S a: granted
            2 S a: granted
            3 X b: granted
            1 works 1
            2 works 1
            3 works 9
            1 X b: waits
            2 X b: waits
            3 X a: waits
            3 looks:  [1 deadlock] [2 deadlock]
            1 end
            2 end:  [3 granted]
            show b: T3:X
        "#]],
    );
}

#[test]
fn nowait_and_skip_leave_no_trace() {
    check(
        "
        1 X a
        2 X a nowait
        2 S a skip
        2 behind 1 X b nowait
        show a
        show b
        1 end
        ",
        &expect![[r#"
            1 X a: granted
            2 X a nowait: Timeout
            2 S a skip: Skipped
            2 behind 1 X b nowait: Timeout
            show a: T1:X
            show b: nobody
            1 end
        "#]],
    );
}

#[test]
fn a_version_becomes_a_lock_when_somebody_waits() {
    check(
        "
        1 writes a
        show a
        2 behind 1 X a
        3 behind 1 S a
        show a
        1 writes a
        1 end
        show a
        2 writes a
        ",
        &expect![[r#"
            1 writes a: granted
            show a: nobody
            2 behind 1 X a: waits
            3 behind 1 S a: waits
            show a: T1:X T2:X? T3:S?
            1 writes a: granted
            1 end:  [2 granted]
            show a: T2:X T3:S?
            2 writes a: granted
        "#]],
    );
}

#[test]
fn a_writer_waits_for_readers_and_for_those_before_it() {
    check(
        "
        1 S a
        2 writes a
        2 quits
        1 writes a
        3 X a
        4 writes a
        1 end
        3 end
        show a
        ",
        &expect![[r#"
            1 S a: granted
            2 writes a: waits
            2 quits
            1 writes a: granted
            3 X a: waits
            4 writes a: waits
            1 end:  [3 granted]
            3 end:  [4 granted]
            show a: T4:X
        "#]],
    );
}

#[test]
fn who_has_ended_is_not_waited_for() {
    check(
        "
        1 writes a
        2 behind-ended 1 X a
        1 end
        2 behind 1 X a
        show a
        ",
        &expect![[r#"
            1 writes a: granted
            2 behind-ended 1 X a: gone
            1 end
            2 behind 1 X a: gone
            show a: nobody
        "#]],
    );
}

#[test]
fn a_withdrawn_request_lets_the_next_ones_through() {
    check(
        "
        1 S a
        2 X a
        3 S a
        2 quits
        show a
        ",
        &expect![[r#"
            1 S a: granted
            2 X a: waits
            3 S a: waits
            2 quits:  [3 granted]
            show a: T1:S T3:S
        "#]],
    );
}

#[test]
fn stopping_fails_every_wait() {
    check(
        "
        1 X a
        2 X a
        3 S a
        stop
        2 X a
        2 X b
        ",
        &expect![[r#"
            1 X a: granted
            2 X a: waits
            3 S a: waits
            stop:  [2 stopped] [3 stopped]
            2 X a: Stopped
            2 X b: granted
        "#]],
    );
}

#[test]
fn a_wait_runs_out_by_the_clock() {
    let table = table();
    let (one, two) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    let soon = Wait::Until(Duration::from_millis(5));
    assert_eq!(acquire(&table, &one, b"a", Mode::Exclusive, soon), Ok(()));
    assert_eq!(acquire(&table, &two, b"a", Mode::Shared, soon), Err(Denied::Timeout));
    table.release_all(&one);
    assert_eq!(acquire(&table, &two, b"a", Mode::Shared, soon), Ok(()));
    table.release_all(&two);
    assert_eq!((table.bytes(), table.waits()), (0, 1));
}

#[test]
fn a_circle_over_a_table_and_a_row_is_found() {
    let table = table();
    let owners: Vec<_> = (1..=3).map(|id| table.begin(TxnId(id))).collect();
    let long = Wait::Until(Duration::from_secs(3600));
    table.lock_table(&owners[0], TREE, TableLock::Shared, long).unwrap().finish().unwrap();
    acquire(&table, &owners[1], b"row", Mode::Exclusive, long).unwrap();
    owners[0].add_work(10);
    owners[1].add_work(10);
    // 3 drops the table and waits for 1; 2 comes behind 3; 1 waits for 2's row. 3 has nothing to
    // lose.
    let drop_table = table.lock_table(&owners[2], TREE, TableLock::Exclusive, long).unwrap();
    let use_table = table.lock_table(&owners[1], TREE, TableLock::Shared, long).unwrap();
    let row = table.enqueue(&owners[0], TREE, b"row", KeyState::Row, Mode::Exclusive, long).unwrap();
    let Enqueued::Waiting(row) = row else { panic!("the row is locked") };
    table.break_cycles(&owners[0], 0);
    assert_eq!(drop_table.finish(), Err(Denied::Deadlock));
    assert_eq!(use_table.finish(), Ok(()));
    table.release_all(&owners[1]);
    assert_eq!(row.wait(), Ok(()));
    table.release_all(&owners[0]);
    table.release_all(&owners[2]);
    assert_eq!((table.bytes(), table.deadlocks()), (0, 1));
}

/// Threads move units between rows in random order, with a deadlock now and then; a row is a plain
/// load and store, so a lock that is held twice loses an update.
#[test]
fn threads_lose_no_update() {
    const ROWS: usize = 3;
    let table = Arc::new(table());
    let rows: Arc<[AtomicU64; ROWS]> = Arc::default();
    let next_id = Arc::new(AtomicU64::new(1));
    let work = |seed: u64| {
        let (table, rows, next_id) = (Arc::clone(&table), Arc::clone(&rows), Arc::clone(&next_id));
        base::sync::spawn("locker", move || {
            let mut prng = base::prng::Prng::new(seed);
            let mut done = 0;
            while done < 300 {
                let owner = table.begin(TxnId(next_id.fetch_add(1, Ordering::Relaxed)));
                for _ in 0..2 {
                    let row = prng.below(ROWS as u64) as usize;
                    let long = Wait::Until(Duration::from_secs(1 << 30));
                    match acquire(&table, &owner, &[row as u8], Mode::Exclusive, long) {
                        Ok(()) => {
                            let v = rows[row].load(Ordering::Relaxed);
                            base::sync::spin(&mut 64);
                            rows[row].store(v + 1, Ordering::Relaxed);
                            done += 1;
                            owner.add_work(1);
                        }
                        Err(Denied::Deadlock) => break,
                        Err(other) => panic!("{other:?}"),
                    }
                }
                table.release_all(&owner);
            }
            done
        })
        .unwrap()
    };
    let threads: Vec<_> = (0..4).map(work).collect();
    let done: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(rows.iter().map(|r| r.load(Ordering::Relaxed)).sum::<u64>(), done);
    assert_eq!(table.bytes(), 0);
}
