//! What is read of a workload's output: for each name a regular expression with one group, whose
//! text is the number.

use regex::Regex;

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
    pub(crate) fn read(&self, line: &str) -> Option<Vec<(String, f64)>> {
        let number = |(regex, name): &(Regex, String)| {
            let text = regex.captures(line)?.get(1)?.as_str().replace(',', "");
            text.parse().ok().filter(|value: &f64| value.is_finite()).map(|value| (name.clone(), value))
        };
        let found: Vec<(String, f64)> = self.pairs.iter().filter_map(number).collect();
        (!found.is_empty()).then_some(found)
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
        assert_eq!(
            both.read(line).unwrap(),
            [("Sysbench_tps".into(), 1234.5), ("Sysbench_p95".into(), 3.25)]
        );
        assert_eq!(both.read("Threads started!"), None);
        assert_eq!(both.read(" tps: 9999999999999999999999.0 ").unwrap().len(), 1);
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
