//! What is read of a workload's output: for each name a regular expression with one group, whose
//! text is the number.

use regex::Regex;

/// The unit of what a workload says of itself.
pub(crate) const WORKLOAD_UNIT: &str = "workload";

/// Regular expressions with the names of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extractor {
    pairs: Vec<(Regex, String)>,
}

impl Extractor {
    /// Joins the flags `-r` and `-v`. An error is a sentence.
    pub(crate) fn new(expressions: &[String], names: &[String]) -> Result<Extractor, String> {
        if expressions.len() != names.len() {
            return Err(format!(
                "each -r needs a -v with the name of its number: there are {} and {}",
                expressions.len(),
                names.len()
            ));
        }
        let mut pairs: Vec<(Regex, String)> = Vec::new();
        for (text, name) in expressions.iter().zip(names) {
            let regex = Regex::new(text).map_err(|error| {
                // The last line of the message is the reason; those above draw where.
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                format!("-r {text:?} is no regular expression: {why}")
            })?;
            if regex.captures_len() != 2 {
                return Err(format!("-r {text:?} needs one group in parentheses around the number"));
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            if name.is_empty() || !name.chars().all(plain) {
                return Err(format!("-v {name:?} is no name: letters, digits, _ and . make one"));
            }
            if pairs.iter().any(|(_, other)| other == name) {
                return Err(format!("-v {name} is there twice"));
            }
            pairs.push((regex, name.clone()));
        }
        Ok(Extractor { pairs })
    }

    /// Whether nothing is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the numbers of a line; `None` if no expression fits.
    pub(super) fn read(&self, line: &str, tally: &mut Tally) -> Option<Vec<(String, f64)>> {
        tally.lines += 1;
        let mut found = Vec::new();
        for ((regex, name), fate) in self.pairs.iter().zip(&mut tally.fates) {
            let Some(group) = regex.captures(line).and_then(|groups| groups.get(1)) else { continue };
            match group.as_str().replace(',', "").parse().ok().filter(|value: &f64| value.is_finite()) {
                Some(value) => {
                    found.push((name.clone(), value));
                    *fate = Fate::Number;
                }
                None if *fate == Fate::Unseen => *fate = Fate::NoNumber(group.as_str().to_owned()),
                None => {}
            }
        }
        (!found.is_empty()).then_some(found)
    }

    /// Says which expressions have given no number.
    pub(super) fn unfit(&self, tally: &Tally) -> Vec<String> {
        let why = |((regex, name), fate): (&(Regex, String), &Fate)| {
            let (regex, lines) = (regex.as_str(), tally.lines);
            Some(match fate {
                Fate::Number => return None,
                Fate::NoNumber(text) => {
                    format!("the group of -r '{regex}' is no number but {text:?}, so there is no {name}")
                }
                Fate::Unseen if lines == 0 => format!("no line came from standard input for -r '{regex}'"),
                Fate::Unseen => {
                    format!(
                        "-r '{regex}' fits none of the {lines} lines of standard input, so there is no {name}"
                    )
                }
            })
        };
        self.pairs.iter().zip(&tally.fates).filter_map(why).collect()
    }
}

/// What became of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It fitted no line.
    Unseen,
    /// Its group was this text, and never a number.
    NoNumber(String),
    /// It gave a number.
    Number,
}

/// What became of the expressions.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    lines: u64,
    fates: Vec<Fate>,
}

impl Tally {
    /// Begins before the first line.
    pub(super) fn new(extractor: &Extractor) -> Tally {
        Tally { lines: 0, fates: vec![Fate::Unseen; extractor.pairs.len()] }
    }

    /// Whether no expression has given a number.
    pub(super) fn is_empty(&self) -> bool {
        !self.fates.contains(&Fate::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn numbers_of_sysbench() {
        let expressions = strings(&[r" tps: (\d+\.\d+) ", r"lat \(ms,95%\): (\S+)"]);
        let both = Extractor::new(&expressions, &strings(&["Sysbench_tps", "Sysbench_p95"])).unwrap();
        let line = "[ 5s ] thds: 16 tps: 1234.50 qps: 9000 lat (ms,95%): 3.25 err/s: 0.00";
        let mut tally = Tally::new(&both);
        assert_eq!(
            both.read(line, &mut tally).unwrap(),
            [("Sysbench_tps".into(), 1234.5), ("Sysbench_p95".into(), 3.25)]
        );
        assert_eq!(both.read("Threads started!", &mut tally), None);
        assert_eq!(both.read(" tps: 9999999999999999999999.0 ", &mut tally).unwrap().len(), 1);
        assert_eq!(both.unfit(&tally), Vec::<String>::new());
    }

    /// A collection whose expression fitted no line ended with 0 samples, and as if all were well.
    #[test]
    fn an_expression_that_gives_no_number_is_named() {
        let extractor =
            Extractor::new(&strings(&["a=(.*)", "b=(.*)", "c=(.*)"]), &strings(&["A", "B", "C"])).unwrap();
        let mut tally = Tally::new(&extractor);
        assert!(extractor.unfit(&tally)[0].contains("no line came"));
        assert_eq!(extractor.read("a=n/a", &mut tally), None);
        assert!(tally.is_empty());
        extractor.read("b=1", &mut tally);
        extractor.read("b=x", &mut tally);
        assert!(!tally.is_empty());
        assert_eq!(
            extractor.unfit(&tally),
            [
                "the group of -r 'a=(.*)' is no number but \"n/a\", so there is no A",
                "-r 'c=(.*)' fits none of the 3 lines of standard input, so there is no C",
            ]
        );
    }

    #[test]
    fn wrong_flags_are_named() {
        let error = |expressions: &[&str], names: &[&str]| {
            Extractor::new(&strings(expressions), &strings(names)).unwrap_err()
        };
        assert!(error(&["(a)"], &[]).contains("each -r needs a -v"));
        assert!(error(&["(a"], &["x"]).contains("is no regular expression: unclosed group"));
        assert!(error(&["a"], &["x"]).contains("one group"));
        assert!(error(&["(a)"], &["x y"]).contains("is no name"));
        assert!(error(&["(a)", "(b)"], &["x", "x"]).contains("twice"));
        assert!(Extractor::new(&[], &[]).unwrap().is_empty());
    }
}
