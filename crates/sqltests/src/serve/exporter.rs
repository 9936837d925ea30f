//! The ecosystem's names, side by side: `mysqld_exporter` and `millpond serve` look at one server,
//! and what both tell of its status and settings must have the same name, type and labels. So a
//! dashboard or an alert that was written for one works with the other.

use super::http;
use super::serving::Serving;
use crate::server::Server;
use crate::steps::until;
use crate::{output, packages};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};

/// Debian's package; the program has its name.
const PACKAGE: &str = "prometheus-mysqld-exporter";
/// An exporter ends by itself after so many seconds, even if the test is killed.
const LIFE: &str = "120";
/// What is compared.
const FAMILIES: [&str; 4] =
    ["mysql_global_status_", "mysql_global_variables_", "mysql_up", "mysql_version_info"];
/// Fewer names than this in common, and the comparison compares nothing.
const ENOUGH: usize = 300;

/// A metric: its type, and the labels of its series. Values of labels count, but not in
/// `mysql_version_info`: there they are the versions, and each program shortens them in its way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

/// Compares both. Returns how many names they have in common.
pub(super) fn compare(server: &Server, serving: &Serving) -> Result<usize, String> {
    let bearer = format!("Authorization: Bearer {}\r\n", serving.token);
    let (_, ours) = http::ask(serving.port, "GET", "/metrics", &bearer, "")?;
    let (ours, theirs) = (metrics(&ours), metrics(&exported(server)?));
    let both: Vec<&String> = ours.keys().filter(|name| theirs.contains_key(*name)).collect();
    for name in &both {
        if ours[*name] != theirs[*name] {
            return Err(format!("{name}: {:?} here, {:?} by {PACKAGE}", ours[*name], theirs[*name]));
        }
    }
    let only = |one: &BTreeMap<String, Metric>, other: &BTreeMap<String, Metric>| {
        one.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>().join(" ")
    };
    println!("        only here: {}", only(&ours, &theirs));
    println!("        only by {PACKAGE}: {}", only(&theirs, &ours));
    if both.len() < ENOUGH {
        return Err(format!("only {} names are the same as by {PACKAGE}", both.len()));
    }
    Ok(both.len())
}

/// Returns what the exporter tells of a server.
fn exported(server: &Server) -> Result<String, String> {
    let program = packages::unpack(PACKAGE, "usr/bin")?.join(PACKAGE);
    let port = http::free_port()?;
    let mut command = Command::new("timeout");
    command.arg(LIFE).arg(program).arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.env("DATA_SOURCE_NAME", format!("root@unix({})/", server.socket.display()));
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let exporter = Exporter(quiet.spawn().map_err(|e| format!("cannot start {PACKAGE}: {e}"))?);
    let mut told = String::new();
    until("the exporter", || match http::ask(port, "GET", "/metrics", "", "") {
        Ok((200, text)) => {
            told = text;
            true
        }
        _ => false,
    })?;
    drop(exporter);
    Ok(told)
}

/// A running exporter. Dropping it ends it.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = output(Command::new("kill").arg(self.0.id().to_string()));
        let _ = self.0.wait();
    }
}

/// Reads the format of Prometheus.
fn metrics(text: &str) -> BTreeMap<String, Metric> {
    let mut out: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        let name = line.strip_prefix("# TYPE ").unwrap_or(line);
        let name = name.split([' ', '{']).next().unwrap_or_default();
        if !FAMILIES.iter().any(|family| name.starts_with(family)) {
            continue;
        }
        let metric = out.entry(name.to_owned()).or_default();
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            metric.kind = kind.rsplit(' ').next().unwrap_or_default().to_owned();
            continue;
        }
        let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(l, _)| l);
        let labels = match name {
            "mysql_version_info" => {
                labels.split("\",").map(|one| one.split('=').next().unwrap_or("")).collect()
            }
            _ => labels.to_owned(),
        };
        metric.labels.insert(labels);
    }
    out
}
