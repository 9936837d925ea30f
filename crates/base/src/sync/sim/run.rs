//! Begins a world and waits for its end.

use super::failure::Failure;
use super::world::{SimThread, World, current, set_current_thread};
use std::panic::{self, Location};
use std::sync::{Arc, Once};
use std::time::Duration;

/// How a world is.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Decides everything.
    pub seed: u64,
    /// Scheduling points before the world counts as endless.
    pub max_steps: u64,
    /// Seconds of real time without a scheduling point before the world counts as stuck.
    pub hung_after_seconds: u64,
    /// What [`super::cores`] says; 0: the seed decides, 1 to 4.
    pub cores: u32,
    /// What [`super::world_flags`] says.
    pub flags: u64,
    /// In one world of so many, by the seed, atomics are scheduling points.
    pub atomics_one_in: u64,
    /// Whether a panic tells how the thread came there.
    pub backtrace: bool,
}

impl WorldOptions {
    /// The usual world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> WorldOptions {
        WorldOptions {
            seed,
            max_steps: 20_000_000,
            hung_after_seconds: 60,
            cores: 0,
            flags: 0,
            atomics_one_in: 4,
            backtrace: false,
        }
    }
}

/// What became of a world.
#[derive(Debug)]
pub struct Run<T> {
    /// What the first thread returned, when all threads had ended; or why they did not.
    pub result: Result<T, Failure>,
    /// Every decision and every event, folded into one number.
    pub hash: u64,
    /// Scheduling points.
    pub steps: u64,
    /// Simulated time that passed.
    pub now_us: u64,
}

/// Runs `f` as the first thread of a world and waits until all its threads have ended, or the world has failed.
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

/// Starts a thread of a world. It runs when it is chosen.
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
        current.world.wait_for_turn(me);
        let result = f();
        set_current_thread(None);
        current.world.leave(me);
        result
    })?;
    Ok((handle, me))
}

/// Makes the first panic of a simulated thread the end of its world, before anything is unwound. (The hook itself has to
/// return: the standard library holds a lock while it runs.)
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
