//! Servers with InnoDB, with trouble and calm ones.

use super::script::{CALM, SHORT_LOG, advice, check, of, rules_of, seen, with};
use crate::advise::advice::Urgency;
use crate::advise::say;
use expect_test::expect;

#[test]
fn a_log_that_is_too_short() {
    check(
        SHORT_LOG,
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: 31 samples in 30 s. Nothing was changed.

            1 log size         URGENT: the redo log is too short: InnoDB flushes with full force, and writers
                               wait at the limit: at or above the soft limit 21 of 30 s, at the limit 10 of 30
                               s; peak 6.4 MiB of 6.4 MiB; redo 3 MiB/s; waits of writers are not counted
                               do     SET GLOBAL innodb_log_file_size = 256*1024*1024
                               costs  online; after a restart it is gone unless it is in the option file too;
                                      256 MiB of disk; a recovery at the limit reads 205 MiB instead of 6.4 MiB:
                                      24 s to 60 s instead of less than 1 s to 2 s, at the published 2 to 5
                                      minutes a GiB
                               undo   SET GLOBAL innodb_log_file_size = 8*1024*1024
                               sure   that it is too short is sure. How long it must be is not: the peak is cut
                                      off by the limit, so run advise again afterwards; not the rule of an hour:
                                      it asks for 14.1 GiB, because it counts all that is written and not what
                                      waits for the checkpoint
            2 io capacity      innodb_io_capacity is below what the load needs, so flushing comes late and all
                               at once: 1500 pages/s written on average, 1500 in the busiest second, in 30 s;
                               innodb_io_capacity is 200, _max 2000
                               do     SET GLOBAL innodb_io_capacity = 1500
                               costs  online; after a restart it is gone unless it is in the option file too;
                                      more page writes where the load would have let the age grow
                               undo   SET GLOBAL innodb_io_capacity = 200
                               sure   the device can do it: it has done it. Whether reads suffer is not known.
                                      Change the log first: with a longer one fewer page writes are needed
            3 measure          who waits at the limit, and what forces pages to be written, is not counted: 2
                               metrics are off (buffer_flush_sync_waits, buffer_flush_sync_total_pages), while
                               the age was at or above its soft limit 21 of 30 s
                               do     SET GLOBAL innodb_monitor_enable = 'buffer_flush_%'
                               costs  online, until a restart; a few counters in memory
                               undo   SET GLOBAL innodb_monitor_disable = 'buffer_flush_%'
                               sure   it can be counted; run advise again afterwards
            4 dirty pages      the other way than a longer log: write pages before the soft limit forces it: 20
                               % of the pages dirty on average, allowed 90 %, while the age was at or above its
                               soft limit 21 of 30 s
                               do     SET GLOBAL innodb_max_dirty_pages_pct = 15
                               costs  online; after a restart it is gone unless it is in the option file too;
                                      more page writes, because fewer changes share one
                               undo   SET GLOBAL innodb_max_dirty_pages_pct = 90
                               sure   it helps if the load comes in bursts, and not if the device is busy all
                                      the time. A longer log is the surer way
        "#]],
    );
}

#[test]
fn a_calm_server_needs_no_change_and_says_why() {
    check(
        CALM,
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: 31 samples in 30 s. Nothing was changed.

            1 overall          no change needed: no setting that is looked at helps here: 31 samples in 30 s;
                               redo 100 KiB/s; 0 waits for a free page; 0 waits for the log buffer
                               sure   for this time only: a busier one may show more
            2 log size         a longer redo log gains nothing: peak 2 MiB, 2.6 % of the limit 77 MiB, never at
                               the soft limit in 30 s; not the rule of an hour: it asks for 422 MiB, 211 times
                               what was used, because it counts all that is written and not what waits for the
                               checkpoint
                               sure   for these 30 s. A busier time may need more: --watch 10m, or a collection
                                      of a day
            3 binlog           nothing to gain: 4.9 transactions share a sync: 1470 transactions in 300 groups
                               in 30 s
                               sure   the groups are counted
        "#]],
    );
}

#[test]
fn a_log_that_is_nearly_too_short_gets_a_fifth_more() {
    let script = with(CALM, "level checkpoint_age_bytes 30M 60M");
    check(
        &script,
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: 31 samples in 30 s. Nothing was changed.

            1 log size         the checkpoint age comes near its soft limit: nobody waits yet: peak 60 MiB, 90 %
                               of the soft limit 67 MiB, in 30 s
                               do     SET GLOBAL innodb_log_file_size = 116*1024*1024
                               costs  online; after a restart it is gone unless it is in the option file too;
                                      116 MiB of disk; a recovery at the limit reads 93.0 MiB instead of 77 MiB:
                                      11 s to 27 s instead of 9 s to 23 s, at the published 2 to 5 minutes a GiB
                               undo   SET GLOBAL innodb_log_file_size = 96*1024*1024
                               sure   seen for 30 s: if a busier hour comes, it will reach the limit. A fifth
                                      more, then look again; not the rule of an hour: it asks for 422 MiB, 7.0
                                      times what was used, because it counts all that is written and not what
                                      waits for the checkpoint
            2 binlog           nothing to gain: 4.9 transactions share a sync: 1470 transactions in 300 groups
                               in 30 s
                               sure   the groups are counted
        "#]],
    );
}

#[test]
fn an_age_that_still_grows_has_no_peak() {
    let growing: Vec<String> = (0..=30).map(|second| format!("{}M", 10 + second)).collect();
    let script = with(CALM, &format!("level checkpoint_age_bytes {}", growing.join(" ")));
    check(
        &script,
        &expect![[r#"
        mysql://db/, MariaDB 10.11.19: 31 samples in 30 s. Nothing was changed.

        1 overall          nothing to change so far: the checkpoint age still grows: 31 samples in 30 s;
                           redo 100 KiB/s; 0 waits for a free page; 0 waits for the log buffer
                           sure   for this time only: a busier one may show more
        2 log size         the checkpoint age still grows, so what the load needs was not seen: 40 MiB, 52 %
                           of the limit 77 MiB, after 30 s in which it grew by 1 MiB/s
                           sure   not known yet: if it goes on growing, it is at its soft limit in 27 s.
                                  Watch for longer than that, with --watch
        3 binlog           nothing to gain: 4.9 transactions share a sync: 1470 transactions in 300 groups
                           in 30 s
                           sure   the groups are counted
    "#]],
    );
}

#[test]
fn a_log_that_is_far_too_long_is_made_shorter_only_after_a_long_watch() {
    let long = "
        version MySQL 8.4.1
        level checkpoint_age_bytes 10M 200M
        level checkpoint_age_soft 12G
        level checkpoint_age_limit 13G
        level redo_capacity_bytes 16G";
    let short_watch = of(&with(CALM, long), "log size").unwrap();
    assert_eq!(short_watch.action, "no change needed");
    assert!(short_watch.sure.contains("30 s are too short a time"), "{}", short_watch.sure);
    let long_watch = of(&with(&with(CALM, long), "seconds 3600"), "log size").unwrap();
    assert_eq!(long_watch.action, "SET GLOBAL innodb_redo_log_capacity = 2048*1024*1024");
    assert_eq!(long_watch.undo, "SET GLOBAL innodb_redo_log_capacity = 16384*1024*1024");
    assert!(long_watch.costs.contains("a crash at the limit costs 26 min to 65 min"), "{}", long_watch.costs);
}

/// Each line: what is added to the calm server, and the rules that then say something.
#[test]
fn each_rule_speaks_of_its_trouble_and_is_silent_otherwise() {
    let slow = "level pending_fsyncs 2\n grows fsyncs 100\n set innodb_flush_log_at_trx_commit 1\n \
                set innodb_log_group_home_dir ./";
    let early = "grows pages_written 900\n set innodb_io_capacity 20000\n level dirty_pages 900";
    let waits = "grows free_frame_waits 3\n grows pages_read 9000";
    let unsynced = "set sync_binlog 0\n set innodb_flush_log_at_trx_commit 1";
    let alone = "grows binlog_commits 500\n grows binlog_group_commits 480\n level threads_running 32\n \
                 set binlog_commit_wait_count 0\n set binlog_commit_wait_usec 100000";
    let cached = "set innodb_flush_method fsync\n place ext4 solid";
    let beside = "version MySQL 5.7.44\n set innodb_flush_neighbors 1\n place ext4 solid";
    for (lines, rule) in [
        (slow, Some("log place")),
        ("level pending_fsyncs 0.1\n grows fsyncs 1000\n set innodb_flush_log_at_trx_commit 1", None),
        (early, Some("io capacity")),
        ("grows pages_written 900\n set innodb_io_capacity 20000\n level dirty_pages 90000", None),
        (waits, Some("free pages")),
        ("grows log_buffer_waits 1", Some("log buffer")),
        (unsynced, Some("binlog")),
        (alone, Some("binlog")),
        (cached, Some("flush method")),
        ("set innodb_flush_method fsync\n place tmpfs solid", None),
        ("set innodb_flush_method O_DIRECT\n place ext4 solid", None),
        (beside, Some("neighbours")),
        // There it asks the device.
        ("set innodb_flush_neighbors 1\n place ext4 solid", None),
        ("version MySQL 5.7.44\n set innodb_flush_neighbors 1\n place ext4 rotating", None),
        ("set innodb_doublewrite ON\n place zfs solid", Some("doublewrite")),
        ("set innodb_doublewrite ON\n place ext4 solid", None),
        ("set innodb_doublewrite OFF\n place zfs solid", None),
    ] {
        let said = rules_of(&with(CALM, lines));
        match rule {
            Some(rule) => assert_eq!(said[0], rule, "{lines}: {said:?}"),
            None => assert_eq!(said, ["overall", "log size", "binlog"], "{lines}"),
        }
    }
}

#[test]
fn no_figures_no_rules() {
    for version in ["MariaDB 10.11.19", "MySQL 5.7.44", "Percona Server 8.0.36", "MySQL 26.1.0"] {
        let script = format!("version {version}\n level uptime_seconds 5");
        let said = advice(&script);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].finding.starts_with("nothing can be said"), "{said:?}");
        assert!(!say(&seen(&script)).urgent);
    }
    let idle = with(CALM, "grows redo_bytes_written 0\n grows pages_written 0");
    assert!(of(&idle, "overall").unwrap().finding.starts_with("nothing was written"));
    assert!(of(&idle, "log size").is_none());
}

/// Servers whose log is too short get what their version has.
#[test]
fn statements_fit_the_version() {
    for (version, action) in [
        ("MariaDB 10.4.34", "innodb_log_file_size = 256M in the option file, and a restart"),
        ("MariaDB 10.6.20", "innodb_log_file_size = 256M in the option file, and a restart"),
        ("MariaDB 10.9.0", "SET GLOBAL innodb_log_file_size = 256*1024*1024"),
        ("MySQL 8.0.29", "innodb_log_file_size = 256M in the option file, and a restart"),
        ("MySQL 8.0.30", "SET GLOBAL innodb_redo_log_capacity = 256*1024*1024"),
        ("MySQL 26.7.0", "SET GLOBAL innodb_redo_log_capacity = 256*1024*1024"),
        ("Percona Server 8.4.2", "SET GLOBAL innodb_redo_log_capacity = 256*1024*1024"),
    ] {
        let script = with(SHORT_LOG, &format!("version {version}"));
        assert_eq!(of(&script, "log size").unwrap().action, action, "{version}");
    }
    // The settings know the version better than the line of a collection.
    let settings =
        "version MariaDB 10.11.19\n set version 8.0.36-28\n set version_comment Percona Server (GPL)";
    assert!(of(&with(SHORT_LOG, settings), "log size").unwrap().action.contains("redo_log_capacity"));
    let threads = "level threads_running 40\n grows free_frame_waits 3\n set innodb_lru_flush_size 32\n \
                   set innodb_lru_scan_depth 100";
    let action = |version: &str| {
        of(&with(CALM, &format!("version {version}\n {threads}")), "free pages").unwrap().action
    };
    assert_eq!(
        action("MariaDB 10.11.7"),
        "SET GLOBAL innodb_lru_scan_depth = 240; SET GLOBAL innodb_lru_flush_size = 120"
    );
    assert_eq!(action("MariaDB 10.11.8"), "SET GLOBAL innodb_lru_scan_depth = 200");
    let behind = "set innodb_doublewrite ON\n grows doublewrite_pages 1500\n version";
    assert!(of(&with(SHORT_LOG, &format!("{behind} MySQL 8.0.20")), "doublewrite").is_some());
    assert!(of(&with(SHORT_LOG, &format!("{behind} MySQL 8.0.19")), "doublewrite").is_none());
    assert!(of(&with(SHORT_LOG, &format!("{behind} MariaDB 11.8.3")), "doublewrite").is_none());
}

#[test]
fn at_most_five_the_urgent_ones_first() {
    let script = with(
        SHORT_LOG,
        "version MySQL 5.7.44
         grows log_buffer_waits 2
         set innodb_log_buffer_size 8388608
         set innodb_flush_neighbors 1
         set innodb_flush_method fsync
         place ext4 solid",
    );
    assert_eq!(rules_of(&script), ["log size", "log buffer", "io capacity", "measure", "dirty pages"]);
    assert!(say(&seen(&script)).urgent);
    assert!(!say(&seen(CALM)).urgent);
}

/// A single wait in a day of samples ended scripts with status 3.
#[test]
fn a_wait_now_and_then_is_not_urgent() {
    let rare = with(CALM, "grows free_frame_waits 0.01\n grows log_buffer_waits 0.01\n seconds 3600");
    assert_eq!(rules_of(&rare)[..2], ["free pages", "log buffer"]);
    assert!(!say(&seen(&rare)).urgent);
    let mut ages = vec!["5M"; 2000];
    ages[1000] = "6.4M";
    let ages = format!("level checkpoint_age_bytes {}\n seconds 1999", ages.join(" "));
    let said = of(&with(SHORT_LOG, &ages), "log size").unwrap();
    assert_eq!(said.urgency, Urgency::Useful, "{said:?}");
}

#[test]
fn a_missing_privilege_is_said() {
    let script = "
        version MySQL 5.7.44
        level uptime_seconds 5
        unknown checkpoint_age_bytes the user lacks the privilege PROCESS: GRANT PROCESS ON *.* TO the user";
    let advice = of(script, "measure").unwrap();
    assert!(advice.action.starts_with("GRANT PROCESS"), "{}", advice.action);
    assert_eq!(rules_of(script), ["measure"]);
}

#[test]
fn the_json_is_a_list_of_objects_with_these_names() {
    let json: serde_json::Value = serde_json::from_str(&say(&seen(SHORT_LOG)).json).unwrap();
    let list = json.as_array().unwrap();
    let names = ["costs", "do", "evidence", "finding", "rule", "sure", "undo", "urgency"];
    for advice in list {
        let object = advice.as_object().unwrap();
        let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, names);
        assert!(object.values().all(serde_json::Value::is_string));
    }
    assert_eq!((&list[0]["rule"], &list[0]["urgency"]), (&"log size".into(), &"urgent".into()));
}
