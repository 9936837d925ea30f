//! Servers of several versions: recorded answers, and the figures that the schema makes of them.
//!
//! The answers of MariaDB 10.11 were recorded here. Those of other versions were written after
//! their documentation and source, and are not verified against a server.

use super::figures::{FIGURES, is_of_host};
use super::of_server::{self, Answers, Facts, MetricFact, needs_status_text, provenance};
use super::server::{Allowed, Statements, numbers, statements};
use super::status_text::LogSection;
use client::Version;
use expect_test::{Expect, expect};
use output::samples::ColumnKind;
use std::collections::BTreeMap;

/// Reads a fixture: lines of a name and a value. `variable.` begins a setting, `off.` a metric that
/// is switched off, `text.` a line of `SHOW ENGINE INNODB STATUS`.
fn fixture(version: &str, comment: &str, text: &str) -> (Facts, Answers) {
    let lines = text.lines().filter_map(|line| line.trim().split_once([' ', '\t']));
    let mut facts = Facts {
        version: Version::parse(version, comment),
        variables: BTreeMap::new(),
        metrics: BTreeMap::new(),
        refusals: Vec::new(),
    };
    let mut answers = Answers::default();
    let mut log = LogSection::default();
    let mut rows = Vec::new();
    for (name, value) in lines {
        let value = value.trim();
        if let Some(name) = name.strip_prefix("variable.") {
            facts.variables.insert(name.to_lowercase(), value.to_owned());
        } else if let Some(metric) = name.strip_prefix("off.") {
            let fact = MetricFact { enabled: false, kind: ColumnKind::Counter };
            facts.metrics.insert(metric.to_lowercase(), fact);
        } else if let Some(which) = name.strip_prefix("text.") {
            let lsn = value.parse().ok();
            match which {
                "current" => log.current = lsn,
                "flushed" => log.flushed = lsn,
                _ => log.checkpoint = lsn,
            }
        } else {
            rows.push(vec![Some(name.to_owned()), Some(value.to_owned())]);
        }
    }
    answers.values = numbers(rows);
    if needs_status_text(&answers) && log != LogSection::default() {
        answers.log = Some(log);
    }
    (facts, answers)
}

/// Shows the figures of the schema, and after them those that the version does not have. What this
/// machine counts is none of an answer.
fn check((facts, answers): (Facts, Answers), expected: &Expect) {
    let values = of_server::values(&facts, &answers);
    let mut out = format!("{}\n", facts.version);
    let provenance = provenance(&facts, &answers);
    assert_eq!(provenance.len(), FIGURES.len(), "every figure has a source or a reason");
    for found in &provenance {
        if let Ok(source) = &found.source {
            let value = values.iter().find(|value| value.0 == found.name).map_or(f64::NAN, |value| value.3);
            out.push_str(&format!("{:34} {value:.1}   {source}\n", found.name));
        }
    }
    for found in provenance.iter().filter(|found| !is_of_host(found.name)) {
        if let Err(why) = &found.source {
            out.push_str(&format!("{:34} --- {why}\n", found.name));
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn mariadb_10_11() {
    let text = include_str!("fixtures/mariadb-10.11.txt");
    check(
        fixture("10.11.19-MariaDB-0+deb12u1", "Debian 12", text),
        &expect![[r#"
            MariaDB 10.11.19
            commits                            18.0   innodb_max_trx_id / 2
            statement_commits                  20.0   handler_commit
            rollback_statements                0.0   com_rollback
            statements                         57.0   questions
            row_reads                          403099.0   handler_read_key + handler_read_next + handler_read_prev + handler_read_rnd + handler_read_rnd_next
            row_inserts                        200006.0   handler_write
            row_updates                        200006.0   handler_update
            row_deletes                        0.0   handler_delete
            current_lsn                        24833619.0   innodb_lsn_current
            durable_lsn                        24833619.0   innodb_lsn_flushed
            checkpoint_lsn                     44776.0   innodb_lsn_last_checkpoint
            checkpoint_age_bytes               24788843.0   innodb_checkpoint_age
            checkpoint_age_soft                23153681.0   Innodb_checkpoint_max_age, and 7/8 of it
            checkpoint_age_limit               26461349.0   Innodb_checkpoint_max_age, and 7/8 of it
            redo_capacity_bytes                33554432.0   the log's settings
            redo_bytes_written                 24833619.0   innodb_lsn_current
            log_bytes_written                  24788859.0   innodb_os_log_written
            log_writes                         18.0   innodb_log_writes
            buffer_frames                      4056.0   innodb_buffer_pool_pages_total
            lru_pages                          1265.0   innodb_buffer_pool_pages_data
            dirty_pages                        987.0   innodb_buffer_pool_pages_dirty
            free_frames                        2791.0   innodb_buffer_pool_pages_free
            dirty_percent                      24.3   100 x dirty / (1 + data + free) pages
            pages_read                         165.0   innodb_pages_read
            pages_written                      71.0   innodb_pages_written
            pages_flushed_list                 71.0   innodb_buffer_pool_pages_flushed - innodb_buffer_pool_pages_lru_flushed
            pages_flushed_lru                  0.0   innodb_buffer_pool_pages_lru_flushed
            pages_written_by_force.lru         0.0   innodb_buffer_pool_pages_lru_flushed
            doublewrite_pages                  21.0   innodb_dblwr_pages_written
            fsyncs                             121.0   innodb_data_fsyncs
            device_bytes_written               26296187.0   innodb_data_written + innodb_os_log_written
            pending_reads                      0.0   innodb_data_pending_reads
            pending_writes                     0.0   innodb_data_pending_writes
            pending_fsyncs                     0.0   innodb_data_pending_fsyncs
            free_frame_waits                   0.0   innodb_buffer_pool_wait_free
            log_buffer_waits                   0.0   innodb_log_waits
            lock_waits                         0.0   innodb_row_lock_waits
            lock_wait_us_total                 0.0   innodb_row_lock_time x 1000
            lock_waiters                       0.0   innodb_row_lock_current_waits
            deadlocks                          0.0   innodb_deadlocks
            history_transactions               1.0   innodb_history_list_length
            open_connections                   1.0   threads_connected
            threads_running                    1.0   threads_running
            uptime_seconds                     1236.0   uptime
            rollbacks                          --- switched off; SET GLOBAL innodb_monitor_enable = 'trx_rollbacks' switches it on
            io_capacity_max                    --- MariaDB 10.11.19 does not show it
            pages_written_by_force.adaptive    --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_adaptive_total_pages' switches it on
            pages_written_by_force.background  --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_background_total_pages' switches it on
            pages_written_by_force.sync        --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_total_pages' switches it on
            pages_written_as_neighbours        --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_neighbor_total_pages' switches it on
            log_fsyncs                         --- MariaDB 10.11.19 does not show it
            hard_waits                         --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' switches it on
            throttled_us_total                 --- InnoDB has nothing like it
        "#]],
    );
}

#[test]
fn mariadb_10_4_unverified() {
    let text = include_str!("fixtures/mariadb-10.4-unverified.txt");
    check(
        fixture("10.4.34-MariaDB", "", text),
        &expect![[r#"
            MariaDB 10.4.34
            commits                            1200.0   com_commit + com_xa_commit
            statement_commits                  2400.0   handler_commit
            rollback_statements                3.0   com_rollback
            statements                         9000.0   questions
            row_reads                          5000.0   innodb_rows_read
            row_inserts                        30.0   innodb_rows_inserted
            row_updates                        20.0   innodb_rows_updated
            row_deletes                        10.0   innodb_rows_deleted
            current_lsn                        60000000.0   SHOW ENGINE INNODB STATUS
            durable_lsn                        59999000.0   SHOW ENGINE INNODB STATUS
            checkpoint_lsn                     20000000.0   SHOW ENGINE INNODB STATUS
            checkpoint_age_bytes               40000000.0   SHOW ENGINE INNODB STATUS
            checkpoint_age_soft                70722894.0   the formula of MySQL 5.7 from the log's size
            checkpoint_age_limit               75774529.0   the formula of MySQL 5.7 from the log's size
            redo_capacity_bytes                100663296.0   the log's settings
            redo_bytes_written                 60000000.0   SHOW ENGINE INNODB STATUS
            log_bytes_written                  70000000.0   innodb_os_log_written
            log_writes                         2000.0   innodb_log_writes
            buffer_frames                      8191.0   innodb_buffer_pool_pages_total
            lru_pages                          7000.0   innodb_buffer_pool_pages_data
            dirty_pages                        900.0   innodb_buffer_pool_pages_dirty
            free_frames                        1000.0   innodb_buffer_pool_pages_free
            dirty_percent                      11.2   100 x dirty / (1 + data + free) pages
            pages_read                         400.0   innodb_pages_read
            pages_written                      12000.0   innodb_pages_written
            pages_flushed_list                 11960.0   innodb_buffer_pool_pages_flushed - innodb_buffer_pool_pages_lru_flushed
            pages_flushed_lru                  40.0   innodb_buffer_pool_pages_lru_flushed
            pages_written_by_force.lru         40.0   innodb_buffer_pool_pages_lru_flushed
            doublewrite_pages                  12000.0   innodb_dblwr_pages_written
            fsyncs                             300.0   innodb_data_fsyncs
            log_fsyncs                         250.0   innodb_os_log_fsyncs
            device_bytes_written               90000000.0   innodb_data_written
            pending_reads                      0.0   innodb_data_pending_reads
            pending_writes                     1.0   innodb_data_pending_writes
            pending_fsyncs                     0.0   innodb_data_pending_fsyncs
            free_frame_waits                   0.0   innodb_buffer_pool_wait_free
            log_buffer_waits                   0.0   innodb_log_waits
            lock_waits                         4.0   innodb_row_lock_waits
            lock_wait_us_total                 12000.0   innodb_row_lock_time x 1000
            lock_waiters                       0.0   innodb_row_lock_current_waits
            deadlocks                          0.0   metric.lock_deadlocks
            history_transactions               17.0   metric.trx_rseg_history_len
            open_connections                   5.0   threads_connected
            threads_running                    2.0   threads_running
            uptime_seconds                     600.0   uptime
            rollbacks                          --- switched off; SET GLOBAL innodb_monitor_enable = 'trx_rollbacks' switches it on
            io_capacity_max                    --- MariaDB 10.4.34 does not show it
            pages_written_by_force.adaptive    --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_adaptive_total_pages' switches it on
            pages_written_by_force.background  --- MariaDB 10.4.34 does not show it
            pages_written_by_force.sync        --- MariaDB 10.4.34 does not show it
            pages_written_as_neighbours        --- MariaDB 10.4.34 does not show it
            hard_waits                         --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' switches it on
            throttled_us_total                 --- InnoDB has nothing like it
        "#]],
    );
}

#[test]
fn mysql_5_7_unverified() {
    let text = include_str!("fixtures/mysql-5.7-unverified.txt");
    check(
        fixture("5.7.44-log", "MySQL Community Server (GPL)", text),
        &expect![[r#"
            MySQL 5.7.44
            commits                            1200.0   com_commit + com_xa_commit
            statement_commits                  2400.0   handler_commit
            rollback_statements                3.0   com_rollback
            statements                         9000.0   questions
            row_reads                          5000.0   innodb_rows_read
            row_inserts                        30.0   innodb_rows_inserted
            row_updates                        20.0   innodb_rows_updated
            row_deletes                        10.0   innodb_rows_deleted
            current_lsn                        60000000.0   SHOW ENGINE INNODB STATUS
            durable_lsn                        59999000.0   SHOW ENGINE INNODB STATUS
            checkpoint_lsn                     20000000.0   SHOW ENGINE INNODB STATUS
            checkpoint_age_bytes               40000000.0   SHOW ENGINE INNODB STATUS
            checkpoint_age_soft                70722894.0   the formula of MySQL 5.7 from the log's size
            checkpoint_age_limit               75774529.0   the formula of MySQL 5.7 from the log's size
            redo_capacity_bytes                100663296.0   the log's settings
            redo_bytes_written                 60000000.0   SHOW ENGINE INNODB STATUS
            log_bytes_written                  70000000.0   innodb_os_log_written
            log_writes                         2000.0   innodb_log_writes
            buffer_frames                      8191.0   innodb_buffer_pool_pages_total
            lru_pages                          7000.0   innodb_buffer_pool_pages_data
            dirty_pages                        900.0   innodb_buffer_pool_pages_dirty
            free_frames                        1000.0   innodb_buffer_pool_pages_free
            dirty_percent                      11.2   100 x dirty / (1 + data + free) pages
            pages_read                         400.0   innodb_pages_read
            pages_written                      12000.0   innodb_pages_written
            pages_flushed_list                 11945.0   innodb_buffer_pool_pages_flushed - metric.buffer_lru_batch_flush_total_pages
            pages_flushed_lru                  55.0   metric.buffer_lru_batch_flush_total_pages
            pages_written_by_force.lru         55.0   metric.buffer_lru_batch_flush_total_pages
            doublewrite_pages                  12000.0   innodb_dblwr_pages_written
            fsyncs                             300.0   innodb_data_fsyncs
            log_fsyncs                         250.0   innodb_os_log_fsyncs
            device_bytes_written               90000000.0   innodb_data_written
            pending_reads                      0.0   innodb_data_pending_reads
            pending_writes                     1.0   innodb_data_pending_writes
            pending_fsyncs                     0.0   innodb_data_pending_fsyncs
            free_frame_waits                   0.0   innodb_buffer_pool_wait_free
            log_buffer_waits                   0.0   innodb_log_waits
            lock_waits                         4.0   innodb_row_lock_waits
            lock_wait_us_total                 12000.0   innodb_row_lock_time x 1000
            lock_waiters                       0.0   innodb_row_lock_current_waits
            deadlocks                          0.0   metric.lock_deadlocks
            history_transactions               17.0   metric.trx_rseg_history_len
            open_connections                   5.0   threads_connected
            threads_running                    2.0   threads_running
            uptime_seconds                     600.0   uptime
            rollbacks                          --- switched off; SET GLOBAL innodb_monitor_enable = 'trx_rollbacks' switches it on
            io_capacity_max                    --- MySQL 5.7.44 does not show it
            pages_written_by_force.adaptive    --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_adaptive_total_pages' switches it on
            pages_written_by_force.background  --- MySQL 5.7.44 does not show it
            pages_written_by_force.sync        --- MySQL 5.7.44 does not show it
            pages_written_as_neighbours        --- MySQL 5.7.44 does not show it
            hard_waits                         --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' switches it on
            throttled_us_total                 --- InnoDB has nothing like it
        "#]],
    );
}

#[test]
fn mysql_8_4_unverified() {
    let text = include_str!("fixtures/mysql-8.4-unverified.txt");
    check(
        fixture("8.4.3", "MySQL Community Server - GPL", text),
        &expect![[r#"
            MySQL 8.4.3
            commits                            1200.0   com_commit + com_xa_commit
            statement_commits                  2400.0   handler_commit
            rollback_statements                3.0   com_rollback
            statements                         9000.0   questions
            row_reads                          5000.0   innodb_rows_read
            row_inserts                        30.0   innodb_rows_inserted
            row_updates                        20.0   innodb_rows_updated
            row_deletes                        10.0   innodb_rows_deleted
            current_lsn                        60000000.0   innodb_redo_log_current_lsn
            durable_lsn                        59999000.0   innodb_redo_log_flushed_to_disk_lsn
            checkpoint_lsn                     20000000.0   innodb_redo_log_checkpoint_lsn
            checkpoint_age_bytes               40000000.0   innodb_redo_log_current_lsn - innodb_redo_log_checkpoint_lsn
            checkpoint_age_soft                81281024.0   the formula of MySQL 8.0.30 from the log's size
            checkpoint_age_limit               87086592.0   the formula of MySQL 8.0.30 from the log's size
            redo_capacity_bytes                104857600.0   the log's settings
            redo_bytes_written                 60000000.0   innodb_redo_log_current_lsn
            log_bytes_written                  70000000.0   innodb_os_log_written
            log_writes                         2000.0   innodb_log_writes
            buffer_frames                      8191.0   innodb_buffer_pool_pages_total
            lru_pages                          7000.0   innodb_buffer_pool_pages_data
            dirty_pages                        900.0   innodb_buffer_pool_pages_dirty
            free_frames                        1000.0   innodb_buffer_pool_pages_free
            dirty_percent                      11.2   100 x dirty / (1 + data + free) pages
            pages_read                         400.0   innodb_pages_read
            pages_written                      12000.0   innodb_pages_written
            pages_flushed_list                 11945.0   innodb_buffer_pool_pages_flushed - metric.buffer_lru_batch_flush_total_pages
            pages_flushed_lru                  55.0   metric.buffer_lru_batch_flush_total_pages
            pages_written_by_force.lru         55.0   metric.buffer_lru_batch_flush_total_pages
            doublewrite_pages                  12000.0   innodb_dblwr_pages_written
            fsyncs                             300.0   innodb_data_fsyncs
            log_fsyncs                         250.0   innodb_os_log_fsyncs
            device_bytes_written               90000000.0   innodb_data_written
            pending_reads                      0.0   innodb_data_pending_reads
            pending_writes                     1.0   innodb_data_pending_writes
            pending_fsyncs                     0.0   innodb_data_pending_fsyncs
            free_frame_waits                   0.0   innodb_buffer_pool_wait_free
            log_buffer_waits                   0.0   innodb_log_waits
            lock_waits                         4.0   innodb_row_lock_waits
            lock_wait_us_total                 12000.0   innodb_row_lock_time x 1000
            lock_waiters                       0.0   innodb_row_lock_current_waits
            deadlocks                          0.0   metric.lock_deadlocks
            history_transactions               17.0   metric.trx_rseg_history_len
            open_connections                   5.0   threads_connected
            threads_running                    2.0   threads_running
            uptime_seconds                     600.0   uptime
            rollbacks                          --- switched off; SET GLOBAL innodb_monitor_enable = 'trx_rollbacks' switches it on
            io_capacity_max                    --- MySQL 8.4.3 does not show it
            pages_written_by_force.adaptive    --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_adaptive_total_pages' switches it on
            pages_written_by_force.background  --- MySQL 8.4.3 does not show it
            pages_written_by_force.sync        --- MySQL 8.4.3 does not show it
            pages_written_as_neighbours        --- MySQL 8.4.3 does not show it
            hard_waits                         --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' switches it on
            throttled_us_total                 --- InnoDB has nothing like it
        "#]],
    );
}

#[test]
fn percona_5_7_unverified() {
    let text = include_str!("fixtures/percona-5.7-unverified.txt");
    check(
        fixture("5.7.44-48", "Percona Server (GPL), Release 48", text),
        &expect![[r#"
            Percona Server 5.7.44
            commits                            1200.0   com_commit + com_xa_commit
            statement_commits                  2400.0   handler_commit
            rollback_statements                3.0   com_rollback
            statements                         9000.0   questions
            row_reads                          5000.0   innodb_rows_read
            row_inserts                        30.0   innodb_rows_inserted
            row_updates                        20.0   innodb_rows_updated
            row_deletes                        10.0   innodb_rows_deleted
            current_lsn                        60000000.0   innodb_lsn_current
            durable_lsn                        59999000.0   innodb_lsn_flushed
            checkpoint_lsn                     20000000.0   innodb_lsn_last_checkpoint
            checkpoint_age_bytes               40000000.0   innodb_checkpoint_age
            checkpoint_age_soft                70722894.0   7/8 and 15/16 of Innodb_checkpoint_max_age
            checkpoint_age_limit               75774529.0   7/8 and 15/16 of Innodb_checkpoint_max_age
            redo_capacity_bytes                100663296.0   the log's settings
            redo_bytes_written                 60000000.0   innodb_lsn_current
            log_bytes_written                  70000000.0   innodb_os_log_written
            log_writes                         2000.0   innodb_log_writes
            buffer_frames                      8191.0   innodb_buffer_pool_pages_total
            lru_pages                          7000.0   innodb_buffer_pool_pages_data
            dirty_pages                        900.0   innodb_buffer_pool_pages_dirty
            free_frames                        1000.0   innodb_buffer_pool_pages_free
            dirty_percent                      11.2   100 x dirty / (1 + data + free) pages
            pages_read                         400.0   innodb_pages_read
            pages_written                      12000.0   innodb_pages_written
            pages_flushed_list                 11945.0   innodb_buffer_pool_pages_flushed - metric.buffer_lru_batch_flush_total_pages
            pages_flushed_lru                  55.0   metric.buffer_lru_batch_flush_total_pages
            pages_written_by_force.lru         55.0   metric.buffer_lru_batch_flush_total_pages
            doublewrite_pages                  12000.0   innodb_dblwr_pages_written
            fsyncs                             300.0   innodb_data_fsyncs
            log_fsyncs                         250.0   innodb_os_log_fsyncs
            device_bytes_written               90000000.0   innodb_data_written
            pending_reads                      0.0   innodb_data_pending_reads
            pending_writes                     1.0   innodb_data_pending_writes
            pending_fsyncs                     0.0   innodb_data_pending_fsyncs
            free_frame_waits                   0.0   innodb_buffer_pool_wait_free
            log_buffer_waits                   0.0   innodb_log_waits
            lock_waits                         4.0   innodb_row_lock_waits
            lock_wait_us_total                 12000.0   innodb_row_lock_time x 1000
            lock_waiters                       0.0   innodb_row_lock_current_waits
            deadlocks                          0.0   metric.lock_deadlocks
            history_transactions               17.0   metric.trx_rseg_history_len
            open_connections                   5.0   threads_connected
            threads_running                    2.0   threads_running
            uptime_seconds                     600.0   uptime
            rollbacks                          --- switched off; SET GLOBAL innodb_monitor_enable = 'trx_rollbacks' switches it on
            io_capacity_max                    --- Percona Server 5.7.44 does not show it
            pages_written_by_force.adaptive    --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_adaptive_total_pages' switches it on
            pages_written_by_force.background  --- Percona Server 5.7.44 does not show it
            pages_written_by_force.sync        --- Percona Server 5.7.44 does not show it
            pages_written_as_neighbours        --- Percona Server 5.7.44 does not show it
            hard_waits                         --- switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' switches it on
            throttled_us_total                 --- InnoDB has nothing like it
        "#]],
    );
}

#[test]
fn a_server_without_the_privilege_says_which_grant_is_missing() {
    let text = include_str!("fixtures/mysql-5.7-unverified.txt");
    let (mut facts, mut answers) = fixture("5.7.44-log", "", text);
    (facts.metrics, answers.log) = (BTreeMap::new(), None);
    facts.refusals.push("the user lacks the privilege PROCESS".to_owned());
    let age = provenance(&facts, &answers).into_iter().find(|p| p.name == "checkpoint_age_bytes").unwrap();
    assert_eq!(age.source, Err("the user lacks the privilege PROCESS".to_owned()));
}

#[test]
fn a_sample_is_one_statement_where_the_server_allows_it() {
    let ask = |version: &str, metrics, enabled_column, performance_schema| {
        let version = Version::parse(version, "");
        statements(&Allowed { version, metrics, enabled_column, performance_schema })
    };
    let count = |asked: &Statements| 1 + usize::from(asked.metrics.is_some());
    assert_eq!(count(&ask("10.11.2-MariaDB", true, true, false)), 1);
    assert_eq!(count(&ask("10.3.2-MariaDB", true, false, false)), 1);
    assert_eq!(count(&ask("8.4.2", true, false, true)), 1);
    let without = ask("8.4.2", true, false, false);
    assert_eq!((without.values, count(&without)), ("SHOW GLOBAL STATUS", 2));
    let refused = ask("10.11.2-MariaDB", false, false, false);
    assert_eq!((refused.values, count(&refused)), ("SHOW GLOBAL STATUS", 1));
}
