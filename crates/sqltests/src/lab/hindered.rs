//! `millpond collect` where something hinders it: settings of the server, limits of its user, a
//! connection that is killed, another collection, an expression that fits nothing. And the option
//! files of its user.

use super::super::output;
use super::super::steps::{expect, until};
use super::place::Lab;
use super::runs::{collecting, interrupt, refused};
use checkout::{TESTED, cargo_program, root};
use std::io::Write;
use std::process::{Command, Stdio};

/// Settings that cut, refuse or end what a session asks, unless it has its own.
const SPOILING: [(&str, &str); 11] = [
    ("sql_select_limit", "3"),
    ("max_join_size", "1"),
    ("max_statement_time", "0.00001"),
    ("sql_mode", "'ORACLE,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL'"),
    ("autocommit", "0"),
    ("wait_timeout", "1"),
    ("idle_transaction_timeout", "1"),
    ("tmp_disk_table_size", "1024"),
    ("tmp_memory_table_size", "1024"),
    ("max_heap_table_size", "16384"),
    // A session that does not set its own is refused all that is asked here. At a few KiB less than
    // a connection needs to begin, the server itself (10.11.19) now and then ends with a signal.
    ("max_session_mem_used", "131072"),
];

/// Each setting alone, and all together.
pub(super) fn settings(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let figures = || -> Result<Vec<String>, String> {
        let all = lab.ok(&["age", &target, "--all"])?;
        let name = |line: &str| {
            let absent = line.contains("[not there");
            format!("{} {absent}", line.split_whitespace().next().unwrap_or_default())
        };
        Ok(all.lines().skip(1).map(name).collect())
    };
    let wanted = figures()?;
    let set = |settings: &[(&str, &str)], by_default: bool| {
        let set = |(name, value): &(&str, &str)| {
            let value = if by_default { "DEFAULT" } else { value };
            format!("SET GLOBAL {name} = {value};")
        };
        lab.sql(&settings.iter().map(set).collect::<String>())
    };
    let parts = SPOILING.iter().map(std::slice::from_ref).chain([&SPOILING[..]]);
    for part in parts {
        set(part, false)?;
        let found = figures().and_then(|found| {
            let out = format!("with-{}-{}", part[0].0, part.len());
            lab.ok(&["collect", &target, "--out", &out, "-l", "2"]).map(|_| found)
        });
        set(part, true)?;
        let found = found.map_err(|why| format!("{part:?}: {why}"))?;
        if found != wanted {
            return Err(format!("{part:?}: found {found:?}, wanted {wanted:?}"));
        }
    }
    Ok(())
}

/// A limit on statements in an hour, and a connection that is killed.
pub(super) fn passing(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("CREATE USER limited@localhost WITH MAX_QUERIES_PER_HOUR 20; GRANT PROCESS ON *.* TO limited@localhost")?;
    let child = collecting(lab, &lab.target("limited"), "limited")?;
    let has = |what: &str| lab.stats("limited").contains(what);
    until("a refusal", || has("\"refused\""))?;
    lab.sql("FLUSH USER_RESOURCES")?;
    until("a sample after it", || has("\"back\""))?;
    let id = "SELECT GROUP_CONCAT('KILL ', ID SEPARATOR ';') FROM information_schema.PROCESSLIST WHERE USER = 'limited'";
    lab.sql("FLUSH USER_RESOURCES")?;
    let kill = lab.sql(id)?;
    lab.sql(&kill)?;
    until("the end of the connection", || has("\"gone\""))?;
    until("a sample after it", || lab.stats("limited").matches("\"back\"").count() == 2)?;
    expect("the summary", &interrupt(child)?, "gone once; refused once")
}

/// The output of a workload is passed on as it is, and nothing else.
pub(super) fn piped(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let run = |name: &str, text: &[u8]| {
        let mut command =
            lab.millpond(&["collect", &target, "--out", name, "-r", r"tps: (\d+)", "-v", "tps"]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().map_err(|e| format!("cannot start the program: {e}"))?;
        let wrote = child.stdin.take().map(|mut stdin| stdin.write_all(text));
        wrote.transpose().map_err(|e| format!("cannot write to the program: {e}"))?;
        child.wait_with_output().map_err(|e| e.to_string())
    };
    let text = b"caf\xe9\r\ntps: 5\n\ntps: 6";
    let out = run("piped", text)?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.stdout != text {
        return Err(format!("the output of the workload became {:?}", out.stdout.escape_ascii().to_string()));
    }
    expect("the summary", &said, "2 samples of mysql://")?;
    let out = run("unfit", b"TPS: 5\n")?;
    let said = format!("{:?} {}", out.status.code(), String::from_utf8_lossy(&out.stderr));
    expect(
        "an expression that fits nothing",
        &said,
        "Some(1) millpond: there is no sample: -r 'tps: (\\d+)' fits",
    )?;
    if lab.dir.join("unfit").exists() {
        Err("a collection without a sample stays".to_owned())
    } else {
        Ok(())
    }
}

/// A directory that a collection writes to.
pub(super) fn busy(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let child = collecting(lab, &target, "busy")?;
    let (status, said) = refused(&mut lab.millpond(&["collect", &target, "--out", "busy", "-l", "1"]))?;
    expect(
        "a second collection",
        &format!("{status:?} {said}"),
        "Some(2) millpond: another `millpond collect` writes",
    )?;
    expect("the summary of the first", &interrupt(child)?, "samples of mysql://")?;
    if lab.dir.join("busy.bak").exists() { Err("the first one has another name".to_owned()) } else { Ok(()) }
}

/// The test that compares generated option files with the server's own program is one of the crate
/// `client`. There it is skipped where that program is missing; here it is not.
pub(super) fn option_files(_: &Lab<'_>) -> Result<(), String> {
    let mut cargo = Command::new(cargo_program());
    // All tests are built, which they are after `cargo xtask ci`. Those of other names do not run.
    cargo.args(["test", "--quiet", "--lib"]).args(TESTED).arg("option_file::");
    let said = output(cargo.current_dir(root()).env("MILLPOND_NEEDS_MARIADB", "1"))?;
    expect("the test", &said, "2 passed")
}
