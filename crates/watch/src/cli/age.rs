//! `millpond age TARGET`: one line with the checkpoint age, its limit and the share of dirty pages.

use crate::sources::{self, About, Sample};
use client::LoginFlags;
use output::failure::{Failure, Outcome};
use output::print;
use output::units::show_size;
use serde_json::json;

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
}

impl Age {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let mut source = sources::open(&self.target, &self.login)?;
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
