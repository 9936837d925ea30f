//! `millpond age TARGET`: one line with the checkpoint age, its limit and the share of dirty pages;
//! with `--watch` a line a second, with the forecast.

use crate::collect::pause;
use crate::forecast::{Driver, Forecast, Forecaster, Point, told_forecast};
use crate::sources::{self, About, Sample, Source};
use client::{LoginFlags, Trouble};
use output::failure::{Failure, Outcome};
use output::print;
use output::stop;
use output::units::{parse_time, show_size};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One line: checkpoint age, its limit, share of dirty pages
#[derive(Debug, clap::Args)]
pub struct Age {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    #[command(flatten)]
    login: LoginFlags,
    /// One JSON object, in bytes, for scripts
    #[arg(long)]
    json: bool,
    /// Every figure instead: its value, its meaning, where it comes from or why it is not there
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Go on with a line a second until Ctrl-C, and say when a limit will be reached
    #[arg(long, conflicts_with = "all")]
    watch: bool,
    /// Print only each so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_time, requires = "watch")]
    every: Option<Duration>,
}

impl Age {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let mut source = sources::open(&self.target, &self.login)?;
        if self.watch {
            return self.go_on(source.as_mut());
        }
        let sample = source.sample().map_err(|trouble| Failure::failed(trouble.to_string()))?;
        if self.all {
            let about = source.about();
            print(&format!("{}, {}\n{}", about.target, about.version, sources::table(about, &sample)));
            return Ok(());
        }
        let line = line(source.about(), &sample, self.json).map_err(Failure::failed)?;
        print(&format!("{line}\n"));
        Ok(())
    }

    /// Prints a line a second. A target that is gone is waited for.
    fn go_on(&self, source: &mut dyn Source) -> Outcome {
        stop::install();
        let every = self.every.map_or(1, |every| every.as_secs().max(1));
        let mut watched = Watched::default();
        for second in 0_u64.. {
            let begun = Instant::now();
            let line = match source.sample() {
                Ok(sample) => {
                    watched.take(&sample, source);
                    line_with(source.about(), &sample, &watched, self.json).map_err(Failure::failed)?
                }
                Err(trouble) => without_sample(&trouble, self.json),
            };
            if stop::asked() {
                break;
            }
            if second % every == 0 {
                print(&format!("{line}\n"));
            }
            pause(Duration::from_secs(1).saturating_sub(begun.elapsed()));
        }
        Ok(())
    }
}

/// The forecast of a target that is watched.
#[derive(Debug, Default)]
struct Watched {
    forecaster: Forecaster,
    driver: Driver,
    forecast: Option<Forecast>,
    /// What drives the age, as long as there is a forecast.
    driven_by: Option<String>,
}

impl Watched {
    fn take(&mut self, sample: &Sample, source: &mut dyn Source) {
        self.forecast = self.forecaster.take(Point::of(sample));
        let seconds = sample.unix_us as f64 / 1e6;
        let found = self.driver.take(self.forecast.is_some(), seconds, || source.row_changes());
        self.driven_by = found.or(self.driven_by.take()).filter(|_| self.forecast.is_some());
    }
}

/// Returns the line of a second, with the forecast.
fn line_with(about: &About, sample: &Sample, watched: &Watched, as_json: bool) -> Result<String, String> {
    let line = line(about, sample, as_json)?;
    let forecast = watched.forecast.map(|forecast| (forecast, watched.driven_by.as_deref()));
    if as_json {
        let mut value: Value = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        value["unix_us"] = sample.unix_us.into();
        value["forecast"] = told_forecast(forecast);
        return Ok(value.to_string());
    }
    let mut line = format!("{} {line}", show_clock(sample.unix_us));
    let Some((forecast, driver)) = forecast else { return Ok(line) };
    for (words, left) in [("soft limit", forecast.to_soft), ("limit", forecast.to_limit)] {
        if let Some(left) = left {
            line += &format!("; {words} in {left:.0} s");
        }
    }
    line += &format!(", grows by {}/s for {:.0} s", show_size(forecast.growth.max(0.0)), forecast.rises_for);
    if let Some(driver) = driver {
        line += &format!(", mostly by {driver}");
    }
    Ok(line)
}

/// Returns the time of the day, UTC.
fn show_clock(unix_us: u64) -> String {
    let seconds = unix_us / 1_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn without_sample(trouble: &Trouble, as_json: bool) -> String {
    match as_json {
        true => json!({ "unix_us": sources::now_us(), "error": trouble.to_string() }).to_string(),
        false => format!("{} no sample: {trouble}", show_clock(sources::now_us())),
    }
}

/// Returns the line. An error says why the target does not tell its checkpoint age.
fn line(about: &About, sample: &Sample, as_json: bool) -> Result<String, String> {
    let Some(age) = sample.get("checkpoint_age_bytes") else {
        let reason = about.origins.iter().find(|(name, _)| *name == "checkpoint_age_bytes");
        let reason = reason.and_then(|(_, source)| source.as_ref().err()).map_or("", String::as_str);
        return Err(format!("{} does not tell its checkpoint age: {reason}", about.target));
    };
    let soft = sample.get("checkpoint_age_soft");
    let limit = sample.get("checkpoint_age_limit");
    let dirty = sample.get("dirty_percent");
    if as_json {
        let rounded = dirty.map(|dirty| (dirty * 100.0).round() / 100.0);
        return Ok(json!({
            "checkpoint_age_bytes": age,
            "checkpoint_age_soft": soft,
            "checkpoint_age_limit": limit,
            "dirty_percent": rounded,
        })
        .to_string());
    }
    let limit = match limit.filter(|limit| *limit > 0.0) {
        Some(limit) => format!("{:.1} % of the limit {}", 100.0 * age / limit, show_size(limit)),
        None => "limit unknown".to_owned(),
    };
    let soft = soft.map_or(String::new(), |soft| format!(", soft limit {}", show_size(soft)));
    let dirty = dirty.map_or_else(|| "unknown".to_owned(), |dirty| format!("{dirty:.1} %"));
    Ok(format!("checkpoint age {}, {limit}{soft}; dirty pages {dirty}", show_size(age)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use output::samples::ColumnKind::Gauge;

    fn about() -> About {
        let why = "the user lacks the privilege PROCESS".to_owned();
        About {
            target: "mysql://db/".into(),
            version: "MySQL 5.7.44".into(),
            configuration: Vec::new(),
            origins: vec![("checkpoint_age_bytes", Err(why))],
            refusals: Vec::new(),
        }
    }

    fn sample(values: &[(&str, f64)]) -> Sample {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), "", Gauge, *value));
        Sample::new(0, values.collect())
    }

    #[test]
    fn a_line_a_second_says_when_a_limit_will_be_reached() {
        let sample =
            sample(&[("checkpoint_age_bytes", 12_345_678.0), ("checkpoint_age_limit", 26_461_349.0)]);
        let forecast =
            Forecast { to_soft: Some(4.4), to_limit: Some(17.2), growth: 2_000_000.0, rises_for: 12.0 };
        let driven_by = Some("UPDATE t (90 % of the changed rows)".to_owned());
        let watched = Watched { forecast: Some(forecast), driven_by, ..Watched::default() };
        let mut out = String::new();
        for (watched, as_json) in
            [(&watched, false), (&watched, true), (&Watched::default(), false), (&Watched::default(), true)]
        {
            out += &line_with(&about(), &sample, watched, as_json).unwrap();
            out.push('\n');
        }
        out += &without_sample(&Trouble::Gone("it is down".to_owned()), false)[9..];
        expect![[r#"
            00:00:00 checkpoint age 11.8 MiB, 46.7 % of the limit 25.2 MiB; dirty pages unknown; soft limit in 4 s; limit in 17 s, grows by 1.9 MiB/s for 12 s, mostly by UPDATE t (90 % of the changed rows)
            {"checkpoint_age_bytes":12345678.0,"checkpoint_age_limit":26461349.0,"checkpoint_age_soft":null,"dirty_percent":null,"forecast":{"driver":"UPDATE t (90 % of the changed rows)","growth_bytes":2000000.0,"rises_for_s":12.0,"seconds_to_limit":17.0,"seconds_to_soft_limit":4.0},"unix_us":0}
            00:00:00 checkpoint age 11.8 MiB, 46.7 % of the limit 25.2 MiB; dirty pages unknown
            {"checkpoint_age_bytes":12345678.0,"checkpoint_age_limit":26461349.0,"checkpoint_age_soft":null,"dirty_percent":null,"forecast":null,"unix_us":0}
            no sample: it is down"#]].assert_eq(&out);
    }

    #[test]
    fn the_line_for_people_and_for_scripts() {
        let mut out = String::new();
        let all = [
            ("checkpoint_age_bytes", 12_345_678.0),
            ("checkpoint_age_soft", 23_153_681.0),
            ("checkpoint_age_limit", 26_461_349.0),
            ("dirty_percent", 12.3456),
        ];
        for (values, json) in
            [(&all[..], false), (&all[..], true), (&all[..1], false), (&all[..1], true), (&[], false)]
        {
            let line = line(&about(), &sample(values), json);
            out.push_str(&line.unwrap_or_else(|why| format!("ERROR {why}")));
            out.push('\n');
        }
        expect![[r#"
            checkpoint age 11.8 MiB, 46.7 % of the limit 25.2 MiB, soft limit 22.1 MiB; dirty pages 12.3 %
            {"checkpoint_age_bytes":12345678.0,"checkpoint_age_limit":26461349.0,"checkpoint_age_soft":23153681.0,"dirty_percent":12.35}
            checkpoint age 11.8 MiB, limit unknown; dirty pages unknown
            {"checkpoint_age_bytes":12345678.0,"checkpoint_age_limit":null,"checkpoint_age_soft":null,"dirty_percent":null}
            ERROR mysql://db/ does not tell its checkpoint age: the user lacks the privilege PROCESS
        "#]].assert_eq(&out);
    }
}
