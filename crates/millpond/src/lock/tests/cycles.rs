//! Cycles of waits: which transactions search for them, how far the search goes, and that only a
//! member of a cycle becomes a victim.

use super::*;

/// Many transactions wait for one row and hold nothing else. No transaction waits for them, so none
/// of them searches for cycles.
#[test]
fn who_was_never_awaited_looks_for_no_circle() {
    let table = table();
    let owners: Vec<_> = (1..=300).map(|id| table.begin(TxnId(id))).collect();
    let long = Wait::Until(Duration::from_secs(3600));
    let request =
        |owner, row: &[u8]| table.enqueue(owner, TREE, row, KeyState::Row, Mode::Exclusive, long).unwrap();
    let mut places: Vec<_> = owners.iter().map(|owner| request(owner, b"hot")).collect();
    let awaited = |owner: &Arc<Owner>| owner.has_blocked();
    assert_eq!(owners.iter().filter(|owner| awaited(owner)).count(), 1, "only who has the row");
    for n in 0..owners.len() - 1 {
        assert!(matches!(places.remove(0), Enqueued::Granted) || n > 0);
        table.release_all(&owners[n]);
        assert_eq!(owners[n + 1].signal.load(Ordering::Acquire), super::wait_state::GRANTED);
        assert_eq!(awaited(&owners[n + 1]), n + 2 < owners.len());
    }
    drop(places);
    table.release_all(owners.last().unwrap());
    assert_eq!(table.bytes(), 0);
}

/// A cycle behind a crowd: the way leads from holder to holder, past however many wait between.
#[test]
fn a_circle_is_found_behind_hundreds_of_waiters() {
    let table = table();
    let owners: Vec<_> = (1..=402).map(|id| table.begin(TxnId(id))).collect();
    let long = Wait::Until(Duration::from_secs(3600));
    let (one, two) = (&owners[0], &owners[1]);
    acquire(&table, one, b"a", Mode::Exclusive, long).unwrap();
    acquire(&table, two, b"b", Mode::Exclusive, long).unwrap();
    let request = |owner, row: &[u8]| match table
        .enqueue(owner, TREE, row, KeyState::Row, Mode::Exclusive, long)
        .unwrap()
    {
        Enqueued::Waiting(ticket) => ticket,
        Enqueued::Granted => panic!("the row is locked"),
    };
    let crowd: Vec<_> = owners[2..]
        .iter()
        .enumerate()
        .map(|(n, o)| request(o, if n % 2 == 0 { b"a" } else { b"b" }))
        .collect();
    let first = request(one, b"b");
    table.break_cycles(one, 0);
    let second = request(two, b"a");
    table.break_cycles(two, 0);
    assert_eq!(second.wait(), Err(Denied::Deadlock));
    drop(crowd);
    table.release_all(two);
    assert_eq!(first.wait(), Ok(()));
    owners.iter().filter(|owner| owner.txn() != two.txn()).for_each(|owner| table.release_all(owner));
    assert_eq!((table.bytes(), table.deadlocks()), (0, 1));
}

/// Who stands between two that are in each other's way belongs to their cycle, and so does the next
/// one who stands there.
#[test]
fn all_who_stand_between_give_way() {
    check(
        "
        1 S a
        1 works 9
        4 X b
        4 works 9
        2 X a
        3 X a
        1 X b
        4 S a
        4 looks
        4 end
        1 end
        ",
        &expect![[r#"
            1 S a: granted
            1 works 9
            4 X b: granted
            4 works 9
            2 X a: waits
            3 X a: waits
            1 X b: waits
            4 S a: waits
            4 looks:  [2 deadlock] [3 deadlock] [4 granted]
            4 end:  [1 granted]
            1 end
        "#]],
    );
}

/// Threads lock a few rows in any order and mode, scan and change in ranges. No wait has a time
/// limit, so the test ends only if every cycle is broken. Each victim was a member of a cycle.
#[test]
fn every_circle_is_broken_and_nobody_else() {
    const ROWS: u64 = 5;
    let table = Arc::new(table());
    let next_id = Arc::new(AtomicU64::new(1));
    let work = |seed: u64| {
        let (table, next_id) = (Arc::clone(&table), Arc::clone(&next_id));
        base::sync::spawn("locker", move || {
            let mut prng = base::prng::Prng::new(seed);
            let long = Wait::Until(Duration::from_secs(1 << 30));
            for _ in 0..150 {
                let owner = table.begin(TxnId(next_id.fetch_add(1, Ordering::Relaxed)));
                for _ in 0..3 {
                    let row = [prng.below(ROWS) as u8];
                    let outcome = match prng.below(4) {
                        0 => acquire(&table, &owner, &row, Mode::Shared, long),
                        1 => {
                            let mut since = ScanStart::default();
                            let range = KeyRange::new(TREE, &row, None);
                            let scan =
                                table.let_writers_pass(&owner, range, RangeMode::READ, &mut since, long);
                            if let Some(scan) = scan.unwrap() {
                                scan.wait(&mut since, None).unwrap();
                            }
                            table.cover(&owner, range, RangeMode::READ, since, false).unwrap();
                            Ok(())
                        }
                        _ => loop {
                            match table.claim(&owner, TREE, &row, KeyState::Row, long).unwrap() {
                                Enqueued::Granted => {
                                    break acquire(&table, &owner, &row, Mode::Exclusive, long);
                                }
                                Enqueued::Waiting(ticket) => {
                                    if let denied @ Err(_) = ticket.wait() {
                                        break denied;
                                    }
                                }
                            }
                        },
                    };
                    match outcome {
                        Ok(()) => owner.add_work(1),
                        Err(Denied::Deadlock) => break,
                        Err(other) => panic!("{other:?}"),
                    }
                    std::thread::yield_now();
                }
                table.release_all(&owner);
            }
        })
        .unwrap()
    };
    let threads: Vec<_> = (0..8).map(work).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((table.bytes(), table.wrong_victims()), (0, 0));
    assert!(table.deadlocks() > 0, "no cycle was made");
}

/// Of two that have done as much, the one that has closed the cycle gives way, as in InnoDB:
/// programs rely on it. The one that has done less gives way all the same.
#[test]
fn on_a_tie_the_transaction_that_closes_the_cycle_gives_way() {
    check(
        "
        1 X a
        2 X b
        1 works 3
        2 works 3
        2 X a
        1 X b
        1 looks
        1 end
        2 end
        3 X a
        4 X b
        3 works 2
        4 works 3
        3 X b
        4 X a
        4 looks
        3 end
        4 end
        ",
        &expect![[r#"
            1 X a: granted
            2 X b: granted
            1 works 3
            2 works 3
            2 X a: waits
            1 X b: waits
            1 looks:  [1 deadlock]
            1 end:  [2 granted]
            2 end
            3 X a: granted
            4 X b: granted
            3 works 2
            4 works 3
            3 X b: waits
            4 X a: waits
            4 looks:  [3 deadlock]
            3 end:  [4 granted]
            4 end
        "#]],
    );
}
