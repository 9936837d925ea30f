//! Who may ask for what: decisions about addresses and requests, without a network.
//!
//! The token is the right to look. The header `Host` must name this machine, so that a page of
//! another site whose name was pointed here gets nothing (DNS rebinding).
//!
//! `/ready` and `/progress` need no token: a probe has no good place for a secret, and they tell
//! only whether the target answers and how far its recovery is.

use std::net::{IpAddr, SocketAddr};

/// Where browsers come to, if nothing else is said.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:7070";

/// What requests are judged by.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The secret.
    pub(super) token: String,
    /// Names of this machine, besides `localhost` and its addresses.
    pub(super) names: Vec<String>,
    /// The address that is listened on.
    pub(super) listen: IpAddr,
    /// How many targets there are. Of several, each has its page, and all have one.
    pub(super) targets: usize,
}

/// What of a request decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'r> {
    pub(super) method: &'r str,
    pub(super) path: &'r str,
    pub(super) host: Option<&'r str>,
    pub(super) authorization: Option<&'r str>,
}

/// What a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The page of a target, by its place.
    Page(usize),
    Script,
    Style,
    /// What the page of a target is told.
    Events(usize),
    /// The page of several targets.
    List,
    ListScript,
    ListEvents,
    /// The figures of one target, or of all.
    Metrics(Option<usize>),
    /// Whether the target is ready.
    Ready,
    /// How far its recovery is.
    Progress,
    /// Go to the page: the address has no slash at its end.
    ToPage,
    /// A status and a sentence.
    Refused(u16, &'static str),
}

/// Parses `--listen`.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse()
        .map_err(|_| format!("{text:?} is no address and port such as {DEFAULT_LISTEN} or [::1]:7070"))
}

/// Refuses to listen to other machines unless that is asked for.
pub(super) fn check_listen(listen: SocketAddr, network: bool) -> Result<(), String> {
    if listen.ip().is_loopback() || network {
        return Ok(());
    }
    Err(format!(
        "--listen {listen} would let other machines look, over a connection that anyone between can \
         read; add --network if that is wanted, or come by ssh -L 7070:{DEFAULT_LISTEN}"
    ))
}

/// Judges a request.
pub(super) fn judge(rules: &Rules, request: Request<'_>) -> Answer {
    if !matches!(request.method, "GET" | "HEAD") {
        return Answer::Refused(405, "here one can only look: GET");
    }
    if !request.host.is_some_and(|host| is_ours(rules, host)) {
        return Answer::Refused(403, "the header Host names another machine; --name NAME allows a name");
    }
    match request.path {
        "/ready" => return Answer::Ready,
        "/progress" => return Answer::Progress,
        _ => {}
    }
    if request.path == "/metrics" {
        let bearer = request.authorization.and_then(bearer);
        return match bearer.is_some_and(|given| same(given, &rules.token)) {
            true => Answer::Metrics(None),
            false => Answer::Refused(401, "this needs the token: Authorization: Bearer TOKEN"),
        };
    }
    let rest = request.path.strip_prefix('/').unwrap_or_default();
    let (token, name) = rest.split_once('/').map_or((rest, None), |(token, name)| (token, Some(name)));
    if !same(token, &rules.token) {
        return Answer::Refused(403, "the address needs the token that `millpond serve` has printed");
    }
    match name {
        None => Answer::ToPage,
        Some("metrics") => Answer::Metrics(None),
        Some("style.css") => Answer::Style,
        Some(name) if rules.targets == 1 => of_target(name, 0),
        Some("") => Answer::List,
        Some("list.js") => Answer::ListScript,
        Some("events") => Answer::ListEvents,
        Some(name) => {
            let (number, name) = name.split_once('/').map_or((name, None), |(n, name)| (n, Some(name)));
            let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match (place.filter(|place| *place < rules.targets), name) {
                (Some(_), None) => Answer::ToPage,
                (Some(place), Some(name)) => of_target(name, place),
                (None, _) => NO_SUCH_PAGE,
            }
        }
    }
}

const NO_SUCH_PAGE: Answer = Answer::Refused(404, "there is no such page");

/// Judges what is asked of one target.
fn of_target(name: &str, place: usize) -> Answer {
    match name {
        "" => Answer::Page(place),
        "app.js" => Answer::Script,
        "style.css" => Answer::Style,
        "events" => Answer::Events(place),
        "metrics" => Answer::Metrics(Some(place)),
        _ => NO_SUCH_PAGE,
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares two texts in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

/// Tells whether a `Host` is this machine. Any address is: only a name can be pointed elsewhere.
/// Without --network only the loopback addresses are.
fn is_ours(rules: &Rules, host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !rules.listen.is_loopback(),
        Err(_) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || rules.names.iter().any(|one| one.eq_ignore_ascii_case(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn rules(listen: &str) -> Rules {
        let token = "0123456789abcdef".to_owned();
        Rules { token, names: vec!["db.example".to_owned()], listen: listen.parse().unwrap(), targets: 1 }
    }

    fn asked(method: &str, path: &str, host: &str, authorization: Option<&str>) -> Answer {
        judge(&rules("127.0.0.1"), Request { method, path, host: Some(host), authorization })
    }

    #[test]
    fn what_a_request_gets() {
        let mut out = String::new();
        let (right, wrong) = (Some("Bearer 0123456789abcdef"), Some("Bearer 0123456789abcdee"));
        for (method, path, authorization) in [
            ("GET", "/0123456789abcdef/", None),
            ("HEAD", "/0123456789abcdef/", None),
            ("GET", "/0123456789abcdef", None),
            ("GET", "/0123456789abcdef/app.js", None),
            ("GET", "/0123456789abcdef/style.css", None),
            ("GET", "/0123456789abcdef/events", None),
            ("GET", "/0123456789abcdef/metrics", None),
            ("GET", "/0123456789abcdef/../etc/passwd", None),
            ("POST", "/0123456789abcdef/", None),
            ("DELETE", "/0123456789abcdef/", None),
            ("OPTIONS", "/0123456789abcdef/", None),
            ("GET", "/", None),
            ("GET", "", None),
            ("GET", "/0123456789abcdeX/", None),
            ("GET", "/0123456789abcdef0/", None),
            ("GET", "/", right),
            ("GET", "/metrics", right),
            ("GET", "/metrics", Some("bearer  0123456789abcdef")),
            ("GET", "/metrics", wrong),
            ("GET", "/metrics", Some("Basic 0123456789abcdef")),
            ("GET", "/metrics", None),
        ] {
            let answer = asked(method, path, "localhost:7070", authorization);
            out += &format!("{method} {path} {}: {answer:?}\n", authorization.unwrap_or("-"));
        }
        expect![[r#"
            GET /0123456789abcdef/ -: Page(0)
            HEAD /0123456789abcdef/ -: Page(0)
            GET /0123456789abcdef -: ToPage
            GET /0123456789abcdef/app.js -: Script
            GET /0123456789abcdef/style.css -: Style
            GET /0123456789abcdef/events -: Events(0)
            GET /0123456789abcdef/metrics -: Metrics(None)
            GET /0123456789abcdef/../etc/passwd -: Refused(404, "there is no such page")
            POST /0123456789abcdef/ -: Refused(405, "here one can only look: GET")
            DELETE /0123456789abcdef/ -: Refused(405, "here one can only look: GET")
            OPTIONS /0123456789abcdef/ -: Refused(405, "here one can only look: GET")
            GET / -: Refused(403, "the address needs the token that `millpond serve` has printed")
            GET  -: Refused(403, "the address needs the token that `millpond serve` has printed")
            GET /0123456789abcdeX/ -: Refused(403, "the address needs the token that `millpond serve` has printed")
            GET /0123456789abcdef0/ -: Refused(403, "the address needs the token that `millpond serve` has printed")
            GET / Bearer 0123456789abcdef: Refused(403, "the address needs the token that `millpond serve` has printed")
            GET /metrics Bearer 0123456789abcdef: Metrics(None)
            GET /metrics bearer  0123456789abcdef: Metrics(None)
            GET /metrics Bearer 0123456789abcdee: Refused(401, "this needs the token: Authorization: Bearer TOKEN")
            GET /metrics Basic 0123456789abcdef: Refused(401, "this needs the token: Authorization: Bearer TOKEN")
            GET /metrics -: Refused(401, "this needs the token: Authorization: Bearer TOKEN")
        "#]].assert_eq(&out);
    }

    #[test]
    fn probes_need_no_token_but_the_right_host_and_method() {
        for (path, answer) in [("/ready", Answer::Ready), ("/progress", Answer::Progress)] {
            assert_eq!(asked("GET", path, "127.0.0.1:7070", None), answer);
            assert_eq!(asked("HEAD", path, "localhost", None), answer);
            assert!(matches!(asked("POST", path, "localhost", None), Answer::Refused(405, _)));
            assert!(matches!(asked("GET", path, "evil.example", None), Answer::Refused(403, _)));
            let below = format!("{path}/x");
            assert!(matches!(asked("GET", &below, "localhost", None), Answer::Refused(403, _)));
        }
    }

    #[test]
    fn the_host_must_be_this_machine() {
        let mut out = String::new();
        for host in [
            "localhost",
            "LOCALHOST.:7070",
            "127.0.0.1:7070",
            "[::1]:7070",
            "db.example",
            "192.168.1.7:7070",
            "evil.example",
            "localhost.evil.example",
            "[::1",
            "",
        ] {
            let judged = |listen| {
                let request = Request {
                    method: "GET",
                    path: "/0123456789abcdef/",
                    host: Some(host),
                    authorization: None,
                };
                judge(&rules(listen), request) == Answer::Page(0)
            };
            out += &format!("{host:24} {} {}\n", judged("127.0.0.1"), judged("0.0.0.0"));
        }
        expect![[r#"
            localhost                true true
            LOCALHOST.:7070          true true
            127.0.0.1:7070           true true
            [::1]:7070               true true
            db.example               true true
            192.168.1.7:7070         false true
            evil.example             false false
            localhost.evil.example   false false
            [::1                     false false
                                     false false
        "#]]
        .assert_eq(&out);
        let none = Request { method: "GET", path: "/", host: None, authorization: None };
        assert!(matches!(judge(&rules("::1"), none), Answer::Refused(403, _)));
    }

    #[test]
    fn what_a_request_gets_of_several_targets() {
        let rules = Rules { targets: 2, ..rules("127.0.0.1") };
        let mut out = String::new();
        for path in
            ["", "/", "/list.js", "/style.css", "/events", "/metrics", "/app.js", "/1", "/1/", "/2/app.js"]
                .into_iter()
                .chain([
                    "/2/style.css",
                    "/2/events",
                    "/2/metrics",
                    "/2/x",
                    "/0/",
                    "/3/",
                    "/-1/",
                    "/1/1/",
                    "/x/",
                ])
        {
            let whole = format!("/0123456789abcdef{path}");
            let request =
                Request { method: "GET", path: &whole, host: Some("localhost"), authorization: None };
            out += &format!("{path}: {:?}\n", judge(&rules, request));
        }
        expect![[r#"
            : ToPage
            /: List
            /list.js: ListScript
            /style.css: Style
            /events: ListEvents
            /metrics: Metrics(None)
            /app.js: Refused(404, "there is no such page")
            /1: ToPage
            /1/: Page(0)
            /2/app.js: Script
            /2/style.css: Style
            /2/events: Events(1)
            /2/metrics: Metrics(Some(1))
            /2/x: Refused(404, "there is no such page")
            /0/: Refused(404, "there is no such page")
            /3/: Refused(404, "there is no such page")
            /-1/: Refused(404, "there is no such page")
            /1/1/: Refused(404, "there is no such page")
            /x/: Refused(404, "there is no such page")
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn other_machines_may_look_only_if_that_is_asked_for() {
        for (text, network, works) in [
            (DEFAULT_LISTEN, false, true),
            ("[::1]:0", false, true),
            ("localhost:80", false, true),
            ("0.0.0.0:7070", false, false),
            ("192.168.1.7:7070", false, false),
            ("[::]:7070", false, false),
            ("0.0.0.0:7070", true, true),
        ] {
            assert_eq!(check_listen(parse_listen(text).unwrap(), network).is_ok(), works, "{text}");
        }
        for text in ["", "7070", "example:7070", "127.0.0.1", "127.0.0.1:70700"] {
            assert!(parse_listen(text).unwrap_err().contains("is no address"), "{text}");
        }
    }
}
