//! Runs a world: begins it and waits for its end.

use super::failure::Failure;
use super::options::WorldOptions;
use super::world::{SimThread, World, current, set_current_thread};
use std::panic::{self, Location};
use std::sync::{Arc, Once};
use std::time::Duration;

/// The result of a world.
#[derive(Debug)]
pub struct Run<T> {
    /// The value that the first thread returned, if all threads have ended; or why they have not.
    pub result: Result<T, Failure>,
    /// A hash of every decision and every event.
    pub hash: u64,
    /// How many scheduling points there were.
    pub steps: u64,
    /// Simulated time that has passed.
    pub now_us: u64,
}

/// Runs `f` as the first thread of a world and waits until all its threads have ended, or the world
/// has failed.
#[track_caller]
pub fn run<T: Send + 'static>(options: WorldOptions, f: impl FnOnce() -> T + Send + 'static) -> Run<T> {
    assert!(current().is_none(), "a world inside a world");
    catch_panics();
    let patience = options.hung_after_seconds;
    let world = Arc::new(World::new(options));
    let (first, _) = start(&world, "main", Location::caller(), f).expect("a thread for the world");
    world.begin();
    let mut state = world.state();
    let (mut seen, mut silent) = (u64::MAX, 0);
    while !world.wait_for_end(&mut state, Duration::from_secs(1)) {
        silent = if state.steps == seen { silent + 1 } else { 0 };
        seen = state.steps;
        if silent >= patience {
            state.failure = Some(Failure::Hung(state.listing()));
        }
    }
    let (failure, hash, steps, now_us) = (state.failure.clone(), state.hash, state.steps, state.now_us);
    drop(state);
    let result = match failure {
        Some(failure) => Err(failure),
        // A panic has failed the world, so the thread has returned.
        None => Ok(first.join().expect("no thread of the world panicked")),
    };
    Run { result, hash, steps, now_us }
}

/// Starts a thread of a world. It runs when the world picks it.
pub(super) fn start<T: Send + 'static>(
    world: &Arc<World>,
    name: &str,
    at: &'static Location<'static>,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<(std::thread::JoinHandle<T>, usize)> {
    let me = world.enter(name, at);
    let current = SimThread { world: Arc::clone(world), me };
    let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        set_current_thread(Some(current.clone()));
        current.world.wait_until_chosen(me);
        let result = f();
        set_current_thread(None);
        current.world.leave(me);
        result
    })?;
    Ok((handle, me))
}

/// Makes the first panic of a simulated thread end its world, before the stack is unwound. (The
/// hook itself must return: the standard library holds a lock while the hook runs.)
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let Some(SimThread { world, me }) = current() else { return before(info) };
            let mut message = info.to_string();
            if world.backtrace {
                message = format!("{message}\n{}", std::backtrace::Backtrace::force_capture());
            }
            world.panicked(me, message);
        }));
    });
}
