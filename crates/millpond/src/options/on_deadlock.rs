//! What the program wants to be told of each deadlock.

use std::fmt;
use std::sync::Arc;

/// Gets the number of a deadlock, and the tags of its members.
type Told = dyn Fn(u64, &[u64]) + Send + Sync;

/// A function of the program, see [`Options::on_deadlock`](crate::Options::on_deadlock).
#[derive(Clone)]
pub(crate) struct OnDeadlock(pub(crate) Arc<Told>);

impl fmt::Debug for OnDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDeadlock")
    }
}
