//! `millpond advise` on a server under load.

use super::place::Lab;
use super::runs::refused;
use crate::steps::expect;
use serde_json::Value;

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
