//! A doublewrite that is switched on while pages without copies are being written.

use super::*;
use crate::Doublewrite;

/// The root says that it is on only when these pages are synced in place (INV-31).
#[test]
fn the_doublewrite_is_on_when_the_last_page_without_a_copy_is_synced() {
    let w = fixture(&options().doublewrite(Doublewrite::UnsafeOff));
    let in_place = || w.disk.pages_by_thread().values().sum::<u64>();
    w.write(Durability::Sync, 0..30, 700);
    w.db.checkpoint().unwrap();
    w.write(Durability::Sync, 0..30, 700);
    let (before, copies) = (in_place(), figure(&w.db, "doublewrite_pages"));
    w.disk.hold(HeldSync::PagesSync);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| w.db.checkpoint());
        while in_place() == before {
            short_pause();
        }
        let switch = scope.spawn(|| w.db.set_doublewrite(Doublewrite::On));
        // Far longer than writing a root takes. A mistake shows here; nothing else depends on it.
        for _ in 0..200 {
            short_pause();
            assert!(!switch.is_finished() && figure(&w.db, "doublewrite_off") == 1);
        }
        w.disk.free();
        checkpoint.join().unwrap().unwrap();
        switch.join().unwrap().unwrap();
    });
    assert_eq!(figure(&w.db, "doublewrite_off"), 0);
    w.write(Durability::Sync, 0..30, 700);
    w.db.checkpoint().unwrap();
    assert!(figure(&w.db, "doublewrite_pages") > copies);
    w.db.close().unwrap();
}
