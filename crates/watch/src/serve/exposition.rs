//! The text for Prometheus.
//!
//! A server's status variables and settings have the names that `mysqld_exporter` gives them, so
//! that dashboards of the ecosystem fit. The figures of the schema have the names of Millpond's own
//! catalog, `millpond_*`, for a server and for a database, so that one dashboard fits both.

use crate::forecast::Forecast;
use crate::sources::{About, FIGURES, Sample, is_of_schema};
use output::samples::ColumnKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A family: what it means, its type, and its series, by their labels.
#[derive(Debug)]
struct Family {
    help: String,
    kind: &'static str,
    series: Vec<(String, String)>,
}

type Families = BTreeMap<String, Family>;

/// The families of forces, in the schema.
const BY_FORCE: &str = "pages_written_by_force.";

/// Returns the text. Without a sample the target is gone; a forecast is there only now and then.
pub(super) fn exposition(about: &About, sample: Option<&Sample>, forecast: Option<Forecast>) -> String {
    let engine = sample.and_then(|sample| sample.engine.as_ref());
    let mut out = engine.map_or_else(String::new, |engine| engine.to_prometheus());
    let present: BTreeSet<String> = out
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
        .collect();
    let mut families = Families::new();
    let up = if sample.is_some() { "1" } else { "0" };
    let help = "Whether the target answers, or writes its flight recorder.";
    add(&mut families, "millpond_up", help, "gauge", "", up);
    if !about.configuration.is_empty() && about.version != "Millpond" {
        add(&mut families, "mysql_up", "Whether the server answers.", "gauge", "", up);
        settings(&mut families, about);
        sample.into_iter().for_each(|sample| status(&mut families, sample));
    }
    sample.into_iter().for_each(|sample| schema(&mut families, sample));
    forecast.into_iter().for_each(|forecast| foretold(&mut families, forecast));
    families.retain(|name, _| !present.contains(name));
    for (name, Family { help, kind, series }) in families {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in series {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    }
    out
}

/// Joins the texts of several targets: each family once, each series with the label `target`. A
/// name that two targets have gets the number of the second.
pub(super) fn joined(texts: &[(String, String)]) -> String {
    let mut families: Vec<(&str, String)> = Vec::new();
    let mut names = BTreeSet::new();
    for (place, (name, text)) in texts.iter().enumerate() {
        let name = if names.insert(name) { name.clone() } else { format!("{name} ({})", place + 1) };
        let label = format!("target=\"{}\"", escaped(&name));
        let (mut head, mut at) = ("", 0);
        for line in text.lines() {
            if line.starts_with("# HELP ") {
                head = line;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let family = rest.split(' ').next().unwrap_or_default();
                at = families.iter().position(|(known, _)| *known == family).unwrap_or(families.len());
                if at == families.len() {
                    families.push((family, format!("{head}\n{line}\n")));
                }
            } else if let Some((_, out)) = families.get_mut(at) {
                let _ = writeln!(out, "{}", labelled(line, &label));
            }
        }
    }
    families.into_iter().map(|(_, text)| text).collect()
}

/// Adds a label to a line of a series.
fn labelled(line: &str, label: &str) -> String {
    match line.find(['{', ' ']) {
        Some(at) if line[at..].starts_with("{}") => format!("{}{{{label}{}", &line[..at], &line[at + 1..]),
        Some(at) if line[at..].starts_with('{') => format!("{}{{{label},{}", &line[..at], &line[at + 1..]),
        Some(at) => format!("{}{{{label}}}{}", &line[..at], &line[at..]),
        None => line.to_owned(),
    }
}

fn add(families: &mut Families, name: &str, help: &str, kind: &'static str, labels: &str, value: &str) {
    let family = families.entry(name.to_owned()).or_insert_with(|| Family {
        help: help.replace('\\', "\\\\").replace('\n', "\\n"),
        kind,
        series: Vec::new(),
    });
    family.series.push((labels.to_owned(), value.to_owned()));
}

/// Adds the forecast of the checkpoint age: what is not foretold is not there.
fn foretold(families: &mut Families, forecast: Forecast) {
    let limits = [("soft_limit", "soft limit", forecast.to_soft), ("limit", "limit", forecast.to_limit)];
    for (name, words, left) in limits {
        let Some(left) = left else { continue };
        let help = format!("Seconds until the checkpoint age reaches its {words}, while that is foretold.");
        let name = format!("millpond_forecast_seconds_to_{name}");
        add(families, &name, &help, "gauge", "", &number(left.round()));
    }
}

/// Adds the figures of the schema.
fn schema(families: &mut Families, sample: &Sample) {
    for (name, _, kind, value) in sample.values.iter().filter(|value| is_of_schema(&value.0)) {
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        let kind = if *kind == ColumnKind::Counter { "counter" } else { "gauge" };
        let value = number(*value);
        if let Some(force) = name.strip_prefix(BY_FORCE) {
            let labels = format!("{{force=\"{}\"}}", escaped(force));
            let help = "Pages written in place, by what forced them.";
            add(families, "millpond_pages_written_by_force_total", help, kind, &labels, &value);
        } else {
            let suffix = if kind == "counter" && !name.ends_with("_total") { "_total" } else { "" };
            let help = figure.map_or("", |figure| figure.help);
            add(families, &format!("millpond_{name}{suffix}"), help, kind, "", &value);
        }
    }
}

/// Groups of status variables that `mysqld_exporter` joins: how the name begins, the family, the
/// label, the meaning.
const GROUPS: [(&str, &str, &str, &str); 6] = [
    ("com_", "commands_total", "command", "Statements by kind."),
    ("handler_", "handlers_total", "handler", "Calls of storage engines by kind."),
    ("connection_errors_", "connection_errors_total", "error", "Connections refused, by why."),
    ("innodb_rows_", "innodb_row_ops_total", "operation", "Rows of InnoDB by what was done to them."),
    (
        "performance_schema_",
        "performance_schema_lost_total",
        "instrumentation",
        "What performance_schema lost.",
    ),
    (
        "innodb_buffer_pool_pages_",
        "buffer_pool_page_changes_total",
        "operation",
        "Page operations of the pool.",
    ),
];
const STATUS: &str = "mysql_global_status_";

/// Adds a server's status variables.
fn status(families: &mut Families, sample: &Sample) {
    // `threads_running` is both: a figure of the schema, and a status variable of that name.
    let own = |name: &str| (!is_of_schema(name) || name == "threads_running") && !name.starts_with("metric.");
    for (name, .., value) in sample.values.iter().filter(|value| own(&value.0)) {
        let value = number(*value);
        match name.strip_prefix("innodb_buffer_pool_pages_") {
            Some("total") => continue,
            Some("dirty") => {
                let name = format!("{STATUS}buffer_pool_dirty_pages");
                add(families, &name, "Dirty pages of InnoDB's buffer pool.", "gauge", "", &value);
                continue;
            }
            Some(state @ ("data" | "free" | "misc" | "old")) => {
                let (name, labels) = (format!("{STATUS}buffer_pool_pages"), format!("{{state=\"{state}\"}}"));
                add(families, &name, "Pages of InnoDB's buffer pool, by state.", "gauge", &labels, &value);
                continue;
            }
            _ => {}
        }
        let group = GROUPS.iter().find_map(|group| name.strip_prefix(group.0).map(|member| (group, member)));
        match group {
            Some(((_, family, label, help), member)) => {
                let labels = format!("{{{label}=\"{}\"}}", escaped(member));
                add(families, &format!("{STATUS}{family}"), help, "counter", &labels, &value);
            }
            // Whether it is a counter is not known of all of them: untyped, as elsewhere.
            None => {
                let help = format!("The status variable {name}.");
                add(families, &format!("{STATUS}{}", plain(name)), &help, "untyped", "", &value);
            }
        }
    }
}

/// Adds a server's settings that are numbers or switches, and its version.
fn settings(families: &mut Families, about: &About) {
    let mut text = BTreeMap::new();
    for (name, value) in &about.configuration {
        let (name, value) = (name.to_lowercase(), value.as_str());
        let number = match value {
            "ON" | "YES" => Some(1.0),
            "OFF" | "NO" => Some(0.0),
            value => value.parse::<f64>().ok().filter(|value| value.is_finite()),
        };
        if let Some(value) = number {
            let help = format!("The setting {name}.");
            let value = self::number(value);
            add(families, &format!("mysql_global_variables_{}", plain(&name)), &help, "gauge", "", &value);
        }
        text.insert(name, value);
    }
    let of = |name: &str| escaped(text.get(name).copied().unwrap_or_default());
    let (innodb, version, comment) = (of("innodb_version"), of("version"), of("version_comment"));
    let labels =
        format!("{{innodb_version=\"{innodb}\",version=\"{version}\",version_comment=\"{comment}\"}}");
    add(families, "mysql_version_info", "Version of the server.", "gauge", &labels, "1");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Makes a name of a metric: letters, digits and `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use metrics::Metrics;
    use output::samples::ColumnKind::{Counter, Gauge};

    fn about(version: &str, configuration: &[(&str, &str)]) -> About {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        About {
            target: "t".to_owned(),
            version: version.to_owned(),
            configuration: configuration.iter().map(owned).collect(),
            origins: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn server() -> About {
        about(
            "MariaDB 10.11.19",
            &[
                ("version", "10.11.19-MariaDB"),
                ("innodb_version", "10.11.19"),
                ("version_comment", "a \"quoted\" one"),
                ("innodb_log_file_size", "8388608"),
                ("innodb_doublewrite", "ON"),
                ("wsrep-x", "OFF"),
                ("sql_mode", "STRICT"),
            ],
        )
    }

    fn server_sample() -> Sample {
        let values = [
            ("checkpoint_age_bytes", Gauge, 17.0),
            ("commits", Counter, 5.0),
            ("throttled_us_total", Counter, 8.5),
            ("pages_written_by_force.adaptive", Counter, 3.0),
            ("pages_written_by_force.sync", Counter, 0.0),
            ("com_select", Counter, 1.0),
            ("com_commit", Counter, 2.0),
            ("handler_write", Counter, 3.0),
            ("innodb_buffer_pool_pages_dirty", Gauge, 4.0),
            ("innodb_buffer_pool_pages_free", Gauge, 5.0),
            ("innodb_buffer_pool_pages_total", Gauge, 6.0),
            ("innodb_buffer_pool_pages_flushed", Counter, 7.0),
            ("innodb_rows_read", Counter, 8.0),
            ("threads_running", Gauge, 9.0),
            ("queries", Counter, 1e16),
            ("metric.trx_rw_commits", Counter, 5.0),
        ];
        let values = values.iter().map(|(name, kind, value)| ((*name).to_owned(), "", *kind, *value));
        Sample::new(1, values.collect())
    }

    #[test]
    fn a_server_has_the_names_of_the_ecosystem() {
        let sample = server_sample();
        expect![[r##"
            # HELP millpond_checkpoint_age_bytes Redo between the checkpoint and the end of the log: what a recovery reads.
            # TYPE millpond_checkpoint_age_bytes gauge
            millpond_checkpoint_age_bytes 17
            # HELP millpond_commits_total Transactions with changes that were committed. InnoDB counts those rolled back too; MySQL with its metrics off counts COMMIT statements only.
            # TYPE millpond_commits_total counter
            millpond_commits_total 5
            # HELP millpond_pages_written_by_force_total Pages written in place, by what forced them.
            # TYPE millpond_pages_written_by_force_total counter
            millpond_pages_written_by_force_total{force="adaptive"} 3
            millpond_pages_written_by_force_total{force="sync"} 0
            # HELP millpond_threads_running Connections that run a statement.
            # TYPE millpond_threads_running gauge
            millpond_threads_running 9
            # HELP millpond_throttled_us_total Time for which writers were delayed.
            # TYPE millpond_throttled_us_total counter
            millpond_throttled_us_total 8.5
            # HELP millpond_up Whether the target answers, or writes its flight recorder.
            # TYPE millpond_up gauge
            millpond_up 1
            # HELP mysql_global_status_buffer_pool_dirty_pages Dirty pages of InnoDB's buffer pool.
            # TYPE mysql_global_status_buffer_pool_dirty_pages gauge
            mysql_global_status_buffer_pool_dirty_pages 4
            # HELP mysql_global_status_buffer_pool_page_changes_total Page operations of the pool.
            # TYPE mysql_global_status_buffer_pool_page_changes_total counter
            mysql_global_status_buffer_pool_page_changes_total{operation="flushed"} 7
            # HELP mysql_global_status_buffer_pool_pages Pages of InnoDB's buffer pool, by state.
            # TYPE mysql_global_status_buffer_pool_pages gauge
            mysql_global_status_buffer_pool_pages{state="free"} 5
            # HELP mysql_global_status_commands_total Statements by kind.
            # TYPE mysql_global_status_commands_total counter
            mysql_global_status_commands_total{command="select"} 1
            mysql_global_status_commands_total{command="commit"} 2
            # HELP mysql_global_status_handlers_total Calls of storage engines by kind.
            # TYPE mysql_global_status_handlers_total counter
            mysql_global_status_handlers_total{handler="write"} 3
            # HELP mysql_global_status_innodb_row_ops_total Rows of InnoDB by what was done to them.
            # TYPE mysql_global_status_innodb_row_ops_total counter
            mysql_global_status_innodb_row_ops_total{operation="read"} 8
            # HELP mysql_global_status_queries The status variable queries.
            # TYPE mysql_global_status_queries untyped
            mysql_global_status_queries 10000000000000000
            # HELP mysql_global_status_threads_running The status variable threads_running.
            # TYPE mysql_global_status_threads_running untyped
            mysql_global_status_threads_running 9
            # HELP mysql_global_variables_innodb_doublewrite The setting innodb_doublewrite.
            # TYPE mysql_global_variables_innodb_doublewrite gauge
            mysql_global_variables_innodb_doublewrite 1
            # HELP mysql_global_variables_innodb_log_file_size The setting innodb_log_file_size.
            # TYPE mysql_global_variables_innodb_log_file_size gauge
            mysql_global_variables_innodb_log_file_size 8388608
            # HELP mysql_global_variables_wsrep_x The setting wsrep-x.
            # TYPE mysql_global_variables_wsrep_x gauge
            mysql_global_variables_wsrep_x 0
            # HELP mysql_up Whether the server answers.
            # TYPE mysql_up gauge
            mysql_up 1
            # HELP mysql_version_info Version of the server.
            # TYPE mysql_version_info gauge
            mysql_version_info{innodb_version="10.11.19",version="10.11.19-MariaDB",version_comment="a \"quoted\" one"} 1
        "##]].assert_eq(&exposition(&server(), Some(&sample), None));
    }

    #[test]
    fn a_forecast_is_there_as_long_as_it_is_said() {
        let sample = server_sample();
        let of = |to_soft, to_limit| {
            let forecast = Forecast { to_soft, to_limit, growth: 1.0, rises_for: 5.0 };
            let text = exposition(&server(), Some(&sample), Some(forecast));
            text.lines().filter(|line| line.starts_with("millpond_forecast_")).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            of(Some(4.4), Some(17.0)),
            "millpond_forecast_seconds_to_limit 17; millpond_forecast_seconds_to_soft_limit 4"
        );
        assert_eq!(of(None, Some(9.0)), "millpond_forecast_seconds_to_limit 9");
    }

    #[test]
    fn several_targets_share_families_and_have_a_label_each() {
        let one = "# HELP a A.\n# TYPE a counter\na 1\n# HELP b B.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 2\n\
                   b_sum 3\n";
        let other = "# HELP c C.\n# TYPE c gauge\nc 7\n# HELP a A.\n# TYPE a counter\na{} 8\n";
        let texts = [("x".to_owned(), one.to_owned()), ("q\"".to_owned(), other.to_owned())];
        expect![[r##"
            # HELP a A.
            # TYPE a counter
            a{target="x"} 1
            a{target="q\""} 8
            # HELP b B.
            # TYPE b histogram
            b_bucket{target="x",le="+Inf"} 2
            b_sum{target="x"} 3
            # HELP c C.
            # TYPE c gauge
            c{target="q\""} 7
        "##]]
        .assert_eq(&joined(&texts));
        let twice = joined(&[("x".to_owned(), "# TYPE a gauge\na 1\n".to_owned()), texts[0].clone()]);
        assert!(twice.contains("a{target=\"x\"} 1\na{target=\"x (2)\"} 1\n"), "{twice}");
    }

    #[test]
    fn a_real_text_of_a_database_is_joined_whole() {
        let snapshot = Metrics::new().snapshot();
        let values = crate::sources::schema_of_millpond(&snapshot);
        let sample = Sample { engine: Some(Box::new(snapshot)), ..Sample::new(1, values) };
        let text = exposition(&about("Millpond", &[]), Some(&sample), None);
        let both = joined(&[("a".to_owned(), text.clone()), ("b".to_owned(), text.clone())]);
        let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series(&both), 2 * series(&text));
        let heads = |text: &str| text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(heads(&both), heads(&text));
    }

    #[test]
    fn a_server_that_is_gone_says_so() {
        let text = exposition(&server(), None, None);
        assert!(text.contains("\nmillpond_up 0\n") && text.contains("\nmysql_up 0\n"), "{text}");
        assert!(!text.contains("mysql_global_status_"), "{text}");
    }

    #[test]
    fn a_database_has_everything_that_it_measures_each_family_once() {
        let snapshot = Metrics::new().snapshot();
        let values = crate::sources::schema_of_millpond(&snapshot);
        let sample = Sample { engine: Some(Box::new(snapshot)), ..Sample::new(1, values) };
        let text = exposition(&about("Millpond", &[("database", "17")]), Some(&sample), None);
        for part in [
            "millpond_up 1",
            "millpond_checkpoint_age_bytes 0",
            "millpond_commits_total 0",
            "millpond_dirty_percent 0",
            "millpond_fsyncs_total 0",
            "millpond_commit_seconds_bucket{le=\"+Inf\"} 0",
        ] {
            assert!(text.lines().any(|line| line == part), "{part}");
        }
        assert!(!text.contains("mysql_"), "{text}");
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let all = types.len();
        types.sort_unstable();
        types.dedup_by_key(|line| line.split(' ').nth(2));
        assert_eq!(types.len(), all);
    }
}
