//! Hundreds of sessions are in every wait that the engine has when another thread fails, in each
//! possible way. All of them get the error within one simulated second. More seeds: `WAITS_SEEDS=20
//! cargo test --release -p sim --test waits`.

use base::sync::sim::{WorldOptions, run};
use millpond::planted::Bug;
use sim::waits::{TROUBLES, Trouble, closing_wakers, run_sessions};

fn world(seed: u64, flags: u128, f: impl FnOnce() + Send + 'static) -> Result<(), String> {
    // Atomics are no scheduling points here: only the order of the waits matters.
    let options = WorldOptions { flags, atomics_one_in: u64::MAX, ..WorldOptions::new(seed) };
    run(options, f).result.map_err(|failure| format!("seed {seed}: {failure}"))
}

fn seeds() -> u64 {
    std::env::var("WAITS_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn hundreds_of_sessions_get_the_error_within_a_second_after_another_thread_failed() {
    for (n, (name, trouble)) in TROUBLES.iter().enumerate() {
        for seed in 0..seeds() {
            let seed = seed * TROUBLES.len() as u64 + n as u64;
            // Many sessions for the first trouble, which has found a bug, and for some others,
            // which the seed selects.
            let sessions = if n == 0 || (n as u64 + seed).is_multiple_of(7) { 200 } else { 48 };
            let done = world(seed, 0, move || run_sessions(seed, sessions, *trouble));
            done.unwrap_or_else(|what| panic!("{name}: {what}"));
        }
    }
}

#[test]
fn wakers_may_close_the_database_whichever_thread_leads_the_flush() {
    for seed in 0..40 * seeds() {
        world(seed, 0, move || closing_wakers(seed, seed % 4 == 0)).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// A flush leader did so when the write of a page had failed meanwhile.
#[test]
fn a_leader_that_wakes_no_waiter_is_found() {
    let found = (0..20).find_map(|seed| {
        let trouble = TROUBLES[0].1;
        assert!(matches!(trouble, Trouble::Refused(..)));
        world(seed, Bug::WaitersNotWoken.flag(), move || run_sessions(seed, 64, trouble)).err()
    });
    println!("{}", found.expect("the mistake was not found"));
}

#[test]
fn a_leader_that_calls_wakers_is_found() {
    let found = (0..40).find_map(|seed| {
        world(seed, Bug::WakersCalledByLeader.flag(), move || closing_wakers(seed, false)).err()
    });
    println!("{}", found.expect("the mistake was not found"));
}
