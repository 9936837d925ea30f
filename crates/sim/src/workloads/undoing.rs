//! Rollback and purge on a full disk, in a full log, and at an unreadable page.

use super::{fill, key, value};
use crate::driver::Driver;
use crate::engine::DIR;

const FREE: &str = "there is no conflict";

/// Rows are made short and other rows take the space, so the rollback finds none.
pub(super) fn full_disk(d: &Driver) {
    d.create("t");
    fill(d, "t", 40, 900);
    let mut rng = d.rng(1);
    let mut tx = d.tx();
    tx.put("t", &key(3), &value(&mut rng, 7_000, 9_000)).expect(FREE);
    tx.put("t", &key(900), b"stays").expect(FREE);
    tx.commit();
    let mut tx = d.tx();
    tx.put("t", &key(900), b"goes").expect(FREE);
    let before = tx.savepoint();
    for n in 0..40 {
        tx.put("t", &key(n), b"short").expect(FREE);
    }
    d.faults().limit_space(DIR, rng.below(2) * 4096);
    let mut others = d.tx();
    for n in 0..2_000 {
        let between = [&key(n % 40)[..], &n.to_be_bytes()].concat();
        if others.put("t", &between, &value(&mut rng, 100, 300)).is_err() {
            break;
        }
    }
    others.commit();
    match tx.rollback_to(&before) {
        Ok(()) => {
            tx.put("t", &key(900), b"again").expect("there is room for less");
            tx.rollback();
        }
        Err(_) => {
            assert!(tx.get("t", &key(900)).is_err(), "a transaction that is half undone reads");
            assert!(tx.try_commit().is_err(), "a transaction that is half undone commits");
        }
    }
    d.faults().heal();
    d.idle(2_000_000);
}

/// The undo of a transaction is longer than the log, and the disk has no space for more undo or
/// log.
pub(super) fn full_log(d: &Driver) {
    d.create("t");
    fill(d, "t", 300, 900);
    d.checkpoint();
    let mut rng = d.rng(1);
    let mut tx = d.tx();
    for n in 0..300 {
        tx.put("t", &key(n), b"short").expect(FREE);
        if n % 60 == 59 {
            d.checkpoint();
        }
    }
    tx.put("t", &key(0), &value(&mut rng, 500, 900)).expect(FREE);
    d.faults().limit_space(DIR, 0);
    tx.rollback();
    d.idle(200_000);
    assert!(d.figure("poisoned") == 0, "a rollback stopped the database");
    d.faults().heal();
    d.idle(2_000_000);
}

/// A reader holds its snapshot on a full disk while other transactions delete, so nothing can be
/// purged. The deletes are refused, and the reader goes on. Once the snapshot is gone every row can
/// be deleted, and all the space comes back.
pub(super) fn full_snapshot(d: &Driver) {
    const ROWS: u64 = 160;
    d.create("t");
    d.create("spare");
    fill(d, "t", ROWS, 500);
    fill(d, "spare", 40, 900);
    d.drop_table("spare");
    d.idle(400_000);
    d.checkpoint();
    d.fill_disk(true);
    let reader = d.tx();
    assert!(reader.get("t", &key(0)).expect(FREE).is_some());
    d.threads(2, |d, half| {
        for n in (0..ROWS / 2).map(|n| 2 * n + half) {
            let mut tx = d.tx();
            match tx.delete("t", &key(n)) {
                Ok(_) => tx.commit(),
                Err(_) => return tx.rollback(),
            }
        }
    });
    assert!(d.figure("poisoned") == 0, "a snapshot stopped the database");
    let left = d.tx().scan("t").expect(FREE).len();
    assert!(left > 0, "the disk is not full");
    assert!(reader.get("t", &key(0)).is_ok_and(|row| row.is_some()), "a reader is held");
    reader.rollback();
    // A transaction may still be refused while purge is held up by something else; tried again it
    // gets through.
    const TRIES: u32 = 20;
    for n in 0..ROWS {
        let deleted = (0..TRIES).any(|_| {
            let mut tx = d.tx();
            match tx.delete("t", &key(n)) {
                Ok(_) => {
                    tx.commit();
                    true
                }
                Err(_) => {
                    tx.rollback();
                    false
                }
            }
        });
        assert!(deleted, "the snapshot is gone, and a row cannot be deleted");
    }
    d.idle(2_000_000);
    let waiting = d.figure("history_transactions");
    assert!(waiting == 0, "{waiting} transactions are not purged");
    d.reopen();
    d.fill_disk(false);
}

/// One leaf cannot be read while the rows of others are purged and reverted.
pub(super) fn unreadable(d: &Driver) {
    let marker = b"k00000-here-it-is";
    for table in ["others", "bad", "good"] {
        d.create(table);
    }
    fill(d, "others", 120, 1_500);
    fill(d, "bad", 8, 50);
    fill(d, "good", 8, 50);
    let mut tx = d.tx();
    tx.put("bad", marker, b"x").expect(FREE);
    tx.commit();
    let reader = d.tx();
    reader.get("bad", marker).expect(FREE);
    for n in 0..3 {
        let mut tx = d.tx();
        tx.delete("bad", &key(n)).expect(FREE);
        tx.delete("good", &key(n)).expect(FREE);
        tx.commit();
    }
    let mut open = d.tx();
    open.put("bad", &key(5), b"goes").expect(FREE);
    open.put("good", &key(5), b"goes").expect(FREE);
    d.checkpoint();
    for _ in 0..2 {
        let tx = d.tx();
        for n in 0..120 {
            tx.get("others", &key(n)).expect(FREE);
        }
        tx.rollback();
    }
    d.refuse_reads_of(marker);
    open.rollback();
    reader.rollback();
    for n in 10..13 {
        let mut tx = d.tx();
        tx.put("good", &key(n), b"new").expect(FREE);
        tx.delete("good", &key(n)).expect(FREE);
        tx.commit();
    }
    d.idle(400_000);
    let (waiting, aside) = (d.figure("history_transactions"), d.figure("transactions_set_aside"));
    assert!(waiting == 0, "{waiting} transactions wait for one page; {aside} are quarantined");
    d.faults().heal();
    d.idle(3_000_000);
}
