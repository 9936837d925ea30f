//! How long an answer takes: many runs, each of them verified; and how long it would take if only
//! the bytes had to pass through the processor.

use super::failure::Failure;
use super::query::{Answer, Contestant, Query};
use fearless_simd::{Level, Simd, dispatch};
use std::hint::black_box;
use std::time::Instant;

/// Ids of a page of 4 KiB.
const PAGE_IDS: usize = 512;

/// The times of some runs, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    pub(crate) median_ms: f64,
    pub(crate) fastest_ms: f64,
    pub(crate) slowest_ms: f64,
}

impl Timing {
    /// REQUIRES: there is a time.
    fn of(mut times_ms: Vec<f64>) -> Timing {
        times_ms.sort_by(f64::total_cmp);
        let (n, last) = (times_ms.len(), times_ms.len() - 1);
        Timing {
            median_ms: f64::midpoint(times_ms[last / 2], times_ms[n / 2]),
            fastest_ms: times_ms[0],
            slowest_ms: times_ms[last],
        }
    }
}

/// Measures how long a contestant takes to answer. The first run is not counted.
///
/// # Errors
/// [`Failure::Failed`] if an answer is not `expected`.
pub(crate) fn answer(
    contestant: &mut dyn Contestant,
    query: Query,
    expected: &Answer,
    runs: usize,
) -> Result<Timing, Failure> {
    let mut answer = Answer::default();
    let mut times_ms = Vec::new();
    for run in 0..=runs {
        // What the run before has left must not pass for an answer. An id of each page is enough,
        // and leaves the caches of the processor nearly as they are.
        answer.len = 0;
        answer.room.iter_mut().step_by(PAGE_IDS).for_each(|id| *id = u64::MAX);
        let start = Instant::now();
        contestant.answer(query, &mut answer)?;
        let time_ms = start.elapsed().as_secs_f64() * 1000.0;
        if !answer.is(query, expected) {
            let (name, what, len, right) = (contestant.name(), query.name(), answer.len, expected.len);
            let text = format!("{name}: {what}: a wrong answer with {len} ids; {right} are right");
            return Err(Failure::Failed(text));
        }
        if run > 0 {
            times_ms.push(time_ms);
        }
    }
    Ok(Timing::of(times_ms))
}

/// Measures how long it takes to read so many bytes once, in order, and to write so many. As with
/// contestants, what was written is compared after each run, so the caches of the processor have
/// about the same contents at the beginning of the next.
pub(crate) fn pass(read_bytes: u64, written_bytes: u64, runs: usize) -> Timing {
    let read = vec![1u64; read_bytes.div_ceil(8) as usize];
    let mut written = vec![0u64; written_bytes.div_ceil(8) as usize];
    let expected = vec![read.len() as u64; written.len()];
    let mut times_ms = Vec::new();
    for run in 0..=runs {
        let start = Instant::now();
        let sum = sum(black_box(&read));
        black_box(&mut written[..]).fill(sum);
        black_box(&written);
        let time_ms = start.elapsed().as_secs_f64() * 1000.0;
        black_box(written == expected);
        if run > 0 {
            times_ms.push(time_ms);
        }
    }
    Timing::of(times_ms)
}

/// Adds up all words: the cheapest work that needs each of them. Compiled for several kinds of
/// processors, as the loops over bitmaps are.
fn sum(words: &[u64]) -> u64 {
    dispatch!(Level::new(), simd => simd.vectorize(
        #[inline(always)]
        || words.iter().copied().fold(0, u64::wrapping_add)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let timing = |times: &[f64]| Timing::of(times.to_vec());
        let expected = Timing { median_ms: 2.0, fastest_ms: 1.0, slowest_ms: 9.0 };
        assert_eq!(timing(&[9.0, 1.0, 2.0]), expected);
        assert_eq!(timing(&[9.0, 1.0, 2.5, 1.5]), expected);
        assert_eq!(timing(&[1.0]).median_ms, 1.0);
    }

    #[test]
    fn a_wrong_answer_is_a_failure() {
        struct Wrong;
        impl Contestant for Wrong {
            fn name(&self) -> String {
                "wrong".into()
            }

            fn list_bytes(&self) -> Option<u64> {
                None
            }

            fn answer(&mut self, _query: Query, answer: &mut Answer) -> Result<(), Failure> {
                answer.push(3);
                Ok(())
            }
        }
        let answer_of = |ids: &[u64]| Answer { len: ids.len(), room: ids.to_vec() };
        assert!(answer(&mut Wrong, Query::AndIds, &answer_of(&[3]), 2).is_ok());
        for wrong in [&[4][..], &[3, 4]] {
            assert!(answer(&mut Wrong, Query::AndIds, &answer_of(wrong), 2).is_err());
        }
        assert!(answer(&mut Wrong, Query::AndCount, &answer_of(&[4]), 2).is_ok());
    }
}
