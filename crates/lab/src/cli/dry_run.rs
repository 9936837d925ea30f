//! `millpond run --dry-run`: what a run would do on a server. It reads and changes nothing.

use super::run::Run;
use super::server_place::load_on;
use crate::result::TableLines;
use crate::server::{Schema, build};
use client::Access;
use output::failure::{Failure, Outcome};
use output::print;

/// Says what the run would do on an engine of a server, in a schema.
pub(super) fn dry_run(run: &Run, access: &Access, engine: &str, name: &str) -> Outcome {
    let schema = Schema::would(access, name, &load_on(engine, run), run.keep)?;
    let level = run.isolation.map(|level| level.name());
    let workload = build(run.workload, run.params(), Some(engine.to_owned()), level);
    let plan = workload.plan();
    let mut out = TableLines::default();
    out.line("server", format!("{}   engine {engine}", access.name()));
    out.line("schema", schema);
    out.line("tables", run.shape().text);
    plan.load.into_iter().for_each(|statement| out.line("", statement));
    out.line("transactions", threads(run, workload.has_an_end()));
    plan.transaction.into_iter().for_each(|statement| out.line("", statement));
    out.line("binary log", binary_log(access)?);
    out.line("settings", "none of the server's is changed".to_owned());
    print(&out.text());
    Ok(())
}

/// Returns by whom and how long transactions are run, in words.
fn threads(run: &Run, has_an_end: bool) -> String {
    let clients = &run.clients;
    let threads = match clients.ramp.as_slice() {
        [] => format!("by {} threads", clients.threads),
        steps => format!(
            "by {} threads, one after the other",
            steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    let length = match has_an_end {
        true => "until all is done".to_owned(),
        false => {
            format!("{:.0} s after {:.0} s of warm-up", run.seconds.as_secs_f64(), run.warmup.as_secs_f64())
        }
    };
    format!("{threads}, {length}")
}

/// Says whether the load is written to the binary log.
fn binary_log(access: &Access) -> Outcome<String> {
    let failed = |trouble: client::Trouble| Failure::failed(format!("SELECT @@log_bin fails: {trouble}"));
    let rows = access.connect()?.rows("SELECT @@log_bin").map_err(failed)?;
    let on = rows.first().and_then(|row| row.first()?.as_deref()).is_some_and(|value| value != "0");
    Ok(if on { "is on: it grows by all that is loaded and changed, and replicas get it" } else { "is off" }
        .to_owned())
}
