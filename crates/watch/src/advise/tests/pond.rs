//! Databases of Millpond, and Millpond in a server.

use super::script::{CALM, advice, check, of, rules_of, with};
use expect_test::expect;

/// A database of Millpond that writes.
const POND: &str = "
    version Millpond
    level checkpoint_age_bytes 20M 30M
    level checkpoint_age_soft 60M
    level checkpoint_age_limit 80M
    level redo_capacity_bytes 90M
    level redo_helpful_bytes 256M
    level replay_rate 12M
    level buffer_pool_bytes 64M
    level durable 1
    grows redo_bytes_written 5M
    grows throttled_us_total 0
    grows hard_waits 0
    grows free_frame_waits 0
    grows pages_written 500
    grows pages_written_by_force.free_frames 20
";

#[test]
fn a_database_whose_writers_are_delayed() {
    check(
        &with(POND, "grows throttled_us_total 400000"),
        &expect![[r#"
            mysql://db/, Millpond: 31 samples in 30 s. Nothing was changed.

            1 millpond log     writers are delayed, because the log is as short as the recovery target asks for:
                               writers delayed 400.0 ms a second, 0 waits at the limit, in 30 s; peak of the
                               checkpoint age 30 MiB of 80 MiB; redo 5 MiB/s
                               do     Db::set_recovery_target or Options::recovery_target: 20 s
                               costs  online; a recovery from the limit takes up to 13 s instead of 7 s, at the
                                      measured 12 MiB/s
                               undo   Db::set_recovery_target or Options::recovery_target: 10 s (derived from the capacity
                                      it is 10 s if you set none)
                               sure   that they are delayed is sure. A longer log lets changes share page
                                      writes; if the device cannot keep up with those either, the delay stays
        "#]],
    );
}

#[test]
fn a_calm_database() {
    check(
        POND,
        &expect![[r#"
            mysql://db/, Millpond: 31 samples in 30 s. Nothing was changed.

            1 overall          no change needed: no setting that is looked at helps here: 31 samples in 30 s;
                               redo 5 MiB/s; 0 waits of Millpond for a free frame
                               sure   for this time only: a busier one may show more
            2 millpond log     a longer redo log gains nothing: no writer was delayed in 30 s; peak of the
                               checkpoint age 30 MiB of 80 MiB; replay does 12 MiB/s: a recovery from the peak
                               takes 2 s, from the limit 7 s
                               sure   for these 30 s; a busier time may show more
        "#]],
    );
}

#[test]
fn each_trouble_of_a_database() {
    let delayed = "grows throttled_us_total 400000";
    for (lines, rule, action) in [
        (format!("{delayed}\n level redo_helpful_bytes 92M"), "millpond log", "a larger buffer pool"),
        ("grows free_frame_waits 1".to_owned(), "millpond pool", "Options::buffer_pool_bytes: 128M"),
        ("grows pages_written_by_force.free_frames 300".to_owned(), "millpond pool", "128M"),
        ("level poisoned 1".to_owned(), "millpond safety", "open the database again"),
        ("level doublewrite_off 1".to_owned(), "millpond safety", "Db::set_doublewrite"),
        ("level durable 0".to_owned(), "millpond safety", "on a disk"),
    ] {
        let first = advice(&with(POND, &lines)).remove(0);
        assert_eq!(first.rule, rule, "{lines}");
        assert!(first.action.contains(action), "{}", first.action);
    }
}

/// A server with both engines: Millpond's figures have its name before them.
#[test]
fn millpond_in_a_server() {
    let of_server: Vec<String> = POND
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .filter(|(word, _)| *word != "version")
        .map(|(word, rest)| format!("{word} millpond_{rest}"))
        .collect();
    let server = format!("{CALM}\n{}\n set millpond_recovery_target 10", of_server.join("\n"));
    let rules = ["overall", "log size", "millpond log", "binlog"];
    assert_eq!(rules_of(&server), rules);
    let delayed = with(&server, "grows millpond_throttled_us_total 400000");
    let advice = of(&delayed, "millpond log").unwrap();
    assert_eq!(advice.action, "SET GLOBAL millpond_recovery_target = 20");
    assert_eq!(advice.undo, "SET GLOBAL millpond_recovery_target = 10");
    let pinned = with(&delayed, "set millpond_redo_capacity 94371840");
    let advice = of(&pinned, "millpond log").unwrap();
    assert_eq!(advice.action, "SET GLOBAL millpond_redo_capacity = 180*1024*1024");
}
