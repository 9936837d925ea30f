//! What locks take, what bounds it, and how it goes back.

use super::*;

const NOW: Wait = Wait::NoWait;
const LONG: Wait = Wait::Until(Duration::from_secs(3600));

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A scaled-down peak: what is counted follows what is held, and nothing stays of it.
#[test]
fn memory_of_many_locks_is_counted_and_given_back() {
    const LOCKS: u64 = 200_000;
    let table = table();
    let (many, few) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    acquire(&table, &few, b"another's", Mode::Shared, NOW).unwrap();
    let least = table.bytes();
    for n in 0..LOCKS {
        acquire(&table, &many, &key(n), Mode::Exclusive, NOW).unwrap();
    }
    let each = (table.bytes() - least) / LOCKS;
    assert!((100..250).contains(&each), "{each} bytes a lock");
    assert_eq!(table.held(), LOCKS + 1);
    table.release_all(&many);
    // A small map gives back nothing before it is empty.
    assert!(table.held() == 1 && table.bytes() - least < 1000, "{} of {least} bytes", table.bytes());
    table.release_all(&few);
    assert_eq!((table.held(), table.bytes()), (0, 0));
}

/// A transaction with a few locks finds them in small maps, however many locks another one has.
#[test]
fn the_locks_of_one_with_very_many_stand_apart() {
    const LOCKS: u64 = 50_000;
    let table = table();
    let (many, few) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    (0..LOCKS).for_each(|n| acquire(&table, &many, &key(n), Mode::Exclusive, NOW).unwrap());
    let before = table.bytes_of_few();
    assert!(before < 500_000 && table.bytes() > 5_000_000, "{before} of {} bytes", table.bytes());
    (LOCKS..LOCKS + 100).for_each(|n| acquire(&table, &few, &key(n), Mode::Exclusive, NOW).unwrap());
    assert!(table.bytes_of_few() > before);
    // Both are asked, for the first locks, which it took when it had few, and for the others.
    for n in [0, LOCKS - 1] {
        assert_eq!(acquire(&table, &few, &key(n), Mode::Shared, NOW), Err(Denied::Timeout));
    }
    assert_eq!(acquire(&table, &many, &key(LOCKS), Mode::Shared, NOW), Err(Denied::Timeout));
    table.release_all(&few);
    assert!(table.bytes_of_few() < before + before / 10);
    table.release_all(&many);
    assert_eq!((table.held(), table.bytes(), table.bytes_of_few()), (0, 0, 0));
}

/// The limit refuses a request for one more row or range. It does not refuse a request for what the
/// transaction has already, a wait, or a write.
#[test]
fn who_asks_for_more_than_there_is_room_for_is_refused() {
    const MOST: u64 = 20_000;
    let table = LockTable::new(Arc::<Ticking>::default(), MOST);
    let owners: Vec<_> = (1..=4).map(|id| table.begin(TxnId(id))).collect();
    let lock = |n: u64, mode| acquire(&table, &owners[0], &key(n), mode, LONG);
    let full = (0..10_000).find(|&n| lock(n, Mode::Shared).is_err()).unwrap();
    assert!((20..200).contains(&full), "{full} locks");
    // What one insertion takes at most: more room for a part and for a list.
    assert!(table.bytes() < MOST + 5_000, "{} bytes", table.bytes());
    assert_eq!(lock(full, Mode::Shared), Err(Denied::Full));
    let cover = |from: &[u8]| {
        table.cover(&owners[0], KeyRange::new(TREE, from, None), RangeMode::READ, ScanStart::NoYield, false)
    };
    assert_eq!(cover(&key(full)), Err(Denied::Full));
    assert_eq!(table.keep_written(&owners[0], TREE, &key(full)), Err(Denied::Full));
    // What it has it has, and may make stronger.
    assert_eq!((lock(0, Mode::Shared), lock(1, Mode::Exclusive)), (Ok(()), Ok(())));
    table.keep_written(&owners[0], TREE, &key(2)).unwrap();
    // Writers go on, and wait where they must.
    table.claim(&owners[1], TREE, &key(full), KeyState::Row, LONG).unwrap().finish().unwrap();
    let Ok(Enqueued::Waiting(ticket)) = table.claim(&owners[1], TREE, &key(3), KeyState::Row, LONG) else {
        panic!("locked")
    };
    let request = RowRequest { tree: TREE, key: &key(full), mode: Mode::Exclusive, wait: LONG };
    let behind = table.wait_for_writer(&owners[2], TxnId(2), request, || true);
    let Ok(Writer::Waiting(behind)) = behind else { panic!("written") };
    assert_eq!(acquire(&table, &owners[3], &key(full), Mode::Shared, LONG), Err(Denied::Full));
    table.release_all(&owners[0]);
    assert_eq!(ticket.wait(), Ok(()));
    acquire(&table, &owners[3], b"there is room again", Mode::Shared, LONG).unwrap();
    table.release_all(&owners[1]);
    assert_eq!(behind.wait(), Ok(()));
    owners[2..].iter().for_each(|owner| table.release_all(owner));
    assert_eq!((table.held(), table.bytes()), (0, 0));
}

/// A range that grows is not refused. A row that no range reaches to is, also if the scan has
/// passed no row since the last one that it locked: that one may have been released.
#[test]
fn a_range_of_rows_grows_where_there_is_no_room_and_no_new_one_begins() {
    let table = LockTable::new(Arc::<Ticking>::default(), 1);
    let (filler, scan) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    acquire(&table, &filler, b"another's", Mode::Shared, NOW).unwrap();
    let cover = |key: &[u8], joins| {
        let row = RangeRow { tree: TREE, key, joins };
        table.cover_row(&scan, row, Mode::Exclusive, ScanStart::NoYield)
    };
    assert_eq!(cover(b"a", Some(b"a")), Err(Denied::Full));
    table.set_bytes_most(1 << 20);
    assert_eq!(cover(b"b", None), Ok(true));
    table.set_bytes_most(1);
    assert_eq!(cover(b"c", Some(b"b\0")), Ok(true));
    assert!(table.release_row(&scan, TREE, b"c"));
    assert_eq!(cover(b"d", Some(b"c\0")), Err(Denied::Full));
    assert_eq!(cover(b"b", None), Ok(true));
    table.release_all(&scan);
    table.release_all(&filler);
    assert_eq!((table.held(), table.bytes()), (0, 0));
}

/// Other transactions may have written any number of rows. A reader that skips them enters no lock.
#[test]
fn skipped_rows_enter_no_locks() {
    let table = table();
    let (writer, reader) = (table.begin(TxnId(1)), table.begin(TxnId(2)));
    for n in 0..100 {
        let request = |wait| {
            let request = RowRequest { tree: TREE, key: &key(n), mode: Mode::Shared, wait };
            table.wait_for_writer(&reader, TxnId(1), request, || true)
        };
        assert!(matches!(request(Wait::Skip), Err(Denied::Skipped)));
        assert!(matches!(request(NOW), Err(Denied::Timeout)));
    }
    assert_eq!((table.held(), table.bytes()), (0, 0));
    table.release_all(&writer);
    table.release_all(&reader);
}

/// A transaction with many locks ends. One that waits for one of them gets it before the others are
/// released, and one that comes meanwhile does not wait.
#[test]
fn the_release_of_many_locks_keeps_nobody_waiting() {
    const LOCKS: u64 = 10_000;
    let table = table();
    let owners: Vec<_> = (1..=3).map(|id| table.begin(TxnId(id))).collect();
    for n in 0..LOCKS {
        acquire(&table, &owners[0], &key(n), Mode::Exclusive, NOW).unwrap();
    }
    let last = key(LOCKS - 1);
    let Ok(Enqueued::Waiting(ticket)) =
        table.enqueue(&owners[1], TREE, &last, KeyState::Row, Mode::Exclusive, LONG)
    else {
        panic!("locked")
    };
    // The release as it goes, stopped after what comes first.
    let (urgent, chunks) = owners[0].close();
    assert_eq!(urgent.len(), 1);
    urgent.iter().for_each(|key| table.release(&owners[0], key));
    assert_eq!(ticket.wait(), Ok(()));
    acquire(&table, &owners[2], &key(LOCKS - 2), Mode::Shared, NOW).unwrap();
    table.claim(&owners[2], TREE, &key(LOCKS - 3), KeyState::Row, NOW).unwrap().finish().unwrap();
    assert!(table.row_is_free(&owners[2], TREE, &key(LOCKS - 2), Mode::Shared, true));
    // The rest finds some gone, and others' in their place.
    table.release_chunks(&owners[0], chunks);
    assert_eq!(acquire(&table, &owners[1], &key(LOCKS - 2), Mode::Exclusive, NOW), Err(Denied::Timeout));
    assert_eq!(acquire(&table, &owners[2], &last, Mode::Shared, NOW), Err(Denied::Timeout));
    owners[1..].iter().for_each(|owner| table.release_all(owner));
    assert_eq!((table.held(), table.bytes()), (0, 0));
}

/// A writer may end after the check that it is active and before the look at its lock. Then the
/// lock has no holder.
#[test]
fn a_writer_that_ends_while_somebody_comes_to_wait_for_it_is_gone() {
    let table = table();
    let owners: Vec<_> = (1..=2).map(|id| table.begin(TxnId(id))).collect();
    table.keep_written(&owners[0], TREE, b"row").unwrap();
    let mut released = None;
    let ends = || {
        released = Some(owners[0].close().1);
        true
    };
    let request = RowRequest { tree: TREE, key: b"row", mode: Mode::Exclusive, wait: LONG };
    let writer = table.wait_for_writer(&owners[1], TxnId(1), request, ends);
    assert!(matches!(writer, Ok(Writer::Gone)), "{writer:?}");
    table.release_chunks(&owners[0], released.unwrap());
    table.release_all(&owners[0]);
    table.release_all(&owners[1]);
    assert_eq!((table.held(), table.bytes()), (0, 0));
}
