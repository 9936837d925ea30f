//! Mini-transactions made by hand: whole, cut, damaged, over the end of the ring, of any bytes.

use super::head::Ring;
use super::mtr::{END_BYTES, Found, find};
use super::page::{Header, Owner};
use super::record::{Kind, PageId, Place, Records};
use super::rows;
use super::server::Names;
use super::tally::{Account, Pages, Tally};
use super::varint;
use crate::redo::table::{By, Reading};
use base::crc::crc32c;
use base::prng::Prng;

/// A record: its kind in the high bits of the first byte, then what follows its length.
fn record(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    if (1..16).contains(&body.len()) {
        out.push(kind | body.len() as u8);
    } else {
        // The number of the length counts its own bytes too.
        let mut number = Vec::new();
        varint::write(body.len() as u64 - 14, &mut number);
        if number.len() > 1 {
            number.clear();
            varint::write(body.len() as u64 - 13, &mut number);
        }
        out.push(kind);
        out.extend_from_slice(&number);
    }
    out.extend_from_slice(body);
}

/// The numbers of a page, and bytes behind them.
fn body(page: PageId, rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(page.0.into(), &mut out);
    varint::write(page.1.into(), &mut out);
    out.extend_from_slice(rest);
    out
}

/// Ends a mini-transaction.
fn ended(records: &[u8], lap: u8) -> Vec<u8> {
    let mut out = records.to_vec();
    out.push(lap);
    out.extend_from_slice(&crc32c(records).to_be_bytes());
    out
}

/// Creates a page of an index: kind and number of the index are written as InnoDB does.
fn new_page(page: PageId, index: u64, out: &mut Vec<u8>) {
    record(0x10, &body(page, &[]), out);
    // From `FIL_PAGE_TYPE` to `PAGE_INDEX_ID`: 42 bytes on.
    record(0xa0, &[1], out);
    let mut write = vec![42];
    write.extend_from_slice(&index.to_be_bytes());
    record(0xb0, &write, out);
}

/// Files that hold what a test says.
struct Held(Vec<(PageId, Header)>);

impl Pages for Held {
    fn look(&mut self, page: PageId, _: Option<&str>) -> Option<Header> {
        self.0.iter().find(|(held, _)| *held == page).map(|(_, header)| *header)
    }
}

/// The header of a page in a file.
fn header(kind: u16, index: u64) -> Header {
    let mut page = [0; 74];
    page[0] = 7;
    page[24..26].copy_from_slice(&kind.to_be_bytes());
    page[66..74].copy_from_slice(&index.to_be_bytes());
    Header::read(&page).unwrap()
}

/// Returns what was counted, in order.
fn counted(tally: &Tally) -> Vec<(Account, Kind, u64, u64)> {
    let mut all: Vec<_> =
        tally.counts().map(|(account, kind, count)| (account, kind, count.records, count.bytes)).collect();
    all.sort();
    all
}

fn sum(tally: &Tally) -> u64 {
    tally.counts().map(|(_, _, count)| count.bytes).sum()
}

#[test]
fn the_examples_of_the_format_are_understood() {
    // From the comment in mtr0types.h that defines the format.
    let records = [0x12, 0x34, 0x56];
    let init: Vec<_> = Records::new(&records).map(|r| (r.kind, r.place, r.bytes)).collect();
    assert_eq!(init, [(Kind::InitPage, Place::Page((0x34, 0x56)), 3)]);
    let records = [0x36, 0x40, 0x57, 0x60, 0x12, 0x34, 0x56, 0xb5, 0x7f, 0x23, 0x34, 0x56, 0x78];
    let writes: Vec<_> =
        Records::new(&records).map(|r| (r.kind, r.place, r.offset, r.changed, r.bytes)).collect();
    let page = Place::Page((0x40, 0x57));
    assert_eq!(
        writes,
        [(Kind::Write, page, 0x60, 3, 7), (Kind::Write, page, 0x7f + 0x63, 4, 6)],
        "the second offset is relative to the end of the first write"
    );
}

#[test]
fn lengths_of_records_have_one_or_more_bytes() {
    for length in [3, 15, 16, 17, 142, 143, 144, 145, 200, 16_000] {
        let mut records = Vec::new();
        record(0x30, &body((5, 6), &vec![9; length - 2]), &mut records);
        record(0xb0, &[1, 2], &mut records);
        let found = ended(&records, 1);
        assert_eq!(find(&found, |_| 1), Found::Whole(&records[..]), "{length}");
        let kinds: Vec<_> = Records::new(&records).map(|r| (r.kind, r.place)).collect();
        assert_eq!(kinds, [(Kind::Write, Place::Page((5, 6))); 2], "{length}");
        let bytes: usize = Records::new(&records).map(|r| r.bytes).sum();
        assert_eq!(bytes, records.len());
    }
}

#[test]
fn a_cut_or_damaged_mini_transaction_is_none() {
    let mut records = Vec::new();
    new_page((7, 300), 40, &mut records);
    record(0x30, &body((7, 70_000), &[40; 300]), &mut records);
    let whole = ended(&records, 0);
    assert_eq!(find(&whole, |at| u8::from(at != records.len())), Found::Whole(&records[..]));
    assert_eq!(find(&whole, |_| 1), Found::End, "of another lap");
    for length in 0..whole.len() {
        assert_eq!(find(&whole[..length], |_| 0), Found::Cut, "{length} bytes");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        assert!(!matches!(find(&damaged, |_| 0), Found::Whole(_)), "byte {at}");
    }
    assert_eq!(find(&[0; 100], |_| 0), Found::End, "nothing was written here");
    assert_eq!(find(&[0x30, 0xe0], |_| 0), Found::End, "a length that no version writes");
    // Records without an end.
    assert_eq!(find(&[0x31; 3 << 20], |_| 0), Found::End);
}

#[test]
fn a_mini_transaction_over_the_end_of_the_ring_is_of_the_lap_of_its_end() {
    let mut records = Vec::new();
    record(0x30, &body((7, 3), &[40; 60]), &mut records);
    let length = (records.len() + END_BYTES) as u64;
    let ring = Ring::new(20_000, 12_288 + 1000).unwrap();
    for (lsn, lap) in [(20_000, 1), (20_999 - length, 1), (20_980, 0), (20_999, 0), (21_990, 1)] {
        let end = lsn + records.len() as u64;
        assert_eq!(ring.lap_at(end), lap);
        let mut file = vec![0; 13_288];
        let bytes = ended(&records, lap);
        let mut from = 0;
        for (at, length) in ring.pieces(lsn, bytes.len()) {
            file[at as usize..at as usize + length].copy_from_slice(&bytes[from..from + length]);
            from += length;
        }
        let pieces = ring.pieces(lsn, 500);
        let read: Vec<u8> =
            pieces.iter().flat_map(|(at, n)| file[*at as usize..*at as usize + n].to_vec()).collect();
        assert_eq!(find(&read, |at| ring.lap_at(lsn + at as u64)), Found::Whole(&records[..]), "LSN {lsn}");
    }
}

#[test]
fn pages_belong_to_whom_the_log_or_the_file_says() {
    let mut tally = Tally::default();
    let mut held = Held(vec![((7, 3), header(17_855, 41)), ((7, 9), header(10, 0)), ((2, 5), header(2, 0))]);
    let mut records = Vec::new();
    new_page((7, 4), 42, &mut records);
    tally.add(&records, &mut held);
    let mut all = records.len() + END_BYTES;
    for page in [(7, 3), (7, 9), (2, 5), (7, 4), (7, 11)] {
        let mut records = Vec::new();
        record(0x30, &body(page, &[100, 1, 2, 3]), &mut records);
        tally.add(&records, &mut held);
        all += records.len() + END_BYTES;
    }
    // Page 4 is freed, and becomes one of another index.
    for reused in [false, true] {
        let mut records = Vec::new();
        match reused {
            false => record(0x00, &body((7, 4), &[]), &mut records),
            true => new_page((7, 4), 43, &mut records),
        }
        tally.add(&records, &mut held);
        all += records.len() + END_BYTES;
    }
    let of = |space, owner| Account::Space(space, owner);
    assert_eq!(
        counted(&tally),
        [
            (of(2, Owner::Undo), Kind::Write, 1, 7),
            (of(7, Owner::Index(41)), Kind::Write, 1, 7),
            (of(7, Owner::Index(42)), Kind::FreePage, 1, 3),
            (of(7, Owner::Index(42)), Kind::InitPage, 1, 3),
            (of(7, Owner::Index(42)), Kind::InitIndexPage, 1, 2),
            (of(7, Owner::Index(42)), Kind::Write, 2, 17),
            (of(7, Owner::Index(43)), Kind::InitPage, 1, 3),
            (of(7, Owner::Index(43)), Kind::InitIndexPage, 1, 2),
            (of(7, Owner::Index(43)), Kind::Write, 1, 10),
            (of(7, Owner::Blob), Kind::Write, 1, 7),
            (of(7, Owner::Unknown), Kind::Write, 1, 7),
            (Account::Log, Kind::End, 8, 40),
        ]
    );
    assert_eq!(sum(&tally), all as u64);
}

#[test]
fn records_of_files_give_names() {
    let mut tally = Tally::default();
    for (kind, space, name) in [
        (0x80, 5, "./shop/a.ibd"),
        (0xb0, 6, "./shop/b.ibd"),
        (0xa0, 6, "./shop/b.ibd\0./shop/c.ibd"),
        (0x90, 5, "./shop/a.ibd"),
        (0xb0, 300_000, "./shop/far.ibd"),
    ] {
        let mut records = Vec::new();
        record(kind, &body((space, 0), name.as_bytes()), &mut records);
        record(0xb0, &body((9, 0), b"./shop/second.ibd"), &mut records);
        tally.add(&records, &mut Held(Vec::new()));
    }
    let mut checkpoint = body((0, 0), &44_760_u64.to_be_bytes());
    let mut records = Vec::new();
    record(0xf0, &checkpoint, &mut records);
    assert_eq!(ended(&records, 1)[12..], [0x76, 0x3b, 0x3a, 0x16], "as a server of 10.11 wrote it");
    tally.add(&records, &mut Held(Vec::new()));
    checkpoint[2..].fill(0);
    for padding in [&checkpoint[..], &[0], &[0, 0], &[0; 100]] {
        let mut records = Vec::new();
        record(0xf0, padding, &mut records);
        tally.add(&records, &mut Held(Vec::new()));
    }
    let files: Vec<_> = tally.files.iter().map(|(id, f)| (*id, f.name.as_str(), f.deleted)).collect();
    assert_eq!(
        files,
        [
            (5, "./shop/a.ibd", true),
            (6, "./shop/c.ibd", false),
            (9, "./shop/second.ibd", false),
            (300_000, "./shop/far.ibd", false)
        ]
    );
    let log: Vec<_> = counted(&tally).into_iter().filter(|count| count.0 == Account::Log).collect();
    assert_eq!(
        log.iter().map(|(_, kind, records, _)| (*kind, *records)).collect::<Vec<_>>(),
        [(Kind::Checkpoint, 1), (Kind::Padding, 4), (Kind::End, 10)]
    );
    let rows = rows::rows(&tally, &Names::default(), |_| None);
    let reading = Reading {
        title: "t".into(),
        from_lsn: 100,
        to_lsn: 100 + rows.sum().bytes,
        rows,
        missed: 0,
        seconds: None,
        notes: Vec::new(),
    };
    assert!(reading.exact());
    assert!(reading.text(By::Table).contains("shop.a (dropped)"), "{}", reading.text(By::Table));
}

#[test]
fn extended_records_have_names() {
    for (kind, name) in [
        (0, Kind::InitIndexPage),
        (1, Kind::InitIndexPage),
        (2, Kind::InitUndoPage),
        (3, Kind::AppendUndo),
        (4, Kind::Insert),
        (7, Kind::Insert),
        (8, Kind::Delete),
        (9, Kind::Delete),
        (10, Kind::Trim),
        (11, Kind::Unknown),
    ] {
        let mut records = Vec::new();
        record(0x20, &body((7, 3), &[kind, 1, 1]), &mut records);
        assert_eq!(Records::new(&records).map(|r| r.kind).collect::<Vec<_>>(), [name]);
    }
    for (first, name) in [(0x70, Kind::Option), (0x60, Kind::Unknown), (0x40, Kind::Fill), (0x50, Kind::Move)]
    {
        let mut records = Vec::new();
        record(first, &body((7, 3), &[40, 4, 1]), &mut records);
        assert_eq!(Records::new(&records).map(|r| r.kind).collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn a_header_written_in_pieces_or_filled_is_known() {
    let mut records = Vec::new();
    record(0x10, &body((7, 4), &[]), &mut records);
    // FIL_PAGE_TYPE alone, then the last bytes of PAGE_INDEX_ID by a fill.
    record(0xb0, &[0, 0x45, 0xbf], &mut records);
    record(0xc0, &[46, 2, 1], &mut records);
    let mut tally = Tally::default();
    tally.add(&records, &mut Held(Vec::new()));
    assert_eq!(tally.indexes().collect::<std::collections::BTreeSet<_>>(), [0x0101].into());
}

/// Any bytes: nothing panics, and every byte is counted once.
#[test]
fn mutated_logs_are_counted_to_the_byte() {
    let mut seed = Vec::new();
    new_page((7, 4), 42, &mut seed);
    record(0x30, &body((7, 4), &[100, 1, 2, 3]), &mut seed);
    record(0x40, &body((1 << 31, 70_000), &[100, 4, 1]), &mut seed);
    record(0xd0, &[100, 4, 1], &mut seed);
    record(0x20, &body((7, 4), &[6; 200]), &mut seed);
    let mut of_files = Vec::new();
    record(0xb0, &body((7, 0), b"./shop/a.ibd"), &mut of_files);
    let mut random = Prng::new(7);
    for run in 0..200_000 {
        let mut bytes = if run % 3 == 0 { of_files.clone() } else { seed.clone() };
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xf0, 0xff][random.below(6) as usize]),
            }
        }
        let mut tally = Tally::default();
        tally.add(&bytes, &mut Held(vec![((7, 4), header(17_855, 41))]));
        assert_eq!(sum(&tally), (bytes.len() + END_BYTES) as u64, "{bytes:x?}");
        let _ = rows::rows(&tally, &Names::default(), |_| None);
        let _ = find(&bytes, |_| 1);
        let _ = super::head::Head::read(&bytes);
        if let Found::Whole(found) = find(&ended(&bytes, 1), |_| 1) {
            assert!(found.len() <= bytes.len());
        }
    }
}
