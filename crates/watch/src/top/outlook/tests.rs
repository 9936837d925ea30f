//! Scripts of figures, and loads that were recorded.

use super::*;
use crate::sources::Sample;
use expect_test::expect;
use output::samples::ColumnKind::Gauge;
use std::fmt::Write;

/// What a server or a database tells at one second.
fn sample(second: u64, figures: &[(&str, f64)]) -> Sample {
    let values = figures.iter().map(|(name, value)| ((*name).to_owned(), "", Gauge, *value));
    Sample::new(second * 1_000_000, values.collect())
}

/// Feeds samples, and returns what is said after each.
fn said(samples: &[Sample]) -> Vec<(Urgency, String)> {
    let (mut outlook, mut before) = (Outlook::default(), None);
    samples
        .iter()
        .map(|sample| {
            outlook.take(&Reading::new(sample.clone(), before));
            before = Some(sample);
            outlook.first()
        })
        .collect()
}

/// Shows what is said, with the seconds for which it is.
fn script(samples: &[Sample]) -> String {
    let mut out = String::new();
    let said = said(samples);
    let mut from = 0;
    for (i, one) in said.iter().enumerate() {
        if said.get(i + 1) != Some(one) {
            let _ = writeln!(out, "{from:<3} to {i:<3} s  {:?}: {}", one.0, one.1);
            from = i + 1;
        }
    }
    out
}

const LIMITS: [(&str, f64); 2] = [("checkpoint_age_limit", 1000.0), ("checkpoint_age_soft", 875.0)];
const NO_WAITS: [(&str, f64); 4] =
    [("free_frame_waits", 0.0), ("log_buffer_waits", 0.0), ("lock_waits", 0.0), ("lock_waiters", 0.0)];

/// A server whose age is this in each second, and which has more figures in some.
fn server(ages: &[f64], more: &[(u64, &str, f64)]) -> Vec<Sample> {
    let at = |(second, age): (usize, &f64)| {
        let second = second as u64;
        let mut figures = vec![("checkpoint_age_bytes", *age)];
        figures.extend(LIMITS);
        figures.extend(NO_WAITS);
        for (from, name, value) in more.iter().filter(|(from, _, _)| *from <= second) {
            let _ = from;
            figures.retain(|figure| figure.0 != *name);
            figures.push((name, *value));
        }
        sample(second, &figures)
    };
    ages.iter().enumerate().map(at).collect()
}

#[test]
fn a_forecast_needs_a_steady_rise_below_the_soft_limit_and_is_none_above_it() {
    let rising: Vec<f64> = (0..12).map(|i| 500.0 + 40.0 * f64::from(i)).collect();
    expect![[r#"
        0   to 6   s  Calm: nothing waits
        7   to 7   s  Notable: InnoDB will flush with full force in 2 s: the age has grown by 40 B/s for 7 s
        8   to 8   s  Notable: InnoDB will flush with full force in 1 s: the age has grown by 40 B/s for 8 s
        9   to 9   s  Notable: InnoDB will flush with full force in 1 s: the age has grown by 40 B/s for 9 s
        10  to 10  s  Notable: the checkpoint age is at its soft limit or above, 90 % of the limit; InnoDB flushes with full force
        11  to 11  s  Notable: the checkpoint age is at its soft limit or above, 94 % of the limit; InnoDB flushes with full force
    "#]].assert_eq(&script(&server(&rising, &[])));
    // It grows by 1 byte in a second, and by nothing in others.
    let slow: Vec<f64> = (0..12).map(|i| 860.0 + f64::from(i / 4)).collect();
    expect![[r#"
        0   to 11  s  Calm: nothing waits
    "#]]
    .assert_eq(&script(&server(&slow, &[])));
    // InnoDB's checkpoint moves in steps.
    let saw: Vec<f64> = (0..24).map(|i| 600.0 + 60.0 * f64::from(i % 4)).collect();
    expect![[r#"
        0   to 23  s  Calm: nothing waits
    "#]]
    .assert_eq(&script(&server(&saw, &[])));
}

#[test]
fn writers_wait_only_if_a_counter_says_so() {
    let high = [990.0; 8];
    expect![[r#"
        0   to 7   s  Notable: the checkpoint age is at its soft limit or above, 99 % of the limit; InnoDB flushes with full force
    "#]].assert_eq(&script(&server(&high, &[(0, "hard_waits", 7.0)])));
    expect![[r#"
        0   to 2   s  Notable: the checkpoint age is at its soft limit or above, 99 % of the limit; InnoDB flushes with full force
        3   to 3   s  Alarm: writers waited at the limit of the checkpoint age 2 times in the last 3 s
        4   to 4   s  Alarm: writers waited at the limit of the checkpoint age 2 times in the last 4 s
        5   to 7   s  Alarm: writers waited at the limit of the checkpoint age 2 times in the last 5 s
    "#]].assert_eq(&script(&server(&high, &[(0, "hard_waits", 7.0), (3, "hard_waits", 9.0)])));
    let at_limit =
        [700.0, 1000.0, 1001.0, 1000.0, 1000.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0];
    expect![[r#"
        0   to 0   s  Calm: nothing waits
        1   to 2   s  Notable: the checkpoint age is at its soft limit or above, 100 % of the limit; InnoDB flushes with full force
        3   to 4   s  Alarm: the checkpoint age was at its limit in the last 5 s, 100 % now; whether writers wait is not counted
        5   to 10  s  Alarm: the checkpoint age was at its limit in the last 5 s, 60 % now; whether writers wait is not counted
        11  to 12  s  Calm: nothing waits
    "#]].assert_eq(&script(&server(&at_limit, &[])));
}

#[test]
fn waits_are_said_for_as_long_as_they_are_in_the_window() {
    let low = [100.0; 12];
    let more = [
        (2, "free_frame_waits", 4.0),
        (3, "lock_waits", 3.0),
        (9, "lock_waiters", 2.0),
        (10, "lock_waiters", 0.0),
    ];
    expect![[r#"
        0   to 1   s  Calm: nothing waits
        2   to 2   s  Alarm: threads waited for a free page 4 times in the last 2 s
        3   to 3   s  Alarm: threads waited for a free page 4 times in the last 3 s
        4   to 4   s  Alarm: threads waited for a free page 4 times in the last 4 s
        5   to 6   s  Alarm: threads waited for a free page 4 times in the last 5 s
        7   to 7   s  Notable: transactions waited for row locks 3 times in the last 5 s
        8   to 8   s  Calm: nothing waits
        9   to 9   s  Notable: 2 transactions wait for row locks
        10  to 11  s  Calm: nothing waits
    "#]]
    .assert_eq(&script(&server(&low, &more)));
    let buffer = [(1, "log_buffer_waits", 1.0)];
    expect![[r#"
        0   to 0   s  Calm: nothing waits
        1   to 1   s  Alarm: threads waited for room in the log buffer once in the last 1 s
        2   to 2   s  Alarm: threads waited for room in the log buffer once in the last 2 s
        3   to 3   s  Alarm: threads waited for room in the log buffer once in the last 3 s
        4   to 4   s  Alarm: threads waited for room in the log buffer once in the last 4 s
        5   to 5   s  Alarm: threads waited for room in the log buffer once in the last 5 s
        6   to 11  s  Calm: nothing waits
    "#]]
    .assert_eq(&script(&server(&low, &buffer)));
}

/// A server without InnoDB was said to be well, in green.
#[test]
fn what_is_not_known_is_not_said_to_be_well() {
    let none = sample(1, &[("commits", 5.0)]);
    let some = sample(1, &[("checkpoint_age_bytes", 1.0), LIMITS[0], LIMITS[1], ("lock_waits", 0.0)]);
    let mut out = String::new();
    for one in [none, some] {
        let (urgency, text) = said(&[one]).remove(0);
        let _ = writeln!(out, "{urgency:?}: {text}");
    }
    let (urgency, text) = Outlook::default().first();
    let _ = writeln!(out, "{urgency:?}: {text}");
    expect![[r#"
        Unknown: whether anything waits is not known: the target has no such figures
        Unknown: nothing is known to wait; not known: waits for pages, waits for the log buffer
        Unknown: waiting for the first sample
    "#]]
    .assert_eq(&out);
}

#[test]
fn millpond_delays_writers_from_the_soft_limit_on() {
    let ages = [700.0, 880.0, 890.0, 880.0, 880.0, 880.0, 880.0, 880.0, 880.0, 880.0];
    let mut more = vec![(0, "throttled_us_total", 0.0)];
    more.extend((1..4).map(|second| (second, "throttled_us_total", 2500.0 * second as f64)));
    expect![[r#"
        0   to 0   s  Calm: nothing waits
        1   to 1   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 2.5 ms a second
        2   to 2   s  Notable: the checkpoint age is at its soft limit or above, 89 % of the limit; writers are delayed, 2.5 ms a second
        3   to 3   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 2.5 ms a second
        4   to 4   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 1.9 ms a second
        5   to 5   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 1.5 ms a second
        6   to 6   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 1.0 ms a second
        7   to 7   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; writers are delayed, 500 µs a second
        8   to 9   s  Notable: the checkpoint age is at its soft limit or above, 88 % of the limit; no writer is delayed now
    "#]].assert_eq(&script(&server(&ages, &more)));
}

#[test]
fn a_restart_begins_anew() {
    let mut samples = server(&[990.0; 4], &[(0, "uptime_seconds", 50.0)]);
    let mut after = server(&[10.0; 6], &[(0, "uptime_seconds", 1.0)]).split_off(4);
    samples.append(&mut after);
    let said = said(&samples);
    assert_eq!((said[3].0, said[4].0), (Urgency::Notable, Urgency::Calm));
}

/// Reads a recorded load.
fn recorded(text: &str) -> Vec<Sample> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<f64>>();
    let limits = numbers(lines.next().unwrap());
    let mut waits = 0.0;
    let at = |(second, line): (usize, &str)| {
        let numbers = numbers(line);
        waits = numbers.get(1).copied().unwrap_or(waits);
        let mut figures = vec![
            ("checkpoint_age_bytes", numbers[0]),
            ("checkpoint_age_soft", limits[0]),
            ("checkpoint_age_limit", limits[1]),
            ("hard_waits", waits),
        ];
        figures.extend(NO_WAITS);
        sample(second as u64, &figures)
    };
    lines.enumerate().map(at).collect()
}

const RECORDED: [(&str, &str); 6] = [
    ("updates", include_str!("recorded/updates.txt")),
    ("inserts", include_str!("recorded/inserts.txt")),
    ("waits", include_str!("recorded/waits.txt")),
    ("rise", include_str!("recorded/rise.txt")),
    ("bursts", include_str!("recorded/bursts.txt")),
    ("millpond", include_str!("recorded/millpond.txt")),
];

/// How right the rule was about a load.
#[derive(Debug, Default, PartialEq)]
struct Precision {
    seconds: usize,
    /// How often the colour changed.
    changes: usize,
    /// Forecasts after which the age reached its soft limit, by twice the time that was said.
    right: usize,
    wrong: usize,
    /// Times that the age reached its soft limit, and those of them that were not foretold.
    reached: usize,
    unforetold: usize,
    /// Seconds in which the age was said to stand at its limit, and in how many of them and of the
    /// four before it was there, at least.
    at_limit: usize,
}

fn precision(samples: &[Sample]) -> Precision {
    let (mut outlook, mut before) = (Outlook::default(), None::<&Sample>);
    let mut found = Precision { seconds: samples.len(), ..Precision::default() };
    let share = |sample: &Sample| {
        sample.get("checkpoint_age_bytes").unwrap() / sample.get("checkpoint_age_soft").unwrap()
    };
    let (mut urgency, mut foretold, mut was_above, mut recently) = (None, false, false, 0_usize);
    for (i, sample) in samples.iter().enumerate() {
        outlook.take(&Reading::new(sample.clone(), before));
        before = Some(sample);
        let (now, text) = outlook.first();
        found.changes += usize::from(urgency.is_some_and(|urgency| urgency != now));
        urgency = Some(now);
        if let (Some(left), false) = (outlook.seconds_left(), foretold) {
            let by = (i + 2 * (left.ceil() as usize).max(3)).min(samples.len() - 1);
            let came = samples[i..=by].iter().any(|later| share(later) >= 1.0);
            (found.right, found.wrong) = (found.right + usize::from(came), found.wrong + usize::from(!came));
        }
        foretold = outlook.seconds_left().is_some();
        recently = if foretold { 5 } else { recently.saturating_sub(1) };
        let above = share(sample) >= 1.0;
        if above && !was_above && i > 0 {
            found.reached += 1;
            found.unforetold += usize::from(recently == 0);
        }
        // As the rule has it: a saw around the soft limit does not reach it each time.
        was_above = above || (was_above && share(sample) >= BELOW_SOFT);
        found.at_limit += usize::from(text.contains("was at its limit"));
    }
    found
}

/// The rule before this one changed its colour 77 times over these loads, 26 times in `updates`
/// alone, and 11 of its 26 forecasts of waiting writers did not come true within twice their time.
#[test]
fn how_right_it_was_about_loads_that_were_recorded() {
    let mut out = String::new();
    let (mut right, mut wrong) = (0, 0);
    for (name, text) in RECORDED {
        let found = precision(&recorded(text));
        (right, wrong) = (right + found.right, wrong + found.wrong);
        let Precision { seconds, changes, reached, unforetold, at_limit, .. } = found;
        let _ = writeln!(
            out,
            "{name:8} {seconds} s: {changes} changes of colour; forecasts: {} right, {} wrong; soft limit reached \
             {reached} times, {unforetold} not foretold; at the limit: {at_limit} s",
            found.right, found.wrong
        );
    }
    let _ = writeln!(out, "of all forecasts {right} were right and {wrong} wrong");
    expect![[r#"
        updates  60 s: 0 changes of colour; forecasts: 0 right, 0 wrong; soft limit reached 0 times, 0 not foretold; at the limit: 0 s
        inserts  50 s: 1 changes of colour; forecasts: 0 right, 0 wrong; soft limit reached 2 times, 2 not foretold; at the limit: 0 s
        waits    42 s: 4 changes of colour; forecasts: 0 right, 0 wrong; soft limit reached 1 times, 1 not foretold; at the limit: 31 s
        rise     60 s: 1 changes of colour; forecasts: 1 right, 0 wrong; soft limit reached 1 times, 0 not foretold; at the limit: 0 s
        bursts   75 s: 0 changes of colour; forecasts: 0 right, 0 wrong; soft limit reached 0 times, 0 not foretold; at the limit: 0 s
        millpond 45 s: 0 changes of colour; forecasts: 0 right, 0 wrong; soft limit reached 0 times, 0 not foretold; at the limit: 0 s
        of all forecasts 1 were right and 0 wrong
    "#]].assert_eq(&out);
}

#[test]
fn what_is_said_of_loads_that_were_recorded() {
    let script_of = |name: &str| {
        let text = RECORDED.iter().find(|(known, _)| *known == name).unwrap().1;
        let mut out = String::new();
        let mut from = 0;
        let said = said(&recorded(text));
        // Percent and bytes change with each second.
        let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        for (i, one) in said.iter().enumerate() {
            if said.get(i + 1).is_none_or(|next| words(&next.1) != words(&one.1)) {
                let _ = writeln!(out, "{from:<3} to {i:<3} s  {:?}: {}", one.0, one.1);
                from = i + 1;
            }
        }
        out
    };
    expect![[r#"
        0   to 39  s  Calm: nothing waits
        40  to 52  s  Notable: InnoDB will flush with full force in 1 s: the age has grown by 1.9 MiB/s for 45 s
        53  to 59  s  Notable: the checkpoint age is at its soft limit or above, 4 % of the limit; InnoDB flushes with full force
    "#]].assert_eq(&script_of("rise"));
    expect![[r#"
        0   to 0   s  Calm: nothing waits
        1   to 9   s  Notable: the checkpoint age is at its soft limit or above, 96 % of the limit; InnoDB flushes with full force
        10  to 18  s  Alarm: the checkpoint age was at its limit in the last 5 s, 100 % now; the server counts no waits there
        19  to 19  s  Notable: the checkpoint age is at its soft limit or above, 100 % of the limit; InnoDB flushes with full force
        20  to 41  s  Alarm: the checkpoint age was at its limit in the last 5 s, 88 % now; the server counts no waits there
    "#]].assert_eq(&script_of("waits"));
}
