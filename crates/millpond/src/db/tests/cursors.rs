//! Cursors against a model: every seek, both directions, with changes in between.

use super::*;
use crate::{Cursor, LockWait, RowLock, Seek};
use std::ops::Bound;

const fn is_send<T: Send>() {}
const _: () = is_send::<Cursor>();

fn key(n: u64) -> Vec<u8> {
    // Keys of several lengths, some of which begin with others.
    let digits = format!("k{n:03}");
    digits.as_bytes()[..if n.is_multiple_of(7) { 3 } else { 4 }].to_vec()
}

fn value(rng: &mut Prng) -> Vec<u8> {
    let len = if rng.one_in(15) { rng.between(2000, 6000) } else { rng.between(0, 120) };
    let mut value = vec![0; len as usize];
    rng.fill(&mut value);
    value
}

/// What a cursor must find in the model.
fn expected<'m>(model: &'m Rows, bounds: &(Vec<u8>, Option<Vec<u8>>), seek: Seek<'_>) -> Option<&'m Vec<u8>> {
    let (lower, upper) = bounds;
    let inside = |key: &&Vec<u8>| *key >= lower && upper.as_ref().is_none_or(|upper| *key < upper);
    let mut keys = model.keys().filter(inside);
    match seek {
        Seek::AtOrAfter(to) => keys.find(|key| key[..] >= *to),
        Seek::After(to) => keys.find(|key| key[..] > *to),
        Seek::AtOrBefore(to) => keys.rfind(|key| key[..] <= *to),
        Seek::Before(to) => keys.rfind(|key| key[..] < *to),
        Seek::First => keys.next(),
        Seek::Last => keys.next_back(),
    }
}

fn check(model: &Rows, wanted: Option<&Vec<u8>>, got: Option<(&[u8], &[u8])>, what: &str) {
    let wanted = wanted.map(|key| (&key[..], &model[key][..]));
    assert!(got == wanted, "{what}: {:?} and not {:?}", got.map(|row| row.0), wanted.map(|row| row.0));
}

fn random_seek<'k>(rng: &mut Prng, key: &'k [u8]) -> Seek<'k> {
    match rng.below(6) {
        0 => Seek::AtOrAfter(key),
        1 => Seek::After(key),
        2 => Seek::AtOrBefore(key),
        3 => Seek::Before(key),
        4 => Seek::First,
        _ => Seek::Last,
    }
}

fn change(rng: &mut Prng, tx: &mut Transaction, t: &Table, model: &mut Rows) {
    let key = key(rng.below(300));
    if rng.one_in(2) {
        let value = value(rng);
        tx.put(t, &key, &value).unwrap();
        model.insert(key, value);
    } else {
        assert_eq!(tx.delete(t, &key).unwrap(), model.remove(&key).is_some());
    }
}

/// One transaction reads with a cursor and changes rows between its steps. Another transaction
/// changes rows that it does not see, or waits for.
fn walk(seed: u64) {
    let mut rng = Prng::new(seed);
    let (_disk, db, t) = fresh();
    let mut model = Rows::new();
    let mut tx = db.begin().unwrap();
    (0..250).for_each(|_| change(&mut rng, &mut tx, &t, &mut model));
    tx.commit().unwrap();
    let level = *rng.pick(Isolation::ALL);
    let mut tx = db.begin_with(TxnOptions::new().isolation(level)).unwrap();
    let mut cursor = Cursor::new(&t);
    if rng.one_in(3) {
        let lock = if rng.one_in(2) { RowLock::Shared } else { RowLock::Exclusive };
        cursor.set_lock(Some(lock), LockWait::Wait);
    }
    cursor.expect_rows(rng.between(1, 40) as usize);
    let (mut bounds, mut at) = ((Vec::new(), None), None::<Vec<u8>>);
    for step in 0..400 {
        let what = format!("seed {seed}, {level:?}, step {step}");
        match rng.below(20) {
            0 => {
                let (lower, upper) = (key(rng.below(300)), key(rng.below(300)));
                cursor.set_bounds((Bound::Included(&lower[..]), Bound::Excluded(&upper[..])));
                let empty = upper <= lower;
                bounds = if empty { (Vec::new(), Some(Vec::new())) } else { (lower, Some(upper)) };
                at = None;
            }
            1 => {
                cursor.set_bounds(..);
                (bounds, at) = ((Vec::new(), None), None);
            }
            2..6 => {
                let to = key(rng.below(310));
                let seek = random_seek(&mut rng, &to);
                let wanted = expected(&model, &bounds, seek);
                check(&model, wanted, cursor.seek(&mut tx, seek).unwrap(), &format!("{what}, {seek:?}"));
                at = wanted.cloned();
            }
            6..8 => change(&mut rng, &mut tx, &t, &mut model),
            n => {
                let backward = n < 13;
                let seek = match (&at, backward) {
                    (Some(at), false) => Seek::After(at),
                    (Some(at), true) => Seek::Before(at),
                    (None, false) => Seek::First,
                    (None, true) => Seek::Last,
                };
                let wanted = expected(&model, &bounds, seek).cloned();
                let got = if backward { cursor.prev(&mut tx) } else { cursor.next(&mut tx) };
                check(&model, wanted.as_ref(), got.unwrap(), &format!("{what}, backward {backward}"));
                at = wanted.or(at);
            }
        }
    }
    drop((tx, cursor));
    purge_and_check(&db);
}

#[test]
fn a_cursor_finds_what_the_table_has() {
    (0..12).for_each(walk);
}

/// A cursor is used by one transaction after the other, and shows each its own state.
#[test]
fn a_cursor_outlives_its_transactions() {
    let (_disk, db, t) = fresh();
    let mut cursor = Cursor::new(&t);
    for round in 0..5u8 {
        let mut tx = db.begin().unwrap();
        tx.put(&t, &[round], &[7; 3000]).unwrap();
        if round % 2 == 0 {
            tx.rollback();
        } else {
            tx.commit().unwrap();
        }
        let mut tx = db.begin().unwrap();
        let last = cursor.seek(&mut tx, Seek::Last).unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(last, all(&db, "t").into_keys().next_back());
        drop(tx);
        let mut tx = db.begin().unwrap();
        let before = cursor.prev(&mut tx).unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(before, all(&db, "t").into_keys().nth_back(1));
    }
    let mut reader = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert_eq!(cursor.seek(&mut reader, Seek::First).unwrap().unwrap().0, [1]);
    cursor.set_lock(Some(RowLock::Shared), LockWait::Wait);
    assert!(matches!(cursor.seek(&mut reader, Seek::First), Err(Error::Misuse(_))));
    drop(reader);
    db.drop_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    assert!(matches!(cursor.seek(&mut tx, Seek::First), Err(Error::NoSuchTable { .. })));
}

#[test]
fn a_cursor_skips_locked_rows_or_fails_at_them() {
    let (_disk, db, t) = fresh();
    (0..6u8).for_each(|n| put(&db, &t, &[n], b""));
    let mut holder = db.begin().unwrap();
    holder.put(&t, &[0], b"1").unwrap();
    holder.get_for_update(&t, &[3]).unwrap();
    let mut tx = db.begin().unwrap();
    let mut cursor = Cursor::new(&t);
    cursor.set_lock(Some(RowLock::Exclusive), LockWait::SkipLocked);
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next(&mut tx).unwrap() {
        keys.push(key[0]);
    }
    assert_eq!(keys, [1, 2, 4, 5]);
    cursor.set_lock(Some(RowLock::Exclusive), LockWait::NoWait);
    assert_eq!(cursor.seek(&mut tx, Seek::AtOrAfter(&[2])).unwrap().unwrap().0, [2]);
    assert!(matches!(cursor.next(&mut tx), Err(Error::LockTimeout)));
    // Rows that were not asked for are free.
    let mut other = db.begin().unwrap();
    assert!(matches!(other.put(&t, &[1], b""), Err(Error::LockTimeout)));
    drop((other, tx, holder));
    purge_and_check(&db);
}

#[test]
fn estimates_are_near_and_never_fail() {
    let (_disk, db, t) = fresh();
    assert_eq!((db.estimate(&t, ..).unwrap(), db.table_stats(&t).unwrap().rows), (0, 0));
    for n in 0..3000u32 {
        put(&db, &t, &n.to_be_bytes(), &[7; 40]);
    }
    let estimate =
        |from: u32, to: u32| db.estimate(&t, &from.to_be_bytes()[..]..&to.to_be_bytes()[..]).unwrap();
    assert_eq!((estimate(10, 17), estimate(17, 10), estimate(9000, 9100)), (7, 0, 0));
    for (from, to) in [(0, 3000), (0, 1500), (700, 2100), (2900, 3000)] {
        let (got, real) = (estimate(from, to), u64::from(to - from));
        assert!(got * 2 >= real && got <= real * 2, "{from}..{to}: {got}");
    }
    // Few leaves are counted, whatever their rows and wherever they end.
    for (from, to) in [(0u32, 250u32), (700, 981), (2900, 3000), (2750, 4000), (17, 18), (5, 5)] {
        let (from_key, to_key) = (from.to_be_bytes(), to.to_be_bytes());
        let stats = db.range_stats(&t, &from_key[..]..&to_key[..]).unwrap();
        let real = u64::from(to.min(3000) - from);
        assert!(stats.exact && stats.rows == real && stats.leaves <= 9, "{from}..{to}: {stats:?}");
    }
    let all = db.range_stats(&t, ..).unwrap();
    assert!(!all.exact && all.leaves > 20, "{all:?}");
    let stats = db.table_stats(&t).unwrap();
    assert!((1500..6000).contains(&stats.rows) && stats.page_bytes == 4096, "{stats:?}");
    let pages = db.check().unwrap().pages;
    assert!(stats.pages * 2 >= pages && stats.pages <= pages * 2, "{stats:?} of {pages}");
}

#[test]
fn the_size_counts_neither_delete_marks_nor_forgets_long_values() {
    let (_disk, db, t) = fresh();
    let long = db.create_table("long").unwrap();
    for n in 0..300u32 {
        put(&db, &t, &n.to_be_bytes(), &[7; 40]);
        put(&db, &long, &n.to_be_bytes(), &[7; 9000]);
    }
    // A snapshot keeps the marks.
    let mut old = db.begin().unwrap();
    old.draw_snapshot().unwrap();
    let mut tx = db.begin().unwrap();
    for n in (0..300u32).filter(|n| n % 3 != 0) {
        assert!(tx.delete(&t, &n.to_be_bytes()).unwrap());
    }
    tx.commit().unwrap();
    let stats = db.table_stats(&t).unwrap();
    assert!((90..=110).contains(&stats.rows) && stats.value_pages == 0, "{stats:?}");
    let stats = db.table_stats(&long).unwrap();
    assert!((285..=315).contains(&stats.rows) && (855..=945).contains(&stats.value_pages), "{stats:?}");
}

/// Returns the keys that a sample shows, and how many of them do not follow the one before.
fn sampled(db: &Db, table: &Table, leaves: u16) -> (Vec<Vec<u8>>, usize) {
    let (mut keys, mut gaps) = (Vec::new(), 0);
    db.sample_keys(table, leaves, |key, follows| {
        keys.push(key.to_vec());
        gaps += usize::from(!follows);
    })
    .unwrap();
    (keys, gaps)
}

#[test]
fn a_sample_of_keys_is_spread_over_the_table_and_whole_if_the_table_is_small() {
    let (_disk, db, t) = fresh();
    assert_eq!(sampled(&db, &t, 8), (vec![], 0));
    for n in 0..1000u32 {
        put(&db, &t, &n.to_be_bytes(), &[7; 40]);
    }
    let mut tx = db.begin().unwrap();
    tx.delete(&t, &5u32.to_be_bytes()).unwrap();
    tx.commit().unwrap();
    let all = (0..1000u32).filter(|&n| n != 5).map(|n| n.to_be_bytes().to_vec());
    let (keys, gaps) = sampled(&db, &t, u16::MAX);
    assert!(keys.into_iter().eq(all) && gaps == 1, "without the delete mark, and with one beginning");
    let (keys, gaps) = sampled(&db, &t, 4);
    assert_eq!(gaps, 4, "four leaves");
    assert!(keys.is_sorted() && keys.len() < 500);
    let quarter = |n: u32| {
        let (from, to) = (n.to_be_bytes(), (n + 250).to_be_bytes());
        keys.iter().any(|key| (&from[..]..&to[..]).contains(&&key[..]))
    };
    assert!([0, 250, 500, 750].into_iter().all(quarter), "one in each quarter");
    // All leaves but one: most have their neighbour in the sample too.
    let pages = db.table_stats(&t).unwrap().pages as u16;
    let (keys, gaps) = sampled(&db, &t, pages - 2);
    let twice = keys.windows(2).filter(|two| two[0] == two[1]).count();
    assert!(twice + 3 > gaps, "the first key of the next leaf follows: {twice} of {gaps}");
}
