//! `millpond disk` and `millpond napkin --reference` as processes.

use crate::common::Scratch;
use std::fs;

#[test]
fn a_wrong_directory_or_flag_is_one_sentence_and_nothing_is_made() {
    let scratch = Scratch::new("disk-misuse");
    fs::write(scratch.0.join("file"), "x").unwrap();
    for (args, word) in [
        ("disk", "DIR"),
        ("disk nowhere", "no directory nowhere"),
        ("disk file", "file"),
        ("disk . --json no/such/file.json", "no/such"),
        ("disk . --json .", "is a directory"),
        ("disk . --seconds 0", "--seconds"),
        ("disk . --size 4KiB", "16 MiB"),
        ("disk . --size many", "many"),
        ("disk . --size 900000000GiB", "free space"),
        ("disk . --fast", "--fast"),
        ("napkin", "millpond run napkin"),
        ("napkin --dir .", "--reference"),
        ("napkin --reference --dir nowhere", "no directory nowhere"),
        ("napkin --reference --dir file", "file"),
        ("napkin --reference --json no/such/file.json", "no/such"),
    ] {
        let complaint = scratch.refused(2, args);
        assert!(complaint.contains(word), "millpond {args} does not say {word:?}: {complaint}");
    }
    assert_eq!(scratch.names(), ["file"], "misuse leaves nothing behind");
}

#[test]
fn a_directory_that_cannot_be_written_is_one_sentence() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("disk-read-only");
    let dir = scratch.0.join("closed");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::create_dir(dir.join("probe")).is_ok() {
        println!("not run: this user may write everywhere");
        return;
    }
    for args in ["disk closed --quick", "napkin --reference --dir closed"] {
        assert!(scratch.refused(2, args).contains("cannot create closed/"), "{args}");
    }
}

/// A limit on file sizes stands for a disk that gets full while it is measured.
#[test]
fn a_disk_that_gets_full_is_one_sentence_and_leaves_nothing() {
    use std::process::{Command, Stdio};
    let scratch = Scratch::new("disk-full");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 2048; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_millpond")]);
    command.args(["disk", ".", "--size", "16MiB", "--seconds", "0.001"]);
    let out = command.current_dir(&scratch.0).stdin(Stdio::null()).output().unwrap();
    let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("smaller --size"), "{complaint}");
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn a_quick_run_measures_everything_and_leaves_nothing() {
    let scratch = Scratch::new("disk-quick");
    fs::create_dir(scratch.0.join("dir")).unwrap();
    let table = scratch.ok("disk dir --quick --seconds 0.005 --size 16MiB --json out.json");
    for part in ["file system", "random read   4K", "fdatasync", "16 threads", "innodb_io_capacity"] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    assert_eq!(scratch.names(), ["dir", "out.json"]);
    assert_eq!(fs::read_dir(scratch.0.join("dir")).unwrap().count(), 0);
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scratch.0.join("out.json")).unwrap()).unwrap();
    for key in [
        "version",
        "directory",
        "conditions",
        "machine",
        "disk",
        "transfers",
        "durable_writes",
        "flush",
        "cache",
        "consequences",
    ] {
        assert!(json.get(key).is_some(), "the JSON has no {key}");
    }
    let has = |object: &serde_json::Value, keys: &[&str]| {
        for key in keys {
            assert!(object.get(*key).is_some(), "no {key} in {object}");
        }
    };
    has(&json["conditions"], &["seconds_each", "file_bytes", "direct_io", "others"]);
    has(&json["disk"], &["file_system", "source", "mount_options", "memory", "device"]);
    has(&json["cache"], &["verdict", "sentence"]);
    has(&json["consequences"], &["commits_1_thread", "commits_16_threads", "random_reads", "random_writes"]);
    let (transfers, writes) =
        (json["transfers"].as_array().unwrap(), json["durable_writes"].as_array().unwrap());
    assert_eq!((transfers.len(), writes.len()), (48, 24));
    for one in transfers {
        has(one, &["order", "direction", "block_bytes", "in_flight", "mb_per_second"]);
        has(one, &["per_second", "p50_us", "p99_us"]);
        assert!(one["per_second"].as_f64().unwrap() > 0.0, "{one}");
    }
    for one in writes {
        has(one, &["place", "call", "threads", "files"]);
    }
}

#[test]
fn ctrl_c_removes_what_the_measurement_made() {
    Scratch::new("disk-interrupt").interrupted("disk . --size 16MiB --seconds 600");
}

#[test]
fn napkin_compares_each_row_and_leaves_nothing() {
    let scratch = Scratch::new("napkin-reference");
    fs::create_dir(scratch.0.join("dir")).unwrap();
    let table = scratch.ok("napkin --reference --dir dir --json out.json");
    assert!(table.contains("published") && table.contains("system call"), "{table}");
    assert_eq!(scratch.names(), ["dir", "out.json"]);
    assert_eq!(fs::read_dir(scratch.0.join("dir")).unwrap().count(), 0);
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scratch.0.join("out.json")).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 14);
    for row in rows {
        for key in ["what", "unit", "published", "here", "times_as_fast", "not_measured"] {
            assert!(row.get(key).is_some(), "no {key} in {row}");
        }
        assert!(row["not_measured"].is_string() || row["here"].as_f64().unwrap() > 0.0, "{row}");
    }
}
