//! What is written comes back.

use super::directory::segments;
use super::reader::read;
use super::ring::Ring;
use super::segments::Limits;
use crate::collect::{Head, Sink};
use crate::scratch::Scratch;
use crate::sources::About;
use output::failure::Failure;
use output::samples::ColumnKind::Counter;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMITS: Limits = Limits { bytes: 1 << 20, age: Duration::from_secs(86_400) };
const S: u64 = 1_000_000;

fn head() -> Head {
    Head::new(&About {
        target: "mysql://db/".into(),
        version: "MariaDB 10.11.19".into(),
        configuration: Vec::new(),
        origins: Vec::new(),
        refusals: Vec::new(),
    })
}

fn ring(dir: &Path, limits: Limits) -> Ring {
    Ring::begin(Ring::claim(dir, "mysql://db/").unwrap(), head(), limits).unwrap()
}

fn record(ring: &mut Ring, seconds: impl Iterator<Item = u64>) {
    for second in seconds {
        let values = vec![("commits".to_owned(), "count", Counter, second as f64)];
        ring.sample(second * S, None, values).unwrap();
    }
}

#[test]
fn segments_follow_each_other_and_come_back_as_one() {
    let scratch = Scratch::new("ring");
    let mut ring = ring(&scratch.0, LIMITS);
    record(&mut ring, 1190..1810);
    ring.event(1810 * S, "gone", "no answer").unwrap();
    let names: Vec<String> =
        segments(&scratch.0).unwrap().into_iter().map(|segment| segment.name()).collect();
    assert_eq!(names, ["0000001190.jsonl.gz", "0000001200.jsonl.gz", "0000001800.jsonl"]);
    let archive = read(&scratch.0, f64::NEG_INFINITY, f64::INFINITY, &|_, _| true).unwrap();
    assert_eq!((archive.samples.seconds.len(), archive.events.len()), (620, 1));
    assert_eq!(archive.samples.growth("commits"), 619.0, "also over the begin of a segment");
    let some = read(&scratch.0, 1195.0, 1204.0, &|_, _| true).unwrap();
    assert_eq!((some.samples.seconds[0], some.samples.end()), (1195.0, 1204.0));
    assert!(some.events.is_empty());
}

#[test]
fn a_killed_recorder_has_lost_nothing_and_the_next_goes_on() {
    let scratch = Scratch::new("ring-killed");
    let mut first = ring(&scratch.0, LIMITS);
    record(&mut first, 1200..1205);
    // As a kill does: nothing is completed.
    drop(first);
    let mut second = ring(&scratch.0, LIMITS);
    record(&mut second, 1204..1210);
    second.end().unwrap();
    let archive = read(&scratch.0, 0.0, f64::INFINITY, &|_, _| true).unwrap();
    assert_eq!(archive.samples.seconds.len(), 11);
    assert!(segments(&scratch.0).unwrap().iter().all(|segment| segment.complete));
}

/// Such a file made the whole recording unreadable, and the next recorder compressed it.
#[test]
fn a_segment_without_a_first_line_is_passed_over_and_goes() {
    let scratch = Scratch::new("ring-empty");
    let mut first = ring(&scratch.0, LIMITS);
    record(&mut first, 1200..1205);
    drop(first);
    fs::write(scratch.0.join("0000001800.jsonl"), "").unwrap();
    let samples = || read(&scratch.0, 0.0, f64::INFINITY, &|_, _| true).unwrap().samples.seconds.len();
    assert_eq!(samples(), 5);
    ring(&scratch.0, LIMITS).end().unwrap();
    assert_eq!((samples(), segments(&scratch.0).unwrap().len()), (5, 1));
}

#[test]
fn the_oldest_segments_are_deleted() {
    let scratch = Scratch::new("ring-trim");
    let mut ring = ring(&scratch.0, Limits { bytes: 1, ..LIMITS });
    record(&mut ring, (600..6000).step_by(100));
    let left = segments(&scratch.0).unwrap();
    assert_eq!(left.len(), 2, "the newest complete one, and the one that is written: {left:?}");
}

#[test]
fn other_directories_are_refused() {
    let scratch = Scratch::new("ring-foreign");
    fs::write(scratch.0.join("own"), "x").unwrap();
    assert!(matches!(Ring::claim(&scratch.0, "mysql://db/"), Err(Failure::Misuse(_))));
    let empty = scratch.0.join("empty");
    let held = Ring::claim(&empty, "mysql://db/").unwrap();
    let Err(busy) = Ring::claim(&empty, "mysql://db/") else { panic!() };
    assert!(busy.to_string().contains("another `millpond record` writes"), "{busy}");
    drop(held);
    let Err(other) = Ring::claim(&empty, "mysql://other/") else { panic!() };
    assert!(other.to_string().contains("the recording of mysql://db/"), "{other}");
    assert!(Ring::claim(&empty, "mysql://db/").is_ok());
}
