//! Hundreds in every wait that the engine has, and each failure there is in another thread: all have heard within a simulated
//! second. More seeds: `WAITS_SEEDS=20 cargo test --release -p sim --test waits`.

use base::sync::sim::{WorldOptions, run};
use millpond::planted::Bug;
use sim::waits::{TROUBLES, Trouble, closing_wakers, run_sessions};

fn world(seed: u64, flags: u64, f: impl FnOnce() + Send + 'static) -> Result<(), String> {
    // No atomics as scheduling points: other orders of the waits are what is wanted here.
    let options = WorldOptions { flags, atomics_one_in: u64::MAX, ..WorldOptions::new(seed) };
    run(options, f).result.map_err(|failure| format!("seed {seed}: {failure}"))
}

fn seeds() -> u64 {
    std::env::var("WAITS_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn hundreds_hear_within_a_second_that_another_threads_operation_failed() {
    for (n, (name, trouble)) in TROUBLES.iter().enumerate() {
        for seed in 0..seeds() {
            let seed = seed * TROUBLES.len() as u64 + n as u64;
            // The first, which was found first, and the others in turn by the seed.
            let sessions = if n == 0 || (n as u64 + seed).is_multiple_of(7) { 200 } else { 48 };
            let done = world(seed, 0, move || run_sessions(seed, sessions, *trouble));
            done.unwrap_or_else(|what| panic!("{name}: {what}"));
        }
    }
}

#[test]
fn wakers_may_close_the_database_whoever_leads() {
    for seed in 0..40 * seeds() {
        world(seed, 0, move || closing_wakers(seed, seed % 4 == 0)).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// As the leader of a flush did when a page's write had failed meanwhile.
#[test]
fn a_leader_that_wakes_nobody_is_found() {
    let found = (0..20).find_map(|seed| {
        let trouble = TROUBLES[0].1;
        assert!(matches!(trouble, Trouble::Refused(..)));
        world(seed, Bug::FailureUnheard.flag(), move || run_sessions(seed, 64, trouble)).err()
    });
    println!("{}", found.expect("nobody was missed"));
}

#[test]
fn a_leader_that_calls_wakers_is_found() {
    let found = (0..40)
        .find_map(|seed| world(seed, Bug::ToldByLeader.flag(), move || closing_wakers(seed, false)).err());
    println!("{}", found.expect("nobody closed the database in a leader"));
}
