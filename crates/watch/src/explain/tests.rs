//! The facts have their form, and everything that must be explained is.

use super::entry::{KEYS, parse};
use super::*;
use expect_test::expect;
use std::collections::BTreeSet;

/// The plugin's source, whose variables have to be explained.
const SETTINGS_OF_THE_PLUGIN: &str = include_str!("../../../../mariadb/plugin/settings.cc");
/// The public API, whose options have to be explained.
const API: &str = include_str!("../../../../docs/api.txt");

#[test]
fn every_line_of_the_files_has_a_form_and_every_entry_its_facts() {
    for (title, file) in FILES.iter().chain([&OWN]) {
        for line in file.lines() {
            assert!(line.chars().count() <= 102, "{title}: a long line: {line}");
            assert!(!line.starts_with(' ') || line.starts_with("  "), "{title}: {line:?}");
        }
        for entry in parse(file) {
            let name = &entry.names[0];
            assert!(entry.names.iter().all(|name| !name.is_empty() && !name.contains(' ')), "{name}");
            for (key, text) in &entry.facts {
                assert!(KEYS.contains(&key.as_str()), "{name}: a fact {key:?}");
                assert!(!text.is_empty(), "{name}: {key} is empty");
            }
            for key in ["is", "does"] {
                assert_eq!(entry.all(key).count(), 1, "{name}: {key}");
            }
            let setting = entry.all("is").any(|is| is.starts_with("setting") || is.starts_with("option"));
            assert_eq!(setting, entry.all("default").next().is_some() && setting, "{name}: no default");
        }
    }
}

#[test]
fn no_name_means_two_things_and_every_reference_leads_somewhere() {
    let mut names = BTreeSet::new();
    for entry in entries() {
        for name in &entry.names {
            assert!(names.insert(name.clone()), "{name} is explained twice");
        }
    }
    for entry in entries() {
        for related in entry.related() {
            assert!(explain(related).is_ok(), "{} refers to {related}", entry.names[0]);
        }
    }
}

#[test]
fn each_setting_of_the_plugin_is_explained() {
    let mut count = 0;
    for piece in SETTINGS_OF_THE_PLUGIN.split("MYSQL_SYSVAR(").skip(1) {
        let name = format!("millpond_{}", piece.split(')').next().unwrap());
        assert!(explain(&name).is_ok(), "{name}");
        count += 1;
    }
    assert!(count >= 9, "{count} variables were found");
}

#[test]
fn each_option_of_the_library_is_explained() {
    let mut count = 0;
    for owner in ["Options", "TxnOptions"] {
        let others = [
            "new",
            "open",
            "open_in_memory",
            "mariadb",
            "mysql",
            "current_reads",
            "read_only",
            "on_failure",
            "on_deadlock",
            "tag",
            "observed_as",
        ];
        for line in API.lines() {
            let Some(rest) = line.strip_prefix(&format!("fn {owner}::")) else { continue };
            let name = rest.split('(').next().unwrap();
            if !others.contains(&name) {
                assert!(explain(name).is_ok(), "{owner}::{name}");
                count += 1;
            }
        }
    }
    assert!(count >= 17, "{count} options were found");
}

#[test]
fn each_figure_of_the_engine_is_explained_by_all_its_names() {
    for name in metrics::Metrics::new().snapshot().names() {
        assert!(explain(&name).is_ok(), "{name}");
        let shown = format!("Millpond_{}", name.replace('.', "_"));
        assert!(explain(&shown).is_ok(), "{shown}");
    }
}

/// What articles about InnoDB's write path set, from its log to the file system below it.
const SET_BY_ARTICLES: &str = "
    innodb_flush_log_at_trx_commit innodb_log_group_home_dir datadir innodb_data_home_dir
    innodb_log_file_size innodb_log_files_in_group innodb_log_buffer_size innodb_io_capacity
    innodb_io_capacity_max innodb_max_dirty_pages_pct innodb_max_dirty_pages_pct_lwm
    innodb_adaptive_flushing innodb_adaptive_flushing_lwm innodb_flush_neighbors
    innodb_flush_neighbor_pages innodb_lru_scan_depth innodb_lru_flush_size innodb_doublewrite
    innodb_doublewrite_dir innodb_doublewrite_files innodb_doublewrite_pages innodb_flush_method
    innodb_buffer_pool_size innodb_buffer_pool_instances innodb_file_per_table skip-log-bin sync_binlog
    binlog_group_commit_sync_delay binlog_commit_wait_usec innodb_page_cleaners innodb_read_io_threads
    innodb_write_io_threads innodb_purge_threads innodb_max_purge_lag innodb_max_purge_lag_delay
    innodb_use_native_aio innodb_thread_concurrency innodb_spin_wait_delay innodb_adaptive_hash_index
    innodb_change_buffering innodb_checksum_algorithm innodb_undo_log_truncate innodb_open_files
    innodb_read_only innodb_stats_persistent innodb_monitor_enable performance_schema max_connections
    back_log table_open_cache table_open_cache_instances max_prepared_stmt_count join_buffer_size
    sort_buffer_size ssl character_set_server transaction_isolation default_authentication_plugin
    core_file innodb_buffer_pool_in_core_file log_error_verbosity atime recordsize logbias primarycache
    compression ashift innodb_redo_log_capacity innodb_dedicated_server binlog_storage_engine";

#[test]
fn each_setting_of_the_articles_is_explained() {
    for name in SET_BY_ARTICLES.split_whitespace() {
        assert!(explain(name).is_ok(), "{name}");
    }
}

/// The variables of whole servers, a name a line.
const SERVERS: [(&str, &str); 3] = [
    ("MariaDB 10.11", include_str!("fixtures/mariadb-10.11.txt")),
    ("MariaDB 11.8", include_str!("fixtures/mariadb-11.8.txt")),
    ("MySQL", include_str!("fixtures/mysql.txt")),
];

/// 60 of 142 variables of MariaDB 10.11 were known.
#[test]
fn each_variable_of_innodb_is_explained() {
    for (server, names) in SERVERS {
        let names: Vec<&str> = names.lines().filter(|line| !line.starts_with('#')).collect();
        let unknown: Vec<&&str> = names.iter().filter(|name| explain(name).is_err()).collect();
        assert!(names.len() >= 140 && unknown.is_empty(), "{server}, {} names: {unknown:?}", names.len());
    }
    assert!(explain("recovery_log_max_modified_age_sync").is_ok());
}

/// One entry said that the log is moved while the database is closed, and another that it is moved
/// while it runs.
#[test]
fn moving_the_log_is_explained_in_one_way() {
    for name in ["innodb_log_group_home_dir", "redo_dir"] {
        let text = explain(name).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("while the database runs") && !text.contains("closed"), "{name}: {text}");
    }
}

#[test]
fn names_are_found_in_any_form() {
    for name in [
        "innodb_io_capacity",
        "INNODB_IO_CAPACITY",
        "--innodb-io-capacity",
        "@@innodb_io_capacity",
        "@@global.innodb_io_capacity",
        " Innodb_IO_capacity ",
    ] {
        assert!(explain(name).unwrap().starts_with("innodb_io_capacity\n"), "{name}");
    }
}

#[test]
fn an_unknown_name_gets_the_nearest_ones() {
    for (name, sentence) in [
        ("inodb_log_file_size", "did you mean innodb_log_file_size?"),
        ("innodb_doublewrite_fils", "did you mean innodb_doublewrite_files"),
        ("io_capacity", "did you mean innodb_io_capacity or innodb_io_capacity_max?"),
    ] {
        let failure = explain(name).unwrap_err();
        assert!(matches!(failure, Failure::Misuse(_)));
        assert!(failure.to_string().contains(sentence), "{failure}");
    }
    expect![[r#"nothing is known of "zzzzzz": `millpond explain --list` shows all names"#]]
        .assert_eq(&explain("zzzzzz").unwrap_err().to_string());
}

#[test]
fn an_entry_is_shown_in_eighty_columns() {
    let text = explain("innodb_lru_flush_size").unwrap();
    expect![[r#"
        innodb_lru_flush_size
        Setting of InnoDB in MariaDB; changes while the server runs.

        does      How many pages a thread frees in one go when it finds no free frame.
        default   32; 0 where it has no effect
        formula   two to four times the number of threads was best in the article that
                  proposed larger values; innodb_lru_scan_depth must be greater.
        versions  MariaDB 10.5.7 on. Without effect from 10.6.18, 10.11.8, 11.0.6,
                  11.1.5, 11.2.4 and 11.4.2 on; from 10.6.20, 10.11.10, 11.2.6 and
                  11.4.4 on the server warns that it was removed, and starts
        trades    With 32 and hundreds of threads each of them starts a batch of its
                  own. Large batches take longer for the one that starts them, and serve
                  the others.
        millpond  free_frames_reserve, sized by the threads at work; free_frame_waits
                  counts who waited.
        see       innodb_lru_scan_depth, free_frame_waits
    "#]]
    .assert_eq(&text);
    for name in entries().into_iter().flat_map(|entry| entry.names) {
        for line in explain(&name).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}
