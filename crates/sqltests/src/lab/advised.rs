//! `millpond advise` on a server under load.

use super::place::Lab;
use super::runs::refused;
use crate::steps::{expect, until};
use serde_json::Value;
use std::process::Child;

/// The keys of each piece of advice.
const KEYS: [&str; 8] = ["rule", "urgency", "finding", "evidence", "do", "costs", "undo", "sure"];

/// It watches, says something with figures of this server, and its exit status tells whether
/// something is urgent. The same holds of a collection of the server.
pub(super) fn servers(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let mut load = lab.load("innodb")?;
    let live = advice(lab, &[&target, "--watch", "3s"]);
    let collected = lab.ok(&["collect", &target, "--out", "for-advice", "-l", "3"]);
    let _ = load.kill();
    let _ = load.wait();
    let live = live?;
    if live.is_empty() || live.len() > 5 {
        return Err(format!("{} pieces of advice", live.len()));
    }
    collected?;
    advice(lab, &["for-advice"])?;
    let (status, said) = refused(&mut lab.millpond(&["advise", "nosuch"]))?;
    expect("a directory that is not there", &format!("{status:?} {said}"), "Some(2) millpond: ")
}

/// The settings that the case of `--try` changes, and what it sets them to: nothing is written
/// until the age reaches its soft limit, so every load brings it there.
const PRESSED: [(&str, &str); 3] = [
    ("innodb_log_file_size", "16777216"),
    ("innodb_adaptive_flushing", "OFF"),
    ("innodb_max_dirty_pages_pct_lwm", "0"),
];

/// What is tried is kept or put back as the proof says, and there is a way back as long as there is
/// something to put back.
pub(super) fn tried(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let (status, said) = refused(&mut lab.millpond(&["advise", "for-advice", "--try", "log size"]))?;
    expect("a collection", &format!("{status:?} {said}"), "Some(2) millpond: for-advice is a directory")?;
    lab.sql("SET GLOBAL read_only = 1")?;
    let read_only = refused(&mut lab.millpond(&["advise", &target, "--try", "log size"]));
    lab.sql("SET GLOBAL read_only = 0")?;
    expect("a read-only server", &read_only?.1, "millpond: the server is read-only (read_only)")?;
    lab.sql("CREATE USER weak@localhost; GRANT PROCESS, SLAVE MONITOR ON *.* TO weak@localhost")?;
    let weak = refused(&mut lab.millpond(&["advise", &lab.target("weak"), "--try", "log size"]));
    lab.sql("DROP USER weak@localhost")?;
    expect("a user without the privilege", &weak?.1, "needs the privilege to change settings: SUPER")?;
    let mut before = Vec::new();
    for (name, value) in PRESSED {
        before.push((name, lab.sql(&format!("SELECT @@{name}"))?));
        lab.sql(&format!("SET GLOBAL {name} = {value}"))?;
    }
    let outcome = experiment(lab, &target);
    for (name, value) in before.into_iter().skip(1) {
        lab.sql(&format!("SET GLOBAL {name} = {value}"))?;
    }
    outcome
}

/// Tries a longer log, under a load that lasts longer than the first block.
fn experiment(lab: &Lab<'_>, target: &str) -> Result<(), String> {
    let old = lab.sql("SELECT @@innodb_log_file_size")?;
    let mut loads: Vec<Child> = Vec::new();
    let age = || -> Result<f64, String> {
        let said = lab.sql("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'")?;
        Ok(said.split_whitespace().nth(1).and_then(|age| age.parse().ok()).unwrap_or(0.0))
    };
    let run = |loads: &mut Vec<Child>| {
        loads.push(lab.load("innodb")?);
        // Seven tenths of the log are near its soft limit.
        // A machine that is too slow for that has a calm server, which is an outcome, too.
        let _ = until("an age near its soft limit", || age().is_ok_and(|age| age > 0.7 * 16_777_216.0));
        let flags = ["--try", "log-size", "--watch", "5s", "--out", "tried", "--json", "tried.json"];
        lab.millpond(&[&["advise", target], &flags[..]].concat()).output().map_err(|e| e.to_string())
    };
    let out = run(&mut loads);
    for mut load in loads {
        let _ = load.kill();
        let _ = load.wait();
    }
    let out = out?;
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let now = lab.sql("SELECT @@innodb_log_file_size")?;
    let dir = lab.dir.join("tried");
    if out.status.code() == Some(2) {
        // The load was calm for these seconds: nothing was changed, and nothing is left.
        expect("the size of the log", &now, &old)?;
        return if dir.exists() {
            Err(format!("a refused experiment left a directory: {said}"))
        } else {
            Ok(())
        };
    }
    let text = std::fs::read_to_string(dir.join("proof.json")).map_err(|e| format!("{e}: {said}"))?;
    let proof: Value = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
    let kept = proof["kept"] == true;
    if kept != (proof["verdict"] == "better") || out.status.code() != Some(if kept { 0 } else { 3 }) {
        return Err(format!("the status is {:?} with {text}", out.status.code()));
    }
    let undo = format!("SET GLOBAL innodb_log_file_size = {old}");
    expect("the undo", proof["undo"][0].as_str().unwrap_or_default(), &undo)?;
    if kept == (now == old) {
        return Err(format!("the log has {now} bytes, before {old}, with {text}"));
    }
    let file = std::fs::read_to_string(dir.join("undo.sql")).unwrap_or_default();
    expect("undo.sql", &format!("[{file}]"), &if kept { format!("[{undo};\n]") } else { "[]".to_owned() })?;
    for block in ["1-before", "2-after", "3-before", "4-after"] {
        lab.ok(&["plot", &format!("tried/{block}"), "--out", "tried-plots"])?;
    }
    if kept { lab.sql(&undo).map(drop) } else { Ok(()) }
}

/// Asks for advice, and checks that text, JSON and exit status agree.
fn advice(lab: &Lab<'_>, args: &[&str]) -> Result<Vec<Value>, String> {
    let json = lab.dir.join("advice.json").display().to_string();
    let out = lab.millpond(&[&["advise"], args, &["--json", &json]].concat()).output();
    let out = out.map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(&json)
        .map_err(|e| format!("{json}: {e}: {}", String::from_utf8_lossy(&out.stderr)))?;
    let list: Vec<Value> = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
    let missing = |one: &&Value| KEYS.iter().any(|key| one.get(key).is_none());
    if let Some(one) = list.iter().find(missing) {
        return Err(format!("a key is missing in {one}"));
    }
    let urgent = list.iter().any(|one| one["urgency"] == "urgent");
    if out.status.code() != Some(if urgent { 3 } else { 0 }) {
        return Err(format!("the status is {:?} with {text}", out.status.code()));
    }
    let said = String::from_utf8_lossy(&out.stdout);
    for one in &list {
        expect("the text", &said, one["rule"].as_str().unwrap_or("no rule"))?;
    }
    Ok(list)
}
