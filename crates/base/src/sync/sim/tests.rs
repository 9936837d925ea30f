//! Tests of worlds: one thread runs at a time, every order can occur, the same seed gives the same
//! order, and a world that cannot go on ends with a reason instead of a hang.

use super::*;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Parker, event};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn world<T: Send + 'static>(seed: u64, f: impl FnOnce() -> T + Send + 'static) -> Run<T> {
    run(WorldOptions { max_steps: 200_000, ..WorldOptions::new(seed) }, f)
}

fn ok<T: Send + 'static>(seed: u64, f: impl FnOnce() -> T + Send + 'static) -> T {
    world(seed, f).result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
}

fn failure<T: Send + 'static>(seed: u64, f: impl FnOnce() -> T + Send + 'static) -> Failure {
    world(seed, f).result.err().expect("the world fails")
}

#[test]
fn a_mutex_excludes_and_without_it_updates_are_lost() {
    let total = |locked: bool| {
        move || {
            let (mutex, count) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (mutex, count) = (Arc::clone(&mutex), Arc::clone(&count));
                    spawn("adder", move || {
                        for _ in 0..10 {
                            let guard = locked.then(|| mutex.lock());
                            let seen = count.load(Ordering::Relaxed);
                            point();
                            count.store(seen + 1, Ordering::Relaxed);
                            drop(guard);
                        }
                    })
                    .unwrap()
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            count.load(Ordering::Relaxed)
        }
    };
    let mut unlocked = BTreeSet::new();
    for seed in 0..40 {
        assert_eq!(ok(seed, total(true)), 30);
        unlocked.insert(ok(seed, total(false)));
    }
    assert!(unlocked.len() > 5 && *unlocked.first().unwrap() < 25, "{unlocked:?}");
}

/// Uses every kind of wait and wake. Returns the order of events.
fn use_all_primitives() -> Vec<u32> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let ready = Arc::new((Mutex::new(0u32), Condvar::new()));
    let word = Arc::new(AtomicU32::new(0));
    let parker = Parker::new();
    let unparker = parker.unparker();
    let threads: Vec<_> = (0..4u32)
        .map(|id| {
            let (log, ready, word, unparker) =
                (Arc::clone(&log), Arc::clone(&ready), Arc::clone(&word), unparker.clone());
            spawn("worker", move || {
                for round in 0..3 {
                    log.lock().push(id * 10 + round);
                    device_time(20);
                }
                *ready.0.lock() += 1;
                ready.1.notify_one();
                while word.load(Ordering::Acquire) == 0 {
                    futex_wait(&word, 0, None);
                }
                log.lock().push(id);
                if id == 3 {
                    unparker.unpark();
                }
            })
            .unwrap()
        })
        .collect();
    let mut count = ready.0.lock();
    while *count < 4 {
        ready.1.wait(&mut count);
    }
    drop(count);
    word.store(1, Ordering::Release);
    futex_wake(&word, 4);
    parker.park();
    threads.into_iter().for_each(|t| t.join().unwrap());
    Arc::into_inner(log).expect("the threads have ended").into_inner()
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let mut orders = BTreeSet::new();
    let mut hashes = BTreeSet::new();
    for seed in 0..50 {
        let (a, b) = (world(seed, use_all_primitives), world(seed, use_all_primitives));
        let order = a.result.unwrap();
        assert_eq!(order, b.result.unwrap());
        assert_eq!((a.hash, a.steps, a.now_us), (b.hash, b.steps, b.now_us), "seed {seed}");
        orders.insert(order);
        hashes.insert(a.hash);
    }
    assert!(orders.len() > 40 && hashes.len() == 50, "{} orders", orders.len());
}

#[test]
fn an_event_changes_the_hash() {
    let hash = |value: u64| world(1, move || event(|| value)).hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn simulated_time_jumps_to_the_next_timeout_in_order() {
    for seed in 0..20 {
        let run = world(seed, || {
            let woken = Arc::new(Mutex::new(Vec::new()));
            let threads: Vec<_> = [30u64, 10, 20]
                .map(|seconds| {
                    let woken = Arc::clone(&woken);
                    spawn("sleeper", move || {
                        let parker = Parker::new();
                        // A wait may end early; a thread that needs the time reads the clock.
                        let until = simulated_us().unwrap() + seconds * 1_000_000;
                        while simulated_us().unwrap() < until {
                            parker.park_for(Duration::from_micros(until - simulated_us().unwrap()));
                        }
                        woken.lock().push(seconds);
                    })
                    .unwrap()
                })
                .into();
            threads.into_iter().for_each(|t| t.join().unwrap());
            Arc::into_inner(woken).expect("the threads have ended").into_inner()
        });
        assert_eq!(run.result.unwrap(), [10, 20, 30]);
        assert!((30_000_000..30_100_000).contains(&run.now_us), "{}", run.now_us);
    }
}

/// Once, time jumped to the next timeout although the thread that many others spun for could run,
/// and was only not picked.
#[test]
fn time_does_not_jump_for_spinning_threads_while_another_thread_can_run() {
    for seed in 0..40 {
        let run = world(seed, || {
            let done = Arc::new(AtomicBool::new(false));
            let sleeper = spawn("sleeper", || Parker::new().park_for(Duration::from_secs(3600))).unwrap();
            let spinners: Vec<_> = (0..60)
                .map(|_| {
                    let done = Arc::clone(&done);
                    let spins = move || {
                        let mut spins = 0;
                        while !done.load(Ordering::Acquire) {
                            spin(&mut spins);
                        }
                    };
                    spawn("spinner", spins).unwrap()
                })
                .collect();
            (0..200).for_each(|_| point());
            done.store(true, Ordering::Release);
            spinners.into_iter().for_each(|t| t.join().unwrap());
            let us = simulated_us().unwrap();
            sleeper.join().unwrap();
            us
        });
        let us = run.result.unwrap();
        // A wait may end early, the sleeper's too.
        assert!(us < 3_600_000_000, "seed {seed}: {us} us");
    }
}

#[test]
fn a_condition_variable_times_out_or_is_notified() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..12 {
        outcomes.insert(ok(seed, || {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let theirs = Arc::clone(&pair);
            let setter = spawn("setter", move || {
                device_time(100);
                *theirs.0.lock() = true;
                theirs.1.notify_all();
            })
            .unwrap();
            let mut done = pair.0.lock();
            let mut timed_out = false;
            while !*done && !timed_out {
                timed_out = pair.1.wait_for(&mut done, Duration::from_micros(100));
            }
            drop(done);
            setter.join().unwrap();
            timed_out
        }));
    }
    assert_eq!(outcomes.len(), 2, "both happen: {outcomes:?}");
}

#[test]
fn a_spinning_thread_lets_others_run_and_time_pass() {
    for seed in 0..20 {
        let now = ok(seed, || {
            let flag = Arc::new(AtomicU32::new(0));
            let theirs = Arc::clone(&flag);
            let setter = spawn("setter", move || {
                pause(10_000_000);
                theirs.store(1, Ordering::Release);
            })
            .unwrap();
            let mut spins = 0;
            while flag.load(Ordering::Acquire) == 0 {
                spin(&mut spins);
            }
            setter.join().unwrap();
            simulated_us().unwrap()
        });
        assert!(now >= 10_000_000);
    }
}

/// Two threads wake each other until a third has done its work, which spins first and so falls
/// behind both.
#[test]
fn threads_that_wake_each_other_do_not_starve_one_that_has_spun() {
    for seed in 0..12 {
        let done = ok(seed, || {
            let turn = Arc::new((Mutex::new(0u32), Condvar::new()));
            let done = Arc::new(AtomicBool::new(false));
            let wakers: Vec<_> = (0..2u32)
                .map(|me| {
                    let (turn, done) = (Arc::clone(&turn), Arc::clone(&done));
                    spawn("waker", move || {
                        while !done.load(Ordering::Relaxed) {
                            let mut whose = turn.0.lock();
                            if *whose % 2 == me {
                                *whose += 1;
                                turn.1.notify_all();
                            } else {
                                turn.1.wait_for(&mut whose, Duration::from_millis(1));
                            }
                        }
                    })
                    .unwrap()
                })
                .collect();
            let mut spins = 0;
            (0..3).for_each(|_| crate::sync::spin(&mut spins));
            point();
            done.store(true, Ordering::Relaxed);
            wakers.into_iter().for_each(|t| t.join().unwrap());
            done.load(Ordering::Relaxed)
        });
        assert!(done);
    }
}

#[test]
fn a_deadlock_is_listed() {
    let mut found = 0;
    for seed in 0..40 {
        let run = world(seed, || {
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (a2, b2) = (Arc::clone(&a), Arc::clone(&b));
            let other = spawn("crosser", move || {
                let _b = b2.lock();
                point();
                let _a = a2.lock();
            })
            .unwrap();
            let first = a.lock();
            point();
            let second = b.lock();
            drop((first, second));
            other.join().unwrap();
        });
        if let Err(failure) = run.result {
            let text = failure.to_string();
            assert!(matches!(failure, Failure::Deadlock(_)), "{text}");
            assert!(text.contains("0 main: waits for a mutex that crosser holds, at crates/base/"), "{text}");
            assert!(text.contains("1 crosser: waits for a mutex that main holds"), "{text}");
            found += 1;
        }
    }
    assert!((1..40).contains(&found), "{found} of 40 seeds");
}

#[test]
fn a_forgotten_wake_is_a_deadlock_not_a_hang() {
    let failure = failure(1, || {
        spawn("sleeper", || Parker::new().park()).unwrap();
        0
    });
    let Failure::Deadlock(text) = &failure else { panic!("{failure}") };
    assert!(text.contains("1 sleeper: waits on a futex") && !text.contains("main"), "{text}");
}

#[test]
fn a_world_with_too_many_steps_fails() {
    let failure = failure(1, || {
        loop {
            point();
        }
    });
    assert!(matches!(&failure, Failure::StepLimit(text) if text.contains("0 main: can run")), "{failure}");
}

#[test]
fn a_thread_that_never_reaches_a_scheduling_point_ends_the_world() {
    let options = WorldOptions { hung_after_seconds: 1, ..WorldOptions::new(1) };
    static STOP: AtomicU32 = AtomicU32::new(0);
    let run = run(options, || {
        while STOP.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
    });
    STOP.store(1, Ordering::Relaxed);
    assert!(matches!(run.result, Err(Failure::Hung(_))));
}

#[test]
fn a_panic_ends_the_world_and_its_destructors_change_nothing_that_is_shared() {
    struct Forbidden;
    impl Drop for Forbidden {
        fn drop(&mut self) {
            point();
            std::process::abort();
        }
    }
    let failure = failure(1, || {
        let thread = spawn("unlucky", || {
            let _half_done = Forbidden;
            point();
            panic!("out of luck");
        });
        thread.unwrap().join().unwrap();
    });
    let Failure::Panic { thread, message } = &failure else { panic!("{failure}") };
    assert!(
        thread == "unlucky" && message.contains("out of luck") && message.contains("tests.rs"),
        "{failure}"
    );
}

#[test]
fn worlds_and_ordinary_threads_live_side_by_side() {
    let worlds: Vec<_> = (0..4)
        .map(|seed| {
            std::thread::spawn(move || {
                (world(seed, use_all_primitives).hash, world(seed, use_all_primitives).hash)
            })
        })
        .collect();
    let ordinary = use_all_primitives();
    assert_eq!(ordinary.len(), 16);
    assert_eq!((simulated_us(), world_flags()), (None, 0));
    for world in worlds {
        let (a, b) = world.join().unwrap();
        assert_eq!(a, b);
    }
}

#[test]
fn a_world_has_flags_and_cores_of_its_own() {
    let options = WorldOptions { flags: 5, cores: 3, ..WorldOptions::new(1) };
    let seen = run(options, || spawn("other", || (world_flags(), cores())).unwrap().join().unwrap());
    assert_eq!(seen.result.unwrap(), (5, 3));
}

#[test]
fn atomics_are_scheduling_points_in_some_worlds() {
    let race = || {
        let count = Arc::new(AtomicU64::new(0));
        let add = |count: &AtomicU64| {
            let seen = count.load(Ordering::Acquire);
            count.store(seen + 1, Ordering::Release);
        };
        let theirs = Arc::clone(&count);
        let other = spawn("other", move || (0..5).for_each(|_| add(&theirs))).unwrap();
        (0..5).for_each(|_| add(&count));
        other.join().unwrap();
        count.load(Ordering::Relaxed)
    };
    let lost = |atomics_one_in| {
        let world = |seed| run(WorldOptions { atomics_one_in, ..WorldOptions::new(seed) }, race);
        (0..60).filter(|seed| world(*seed).result.unwrap() < 10).count()
    };
    assert!(lost(1) > 10);
    assert_eq!(lost(1 << 60), 0);
}
