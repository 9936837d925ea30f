//! Makes a case that shows a difference as short as it can be.

use crate::compare::case::Step;

/// How often a case is run at most.
const MOST_RUNS: usize = 400;

/// Drops statements while `differs` holds. `steps` ends with the statement that differs.
pub(crate) fn shortest(steps: &[Step], mut differs: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut kept = steps.to_vec();
    let mut chunk = kept.len() / 2;
    let mut runs = 0;
    while chunk > 0 && runs < MOST_RUNS {
        let mut dropped = false;
        // From the end: later statements depend on earlier ones.
        let mut end = kept.len().saturating_sub(1);
        while end > 0 && runs < MOST_RUNS {
            let from = end.saturating_sub(chunk);
            let mut shorter = kept.clone();
            shorter.drain(from..end);
            runs += 1;
            if differs(&shorter) {
                kept = shorter;
                dropped = true;
            }
            end = from;
        }
        if !dropped || chunk > 1 {
            chunk /= 2;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_statements_that_are_needed_stay() {
        let steps: Vec<Step> = (0..100).map(|n| Step::new('a', n.to_string())).collect();
        let has = |steps: &[Step], n: &str| steps.iter().any(|step| step.sql == n);
        let kept = shortest(&steps, |steps| has(steps, "3") && has(steps, "70") && has(steps, "99"));
        let kept: Vec<&str> = kept.iter().map(|step| step.sql.as_str()).collect();
        assert_eq!(kept, ["3", "70", "99"]);
    }
}
