//! Whether a setting is better: a pure function from four blocks of samples, in which the setting
//! was old, new, old and new again.
//!
//! A load changes by itself, so a difference between one time before and one time after proves
//! nothing. Here the effect must come with the setting, go with it, and come again: a change of the
//! load that goes in one direction fails one of the three steps.

use super::measure::{Counts, MEASURES, Measure, mean};
use super::rank::compare;
use output::samples::Samples;
use serde::Serialize;

/// What is said of a measure, and of the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    Worse,
    NoDifference,
}

/// A measure in the four blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) name: &'static str,
    /// Its average in each block.
    pub(super) blocks: [f64; 4],
    /// What the setting does to it, without a drift of the load.
    pub(super) effect: f64,
    /// How probable it is that a time with the new setting has more of it than one with the old.
    pub(super) superiority: f64,
    /// How often chance alone gives such a difference.
    pub(super) p: f64,
    pub(super) verdict: Verdict,
    /// Whether it decides.
    pub(super) decides: bool,
}

/// What is said in all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    /// The length of a bin, seconds.
    pub(super) bin_s: usize,
    pub(super) measures: Vec<Judged>,
    pub(super) verdict: Verdict,
    /// Why, in words.
    pub(super) why: String,
}

/// Chance may give a difference of a measure in this part of all experiments.
const CHANCE: f64 = 0.005;
/// The same of the middle step alone, when the setting goes: it has half of the blocks.
const CHANCE_OF_A_STEP: f64 = 0.05;
/// A bin has no more seconds than this, unless there would be too many bins.
const BIN_S: usize = 5;
/// So many bins of a block are wanted, and no more than so many.
const BINS: (usize, usize) = (6, 20);

/// Judges.
pub(super) fn judge(blocks: &[Samples; 4], fewer_pages: bool) -> Judgement {
    let seconds = blocks.iter().map(|block| block.seconds.len().saturating_sub(1)).min().unwrap_or(0);
    let bin_s = bin_seconds(seconds);
    let of = |measure: &Measure| judge_measure(measure, blocks, bin_s, fewer_pages);
    let measures: Vec<Judged> = MEASURES.iter().filter_map(of).collect();
    let (verdict, why) = decide(&measures);
    Judgement { bin_s, measures, verdict, why }
}

/// Returns the length of a bin of a block of so many seconds.
fn bin_seconds(seconds: usize) -> usize {
    (seconds / BINS.0).clamp(1, BIN_S).max(seconds.div_ceil(BINS.1))
}

/// Judges a measure; `None` if the target does not tell it.
fn judge_measure(
    measure: &Measure,
    blocks: &[Samples; 4],
    bin_s: usize,
    fewer_pages: bool,
) -> Option<Judged> {
    let bins = blocks.each_ref().map(|block| measure.bins(&measure.seconds(block), bin_s));
    let [a1, b1, a2, b2] = &bins;
    let ranked = compare(&[(a1, b1), (a2, b2)])?;
    let means = bins.each_ref().map(|bins| mean(bins));
    let effect = effect(means);
    let least = (measure.least.0 * f64::midpoint(means[0], means[2]).abs()).max(measure.least.1);
    let comes_and_goes = steps(means).iter().all(|step| *step * effect > 0.0);
    // A drift that outweighs the effect shows there.
    let goes = compare(&[(a2, b1)])?.p <= CHANCE_OF_A_STEP;
    let sure = ranked.p <= CHANCE && goes && comes_and_goes && effect != 0.0 && effect.abs() >= least;
    let verdict = match sure {
        false => Verdict::NoDifference,
        true if (effect > 0.0) == measure.more_is_better => Verdict::Better,
        true => Verdict::Worse,
    };
    let decides = match measure.counts {
        Counts::Always => true,
        Counts::IfPages => fewer_pages,
        Counts::Never => false,
    };
    let (superiority, p) = (ranked.superiority, ranked.p);
    Some(Judged { name: measure.name, blocks: means, effect, superiority, p, verdict, decides })
}

/// Returns what changed when the setting was changed: to the new value, away from it (the sign is
/// turned round), and to it again.
fn steps([a1, b1, a2, b2]: [f64; 4]) -> [f64; 3] {
    [b1 - a1, b1 - a2, b2 - a2]
}

/// Returns the effect: the average of the first and last step, and of the middle one. A drift that
/// is straight or a parabola over the four blocks is not in it.
fn effect(means: [f64; 4]) -> f64 {
    let [first, middle, last] = steps(means);
    (first + 2.0 * middle + last) / 4.0
}

/// Decides: one measure that is worse is enough against the setting, and else one that is better
/// for it.
fn decide(measures: &[Judged]) -> (Verdict, String) {
    let of = |verdict: Verdict| {
        let named = measures.iter().filter(|one| one.decides && one.verdict == verdict);
        named.map(|one| format!("{} {}", one.name, change(one))).collect::<Vec<_>>()
    };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    if !worse.is_empty() {
        return (Verdict::Worse, worse.join("; "));
    }
    if !better.is_empty() {
        return (Verdict::Better, better.join("; "));
    }
    let why = "nothing changed with the setting, each time, by more than chance and by enough to matter";
    (Verdict::NoDifference, why.to_owned())
}

/// Writes the effect: in percent of the figure before, or as it is where that is small.
pub(super) fn change(one: &Judged) -> String {
    let before = f64::midpoint(one.blocks[0], one.blocks[2]);
    if one.name.contains('%') {
        format!("{:+.0} points", one.effect)
    } else if before.abs() < 1.0 {
        format!("{:+.1}", one.effect)
    } else {
        format!("{:+.0} %", 100.0 * one.effect / before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_no_effect() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(effect([10.0, 20.0, 30.0, 40.0]), 0.0), "straight");
        assert!(near(effect([1.0, 4.0, 9.0, 16.0]), 0.0), "a parabola");
        assert!(near(effect([10.0, 15.0, 10.0, 15.0]), 5.0));
        assert!(near(effect([10.0, 25.0, 30.0, 45.0]), 5.0), "both");
    }

    #[test]
    fn bins_are_few_enough_to_be_independent_and_many_enough_to_decide() {
        let table = [(5, 1), (6, 1), (12, 2), (30, 5), (60, 5), (100, 5), (120, 6), (600, 30), (0, 1)];
        for (seconds, bin_s) in table {
            assert_eq!(bin_seconds(seconds), bin_s, "{seconds}");
        }
    }
}
