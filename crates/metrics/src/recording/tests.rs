//! A recording is written, cut, damaged and read.

use super::cells::tests::busy;
use super::layout::{CHUNK_BYTES, HEAD_BYTES};
use super::*;
use crate::{Latency, M, Metrics};

const DB: u64 = 42;

/// A recording in memory, with its writer.
struct Tape {
    bytes: Vec<u8>,
    writer: Writer,
    clock_us: u64,
}

impl Tape {
    fn new(chunks: u32) -> Tape {
        let (bytes, writer) = Writer::create(DB, chunks);
        Tape { bytes, writer, clock_us: 5_000_000 }
    }

    /// Takes a sample a second after the one before.
    fn sample(&mut self, metrics: &Metrics) {
        self.clock_us += 1_000_000;
        let when =
            Moment { clock_us: self.clock_us, unix_seconds: 1_700_000_000 + self.clock_us / 1_000_000 };
        let piece = self.writer.sample(when, &metrics.snapshot());
        let (at, end) = (piece.offset as usize, piece.offset as usize + piece.bytes.len());
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(&piece.bytes);
    }

    fn resume(&mut self) {
        let bytes = &self.bytes;
        let read = |offset: u64, length: usize| {
            let at = (offset as usize).min(bytes.len());
            bytes[at..(at + length).min(bytes.len())].to_vec()
        };
        self.writer = Writer::resume(DB, read).unwrap();
    }

    fn samples(&self) -> Vec<Sample> {
        Recording::new(self.bytes.clone()).unwrap().samples().collect()
    }

    fn commits(&self) -> Vec<u64> {
        self.samples().iter().map(|sample| sample.metrics.value(M::Commits)).collect()
    }
}

#[test]
fn samples_come_back_with_their_times() {
    let (mut tape, metrics) = (Tape::new(4), busy());
    let mut expected = Vec::new();
    for n in 0..5 {
        metrics.add(M::Commits, n);
        metrics.time(Latency::Commit, 100 * n);
        expected.push(metrics.snapshot());
        tape.sample(&metrics);
    }
    let samples = tape.samples();
    let metrics: Vec<_> = samples.iter().map(|sample| sample.metrics.clone()).collect();
    assert_eq!(metrics, expected);
    assert_eq!(samples[0].unix_us, 1_700_000_006_000_000);
    assert!(samples.windows(2).all(|pair| pair[1].unix_us - pair[0].unix_us == 1_000_000));
    assert!(samples.iter().all(|sample| sample.session == 0 && !sample.after_gap));
}

#[test]
fn a_second_under_load_takes_a_few_hundred_bytes() {
    let (mut tape, metrics) = (Tape::new(4), busy());
    tape.sample(&metrics);
    let before = tape.bytes.len();
    let mut random = base::prng::Prng::new(1);
    for _ in 0..100 {
        for &metric in &M::ALL[..60] {
            metrics.add(metric, 1000 + random.below(9000));
        }
        (0..300).for_each(|_| metrics.time(Latency::Commit, 100 + random.below(400)));
        tape.sample(&metrics);
    }
    let each = (tape.bytes.len() - before) / 100;
    assert!((100..400).contains(&each), "{each} bytes");
}

#[test]
fn the_oldest_chunk_is_overwritten_and_its_remains_are_not_read() {
    let (mut tape, metrics) = (Tape::new(3), Metrics::new());
    let mut random = base::prng::Prng::new(7);
    for _ in 0..3000 {
        metrics.add(M::Commits, 1);
        for &metric in &M::ALL[1..60] {
            metrics.set(metric, random.next_u64());
        }
        tape.sample(&metrics);
    }
    assert!(tape.bytes.len() as u64 <= Writer::length(3));
    let commits = tape.commits();
    assert_eq!(commits.last(), Some(&3000));
    assert!(commits.len() > 500 && commits[0] > 1);
    assert!(commits.windows(2).all(|pair| pair[1] == pair[0] + 1), "{commits:?}");
    assert!(tape.samples().iter().all(|sample| sample.session == 0 && !sample.after_gap));
}

#[test]
fn the_newest_samples_are_read_without_the_oldest() {
    let (mut tape, metrics) = (Tape::new(4), busy());
    tape.sample(&metrics);
    let newest = |tape: &Tape| -> Vec<Sample> {
        Recording::new(tape.bytes.clone()).unwrap().newest_samples().collect()
    };
    assert_eq!(newest(&tape).len(), 1);
    let mut random = base::prng::Prng::new(7);
    for _ in 0..2000 {
        metrics.add(M::Commits, 1);
        for &metric in &M::ALL[1..60] {
            metrics.set(metric, random.next_u64());
        }
        tape.sample(&metrics);
    }
    let (all, newest) = (tape.samples(), newest(&tape));
    assert!(newest.len() < all.len(), "{} of {}", newest.len(), all.len());
    let skipped = all.len() - newest.len();
    for (whole, new) in all[skipped..].iter().zip(&newest) {
        assert_eq!((whole.unix_us, &whole.metrics), (new.unix_us, &new.metrics));
    }
    let (bytes, _) = Writer::create(DB, 4);
    assert_eq!(Recording::new(bytes).unwrap().newest_samples().count(), 0);
}

#[test]
fn a_session_goes_on_after_the_one_before() {
    let (mut tape, metrics) = (Tape::new(2), busy());
    for _ in 0..3 {
        tape.sample(&metrics);
    }
    let before = tape.bytes.len();
    tape.resume();
    tape.sample(&Metrics::new());
    assert!(tape.bytes.len() - before < 200, "a short session takes little room");
    assert_eq!(tape.commits(), [7, 7, 7, 0]);
    let sessions: Vec<u64> = tape.samples().iter().map(|sample| sample.session).collect();
    assert_eq!(sessions, [0, 0, 0, 1]);
}

#[test]
fn a_recording_that_ends_anywhere_has_all_samples_before() {
    let (mut tape, metrics) = (Tape::new(2), busy());
    let mut ends = Vec::new();
    for _ in 0..4 {
        metrics.add(M::Commits, 1);
        tape.sample(&metrics);
        ends.push(tape.bytes.len());
    }
    let whole = tape.bytes.clone();
    let near = ends.iter().flat_map(|end| end - 9..end + 9).filter(|length| *length < whole.len());
    for length in (HEAD_BYTES..whole.len()).step_by(61).chain(near) {
        tape.bytes = whole[..length].to_vec();
        let samples = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(tape.commits().len(), samples, "{length} bytes");
        tape.resume();
        tape.sample(&metrics);
        assert_eq!(tape.commits().len(), samples + 1, "{length} bytes and a sample");
    }
}

#[test]
fn damage_costs_no_more_than_the_rest_of_a_chunk() {
    let (mut tape, metrics) = (Tape::new(2), busy());
    for _ in 0..4 {
        metrics.add(M::Commits, 1);
        tape.sample(&metrics);
    }
    let whole = tape.bytes.clone();
    let chunk = whole[HEAD_BYTES..].iter().position(|byte| *byte != 0).unwrap() + HEAD_BYTES;
    for at in (chunk..whole.len()).step_by(3) {
        tape.bytes = whole.clone();
        tape.bytes[at] ^= 1 << (at % 8);
        let commits = tape.commits();
        assert!(commits.len() < 4 && [8, 9, 10, 11].starts_with(&commits), "byte {at}: {commits:?}");
    }
    for at in 0..200 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        // The eighth byte is the version.
        let wanted = if at == 7 { Unreadable::OtherVersion } else { Unreadable::Damaged };
        assert_eq!(Recording::new(bytes).unwrap_err(), wanted, "byte {at}");
    }
}

#[test]
fn a_lost_chunk_is_a_gap() {
    let (mut tape, metrics) = (Tape::new(8), Metrics::new());
    let mut random = base::prng::Prng::new(7);
    while tape.bytes.len() < HEAD_BYTES + 3 * CHUNK_BYTES {
        metrics.add(M::Commits, 1);
        M::ALL[1..60].iter().for_each(|&metric| metrics.set(metric, random.next_u64()));
        tape.sample(&metrics);
    }
    let count = tape.commits().len();
    tape.bytes[HEAD_BYTES + 2 * CHUNK_BYTES] ^= 1;
    let samples = tape.samples();
    assert!(samples.len() < count - 300);
    assert_eq!(samples.iter().filter(|sample| sample.after_gap).count(), 1);
}

#[test]
fn another_database_or_another_version_is_not_continued() {
    let (head, _) = Writer::create(DB, 2);
    let read = |_: u64, length: usize| head[..length.min(head.len())].to_vec();
    assert!(Writer::resume(DB, read).is_some());
    assert!(Writer::resume(DB + 1, read).is_none());
    let other = layout::Head { chunks: 2, db_id: DB, schema: "plain commits 1\n".into() }.encode();
    assert!(Writer::resume(DB, |_, _| other.clone()).is_none());
    assert!(Recording::new(other).unwrap().missing().len() > 100);
    assert!(Writer::resume(DB, |_, _| Vec::new()).is_none());
}
