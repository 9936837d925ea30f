//! What is written comes back.

use super::directory::segments;
use super::reader::{Part, read};
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

fn all(scratch: &Scratch) -> Part {
    read(&scratch.0, f64::NEG_INFINITY, f64::INFINITY, &|_, _| true).unwrap()
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
    let archive = all(&scratch).archive;
    assert_eq!((archive.samples.seconds.len(), archive.events.len()), (620, 1));
    assert_eq!(archive.samples.growth("commits"), 619.0, "also over the begin of a segment");
    let some = read(&scratch.0, 1195.0, 1204.0, &|_, _| true).unwrap().archive;
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
    let archive = all(&scratch).archive;
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
    let samples = || all(&scratch).archive.samples.seconds.len();
    assert_eq!(samples(), 5);
    ring(&scratch.0, LIMITS).end().unwrap();
    assert_eq!((samples(), segments(&scratch.0).unwrap().len()), (5, 1));
}

/// Records three segments, damages the second in some way, and reads all.
fn with_a_damaged_segment(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Part {
    let scratch = Scratch::new(name);
    let mut ring = ring(&scratch.0, LIMITS);
    record(&mut ring, 1200..2405);
    ring.end().unwrap();
    let path = scratch.0.join("0000001800.jsonl.gz");
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let why = read(&scratch.0, 2399.0, 2399.0, &|_, _| true).unwrap_err().to_string();
    assert!(why.starts_with("nothing of that time can be read: "), "{why}");
    let mut part = all(&scratch);
    for said in &mut part.missing {
        *said = said.replace(&format!("{}/", scratch.0.display()), "");
    }
    part
}

/// It made the whole recording unreadable.
#[test]
fn a_segment_that_is_cut_off_gives_the_lines_before_its_end() {
    let Part { archive, missing } =
        with_a_damaged_segment("ring-cut-off", |bytes| bytes.truncate(bytes.len() / 2));
    let seconds = &archive.samples.seconds;
    let last = seconds[..seconds.len() - 5].last().copied().unwrap();
    assert!((1810.0..2390.0).contains(&last), "{last}");
    assert_eq!(seconds.len(), last as usize - 1200 + 1 + 5, "all before, and the next segment");
    assert_eq!(archive.events[0].1, "gap");
    let minutes = (last as u64 - 1200) / 60 + 20;
    let begin = format!("1970-01-01T00:{minutes}:{:02}Z", last as u64 % 60);
    assert_eq!(
        missing,
        [format!(
            "0000001800.jsonl.gz is damaged (it is cut off): what it has from {begin} until \
             1970-01-01T00:40:00Z is left out"
        )]
    );
}

/// What a changed bit does shows only later, or in the sum at the end: nothing of it is sure.
#[test]
fn of_a_segment_with_a_changed_bit_nothing_is_kept() {
    for place in [0.1, 0.5, 0.9, 1.0] {
        let Part { archive, missing } = with_a_damaged_segment("ring-bit", |bytes| {
            let at = (bytes.len() as f64 * place) as usize - if place < 1.0 { 0 } else { 6 };
            bytes[at] ^= 16;
        });
        assert_eq!(archive.samples.seconds.len(), 605, "{place}: {missing:?}");
        assert_eq!(archive.samples.end(), 2404.0);
        let [said] = missing.as_slice() else { panic!("{missing:?}") };
        assert!(said.starts_with("0000001800.jsonl.gz is damaged ("), "{said}");
        let time = "what it has from 1970-01-01T00:30:00Z until 1970-01-01T00:40:00Z is left out";
        assert!(said.ends_with(time), "{said}");
    }
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
