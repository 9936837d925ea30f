//! `millpond serve` against a live server: InnoDB and the plugin's database under load, a real
//! Prometheus, a real Chromium that clicks, `kill -9` of the server and a new start, Ctrl-C.

mod browser;
mod exporter;
mod http;
mod monitoring;
mod serving;

use super::places::Profile;
use super::server::{self, Server};
use super::steps::{build_program, expect, until};
use super::{make_dir, output, own_load, packages};
use browser::Browser;
pub(super) use http::free_port;
use serving::{LIFE, Serving};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Runs all cases in a server of their own. With a directory for pictures, it writes them.
pub(super) fn run(dir: &Path, pictures: Option<&Path>) -> Result<(), String> {
    packages::install(&browser::PACKAGES)?;
    monitoring::rules()?;
    println!("ok      promtool tests the rules of the alerts");
    // A picture shows what users get.
    let profile = if pictures.is_some() { Profile::Release } else { Profile::Debug };
    let program = build_program(profile)?;
    let server_dir = dir.join("server");
    let server = start(&server_dir)?;
    let outcome = cases(dir, &program, &server, &server_dir, pictures);
    outcome.and(server::stop(&server_dir))
}

/// Returns what `millpond serve` tells Prometheus of a server. It ends by Ctrl-C.
pub(super) fn metrics(program: &Path, dir: &Path, target: &str) -> Result<String, String> {
    let serving = Serving::start(program, dir, &[target])?;
    let bearer = format!("Authorization: Bearer {}\r\n", serving.token);
    let mut told = String::new();
    let sampled = until("a sample of the server", || {
        if let Ok((200, text)) = http::ask(serving.port, "GET", "/metrics", &bearer, "") {
            told = text;
        }
        told.contains("millpond_up 1")
    });
    sampled.and(serving.interrupt()).map(|()| told)
}

fn cases(
    dir: &Path,
    program: &Path,
    server: &Server,
    place: &Path,
    pictures: Option<&Path>,
) -> Result<(), String> {
    // The socket stands in an option file, so that the page and its pictures name no path.
    let options = format!("[client]\nsocket={}\n", server.socket.display());
    super::write(&dir.join(".my.cnf"), &options)?;
    let of_server = "mysql://root@localhost/";
    let of_database = server.data().join("#millpond").display().to_string();
    let serving = Serving::start(program, dir, &[of_server])?;
    load_of_serve(server)?;
    let load = Load::start(server)?;
    let other = Serving::start(program, dir, &[&of_database])?;
    let ecosystem =
        ["mysql_up", "mysql_global_status_commands_total", "mysql_global_variables_innodb_doublewrite"];
    monitoring::text(dir, &serving, &[&ecosystem[..], &["millpond_checkpoint_age_limit"]].concat())?;
    let names = exporter::compare(server, &serving)?;
    println!("ok      {names} names are as mysqld_exporter has them, with their types and labels");
    monitoring::text(
        dir,
        &other,
        &["millpond_up", "millpond_commits_total", "millpond_fsync_seconds_bucket"],
    )?;
    let count = monitoring::dashboard(&dir.join("prometheus"), &[&serving, &other])?;
    println!("ok      Prometheus has series for {count} expressions of the dashboard");
    let browser = Browser::start(&dir.join("profile"))?;
    page(&browser, &serving)?;
    println!("ok      the page moves, pauses, zooms and goes back, by clicks and by keys");
    if let Some(pictures) = pictures {
        make_dir(pictures)?;
        for (name, scheme, width, height) in
            [("light", "light", 1280, 1000), ("dark", "dark", 1280, 1000), ("phone", "dark", 390, 844)]
        {
            browser.look(scheme, width, height)?;
            browser.script("document.activeElement.blur(); scrollTo(0, 0)")?;
            std::thread::sleep(Duration::from_secs(2));
            browser.picture(&pictures.join(format!("serve-{name}.png")))?;
        }
        browser.look("light", 1280, 1000)?;
        report(&browser, program, dir, &pictures.join("report.png"))?;
    }
    browser.go(&other.url)?;
    until("the page of a database", || is_live(&browser))?;
    expect("the version", &browser.text("#version")?, "Millpond")?;
    println!("ok      the page of the plugin's database");
    // Nobody listens on port 1.
    let all = Serving::start(program, dir, &[of_server, &of_database, "mysql://root@127.0.0.1:1/"])?;
    let labelled = ["millpond_up", "mysql_up", "millpond_fsync_seconds_bucket"];
    several(&browser, &all, pictures)?;
    monitoring::text(dir, &all, &labelled)?;
    all.interrupt()?;
    println!("ok      the page of several targets, of which one is not there");
    browser.go(&serving.url)?;
    until("the page again", || is_live(&browser))?;
    drop(load);
    restart(&browser, server, place)?;
    println!("ok      a server that dies and comes back");
    serving.interrupt()?;
    until("the page without millpond serve", || has(&browser, "#state", "no connection"))?;
    drop(browser);
    other.interrupt()?;
    println!("ok      Ctrl-C ends it");
    Ok(())
}

/// The page of several targets shows all, leads to each, and back.
fn several(browser: &Browser, all: &Serving, pictures: Option<&Path>) -> Result<(), String> {
    let card = |number: u32| format!("#targets li:nth-child({number}) a");
    browser.go(&all.url)?;
    until("the page of several targets", || {
        has(browser, &card(1), "MariaDB")
            && has(browser, &card(2), "Millpond")
            && has(browser, &card(3), "no samples")
    })?;
    until("figures of two targets", || {
        has(browser, &card(1), "commits") && has(browser, &card(2), "commits")
    })?;
    if let Some(pictures) = pictures {
        browser.look("light", 1280, 300)?;
        std::thread::sleep(Duration::from_secs(3));
        browser.picture(&pictures.join("serve-several.png"))?;
        browser.look("light", 1280, 1000)?;
    }
    browser.click(&card(2))?;
    until("the page of one of them", || is_live(browser))?;
    expect("the version", &browser.text("#version")?, "Millpond")?;
    browser.click("#all")?;
    until("all again", || has(browser, "#state", "3 targets, live"))?;
    match browser.complaints()?.as_slice() {
        [] => Ok(()),
        some => Err(format!("the page of several targets: {}", some.join("; "))),
    }
}

/// Takes a picture of what `millpond run --report` draws, of a short run with a small log.
fn report(browser: &Browser, program: &Path, dir: &Path, picture: &Path) -> Result<(), String> {
    let small = ["--tables", "4", "--rows", "50000", "--threads", "8", "--redo-capacity", "64MiB"];
    let mut run = Command::new(program);
    run.args(["run", "--seconds", "20", "--report", "report"]).args(small).current_dir(dir);
    output(&mut run)?;
    let page = dir.canonicalize().map_err(|e| e.to_string())?.join("report/index.html");
    browser.go(&format!("file://{}", page.display()))?;
    std::thread::sleep(Duration::from_secs(2));
    browser.picture(picture)
}

fn start(dir: &Path) -> Result<Server, String> {
    server::start(dir, LIFE, &["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"])
}

/// Clients that change rows of both engines. Dropping it ends them.
struct Load(Vec<Child>);

impl Load {
    fn start(server: &Server) -> Result<Load, String> {
        let mut load = Load(Vec::new());
        for engine in ["InnoDB", "Millpond", "InnoDB"] {
            let make = format!(
                "CREATE DATABASE IF NOT EXISTS served; SET GLOBAL innodb_monitor_enable = 'module_buffer'; \
                 CREATE TABLE IF NOT EXISTS served.{engine} \
                 (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200)) ENGINE={engine}"
            );
            output(server.client().args(["--execute", &make]))?;
            let statements = format!(
                "INSERT INTO {engine} (v) VALUES (REPEAT('x', 200)); DO SLEEP(0.002);\n\
                 UPDATE {engine} SET v = REPEAT('y', 200) WHERE id % 97 = 5 LIMIT 20;\n"
            );
            let script = server.log().with_file_name(format!("{engine}.sql"));
            super::write(&script, &statements.repeat(50_000))?;
            let input = std::fs::File::open(&script).map_err(|e| e.to_string())?;
            let mut client = server.client();
            client.args(["--force", "served"]).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
            load.0.push(client.spawn().map_err(|e| format!("cannot start a client: {e}"))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for client in &mut self.0 {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// Counts what a server gets that nobody else asks. What it costs is measured by
/// [`own_load`] for longer.
fn load_of_serve(server: &Server) -> Result<(), String> {
    let rate = own_load::cost(server, 15)?.statements;
    println!("ok      serve asks {rate:.2} statements a second");
    if (0.5..=own_load::STATEMENTS_A_SECOND).contains(&rate) {
        return Ok(());
    }
    Err(format!("the server gets {rate:.2} statements a second"))
}

fn has(browser: &Browser, css: &str, wanted: &str) -> bool {
    browser.text(css).is_ok_and(|text| text.contains(wanted))
}

fn is_live(browser: &Browser) -> bool {
    has(browser, "#state", "live") && seconds(browser) > 2.0
}

/// Returns how many seconds the page was told.
fn seconds(browser: &Browser) -> f64 {
    let told = browser.script("return +(document.documentElement.dataset.seconds || 0)");
    told.ok().and_then(|told| told.as_f64()).unwrap_or(0.0)
}

/// Clicks and presses keys, as a user does.
fn page(browser: &Browser, serving: &Serving) -> Result<(), String> {
    browser.go(&serving.url)?;
    until("a live page", || is_live(browser))?;
    let drawn = "return document.querySelectorAll('figure:not([hidden]) svg.plot path.line').length";
    until("lines", || browser.script(drawn).ok().and_then(|n| n.as_u64()).is_some_and(|n| n >= 3))?;
    until("tiles", || has(browser, "#tiles", "checkpoint age"))?;
    let (before, worked) = (seconds(browser), browser.main_thread_seconds()?);
    // Not asked meanwhile: each question costs the main thread too.
    std::thread::sleep(Duration::from_secs(10));
    let worked = browser.main_thread_seconds()? - worked;
    let told = seconds(browser) - before;
    let paint = "return performance.getEntriesByName('first-contentful-paint')[0].startTime";
    let paint = browser.script(paint)?.as_f64().unwrap_or(f64::NAN);
    println!(
        "ok      first paint after {paint:.0} ms; a second's update takes {:.1} ms of the main thread",
        1e3 * worked / told
    );
    browser.click("#pause")?;
    expect("paused", &browser.text("#shown")?, "held")?;
    browser.click(".zoom[data-seconds='60']")?;
    let pressed = "return document.querySelector(\".zoom[data-seconds='60']\").getAttribute('aria-pressed')";
    if browser.script(pressed)?.as_str() != Some("true") {
        return Err("the button of a minute is not pressed".to_owned());
    }
    let held = browser.text("#shown")?;
    let then = seconds(browser);
    until("another second", || seconds(browser) > then)?;
    expect("a held picture", &browser.text("#shown")?, &held)?;
    browser.press("l")?;
    until("live again", || has(browser, "#shown", "live"))?;
    browser.press("4")?;
    browser.press("p")?;
    expect("held by a key", &browser.text("#shown")?, "held")?;
    browser.script("document.getElementById('plot-checkpoint-age').focus()")?;
    browser.press("\u{e012}")?;
    expect("the line that reads values, by a key", &browser.text("#shown")?, "at ")?;
    browser.press("\u{e00c}")?;
    browser.press("1")?;
    // The sample of a line beside its name was once as large as a plot.
    let key = "return Math.round(document.querySelector('.key svg').getBoundingClientRect().height)";
    if browser.script(key)?.as_u64().is_none_or(|height| height > 20) {
        return Err("the sample of a line is no small picture beside its name".to_owned());
    }
    // The list of waits and the plot of waits had one id, so the plot was half as wide.
    let ids = "var ids = Array.from(document.querySelectorAll('[id]'), function (node) { return node.id; }); \
               return ids.length - new Set(ids).size";
    if browser.script(ids)?.as_u64() != Some(0) {
        return Err("two elements of the page have one id".to_owned());
    }
    let wide = "return document.documentElement.scrollWidth";
    browser.look("dark", 390, 844)?;
    let width = browser.script(wide)?.as_u64().unwrap_or(u64::MAX);
    browser.look("light", 1280, 1000)?;
    if width > 390 {
        return Err(format!("on a phone the page is {width} pixels wide"));
    }
    match browser.complaints()?.first() {
        Some(complaint) => Err(format!("the browser complains: {complaint}")),
        None => Ok(()),
    }
}

fn restart(browser: &Browser, server: &Server, place: &Path) -> Result<(), String> {
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    until("a page that says that the server is gone", || has(browser, "#state", "gone since"))?;
    expect("what to look at first", &browser.text("#first-text")?, "no samples: ")?;
    // The figures of before stood there as those of now.
    for list in ["#tiles", "#who-waits"] {
        let live = format!(
            "return Array.from(document.querySelectorAll('{list} dd'), function (dd) {{ return dd.innerText; }}) \
             .filter(function (text) {{ return text.trim() !== 'not known'; }}).join(', ')"
        );
        let live = browser.script(&live)?;
        if live.as_str() != Some("") {
            return Err(format!("{list} shows figures of a server that is gone: {live}"));
        }
    }
    start(place)?;
    until("the page after the new start", || has(browser, "#state", "live, "))?;
    let then = seconds(browser);
    until("seconds after the new start", || seconds(browser) > then)?;
    expect("what happened", &browser.text("#events")?, "the target is back")
}
