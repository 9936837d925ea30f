//! The dashboard over real connections, of a board without a target.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

const TOKEN: &str = "0123456789abcdef";

fn about() -> sources::About {
    sources::About {
        target: "db".to_owned(),
        version: "Millpond".to_owned(),
        configuration: Vec::new(),
        origins: Vec::new(),
        refusals: Vec::new(),
    }
}

/// Starts to serve on a free port.
fn serving() -> (Arc<Shared>, http::Running, SocketAddr) {
    serving_with(|shared| shared)
}

fn serving_with(change: impl FnOnce(Shared) -> Shared) -> (Arc<Shared>, http::Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let rules = Rules { token: TOKEN.to_owned(), names: Vec::new(), listen: address.ip(), targets: 1 };
    let shared = Arc::new(change(Shared::new(vec![Watched::new(Board::new(about()))], rules)));
    let running = http::start(Arc::clone(&shared), listener).unwrap();
    (shared, running, address)
}

fn ask(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Returns a whole answer.
fn answer(address: SocketAddr, request: &str, more: &str) -> String {
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close{more}");
    let mut text = String::new();
    ask(address, &head).read_to_string(&mut text).unwrap();
    text
}

/// Reads until a text has come.
fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !text.contains(wanted) {
        let n = stream.read(&mut bytes).unwrap();
        assert!(n > 0, "the stream ends after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    text
}

#[test]
fn every_answer_has_a_strict_policy_and_no_page_needs_another_site() {
    let (_shared, running, address) = serving();
    for (path, wanted) in [
        (format!("/{TOKEN}/"), "200"),
        (format!("/{TOKEN}/app.js"), "200"),
        (format!("/{TOKEN}/style.css"), "200"),
        (format!("/{TOKEN}/metrics"), "200"),
        (format!("/{TOKEN}"), "308"),
        (format!("/{TOKEN}/x"), "404"),
        ("/".to_owned(), "403"),
        ("/metrics".to_owned(), "401"),
    ] {
        let answer = answer(address, &format!("GET {path}"), "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{path}: {answer}");
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for part in ["content-security-policy: default-src 'none';", "nosniff", "no-referrer", "no-store"] {
            assert!(head.contains(part), "{path}: {head}");
        }
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let foreign = body.replace("http://www.w3.org/2000/svg", "").contains("://");
        assert!(!foreign && !body.contains(" style=") && !body.contains("<script>"), "{path}");
    }
    assert!(answer(address, &format!("POST /{TOKEN}/"), "\r\nContent-Length: 0").starts_with("HTTP/1.1 405"));
    let bearer = format!("\r\nAuthorization: Bearer {TOKEN}");
    let metrics = answer(address, "GET /metrics", &bearer);
    assert!(metrics.contains("\nmillpond_up 0\n"), "{metrics}");
    running.end();
}

#[test]
fn probes_are_answered_while_the_target_is_gone_and_when_it_is_back() {
    let (shared, running, address) = serving();
    let ready = |wanted: &str| {
        let answer = answer(address, "GET /ready", "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{answer}");
        answer
    };
    assert!(ready("503").ends_with("gone: the target does not answer\n"));
    let values = sources::schema_of_millpond(&metrics::Metrics::new().snapshot());
    take(&shared.targets()[0], Message::Sample(sources::Sample::new(1_000_000, values))).unwrap();
    assert!(ready("200").ends_with("\r\n\r\nready\n"));
    let scratch = crate::scratch::Scratch::new("serve-ready");
    std::fs::write(scratch.0.join("progress"), "state=replaying\nredo_bytes=10\nleft_bytes=4\n").unwrap();
    shared.targets()[0].places().database = Some(scratch.0.clone());
    assert!(ready("503").ends_with("recovering, 6 of 10 bytes\n"));
    let told = answer(address, "GET /progress", "");
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("\"state\":\"recovering\""), "{told}");
    running.end();
}

#[test]
fn a_stream_tells_everything_first_and_then_each_second() {
    let (shared, running, address) = serving();
    let head = format!("GET /{TOKEN}/events HTTP/1.1\r\nHost: localhost");
    let mut stream = ask(address, &head);
    let hello = until(&mut stream, "\"v\":");
    assert!(hello.contains("text/event-stream") && hello.contains("event: hello\ndata: {"), "{hello}");
    take(&shared.targets()[0], Message::Trouble("gone".to_owned())).unwrap();
    assert!(until(&mut stream, "\n\n").contains("event: trouble\ndata: {"));
    let values = sources::schema_of_millpond(&metrics::Metrics::new().snapshot());
    for second in 1..=2 {
        take(&shared.targets()[0], Message::Sample(sources::Sample::new(second * 1_000_000, values.clone())))
            .unwrap();
    }
    // The first one brings the lines of the forces.
    let told = until(&mut stream, "event: second");
    assert!(told.contains("event: hello"), "{told}");
    running.end();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

#[test]
fn the_number_of_browsers_is_bounded_and_a_place_becomes_free_again() {
    let (_shared, running, address) = serving();
    let head = format!("GET /{TOKEN}/events HTTP/1.1\r\nHost: localhost");
    let mut open: Vec<TcpStream> = (0..16).map(|_| ask(address, &head)).collect();
    open.iter_mut().for_each(|stream| drop(until(stream, "event: hello")));
    assert!(until(&mut ask(address, &head), "too many browsers").contains("503"));
    open.pop();
    let began = std::time::Instant::now();
    loop {
        let mut stream = ask(address, &head);
        if until(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no place becomes free");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.end();
}

/// The events that a stalled browser does not take: more than the kernel keeps for it.
const MANY: u32 = 1500;
const EVENT_BYTES: usize = 64 << 10;

/// Sends large events, each of which one browser reads and another does not. Returns how many of
/// them are still in memory.
fn tell_many(shared: &Shared, reader: &mut TcpStream) -> usize {
    let mut told = Vec::new();
    for number in 0..MANY {
        let text: Arc<str> = format!("{number:08}{}", "x".repeat(EVENT_BYTES)).into();
        told.push(Arc::downgrade(&text));
        shared.targets()[0].tell(Event::Told("second", text));
        until(reader, "x\n\n");
    }
    told.iter().filter(|text| text.strong_count() > 0).count()
}

#[test]
fn a_browser_that_stops_reading_is_told_everything_again_and_holds_nothing_up() {
    let (shared, running, address) = serving();
    let head = format!("GET /{TOKEN}/events HTTP/1.1\r\nHost: localhost");
    let (mut stalled, mut reader) = (ask(address, &head), ask(address, &head));
    until(&mut stalled, "event: hello");
    until(&mut reader, "event: hello");
    // As many as the queue has places, and one that is being written.
    assert!(tell_many(&shared, &mut reader) <= 20);
    // It is told everything again in place of what was not kept for it.
    until(&mut stalled, "event: hello");
    running.end();
}

#[test]
fn a_browser_that_takes_nothing_loses_its_place() {
    let (shared, running, address) = serving_with(|shared| shared.with_stalled(Duration::from_secs(1)));
    let head = format!("GET /{TOKEN}/events HTTP/1.1\r\nHost: localhost");
    let mut stalled = ask(address, &head);
    until(&mut stalled, "event: hello");
    assert_eq!(shared.looking(), 1);
    let text: Arc<str> = "x".repeat(EVENT_BYTES).into();
    let began = std::time::Instant::now();
    while shared.looking() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it keeps its place");
        shared.targets()[0].tell(Event::Told("second", Arc::clone(&text)));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stalled);
    running.end();
}

/// The first seconds of `serve` had no histograms: what it knew from before was without them.
#[test]
fn what_a_recorder_knows_has_the_histograms_too() {
    let scratch = crate::scratch::Scratch::new("serve-recorder");
    let dir = scratch.0.join("db");
    let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap();
    db.create_table("t").unwrap();
    db.close().unwrap();
    let mut board = Board::new(about());
    remember(&mut board, &dir);
    let newest = board.newest().unwrap();
    let text = exposition::exposition(board.about(), Some(newest), None);
    assert!(text.contains("\nmillpond_fsync_seconds_bucket{"), "{text}");
}

/// The list of waits and the plot of waits had one id, so the plot was half as wide.
#[test]
fn no_two_elements_of_the_page_have_one_id() {
    let (page, script) = (include_str!("page.html"), include_str!("app.js"));
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
    assert!(
        script.contains("chart.figure.id = \"plot-\" + view.id")
            && !ids.iter().any(|id| id.starts_with("plot-"))
    );
}

/// Writes a collection of so many seconds, from a moment on, seconds since 1970.
fn collected(dir: &Path, begin: u64, seconds: u64) {
    let head = r#"{"format":"millpond stats 1","program":"p","target":"mysql://db/","version":"MariaDB 10.11.19","absent":{}}"#;
    let mut text = format!("{head}\n{}\n", r#"{"columns":[["commits","count","counter"]]}"#);
    for second in 0..seconds {
        text.push_str(&format!(r#"{{"time":{}.0,"values":[[0,{}.0]]}}"#, begin + second, 7 * second));
        text.push('\n');
    }
    std::fs::write(dir.join("stats.jsonl"), text).unwrap();
}

#[test]
fn several_targets_have_a_page_together_and_one_each() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let rules = Rules { token: TOKEN.to_owned(), names: Vec::new(), listen: address.ip(), targets: 2 };
    let watched = || Watched::new(Board::new(about()));
    let shared = Arc::new(Shared::new(vec![watched(), watched()], rules));
    let running = http::start(Arc::clone(&shared), listener).unwrap();
    let values = sources::schema_of_millpond(&metrics::Metrics::new().snapshot());
    take(&shared.targets()[1], Message::Sample(sources::Sample::new(1_000_000, values))).unwrap();
    take(&shared.targets()[0], Message::Trouble("it is gone".to_owned())).unwrap();
    let get = |path: &str| answer(address, &format!("GET /{TOKEN}/{path}"), "");
    assert!(get("").contains("list.js") && get("1/").contains("app.js"));
    assert!(get("2/").contains("href=\"../\">All targets") && !get("3/").contains("app.js"));
    let mut stream = ask(address, &format!("GET /{TOKEN}/events HTTP/1.1\r\nHost: localhost"));
    for _ in 0..2 {
        let told = until(&mut stream, "}\n\n");
        assert!(told.contains("event: all") && told.contains("\"trouble\":\"it is gone\""), "{told}");
    }
    let one = format!("GET /{TOKEN}/2/events HTTP/1.1\r\nHost: localhost");
    assert!(until(&mut ask(address, &one), "\"v\":").contains("event: hello"));
    let all = get("metrics");
    assert!(all.contains("millpond_up{target=\"db\"} 0\nmillpond_up{target=\"db (2)\"} 1\n"), "{all}");
    assert!(get("2/metrics").contains("\nmillpond_up 1\n"));
    let ready = answer(address, "GET /ready", "");
    assert!(ready.contains(" 503 ") && ready.ends_with("1: gone: the target does not answer\n2: ready\n"));
    running.end();
}

#[test]
fn each_browser_chooses_an_hour_of_the_past() {
    let scratch = crate::scratch::Scratch::new("serve-past");
    let begin = 1_764_000_000;
    collected(&scratch.0, begin, 7205);
    let past = Past::of(&scratch.0, None).expect("a collection is past");
    assert!(Past::of(Path::new("/"), None).is_none() && Past::of(Path::new("/"), Some(1)).is_some());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let rules = Rules { token: TOKEN.to_owned(), names: Vec::new(), listen: address.ip(), targets: 1 };
    let watched = Watched::new(past.board(None).unwrap()).of(past);
    let shared = Shared::new(vec![watched], rules);
    let running = http::start(Arc::new(shared), listener).unwrap();
    let told = |query: &str| {
        let head = format!("GET /{TOKEN}/events{query} HTTP/1.1\r\nHost: localhost");
        until(&mut ask(address, &head), "}\n\n")
    };
    let times = |text: &str| {
        let list = text.split_once("\"t\":[").unwrap().1.split_once(']').unwrap().0.to_owned();
        let all: Vec<u64> = list.split(',').map(|ms| ms.parse::<u64>().unwrap() / 1000 - begin).collect();
        (all[0], all[all.len() - 1])
    };
    let last = told("");
    assert!(last.contains("event: hello") && last.contains("\"past\":true"), "{last}");
    assert_eq!(times(&last), (3605, 7204));
    let ms = |second: u64| format!("?until={}", (begin + second) * 1000);
    assert_eq!(times(&told(&ms(3700))), (101, 3700), "3,600 seconds");
    assert_eq!(times(&told(&ms(99_999))), (3605, 7204), "after the end it is the last hour");
    let nothing = told("?until=1000");
    assert!(nothing.contains("event: nothing") && nothing.contains("no samples"), "{nothing}");
    for path in ["/ready", "/progress"] {
        assert!(answer(address, &format!("GET {path}"), "").contains("404"), "{path}");
    }
    running.end();
}
