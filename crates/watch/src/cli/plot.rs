//! `millpond plot DIR… --out DIR`: draws what `collect` or a flight recorder has written.

use crate::plot::{self, Input, Window};
use crate::report::{SUMMARY, WatchedReport};
use crate::sources;
use output::failure::{Failure, Outcome};
use output::print;
use output::report;
use output::stop;
use output::units::{parse_moment, parse_seconds};
use std::path::PathBuf;
use std::time::Duration;

/// More lines than this in a plot cannot be told apart.
const INPUTS: usize = 6;

/// Draw collections and flight recorders
#[derive(Debug, clap::Args)]
pub struct Plot {
    /// Directories of `collect`, recordings (`record`), databases (their flight recorder), or
    /// reports of `run --report`; several are compared
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// The directory of the SVG files and the page; an older report there is replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Leave out the first seconds
    #[arg(short = 's', value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    skip: Duration,
    /// Only from this time on, in UTC: 14:03, -10m, 2026-11-24T14:03 [default: all; of a recording
    /// the last hour]
    #[arg(long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true)]
    from: Option<u64>,
    /// Only until this time
    #[arg(long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true)]
    until: Option<u64>,
    /// Only these figures, each in a plot of its own; counters a second
    #[arg(short = 'o', value_name = "NAME,...", value_delimiter = ',')]
    figures: Vec<String>,
    /// All lines in one plot, each in percent of its greatest value
    #[arg(short = '1')]
    single: bool,
    /// Write average, deviation and sum of each line into the plots, and print them
    #[arg(short = 'a')]
    averages: bool,
}

impl Plot {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if self.dirs.len() > INPUTS {
            return Err(Failure::misuse(format!("at most {INPUTS} directories can be told apart in a plot")));
        }
        let window = Window { from_us: self.from, until_us: self.until };
        let mut inputs = self
            .dirs
            .iter()
            .map(|dir| {
                plot::load_part(dir, window, self.skip.as_secs_f64(), &|name, unit| self.wants(name, unit))
            })
            .collect::<Outcome<Vec<Input>>>()?;
        tell_apart(&mut inputs);
        let report = WatchedReport {
            inputs: &inputs,
            figures: &self.figures,
            single: self.single,
            averages: self.averages,
            command: report::command(),
        };
        let drawing = report.draw().map_err(Failure::misuse)?;
        // From here on Ctrl-C waits until all files are whole: it takes a moment.
        stop::install();
        let out = report::claim_for(&self.out, &drawing.files)?;
        let page = report::write(out, &drawing.files)?;
        if self.averages {
            print(&drawing.averages);
        }
        print(&format!("{}\n", drawing.summary));
        let plots = drawing.files.len() - 1;
        print(&format!("{plots} {}, all in {page}\n", if plots == 1 { "plot" } else { "plots" }));
        Ok(())
    }

    /// Whether a column is read: for the views the schema, and what the workload said.
    fn wants(&self, name: &str, unit: &str) -> bool {
        let summed = unit == crate::collect::WORKLOAD_UNIT || SUMMARY.contains(&name);
        if !self.figures.is_empty() && !summed {
            let same = |figure: &String| {
                figure.eq_ignore_ascii_case(name)
                    || figure.eq_ignore_ascii_case("checkpoint_age") && name == "checkpoint_age_bytes"
            };
            return self.figures.iter().any(same);
        }
        summed
            || name.starts_with("pages_written_by_force.")
            || sources::FIGURES.iter().any(|figure| figure.name == name)
    }
}

/// Parses a moment in the past.
pub(super) fn parse_past(text: &str) -> Result<u64, String> {
    parse_moment(text, sources::now_us())
}

/// Gives inputs of the same name their paths as names.
fn tell_apart(inputs: &mut [Input]) {
    let labels: Vec<String> = inputs.iter().map(|input| input.label.clone()).collect();
    for input in inputs {
        if labels.iter().filter(|label| **label == input.label).count() > 1 {
            input.label.clone_from(&input.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::input;

    #[test]
    fn inputs_of_the_same_name_are_told_apart_by_their_paths() {
        let mut inputs = [input("a/run", 1.0), input("b/run", 1.0), input("c/other", 1.0)];
        tell_apart(&mut inputs);
        assert_eq!(inputs.map(|input| input.label), ["a/run", "b/run", "other"]);
    }
}
