//! Draws several targets into a frame of a terminal: two lines each, with the figures that compare
//! and what to look at first.

use super::draw::{COLUMNS, advice_line, dim, draw_one, fits, help};
use super::fleet::Fleet;
use super::panels::age_bar;
use super::reading::Reading;
use super::state::State;
use output::units::show_count;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

const KEYS: &str = "q quit   p pause   ↑ ↓ choose   Enter or 1-9 one of them   ? help";
const HELP: &str = "\
q, Ctrl-C    quit
p, space     pause: hold the picture; samples go on
↑ ↓, Tab     choose a target
Enter, 1-9   show it; 0 or Esc comes back, [ and ] go to the others
?            this text

age          the checkpoint age, in percent of its limit
soft in      seconds to the soft limit, where that is foretold
commits/s    transactions with changes
changed/s    rows inserted, updated and deleted
dirty        dirty pages, in percent of the buffer pool";

/// Lines of a target.
const LINES: usize = 2;
/// Columns of its number, of the bar of its age, and of all its figures.
const NUMBER: usize = 4;
const BAR: usize = 8;
const FIGURES: usize = 7 + 1 + BAR + 8 + 10 + 10 + 8;

/// Draws what is shown. `now_us` is the time of day.
pub(super) fn draw(frame: &mut Frame<'_>, fleet: &Fleet, now_us: u64) {
    if let Some(state) = fleet.shown() {
        return draw_one(frame, state, fleet.is_several(), now_us);
    }
    if !fits(frame) {
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let width = usize::from(body.width).max(usize::from(COLUMNS));
    frame.render_widget(Paragraph::new(head_lines(fleet, width)), head);
    // The chosen one is always among those that have room.
    let room = (usize::from(body.height) / LINES).max(1);
    let first = (fleet.chosen() + 1).saturating_sub(room);
    let targets = fleet.targets().iter().enumerate().skip(first).take(room);
    let lines = targets.flat_map(|(place, state)| {
        [figures_line(state, place, place == fleet.chosen(), width), advice_line(state, now_us, NUMBER)]
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), body);
    let pause = if fleet.is_paused() { "   PAUSED" } else { "" };
    frame.render_widget(Paragraph::new(format!(" {KEYS}{pause}")).style(dim()), foot);
    if fleet.help {
        help(frame, frame.area(), HELP);
    }
}

/// Returns the line that counts the targets, and the names of the columns.
fn head_lines(fleet: &Fleet, width: usize) -> Vec<Line<'static>> {
    let count = fleet.targets().len();
    let alarms = match fleet.alarms() {
        0 => String::new(),
        some => format!(", {some} of them with an alarm"),
    };
    let room = width.saturating_sub(NUMBER + FIGURES);
    let bar = 1 + BAR;
    let names = format!(
        "{:NUMBER$}{:room$}{:>7}{:bar$}{:>8}{:>10}{:>10}{:>8}",
        "", "target", "age", "", "soft in", "commits/s", "changed/s", "dirty"
    );
    vec![
        Line::from(Span::styled(
            format!(" {count} targets{alarms}"),
            Style::new().add_modifier(Modifier::BOLD),
        )),
        Line::from(Span::styled(names, dim())),
    ]
}

/// Returns the line with a target's name and figures.
fn figures_line(state: &State, place: usize, chosen: bool, width: usize) -> Line<'static> {
    // While it gives no samples, those of before would look like those of now.
    let now = state.last().filter(|_| state.trouble.is_none());
    let level = |name: &str| now.and_then(|now| now.level(name));
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let share = now.and_then(Reading::age_share);
    let left = state.outlook().seconds_left().filter(|_| now.is_some());
    let (age, soft) = (level("checkpoint_age_bytes"), level("checkpoint_age_soft"));
    let limit = level("checkpoint_age_limit").filter(|limit| *limit > 0.0);
    let bar = match age.zip(limit) {
        Some(_) => age_bar(age, limit, soft, BAR).spans,
        None => vec![Span::raw(" ".repeat(1 + BAR))],
    };
    let room = width.saturating_sub(NUMBER + FIGURES);
    let mark = if chosen { '>' } else { ' ' };
    let style = if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let name = shortened(&state.target, room);
    let share = or_none(share.map(|share| format!("{:.0} %", 100.0 * share)));
    let mut spans = vec![
        Span::raw(format!("{mark}{:>2} ", place + 1)),
        Span::styled(name.clone(), style),
        Span::raw(format!("{:gap$}{share:>7}", "", gap = room.saturating_sub(name.chars().count()))),
    ];
    spans.extend(bar);
    let a_second = |rate: Option<f64>| or_none(rate.map(show_count));
    spans.push(Span::raw(format!(
        "{:>8}{:>10}{:>10}{:>8}",
        or_none(left.map(|left| format!("{left:.0} s"))),
        a_second(now.and_then(|now| now.rate("commits"))),
        a_second(now.and_then(Reading::rows_changed)),
        or_none(level("dirty_percent").map(|percent| format!("{percent:.1} %"))),
    )));
    Line::from(spans)
}

/// Shortens a name in its middle: both ends tell targets apart.
fn shortened(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room || room < 3 {
        return name.chars().take(room).collect();
    }
    let (begin, end) = (room.div_ceil(2) - 1, room / 2);
    name.chars().take(begin).chain(['…']).chain(name.chars().skip(count - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_long_name_loses_its_middle() {
        assert_eq!(shortened("mysql://a@db1/", 20), "mysql://a@db1/");
        assert_eq!(shortened("mysql://root@localhost/", 10), "mysq…host/");
        assert_eq!(shortened("mysql://root@localhost/", 9), "mysq…ost/");
        for room in 0..30 {
            assert!(shortened("mysql://root@localhost/", room).chars().count() <= room, "{room}");
        }
    }
}
