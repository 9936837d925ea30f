//! The connections: one thread with a runtime of its own. What a request gets is decided in
//! [`super::access`], what is told in [`super::board`].
//!
//! Everything is bounded: connections, streams of events, headers, and the time that a client takes
//! to send them. A browser that is slow misses seconds, and is told everything again. One that
//! takes nothing for a minute loses its connection, and comes back by itself when it wakes.

use super::access::{Answer, Request, Rules, judge};
use super::board::Board;
use super::exposition::{exposition, joined};
use super::past::{Past, asked_for};
use super::probe::{Health, Places, all_progress, all_ready};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use output::failure::{Failure, Outcome};
use output::report::svg::STYLE as PLOT_STYLE;
use rustix::net::sockopt;
use serde_json::json;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{self, Receiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Connections at a time. More wait.
const CONNECTIONS: usize = 64;
/// Browsers that look at a time.
const STREAMS: usize = 16;
/// Seconds that a slow browser may be behind before it is told everything again.
const BEHIND: usize = 16;
/// How long a client may take for the head of a request, or be silent before its next one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take nothing of what it is sent. Until then it keeps its place.
const STALLED: Duration = Duration::from_secs(60);
/// The longest head of a request.
const HEAD_BYTES: usize = 16 << 10;

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = concat!(include_str!("../../../output/src/report/units.js"), include_str!("app.js"));
const STYLE: &str = include_str!("style.css");
/// The page of several targets.
const LIST: &str = include_str!("list.html");
const LIST_SCRIPT: &str = include_str!("list.js");
/// On a target's page: the way back to all, which is not shown if it is the only one.
const BACK: &str = "<a id=\"all\" href=\"../\" hidden>";
const SHOWN_BACK: &str = "<a id=\"all\" href=\"../\">";
/// How often the page of several targets is told how they are.
const SECOND: Duration = Duration::from_secs(1);

/// Nothing from elsewhere, nothing inline, no form, no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What those who look are told.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The name of an event, and JSON.
    Told(&'static str, Arc<str>),
    /// Everything is told again: there are other lines, or another target.
    Again,
}

/// A target: what is known of it, and who is told.
#[derive(Debug)]
pub(super) struct Watched {
    board: Mutex<Board>,
    events: broadcast::Sender<Event>,
    places: Mutex<Places>,
    /// It gives samples.
    answers: AtomicBool,
    /// If it is the past that is looked at.
    past: Option<Past>,
}

impl Watched {
    pub(super) fn new(board: Board) -> Watched {
        let (events, _) = broadcast::channel(BEHIND);
        let (places, answers) = (Mutex::default(), AtomicBool::new(false));
        Watched { board: Mutex::new(board), events, places, answers, past: None }
    }

    /// Shows the past.
    pub(super) fn of(self, past: Past) -> Watched {
        Watched { past: Some(past), ..self }
    }

    /// Notes whether the target gives samples.
    pub(super) fn note_answer(&self, answers: bool) {
        self.answers.store(answers, Ordering::Relaxed);
    }

    /// Returns where the progress of a recovery is told.
    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how the target is, for probes.
    fn health(&self) -> Health {
        let places = self.places().clone();
        places.health(self.answers.load(Ordering::Relaxed))
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all who look.
    pub(super) fn tell(&self, event: Event) {
        // An error says that nobody looks.
        let _ = self.events.send(event);
    }

    /// Returns its name, and the text for Prometheus.
    fn figures(&self) -> (String, String) {
        let board = self.board();
        let text = exposition(board.about(), board.newest(), board.forecast());
        (board.about().target.clone(), text)
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    targets: Vec<Watched>,
    rules: Rules,
    streams: Arc<Semaphore>,
    stalled: Duration,
}

impl Shared {
    pub(super) fn new(targets: Vec<Watched>, rules: Rules) -> Shared {
        let streams = Arc::new(Semaphore::new(STREAMS));
        Shared { targets, rules, streams, stalled: STALLED }
    }

    /// Returns the targets, in the order in which they were named.
    pub(super) fn targets(&self) -> &[Watched] {
        &self.targets
    }

    /// Whether it is the past that is shown.
    fn is_past(&self) -> bool {
        self.targets.iter().any(|watched| watched.past.is_some())
    }

    /// Returns the figures of one target, or of all together.
    fn figures(&self, of: Option<usize>) -> String {
        let one = of.or_else(|| (self.targets.len() == 1).then_some(0));
        match one.and_then(|place| self.targets.get(place)) {
            Some(watched) => watched.figures().1,
            None => joined(&self.targets.iter().map(Watched::figures).collect::<Vec<_>>()),
        }
    }

    /// Returns what the page of several targets is told, as JSON.
    fn glances(&self) -> String {
        let targets: Vec<_> = self.targets.iter().map(|watched| watched.board().glance()).collect();
        json!({ "past": self.is_past(), "targets": targets }).to_string()
    }

    /// Gives clients less time to take what they are sent.
    #[cfg(test)]
    pub(super) fn with_stalled(self, stalled: Duration) -> Shared {
        Shared { stalled, ..self }
    }

    /// Returns how many browsers look.
    #[cfg(test)]
    pub(super) fn looking(&self) -> usize {
        STREAMS - self.streams.available_permits()
    }
}

/// A running server.
pub(super) struct Running {
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    /// Closes all connections.
    pub(super) fn end(self) {
        let _ = self.end.send(());
        let _ = self.thread.join();
    }
}

/// Starts to answer, in a thread of its own.
pub(super) fn start(shared: Arc<Shared>, listener: TcpListener) -> Outcome<Running> {
    let failed = |e: std::io::Error| Failure::failed(format!("the dashboard cannot start: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(failed)?
    };
    let (end, ended) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = accept(&listener, shared) => {}
                _ = ended => {}
            }
        });
        runtime.shutdown_background();
    });
    Ok(Running { end, thread })
}

async fn accept(listener: &tokio::net::TcpListener, shared: Arc<Shared>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let stalled = u32::try_from(shared.stalled.as_millis()).unwrap_or(u32::MAX);
    let router = router(shared);
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Such as too many open files.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // The kernel ends the connection: a write that waits for the client cannot see it. Where it
        // does not know this option, such a client keeps its place.
        let _ = sockopt::set_tcp_user_timeout(&stream, stalled);
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES);
            // An error is that of a client, which has gone.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(answer).with_state(shared)
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let request = Request {
        method: method.as_str(),
        path: uri.path(),
        host: text(header::HOST),
        authorization: text(header::AUTHORIZATION),
    };
    let healths = || shared.targets.iter().map(Watched::health).collect::<Vec<_>>();
    let mut response = match judge(&shared.rules, request) {
        Answer::Page(_) if shared.targets.len() > 1 => {
            typed("text/html; charset=utf-8", PAGE.replace(BACK, SHOWN_BACK))
        }
        Answer::Page(_) => typed("text/html; charset=utf-8", PAGE),
        Answer::List => typed("text/html; charset=utf-8", LIST),
        Answer::Script => typed("text/javascript; charset=utf-8", SCRIPT),
        Answer::ListScript => typed("text/javascript; charset=utf-8", LIST_SCRIPT),
        Answer::Style => typed("text/css; charset=utf-8", format!("{PLOT_STYLE}\n{STYLE}")),
        Answer::Events(_) | Answer::ListEvents if method == Method::HEAD => typed("text/event-stream", ""),
        Answer::ListEvents => stream_of_all(shared),
        Answer::Events(place) => match shared.targets.get(place).map(|watched| watched.past.clone()) {
            Some(Some(past)) => stream_of_the_past(&shared, past, asked_for(uri.query())).await,
            Some(None) => stream_of(shared, place),
            None => refused(404, "there is no such target"),
        },
        Answer::Metrics(_) | Answer::Ready | Answer::Progress if shared.is_past() => {
            refused(404, "this is the past: there is nothing to measure")
        }
        Answer::Metrics(of) => typed("text/plain; version=0.0.4; charset=utf-8", shared.figures(of)),
        Answer::Ready => {
            let (status, text) = all_ready(&healths());
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            (status, text).into_response()
        }
        Answer::Progress => typed("application/json", all_progress(&healths())),
        Answer::ToPage => {
            let to = format!("{}/", uri.path());
            (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to)]).into_response()
        }
        Answer::Refused(status, why) => refused(status, why),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

fn refused(status: u16, why: &'static str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    (status, format!("{why}\n")).into_response()
}

/// A browser that looks.
struct Looking {
    shared: Arc<Shared>,
    /// The target's place.
    target: usize,
    events: Receiver<Event>,
    /// It must be told everything.
    again: bool,
    _place: OwnedSemaphorePermit,
}

const TOO_MANY: &str = "too many browsers look already; close one";

fn stream_of(shared: Arc<Shared>, target: usize) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else { return refused(503, TOO_MANY) };
    let Some(watched) = shared.targets.get(target) else { return refused(404, "there is no such target") };
    // First this, then the board: nothing is missed between them. The page ignores a second that it
    // has already.
    let events = watched.events.subscribe();
    let looking = Looking { shared, target, events, again: true, _place: place };
    let stream = stream::unfold(looking, |mut looking| async move {
        let sent = next(&mut looking).await?;
        Some((Ok::<Sent, Infallible>(sent), looking))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

/// Tells all of the hour before a moment at once. The connection stays, so that the page does not
/// ask again.
async fn stream_of_the_past(shared: &Shared, past: Past, until_us: Option<u64>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else { return refused(503, TOO_MANY) };
    // It reads files.
    let told = tokio::task::spawn_blocking(move || past.told(until_us)).await;
    let Ok((name, text)) = told else { return refused(500, "the past cannot be read") };
    let first = Sent::default().event(name).data(text);
    let stream = stream::unfold((Some(first), place), |(first, place)| async move {
        let Some(sent) = first else { return std::future::pending().await };
        Some((Ok::<Sent, Infallible>(sent), (None, place)))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

/// Tells each second how all targets are.
fn stream_of_all(shared: Arc<Shared>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else { return refused(503, TOO_MANY) };
    let mut seconds = tokio::time::interval(SECOND);
    // A browser that was slow is told how it is now, and not each second that it missed.
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let stream = stream::unfold((shared, seconds, place), |(shared, mut seconds, place)| async move {
        seconds.tick().await;
        let sent = Sent::default().event("all").data(shared.glances());
        Some((Ok::<Sent, Infallible>(sent), (shared, seconds, place)))
    });
    Sse::new(stream).into_response()
}

/// Waits for what is to be told next.
async fn next(looking: &mut Looking) -> Option<Sent> {
    loop {
        if std::mem::take(&mut looking.again) {
            let watched = looking.shared.targets.get(looking.target)?;
            return Some(Sent::default().event("hello").data(watched.board().hello()));
        }
        match looking.events.recv().await {
            Ok(Event::Told(name, text)) => return Some(Sent::default().event(name).data(text)),
            Ok(Event::Again) | Err(broadcast::error::RecvError::Lagged(_)) => looking.again = true,
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
