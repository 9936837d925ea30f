//! The last handle on a database may go in any thread, also in one of the engine's own.

use millpond::Db;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// A task that is waked when nobody else has it: its database goes with it, and then it says so.
struct Task(Mutex<Option<(Db, Sender<()>)>>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some((db, closed)) = self.0.get_mut().unwrap().take() {
            drop(db);
            let _ = closed.send(());
        }
    }
}

/// An executor that has given a task up leaves it to its waker, and that is called by the thread that made the commit durable. It must
/// not wait for its own end.
#[test]
fn it_may_go_with_a_waker() {
    for _ in 0..20 {
        let db = Db::open_in_memory().unwrap();
        let table = db.create_table("t").unwrap();
        let (closed, heard) = channel();
        let waker = Waker::from(Arc::new(Task(Mutex::new(Some((db.clone(), closed))))));
        for n in 0..100u8 {
            let mut tx = db.begin().unwrap();
            tx.put(&table, &[n], b"").unwrap();
            // Nearly always it is not durable yet; whether it is makes no difference to what must hold.
            if pin!(tx.commit_async().unwrap()).poll(&mut Context::from_waker(&waker)).is_pending() {
                break;
            }
        }
        drop((waker, table, db));
        heard.recv().expect("the database is closed, by whichever thread had it last");
    }
}
