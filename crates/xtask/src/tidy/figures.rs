//! The figures of README: each is one of `docs/performance.md`, rounded. There each has its
//! command, its machine and its day, so that none is left behind when they are measured again.

use super::problem::Report;
use super::source::Tree;

const README: &str = "README.md";
const HEADING: &str = "## How fast";
const SOURCE: &str = "docs/performance.md";
/// A whole number below it is a number of threads or of rows, a size or a part of a date.
const LEAST: f64 = 1000.0;

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    let (Some(readme), Some(source)) = (tree.get(README), tree.get(SOURCE)) else { return };
    let known: Vec<f64> = source.text.lines().flat_map(numbers).map(|number| number.value).collect();
    let lines = readme.text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    for (n, line) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        for number in numbers(line).filter(|number| number.is_figure()) {
            if !known.iter().any(|known| number.rounds(*known)) {
                report(README, n + 1, format!("no figure of {SOURCE} is {} when it is rounded", number.text));
            }
        }
    }
}

/// A number of a text.
struct Number<'t> {
    text: &'t str,
    value: f64,
    /// The place of its last digit that is not a rounded zero.
    unit: f64,
}

impl Number<'_> {
    fn is_figure(&self) -> bool {
        self.text.contains('.') || self.value >= LEAST
    }

    /// Whether it is `known`, rounded.
    fn rounds(&self, known: f64) -> bool {
        (self.value - known).abs() <= self.unit * 0.5000001
    }
}

/// Returns the numbers of a line: digits, with commas between thousands and perhaps a point.
fn numbers(line: &str) -> impl Iterator<Item = Number<'_>> {
    let parts = line.split(|c: char| !(c.is_ascii_digit() || c == ',' || c == '.'));
    parts.map(|part| part.trim_matches([',', '.'])).filter_map(|text| {
        let digits = text.replace(',', "");
        let value = digits.parse().ok()?;
        let unit = match digits.split_once('.') {
            Some((_, decimals)) => 0.1_f64.powi(decimals.len() as i32),
            None => 10_f64.powi((digits.len() - digits.trim_end_matches('0').len()) as i32),
        };
        Some(Number { text, value, unit })
    })
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    #[test]
    fn figures_of_readme_are_those_that_were_measured() {
        let found = |line: &str| {
            let readme = format!("It takes 7.77 s.\n{HEADING}\n\n{line}\n\n## Test it\n\nTake 4,321.");
            let source = "| 16 threads | 54,967 | 0.15 s |\nand 1,558,894 (2026-11-22).";
            made::found_in_text(&[(README, &readme), (SOURCE, source)], check)
        };
        assert!(found("| 16 threads, 2026-11-22 | **55,000** | 1,559,000 | 0.15 s |").is_empty());
        let what = |figure| [format!("README.md:4: no figure of {SOURCE} is {figure} when it is rounded")];
        assert_eq!(found("54,000 a second"), what("54,000"));
        assert_eq!(found("after 0.2 s, or 0.14"), what("0.14"));
    }
}
