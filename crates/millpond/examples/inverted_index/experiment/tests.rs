//! Tests of the whole: lists of all densities, in memory and from a database, against the two loops
//! and against sets of the standard library.

use super::arrays::Arrays;
use super::block::{self, StoredBlock};
use super::combine::{and, or};
use super::dates::Newest;
use super::memory::{InMemory, Memory};
use super::pool::Pool;
use super::query::{Answer, Contestant, Data, Query};
use super::random::{self, Random};
use super::sink::{Count, Write};
use super::{Failure, Setup, json, run, table};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("millpond-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lists whose density changes: some chunks are empty, some sparse, some dense.
fn uneven(universe: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut ids = Vec::new();
    let mut id = random.below(20_000);
    while id < universe {
        let end = (id + random.below(60_000)).min(universe);
        let step_max = [1, 3, 20, 300, 5000][random.below(5) as usize];
        while id < end {
            ids.push(id);
            id += 1 + random.below(step_max);
        }
        id += random.below(2) * random.below(100_000);
    }
    ids
}

fn data(universe: u64, [a, b]: [Vec<u64>; 2]) -> Data {
    Data { lists: [a, b], dates: random::dates(universe, 9) }
}

fn some_data() -> Vec<Data> {
    let universe = 1 << 20;
    let list = |len, seed| random::ids(len, universe, seed);
    let mut some: Vec<Data> =
        (0..6).map(|n| data(universe, [uneven(universe, n), uneven(universe, n + 100)])).collect();
    for (a, b) in [(200_000, 100_000), (200_000, 300), (40, 30), (20_000, 10_000), (900_000, 800_000)] {
        some.push(data(universe, [list(a, 1), list(b, 2)]));
    }
    some.push(data(universe, [list(1000, 1), Vec::new()]));
    some.push(data(universe, [(0..1000).collect(), (500_000..600_000).collect()]));
    some.push(data(universe, [(0..100_000).collect(), (0..100_000).collect()]));
    some
}

/// Compares all answers with those of the two loops.
fn check(contestant: &mut dyn Contestant, data: &Data, what: &str) {
    for query in Query::ALL {
        let (mut expected, mut answer) = (Answer::default(), Answer::default());
        Arrays(data).answer(query, &mut expected).unwrap();
        contestant.answer(query, &mut answer).unwrap();
        assert!(answer.is(query, &expected), "{what}: {query:?}: {} of {}", answer.len, expected.len);
    }
}

#[test]
fn the_two_loops_agree_with_sets() {
    for data in some_data() {
        let [a, b] = data.lists.each_ref().map(|ids| ids.iter().copied().collect::<BTreeSet<u64>>());
        let ids = |query| {
            let mut answer = Answer::default();
            Arrays(&data).answer(query, &mut answer).unwrap();
            answer.room[..answer.len].to_vec()
        };
        assert!(ids(Query::AndIds) == a.intersection(&b).copied().collect::<Vec<_>>());
        assert!(ids(Query::OrIds) == a.union(&b).copied().collect::<Vec<_>>());
    }
}

#[test]
fn answers_from_memory_are_right() {
    for (n, data) in some_data().iter().enumerate() {
        for factor in [1.0, 2.0, 1e6] {
            check(&mut Memory::of(data, factor), data, &format!("data {n}, factor {factor}"));
        }
    }
}

#[test]
fn answers_from_a_database_are_right() {
    // A new database takes longer than all its answers: not all of the data.
    for (n, data) in some_data().iter().enumerate().step_by(3) {
        let scratch = Scratch::new("inverted-index-answers");
        let memory = Memory::of(data, 2.0);
        let mut pool = Pool::load(&scratch.0, memory.lists(), data).unwrap();
        check(&mut pool, data, &format!("data {n}"));
    }
}

/// Universes in which a chunk has less than one id, up to the largest.
#[test]
fn very_sparse_lists_are_combined() {
    for universe in [1 << 30, 1 << 45, block::IDS_END] {
        let mut a = random::ids(5000, universe, 1);
        let b = random::ids(3000, universe, 2);
        a.extend(b.iter().step_by(3));
        a.sort_unstable();
        a.dedup();
        let data = Data { lists: [a, b], dates: Vec::new() };
        let mut memory = Memory::of(&data, 2.0);
        for query in Query::ALL.into_iter().filter(|query| Arrays(&data).answers(*query)) {
            let (mut expected, mut answer) = (Answer::default(), Answer::default());
            Arrays(&data).answer(query, &mut expected).unwrap();
            memory.answer(query, &mut answer).unwrap();
            assert!(answer.is(query, &expected) && answer.len > 900, "{universe}: {query:?}");
        }
    }
}

/// Combines lists, one of which is damaged.
fn combined(a: &[StoredBlock], b: &[StoredBlock], dates: &[u32]) -> [Result<(), Failure>; 4] {
    let (mut count, mut answer) = (Count::default(), Answer::default());
    let mut newest = Newest::of(dates);
    let (a, b) = (|| InMemory(a.iter()), || InMemory(b.iter()));
    [
        and(a(), b(), &mut count),
        or(a(), b(), &mut count),
        or(a(), b(), &mut Write::to(&mut answer)),
        and(a(), b(), &mut newest),
    ]
}

#[test]
fn damaged_lists_give_an_error_and_no_panic() {
    let universe = 1 << 18;
    let dates = random::dates(universe, 1);
    let mut random = Random::new(7);
    for (of_a, of_b) in [(60_000, 50_000), (60_000, 500), (3000, 2000)] {
        let [a, b] =
            [(of_a, 1), (of_b, 2)].map(|(len, seed)| block::encode(&random::ids(len, universe, seed), 2.0));
        assert!(combined(&a, &b, &dates).iter().all(Result::is_ok));
        for _ in 0..300 {
            let mut damaged = a.clone();
            let n = random.below(damaged.len() as u64) as usize;
            match random.below(4) {
                0 => damaged[n].bytes.truncate(random.below(20) as usize),
                1 => damaged[n].base ^= 1 << random.below(64),
                2 => damaged.swap(n, 0),
                _ => {
                    let at = random.below(damaged[n].bytes.len() as u64) as usize;
                    damaged[n].bytes[at] ^= 1 << random.below(8);
                }
            }
            // A flipped bit of a bitmap is another list; the database's checksums find that.
            for outcome in combined(&damaged, &b, &dates).into_iter().chain(combined(&b, &damaged, &dates)) {
                assert!(matches!(outcome, Ok(()) | Err(Failure::Damaged(_))));
            }
        }
        let mut cut = a.clone();
        cut[0].bytes.pop();
        assert!(combined(&cut, &b, &dates).iter().all(Result::is_err));
        let twice = [a[0].clone(), a[0].clone()];
        assert!(combined(&twice, &b, &dates).iter().all(Result::is_err));
        // The column of dates is too short.
        assert!(combined(&a, &b, &dates[..500])[3].is_err());
    }
}

#[test]
fn a_setup_that_cannot_be_is_misuse() {
    let fits = Setup { universe: 1000, sizes: [100, 50], runs: 15, ..Setup::default() };
    for wrong in [
        Setup { universe: 0, ..fits.clone() },
        Setup { universe: 99, ..fits.clone() },
        Setup { universe: u64::MAX, ..fits.clone() },
        Setup { sizes: [0, 1], ..fits.clone() },
        Setup { runs: 14, ..fits.clone() },
        Setup { bitmap_factor: 0.5, ..fits.clone() },
        Setup { bitmap_factor: f64::NAN, ..fits.clone() },
    ] {
        let failure = run(&wrong, std::path::Path::new("unused"), |_| Ok(Vec::new()));
        assert!(matches!(failure, Err(Failure::Misuse(_))), "{wrong:?}");
    }
    let scratch = Scratch::new("inverted-index-setup");
    let report = run(&fits, &scratch.0, |_| Ok(Vec::new())).unwrap();
    assert_eq!((report.rows.len(), report.columns.len()), (5, 3));
    assert!(table(&report).contains("OR, ids written"));
    let json = json(&report);
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(json.matches(open).count(), json.matches(close).count());
    }
}
