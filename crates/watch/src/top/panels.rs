//! What each panel shows: lines of figures, and the history of one of them.

use super::reading::Reading;
use super::state::State;
use crate::wrap::wrapped;
use output::units::{show_count, show_micros, show_size};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

/// Gives the lines of a panel that has so many columns.
type Lines = Box<dyn Fn(usize) -> Vec<Line<'static>>>;

/// Takes a value from a reading.
type Value = Box<dyn Fn(&Reading) -> Option<f64>>;

/// A panel.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) lines: Lines,
    pub(crate) history: Option<History>,
}

/// The history of a value, drawn below the lines.
pub(crate) struct History {
    pub(crate) of: Value,
    /// The value that fills the panel's height; the greatest one if there is none.
    pub(crate) full: Option<u64>,
}

impl History {
    fn rate(name: &'static str) -> Option<History> {
        Some(History { of: Box::new(move |reading| reading.rate(name)), full: None })
    }

    fn level(name: &'static str) -> Option<History> {
        Some(History { of: Box::new(move |reading| reading.level(name)), full: None })
    }
}

/// A line: what it is, and its value.
pub(crate) type Figure = (&'static str, String);

fn panel(title: impl Into<String>, figures: Vec<Figure>, history: Option<History>) -> Panel {
    let lines = move |width: usize| {
        figures.iter().map(|(name, value)| figure(name, value, width)).collect::<Vec<_>>()
    };
    Panel { title: title.into(), lines: Box::new(lines), history }
}

/// Returns a line with a name on the left and a value on the right.
fn figure(name: &str, value: &str, width: usize) -> Line<'static> {
    let room = width.saturating_sub(name.chars().count() + 2);
    Line::from(format!(" {name}{value:>room$} "))
}

fn unknown() -> String {
    "not known".to_owned()
}

fn count(value: Option<f64>) -> String {
    value.map_or_else(unknown, |n| if n > 0.0 && n < 10.0 { format!("{n:.1}") } else { show_count(n) })
}

fn size(value: Option<f64>) -> String {
    value.map_or_else(unknown, show_size)
}

fn size_rate(value: Option<f64>) -> String {
    value.map_or_else(unknown, |bytes| format!("{}/s", show_size(bytes)))
}

/// Gives the levels and rates of the last reading.
struct Last<'s>(Option<&'s Reading>);

impl Last<'_> {
    fn level(&self, name: &str) -> Option<f64> {
        self.0.and_then(|reading| reading.level(name))
    }

    fn rate(&self, name: &str) -> Option<f64> {
        self.0.and_then(|reading| reading.rate(name))
    }
}

/// The checkpoint age against its limits.
pub(crate) fn age(state: &State) -> Panel {
    let last = Last(state.last());
    let (age, limit, soft) = (
        last.level("checkpoint_age_bytes"),
        last.level("checkpoint_age_limit").filter(|limit| *limit > 0.0),
        last.level("checkpoint_age_soft"),
    );
    let mut text = format!("{} of {}", size(age), size(limit));
    if let (Some(age), Some(limit)) = (age, limit) {
        text += &format!(", {:.0} %", 100.0 * age / limit);
    }
    if let Some(soft) = soft {
        text += &format!("; soft limit {}", show_size(soft));
    }
    if let Some(left) = state.outlook().seconds_left() {
        text += &format!(" in {left:.0} s at this rate");
    }
    if let Some(left) = state.outlook().forecast().and_then(|(forecast, _)| forecast.to_limit) {
        text += &format!("; limit in {left:.0} s");
    }
    let lines = move |width: usize| {
        let inside = width.saturating_sub(2);
        let text = text.chars().take(inside).collect::<String>();
        vec![Line::from(format!(" {text}")), age_bar(age, limit, soft, inside)]
    };
    let full = limit.map(|limit| limit as u64);
    let of = Box::new(|reading: &Reading| reading.level("checkpoint_age_bytes"));
    Panel { title: "checkpoint age".into(), lines: Box::new(lines), history: Some(History { of, full }) }
}

/// Returns a bar of the age up to its limit, with a mark at the soft limit.
pub(super) fn age_bar(
    age: Option<f64>,
    limit: Option<f64>,
    soft: Option<f64>,
    width: usize,
) -> Line<'static> {
    let (Some(age), Some(limit)) = (age, limit) else { return Line::from(" the limit is not known") };
    let at = |bytes: f64| ((bytes / limit) * width as f64).round().clamp(0.0, width as f64) as usize;
    let (filled, mark) = (at(age), soft.map(at));
    let cell = |i: usize| match mark {
        Some(mark) if mark == i => '│',
        _ if i < filled => '█',
        _ => '·',
    };
    let color = match mark {
        _ if age >= 0.97 * limit => Color::Red,
        Some(mark) if filled >= mark => Color::Yellow,
        _ => Color::Green,
    };
    let bar: String = (0..width).map(cell).collect();
    Line::from(Span::styled(format!(" {bar}"), Style::new().fg(color)))
}

/// Transactions and rows.
pub(crate) fn throughput(state: &State) -> Panel {
    let last = Last(state.last());
    let rows = state.last().and_then(Reading::rows_changed);
    let figures = vec![
        ("commits/s", count(last.rate("commits"))),
        ("rows changed/s", count(rows)),
        ("redo", size_rate(last.rate("redo_bytes_written"))),
    ];
    panel("throughput", figures, History::rate("commits"))
}

/// Free, clean and dirty pages: a bar and the shares.
pub(crate) fn pool_short(state: &State) -> Panel {
    let last = Last(state.last());
    let (all, free, dirty, data) = (
        last.level("buffer_frames"),
        last.level("free_frames"),
        last.level("dirty_pages"),
        last.level("lru_pages"),
    );
    let percent = last.level("dirty_percent");
    let lines = move |width: usize| {
        let inside = width.saturating_sub(2);
        let clean = data.zip(dirty).map(|(data, dirty)| (data - dirty).max(0.0));
        vec![
            pool_bar(dirty, clean, all, inside),
            figure(
                "█ dirty",
                &format!("{}, {}", count(dirty), percent.map_or_else(unknown, |p| format!("{p:.1} %"))),
                width,
            ),
            figure("▒ clean", &count(clean), width),
            figure("· free", &count(free), width),
        ]
    };
    let full = Some(100);
    let of = Box::new(|reading: &Reading| reading.level("dirty_percent"));
    Panel { title: "buffer pool, pages".into(), lines: Box::new(lines), history: Some(History { of, full }) }
}

/// Returns a bar of dirty, clean and other pages.
fn pool_bar(dirty: Option<f64>, clean: Option<f64>, all: Option<f64>, width: usize) -> Line<'static> {
    let (Some(dirty), Some(clean), Some(all)) = (dirty, clean, all.filter(|all| *all > 0.0)) else {
        return Line::from(" the pages are not known");
    };
    let cells = |pages: f64| ((pages / all) * width as f64).round() as usize;
    let black = cells(dirty).min(width);
    let grey = cells(dirty + clean).min(width).max(black);
    let bar: String = (0..width)
        .map(|i| {
            if i < black {
                '█'
            } else if i < grey {
                '▒'
            } else {
                '·'
            }
        })
        .collect();
    Line::from(format!(" {bar}"))
}

/// The buffer pool and its reads and writes.
pub(crate) fn pool(state: &State) -> Panel {
    let short = pool_short(state);
    let last = Last(state.last());
    let more = [
        ("pages read/s", count(last.rate("pages_read"))),
        ("pages written/s", count(last.rate("pages_written"))),
        ("from the dirty list/s", count(last.rate("pages_flushed_list"))),
        ("for free pages/s", count(last.rate("pages_flushed_lru"))),
        ("to the doublewrite/s", count(last.rate("doublewrite_pages"))),
        ("waits for free pages/s", count(last.rate("free_frame_waits"))),
    ];
    let lines = move |width: usize| {
        let mut lines = (short.lines)(width);
        lines.extend(more.iter().map(|(name, value)| figure(name, value, width)));
        lines
    };
    Panel {
        title: "buffer pool; below: dirty percent".into(),
        lines: Box::new(lines),
        history: short.history,
    }
}

/// Pages written, by what forced them.
pub(crate) fn forces(state: &State) -> Panel {
    let forces = state.last().map(Reading::forces).unwrap_or_default();
    // Without the forces the two lists are known, of which the page came.
    let last = Last(state.last());
    let lists = [("dirty list", "pages_flushed_list"), ("LRU list", "pages_flushed_lru")];
    let lists = lists.iter().filter_map(|(label, name)| Some(((*label).to_owned(), last.rate(name)?)));
    let (forces, hint) = match &state.switch_on {
        Some(sql) if forces.len() <= 1 => (lists.collect(), format!("forces are counted after: {sql}")),
        _ => (forces, String::new()),
    };
    let most = forces.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let lines = move |width: usize| {
        let hint = wrapped("", &hint, 0, width.saturating_sub(2).max(20));
        let hint = hint.lines().filter(|line| !line.is_empty()).map(|line| Line::from(format!(" {line}")));
        if forces.is_empty() && hint.clone().next().is_none() {
            return vec![Line::from(" the target does not count them")];
        }
        let line = |(force, rate): &(String, f64)| {
            let bar = width.saturating_sub(26);
            let bar = "█".repeat((rate / most * bar as f64).round() as usize);
            Line::from(format!(" {force:<14} {:>7} {bar}", count(Some(*rate))))
        };
        forces.iter().map(line).chain(hint).collect()
    };
    let history = History::rate("pages_written");
    Panel { title: "pages written/s, by force".into(), lines: Box::new(lines), history }
}

/// Who waits for what.
pub(crate) fn waits(state: &State) -> Panel {
    panel("who waits for what", who_waits(state.last()), History::rate("lock_waits"))
}

/// Returns who waits for what, as texts.
pub(crate) fn who_waits(last: Option<&Reading>) -> Vec<Figure> {
    let last = Last(last);
    let ms = |name| last.rate(name).map_or_else(unknown, |us| format!("{}/s", show_micros(us)));
    let pending = ["pending_reads", "pending_writes", "pending_fsyncs"].map(|name| last.level(name));
    let pending = match pending {
        [None, None, None] => unknown(),
        [reads, writes, syncs] => format!("{}, {}, {}", count(reads), count(writes), count(syncs)),
    };
    vec![
        ("wait for a row lock now", count(last.level("lock_waiters"))),
        ("lock waits/s", count(last.rate("lock_waits"))),
        ("at the age's limit/s", count(last.rate("hard_waits"))),
        ("delayed for the age", ms("throttled_us_total")),
        ("for a free page/s", count(last.rate("free_frame_waits"))),
        ("for the log buffer/s", count(last.rate("log_buffer_waits"))),
        ("reads, writes, syncs now", pending),
        ("time in lock waits", ms("lock_wait_us_total")),
        ("deadlocks/s", count(last.rate("deadlocks"))),
    ]
}

/// Connections, statements, rows.
pub(crate) fn work(state: &State) -> Panel {
    let last = Last(state.last());
    let figures = vec![
        ("connections", count(last.level("open_connections"))),
        ("running a statement", count(last.level("threads_running"))),
        ("statements/s", count(last.rate("statements"))),
        ("commits/s", count(last.rate("commits"))),
        ("rollbacks/s", count(last.rate("rollbacks"))),
        ("rows read/s", count(last.rate("row_reads"))),
        ("rows inserted/s", count(last.rate("row_inserts"))),
        ("rows updated/s", count(last.rate("row_updates"))),
        ("rows deleted/s", count(last.rate("row_deletes"))),
        ("not yet purged", count(last.level("history_transactions"))),
    ];
    panel("work; below: commits/s", figures, History::rate("commits"))
}

/// The redo log.
pub(crate) fn log(state: &State) -> Panel {
    let last = Last(state.last());
    let figures = vec![
        ("age", size(last.level("checkpoint_age_bytes"))),
        ("soft limit", size(last.level("checkpoint_age_soft"))),
        ("limit", size(last.level("checkpoint_age_limit"))),
        ("size of the log", size(last.level("redo_capacity_bytes"))),
        ("end, LSN", count(last.level("current_lsn"))),
        ("durable up to", count(last.level("durable_lsn"))),
        ("checkpoint at", count(last.level("checkpoint_lsn"))),
        ("redo", size_rate(last.rate("redo_bytes_written"))),
        ("redo an hour at this rate", size(last.rate("redo_bytes_written").map(|rate| rate * 3600.0))),
    ];
    panel("redo log; below: the age", figures, History::level("checkpoint_age_bytes"))
}

/// Syncs and writes of the log.
pub(crate) fn syncs(state: &State) -> Panel {
    let last = Last(state.last());
    let commits = last.rate("commits").zip(last.rate("fsyncs").filter(|rate| *rate > 0.0));
    let figures = vec![
        ("syncs/s", count(last.rate("fsyncs"))),
        ("of them the log's/s", count(last.rate("log_fsyncs"))),
        (
            "commits for each sync",
            commits.map_or_else(unknown, |(commits, syncs)| format!("{:.2}", commits / syncs)),
        ),
        ("writes of the log/s", count(last.rate("log_writes"))),
        ("written to the log", size_rate(last.rate("log_bytes_written"))),
        ("written to all files", size_rate(last.rate("device_bytes_written"))),
        ("waits for the log buffer/s", count(last.rate("log_buffer_waits"))),
    ];
    panel("syncs and writes; below: syncs/s", figures, History::rate("fsyncs"))
}
