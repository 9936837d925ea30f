//! `millpond stalk`: a global read lock makes an event that names who holds it.

use super::place::Lab;
use super::runs::refused;
use crate::steps::{expect, until};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// The statement of the connection that holds the lock.
const HOLDER: &str = "FLUSH TABLES WITH READ LOCK; SELECT SLEEP(8) AS holder";

/// Waits for an event, makes one, and looks at what was kept.
pub(super) fn read_lock(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let (status, said) = refused(&mut lab.millpond(&[
        "stalk",
        &target,
        "--dir",
        "stalked-not",
        "--when",
        "thread_running > 1",
    ]))?;
    expect("an unknown figure", &format!("{status:?} {said}"), "Some(2) millpond: there is no figure")?;
    expect("names near to it", &said, "threads_running")?;
    lab.sql("CREATE DATABASE stalked; CREATE TABLE stalked.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")?;
    lab.sql("INSERT INTO stalked.t VALUES (1, 0)")?;
    let stalk =
        ["stalk", &target, "--dir", "stalked", "--no-band", "--when", "threads_running > 3", "--held", "2"];
    let mut command =
        lab.millpond(&[&stalk[..], &["--before", "5", "--after", "5", "--events", "1", "--stacks"]].concat());
    let stalking = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut stalking = stalking.map_err(|e| e.to_string())?;
    let stalled = until("the mark of the directory", || lab.dir.join("stalked").join("stalk.txt").exists())
        .and_then(|()| stall(lab));
    if stalled.is_err() {
        let _ = stalking.kill();
    }
    let out = stalking.wait_with_output().map_err(|e| e.to_string())?;
    stalled?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    expect("what stalk says", &format!("{:?} {said}", out.status.code()), "Some(0)")?;
    expect("the end of the event", &said, "complete: stalked/")?;
    looked_at(lab)
}

/// Holds the lock, and lets others wait for it.
fn stall(lab: &Lab<'_>) -> Result<(), String> {
    let client = |text: &str| -> Result<Child, String> {
        let mut client = lab.server.client();
        client.args(["--execute", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        client.spawn().map_err(|e| e.to_string())
    };
    let mut all = vec![client(HOLDER)?];
    let held = until("the lock", || lab.sql("SHOW PROCESSLIST").is_ok_and(|list| list.contains("AS holder")));
    for _ in 0..4 {
        all.push(client("UPDATE stalked.t SET v = v + 1")?);
    }
    for mut client in all {
        client.wait().map_err(|e| e.to_string())?;
    }
    held
}

/// Reads the event back.
fn looked_at(lab: &Lab<'_>) -> Result<(), String> {
    let dirs = fs::read_dir(lab.dir.join("stalked")).map_err(|e| e.to_string())?.flatten();
    let events: Vec<PathBuf> =
        dirs.map(|entry| entry.path()).filter(|path| path.join("event.json").is_file()).collect();
    let [event] = events.as_slice() else { return Err(format!("wanted one event, found {events:?}")) };
    let read = |name: &str| fs::read_to_string(event.join(name)).map_err(|e| format!("{name}: {e}"));
    let list = read("processlist-00s.txt")?;
    expect("the process list", &list, "AS holder")?;
    expect("those that wait", &list, "Waiting for backup lock")?;
    expect("the cause", &read("event.json")?, "threads_running > 3")?;
    let page = read("index.html")?;
    expect("who holds the lock", &page, "of those that do not wait it may be connection")?;
    expect("the stacks", &read("stacks-00s.txt")?, " threads\n")?;
    let said = lab.ok(&["plot", &event.display().to_string(), "--out", "stalked-plots"])?;
    expect("plots", &said, "plots, all in stalked-plots")
}
