//! The program as a process: its exit statuses, its output, and the files that it leaves.

mod common;
#[path = "program/disk.rs"]
mod disk;
#[cfg(feature = "watch")]
#[path = "program/terminal.rs"]
mod terminal;
#[cfg(feature = "torture")]
#[path = "program/torture.rs"]
mod torture;
#[cfg(feature = "watch")]
#[path = "program/watch.rs"]
mod watch;

use common::{Scratch, text};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

impl Scratch {
    fn json(&self, file: &str) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(self.0.join(file)).unwrap()).unwrap()
    }
}

#[test]
fn a_wrong_command_line_is_one_sentence_and_status_2() {
    let scratch = Scratch::new("misuse");
    for (args, word) in [
        ("walk", "walk"),
        ("run fly", "fly"),
        ("run --wings 2", "--wings"),
        ("run --report no/such/report", "no/such"),
        ("run --db here --report here", "--report"),
        ("crash --report no/such/report", "no/such"),
        ("run --threads 0", "--threads"),
        ("run --threads many", "many"),
        ("run --seconds 0", "--seconds"),
        ("run --seconds soon", "soon"),
        ("run --rate 0", "--rate"),
        ("run --burst 2x/10s", "--rate"),
        ("run --rate 10 --burst 2/10s", "2x/10s"),
        ("run --page 5KiB", "16KiB"),
        ("run --pool 5MB", "5MB"),
        ("run --durability maybe", "maybe"),
        ("run --law oracle", "oracle"),
        ("run --io-capacity 200", "--law innodb"),
        ("run --lru-flush-size 200", "--law innodb"),
        ("run --lru-scan-depth 200", "--law innodb"),
        ("run --law innodb --lru-flush-size 4096", "lru_scan_depth"),
        ("run --ephemeral --redo-dir log", "--redo-dir"),
        ("run --law millpond --io-capacity-max 200", "--io-capacity-max"),
        ("run --law innodb --io-capacity 99", "--io-capacity"),
        ("run --law innodb --io-capacity 500 --io-capacity-max 400", "--io-capacity-max 400"),
        ("run --recovery-target 10", "10s"),
        ("run --recovery-target 10s --redo-capacity 96MiB", "--redo-capacity"),
        ("run --ephemeral --db here", "--ephemeral"),
        ("run --ephemeral --keep", "--keep"),
        ("run --ephemeral --recovery-target 10s", "--recovery-target"),
        ("run napkin --ramp 1,2", "napkin"),
        ("run --ramp 1,2 --threads 2", "--threads"),
        ("run --ramp 1,0", "--ramp"),
        ("run --engine InnoDB", "--target"),
        ("run --warehouses 2", "tpcc"),
        ("run tpcc --warehouses 0", "--warehouses"),
        ("run tpcc --scale 100", "1/N"),
        ("run tpcc --think --rate 5", "--rate"),
        ("run tpcc --foreign-keys", "--target"),
        ("run --password", "--target"),
        ("run --target postgres://x", "postgres://"),
        ("run --target mysql://localhost/ --durability none", "--durability"),
        ("run --json no/such/file.json", "no/such"),
        ("run --db no/such/db", "no/such/db"),
        ("crash --redo-bytes 0", "--redo-bytes"),
        ("crash --threads 8 --rows 7", "--rows"),
        ("check", "DIR"),
        ("check nowhere", "nowhere"),
        ("check .", "not a Millpond database"),
        ("inspect nowhere root", "nowhere"),
        ("inspect . page seven", "seven"),
        ("recover --eager nowhere", "nowhere"),
        ("rescue .", "--to"),
        ("rescue nowhere --to here", "nowhere"),
        ("compare --peers oracle", "oracle"),
        ("compare --rows 5 --peers", "--peers"),
    ] {
        let complaint = scratch.refused(2, args);
        assert!(complaint.contains(word), "millpond {args} does not name {word:?}: {complaint}");
    }
    assert_eq!(scratch.names(), Vec::<String>::new(), "misuse leaves nothing behind");
}

/// `millpond inspect DIR log > FILE` on a full disk wrote half of the text and ended with status 0.
#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_reader_that_has_ended_is_none() {
    let scratch = Scratch::new("output");
    let mut command = scratch.command("bench");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    let complaint = "millpond: cannot write the output: No space left on device (os error 28)\n";
    assert_eq!((out.status.code(), text(&out.stderr).as_str()), (Some(1), complaint));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = scratch.command("bench").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr).as_str()), (Some(0), ""));
}

#[test]
fn every_command_and_flag_has_a_line_of_help() {
    let scratch = Scratch::new("help");
    assert_eq!(scratch.millpond("").status.code(), Some(2));
    assert!(scratch.ok("--version").starts_with("millpond "));
    let all = scratch.ok("--help");
    for command in [
        "run",
        "crash",
        "check",
        "inspect",
        #[cfg(feature = "watch")]
        "explain",
        "recover",
        "rescue",
        "disk",
        "napkin",
        #[cfg(feature = "watch")]
        "top",
        #[cfg(feature = "watch")]
        "serve",
        #[cfg(feature = "watch")]
        "trace-fsync",
        "compare",
    ] {
        assert!(all.contains(&format!("  {command}")), "{all}");
        let help = scratch.ok(&format!("{command} --help"));
        for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
            let explained = line.trim_start().split_once("  ").is_some_and(|(_, text)| text.trim().len() > 5);
            assert!(explained, "millpond {command} --help does not explain: {line}");
        }
    }
    assert!(
        !all.contains("crash-") && !all.contains("after-kill"),
        "the commands of child processes are hidden: {all}"
    );
    let run = scratch.ok("run --help");
    for flag in [
        "--db",
        "--ephemeral",
        "--threads",
        "--seconds",
        "--warmup",
        "--tables",
        "--rows",
        "--pool",
        "--recovery-target",
        "--redo-capacity",
        "--law",
        "--io-capacity",
        "--io-capacity-max",
        "--durability",
        "--page",
        "--rate",
        "--burst",
        "--ramp",
        "--target",
        "--engine",
        "--schema",
        "--distribution",
        "--warehouses",
        "--scale",
        "--think",
        "--foreign-keys",
        "--json",
        "--report",
        "--keep",
    ] {
        assert!(run.contains(flag), "{flag} is missing in {run}");
    }
}

#[test]
fn foreign_directories_are_refused_and_not_changed() {
    let scratch = Scratch::new("foreign");
    fs::create_dir(scratch.0.join("home")).unwrap();
    fs::write(scratch.0.join("home/diary.txt"), "dear diary").unwrap();
    fs::write(scratch.0.join("file"), "x").unwrap();
    fs::create_dir(scratch.0.join("site")).unwrap();
    fs::write(scratch.0.join("site/index.html"), "<html>my site</html>").unwrap();
    for args in [
        "run --db home",
        "crash --db home",
        "run --db file",
        "run --report file",
        "run --report site",
        "crash --report site",
        "check file",
        "check home",
    ] {
        scratch.refused(2, args);
    }
    assert_eq!(scratch.names(), ["file", "home", "site"]);
    assert_eq!(fs::read_to_string(scratch.0.join("site/index.html")).unwrap(), "<html>my site</html>");
    assert_eq!(fs::read_to_string(scratch.0.join("home/diary.txt")).unwrap(), "dear diary");
    assert_eq!(fs::read_dir(scratch.0.join("home")).unwrap().count(), 1);
}

#[test]
fn napkin_inserts_its_rows_and_removes_its_directory() {
    let scratch = Scratch::new("napkin");
    let table = scratch.ok("run napkin --threads 4 --pool 32MiB --redo-capacity 64MiB --json out.json");
    assert!(table.contains("4 000") && table.contains("check"), "{table}");
    assert_eq!(scratch.names(), ["out.json"]);
    let json = scratch.json("out.json");
    for field in [
        "workload",
        "threads",
        "seconds",
        "tables",
        "rows",
        "transactions",
        "tps",
        "tps_per_second",
        "latency_us",
        "retries",
        "row_changes",
        "redo_bytes",
        "redo_pad_bytes",
        "redo_bytes_per_row_change",
        "pages_written",
        "page_writes_io",
        "doublewrite_pages",
        "device_write_bytes",
        "fsyncs",
        "commits_per_fsync",
        "checkpoint_age_bytes",
        "throttled_us_total",
        "hard_waits",
        "free_frame_waits",
        "recovery_ms",
        "load_seconds",
        "durable_device",
        "check",
    ] {
        assert!(json.get(field).is_some(), "the JSON has no {field}");
    }
    assert_eq!(json["transactions"], 4000);
    assert_eq!(json["row_changes"], 4000);
    assert_eq!(json["check"], "ok");
    assert!(json["fsyncs"]["total"].as_u64().unwrap() > 0);
    assert!(json["redo_bytes"].as_u64().unwrap() > 4000 * 20, "each insert holds key and value");
}

#[test]
fn the_redo_log_may_lie_elsewhere_and_stays_or_goes_with_the_database() {
    let scratch = Scratch::new("redo-dir");
    let run = "run write-only --seconds 0.3 --warmup 0 --tables 1 --rows 300 --threads 2 --pool 32MiB";
    scratch.ok(&format!("{run} --redo-dir log"));
    assert_eq!(scratch.names(), Vec::<String>::new(), "what the run made goes");
    scratch.ok(&format!("{run} --db db --redo-dir log"));
    let logs = || fs::read_dir(scratch.0.join("log")).unwrap().count();
    assert!(logs() > 0 && !scratch.0.join("db/redo").exists());
    scratch.ok(&format!("{run} --db db --redo-dir log"));
    assert!(logs() > 0, "a run that used it again removes nothing");
    let why = scratch.refused(2, &format!("{run} --db other --redo-dir log"));
    assert!(why.contains("log is not empty"), "{why}");
    assert!(logs() > 0);
}

#[test]
fn a_report_shows_the_run_and_replaces_an_older_one() {
    let scratch = Scratch::new("report");
    let args = "--tables 1 --rows 300 --threads 2 --pool 32MiB --redo-capacity 64MiB --report out";
    let table = scratch.ok(&format!("run write-only --seconds 2.2 --warmup 0 {args}"));
    assert!(table.contains("out/index.html"), "{table}");
    let samples = scratch.json("out/samples.json");
    let seconds: Vec<f64> =
        samples["seconds"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
    assert!(
        seconds.len() >= 2 && seconds[0] == 0.0 && seconds.windows(2).all(|w| w[0] < w[1]),
        "{seconds:?}"
    );
    let commits = &samples["columns"]["run_transactions"]["values"];
    assert!(commits[seconds.len() - 1].as_f64().unwrap() > 0.0, "{commits}");
    let page = fs::read_to_string(scratch.0.join("out/index.html")).unwrap();
    for part in ["write-only", "Checkpoint age", "page batch", "--seconds 2.2", "file system"] {
        assert!(page.contains(part), "the page has no {part}");
    }
    for plot in ["throughput", "latency", "latency-histogram", "checkpoint-age", "page-writes", "fsyncs"] {
        assert!(scratch.0.join(format!("out/{plot}.svg")).exists(), "{plot}");
    }
    // A workload that ends by itself, in less than a second.
    scratch.ok(&format!("run napkin {args}"));
    let page = fs::read_to_string(scratch.0.join("out/index.html")).unwrap();
    assert!(page.contains("napkin") && !page.contains("write-only"));
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn every_workload_runs_on_a_small_database() {
    let scratch = Scratch::new("workloads");
    for workload in [
        "write-heavy",
        "read-write",
        "write-only",
        "insert",
        "update-index",
        "update-non-index",
        "point-select",
        "read-only",
        "bulk-load",
        "schema-reload",
    ] {
        let args =
            "--tables 2 --rows 500 --threads 3 --seconds 0.3 --warmup 0 --pool 32MiB --redo-capacity 64MiB";
        scratch.ok(&format!("run {workload} {args} --json out.json"));
        let json = scratch.json("out.json");
        assert_eq!(json["check"], "ok", "{workload}");
        let (transactions, changes) = (&json["transactions"], json["row_changes"].as_u64().unwrap());
        let transactions = transactions.as_u64().unwrap();
        assert!(transactions > 0, "{workload}");
        match workload {
            "write-heavy" => assert_eq!(changes, 40 * transactions),
            "read-write" | "write-only" => assert_eq!(changes, 4 * transactions),
            "insert" | "update-index" | "update-non-index" => assert_eq!(changes, transactions),
            "bulk-load" => assert_eq!(changes, 1000),
            "schema-reload" => assert_eq!((transactions, changes), (200, 0)),
            _ => assert_eq!(changes, 0, "{workload}"),
        }
    }
    assert_eq!(scratch.names(), ["out.json"]);
}

#[test]
fn tpcc_names_its_scale_checks_its_conditions_and_uses_its_load_again() {
    let scratch = Scratch::new("tpcc");
    let args = "--scale 1/100 --threads 3 --seconds 1 --warmup 0 --pool 32MiB --redo-capacity 64MiB";
    let run = format!("run tpcc --db db --warehouses 2 {args} --json out.json");
    let table = scratch.ok(&run);
    for part in [
        "2 warehouses at 1/100 of the full scale: 1000 items, 30 customers",
        "new orders committed a minute",
        "all 12 conditions of clause 3.3.2 hold",
    ] {
        assert!(table.contains(part), "{part} is missing in {table}");
    }
    let json = scratch.json("out.json");
    assert_eq!((&json["check"], &json["warehouses"]), (&"ok".into(), &2.into()));
    let conditions = json["consistency"].as_array().unwrap();
    assert_eq!(conditions.len(), 12);
    assert!(conditions.iter().all(|one| one["ok"] == true), "{conditions:?}");
    let orders = &json["by_transaction"]["new-order"];
    let count = |of: &serde_json::Value| of.as_u64().unwrap();
    assert!(count(&orders["transactions"]) > 0 && orders["latency_us"]["p99"].as_f64().unwrap() > 0.0);
    let committed = (count(&orders["transactions"]) - count(&orders["rolled_back"])) as f64;
    let tpmc = committed * 60.0 / json["seconds"].as_f64().unwrap();
    assert!((json["tpmc"].as_f64().unwrap() - tpmc).abs() < 0.1, "{json}");
    scratch.ok(&run);
    assert_eq!(scratch.json("out.json")["load_seconds"], 0.0);
    let complaint = scratch.refused(2, &format!("run tpcc --db db {args}"));
    assert!(complaint.contains("holds another load (tpcc, 2 warehouses at 1/100"), "{complaint}");
}

#[test]
fn an_ephemeral_run_makes_no_files_and_says_that_nothing_is_durable() {
    let scratch = Scratch::new("ephemeral");
    let args = "--tables 2 --rows 500 --threads 3 --seconds 0.3 --warmup 0 --pool 32MiB";
    let table = scratch.ok(&format!("run write-heavy --ephemeral {args} --json out.json"));
    assert!(table.contains("nothing is durable"), "{table}");
    let json = scratch.json("out.json");
    assert_eq!((&json["durable_device"], &json["ephemeral"]), (&false.into(), &true.into()));
    assert_eq!(json["check"], "ok");
    assert!(json["transactions"].as_u64().unwrap() > 0);
    assert_eq!(scratch.names(), ["out.json"]);
}

#[test]
fn a_finished_load_is_reused_only_by_runs_with_the_same_load() {
    let scratch = Scratch::new("reuse");
    let args = "--db db --tables 2 --threads 2 --seconds 0.2 --warmup 0 --pool 32MiB --redo-capacity 64MiB --json out.json";
    scratch.ok(&format!("run insert --rows 300 {args}"));
    assert!(scratch.json("out.json")["load_seconds"].as_f64().unwrap() > 0.0);
    scratch.ok(&format!("run insert --rows 300 {args}"));
    assert_eq!(scratch.json("out.json")["load_seconds"], 0.0);
    for other in ["run insert --rows 301", "run read-only --rows 300", "run insert --rows 300 --page 4KiB"] {
        let complaint = scratch.refused(2, &format!("{other} {args}"));
        assert!(complaint.contains("another load"), "{complaint}");
    }
    scratch.ok("check db");
    scratch.ok("recover --eager db");
    let saved = scratch.ok("rescue db --to saved --problems named");
    assert!(saved.starts_with("saved: ") && saved.ends_with(" pages; 0 problems\n"), "{saved}");
    assert!(!saved.contains(" 0 rows"), "{saved}");
    assert!(scratch.refused(2, "rescue db --to saved").contains("saved is not empty"));
    assert!(scratch.ok("check saved").contains("ok"));
    std::fs::remove_dir_all(scratch.0.join("saved")).unwrap();
    std::fs::remove_file(scratch.0.join("named")).unwrap();
    assert!(!scratch.ok("inspect db root").is_empty());
    if cfg!(feature = "watch") {
        let traced = scratch.ok("trace-fsync db --seconds 60 --json out.json");
        assert!(traced.contains("log (commit)") && traced.contains("for each sync"), "{traced}");
        assert_eq!(scratch.json("out.json")["way"], "recorder");
        assert!(scratch.refused(2, "trace-fsync db --strace").contains("--strace"));
    }
    // Two runs, a check and a recovery at least.
    let recorded = scratch.ok("inspect db recorder --all");
    let sessions = recorded.split_once("samples of ").and_then(|(_, rest)| rest.split(' ').next()).unwrap();
    assert!(sessions.parse::<u32>().unwrap() >= 4, "{recorded}");
    assert!(scratch.refused(2, "inspect db recorder --figures comits").contains("no figure comits"));
    assert!(!scratch.ok("inspect db table sbtest1").is_empty());
    assert_eq!(scratch.names(), ["db", "out.json"]);
}

/// A second run once repeated the random choices of the first one: it wrote the same values again,
/// with half the redo.
#[test]
fn a_reused_directory_gets_other_changes() {
    let scratch = Scratch::new("again");
    let args =
        "--db db --tables 1 --rows 20000 --threads 1 --seconds 0.3 --warmup 0 --pool 64MiB --json out.json";
    let redo = || {
        scratch.ok(&format!("run update-non-index {args}"));
        scratch.json("out.json")["redo_bytes_per_row_change"].as_f64().unwrap()
    };
    let (first, second) = (redo(), redo());
    assert!(second > 0.75 * first, "{first} bytes a row change, then {second}");
}

#[test]
fn ctrl_c_removes_what_the_run_made() {
    let args = "run --tables 1 --rows 1000 --seconds 600 --pool 32MiB --redo-capacity 64MiB";
    Scratch::new("interrupt").interrupted(args);
}

/// The program in its own directory, outside of any checkout. PATH contains only what a test puts
/// there.
struct Alone(PathBuf);

impl Alone {
    fn new(name: &str) -> Alone {
        let dir = std::env::temp_dir().join(format!("millpond-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("bin")).unwrap();
        let (program, copy) = (env!("CARGO_BIN_EXE_millpond"), dir.join("millpond"));
        fs::hard_link(program, &copy).or_else(|_| fs::copy(program, &copy).map(drop)).unwrap();
        Alone(dir)
    }

    /// Makes a program that prints its arguments and ends with status 3.
    fn put(&self, path: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\necho \"called: $*\"\n[ \"$1\" = build ] || exit 3\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the program. Returns its status and its output.
    fn millpond(&self, args: &str) -> (Option<i32>, String, String) {
        let out = Command::new(self.0.join("millpond"))
            .args(args.split_whitespace())
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env("PATH", self.0.join("bin"))
            .env("CARGO", self.0.join("bin/cargo"))
            .output()
            .unwrap();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn compare_without_its_program_is_one_sentence() {
    let alone = Alone::new("compare-none");
    let (status, out, complaint) = alone.millpond("compare --rows 5");
    assert_eq!((status, out.as_str(), complaint.lines().count()), (Some(1), "", 1), "{complaint}");
    assert!(complaint.starts_with("millpond: ") && complaint.contains("millpond-compare"), "{complaint}");
}

#[test]
fn compare_runs_the_program_next_to_it_or_on_the_path() {
    for path in ["bin/millpond-compare", "millpond-compare"] {
        let alone = Alone::new(&format!("compare-{}", path.len()));
        alone.put(path);
        for (args, passed) in [
            ("compare --rows 5 --json x.json", "--rows 5 --json x.json"),
            ("compare --peers lmdb --rows 5", "--peers lmdb --rows 5"),
            ("compare --rows 5 --peers=lmdb,redb", "--rows 5 --peers=lmdb,redb"),
            ("compare", ""),
        ] {
            let (status, out, _) = alone.millpond(args);
            assert_eq!((status, out.trim_end()), (Some(3), format!("called: {passed}").trim_end()), "{path}");
        }
    }
}

#[test]
fn compare_builds_its_program_in_a_checkout() {
    let alone = Alone::new("compare-checkout");
    alone.put("bin/cargo");
    for file in ["Cargo.toml", "crates/compare/Cargo.toml"] {
        fs::create_dir_all(alone.0.join(file).parent().unwrap()).unwrap();
        fs::write(alone.0.join(file), "").unwrap();
    }
    for (args, features, passed) in
        [("compare --rows 5", "redb,fjall", "--rows 5"), ("compare --peers lmdb", "lmdb", "--peers lmdb")]
    {
        let (status, out, said) = alone.millpond(args);
        assert_eq!(status, Some(3), "the status of the program that was run: {said}");
        let lines: Vec<&str> = out.lines().collect();
        let with = format!("--release --no-default-features --features {features} --manifest-path");
        assert!(lines[0].starts_with(&format!("called: build {with}")), "{out}");
        assert!(lines[1].starts_with(&format!("called: run {with}")), "{out}");
        assert!(lines[1].ends_with(&format!("crates/compare/Cargo.toml --quiet -- {passed}")), "{out}");
        assert!(said.contains(features), "{said}");
    }
}

#[test]
fn acknowledged_commits_survive_the_kill() {
    let scratch = Scratch::new("crash");
    let sizes = "--threads 4 --tables 2 --rows 400 --redo-bytes 2MiB --pool 32MiB";
    let table = scratch.ok(&format!("crash {sizes} --json out.json --report out"));
    assert!(table.contains("lost"), "{table}");
    let json = scratch.json("out.json");
    assert!(json["redo_bytes"].as_u64().unwrap() >= 2 << 20);
    assert!(json["acknowledged"].as_u64().unwrap() > 0);
    assert_eq!((&json["lost"], &json["extra"]), (&0.into(), &0.into()));
    assert!(json["first_transaction_ms"].as_f64().unwrap() > 0.0);
    assert!(json["full_recovery_ms"].as_f64().unwrap() >= json["first_transaction_ms"].as_f64().unwrap());
    assert!(fs::read_to_string(scratch.0.join("out/index.html")).unwrap().contains("first durable commit"));
    assert!(scratch.0.join("out/recovery.svg").exists() && scratch.0.join("out/samples.json").exists());
    assert_eq!(scratch.names(), ["out", "out.json"]);
}

#[test]
fn acknowledged_commits_survive_kill_after_kill() {
    let scratch = Scratch::new("kills");
    let sizes = "--threads 4 --tables 2 --rows 400 --pool 32MiB --seed 7";
    let table =
        scratch.ok(&format!("crash {sizes} --kills 4 --seconds 0.5 --recovery-target 5s --json out.json"));
    assert!(table.contains("beyond target") && table.contains("of 4 recoveries"), "{table}");
    let json = scratch.json("out.json");
    let kills = json["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 4);
    let acknowledged: u64 = kills.iter().map(|kill| kill["acknowledged"].as_u64().unwrap()).sum();
    assert_eq!(json["acknowledged"].as_u64().unwrap(), acknowledged);
    assert_eq!((&json["lost"], &json["extra"], &json["check"]), (&0.into(), &0.into(), &"ok".into()));
    let both = scratch.millpond("crash --redo-bytes 1MiB --recovery-target 5s");
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_log_that_does_not_get_long_enough_is_a_failure() {
    let scratch = Scratch::new("short");
    let args = "crash --threads 1 --tables 1 --rows 10 --redo-bytes 64MiB --seconds 0.1 --pool 32MiB";
    let out = scratch.millpond(args);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("64 MiB"), "{}", text(&out.stderr));
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[cfg(not(feature = "watch"))]
#[test]
fn a_command_that_was_left_out_is_unknown() {
    let scratch = Scratch::new("left-out");
    for command in ["top", "serve", "collect", "plot", "age", "forecast", "trace-fsync", "explain"] {
        let complaint = scratch.refused(2, command);
        assert!(complaint.contains(&format!("unrecognized subcommand '{command}'")), "{complaint}");
    }
}
