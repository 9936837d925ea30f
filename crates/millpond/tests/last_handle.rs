//! The last handle of a database may be dropped by any thread, also by one of the engine.

use millpond::Db;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// A task whose last reference is in its waker. Its drop drops the database and reports that.
struct LastTask(Mutex<Option<(Db, Sender<()>)>>);

impl Wake for LastTask {
    fn wake(self: Arc<Self>) {}
}

impl Drop for LastTask {
    fn drop(&mut self) {
        if let Some((db, closed)) = self.0.get_mut().unwrap().take() {
            drop(db);
            let _ = closed.send(());
        }
    }
}

/// An executor may drop a task, so the waker has the last reference to it. The thread that made the
/// commit durable calls the waker. If this is a thread of the engine, closing must not wait for the
/// end of the same thread.
#[test]
fn a_waker_may_drop_the_last_handle() {
    for _ in 0..20 {
        let db = Db::open_in_memory().unwrap();
        let table = db.create_table("t").unwrap();
        let (closed, was_closed) = channel();
        let waker = Waker::from(Arc::new(LastTask(Mutex::new(Some((db.clone(), closed))))));
        for n in 0..100u8 {
            let mut tx = db.begin().unwrap();
            tx.put(&table, &[n], b"").unwrap();
            // Nearly always it is not durable yet. The test must pass in both cases.
            if pin!(tx.commit_async().unwrap()).poll(&mut Context::from_waker(&waker)).is_pending() {
                break;
            }
        }
        drop((waker, table, db));
        was_closed.recv().expect("some thread closes the database");
    }
}
