//! Scripts of synthetic devices.

use super::*;
use base::prng::Prng;
use expect_test::{Expect, expect};
use std::fmt::Write;

/// What a synthetic device takes for a write: fixed part and part for 4 KiB, microseconds.
fn device_us(fixed: f64, per_block: f64, bytes: u64) -> f64 {
    fixed + per_block * bytes as f64 / 4096.0
}

/// Each line of the script is one of
/// - `write N DEPTH FIXED PER_BLOCK`: N batches of 4 writes on such a device, 4 KiB to 1 MiB each;
/// - `same N DEPTH FIXED PER_BLOCK`: the same, all of 64 KiB;
/// - `pause DEPTH US`: one batch of 4 writes of 64 KiB that takes so long;
/// - `sync N DEPTH US` and `read N DEPTH US`: N measurements of so much each.
///
/// Prints after each line what the model says of its class.
fn check(script: &str, expected: &Expect) {
    let (mut model, mut rng, mut out) = (DeviceModel::new(), Prng::new(1), String::new());
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (what, numbers) = line.split_once(' ').unwrap();
        let n: Vec<f64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let depth = |at: usize| n[at] as u64;
        let class = match what {
            "write" | "same" => {
                for _ in 0..n[0] as u64 {
                    let bytes = if what == "same" { 65_536 } else { 4096 << rng.below(9) };
                    let noise = 0.9 + rng.below(21) as f64 / 100.0;
                    let us = 4.0 * device_us(n[2], n[3], bytes) * noise;
                    model.wrote(4, 4 * bytes, depth(1), us as u64);
                }
                Parallelism::of(depth(1))
            }
            "pause" => {
                model.wrote(4, 4 * 65_536, depth(0), n[1] as u64);
                Parallelism::of(depth(0))
            }
            "sync" | "read" => {
                for _ in 0..n[0] as u64 {
                    match what {
                        "sync" => model.synced(depth(1), n[2]),
                        _ => model.read(10, depth(1), 10 * n[2] as u64),
                    }
                }
                Parallelism::of(depth(1))
            }
            other => panic!("no such line: {other}"),
        };
        let WriteLine { fixed_us, us_per_mib } = model.write(class);
        let (sync, reads) = (model.sync_us(class), model.reads_per_s(class));
        let said = match what {
            "sync" => format!("sync {sync:.0} us"),
            "read" => format!("{reads:.0} reads/s"),
            _ => format!("{fixed_us:.0} us + {us_per_mib:.0} us/MiB"),
        };
        writeln!(out, "{line} -> {said}").unwrap();
    }
    expected.assert_eq(&out);
}

#[test]
fn a_steady_device_is_learnt_in_each_class() {
    check(
        "
        write 100 1 60 1
        write 100 4 20 0.5
        write 100 16 8 0.4
        write 100 1 60 1
        ",
        &expect![[r#"
            write 100 1 60 1 -> 60 us + 250 us/MiB
            write 100 4 20 0.5 -> 20 us + 126 us/MiB
            write 100 16 8 0.4 -> 8 us + 106 us/MiB
            write 100 1 60 1 -> 60 us + 247 us/MiB
        "#]],
    );
}

#[test]
fn a_device_that_slows_to_a_tenth_is_followed() {
    check(
        "
        write 100 1 60 1
        write 10 1 600 10
        write 50 1 600 10
        write 100 1 600 10
        write 150 1 60 1
        ",
        &expect![[r#"
            write 100 1 60 1 -> 60 us + 250 us/MiB
            write 10 1 600 10 -> 98 us + 1357 us/MiB
            write 50 1 600 10 -> 485 us + 2337 us/MiB
            write 100 1 600 10 -> 600 us + 2605 us/MiB
            write 150 1 60 1 -> 64 us + 279 us/MiB
        "#]],
    );
}

#[test]
fn a_pause_moves_little() {
    check(
        "
        write 100 1 60 1
        pause 1 2000000
        write 30 1 60 1
        sync 50 1 400
        sync 1 1 3000000
        sync 20 1 400
        ",
        &expect![[r#"
            write 100 1 60 1 -> 60 us + 250 us/MiB
            pause 1 2000000 -> 63 us + 322 us/MiB
            write 30 1 60 1 -> 61 us + 287 us/MiB
            sync 50 1 400 -> sync 400 us
            sync 1 1 3000000 -> sync 438 us
            sync 20 1 400 -> sync 420 us
        "#]],
    );
}

#[test]
fn writes_of_one_size_scale_the_line_and_keep_its_shape() {
    check(
        "
        same 100 1 60 1
        write 100 1 60 1
        same 300 1 600 10
        ",
        &expect![[r#"
            same 100 1 60 1 -> 48 us + 476 us/MiB
            write 100 1 60 1 -> 60 us + 260 us/MiB
            same 300 1 600 10 -> 361 us + 6496 us/MiB
        "#]],
    );
}

#[test]
fn syncs_and_reads_have_classes() {
    check(
        "
        sync 1 1 150
        sync 40 1 300
        sync 40 4 900
        read 40 1 80
        read 40 16 10
        read 1 40 10
        ",
        &expect![[r#"
            sync 1 1 150 -> sync 150 us
            sync 40 1 300 -> sync 296 us
            sync 40 4 900 -> sync 900 us
            read 40 1 80 -> 12500 reads/s
            read 40 16 10 -> 100000 reads/s
            read 1 40 10 -> 100000 reads/s
        "#]],
    );
}

#[test]
fn totals_tell_how_many_calls_were_made_at_the_same_time() {
    let then = Totals { requests: 10, calls: 10, us: 5_000 };
    let since = |requests: u64, calls: u64, us: u64| {
        let now = Totals { requests: 10 + requests, calls: 10 + calls, us: 5_000 + us };
        let span = now.since(then, 1_000_000);
        span.map(|s| (s.requests, s.in_flight, s.took_us, s.us_per_call as u64))
    };
    assert_eq!(since(0, 0, 0), None);
    assert_eq!(since(100, 100, 10_000), Some((100, 1, 10_000, 100)), "one by one, with pauses");
    assert_eq!(since(6_400, 100, 10_000), Some((6_400, 64, 10_000, 100)), "64 in each call");
    assert_eq!(since(40_000, 40_000, 4_000_000), Some((40_000, 4, 1_000_000, 100)), "4 threads");
    assert_eq!(Totals::default().since(then, 1_000_000), None);
}

#[test]
fn nothing_is_negative_and_nothing_is_needed() {
    let mut model = DeviceModel::new();
    assert_eq!(model.write(Parallelism::Many), WriteLine::GUESS);
    assert_eq!(model.sync_us(Parallelism::One), SYNC_GUESS_US);
    assert_eq!(model.reads_per_s(Parallelism::One), 10_000.0);
    let mut rng = Prng::new(3);
    for _ in 0..20_000 {
        let us = if rng.one_in(9) { rng.below(1 << 40) } else { rng.below(2_000) };
        model.wrote(rng.below(3), rng.below(1 << 22), rng.below(40), us);
        model.synced(rng.below(40), us as f64);
        model.read(rng.below(3), rng.below(40), us);
        for class in Parallelism::ALL {
            let line = model.write(class);
            assert!(line.fixed_us >= 0.0 && line.us_per_mib >= 0.0, "{line:?}");
            assert!(line.us(1 << 20) > 0.0 && line.us(1 << 20).is_finite(), "{line:?}");
            assert!(model.sync_us(class) > 0.0 && model.reads_per_s(class) > 0.0);
        }
    }
}
