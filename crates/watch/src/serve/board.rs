//! What is known of the target: the last hour of every line, what to look at first, what happened.
//! And what a page is told of it, as JSON. No clock, no network.

use crate::forecast::{Forecast, told_forecast};
use crate::report::{LiveLine, LiveView, live_views};
use crate::sources::{About, Sample, is_of_schema};
use crate::top::outlook::{Outlook, Urgency};
use crate::top::panels::who_waits;
use crate::top::reading::Reading;
use output::units::{show_count, show_size};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write;

/// How long a second is kept, microseconds.
pub(super) const KEPT_US: u64 = 3600 * 1_000_000;
/// The most rows that are kept: one a second.
const KEPT_ROWS: usize = 3600;
/// What happened, the last so many times.
const EVENTS: usize = 20;
/// The most lines of all views: what a server could name without end stays bounded.
const LINES: usize = 120;

/// What is known.
#[derive(Debug)]
pub(super) struct Board {
    about: About,
    views: Vec<LiveView>,
    rows: VecDeque<Row>,
    last: Option<Reading>,
    outlook: Outlook,
    events: VecDeque<(u64, String)>,
    trouble: Option<(u64, String)>,
    newest: Option<Sample>,
}

/// The values of all lines at one moment.
#[derive(Debug)]
struct Row {
    unix_us: u64,
    values: Vec<Option<f64>>,
}

/// What a sample changes for those who look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: it is not newer than the last.
    Nothing,
    /// There is another second: this JSON.
    Second(String),
    /// There are other lines: all must be told again.
    Views,
}

impl Board {
    /// Knows nothing of the target but what it is.
    pub(super) fn new(about: About) -> Board {
        Board {
            about,
            views: live_views(std::iter::empty()),
            rows: VecDeque::new(),
            last: None,
            outlook: Outlook::default(),
            events: VecDeque::new(),
            trouble: None,
            newest: None,
        }
    }

    /// Takes a sample.
    pub(super) fn take(&mut self, sample: Sample) -> Change {
        let last = self.last.as_ref();
        if last.is_some_and(|last| last.unix_us() >= sample.unix_us) {
            return Change::Nothing;
        }
        let schema = |sample: &Sample| {
            let values = sample.values.iter().filter(|value| is_of_schema(&value.0)).cloned().collect();
            Sample::new(sample.unix_us, values)
        };
        let reading = Reading::new(schema(&sample), last.map(Reading::sample));
        let restarted = last.is_some() && !reading.follows();
        if let Some((_, why)) = self.trouble.take() {
            self.happened(sample.unix_us, format!("the target is back after: {why}"));
        } else if restarted {
            self.happened(sample.unix_us, "the target was started again: counters begin anew".to_owned());
        }
        self.newest = Some(sample);
        let names = reading.sample().values.iter().map(|value| value.0.as_str());
        let views = live_views(names);
        let other = views != self.views && keys(&views).len() <= LINES;
        if other {
            let places = places(&keys(&self.views), &keys(&views));
            for row in &mut self.rows {
                row.values = places.iter().map(|place| row.values.get((*place)?).copied()?).collect();
            }
            self.views = views;
        }
        let line = |line: &LiveLine| line.at(|name| reading.level(name), |name| reading.rate(name));
        let values: Vec<Option<f64>> = self.views.iter().flat_map(|view| &view.lines).map(line).collect();
        let from_us = reading.unix_us().saturating_sub(KEPT_US);
        while self.rows.front().is_some_and(|row| row.unix_us < from_us) || self.rows.len() >= KEPT_ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(Row { unix_us: reading.unix_us(), values });
        self.outlook.take(&reading);
        self.last = Some(reading);
        if other { Change::Views } else { Change::Second(self.second()) }
    }

    /// Notes what drives the checkpoint age, which is foretold to reach a limit.
    pub(super) fn is_driven_by(&mut self, driver: String) {
        self.outlook.is_driven_by(driver);
    }

    /// Returns where the age goes, if that is foretold and the target is not gone.
    pub(super) fn forecast(&self) -> Option<Forecast> {
        self.outlook.forecast().map(|(forecast, _)| forecast).filter(|_| self.trouble.is_none())
    }

    /// Notes why there is no sample, and returns what the page is told.
    pub(super) fn fail(&mut self, now_us: u64, why: String) -> String {
        if self.trouble.is_none() {
            self.happened(now_us, format!("no samples: {why}"));
        }
        let since = self.trouble.as_ref().map_or(now_us, |(since, _)| *since);
        self.trouble = Some((since, why));
        self.told_trouble().to_string()
    }

    /// Notes that the target is another one than before: another version, other settings.
    pub(super) fn is_now(&mut self, about: About) {
        self.about = about;
    }

    /// Returns what the target is.
    pub(super) fn about(&self) -> &About {
        &self.about
    }

    /// Returns the last sample, unless the target is gone.
    pub(super) fn newest(&self) -> Option<&Sample> {
        self.newest.as_ref().filter(|_| self.trouble.is_none())
    }

    /// Notes what happened at a moment of the past.
    pub(super) fn note(&mut self, unix_us: u64, what: String) {
        self.happened(unix_us, what);
    }

    /// Returns everything, for a page that shows the past.
    pub(super) fn hello_of_the_past(&self) -> String {
        let mut out = self.hello();
        out.pop();
        out.push_str(",\"past\":true}");
        out
    }

    /// Returns what the page of several targets is told: what it is, and what to look at first.
    pub(super) fn glance(&self) -> Value {
        json!({
            "target": self.about.target,
            "version": self.about.version,
            "first": self.first(),
            "trouble": self.trouble.as_ref().map(|(_, why)| why),
        })
    }

    fn happened(&mut self, unix_us: u64, what: String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((unix_us, what));
    }

    /// Returns everything: the views, the last hour, what to look at first.
    pub(super) fn hello(&self) -> String {
        let views: Vec<Value> = self.views.iter().map(told_view).collect();
        let head = json!({
            "target": self.about.target,
            "version": self.about.version,
            "views": views,
            "first": self.first(),
            "trouble": self.told_trouble(),
            "events": self.told_events(),
        });
        let mut out = head.to_string();
        out.pop();
        out.push_str(",\"t\":[");
        list(&mut out, self.rows.iter().map(|row| (row.unix_us / 1000).to_string()));
        out.push_str("],\"v\":[");
        let lines = self.views.iter().map(|view| view.lines.len()).sum();
        for line in 0..lines {
            out.push_str(if line > 0 { ",[" } else { "[" });
            list(&mut out, self.rows.iter().map(|row| number(row.values.get(line).copied().flatten())));
            out.push(']');
        }
        out.push_str("]}");
        out
    }

    /// Returns the last second.
    fn second(&self) -> String {
        let Some(row) = self.rows.back() else { return "{}".to_owned() };
        let mut out = json!({ "first": self.first(), "events": self.told_events() }).to_string();
        out.pop();
        let _ = write!(out, ",\"t\":{},\"v\":[", row.unix_us / 1000);
        list(&mut out, row.values.iter().map(|value| number(*value)));
        out.push_str("]}");
        out
    }

    fn told_trouble(&self) -> Value {
        self.trouble.as_ref().map_or(Value::Null, |(since_us, why)| {
            let (since, events) = (since_us / 1000, self.told_events());
            json!({ "since": since, "why": why, "events": events, "first": self.first() })
        })
    }

    fn told_events(&self) -> Vec<Value> {
        let event = |(unix_us, what): &(u64, String)| json!({ "t": unix_us / 1000, "what": what });
        self.events.iter().map(event).collect()
    }

    /// Returns what to look at first. While the target is gone no figure is known: those of before
    /// would look like those of now.
    fn first(&self) -> Value {
        let Some(last) = &self.last else { return Value::Null };
        let now = Some(last).filter(|_| self.trouble.is_none());
        let (urgency, text) = match &self.trouble {
            Some((_, why)) => (Urgency::Alarm, format!("no samples: {why}")),
            None => self.outlook.first(),
        };
        let urgency = match urgency {
            Urgency::Calm => "calm",
            Urgency::Unknown => "unknown",
            Urgency::Notable => "notable",
            Urgency::Alarm => "alarm",
        };
        let waits: Vec<Value> = who_waits(now).into_iter().map(|(n, v)| json!([n, v])).collect();
        json!({
            "urgency": urgency,
            "text": text,
            "age": now.and_then(Reading::age_share),
            "soft": now.and_then(Reading::soft_share),
            "tiles": tiles(now, self.outlook.seconds_left()),
            "waits": waits,
            "forecast": now.map(|_| told_forecast(self.outlook.forecast())),
            "hint": self.about.switch_on().map(|sql| format!("more is counted after: {sql}")),
        })
    }
}

/// Returns view and label of every line.
fn keys(views: &[LiveView]) -> Vec<(&str, &str)> {
    views.iter().flat_map(|view| view.lines.iter().map(|line| (view.id, line.label.as_str()))).collect()
}

/// Returns for each line where it was before, if it was there: forces that a server counts come and
/// go with its settings.
fn places(before: &[(&str, &str)], now: &[(&str, &str)]) -> Vec<Option<usize>> {
    now.iter().map(|key| before.iter().position(|old| old == key)).collect()
}

/// Returns the figures at the top: name, value, and more about it. `left` are the seconds to the
/// soft limit, where they are foretold.
fn tiles(now: Option<&Reading>, left: Option<f64>) -> Vec<[String; 3]> {
    let unknown = || "not known".to_owned();
    let level = |name| now.and_then(|now| now.level(name));
    let size = |name| level(name).map_or_else(unknown, show_size);
    let a_second = |rate: Option<f64>| rate.map_or_else(unknown, |n| format!("{}/s", show_count(n)));
    let share = now.and_then(Reading::age_share);
    let of_limit = level("checkpoint_age_limit").map(|limit| {
        let share = share.map_or(String::new(), |share| format!("{:.0} % of ", 100.0 * share));
        format!("{share}{}", show_size(limit))
    });
    let age = level("checkpoint_age_bytes");
    let to_soft = level("checkpoint_age_soft").zip(age).map(|(soft, age)| soft - age);
    let to_limit = level("checkpoint_age_limit").zip(age).map(|(limit, age)| limit - age);
    let (name, room) = match to_soft {
        Some(room) if room > 0.0 => ("to the soft limit", Some(room)),
        _ => ("to the limit", to_limit.map(|room| room.max(0.0))),
    };
    let forecast = left.filter(|_| now.is_some()).map(|left| format!("{} at this rate", length(left)));
    let rows =
        now.and_then(Reading::rows_changed).map(|rows| format!("{} rows changed", a_second(Some(rows))));
    let dirty = level("dirty_pages").map(|pages| format!("{} pages", show_count(pages)));
    let tile =
        |name: &str, value: String, more: Option<String>| [name.to_owned(), value, more.unwrap_or_default()];
    vec![
        tile("checkpoint age", size("checkpoint_age_bytes"), of_limit),
        tile(name, room.map_or_else(unknown, show_size), forecast),
        tile("commits", a_second(now.and_then(|now| now.rate("commits"))), rows),
        tile(
            "dirty pages",
            level("dirty_percent").map_or_else(unknown, |percent| format!("{percent:.1} %")),
            dirty,
        ),
    ]
}

fn length(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

fn told_view(view: &LiveView) -> Value {
    let lines: Vec<Value> =
        view.lines.iter().map(|line| json!({ "label": line.label, "limit": line.limit })).collect();
    json!({
        "id": view.id,
        "title": view.title,
        "note": view.note,
        "unit": view.unit,
        "stacked": view.stacked,
        "lines": lines,
    })
}

fn list(out: &mut String, items: impl Iterator<Item = String>) {
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&item);
    }
}

/// Returns a number for the page, with as many digits as one can see.
fn number(value: Option<f64>) -> String {
    match value {
        Some(v) if v.is_finite() && v.fract() == 0.0 => format!("{v:.0}"),
        Some(v) if v.is_finite() && v.abs() >= 1000.0 => format!("{v:.0}"),
        Some(v) if v.is_finite() => format!("{v:.3}"),
        _ => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::samples::ColumnKind::{Counter, Gauge};

    fn about() -> About {
        About {
            target: "mysql://root@localhost/".to_owned(),
            version: "MariaDB 10.11.19".to_owned(),
            configuration: Vec::new(),
            origins: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn sample(second: u64, uptime: u64, forces: &[&str]) -> Sample {
        let at = second as f64;
        let mut values = vec![
            ("checkpoint_age_bytes".to_owned(), "bytes", Gauge, 1000.0 * at),
            ("checkpoint_age_soft".to_owned(), "bytes", Gauge, 8000.0),
            ("checkpoint_age_limit".to_owned(), "bytes", Gauge, 10_000.0),
            ("commits".to_owned(), "count", Counter, 7.0 * uptime as f64),
            ("uptime_seconds".to_owned(), "s", Gauge, uptime as f64),
            ("innodb_own".to_owned(), "", Counter, 1.0),
        ];
        for force in forces {
            values.push((format!("pages_written_by_force.{force}"), "pages", Counter, at));
        }
        Sample::new(second * 1_000_000, values)
    }

    fn json_of(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// Returns the kept values of a line.
    fn kept(hello: &Value, view: &str, label: &str) -> Value {
        let mut at = 0;
        for one in hello["views"].as_array().unwrap() {
            for line in one["lines"].as_array().unwrap() {
                if one["id"] == view && line["label"] == label {
                    return hello["v"][at].clone();
                }
                at += 1;
            }
        }
        Value::Null
    }

    #[test]
    fn a_page_is_told_the_last_hour_and_what_to_look_at_first() {
        let mut board = Board::new(about());
        assert_eq!(board.take(sample(1, 11, &["sync"])), Change::Views);
        assert!(matches!(board.take(sample(2, 12, &["sync"])), Change::Second(_)));
        assert_eq!(board.take(sample(2, 12, &["sync"])), Change::Nothing);
        let Change::Second(second) = board.take(sample(6, 16, &["sync"])) else { panic!() };
        let (hello, second) = (json_of(&board.hello()), json_of(&second));
        assert_eq!(hello["t"], json!([1000, 2000, 6000]));
        assert_eq!(second["t"], json!(6000));
        assert_eq!(kept(&hello, "checkpoint-age", "checkpoint age"), json!([1000, 2000, 6000]));
        assert_eq!(kept(&hello, "throughput", "commits"), json!([null, 7, 7]));
        assert_eq!(kept(&hello, "flushing-by-force", "sync"), json!([null, 1, 1]));
        assert_eq!(second["first"]["tiles"][1], json!(["to the soft limit", "2.0 KiB", ""]));
        assert_eq!(hello["first"], second["first"]);
    }

    #[test]
    fn lines_that_come_later_do_not_move_those_that_were_there() {
        let mut board = Board::new(about());
        for second in 1..=2 {
            board.take(sample(second, second, &["sync"]));
        }
        assert_eq!(board.take(sample(3, 3, &["adaptive", "sync"])), Change::Views);
        let hello = json_of(&board.hello());
        assert_eq!(kept(&hello, "flushing-by-force", "sync"), json!([null, 1, 1]));
        assert_eq!(kept(&hello, "flushing-by-force", "adaptive"), json!([null, null, null]));
        assert_eq!(kept(&hello, "throughput", "commits"), json!([null, 7, 7]));
    }

    #[test]
    fn a_target_that_dies_and_comes_back_is_said() {
        let mut board = Board::new(about());
        board.take(sample(1, 50, &[]));
        let told = json_of(&board.fail(2_000_000, "no server answers".to_owned()));
        board.fail(3_000_000, "no server answers".to_owned());
        assert_eq!((&told["since"], &told["why"]), (&json!(2000), &json!("no server answers")));
        assert!(board.newest().is_none());
        // The page showed the figures of before as those of now.
        let first = &told["first"];
        assert_eq!(
            (&first["urgency"], &first["text"]),
            (&json!("alarm"), &json!("no samples: no server answers"))
        );
        assert_eq!((&first["age"], &first["soft"]), (&Value::Null, &Value::Null));
        for tile in first["tiles"].as_array().unwrap() {
            assert_eq!((&tile[1], &tile[2]), (&json!("not known"), &json!("")), "{tile}");
        }
        assert!(first["waits"].as_array().unwrap().iter().all(|wait| wait[1] == "not known"), "{first}");
        assert_eq!(json_of(&board.hello())["first"], *first);
        board.take(sample(9, 1, &[]));
        assert!(board.newest().is_some());
        let hello = json_of(&board.hello());
        assert_eq!(hello["trouble"], Value::Null);
        let events: Vec<&str> =
            hello["events"].as_array().unwrap().iter().filter_map(|event| event["what"].as_str()).collect();
        assert_eq!(events, ["no samples: no server answers", "the target is back after: no server answers"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut board = Board::new(about());
        for second in 1..5000 {
            board.take(sample(second, second, &[]));
            board.fail(second * 1_000_000 + 1, "gone".to_owned());
        }
        assert_eq!((board.rows.len(), board.events.len()), (KEPT_ROWS, EVENTS));
        let many: Vec<String> = (0..500).map(|n| format!("f{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        board.take(sample(6000, 6000, &many));
        assert!(keys(&board.views).len() <= LINES);
    }
}
