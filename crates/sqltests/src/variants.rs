//! How often a test script runs, and how: the comments above its first statement say so.
//!
//! A script may run several times, and has to print the same each time. `engines: A B` runs it with
//! each of these engines as that of tables that name none; in what is printed each of them is
//! called `ENGINE`. Of several lines `each: STATEMENT` one
//! run begins all its connections with each. Where that changes what is printed, `apart NAME:
//! STATEMENT` has an expected output of its own, `SCRIPT.NAME.out`. `apart NAME ENGINE: STATEMENT`
//! is for this engine alone.
//!
//! `round: COLUMN` is for estimates: see [`rounded`].

use std::path::Path;

/// How a script is run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variant<'a> {
    /// The engine of tables that name none.
    pub(super) engine: &'a str,
    /// It is one of several.
    one_of_several: bool,
    /// What each connection begins with.
    pub(super) begin: &'a str,
    /// The name of its own expected output, where it has one.
    apart: Option<&'a str>,
}

impl Variant<'_> {
    /// Returns how the name of the file with the expected output ends.
    pub(super) fn extension(&self) -> String {
        self.apart.map_or_else(|| "out".to_owned(), |name| format!("{name}.out"))
    }

    /// Returns what a run has printed, in the words that all runs have in common.
    pub(super) fn in_common(&self, printed: String) -> String {
        if self.one_of_several { printed.replace(self.engine, "ENGINE") } else { printed }
    }

    /// Returns the statements with which a connection begins, in one line.
    pub(super) fn statements(&self) -> String {
        format!("SET default_storage_engine = {}; {}; ", self.engine, self.begin)
    }
}

/// What the comments above a script's first statement say: the words behind `# ` or, in SQL, `-- `.
pub(super) struct Head<'a>(Vec<&'a str>);

impl<'a> Head<'a> {
    pub(super) fn of(file: &Path, script: &'a str) -> Head<'a> {
        Head::with(script, if is_sql(file) { "--" } else { "#" })
    }

    fn with(script: &'a str, mark: &str) -> Head<'a> {
        let lines = script.lines().map_while(|line| line.strip_prefix(mark));
        Head(lines.map(str::trim_start).collect())
    }

    /// Returns what stands behind a word.
    fn value(&self, word: &str) -> Option<&'a str> {
        self.0.iter().find_map(|line| line.strip_prefix(word))
    }

    /// Returns the options of a server of the script's own.
    pub(super) fn server(&self) -> Option<Vec<&'a str>> {
        Some(self.value("server: ")?.split_whitespace().collect())
    }

    /// Returns the column whose large numbers are rounded.
    pub(super) fn rounded_column(&self) -> Option<&'a str> {
        self.value("round: ").map(str::trim)
    }

    /// Returns how a script is run: at least once.
    pub(super) fn variants(&self) -> Vec<Variant<'a>> {
        let engines =
            self.value("engines: ").map_or_else(|| vec!["Millpond"], |v| v.split_whitespace().collect());
        let one_of_several = engines.len() > 1;
        // Which engine, if not all of them; the name of the output; what connections begin with.
        let mut ways: Vec<(Option<&str>, Option<&str>, &str)> = Vec::new();
        for line in &self.0 {
            if let Some(begin) = line.strip_prefix("each: ") {
                ways.push((None, None, begin));
            }
            if let Some((whose, begin)) = line.strip_prefix("apart ").and_then(|rest| rest.split_once(": ")) {
                let mut whose = whose.split_whitespace();
                let name = whose.next();
                ways.push((whose.next(), name, begin));
            }
        }
        if ways.is_empty() {
            ways.push((None, None, "DO 0"));
        }
        let mut variants = Vec::new();
        for engine in engines {
            let of_engine = ways.iter().filter(|(only, ..)| only.is_none_or(|only| only == engine));
            variants.extend(of_engine.map(|&(_, apart, begin)| Variant {
                engine,
                one_of_several,
                begin,
                apart,
            }));
        }
        variants
    }
}

/// Tells whether a script is for one connection, in the client's own language.
pub(super) fn is_sql(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "sql")
}

/// Returns what a client has printed, with the numbers of 1,000 and more of a column rounded to one
/// digit. They are estimates, which another engine makes in another way.
pub(super) fn rounded(printed: &str, column: &str) -> String {
    let (mut text, mut at) = (String::new(), None);
    for line in printed.lines() {
        let mut values: Vec<String> = line.split('\t').map(str::to_owned).collect();
        match (values.iter().position(|value| value == column), at) {
            (Some(head), _) => at = Some((head, values.len())),
            // A row of the same result has as many values.
            (None, Some((head, all))) if all == values.len() => values[head] = round(&values[head]),
            _ => at = None,
        }
        text.push_str(&values.join("\t"));
        text.push('\n');
    }
    text
}

fn round(value: &str) -> String {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    match value.parse::<u64>() {
        Ok(number) if number >= 1000 => {
            let unit = 10u64.pow(digits as u32 - 1);
            format!("about {}", (number + unit / 2) / unit * unit)
        }
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comments_above_may_name_engines_and_settings() {
        let of = |script| -> Vec<String> {
            let variants = Head::with(script, "#").variants();
            variants.iter().map(|v| format!("{} {} {}", v.extension(), v.engine, v.begin)).collect()
        };
        assert_eq!(of("a: SELECT 1\n# engines: InnoDB"), ["out Millpond DO 0"]);
        assert_eq!(of("# Words\n# engines: A B\na: SELECT 1"), ["out A DO 0", "out B DO 0"]);
        assert_eq!(
            of("# engines: A B\n# each: SET x\n# each: SET y\n"),
            ["out A SET x", "out A SET y", "out B SET x", "out B SET y"]
        );
        assert_eq!(
            of("# engines: A B\n# apart x: SET x\n# apart x B: SET y\n"),
            ["x.out A SET x", "x.out B SET x", "x.out B SET y"]
        );
    }

    #[test]
    fn several_engines_have_one_name() {
        let of = |script| Head::with(script, "#").variants().remove(0).in_common("ENGINE=A".to_owned());
        assert_eq!([of("# engines: A B"), of("# engines: A")], ["ENGINE=ENGINE", "ENGINE=A"]);
    }

    #[test]
    fn sql_has_comments_of_its_own() {
        let of = |name: &str, script| Head::of(Path::new(name), script).variants().len();
        assert_eq!(of("t.sql", "-- engines: A B\nSELECT 1"), 2);
        assert_eq!(of("t.sql", "# engines: A B\nSELECT 1"), 1);
        assert_eq!(of("t.sessions", "# engines: A B\na: SELECT 1"), 2);
    }

    #[test]
    fn a_comment_may_name_options_of_a_server() {
        let of = |script, mark| Head::with(script, mark).server();
        assert_eq!(of("# server: --a=1 --b\na: SELECT 1", "#"), Some(vec!["--a=1", "--b"]));
        assert_eq!(of("-- Words\n-- server: --a\nSELECT 1", "--"), Some(vec!["--a"]));
        assert_eq!(of("SELECT 1\n-- server: --a", "--"), None);
        assert_eq!(of("", "--"), None);
    }

    #[test]
    fn large_numbers_of_a_column_are_rounded() {
        let printed = "id\trows\tref\n1\t8958\t8958\n2\t999\tc\n8958\nid\tkeys\n1\t4479\n";
        let wanted = "id\trows\tref\n1\tabout 9000\t8958\n2\t999\tc\n8958\nid\tkeys\n1\t4479\n";
        assert_eq!(rounded(printed, "rows"), wanted);
        assert_eq!(
            [round("1500"), round("1499"), round("92 (10%)")],
            ["about 2000", "about 1000", "92 (10%)"]
        );
    }
}
