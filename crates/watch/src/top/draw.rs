//! Draws the state of one target into a frame of a terminal.

use super::outlook::Urgency;
use super::panels::{self, Panel};
use super::state::{State, View};
use output::units::show_micros;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};

/// The least terminal.
pub(super) const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

const KEYS: &str = "q quit   p pause   ← → or 1-4 views   ? help";
const KEYS_OF_SEVERAL: &str = "q quit   p pause   ← → or 1-4 views   [ ] others   0 all   ? help";
const HELP: &str = "\
q, Ctrl-C    quit
p, space     pause: hold the picture; samples go on
← →, Tab     the other views; 1 to 4: one of them
?            this text

overview     checkpoint age, throughput, buffer pool, flushing, waits
log          redo log: positions, bytes and syncs a second
pages        buffer pool, and what forces pages to be written
waits        who waits for what

The checkpoint age has two limits. From the soft limit on InnoDB flushes
with full force (its asynchronous point), and Millpond delays writers.
At the limit writers wait (InnoDB's synchronous point). `millpond
explain checkpoint_age` says more.";

/// Tells whether there is room to draw, and says so if there is not.
pub(super) fn fits(frame: &mut Frame<'_>) -> bool {
    let area = frame.area();
    let fits = area.width >= COLUMNS && area.height >= ROWS;
    if !fits {
        let text = format!("{} x {}: millpond top needs {COLUMNS} x {ROWS}", area.width, area.height);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    fits
}

/// Draws a target, one of several or the only one. `now_us` is the time of day.
pub(super) fn draw_one(frame: &mut Frame<'_>, state: &State, of_several: bool, now_us: u64) {
    if !fits(frame) {
        return;
    }
    let area = frame.area();
    let [head, advice, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head_line(state, head.width)), head);
    frame.render_widget(Paragraph::new(advice_line(state, now_us, 1)), advice);
    match state.view {
        View::Overview => overview(frame, body, state),
        View::Log => two_columns(frame, body, state, &panels::log(state), &panels::syncs(state)),
        View::Pages => two_columns(frame, body, state, &panels::pool(state), &panels::forces(state)),
        View::Waits => two_columns(frame, body, state, &panels::waits(state), &panels::work(state)),
    }
    let pause = if state.is_paused() { "   PAUSED" } else { "" };
    let keys = if of_several { KEYS_OF_SEVERAL } else { KEYS };
    frame.render_widget(Paragraph::new(format!(" {keys}{pause}")).style(dim()), foot);
    if state.help {
        help(frame, area, HELP);
    }
}

pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Returns the line with the target, its version and the tabs.
fn head_line(state: &State, width: u16) -> Line<'static> {
    let mut tabs = Vec::new();
    for (i, view) in View::ALL.iter().enumerate() {
        let style =
            if *view == state.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        tabs.push(Span::styled(format!(" {} {} ", i + 1, view.title()), style));
    }
    let used: usize = tabs.iter().map(|tab| tab.content.chars().count()).sum();
    let room = usize::from(width).saturating_sub(used + 1);
    let name = format!(" {}  {}", state.version, state.target);
    let name = if name.chars().count() > room {
        name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    } else {
        name
    };
    let mut spans = vec![Span::styled(format!("{name:room$} "), Style::new().add_modifier(Modifier::BOLD))];
    spans.extend(tabs);
    Line::from(spans)
}

/// Returns the line that says what to look at first, behind so many spaces.
pub(super) fn advice_line(state: &State, now_us: u64, spaces: usize) -> Line<'static> {
    let (urgency, text) = match &state.trouble {
        Some((since, why)) => {
            let past = show_micros(now_us.saturating_sub(*since) as f64);
            (Urgency::Alarm, format!("no sample for {past}, trying again: {why}"))
        }
        _ => state.outlook().first(),
    };
    let style = match urgency {
        Urgency::Calm => Style::new().fg(Color::Green),
        Urgency::Unknown => Style::new().add_modifier(Modifier::BOLD),
        Urgency::Notable => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Urgency::Alarm => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    };
    Line::from(vec![Span::raw(" ".repeat(spaces)), Span::styled(text, style)])
}

fn overview(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [age, middle, low] = Layout::vertical([
        Constraint::Length((area.height / 4).max(6)),
        Constraint::Length((area.height / 4).max(6)),
        Constraint::Min(0),
    ])
    .areas(area);
    draw_panel(frame, age, state, &panels::age(state));
    two_columns(frame, middle, state, &panels::throughput(state), &panels::pool_short(state));
    two_columns(frame, low, state, &panels::forces(state), &panels::waits(state));
}

fn two_columns(frame: &mut Frame<'_>, area: Rect, state: &State, left: &Panel, right: &Panel) {
    let [a, b] = Layout::horizontal([Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)]).areas(area);
    draw_panel(frame, a, state, left);
    draw_panel(frame, b, state, right);
}

/// Draws a panel: its lines, then its history in what is left.
fn draw_panel(frame: &mut Frame<'_>, area: Rect, state: &State, panel: &Panel) {
    let block = Block::bordered().title(format!(" {} ", panel.title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = (panel.lines)(usize::from(inner.width));
    let height = (lines.len() as u16).min(inner.height);
    let [text, chart] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(inner);
    frame.render_widget(Paragraph::new(lines), text);
    if let Some(history) = &panel.history
        && chart.height > 0
    {
        let data = state.series(usize::from(chart.width), |reading| (history.of)(reading));
        let most = data.iter().copied().max().unwrap_or(0).max(history.full.unwrap_or(0)).max(1);
        let spark = Sparkline::default().data(data.iter().copied()).max(most);
        frame.render_widget(spark.style(Style::new().fg(Color::Cyan)), chart);
    }
}

pub(super) fn help(frame: &mut Frame<'_>, area: Rect, text: &'static str) {
    let (width, height) = (72, text.lines().count() as u16 + 2);
    let [_, middle, _] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(height), Constraint::Min(0)]).areas(area);
    let [_, window, _] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width), Constraint::Min(0)]).areas(middle);
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" help ")), window);
}
