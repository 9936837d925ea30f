//! [`Db::observe_waits`]: who waits for whom, told when the wait begins.

use super::Db;
use crate::error::{Error, Result};
use crate::lock::WaitObserver;
use std::sync::Arc;

impl Db {
    /// Tells `observer`, from now on and until the database is closed, when a transaction that has
    /// a name ([`TxnOptions::observed_as`](crate::TxnOptions::observed_as)) begins to wait for a
    /// lock of another that has one. So a caller whose transactions must commit in an order of its
    /// own can roll back one that is in the way.
    ///
    /// A transaction that has been prepared and left to a decision by name is told of no more.
    ///
    /// ```
    /// use millpond::{Db, TxnOptions, WaitObserver};
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// #[derive(Debug, Default)]
    /// struct Waits(Mutex<Vec<(u64, u64)>>);
    ///
    /// impl WaitObserver for Waits {
    ///     fn waits(&self, waiter: u64, blocker: u64) -> bool {
    ///         self.0.lock().unwrap().push((waiter, blocker));
    ///         false
    ///     }
    /// }
    ///
    /// let db = Db::open_in_memory()?;
    /// let table = db.create_table("t")?;
    /// let waits = Arc::new(Waits::default());
    /// db.observe_waits(waits.clone())?;
    ///
    /// let mut first = db.begin_with(TxnOptions::new().observed_as(1))?;
    /// first.put(&table, b"key", b"1")?;
    /// let short = TxnOptions::new().observed_as(2).lock_wait(Duration::from_millis(1));
    /// assert!(db.begin_with(short)?.put(&table, b"key", b"2").is_err());
    /// assert_eq!(*waits.0.lock().unwrap(), [(2, 1)]);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if the database has an observer; [`Error::Closed`], [`Error::Poisoned`].
    pub fn observe_waits(&self, observer: Arc<dyn WaitObserver>) -> Result<()> {
        let _inside = self.core.enter()?;
        if self.core.engine.txns.locks.observe(observer) {
            Ok(())
        } else {
            Err(Error::Misuse("the database has an observer of waits already".into()))
        }
    }
}
