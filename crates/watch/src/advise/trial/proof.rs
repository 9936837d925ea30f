//! What an experiment has shown, as JSON and as a table.

use super::plan::Plan;
use super::verdict::{Judged, Judgement, Verdict, change};
use crate::wrap::wrapped;
use serde::Serialize;

/// The blocks, by the names of their directories.
pub(super) const BLOCKS: [&str; 4] = ["1-before", "2-after", "3-before", "4-after"];
/// The file of the proof.
pub(super) const PROOF: &str = "proof.json";
const FORMAT: &str = "millpond proof 1";
/// The widest line, unless a statement is longer.
const COLUMNS: usize = 100;
const INDENT: usize = 10;

/// What an experiment has shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Proof {
    #[serde(flatten)]
    made: Made,
    pub(super) target: String,
    pub(super) version: String,
    #[serde(flatten)]
    change: Change,
    /// The length of each block, seconds.
    block_s: u64,
    /// The length of a bin: each is one value in the test, seconds.
    bin_s: usize,
    /// The blocks and when each began.
    pub(super) blocks: Vec<BlockOf>,
    test: &'static str,
    measures: Vec<Judged>,
    pub(super) verdict: Verdict,
    why: String,
    /// Whether the new value stays.
    pub(super) kept: bool,
}

/// What has made a proof.
#[derive(Clone, Copy, Debug, Serialize)]
struct Made {
    format: &'static str,
    program: &'static str,
}

/// What was tried.
#[derive(Clone, Debug, Serialize)]
struct Change {
    rule: &'static str,
    finding: String,
    #[serde(rename = "do")]
    statements: Vec<String>,
    undo: Vec<String>,
}

/// A block.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BlockOf {
    /// Its directory.
    pub(super) name: &'static str,
    /// When it began, UTC.
    pub(super) began: String,
    /// How many samples it has.
    pub(super) samples: usize,
}

impl Proof {
    pub(super) fn new(plan: &Plan, undo: Vec<String>, block_s: u64, judgement: Judgement) -> Proof {
        Proof {
            made: Made { format: FORMAT, program: concat!("millpond ", env!("CARGO_PKG_VERSION")) },
            target: String::new(),
            version: String::new(),
            change: Change {
                rule: plan.rule,
                finding: plan.finding.clone(),
                statements: plan.statements.clone(),
                undo,
            },
            block_s,
            bin_s: judgement.bin_s,
            blocks: Vec::new(),
            test: "exact van Elteren test over the pairs of blocks",
            measures: judgement.measures,
            verdict: judgement.verdict,
            why: judgement.why,
            kept: judgement.verdict == Verdict::Better,
        }
    }

    /// Returns it as JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|_| "{}".to_owned()) + "\n"
    }

    /// Returns it as text, for the directory where its files are.
    pub(super) fn text(&self, dir: &str) -> String {
        let mut out = format!(
            "{}, {}: {}, 4 blocks of {} s\n\n",
            self.target, self.version, self.change.rule, self.block_s
        );
        for (name, statements) in [("do", &self.change.statements), ("undo", &self.change.undo)] {
            for (at, statement) in statements.iter().enumerate() {
                out.push_str(&format!("{:INDENT$}{statement}\n", if at == 0 { name } else { "" }));
            }
        }
        out.push('\n');
        out.push_str(&table(&self.measures));
        out.push('\n');
        let verdict = match self.verdict {
            Verdict::Better => "better: ",
            Verdict::Worse => "worse: ",
            Verdict::NoDifference => "no difference: ",
        };
        out.push_str(&wrapped("verdict", &format!("{verdict}{}", self.why), INDENT, COLUMNS));
        let now = match self.kept {
            true => format!(
                "kept; {dir}/undo.sql puts the old value back. After a restart the new one is gone unless it is in \
                 the option file too"
            ),
            false => "put back: the server has its old settings".to_owned(),
        };
        out.push_str(&wrapped("now", &now, INDENT, COLUMNS));
        out.push_str(&wrapped(
            "files",
            &format!("{dir}/{PROOF}; millpond plot {dir}/*-* --out DIR",),
            INDENT,
            COLUMNS,
        ));
        out
    }
}

/// Writes a line for each measure.
fn table(measures: &[Judged]) -> String {
    let mut out = format!(
        "{:32}{:>8}{:>8}{:>8}{:>8}{:>12}{:>8}\n",
        "", "before", "after", "before", "after", "effect", "chance"
    );
    for one in measures {
        let [a1, b1, a2, b2] = one.blocks.map(figure);
        let verdict = match (one.verdict, one.decides) {
            (_, false) => "(shown only)",
            (Verdict::Better, _) => "better",
            (Verdict::Worse, _) => "worse",
            (Verdict::NoDifference, _) => "",
        };
        let (effect, chance) = (change(one), chance(one.p));
        let line = format!("{:32}{a1:>8}{b1:>8}{a2:>8}{b2:>8}{effect:>12}{chance:>8}  {verdict}", one.name);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn figure(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn chance(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}
