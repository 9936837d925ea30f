//! What a thread works for: its caller, or the engine. The metrics use it to tell whether a page
//! was written in the time of a caller (a foreground write), and whether a caller waits for a sync
//! that this thread makes.

use base::sync::{JoinHandle, spawn};
use std::cell::Cell;
use std::marker::PhantomData;

/// What a thread works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A caller that asked for anything but page writes. The default.
    Caller,
    /// A caller that asked for page writes: opening, a checkpoint, closing, a bulk load.
    PageWrites,
    /// The engine.
    Engine,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Caller) };
}

/// Keeps its thread in a role until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct InRole {
    before: Role,
    /// Not `Send`: it belongs to its thread.
    _here: PhantomData<*const ()>,
}

impl InRole {
    fn begin(role: Role) -> InRole {
        InRole { before: ROLE.replace(role), _here: PhantomData }
    }
}

impl Drop for InRole {
    fn drop(&mut self) {
        ROLE.set(self.before);
    }
}

/// Marks the work of this thread as page writes that its caller asked for. A thread of the engine
/// stays one.
pub(crate) fn page_writes() -> InRole {
    InRole::begin(match ROLE.get() {
        Role::Engine => Role::Engine,
        Role::Caller | Role::PageWrites => Role::PageWrites,
    })
}

/// Spawns a thread of the engine.
pub(crate) fn spawn_engine<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    spawn(name, move || {
        let _role = InRole::begin(Role::Engine);
        work()
    })
}

/// Returns how many callers wait as long as this thread waits: one, or none for a thread of the
/// engine.
pub(crate) fn callers() -> u64 {
    u64::from(!is_engine())
}

/// Whether this is a thread of the engine.
pub(crate) fn is_engine() -> bool {
    ROLE.get() == Role::Engine
}

/// Whether a page that this thread writes is written in the time of a caller that did not ask for
/// it.
pub(crate) fn is_foreground() -> bool {
    ROLE.get() == Role::Caller
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duty_ends_with_its_scope_and_the_engine_stays_the_engine() {
        assert!(is_foreground() && callers() == 1);
        {
            let _asked = page_writes();
            assert!(!is_foreground() && callers() == 1);
            let _twice = page_writes();
            assert!(!is_foreground());
        }
        assert!(is_foreground());
        let engine = spawn_engine("engine", || {
            let before = (is_foreground(), callers());
            let _asked = page_writes();
            (before, (is_foreground(), callers()))
        });
        assert_eq!(engine.unwrap().join().unwrap(), ((false, 0), (false, 0)));
    }
}
