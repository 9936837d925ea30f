//! `millpond record`: a recorder that is killed and goes on, and what is read back.

use super::place::Lab;
use super::runs::refused;
use crate::output;
use crate::steps::{expect, until};
use std::fs;
use std::process::{Command, Stdio};

/// The bytes of all segments that are not complete.
fn open_bytes(lab: &Lab<'_>) -> u64 {
    let files = fs::read_dir(lab.dir.join("recorded")).into_iter().flatten().flatten();
    let open = files.filter(|file| file.path().extension().is_some_and(|end| end == "jsonl"));
    open.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Records, kills the recorder, lets another go on, and looks back.
pub(super) fn past(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let record = || {
        let mut command = lab.millpond(&["record", &target, "--dir", "recorded"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| e.to_string())
    };
    let mut killed = record()?;
    let begun = until("three samples", || samples(lab) >= 3);
    let another = refused(&mut lab.millpond(&["record", &target, "--dir", "recorded"]));
    let _ = killed.kill();
    let _ = killed.wait();
    begun?;
    let (status, said) = another?;
    expect(
        "a second recorder",
        &format!("{status:?} {said}"),
        "Some(2) millpond: another `millpond record`",
    )?;
    let before = samples(lab);
    let next = record()?;
    let going = until("more samples", || samples(lab) > before && open_bytes(lab) > 0);
    output(Command::new("kill").args(["-INT", &next.id().to_string()]))?;
    let ended = next.wait_with_output().map_err(|e| e.to_string())?;
    going?;
    if !ended.status.success() || open_bytes(lab) > 0 {
        return Err(format!("a recorder that was stopped left a segment open: {:?}", ended.status));
    }
    let said = lab.ok(&["plot", "recorded", "--out", "recorded-plots"])?;
    expect("plots", &said, "plots, all in recorded-plots")?;
    let picture = lab.ok(&["top", "recorded", "--at", "-1s", "--print", "100x30"])?;
    expect("a moment", &picture, "checkpoint age")?;
    let (status, said) =
        refused(&mut lab.millpond(&["top", "recorded", "--at", "2020-01-01T00:00", "--print", "80x24"]))?;
    expect("a moment before", &format!("{status:?} {said}"), "Some(2) millpond: recorded has no samples")?;
    let (status, said) = refused(&mut lab.millpond(&["record", "mysql://other/", "--dir", "recorded"]))?;
    expect("another target", &format!("{status:?} {said}"), "holds the recording of")
}

/// How many samples can be read back.
fn samples(lab: &Lab<'_>) -> usize {
    let out = lab.millpond(&["plot", "recorded", "--out", "recorded-count"]).output();
    let read = || {
        let text = fs::read_to_string(lab.dir.join("recorded-count").join("index.html")).ok()?;
        let (before, _) = text.split_once(" samples in")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    out.ok().filter(|out| out.status.success()).and_then(|_| read()).unwrap_or(0)
}
