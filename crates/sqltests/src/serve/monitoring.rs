//! A real Prometheus that scrapes `millpond serve`: every expression of the dashboard for Grafana
//! gives series, and promtool tests the rules of the alerts.

use super::http;
use super::serving::Serving;
use crate::steps::until;
use crate::{make_dir, output, packages, write};
use checkout::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A Prometheus ends by itself after so many seconds, even if the test is killed.
const LIFE: &str = "240";
const DASHBOARD: &str = "ops/grafana-millpond.json";
const RULES: &str = "ops/alerts.yml";
const RULE_TESTS: &str = "ops/alerts-test.yml";

/// Returns the directory of Prometheus' programs.
fn programs() -> Result<PathBuf, String> {
    packages::unpack("prometheus", "usr/bin")
}

/// Tests the rules of the alerts.
pub(super) fn rules() -> Result<(), String> {
    let promtool = programs()?.join("promtool");
    output(Command::new(&promtool).args(["check", "rules", RULES]).current_dir(root()))?;
    output(Command::new(&promtool).args(["test", "rules", RULE_TESTS]).current_dir(root())).map(drop)
}

/// Checks the text of one target with promtool, and that it has some names.
pub(super) fn text(dir: &Path, serving: &Serving, names: &[&str]) -> Result<(), String> {
    let bearer = format!("Authorization: Bearer {}\r\n", serving.token);
    let (status, text) = http::ask(serving.port, "GET", "/metrics", &bearer, "")?;
    let has = |name: &&&str| text.lines().any(|line| line.strip_prefix(**name).is_some_and(starts_value));
    if let Some(name) = names.iter().find(|name| !has(name)) {
        return Err(format!("status {status}: there is no {name} in {} bytes", text.len()));
    }
    let file = dir.join("metrics.txt");
    write(&file, &text)?;
    let check = "\"$1\" check metrics < \"$2\"";
    let mut promtool = Command::new("sh");
    promtool.args(["-c", check, "sh"]).arg(programs()?.join("promtool")).arg(&file);
    let out = promtool.output().map_err(|e| e.to_string())?;
    // 3: it parses, but names are not as promtool likes them; those are the names of others.
    match out.status.code() {
        Some(0 | 3) => Ok(()),
        _ => Err(format!("promtool check metrics: {}", String::from_utf8_lossy(&out.stderr))),
    }
}

fn starts_value(rest: &str) -> bool {
    rest.starts_with([' ', '{'])
}

/// A running Prometheus. Dropping it ends it.
struct Prometheus {
    process: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = output(Command::new("kill").arg(self.process.id().to_string()));
        let _ = self.process.wait();
    }
}

impl Prometheus {
    fn start(dir: &Path, targets: &[&Serving]) -> Result<Prometheus, String> {
        make_dir(dir)?;
        let mut config = String::from("global: {scrape_interval: 1s}\nscrape_configs:\n");
        for (number, serving) in targets.iter().enumerate() {
            let token = dir.join(format!("token{number}"));
            write(&token, &serving.token)?;
            config.push_str(&format!(
                "- job_name: millpond{number}\n  authorization: {{credentials_file: {}}}\n  \
                 static_configs: [{{targets: ['127.0.0.1:{}']}}]\n",
                token.display(),
                serving.port
            ));
        }
        let file = dir.join("prometheus.yml");
        write(&file, &config)?;
        let programs = programs()?;
        output(Command::new(programs.join("promtool")).args(["check", "config"]).arg(&file))?;
        let port = http::free_port()?;
        let mut command = Command::new("timeout");
        command.arg(LIFE).arg(programs.join("prometheus"));
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|e| format!("cannot start Prometheus: {e}"))?;
        Ok(Prometheus { process, port })
    }

    /// Returns how many series an expression has now.
    fn series(&self, expression: &str) -> Result<usize, String> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let (status, text) = http::ask(self.port, "GET", &path, "", "")?;
        let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{expression}: {e}: {text}"))?;
        match answer["data"]["result"].as_array() {
            Some(series) if status == 200 => Ok(series.len()),
            _ => Err(format!("{expression}: {}", answer["error"])),
        }
    }
}

fn encoded(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric();
    text.as_bytes()
        .iter()
        .map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Scrapes the targets, and asks for every expression of the dashboard.
pub(super) fn dashboard(dir: &Path, targets: &[&Serving]) -> Result<usize, String> {
    let prometheus = Prometheus::start(dir, targets)?;
    let wanted = targets.len();
    until("two scrapes", || {
        prometheus.series("count_over_time(millpond_up[1m]) > 5").is_ok_and(|series| series == wanted)
    })?;
    let file = root().join(DASHBOARD);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let dashboard: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    for expression in &expressions {
        let filled = expression.replace("$__rate_interval", "5s").replace("$instance", ".+");
        if prometheus.series(&filled)? == 0 {
            return Err(format!("{DASHBOARD}: an expression gives no series: {filled}"));
        }
    }
    Ok(expressions.len())
}

/// Finds all expressions of a dashboard.
fn collect(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let expression = members.get("expr").and_then(Value::as_str);
            out.extend(expression.map(str::to_owned));
            members.values().for_each(|member| collect(member, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        _ => {}
    }
}
