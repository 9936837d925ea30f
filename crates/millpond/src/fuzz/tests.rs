//! Runs the fuzz targets on seeds, on stored inputs, and on mutations of both.
//! `MILLPOND_FUZZ_RUNS=1000000` runs longer.

use super::{fuzz_log_record, fuzz_open, fuzz_page};
use crate::engine::tests::faults::thread_panics;
use crate::log::group::{Record, put_record};
use crate::page::node::Version;
use crate::page::op::{PageOp, RowChange, RowOp};
use base::prng::Prng;
use base::{PageNo, TreeId, TxnId};
use std::path::PathBuf;

/// Returns the stored inputs, `fuzz/corpus/NAME/*`: some failed once, others reach much code.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(rng: &mut Prng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].clone();
    for _ in 0..rng.between(1, 8) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 => bytes.insert(at, rng.next_u64() as u8),
            1 => bytes.truncate(at.max(1)),
            2 => {
                let other = &corpus[rng.below(corpus.len() as u64) as usize];
                let from = rng.below(other.len() as u64 + 1) as usize;
                let n = (rng.below(64) as usize).min(other.len() - from);
                bytes.splice(at..at, other[from..from + n].iter().copied());
            }
            3 => bytes.extend((0..rng.below(16)).map(|_| rng.next_u64() as u8)),
            _ if at < bytes.len() => match rng.below(3) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] ^= 1 << rng.below(8),
                _ => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
            },
            _ => {}
        }
    }
    bytes
}

fn run(name: &str, seeds: Vec<Vec<u8>>, runs: u64, body: fn(&[u8])) {
    let runs = std::env::var("MILLPOND_FUZZ_RUNS").map_or(runs, |n| n.parse().expect("a number"));
    let panics = thread_panics();
    let mut corpus = corpus(name);
    corpus.extend(seeds);
    let mut rng = Prng::new(runs);
    let all = corpus.iter().cloned().chain((0..runs).map(|_| mutate(&mut rng, &corpus)));
    for input in all {
        let fine = std::panic::catch_unwind(|| body(&input)).is_ok() && thread_panics() == panics;
        if !fine {
            let hex: String = input.iter().take(400).map(|b| format!("{b:02x}")).collect();
            panic!("{name}: {} bytes: {hex}", input.len());
        }
    }
}

/// Returns a leaf and an inner page at each step of being filled, each followed by a page change.
fn page_seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0; 4097]];
    for level in [0, 1] {
        let mut page = vec![0; 4096];
        for record in groups(level) {
            let mut r = base::codec::Reader::new(&record);
            let op = r.prefixed().unwrap()[10..].to_vec();
            PageOp::decode(&op).unwrap().apply(&mut page).unwrap();
            all.push([&[0][..], &page, &[op.len().min(255) as u8], &op].concat());
        }
    }
    all
}

/// Returns the records that make a page and fill it.
fn groups(level: u8) -> Vec<Vec<u8>> {
    let mut body = Vec::new();
    if level > 0 {
        crate::page::edit::push_child(&mut body, &[], PageNo(1));
    }
    let head =
        crate::page::edit::NodeHead { tree: TreeId(7), level, right: PageNo(9), low: b"ka", high: b"kx" };
    let mut ops = vec![encoded(&PageOp::Init { head, body: &body })];
    for n in 0..12u16 {
        let key = [b'k', b'b' + n as u8, 7];
        ops.push(if level == 0 {
            let value = vec![n as u8; 30];
            let change = RowChange::Insert { flags: 0, value: &value };
            let version = Version { txn: TxnId(9), undo_at: 5 };
            encoded(&PageOp::Row(RowOp { slot: n, tree: TreeId(7), key: &key, version, change }))
        } else {
            encoded(&PageOp::PutChild { slot: n + 1, child: PageNo(20), key: &key })
        });
    }
    let record = |op: &Vec<u8>| {
        let mut out = Vec::new();
        put_record(&mut out, &Record::Page { page: PageNo(3), prev: 0, op });
        out
    };
    ops.iter().map(record).collect()
}

fn encoded(op: &PageOp<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    op.encode(&mut out);
    out
}

#[test]
fn every_page_is_refused_or_can_be_used() {
    run("page", page_seeds(), 10_000, fuzz_page);
}

#[test]
fn every_record_is_refused_or_can_be_replayed() {
    let mut seeds: Vec<_> = [0, 1].map(|level| groups(level).concat()).into();
    for record in [
        Record::Commit { txn: TxnId(4) },
        Record::Prepare { txn: TxnId(4), xid: b"outside" },
        Record::Undo { txn: TxnId(4), at: 100, entry: b"an entry that is none" },
        Record::Checkpoint { body: b"a list" },
        Record::DirtyPages { body: b"another list" },
        Record::Filler { body: b"nothing" },
        Record::Bookmark { bookmark: b"binlog.000007 4096" },
    ] {
        let mut out = Vec::new();
        put_record(&mut out, &record);
        seeds.push(out);
    }
    run("log", seeds, 10_000, fuzz_log_record);
}

#[test]
fn every_directory_is_refused_or_can_be_opened() {
    let mut rng = Prng::new(1);
    let seeds = (0..40)
        .map(|n| {
            let mut script = vec![n as u8; 1];
            script.extend((0..rng.between(6, 40)).map(|_| rng.next_u64() as u8));
            script
        })
        .collect();
    run("open", seeds, 2_000, fuzz_open);
}
