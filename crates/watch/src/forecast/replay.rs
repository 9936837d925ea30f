//! Feeds the forecast with what was recorded, and shows how good it was.

use super::point::Point;
use super::rule::Forecaster;
use super::score::{Event, Moment, Score, score};
use crate::plot::{Input, Window, load_part};
use output::failure::{Failure, Outcome};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// The figures that a forecast needs.
const FIGURES: [&str; 8] = [
    "checkpoint_age_bytes",
    "checkpoint_age_soft",
    "checkpoint_age_limit",
    "current_lsn",
    "dirty_pages",
    "pages_written",
    "io_capacity_max",
    "throttled_us_total",
];
/// The setting whose figure older recordings do not have.
const FORCE: &str = "innodb_io_capacity_max";

/// How good the forecasts were in some directories.
#[derive(Debug)]
pub(crate) struct Judged {
    parts: Vec<(String, Score)>,
    all: Score,
}

/// Judges recordings and collections; all of each.
pub(crate) fn judge(dirs: &[PathBuf]) -> Outcome<Judged> {
    let (mut parts, mut all) = (Vec::new(), Score::default());
    let window = Window { from_us: Some(0), until_us: None };
    for dir in dirs {
        let input = load_part(dir, window, 0.0, &|name, _| FIGURES.contains(&name))?;
        let score = score(&moments(&input));
        if score.seconds == 0.0 {
            let why = "has no checkpoint age with its limits, a second after the other";
            return Err(Failure::misuse(format!("{} {why}", dir.display())));
        }
        all.add(&score);
        parts.push((input.label, score));
    }
    Ok(Judged { parts, all })
}

/// Returns what was said at each second of a recording.
pub(super) fn moments(input: &Input) -> Vec<Moment> {
    let column = |name: &str| input.samples.columns.get(name).map(|column| &column.values);
    let columns = FIGURES.map(|name| (name, column(name)));
    let force = input.settings.get(FORCE).and_then(|text| text.parse().ok());
    let mut forecaster = Forecaster::default();
    let at = |(i, seconds): (usize, &f64)| {
        let get = |wanted: &str| {
            let values = columns.iter().find(|(name, _)| *name == wanted).and_then(|(_, values)| *values);
            let value = values.and_then(|values| values.get(i).copied().flatten());
            value.or(force.filter(|_| wanted == "io_capacity_max"))
        };
        let point = Point::from(*seconds, get);
        let forecast = forecaster.take(point);
        let Point { seconds, age, soft, limit, .. } = point?;
        let left = forecast.and_then(|forecast| forecast.to_limit);
        Some(Moment { seconds, share: age / limit, soft: soft / limit, left })
    };
    input.samples.seconds.iter().enumerate().filter_map(at).collect()
}

const HEAD: &str =
    "                          hours  events  too fast  foreseen  recall  said  wrong  precision  wrong/h\n";

impl Judged {
    /// Returns the score of all directories.
    #[cfg(test)]
    pub(super) fn all(&self) -> &Score {
        &self.all
    }

    /// Shows a line for each directory, and one for all.
    pub(crate) fn text(&self) -> String {
        let mut out = HEAD.to_owned();
        for (label, score) in &self.parts {
            out += &line(label, score);
        }
        if self.parts.len() > 1 {
            out += &line("all", &self.all);
        }
        let slow = |event: &&Event| !event.is_too_fast();
        let missed = |event: &&Event| slow(event) && !event.is_foreseen();
        for (label, score) in &self.parts {
            for event in score.events.iter().filter(missed) {
                let lead =
                    event.lead.map_or("not said".to_owned(), |lead| format!("said {lead:.0} s before"));
                let _ = writeln!(
                    out,
                    "missed: {label} at {:.0} s after a rise of {:.0} s, {:.0} s of them above the soft limit; {lead}",
                    event.at, event.rise, event.above_soft
                );
            }
            for at in &score.wrong {
                let _ = writeln!(out, "wrong:  {label} at {at:.0} s");
            }
        }
        out
    }

    /// Returns the same as JSON.
    pub(crate) fn json(&self) -> String {
        let told = |label: &str, score: &Score| {
            let mut value = serde_json::to_value(score).unwrap_or_default();
            value["name"] = label.into();
            value["too_fast"] = score.too_fast().into();
            value["foreseen"] = score.foreseen().into();
            value["recall"] = json!(score.recall());
            value["precision"] = json!(score.precision());
            value["false_alarms_an_hour"] = json!(score.false_an_hour());
            value
        };
        let parts: Vec<Value> = self.parts.iter().map(|(label, score)| told(label, score)).collect();
        format!("{:#}\n", json!({ "directories": parts, "all": told("all", &self.all) }))
    }
}

fn line(label: &str, score: &Score) -> String {
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    format!(
        "{label:24} {:6.2} {:7} {:9} {:9} {:>7} {:5} {:6} {:>10} {:>8}\n",
        score.seconds / 3600.0,
        score.events.len(),
        score.too_fast(),
        score.foreseen(),
        ratio(score.recall()),
        score.right + score.wrong.len(),
        score.wrong.len(),
        ratio(score.precision()),
        ratio(score.false_an_hour()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_directory_without_a_checkpoint_age_is_named() {
        let scratch = Scratch::new("forecast");
        let dir = scratch.0.join("db");
        let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap();
        db.close().unwrap();
        assert!(judge(&[scratch.0.join("no")]).is_err());
        let why = judge(&[dir]).map(|judged| judged.text()).unwrap_or_else(|failure| failure.to_string());
        assert!(why.contains("no checkpoint age") || why.contains("hours"), "{why}");
    }
}
