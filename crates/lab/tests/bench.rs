//! The benchmarks of the program as processes: each one runs, and cleans up.

mod common;

use common::{Scratch, text};
use std::collections::BTreeSet;

/// Every benchmark, at a size that takes about a second.
const TINY: &[&str] = &[
    "after-kill --redo 1MiB,2MiB --warmup 0.3 --seconds 1 --within 600 --back 0.001 --threads 4 --tables 2 --rows 500 --pool 32MiB",
    "big-transaction --rows 2000",
    "bulk-load --rows 2000 --value-bytes 50",
    "burst --writers 2 --seconds 0.1 --rounds 1",
    "cold-scan --rows 3000 --rounds 1",
    "doublewrite --seconds 1 --warmup 0 --pairs 1 --threads 4 --tables 2 --rows 500 --pool 32MiB",
    "durable-updates --threads 1,2 --rounds 1 --seconds 0.05",
    "hogs --rounds 1 --seconds 0.1",
    "hot-rows --threads 2,4 --seconds 0.2",
    "hot-rows --threads 4 --seconds 0.2 --random-only",
    "laws --seconds 1 --warmup 0 --threads 4 --tables 2 --rows 500 --pool 32MiB --redo-capacity 16MiB",
    "io-bound --seconds 1 --warmup 0 --device-seconds 0.05 --threads 4 --tables 2 --rows 500 --pool 32MiB",
    "log-sizes --seconds 1 --warmup 0 --pairs 1 --threads 4 --tables 2 --rows 500 --pool 32MiB --sizes 16MiB --long 32MiB",
    "log-sizes --seconds 1 --warmup 0 --pairs 1 --threads 4 --tables 2 --rows 500 --pool 32MiB --recovery-target 5s --long 32MiB",
    "long-snapshot --seconds 0.3 --writers 2",
    "long-snapshot --seconds 0.3 --writers 1 --durable",
    "queue --seconds 1",
    #[cfg(feature = "watch")]
    "replay --hours 0.02",
    "replay-cost --redo 1MiB --rounds 2 --warmup 0.3 --threads 4 --tables 2 --rows 500 --pool 32MiB",
    "stalls --seconds 1 --warmup 0 --threads 4 --tables 2 --rows 500 --great 2000 --pool 32MiB --log 16MiB",
    "tables --tables 7",
    "writing-threads --seconds 1",
    "writing-threads --seconds 1 --checkpoints",
];

/// The names in the list, and the line of each.
fn listed(scratch: &Scratch) -> Vec<(String, String)> {
    let list = scratch.ok("bench");
    let lines = list.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    lines.map(|(name, about)| (name.to_owned(), about.trim().to_owned())).collect()
}

#[test]
fn the_list_is_of_every_benchmark() {
    let scratch = Scratch::new("bench-list");
    let names: BTreeSet<String> = listed(&scratch).into_iter().map(|(name, _)| name).collect();
    let run: BTreeSet<String> =
        TINY.iter().filter_map(|args| args.split(' ').next()).map(str::to_owned).collect();
    assert_eq!(names, run, "the list of the program, and what the tests run");
}

/// Most of their time they wait, so the two halves of the list run beside each other.
fn every_second_runs_at_a_tiny_size_and_leaves_nothing(first: usize) {
    let scratch = Scratch::new(&format!("bench-{first}"));
    for args in TINY.iter().skip(first).step_by(2) {
        let out = scratch.millpond(&format!("bench {args}"));
        let complaint = text(&out.stderr);
        // Where the directory is in memory, the kernel counts no writes.
        let uncounted = args.starts_with("writing-threads") && complaint.contains("on a device?");
        assert!(uncounted || out.status.code() == Some(0), "millpond bench {args}: {complaint}");
        assert!(!out.stdout.is_empty(), "millpond bench {args} prints what it measured");
        assert_eq!(scratch.names(), Vec::<String>::new(), "millpond bench {args} removes its directory");
    }
}

#[test]
fn every_benchmark_runs_at_a_tiny_size_and_leaves_nothing() {
    every_second_runs_at_a_tiny_size_and_leaves_nothing(0);
}

#[test]
fn every_other_benchmark_runs_at_a_tiny_size_and_leaves_nothing() {
    every_second_runs_at_a_tiny_size_and_leaves_nothing(1);
}

#[test]
fn every_benchmark_and_flag_has_a_line_of_help() {
    let scratch = Scratch::new("bench-help");
    for (name, about) in listed(&scratch) {
        assert!(about.len() > 20 && !about.ends_with('.'), "{name}: {about}");
        let help = scratch.ok(&format!("bench {name} --help"));
        assert!(help.starts_with(&about), "{help}");
        let flags: Vec<&str> = help.lines().filter(|line| line.trim_start().starts_with("--")).collect();
        assert!(!flags.is_empty(), "{help}");
        for line in flags {
            let sentence = line.split_once(" [default: ").map_or(line, |(sentence, _)| sentence);
            let text = sentence.trim().split_once("  ").map_or("", |(_, text)| text.trim());
            let has_default = !line.contains('<') || line.contains("[default: ");
            assert!(text.len() > 3 && has_default, "millpond bench {name} --help: {line}");
        }
        assert!(help.lines().count() > 8, "the help says what is measured: {help}");
    }
}

#[test]
fn a_wrong_benchmark_or_flag_is_one_sentence_and_status_2() {
    let scratch = Scratch::new("bench-misuse");
    for (args, word) in [
        ("fly", "fly"),
        ("hot_row", "hot_row"),
        ("hot-rows --wings 2", "--wings"),
        ("hot-rows --threads 4,many", "many"),
        ("hot-rows --threads 0", "--threads"),
        ("hot-rows --seconds 0", "--seconds"),
        ("after-kill --redo 1MiB,0", "--redo"),
        ("replay-cost --redo 0", "--redo"),
        ("after-kill --back 1.5", "--back"),
        ("after-kill --within 0", "--within"),
        ("after-kill --warmup 4000", "--warmup"),
        ("doublewrite --workload napkin", "--workload"),
        ("doublewrite --seconds 0", "--seconds"),
        ("io-bound --seconds 0.5", "--seconds"),
        ("log-sizes --seconds 0.5", "--seconds"),
        ("log-sizes --recovery-target 0s", "--recovery-target"),
        ("log-sizes --recovery-target 5", "500ms"),
        ("queue --seconds soon", "soon"),
        ("queue 10", "10"),
        ("laws --seconds 0", "--seconds"),
        ("laws --server oracle", "oracle"),
        ("laws --io-capacity 5000 --io-capacity-max 4000", "--io-capacity-max 4000"),
        ("laws --report no/such/report", "no/such"),
        ("long-snapshot --durable yes", "yes"),
        ("tables --tables 0", "--tables"),
        ("bulk-load --value-bytes 1000000", "--value-bytes"),
        ("cold-scan --value-bytes 5000", "--value-bytes"),
    ] {
        let complaint = scratch.refused(2, &format!("bench {args}"));
        assert!(complaint.contains(word), "millpond bench {args} does not name {word:?}: {complaint}");
    }
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn a_rate_that_does_not_come_back_in_time_fails() {
    let scratch = Scratch::new("bench-after-kill");
    // The time ends before a second does, so no second has the rate.
    let out = scratch.millpond(
        "bench after-kill --redo 1MiB --warmup 0.1 --within 0.5 --threads 2 --tables 1 --rows 500 --pool 32MiB",
    );
    let complaint = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("within 0.5 s after: 1 MiB"), "{complaint}");
    assert!(text(&out.stdout).contains("recovered"), "the table is printed all the same");
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn the_report_of_both_laws_is_a_page_and_a_plot() {
    let scratch = Scratch::new("bench-laws");
    let out = scratch.ok(
        "bench laws --seconds 2 --warmup 0 --threads 4 --tables 2 --rows 500 --pool 32MiB --redo-capacity 16MiB \
         --server mysql --io-capacity 300 --report out",
    );
    assert_eq!(scratch.names(), ["out"]);
    let read = |name: &str| std::fs::read_to_string(scratch.0.join("out").join(name)).unwrap();
    let (page, plot) = (read("index.html"), read("laws.svg"));
    let innodb = "InnoDB's, mysql, io_capacity 300, io_capacity_max 2000";
    for word in ["Millpond's", innodb, "worst of the median", "stops", "delayed or stopped"] {
        let escaped = word.replace('\'', "&#39;");
        assert!(out.contains(word) && page.contains(&escaped), "{word}: {out}");
    }
    assert!(plot.contains("InnoDB&#39;s, mysql") && page.contains("laws.svg"), "{plot}");
    // A second report replaces the first.
    scratch.ok("bench laws --seconds 1 --warmup 0 --threads 1 --tables 1 --rows 50 --report out");
    assert!(!read("index.html").contains("mysql"));
}

#[test]
fn ctrl_c_ends_a_benchmark_at_once_and_removes_what_it_made() {
    Scratch::new("bench-interrupt").interrupted("bench queue --seconds 600");
    // Its child process makes the files.
    Scratch::new("bench-interrupt-child").interrupted("bench after-kill --redo 100GiB");
}
