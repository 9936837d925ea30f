//! The loop: samples and keys in, pictures out. The terminal is restored however it ends, and the
//! loop ends with its terminal.

use super::draw::draw;
use super::past::state_at;
use super::sampler::{self, Message, Sampled};
use super::state::{Key, State};
use crate::sources::now_us;
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

/// Shows a target until the user quits.
pub(crate) fn run(target: String, login: LoginFlags, enable_metrics: bool) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::misuse("top needs a terminal; --print WxH prints one picture as text"));
    }
    if enable_metrics {
        // So that a signal does not come before they are switched off again.
        stop::install();
    }
    // The metrics live until the end.
    let Sampled { about, messages, metrics: _metrics } = sampler::start(target, login, enable_metrics)?;
    if !enable_metrics {
        stop::install();
    }
    show(State::of(about), Some(&messages), &now_us)
}

/// Shows a moment of the past until the user quits.
pub(crate) fn run_at(dir: &Path, at_us: u64) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::misuse("top needs a terminal; --print WxH prints one picture as text"));
    }
    let state = state_at(dir, at_us)?;
    stop::install();
    show(state, None, &|| at_us)
}

/// Shows what is there, and what comes, until the user quits. `now_us` is the time of the picture.
fn show(mut state: State, messages: Option<&Receiver<Message>>, now_us: &dyn Fn() -> u64) -> Outcome {
    let broken = |e: std::io::Error| Failure::failed(format!("the terminal fails: {e}"));
    // It also restores the terminal when this program panics. Its own end would complain on
    // standard error, and panic if that terminal is gone.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().map_err(broken)?);
    let restore = Restore;
    let (line, events) = (Line::here(), events());
    let mut drawn: Option<Instant> = None;
    while !stop::asked() && line.is_open() {
        let changed = messages.map_or(Ok(false), |messages| take_all(&mut state, messages))?;
        if changed || drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_secs(1)) {
            terminal.draw(|frame| draw(frame, &state, now_us())).map_err(broken)?;
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
        if key.is_some_and(|key| !state.key(key)) {
            break;
        }
        terminal.draw(|frame| draw(frame, &state, now_us())).map_err(broken)?;
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
fn take_all(state: &mut State, messages: &Receiver<Message>) -> Outcome<bool> {
    let mut any = false;
    loop {
        match messages.try_recv() {
            Ok(message) => take(state, message)?,
            Err(TryRecvError::Empty) => return Ok(any),
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::failed("the target gives no samples any more"));
            }
        }
        any = true;
    }
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
        KeyCode::Right | KeyCode::Down | KeyCode::Tab | KeyCode::Char('l') => Some(Key::Next),
        KeyCode::Left | KeyCode::Up | KeyCode::BackTab => Some(Key::Previous),
        KeyCode::Char(digit) => digit.to_digit(10).map(|digit| Key::Number(digit as usize)),
        _ => None,
    }
}

/// Samples a target for some seconds, and returns the picture as text.
pub(crate) fn print(
    target: String,
    login: LoginFlags,
    size: (u16, u16),
    view: usize,
    length: Duration,
    enable_metrics: bool,
) -> Outcome<String> {
    if enable_metrics {
        stop::install();
    }
    let Sampled { about, messages, metrics: _metrics } = sampler::start(target, login, enable_metrics)?;
    let mut state = State::of(about);
    state.key(Key::Number(view));
    let begin = Instant::now();
    while begin.elapsed() < length && !stop::asked() {
        match messages.recv_timeout(REST) {
            Ok(message) => take(&mut state, message)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed("the target gives no samples any more"));
            }
        }
    }
    Ok(picture(&state, size, now_us()))
}

/// Returns the picture of a moment of the past as text.
pub(crate) fn print_at(dir: &Path, at_us: u64, size: (u16, u16), view: usize) -> Outcome<String> {
    let mut state = state_at(dir, at_us)?;
    state.key(Key::Number(view));
    Ok(picture(&state, size, at_us))
}

/// Returns what a terminal of this size would show, as text.
pub(crate) fn picture(state: &State, (columns, rows): (u16, u16), now_us: u64) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| draw(frame, state, now_us));
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
            (KeyCode::Home, KeyModifiers::NONE, None),
        ] {
            assert_eq!(key_of(KeyEvent::new(code, modifiers)), key, "{code:?}");
        }
    }
}
