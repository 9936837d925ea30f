//! What an experiment has found: rows, a conclusion, and how it was scaled.

use super::about::About;
use output::report::page::{Table, columns};
use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What is counted.
    pub(crate) what: String,
    /// The article's figure, as it stands there; `None` if it has none.
    pub(crate) published: Option<String>,
    /// What was measured here; `None` if that does not exist there, or cannot be known.
    pub(crate) innodb: Option<f64>,
    /// Millpond, in the process.
    pub(crate) millpond: Option<f64>,
    /// Millpond in a server, if the plugin is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) millpond_in_server: Option<f64>,
    /// The best that this machine allows, by first principles.
    pub(crate) bound: Option<f64>,
    pub(crate) unit: String,
}

impl Row {
    /// Makes a row without a bound.
    pub(crate) fn new(
        what: &str,
        published: Option<&str>,
        innodb: Option<f64>,
        millpond: Option<f64>,
        unit: &str,
    ) -> Row {
        Row {
            what: what.to_owned(),
            published: published.map(str::to_owned),
            innodb,
            millpond,
            millpond_in_server: None,
            bound: None,
            unit: unit.to_owned(),
        }
    }

    /// Returns the cells of the table; `server` says whether it has a column for the server.
    fn cells(&self, server: bool) -> Vec<String> {
        let show = |value: Option<f64>| value.map_or("-".to_owned(), figure);
        let gap = self.bound.zip(self.millpond).filter(|(bound, own)| *bound > 0.0 && *own > 0.0);
        let mut cells = vec![
            self.what.clone(),
            self.published.clone().unwrap_or_else(|| "-".to_owned()),
            show(self.innodb),
            show(self.millpond),
        ];
        cells.extend(server.then(|| show(self.millpond_in_server)));
        cells.push(show(self.bound));
        cells.push(
            gap.map_or("-".to_owned(), |(bound, own)| format!("{:.1}", (bound / own).max(own / bound))),
        );
        cells.push(self.unit.clone());
        cells
    }
}

/// Returns a number with about three digits.
pub(super) fn figure(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// What an experiment has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) rows: Vec<Row>,
    /// Whether the article's conclusion holds here, in a sentence.
    pub(crate) holds: String,
    /// What is smaller or different here.
    pub(crate) scaled: String,
    /// How long all of it took.
    pub(crate) seconds: f64,
    /// "ok", or what the runs found wrong with their own results.
    pub(crate) check: String,
}

/// A finding with what it belongs to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) article: String,
    pub(crate) claim: String,
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

impl Record {
    pub(crate) fn new(about: &About, finding: Finding) -> Record {
        let About { id, article, claim, .. } = about;
        Record { id: (*id).to_owned(), article: (*article).to_owned(), claim: (*claim).to_owned(), finding }
    }

    /// Returns all of it for a terminal.
    pub(crate) fn text(&self) -> String {
        let Finding { holds, scaled, check, .. } = &self.finding;
        format!(
            "\n{}   {}\n{:<10} {}\n{}\n{:<10} {holds}\n{:<10} {scaled}\n{:<10} {check}\n",
            self.id,
            self.article,
            "claim",
            self.claim,
            self.finding.table().text(),
            "here",
            "scaled",
            "check",
        )
    }
}

impl Finding {
    /// Returns the rows for people.
    pub(crate) fn table(&self) -> Table {
        let server = self.rows.iter().any(|row| row.millpond_in_server.is_some());
        let mut heads = vec!["figure", "published", "InnoDB here", "Millpond here"];
        heads.extend(server.then_some("in the server"));
        heads.extend(["bound", "gap", "unit"]);
        Table {
            caption: String::new(),
            names: 1,
            columns: columns(&heads),
            rows: self.rows.iter().map(|row| row.cells(server)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::to_json;
    use expect_test::expect;

    const ABOUT: About = About { id: "D2.B19", with: &["B18"], article: "Somebody", claim: "It is fast" };

    fn finding() -> Finding {
        let mut row = Row::new("rate", Some("5 300"), Some(2706.4), Some(4492.0), "a second");
        row.bound = Some(9000.0);
        Finding {
            rows: vec![row, Row::new("a sync", None, None, Some(0.52), "ms")],
            holds: "It holds.".to_owned(),
            scaled: "Nothing.".to_owned(),
            check: "ok".to_owned(),
            seconds: 3.5,
        }
    }

    #[test]
    fn a_finding_for_people() {
        expect![[r#"

            D2.B19   Somebody
            claim      It is fast
            figure  published  InnoDB here  Millpond here  bound  gap      unit
            rate        5 300         2706           4492   9000  2.0  a second
            a sync          -            -          0.520      -    -        ms

            here       It holds.
            scaled     Nothing.
            check      ok
        "#]]
        .assert_eq(&Record::new(&ABOUT, finding()).text());
    }

    #[test]
    fn findings_are_a_list_in_json() {
        expect![[r#"
            [
              {
                "id": "D2.B19",
                "article": "Somebody",
                "claim": "It is fast",
                "rows": [
                  {
                    "what": "rate",
                    "published": "5 300",
                    "innodb": 2706.4,
                    "millpond": 4492.0,
                    "bound": 9000.0,
                    "unit": "a second"
                  },
                  {
                    "what": "a sync",
                    "published": null,
                    "innodb": null,
                    "millpond": 0.52,
                    "bound": null,
                    "unit": "ms"
                  }
                ],
                "holds": "It holds.",
                "scaled": "Nothing.",
                "seconds": 3.5,
                "check": "ok"
              }
            ]
        "#]]
        .assert_eq(&to_json(&[Record::new(&ABOUT, finding())]));
    }
}
