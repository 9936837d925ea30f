//! The connections: one thread with a runtime of its own. What a request gets is decided in
//! [`super::access`], what is told in [`super::board`].
//!
//! Everything is bounded: connections, streams of events, headers, and the time that a client takes
//! to send them. A browser that is slow misses seconds, and is told everything again. One that
//! takes nothing for a minute loses its connection, and comes back by itself when it wakes.

use super::access::{Answer, Request, Rules, judge};
use super::board::Board;
use super::exposition::exposition;
use super::past::{Past, asked_for};
use super::probe::{Health, Places, progress, ready};
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

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    board: Mutex<Board>,
    rules: Rules,
    events: broadcast::Sender<Event>,
    streams: Arc<Semaphore>,
    stalled: Duration,
    places: Mutex<Places>,
    /// The target gives samples.
    answers: AtomicBool,
    /// If it is the past that is looked at.
    past: Option<Past>,
}

impl Shared {
    pub(super) fn new(board: Board, rules: Rules) -> Shared {
        let (events, _) = broadcast::channel(BEHIND);
        let streams = Arc::new(Semaphore::new(STREAMS));
        let (places, answers) = (Mutex::default(), AtomicBool::new(false));
        let board = Mutex::new(board);
        Shared { board, rules, events, streams, stalled: STALLED, places, answers, past: None }
    }

    /// Shows the past.
    pub(super) fn of(self, past: Past) -> Shared {
        Shared { past: Some(past), ..self }
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

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all who look.
    pub(super) fn tell(&self, event: Event) {
        // An error says that nobody looks.
        let _ = self.events.send(event);
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
    let mut response = match judge(&shared.rules, request) {
        Answer::Page => typed("text/html; charset=utf-8", PAGE),
        Answer::Script => typed("text/javascript; charset=utf-8", SCRIPT),
        Answer::Style => typed("text/css; charset=utf-8", format!("{PLOT_STYLE}\n{STYLE}")),
        Answer::Events if method == Method::HEAD => typed("text/event-stream", ""),
        Answer::Events => match shared.past.clone() {
            Some(past) => stream_of_the_past(&shared, past, asked_for(uri.query())).await,
            None => stream_of(shared),
        },
        Answer::Metrics | Answer::Ready | Answer::Progress if shared.past.is_some() => {
            refused(404, "this is the past: there is nothing to measure")
        }
        Answer::Metrics => {
            let board = shared.board();
            let text = exposition(board.about(), board.newest(), board.forecast());
            typed("text/plain; version=0.0.4; charset=utf-8", text)
        }
        Answer::Ready => {
            let (status, text) = ready(&shared.health());
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            (status, text).into_response()
        }
        Answer::Progress => typed("application/json", progress(&shared.health())),
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
    events: Receiver<Event>,
    /// It must be told everything.
    again: bool,
    _place: OwnedSemaphorePermit,
}

fn stream_of(shared: Arc<Shared>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return refused(503, "too many browsers look already; close one");
    };
    // First this, then the board: nothing is missed between them. The page ignores a second that it
    // has already.
    let events = shared.events.subscribe();
    let looking = Looking { shared, events, again: true, _place: place };
    let stream = stream::unfold(looking, |mut looking| async move {
        let sent = next(&mut looking).await?;
        Some((Ok::<Sent, Infallible>(sent), looking))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

/// Tells all of the hour before a moment at once. The connection stays, so that the page does not
/// ask again.
async fn stream_of_the_past(shared: &Shared, past: Past, until_us: Option<u64>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return refused(503, "too many browsers look already; close one");
    };
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

/// Waits for what is to be told next.
async fn next(looking: &mut Looking) -> Option<Sent> {
    loop {
        if std::mem::take(&mut looking.again) {
            return Some(Sent::default().event("hello").data(looking.shared.board().hello()));
        }
        match looking.events.recv().await {
            Ok(Event::Told(name, text)) => return Some(Sent::default().event(name).data(text)),
            Ok(Event::Again) | Err(broadcast::error::RecvError::Lagged(_)) => looking.again = true,
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
