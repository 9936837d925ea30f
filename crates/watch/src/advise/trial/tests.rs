//! Loads as scripts, and what is said of them.
//!
//! A script has a line for each figure: its name and its level in the four blocks. `transactions`
//! and `pages` are a second, `age` is in percent of the limit, `waits` are those for a free page a
//! second. `seconds N` is the length of a block, `noise N` by how many percent a second differs,
//! `stalls N` that every Nth second has no transaction, `sticky` that a slow second follows a slow
//! one.

use super::plan::Plan;
use super::proof::Proof;
use super::verdict::{Judgement, Verdict, judge};
use base::prng::Prng;
use expect_test::{Expect, expect};
use output::samples::ColumnKind::{Counter, Gauge};
use output::samples::{Samples, Values};

/// What a script says.
struct Load {
    seconds: usize,
    noise: f64,
    sticky: bool,
    stalls: Vec<usize>,
    levels: Vec<(&'static str, Vec<f64>)>,
}

/// The limit of the checkpoint age, and its soft limit.
const LIMIT: f64 = 1e9;
const SOFT: f64 = 0.875e9;

fn parse(script: &str) -> Load {
    let mut load = Load { seconds: 30, noise: 0.0, sticky: false, stalls: vec![0; 4], levels: Vec::new() };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap();
        let numbers: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        match word {
            "seconds" => load.seconds = numbers[0] as usize,
            "noise" => load.noise = numbers[0] / 100.0,
            "sticky" => load.sticky = true,
            "stalls" => load.stalls = numbers.iter().map(|n| *n as usize).collect(),
            "transactions" => load.levels.push(("commits", numbers)),
            "pages" => load.levels.push(("pages_written", numbers)),
            "waits" => load.levels.push(("free_frame_waits", numbers)),
            "age" => load.levels.push(("checkpoint_age_bytes", numbers)),
            other => panic!("{other}"),
        }
    }
    load
}

/// Makes the samples of a script.
fn blocks(script: &str, seed: u64) -> [Samples; 4] {
    let load = parse(script);
    let mut prng = Prng::new(seed);
    let mut counters = [1e9; 4];
    let mut wave = 0.0;
    [0, 1, 2, 3].map(|block| {
        let mut samples = Samples::new();
        for second in 0..=load.seconds {
            // Uniform, from -1 to 1; what is left of the second before makes it autocorrelated.
            let drawn = prng.below(2001) as f64 / 1000.0 - 1.0;
            wave = if load.sticky { 0.7 * wave + 0.7 * drawn } else { drawn };
            let noisy = |level: f64| level * (1.0 + load.noise * wave);
            let mut values: Values = Vec::new();
            for (at, (name, levels)) in load.levels.iter().enumerate() {
                let level = levels[block];
                if *name == "checkpoint_age_bytes" {
                    values.push(((*name).into(), "bytes", Gauge, level / 100.0 * LIMIT));
                    values.push(("checkpoint_age_limit".into(), "bytes", Gauge, LIMIT));
                    values.push(("checkpoint_age_soft".into(), "bytes", Gauge, SOFT));
                    continue;
                }
                let stalls = load.stalls[block];
                let stalled = *name == "commits" && stalls > 0 && second % stalls == 0;
                counters[at] += if stalled { 0.0 } else { noisy(level).max(0.0) };
                values.push(((*name).into(), "count", Counter, counters[at]));
            }
            samples.push(second as f64, values);
        }
        samples
    })
}

fn judged(script: &str) -> Judgement {
    judge(&blocks(script, 1), false)
}

/// Compares what is shown of a script.
fn check(script: &str, expected: &Expect) {
    let plan = Plan {
        rule: "log size",
        finding: "the redo log is too short".to_owned(),
        statements: vec!["SET GLOBAL innodb_log_file_size = 64*1024*1024".to_owned()],
        names: vec!["innodb_log_file_size".to_owned()],
        fewer_pages: false,
    };
    let undo = vec!["SET GLOBAL innodb_log_file_size = 10485760".to_owned()];
    let mut proof = Proof::new(&plan, undo, 30, judged(script));
    (proof.target, proof.version) = ("mysql://db/".to_owned(), "MariaDB 10.11.19".to_owned());
    expected.assert_eq(&proof.text("try"));
}

#[test]
fn a_longer_log_that_helps() {
    check(
        "noise 10
         transactions 1000 1300 1010 1310
         age 95 60 95 60
         waits 0 0 0 0
         pages 900 500 900 500",
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: log size, 4 blocks of 30 s

            do        SET GLOBAL innodb_log_file_size = 64*1024*1024
            undo      SET GLOBAL innodb_log_file_size = 10485760

                                              before   after  before   after      effect  chance
            transactions a second               1003    1303    1027    1306       +28 % <0.0001  better
            worst seconds                        936    1223     959    1231       +29 % <0.0001  better
            checkpoint age, % of the limit        95      60      95      60  -35 points <0.0001  (shown only)
            at the soft limit, % of the time     100     0.0     100     0.0 -100 points <0.0001  better
            waits for a free page a second       0.0     0.0     0.0     0.0        +0.0  1.0000
            pages written a second               902     501     915     498       -45 % <0.0001  (shown only)

            verdict   better: transactions a second +28 %; worst seconds +29 %; at the soft limit, % of the time
                      -100 points
            now       kept; try/undo.sql puts the old value back. After a restart the new one is gone unless it
                      is in the option file too
            files     try/proof.json; millpond plot try/*-* --out DIR
        "#]],
    );
}

#[test]
fn a_setting_without_an_effect_is_put_back() {
    check(
        "noise 20
         transactions 1000 1005 995 1000
         age 50 50 50 50",
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: log size, 4 blocks of 30 s

            do        SET GLOBAL innodb_log_file_size = 64*1024*1024
            undo      SET GLOBAL innodb_log_file_size = 10485760

                                              before   after  before   after      effect  chance
            transactions a second               1005    1010    1028     993        -2 %  0.3422
            worst seconds                        872     886     894     880        -0 %  0.5941
            checkpoint age, % of the limit        50      50      50      50   +0 points  1.0000  (shown only)
            at the soft limit, % of the time     0.0     0.0     0.0     0.0   +0 points  1.0000

            verdict   no difference: nothing changed with the setting, each time, by more than chance and by
                      enough to matter
            now       put back: the server has its old settings
            files     try/proof.json; millpond plot try/*-* --out DIR
        "#]],
    );
}

#[test]
fn more_transactions_do_not_outweigh_waits() {
    check(
        "noise 5
         transactions 1000 1200 1000 1200
         waits 0 9 0 9",
        &expect![[r#"
            mysql://db/, MariaDB 10.11.19: log size, 4 blocks of 30 s

            do        SET GLOBAL innodb_log_file_size = 64*1024*1024
            undo      SET GLOBAL innodb_log_file_size = 10485760

                                              before   after  before   after      effect  chance
            transactions a second               1001    1202    1008    1198       +19 % <0.0001  better
            worst seconds                        968    1164     975    1164       +20 % <0.0001  better
            waits for a free page a second       0.0     9.0     0.0     9.0        +9.0 <0.0001  worse

            verdict   worse: waits for a free page a second +9.0
            now       put back: the server has its old settings
            files     try/proof.json; millpond plot try/*-* --out DIR
        "#]],
    );
}

/// Two blocks alone would say that it is better: the load grew by itself.
#[test]
fn a_load_that_changes_by_itself_proves_nothing() {
    for transactions in ["1000 1200 1400 1600", "1000 1500 1500 1500", "1000 1000 1000 1500", "9 50 200 900"]
    {
        let script = format!("noise 5\n transactions {transactions}");
        assert_eq!(judged(&script).verdict, Verdict::NoDifference, "{transactions}");
    }
    // An effect on top of it is seen all the same.
    for (transactions, verdict) in [
        ("1000 1500 1200 1700", Verdict::Better),
        ("1700 1200 1500 1000", Verdict::Worse),
        ("1000 700 1200 900", Verdict::Worse),
    ] {
        assert_eq!(judged(&format!("noise 5\n transactions {transactions}")).verdict, verdict);
    }
}

#[test]
fn stalls_that_go_are_better_and_stalls_that_come_are_worse() {
    let script = |stalls: &str| format!("noise 5\n transactions 1000 1010 1000 1010\n stalls {stalls}");
    assert_eq!(judged(&script("5 0 5 0")).verdict, Verdict::Better);
    assert_eq!(judged(&script("0 5 0 5")).verdict, Verdict::Worse);
    let both = "noise 5\n transactions 1000 1400 1000 1400\n stalls 0 5 0 5";
    assert_eq!(judged(both).verdict, Verdict::Worse, "more on average, and seconds without any");
}

#[test]
fn a_small_effect_is_none_also_if_it_is_sure() {
    let judgement = judged("transactions 1000 1030 1000 1030");
    assert!(judgement.measures[0].p < 0.001, "{judgement:?}");
    assert_eq!(judgement.verdict, Verdict::NoDifference);
}

#[test]
fn the_age_alone_decides_nothing_but_its_soft_limit_does() {
    let of = |age: &str| judged(&format!("noise 5\n transactions 1000 1000 1000 1000\n age {age}")).verdict;
    assert_eq!(of("80 20 80 20"), Verdict::NoDifference, "a longer log always has a smaller share in use");
    assert_eq!(of("95 20 95 20"), Verdict::Better);
    assert_eq!(of("20 95 20 95"), Verdict::Worse);
}

#[test]
fn fewer_page_writes_count_where_they_are_the_aim() {
    let script = "noise 5\n transactions 1000 1000 1000 1000\n pages 900 450 900 450";
    assert_eq!(judged(script).verdict, Verdict::NoDifference);
    assert_eq!(judge(&blocks(script, 1), true).verdict, Verdict::Better);
}

#[test]
fn the_shortest_blocks_can_decide() {
    assert_eq!(judged("seconds 5\n transactions 1000 1300 1000 1300").verdict, Verdict::Better);
    assert_eq!(judged("seconds 1\n transactions 1000 1300 1000 1300").verdict, Verdict::NoDifference);
}

/// Loads whose seconds follow each other, and a setting that does nothing: the test may be wrong in
/// a few of many experiments.
#[test]
fn chance_is_rarely_taken_for_an_effect() {
    for (noise, sticky) in [(30, ""), (30, "sticky"), (60, "sticky")] {
        let script = format!("noise {noise}\n transactions 1000 1000 1000 1000\n {sticky}");
        let wrong =
            (0..150).filter(|seed| judge(&blocks(&script, *seed), false).verdict != Verdict::NoDifference);
        let wrong = wrong.count();
        assert!(wrong <= 3, "{wrong} of 150 with {script}");
    }
}
