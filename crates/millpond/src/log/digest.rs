//! Digests: what a segment that is no longer written changes, in short, so that recovery need not
//! scan it (Lo7).
//!
//! A digest lists every page that groups of the segment change: where those groups start, in order,
//! and whether they make the page anew. It also has sections of bytes that only the layer above can
//! read: the transactions that were open, the extents that were freed. A digest lies in the area
//! behind the blocks of the segment. It is written in the background, some time after the last
//! block of the segment; a commit never waits for it. Without a digest recovery scans, so a torn,
//! stale or missing one is no damage.
//!
//! ```text
//!  0       8        10      12     16      24        32       36      40      44         48
//!  +-------+--------+-------+------+-------+---------+--------+-------+-------+----------+
//!  | magic | format | flags | crc  | db id | segment | epoch  | pages | groups| body len |
//!  +-------+--------+-------+------+-------+---------+--------+-------+-------+----------+
//!  48          56         64
//!  +-----------+----------+------+
//!  | first lsn | next lsn | body |
//!  +-----------+----------+------+
//!  body: per page, ascending: varint page - page before, varint number of offsets, then per offset
//!        varint (offset - offset before) * 2 + anew
//!        then the sections: u8 tag, varint length, bytes
//! ```
//! Offsets count payload from the first position of the segment. The checksum covers everything
//! after itself, then the format and the flags. Flag 1: the digest does not fit its area, and there
//! is none.

mod read;

use super::Log;
use super::block::{BLOCK_BYTES, block_of};
use super::group::GROUP_BYTES_MAX;
use super::reader::{EpochStart, Scanner};
use super::segment::SegmentShape;
use crate::error::Result;
use base::aligned::AlignedBuf;
use base::codec::fixed::{set_u16, set_u32, set_u64};
use base::codec::{Put, Truncated};
use base::{Lsn, PageNo, crc};
use std::collections::BTreeMap;
use std::fmt;

const MAGIC: &[u8; 8] = b"MPONDDIG";
const FORMAT: u16 = 1;
const ABSENT: u16 = 1;
const HEADER_BYTES: usize = 64;

/// A change of a page by a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Where the group starts.
    pub lsn: Lsn,
    /// The group makes the page anew: nothing before it matters.
    pub anew: bool,
}

/// Bytes that the layer above adds to a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Says what they are.
    pub tag: u8,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Reads the records of groups, which are only bytes to the log, for the digest.
pub(crate) trait DigestSource {
    /// Reads a group and calls `touch` with each page that it changes, and whether it makes the
    /// page anew. Groups come in the order of the log, from its start in this run on.
    fn group(
        &mut self,
        lsn: Lsn,
        records: &[u8],
        touch: &mut dyn FnMut(PageNo, bool),
    ) -> Result<(), Truncated>;
    /// Leaves out the groups up to the checkpoint: the next group starts there.
    fn skip_to(&mut self, checkpoint: Lsn);
    /// Returns the sections of a segment after its last group. The first group of the next segment
    /// starts at `next`.
    fn sections(&mut self, next: Lsn) -> Vec<Section>;
}

/// What a segment changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    /// The number of the segment.
    pub segment: u64,
    /// The epoch that wrote all of it.
    pub epoch: u32,
    /// The first group that starts in the segment and lay above the checkpoint when the digest was
    /// written.
    pub first: Lsn,
    /// The first group that starts in a later segment.
    pub next: Lsn,
    /// How many groups start in the segment.
    pub groups: u32,
    /// The pages that they change.
    pub pages: BTreeMap<PageNo, Vec<Touch>>,
    /// The sections of the layer above.
    pub sections: Vec<Section>,
}

impl Digest {
    /// Encodes the pages and the sections.
    fn body(&self, base: Lsn) -> Vec<u8> {
        let mut out = Vec::new();
        let mut last_page = 0;
        for (page, touches) in &self.pages {
            out.put_varint(u64::from(page.0 - last_page));
            last_page = page.0;
            out.put_varint(touches.len() as u64);
            let mut last = base;
            for touch in touches {
                out.put_varint(touch.lsn.since(last) * 2 + u64::from(touch.anew));
                last = touch.lsn;
            }
        }
        for section in &self.sections {
            out.put_u8(section.tag);
            out.put_prefixed(&section.bytes);
        }
        out
    }

    /// Encodes the digest as it is written, in whole blocks. A digest that exceeds the area says
    /// only that there is none.
    fn encode(&self, shape: SegmentShape) -> AlignedBuf {
        let mut body = self.body(shape.first_lsn(self.segment));
        let fits = HEADER_BYTES + body.len() <= shape.digest_blocks() as usize * BLOCK_BYTES;
        if !fits {
            body.clear();
        }
        let len = HEADER_BYTES + body.len();
        let mut out = AlignedBuf::zeroed(len.next_multiple_of(BLOCK_BYTES));
        out[..8].copy_from_slice(MAGIC);
        set_u16(&mut out, 8, FORMAT);
        set_u16(&mut out, 10, if fits { 0 } else { ABSENT });
        set_u64(&mut out, 16, shape.db_id);
        set_u64(&mut out, 24, self.segment);
        set_u32(&mut out, 32, self.epoch);
        set_u32(&mut out, 36, self.pages.len() as u32);
        set_u32(&mut out, 40, self.groups);
        set_u32(&mut out, 44, body.len() as u32);
        set_u64(&mut out, 48, self.first.0);
        set_u64(&mut out, 56, self.next.0);
        out[HEADER_BYTES..len].copy_from_slice(&body);
        let crc = crc::crc32c_append(crc::crc32c(&out[16..len]), &out[8..12]);
        set_u32(&mut out, 12, crc);
        out
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Digest { segment, epoch, groups, first, next, pages, sections } = self;
        writeln!(f, "segment {segment} epoch {epoch}: {groups} groups from LSN {first}, the next at {next}")?;
        for (page, touches) in pages {
            write!(f, "page {}:", page.0)?;
            for touch in touches {
                write!(f, " {}{}", touch.lsn, if touch.anew { " anew" } else { "" })?;
            }
            writeln!(f)?;
        }
        sections.iter().try_for_each(|s| writeln!(f, "section {}: {} bytes", s.tag, s.bytes.len()))
    }
}

/// Log that one call reads: a few milliseconds of work, and as much as the scanner reads at once.
/// Tests have small segments.
const SLICE_BYTES: u64 = if cfg!(test) { 50_000 } else { 1 << 20 };

/// How far this run's segments have been digested.
#[derive(Debug)]
pub(super) struct Digester {
    /// The first group that has not been read. `None` once the log could not be read back:
    /// recovery, not the digest, reports such an error.
    next: Option<Lsn>,
    /// Where this run began to write.
    begin: Lsn,
    /// The digest of the segment that holds `next`, as far as it has been made.
    part: Option<PartialDigest>,
}

/// The digest of a segment that has been read in part.
#[derive(Debug)]
struct PartialDigest {
    first: Lsn,
    groups: u32,
    pages: BTreeMap<PageNo, Vec<Touch>>,
}

impl Digester {
    pub(super) fn new(begin: Lsn) -> Digester {
        Digester { next: Some(begin), begin, part: None }
    }
}

impl Log {
    /// Continues the digest of the oldest segment that ends `behind` bytes before the end of the
    /// log and has none yet. Returns whether there was anything to do. Called by a background
    /// thread; one call reads a slice of the segment back. The log below `checkpoint`, where a
    /// group starts, needs no digest any more and may be gone.
    pub(crate) fn digest_next(
        &self,
        checkpoint: Lsn,
        behind: u64,
        source: &mut dyn DigestSource,
    ) -> Result<bool> {
        let mut digester = self.digester.lock();
        let Some(mut from) = digester.next else { return Ok(false) };
        let shape = self.segments.shape();
        let segment = |lsn| shape.segment_of(block_of(lsn));
        let passed = segment(checkpoint) > segment(from) || (checkpoint > from && digester.part.is_none());
        if passed {
            digester.part = None;
            from = checkpoint;
        }
        let number = segment(from);
        let end = shape.first_lsn(number + 1);
        // A whole group must be readable after the segment: it says where the next digest begins.
        if self.durable_lsn() < end.plus(behind.max(2 * GROUP_BYTES_MAX as u64)) {
            return Ok(false);
        }
        if passed {
            source.skip_to(from);
        }
        let blank = || PartialDigest { first: from, groups: 0, pages: BTreeMap::new() };
        let mut part = digester.part.take().unwrap_or_else(blank);
        let read = self.digest_slice(&mut part, digester.begin, from, end, source);
        let Some(next) = read.inspect_err(|_| digester.next = None).unwrap_or(None) else {
            if digester.next.is_none() {
                return Ok(false);
            }
            // If the segment is gone, the checkpoint has passed it, and the next call learns that.
            // If it still exists, it could not be read.
            digester.next = self.segments.find(number).is_none().then_some(from);
            return Ok(false);
        };
        base::check!(next >= from, "a digest goes back from {from} to {next}");
        digester.next = Some(next);
        if next < end {
            digester.part = Some(part);
        } else {
            let (epoch, sections) = (self.epoch, source.sections(next));
            if digester.begin <= shape.first_lsn(number) {
                let PartialDigest { first, groups, pages } = part;
                base::check!(
                    first < end && next >= end,
                    "segment {number} is digested from {first} to {next}"
                );
                let digest = Digest { segment: number, epoch, first, next, groups, pages, sections };
                self.segments.put_digest(number, &digest.encode(shape))?;
            }
        }
        Ok(true)
    }

    /// Adds groups from `from` on to `part`. Returns the first group that it did not add; `None` if
    /// the log cannot be read.
    fn digest_slice(
        &self,
        part: &mut PartialDigest,
        begin: Lsn,
        from: Lsn,
        end: Lsn,
        source: &mut dyn DigestSource,
    ) -> Result<Option<Lsn>> {
        let epochs = [EpochStart { epoch: self.epoch, first: begin }];
        let mut scanner = Scanner::new(&self.segments, &epochs, from);
        let stop = end.min(from.plus(SLICE_BYTES));
        while let Some(group) = scanner.next()? {
            let lsn = group.lsn;
            base::verify!(lsn >= from, "a digest from {from} on reads {lsn}");
            if lsn >= stop {
                return Ok(Some(lsn));
            }
            part.groups += 1;
            let pages = &mut part.pages;
            let read = source.group(lsn, group.records, &mut |page, anew| {
                let touches = pages.entry(page).or_default();
                match touches.last_mut() {
                    Some(last) if last.lsn == lsn => last.anew |= anew,
                    _ => touches.push(Touch { lsn, anew }),
                }
            });
            if read.is_err() {
                break;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogStart;
    use crate::log::block::{PAYLOAD_BYTES, block_start};
    use crate::log::group::{self, Record, Records};
    use crate::log::tests::{LogDir, SHAPE, start};
    use expect_test::expect;
    use metrics::SyncReason;
    use proptest::prelude::*;

    /// Reads page records whose first byte says whether they make the page anew.
    #[derive(Default)]
    struct Source {
        seen: Vec<Lsn>,
        skipped: Vec<Lsn>,
    }

    impl DigestSource for Source {
        fn group(
            &mut self,
            lsn: Lsn,
            records: &[u8],
            touch: &mut dyn FnMut(PageNo, bool),
        ) -> Result<(), Truncated> {
            self.seen.push(lsn);
            for record in Records::new(records) {
                if let Record::Page { page, op, .. } = record? {
                    touch(page, op[0] == 1);
                }
            }
            Ok(())
        }
        fn skip_to(&mut self, checkpoint: Lsn) {
            self.skipped.push(checkpoint);
        }
        fn sections(&mut self, next: Lsn) -> Vec<Section> {
            vec![Section { tag: 1, bytes: next.0.to_le_bytes().to_vec() }]
        }
    }

    fn fill(log: &Log, groups: u32) {
        for n in 0..groups {
            let mut group = Vec::new();
            group::begin(&mut group);
            for page in [n % 7, 1000 + n] {
                let op = vec![u8::from(n % 5 == 0); 100 + n as usize * 31 % 2500];
                group::put_record(&mut group, &Record::Page { page: PageNo(page), prev: 0, op: &op });
            }
            log.make_room().unwrap();
            let lsn = log.append(&mut group, |_| ());
            let _two = (log.committing(), log.committing());
            if n % 9 == 0 {
                log.flush_to(lsn, SyncReason::Commit).unwrap();
            }
        }
        log.flush_to(Lsn(log.reserved_lsn().0 - 1), SyncReason::Commit).unwrap();
    }

    /// Returns what a scan of the whole log finds in segment `number`.
    fn scan(
        segments: &crate::log::segment::Segments,
        epochs: &[EpochStart],
        number: u64,
    ) -> BTreeMap<PageNo, Vec<Touch>> {
        let mut scanner = Scanner::new(segments, epochs, epochs[0].first);
        let mut pages: BTreeMap<PageNo, Vec<Touch>> = BTreeMap::new();
        while let Some(group) = scanner.next().unwrap() {
            if SHAPE.segment_of(block_of(group.lsn)) != number {
                continue;
            }
            let touch = |page, anew| pages.entry(page).or_default().push(Touch { lsn: group.lsn, anew });
            Source::default().group(group.lsn, group.records, &mut { touch }).unwrap();
        }
        pages
    }

    #[test]
    fn a_digest_lists_what_a_scan_finds() {
        let dir = LogDir::new("digest");
        let log = dir.log(start());
        fill(&log, 1500);
        assert!(log.segments().digest(0).unwrap().is_none(), "it has not been written");
        while log.digest_next(Lsn(0), 0, &mut Source::default()).unwrap() {}
        let last = SHAPE.segment_of(block_of(log.durable_lsn()));
        assert!(last > 5);
        let mut expected_first = Lsn(0);
        for number in 0..last - 1 {
            let digest = log.segments().digest(number).unwrap().expect("the segment is no longer written");
            assert_eq!(digest.pages, scan(log.segments(), &[crate::log::tests::FIRST], number));
            assert_eq!(digest.first, expected_first);
            assert_eq!(digest.sections, Source::default().sections(digest.next));
            expected_first = digest.next;
        }
        assert!(log.segments().digest(last).unwrap().is_none(), "it is still being written");
        // A recycled segment has no digest before it has been written again.
        assert!(log.segments().recycle_below(log.durable_lsn()).unwrap() > 0);
        for number in log.segments().numbers().into_iter().filter(|n| *n > last) {
            assert!(log.segments().digest(number).unwrap().is_none());
        }
    }

    #[test]
    fn a_segment_written_in_two_runs_has_no_digest() {
        let dir = LogDir::new("digest-cut");
        let begin = block_start(3);
        let log = dir.log(LogStart { lsn: begin, end: begin, prev_used: PAYLOAD_BYTES as u16, epoch: 2 });
        fill(&log, 800);
        while log.digest_next(Lsn(0), 0, &mut Source::default()).unwrap() {}
        assert!(log.segments().digest(0).unwrap().is_none(), "older groups may be in it");
        let digest = log.segments().digest(1).unwrap().unwrap();
        assert_eq!(digest.pages, scan(log.segments(), &[EpochStart { epoch: 2, first: begin }], 1));
    }

    #[test]
    fn segments_recycled_before_their_digest_are_skipped() {
        let dir = LogDir::new("digest-gone");
        let log = dir.log(start());
        fill(&log, 600);
        let mut scanner = Scanner::new(log.segments(), &[crate::log::tests::FIRST], Lsn(0));
        let mut checkpoint = Lsn(0);
        while checkpoint < SHAPE.first_lsn(2).plus(9999) {
            checkpoint = scanner.next().unwrap().unwrap().lsn;
        }
        log.segments().recycle_below(checkpoint).unwrap();
        assert!(log.segments().find(0).is_none());
        assert!(
            !log.digest_next(Lsn(0), 0, &mut Source::default()).unwrap(),
            "gone, and the digester has not been told"
        );
        fill(&log, 600);
        let mut source = Source::default();
        while log.digest_next(checkpoint, 0, &mut source).unwrap() {}
        assert_eq!(source.skipped, [checkpoint]);
        assert_eq!(source.seen[0], checkpoint);
        let epoch = [EpochStart { epoch: 1, first: checkpoint }];
        let mut scanner = Scanner::new(log.segments(), &epoch, checkpoint);
        for lsn in source.seen {
            assert_eq!(scanner.next().unwrap().unwrap().lsn, lsn, "each group once, in order");
        }
        let digest = log.segments().digest(2).unwrap().unwrap();
        assert_eq!(digest.first, checkpoint);
        let epoch = EpochStart { epoch: 1, first: checkpoint };
        assert_eq!(digest.pages, scan(log.segments(), &[epoch], 2));
        assert!(log.segments().digest(3).unwrap().is_some());
    }

    #[test]
    fn a_damaged_digest_is_ignored() {
        let dir = LogDir::new("digest-damage");
        let log = dir.log(start());
        fill(&log, 300);
        while log.digest_next(Lsn(0), 0, &mut Source::default()).unwrap() {}
        assert!(log.segments().digest(0).unwrap().is_some());
        let segment = log.segments().find(0).unwrap();
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        segment.file.read_at(&mut block, SHAPE.digest_offset()).unwrap();
        for at in [0, 9, 13, 17, 25, 37, 50, 60, 70, 200] {
            block[at] ^= 4;
            segment.file.write_at(&block, SHAPE.digest_offset()).unwrap();
            assert_eq!(log.segments().digest(0).unwrap(), None, "byte {at}");
            block[at] ^= 4;
        }
        segment.file.write_at(&block, SHAPE.digest_offset()).unwrap();
        assert!(log.segments().digest(0).unwrap().is_some());
    }

    #[test]
    fn a_digest_that_does_not_fit_is_absent_and_the_text_is_readable() {
        let touches = |n: u64| (0..n).map(|i| Touch { lsn: Lsn(i * 77), anew: i == 1 }).collect::<Vec<_>>();
        let mut digest = Digest {
            segment: 0,
            epoch: 3,
            first: Lsn(0),
            next: Lsn(300_000),
            groups: 9,
            pages: [(PageNo(4), touches(1)), (PageNo(9), touches(3))].into(),
            sections: vec![Section { tag: 1, bytes: vec![0; 12] }],
        };
        expect![[r#"
            segment 0 epoch 3: 9 groups from LSN 0, the next at 300000
            page 4: 0
            page 9: 0 77 anew 154
            section 1: 12 bytes
        "#]]
        .assert_eq(&digest.to_string());
        assert_eq!(Digest::decode(&digest.encode(SHAPE), SHAPE, 0), Some(digest.clone()));
        assert_eq!(Digest::decode(&digest.encode(SHAPE), SHAPE, 1), None, "of another segment");
        digest.sections[0].bytes = vec![0; SHAPE.digest_blocks() as usize * BLOCK_BYTES];
        let encoded = digest.encode(SHAPE);
        assert!(encoded.len() <= SHAPE.digest_blocks() as usize * BLOCK_BYTES);
        assert_eq!(Digest::decode(&encoded, SHAPE, 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_a_body_without_a_panic(body: Vec<u8>, pages: u32) {
            let mut digest = Digest {
                segment: 0, epoch: 0, first: Lsn(0), next: Lsn(0), groups: 0,
                pages: BTreeMap::new(), sections: Vec::new(),
            };
            let _ = digest.take_body(&body, pages, Lsn(7));
        }
    }

    /// The figures of decision 0021. Groups of an update of uniform or skewed rows, 25,000 pages.
    #[test]
    #[ignore = "a measurement"]
    fn size_of_last_offsets_and_of_all() {
        let segment_bytes = 4096 * PAYLOAD_BYTES as u64;
        for (name, skew) in [("uniform", 1), ("skewed", 4)] {
            let mut rng = base::prng::Prng::new(1);
            let mut pages: BTreeMap<PageNo, Vec<Touch>> = BTreeMap::new();
            let (mut at, mut groups) = (0, 0u32);
            while at < segment_bytes {
                let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let page = PageNo((unit.powi(skew) * 25_000.0) as u32);
                pages.entry(page).or_default().push(Touch { lsn: Lsn(at), anew: false });
                at += 120 + rng.next_u64() % 280;
                groups += 1;
            }
            let size = |pages: BTreeMap<PageNo, Vec<Touch>>| {
                Digest { segment: 0, epoch: 0, first: Lsn(0), next: Lsn(0), groups, pages, sections: vec![] }
                    .body(Lsn(0))
                    .len()
            };
            let last = pages.iter().map(|(p, t)| (*p, vec![*t.last().unwrap()])).collect();
            let count = pages.len();
            println!(
                "{name}: {groups} groups on {count} pages: all offsets {} bytes, last offsets {} of {segment_bytes}",
                size(pages),
                size(last)
            );
        }
    }
}
