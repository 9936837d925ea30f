//! The loop: samples and keys in, pictures out. The terminal is restored however it ends, and the
//! loop ends with its terminal.

use super::fleet::Fleet;
use super::list::draw;
use super::past::state_at;
use super::sampler::{self, Message, Sampled};
use super::state::{Key, State};
use crate::sources::{MetricsOn, now_us};
use client::LoginFlags;
use output::failure::{Failure, Outcome};
use output::stop;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::IsTerminal;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// How long a signal, a sample or the end of the terminal may wait.
const REST: Duration = Duration::from_millis(100);

/// Restores the terminal when it is dropped.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored.
        let _ = ratatui::try_restore();
        let _ = ratatui::crossterm::execute!(std::io::stdout(), ratatui::crossterm::cursor::Show);
    }
}

/// What the user asks for.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is looked at, at least one.
    pub(crate) targets: Vec<String>,
    /// How to log in.
    pub(crate) login: LoginFlags,
    /// Switch metrics of the one server on meanwhile.
    pub(crate) enable_metrics: bool,
}

/// Targets that are sampled.
struct Live {
    fleet: Fleet,
    /// Of each target.
    messages: Vec<Receiver<Message>>,
    /// They live until the end.
    _metrics: Option<MetricsOn>,
}

impl Job {
    fn start(mut self) -> Outcome<Live> {
        if self.targets.len() > 1 {
            if self.enable_metrics {
                return Err(Failure::misuse("--enable-metrics is for one server: name one target"));
            }
            let sampled = sampler::start_all(self.targets, &self.login)?;
            let (states, messages) =
                sampled.into_iter().map(|one| (State::of(one.about), one.messages)).unzip();
            return Ok(Live { fleet: Fleet::new(states), messages, _metrics: None });
        }
        let target = self.targets.pop().ok_or_else(|| Failure::misuse("there is no target"))?;
        let Sampled { about, messages, metrics } = sampler::start(target, self.login, self.enable_metrics)?;
        let fleet = Fleet::new(vec![State::of(about)]);
        Ok(Live { fleet, messages: vec![messages], _metrics: metrics })
    }
}

/// Shows targets until the user quits.
pub(crate) fn run(job: Job) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::misuse("top needs a terminal; --print WxH prints one picture as text"));
    }
    let enable_metrics = job.enable_metrics;
    if enable_metrics {
        // So that a signal does not come before they are switched off again.
        stop::install();
    }
    let mut live = job.start()?;
    if !enable_metrics {
        stop::install();
    }
    show(&mut live.fleet, &live.messages, &now_us)
}

/// Shows a moment of the past until the user quits.
pub(crate) fn run_at(dirs: &[String], at_us: u64) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::misuse("top needs a terminal; --print WxH prints one picture as text"));
    }
    let mut fleet = fleet_at(dirs, at_us)?;
    stop::install();
    show(&mut fleet, &[], &|| at_us)
}

fn fleet_at(dirs: &[String], at_us: u64) -> Outcome<Fleet> {
    let states = dirs.iter().map(|dir| state_at(Path::new(dir), at_us)).collect::<Outcome<Vec<State>>>();
    states.map(Fleet::new)
}

/// Shows what is there, and what comes, until the user quits. `now_us` is the time of the picture.
fn show(fleet: &mut Fleet, messages: &[Receiver<Message>], now_us: &dyn Fn() -> u64) -> Outcome {
    let broken = |e: std::io::Error| Failure::failed(format!("the terminal fails: {e}"));
    // It also restores the terminal when this program panics. Its own end would complain on
    // standard error, and panic if that terminal is gone.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().map_err(broken)?);
    let restore = Restore;
    let (line, events) = (Line::here(), events());
    let mut drawn: Option<Instant> = None;
    while !stop::asked() && line.is_open() {
        let changed = take_all(fleet, messages)?;
        if changed || drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_secs(1)) {
            terminal.draw(|frame| draw(frame, fleet, now_us())).map_err(broken)?;
            drawn = Some(Instant::now());
        }
        let key = match events.recv_timeout(REST) {
            Ok(event) => match event.map_err(broken)? {
                Event::Key(pressed) if pressed.kind != KeyEventKind::Release => key_of(pressed),
                _ => None,
            },
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if key.is_some_and(|key| !fleet.key(key)) {
            break;
        }
        terminal.draw(|frame| draw(frame, fleet, now_us())).map_err(broken)?;
    }
    drop(restore);
    Ok(())
}

/// Reads keys in a thread of its own. The library that reads them tries again for ever when the
/// terminal is gone, so the loop must not wait for it.
fn events() -> Receiver<std::io::Result<Event>> {
    let (sender, events) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let failed = event.is_err();
            if sender.send(event).is_err() || failed {
                break;
            }
        }
    });
    events
}

/// The terminal's ends that the program has open.
struct Line {
    /// Keys come from standard input, and not from another terminal.
    keys: bool,
}

impl Line {
    /// Looks which of them are a terminal. Later, a terminal that is gone is none any more.
    fn here() -> Line {
        Line { keys: std::io::stdin().is_terminal() }
    }

    /// Returns whether the terminal is still there: not closed, and its connection not lost.
    fn is_open(&self) -> bool {
        let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
        let end = |fd| PollFd::from_borrowed_fd(fd, PollFlags::empty());
        let mut ends = vec![end(std::os::fd::AsFd::as_fd(&stdout))];
        if self.keys {
            ends.push(end(std::os::fd::AsFd::as_fd(&stdin)));
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        // An interrupted call knows nothing; the next one does.
        let asked = poll(&mut ends, Some(&at_once));
        asked.is_err() || !ends.iter().any(|end| end.revents().intersects(gone))
    }
}

/// Takes all messages that are there. Returns whether there were any.
fn take_all(fleet: &mut Fleet, messages: &[Receiver<Message>]) -> Outcome<bool> {
    let mut any = false;
    for (place, messages) in messages.iter().enumerate() {
        let Some(state) = fleet.target_mut(place) else { continue };
        loop {
            match messages.try_recv() {
                Ok(message) => take(state, message)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::failed(format!("{} gives no samples any more", state.target)));
                }
            }
            any = true;
        }
    }
    Ok(any)
}

fn take(state: &mut State, message: Message) -> Outcome {
    match message {
        Message::Sample(sample) => state.take(sample),
        Message::Driver(driver) => state.is_driven_by(driver),
        Message::Trouble(why) => state.fail(now_us(), why),
        Message::Opened(about) => state.is_now(about),
        Message::Failed(failure) => return Err(failure),
    }
    Ok(())
}

/// Returns what a key means; `None` if nothing.
fn key_of(pressed: KeyEvent) -> Option<Key> {
    match pressed.code {
        KeyCode::Char('c' | 'd') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q' | 'Q') => Some(Key::Quit),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Char('p' | ' ') => Some(Key::Pause),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Some(Key::Help),
        KeyCode::Enter => Some(Key::Open),
        KeyCode::Char(']') => Some(Key::NextTarget),
        KeyCode::Char('[') => Some(Key::PreviousTarget),
        KeyCode::Right | KeyCode::Down | KeyCode::Tab | KeyCode::Char('l') => Some(Key::Next),
        KeyCode::Left | KeyCode::Up | KeyCode::BackTab => Some(Key::Previous),
        KeyCode::Char(digit) => digit.to_digit(10).map(|digit| Key::Number(digit as usize)),
        _ => None,
    }
}

/// Samples targets for some seconds, and returns the picture as text: without a view, of several
/// targets their list, of one its overview.
pub(crate) fn print(job: Job, size: (u16, u16), view: Option<usize>, length: Duration) -> Outcome<String> {
    if job.enable_metrics {
        stop::install();
    }
    let mut live = job.start()?;
    let begin = Instant::now();
    while begin.elapsed() < length && !stop::asked() {
        take_all(&mut live.fleet, &live.messages)?;
        std::thread::sleep(REST);
    }
    Ok(pictures(live.fleet, size, view, now_us()))
}

/// Returns the picture of a moment of the past as text.
pub(crate) fn print_at(
    dirs: &[String],
    at_us: u64,
    size: (u16, u16),
    view: Option<usize>,
) -> Outcome<String> {
    fleet_at(dirs, at_us).map(|fleet| pictures(fleet, size, view, at_us))
}

/// Returns one picture, or with a view one of each target.
fn pictures(mut fleet: Fleet, size: (u16, u16), view: Option<usize>, now_us: u64) -> String {
    let Some(view) = view else { return picture(&fleet, size, now_us) };
    fleet.listed = false;
    let of_each = (0..fleet.targets().len()).map(|_| {
        fleet.key(Key::Number(view));
        let shown = picture(&fleet, size, now_us);
        fleet.key(Key::NextTarget);
        shown
    });
    of_each.collect()
}

/// Returns what a terminal of this size would show, as text.
pub(super) fn picture(fleet: &Fleet, (columns, rows): (u16, u16), now_us: u64) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| draw(frame, fleet, now_us));
    text_of(terminal.backend().buffer())
}

fn text_of(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| {
        (0..area.width).filter_map(|x| buffer.cell((x, y))).map(|cell| cell.symbol()).collect::<String>()
    };
    (0..area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        for (code, modifiers, key) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, Some(Key::Quit)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Quit)),
            (KeyCode::Char('c'), KeyModifiers::NONE, None),
            (KeyCode::Char('p'), KeyModifiers::NONE, Some(Key::Pause)),
            (KeyCode::Char('?'), KeyModifiers::NONE, Some(Key::Help)),
            (KeyCode::Right, KeyModifiers::NONE, Some(Key::Next)),
            (KeyCode::Left, KeyModifiers::NONE, Some(Key::Previous)),
            (KeyCode::Char('3'), KeyModifiers::NONE, Some(Key::Number(3))),
            (KeyCode::Enter, KeyModifiers::NONE, Some(Key::Open)),
            (KeyCode::Char(']'), KeyModifiers::NONE, Some(Key::NextTarget)),
            (KeyCode::Home, KeyModifiers::NONE, None),
        ] {
            assert_eq!(key_of(KeyEvent::new(code, modifiers)), key, "{code:?}");
        }
    }
}
