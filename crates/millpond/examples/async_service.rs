//! A service that counts visits: two threads, and thousands of requests whose durable commits are
//! in flight at once.
//!
//! ```text
//! cargo run --release -p millpond --example async_service [-- REQUESTS [THREADS]]
//! ```
//! A durable commit takes as long as a sync of the device. A thread that waits for it does nothing
//! else, so a service with few threads would be as slow as the device. `Transaction::commit_async`
//! returns a future at once. The transaction is then committed, others see it and its locks are
//! free; only the sync is missing. One sync covers all commits that are in the log before it begins
//! (group commit). So the more requests are in flight, the less each of them costs.
//!
//! Three rules for the engine in an async program:
//!
//! - **Await only the commit.** Reads and writes work in memory and at worst read a page, so call
//!   them as plain functions. A `Transaction` is `Send` and may be held across an await, but its
//!   row locks make others wait meanwhile.
//! - **Never wait for a lock on an executor's thread.** With `lock_wait(Duration::ZERO)`, a lock
//!   that is not free returns `Error::LockTimeout` at once. Then the request lets other tasks run
//!   and tries again.
//! - **Answer after the await.** Until the future is ready, a power cut may undo the commit.
//!   Dropping the future does not: the commit becomes durable anyway, but without a notice.
//!
//! `CommitFuture` needs no runtime. The executor below is the minimum: a queue of tasks, and wakers
//! that put a task back into it.

use millpond::{Db, Error, Result, Table, Transaction, TxnOptions};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runnable tasks, and how many tasks are unfinished.
#[derive(Default)]
struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
    unfinished: AtomicUsize,
}

/// One request in progress.
struct Task {
    /// `None` when it has ended. Only one thread at a time polls a task; the mutex makes it `Sync`.
    work: Mutex<Option<Work>>,
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = Arc::clone(&self.executor);
        executor.ready.lock().unwrap().push_back(self);
        executor.changed.notify_one();
    }
}

impl Executor {
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        let task = Task { work: Mutex::new(Some(Box::pin(work))), executor: Arc::clone(self) };
        Arc::new(task).wake();
    }

    /// Runs tasks until all have ended. Any number of threads may do this at once.
    fn run(&self) {
        while let Some(task) = self.next() {
            let waker = Waker::from(Arc::clone(&task));
            let mut work = task.work.lock().unwrap();
            // The task was woken twice and has ended after the first time.
            let Some(future) = work.as_mut() else { continue };
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *work = None;
                if self.unfinished.fetch_sub(1, Ordering::SeqCst) == 1 {
                    // Under the mutex, so a thread that is about to sleep sees the counter or is
                    // notified.
                    let _ready = self.ready.lock().unwrap();
                    self.changed.notify_all();
                }
            }
        }
    }

    fn next(&self) -> Option<Arc<Task>> {
        let mut ready = self.ready.lock().unwrap();
        loop {
            if let Some(task) = ready.pop_front() {
                return Some(task);
            }
            if self.unfinished.load(Ordering::SeqCst) == 0 {
                return None;
            }
            ready = self.changed.wait(ready).unwrap();
        }
    }
}

/// Lets other tasks run first, once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The service. All clones share its state.
#[derive(Clone)]
struct Visits {
    db: Db,
    pages: Table,
    in_flight: Arc<AtomicU64>,
    most_in_flight: Arc<AtomicU64>,
}

impl Visits {
    /// Counts a visit without committing. Returns the new count and the transaction.
    fn count_visit(&self, page: &[u8]) -> Result<(u64, Transaction)> {
        let mut tx = self.db.begin_with(TxnOptions::new().lock_wait(Duration::ZERO))?;
        let before = tx.get_for_update(&self.pages, page)?;
        let count = before.map_or(0, |bytes| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))) + 1;
        tx.put(&self.pages, page, &count.to_be_bytes())?;
        Ok((count, tx))
    }

    /// Counts a visit and returns the new count, which is durable then.
    async fn visit(&self, page: &[u8]) -> Result<u64> {
        let (count, tx) = loop {
            match self.count_visit(page) {
                Err(Error::LockTimeout) => yield_now().await,
                outcome => break outcome?,
            }
        };
        let committed = tx.commit_async()?;
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_flight.fetch_max(now, Ordering::Relaxed);
        let receipt = committed.await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        assert!(receipt?.durable);
        Ok(count)
    }
}

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn page(request: u64) -> String {
    format!("/page/{}", request % 1000)
}

fn run(requests: u64, threads: usize) -> Result<()> {
    let scratch = Scratch(std::env::temp_dir().join(format!("millpond-async-{}", std::process::id())));
    let db = millpond::Options::new().buffer_pool_bytes(32 << 20).open(&scratch.0)?;
    let visits = Visits {
        pages: db.create_table("visits")?,
        db: db.clone(),
        in_flight: Arc::default(),
        most_in_flight: Arc::default(),
    };
    let flushes = || db.metrics().get("log_flushes").unwrap_or(0.0);

    // As a thread-per-request service with so few threads; only a fraction of the requests, because
    // it takes longer.
    let (few, start, before) = (requests / 50, Instant::now(), flushes());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let visits = &visits;
                scope.spawn(move || -> Result<()> {
                    for request in (thread..few).step_by(threads) {
                        let tx = loop {
                            match visits.count_visit(page(request).as_bytes()) {
                                Err(Error::LockTimeout) => std::thread::yield_now(),
                                outcome => break outcome?.1,
                            }
                        };
                        tx.commit()?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker"))
    })?;
    let show = |what: &str, requests: u64, start: Instant, before: f64| {
        let (rate, each) =
            (requests as f64 / start.elapsed().as_secs_f64(), requests as f64 / (flushes() - before));
        println!("{what:>28}: {rate:>8.0} requests a second, {each:.1} commits a flush of the log");
    };
    show(&format!("{threads} threads that wait"), few, start, before);

    let (executor, start, before) = (Arc::new(Executor::default()), Instant::now(), flushes());
    let failures = Arc::new(AtomicU64::new(0));
    for request in few..requests {
        let (visits, failures) = (visits.clone(), Arc::clone(&failures));
        executor.spawn(async move {
            if visits.visit(page(request).as_bytes()).await.is_err() {
                failures.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| executor.run());
        }
    });
    show(&format!("{threads} threads that await"), requests - few, start, before);
    println!("at most {} commits were in flight", visits.most_in_flight.load(Ordering::Relaxed));

    assert_eq!(failures.load(Ordering::Relaxed), 0);
    let tx = db.begin()?;
    let counted: u64 = tx
        .range(&visits.pages, ..)?
        .map(|row| row.map(|(_, count)| count.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))))
        .sum::<Result<u64>>()?;
    assert_eq!(counted, requests, "every visit is counted once");
    drop(tx);
    db.close()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let requests: u64 = args.next().map_or(Ok(50_000), |n| n.parse())?;
    let threads: usize = args.next().map_or(Ok(2), |n| n.parse())?;
    Ok(run(requests, threads.max(1))?)
}

#[test]
fn it_runs() -> Result<()> {
    run(1000, 2)
}
