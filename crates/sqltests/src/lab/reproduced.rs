//! `millpond reproduce`: experiments with servers of their own.

use super::place::Lab;
use super::runs::refused;
use crate::output;
use crate::places::plugin_path;
use crate::steps::{expect, until};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The short experiments run, check themselves, and leave nothing but their results.
pub(super) fn articles(lab: &Lab<'_>) -> Result<(), String> {
    // The other releases have no programs to install a server beside them.
    if lab.base.is_some() {
        return Ok(());
    }
    let out = lab.dir.join("reproduced");
    let json = lab.dir.join("reproduced.json").display().to_string();
    let dir = out.display().to_string();
    let plugin = plugin_path().display().to_string();
    let mut command = lab.millpond(&["reproduce", "B19", "d3.b15", "B3", "--quick", "--plugin", &plugin]);
    let said = output(command.args(["--out", &dir, "--json", &json]).current_dir(lab.dir))?;
    expect("the first", &said, "D2.B19")?;
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{json}: {e}"))?;
    let found: Value = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
    for (at, id, least) in [(0, "D2.B19", 3), (1, "D3.B15", 2), (2, "D0.B3", 2)] {
        expect("the id", found[at]["id"].as_str().unwrap_or("none"), id)?;
        expect("the check", found[at]["check"].as_str().unwrap_or("none"), "ok")?;
        let rows = found[at]["rows"].as_array().ok_or("no rows")?;
        let all = ["innodb", "millpond", "millpond_in_server"];
        let each = |row: &&Value| all.iter().all(|side| row[side].is_number());
        if rows.iter().filter(each).count() < least {
            return Err(format!("{id} has too few figures: {}", found[at]));
        }
    }
    let rows = found.pointer("/0/rows/1/innodb").and_then(Value::as_f64);
    if rows != Some(16_000.0) {
        return Err(format!("the inserts are {rows:?} rows"));
    }
    let results = ["index.html", "book.md", "D2.B19.svg", "D2.B19.finding.json", "D2.B19-innodb.json"];
    if let Some(missing) = results.iter().find(|name| !out.join(name).is_file()) {
        return Err(format!("{} is not there", out.join(missing).display()));
    }
    nothing_left(lab)?;
    let (status, why) = refused(&mut lab.millpond(&["reproduce", "B99"]))?;
    expect("an unknown one", &format!("{status:?} {why}"), "Some(2) millpond: B99 is no experiment")?;
    let (status, why) = refused(&mut lab.millpond(&["reproduce", "B19", "--plugin", "none.so"]))?;
    expect("no plugin", &format!("{status:?} {why}"), "Some(2) millpond: none.so is no file")?;
    interrupted(lab)
}

/// Ctrl-C ends the servers, and removes what was made.
fn interrupted(lab: &Lab<'_>) -> Result<(), String> {
    let mut command = lab.millpond(&["reproduce", "B4", "--quick", "--out", "stopped"]);
    command.current_dir(lab.dir).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let sockets = || left(lab).is_ok_and(|left| left.contains("error.log"));
    let started = until("a server of its own", sockets);
    output(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
    child.wait().map_err(|e| e.to_string())?;
    started?;
    nothing_left(lab)
}

fn nothing_left(lab: &Lab<'_>) -> Result<(), String> {
    match left(lab)?.as_str() {
        "" => Ok(()),
        left => Err(format!("reproduce has left {left}")),
    }
}

/// The error logs of servers, and directories of runs, below the place of the tests.
fn left(lab: &Lab<'_>) -> Result<String, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(lab.dir).map_err(|e| e.to_string())? {
        let run = entry.map_err(|e| e.to_string())?.path();
        if !run.file_name().is_some_and(|name| name.to_string_lossy().starts_with("millpond-run-")) {
            continue;
        }
        found.push(run.display().to_string());
        for server in std::fs::read_dir(&run).into_iter().flatten().flatten() {
            let log = server.path().join("error.log");
            if log.is_file() {
                found.push(log.display().to_string());
            }
        }
    }
    Ok(found.join(" "))
}
