//! Users of a table, and a thread that needs the table exclusively: never both at once, and no
//! wake-up is lost.

use crate::clock::StandingClock;
use crate::lock::{Denied, Users};
use crate::model::model;
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
    /// Uses the table unless a thread has closed it. Returns whether it did.
    fn visit(&self) -> bool {
        let using = self.users.enter();
        if using.is_some() {
            self.rows.read();
        }
        using.is_some()
    }

    /// Waits until there are no users, then changes the table.
    fn own(&self) -> Result<(), Denied> {
        let closed = self.users.close();
        closed.wait(&StandingClock, Duration::MAX, || self.stopped.load(Ordering::SeqCst))?;
        self.rows.change();
        Ok(())
    }
}

pub(crate) fn models() {
    model("users: two in different stripes, one exclusive", 3, || {
        let table = Arc::new(Table::default());
        let threads = [0, 1].map(|number| {
            let table = Arc::clone(&table);
            spawn(move || {
                set_thread_number(number);
                table.visit();
                table.visit();
            })
        });
        assert_eq!(table.own(), Ok(()));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(table.visit(), "no thread needs it exclusively any more");
    });
    model("users: two in the same stripe, one exclusive", 3, || {
        let table = Arc::new(Table::default());
        let threads = [0, 0].map(|number| {
            let table = Arc::clone(&table);
            spawn(move || {
                set_thread_number(number);
                table.visit();
            })
        });
        assert_eq!(table.own(), Ok(()));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(table.visit(), "no thread needs it exclusively any more");
    });
    model("users: the wait for a remaining user ends when the database closes", 3, || {
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
