//! Who uses a table against who wants it alone: never both, and neither forgets the other.

use crate::lock::{Denied, Users};
use crate::locks::StandingClock;
use crate::model;
use crate::watched::Watched;
use base::sync::set_thread_number;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::spawn;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct Table {
    users: Users,
    rows: Watched,
    stopped: AtomicBool,
}

impl Table {
    /// Uses the table if it is not wanted; whether it did.
    fn visit(&self) -> bool {
        let using = self.users.enter();
        if using.is_some() {
            self.rows.read();
        }
        using.is_some()
    }

    fn own(&self) -> Result<(), Denied> {
        let closed = self.users.close();
        closed.wait(&StandingClock, Duration::MAX, || self.stopped.load(Ordering::SeqCst))?;
        self.rows.change();
        Ok(())
    }
}

pub(crate) fn models() {
    model("users: two in lanes of their own, one who wants the table alone", 3, || {
        let table = Arc::new(Table::default());
        let threads = [0, 1].map(|lane| {
            let table = Arc::clone(&table);
            spawn(move || {
                set_thread_number(lane);
                table.visit();
                table.visit();
            })
        });
        assert_eq!(table.own(), Ok(()));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(table.visit(), "nobody wants it any more");
    });
    model("users: two in one lane, one who wants the table alone", 3, || {
        let table = Arc::new(Table::default());
        let threads = [0, 0].map(|lane| {
            let table = Arc::clone(&table);
            spawn(move || {
                set_thread_number(lane);
                table.visit();
            })
        });
        assert_eq!(table.own(), Ok(()));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(table.visit(), "nobody wants it any more");
    });
    model("users: the wait for one who stays ends when the database closes", 3, || {
        let table = Arc::new(Table::default());
        let using = table.users.enter();
        let closing = {
            let table = Arc::clone(&table);
            spawn(move || {
                table.stopped.store(true, Ordering::SeqCst);
                table.users.wake();
            })
        };
        assert_eq!(table.own(), Err(Denied::Stopped));
        closing.join().unwrap();
        drop(using);
    });
}
