//! Who waits for whom, told when the wait begins.

use crate::bytes::shared;
use crate::db::Db;
use crate::guard::guard_ok;
use crate::rc::misuse;
use millpond::WaitObserver;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Is told that a named transaction waits for another (`millpond_observe_waits`). Returns not 0 if
/// it will have `blocker` rolled back.
pub type ObserverFn = Option<unsafe extern "C" fn(context: *mut c_void, waiter: u64, blocker: u64) -> c_int>;

/// A function of the caller that is told of waits.
#[derive(Debug)]
struct Told {
    told: unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int,
    context: *mut c_void,
}

// SAFETY: the caller of `millpond_observe_waits` lets any thread call the function with the
// context.
unsafe impl Send for Told {}
// SAFETY: as above, also several at once.
unsafe impl Sync for Told {}

impl WaitObserver for Told {
    fn waits(&self, waiter: u64, blocker: u64) -> bool {
        // SAFETY: the function and its context are valid as long as the database.
        unsafe { (self.told)(self.context, waiter, blocker) != 0 }
    }
}

/// Calls `told` from now on when a transaction that has a name (`observed_as`) begins to wait for a
/// lock of another that has one. Any thread of the database calls it, several at once, while the
/// lock table is locked: it must not wait, nor call the database. During the call neither
/// transaction ends, nor is its session freed. `context` must stay valid until the database is
/// freed. `MILLPOND_RC_MISUSE` at the second call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_observe_waits(
    db: *const Db,
    told: ObserverFn,
    context: *mut c_void,
) -> c_int {
    guard_ok(|| {
        let told = told.ok_or_else(|| misuse("no function to tell"))?;
        // SAFETY: the handle is null or valid.
        Ok(unsafe { shared(db) }?.db.observe_waits(Arc::new(Told { told, context }))?)
    })
}
