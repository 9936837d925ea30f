//! `cargo xtask mariadb calls`: a server with the binary log is killed at each call that changes a
//! file, one after the other. Then it starts again, and engine, dictionary and binary log agree.
//!
//! A scene ([`scenes`]) is a list of statements. It runs once undisturbed: [`strace`] counts the
//! calls of each connection's thread, and after each statement a [`picture`] is taken. Then it runs
//! once for each call, and the server is killed there. What is acknowledged has happened, what was
//! in flight has happened as a whole or not at all: so the next server looks like the picture
//! before or behind the statement in flight. The binary log, run in an empty server ([`replay`]),
//! gives the same tables. What the server itself cannot do, with InnoDB either, is in [`gaps`].

mod gaps;
mod picture;
mod replay;
mod scenes;
mod session;
mod strace;

use super::server::{self, Server};
use super::share::Share;
use super::steps::try_until_within;
use super::tree::place;
use super::{is_root, make_dir, output, sql};
use gaps::{Finding, Sort};
use picture::Picture;
use scenes::{Scene, Step};
use session::{Answer, Session};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use strace::{Call, Strace};

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(4 * 3600);
/// How long a killed process may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which calls.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    share: Share,
    /// Only calls of this name, which may be one that only syncs
    #[arg(long)]
    call: Option<String>,
    /// Only the n-th of them
    #[arg(long)]
    at: Option<usize>,
    /// Only scenes whose names have this text
    #[arg(long)]
    scene: Option<String>,
    /// Tell what is known too
    #[arg(long)]
    tell_known: bool,
    /// Where strace may not look at a process, say so and end without an error
    #[arg(long)]
    if_possible: bool,
    /// The engine that is tried; InnoDB shows what the server itself does
    #[arg(long, default_value = "Millpond")]
    engine: String,
}

/// Where a server is killed: before a call of the thread of a connection.
#[derive(Clone, Debug)]
struct Point {
    session: char,
    call: Call,
}

impl Point {
    /// Returns what to write behind the command to try this again.
    fn name(&self, scene: &Scene) -> String {
        let Call { name, n } = &self.call;
        format!("--scene '{}' --call {name} --at {n} (connection {})", scene.name, self.session)
    }
}

/// What an undisturbed run of a scene has shown.
struct Counted {
    /// Before the first step, and behind each.
    pictures: Vec<Picture>,
    points: Vec<Point>,
}

/// What came of all kills.
#[derive(Debug, Default)]
struct Tally {
    /// Whether known findings are told.
    tell_known: bool,
    kills: usize,
    /// Kills whose call did not come; the server was killed at the end of the scene.
    late: usize,
    known: BTreeMap<&'static str, usize>,
    /// Findings by the statement in flight and their sort.
    found: BTreeMap<String, usize>,
}

/// Kills a server at the calls that are wanted.
pub(super) fn run(options: &Options) -> Result<(), String> {
    strace::install()?;
    if let Err(why) = strace::check() {
        if options.if_possible {
            println!("not run: {why}");
            return Ok(());
        }
        return Err(why);
    }
    let dir = place().join(format!("millpond-calls-{}", std::process::id()));
    let mut pair = Pair::start(&dir, &options.engine)?;
    let mut tally = Tally { tell_known: options.tell_known, ..Tally::default() };
    let outcome = pair.all(options, &mut tally);
    pair.stop();
    let Tally { kills, late, known, found, .. } = tally;
    found.iter().for_each(|(what, count)| println!("{count} findings: {what}"));
    let found: usize = found.values().sum();
    println!("{kills} kills ({late} at a scene's end), {found} findings");
    known.iter().for_each(|(reason, count)| println!("{count} times: {reason}"));
    outcome?;
    if found > 0 {
        return Err(format!("{found} findings; what they left is in {}", dir.display()));
    }
    std::fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))
}

/// The server that is killed, and one that runs its binary log.
struct Pair {
    dir: PathBuf,
    engine: String,
    server: Option<Server>,
    other: Server,
}

impl Pair {
    fn start(dir: &Path, engine: &str) -> Result<Pair, String> {
        let temporary = temporary(&dir.join("other"))?;
        let other = server::start(&dir.join("other"), LIFE, &options(engine, &[&temporary]))?;
        let mut pair = Pair { dir: dir.to_owned(), engine: engine.to_owned(), server: None, other };
        pair.start_again()?;
        Ok(pair)
    }

    fn place(&self) -> PathBuf {
        self.dir.join("killed")
    }

    fn server(&self) -> Result<&Server, String> {
        self.server.as_ref().ok_or_else(|| "the server does not run".to_owned())
    }

    fn start_again(&mut self) -> Result<(), String> {
        let temporary = temporary(&self.place())?;
        let log = ["--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--binlog-format=ROW", &temporary];
        self.server = Some(server::start(&self.place(), LIFE, &options(&self.engine, &log))?);
        Ok(())
    }

    fn stop(&self) {
        for name in ["killed", "other"] {
            // If one still runs.
            let _ = server::stop(&self.dir.join(name));
        }
    }

    /// Tries all points that are wanted.
    fn all(&mut self, options: &Options, tally: &mut Tally) -> Result<(), String> {
        for scene in scenes::scenes() {
            if options.scene.as_ref().is_some_and(|part| !scene.name.contains(part)) {
                continue;
            }
            let began = Instant::now();
            let counted = self.count(&scene, options.call.as_deref())?;
            let points: Vec<&Point> =
                counted.points.iter().filter(|point| is_wanted(options, &scene, point)).collect();
            let all = counted.points.len();
            println!("{}: {} of {all} calls", scene.name, points.len());
            let kills = tally.kills;
            for point in points {
                self.kill(&scene, &counted, point, tally)?;
            }
            let seconds = began.elapsed().as_secs_f64();
            println!("    {} kills, {seconds:.0} s", tally.kills - kills);
        }
        Ok(())
    }

    /// Makes what a scene begins with.
    fn set_up(&mut self, scene: &Scene) -> Result<(), String> {
        if let Err(why) = empty(self.server()?) {
            println!("    the server gets new data: {}", why.lines().last().unwrap_or(""));
            self.kill_now()?;
            std::fs::remove_dir_all(self.place()).map_err(|e| e.to_string())?;
            self.start_again()?;
        }
        sql(self.server()?, &format!("RESET MASTER; {}", scene.setup())).map(drop)
    }

    /// Runs a scene undisturbed.
    fn count(&mut self, scene: &Scene, asked: Option<&str>) -> Result<Counted, String> {
        self.set_up(scene)?;
        // As before each kill the server has just started, but for the setup.
        self.kill_now()?;
        self.start_again()?;
        self.set_up(scene)?;
        let server = self.server()?;
        let mut sessions = connect(server, scene)?;
        let file = |name: &char| self.dir.join(format!("calls.{name}"));
        let counting = sessions.iter().map(|(name, session)| Strace::count(&session.thread, &file(name)));
        let counting = counting.collect::<Result<Vec<_>, _>>()?;
        let mut pictures = vec![Picture::of(server)?];
        for step in &scene.steps {
            match take(server, &mut sessions, step)? {
                Answer::Done => pictures.push(Picture::of(server)?),
                other => return Err(format!("{}: {}: {other:?}", scene.name, step.statement())),
            }
        }
        sessions.into_values().for_each(Session::end);
        counting.into_iter().for_each(Strace::end);
        let mut points = Vec::new();
        for session in scene.sessions() {
            let file = file(&session);
            let text = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let calls = strace::calls_of(&String::from_utf8_lossy(&text), asked);
            points.extend(calls.into_iter().map(|call| Point { session, call }));
        }
        Ok(Counted { pictures, points })
    }

    /// Kills the server at a call, starts it again, and judges.
    fn kill(
        &mut self,
        scene: &Scene,
        counted: &Counted,
        point: &Point,
        tally: &mut Tally,
    ) -> Result<(), String> {
        self.set_up(scene)?;
        let server = self.server()?;
        let mut sessions = connect(server, scene)?;
        let thread = &sessions.get(&point.session).ok_or("there is no such connection")?.thread;
        let strace = Strace::kill_at(thread, &point.call.name, point.call.n)?;
        // How many steps were acknowledged, and whether one was in flight.
        let (mut acknowledged, mut in_flight) = (0, false);
        for step in &scene.steps {
            match take(server, &mut sessions, step)? {
                Answer::Done => acknowledged += 1,
                Answer::Ended { acknowledged: yes } => {
                    acknowledged += usize::from(yes);
                    in_flight = !yes;
                    break;
                }
                Answer::Failed(why) => return Err(format!("{}: {why}", point.name(scene))),
            }
        }
        sessions.into_values().for_each(Session::end);
        strace.end();
        tally.kills += 1;
        tally.late += usize::from(!in_flight && acknowledged == scene.steps.len());
        self.kill_now()?;
        if let Err(text) = self.start_again() {
            let finding = Finding { sort: Sort::Start, parts: Vec::new(), text };
            note(scene, point, acknowledged, &finding, tally);
            std::fs::remove_dir_all(self.place()).map_err(|e| e.to_string())?;
            return self.start_again();
        }
        for finding in self.judge(&counted.pictures, acknowledged, in_flight)? {
            if note(scene, point, acknowledged, &finding, tally) {
                replay::keep(self.server()?, &self.dir)?;
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the server that has started again.
    fn judge(
        &self,
        pictures: &[Picture],
        acknowledged: usize,
        in_flight: bool,
    ) -> Result<Vec<Finding>, String> {
        let server = self.server()?;
        let mut findings = Vec::new();
        let found = Picture::of(server)?;
        let before = &pictures[acknowledged];
        let after = &pictures[acknowledged + usize::from(in_flight)];
        if found != *before && found != *after {
            let all = [before, after].map(|picture| found.differing(picture));
            let parts = all.into_iter().min_by_key(Vec::len).unwrap_or_default();
            let [before, after] = [before, after].map(|picture| found.difference(picture));
            let and = if in_flight { format!("\n    and after it:\n{after}") } else { String::new() };
            let text = format!("found against before the statement:\n{before}{and}");
            findings.push(Finding { sort: Sort::Torn, parts, text });
        }
        if let Err(text) = picture::check_tables(server) {
            findings.push(Finding { sort: Sort::Check, parts: Vec::new(), text });
        }
        empty(&self.other)?;
        match replay::replay(server, &self.other) {
            Err(text) => findings.push(Finding { sort: Sort::Replay, parts: Vec::new(), text }),
            Ok(()) => {
                let logged = Picture::of(&self.other)?.without_files();
                let found = found.without_files();
                if found != logged {
                    let text = format!("the tables against the binary log:\n{}", found.difference(&logged));
                    findings.push(Finding { sort: Sort::Log, parts: found.differing(&logged), text });
                }
            }
        }
        Ok(findings)
    }

    /// Kills the server if it runs, and waits until it has ended.
    fn kill_now(&mut self) -> Result<(), String> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let process = server.process()?;
        let _ = output(Command::new("kill").args(["-9", &process]));
        let (what, place) = (format!("the end of process {process}"), Path::new("/proc").join(&process));
        try_until_within(&what, PATIENCE, Duration::from_millis(2), || Ok(!place.exists()))
    }
}

/// Counts a finding, and tells it if it is not known. Of several with one statement and of one sort
/// only the first is told whole. Returns whether it is told.
fn note(scene: &Scene, point: &Point, acknowledged: usize, finding: &Finding, tally: &mut Tally) -> bool {
    let step = scene.steps.get(acknowledged).map(Step::statement);
    if let Some(reason) = gaps::known(step.unwrap_or(""), finding) {
        *tally.known.entry(reason).or_default() += 1;
        if tally.tell_known {
            let Finding { sort, text, .. } = finding;
            println!(
                "  known {sort:?}, {}, in: {}\n    {text}",
                point.name(scene),
                step.unwrap_or("(the end)")
            );
        }
        return false;
    }
    let (sort, step) = (finding.sort, step.unwrap_or("(the end)"));
    println!("  FOUND {sort:?}, {}, in: {step}", point.name(scene));
    let count = tally.found.entry(format!("{}: {sort:?}: {step}", scene.name)).or_default();
    *count += 1;
    if *count == 1 {
        println!("    {}", finding.text);
    }
    true
}

/// Options of both servers. They are small, for they start often.
fn options<'o>(engine: &'o str, more: &[&'o str]) -> Vec<&'o str> {
    let engine = match engine {
        "InnoDB" => "--default-storage-engine=InnoDB",
        _ => "--default-storage-engine=Millpond",
    };
    let all = [
        engine,
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=4M",
        "--loose-innodb-log-file-mmap=OFF",
        "--millpond-buffer-pool-size=16M",
        "--millpond-redo-capacity=64M",
        "--aria-pagecache-buffer-size=1M",
        "--key-buffer-size=1M",
        "--lock-wait-timeout=5",
        "--innodb-lock-wait-timeout=5",
    ];
    [&all, more].concat()
}

/// Makes a directory for a server's temporary files, and returns the option. A killed server leaves
/// some, which are none of another's.
fn temporary(dir: &Path) -> Result<String, String> {
    let dir = dir.join("temporary");
    make_dir(&dir)?;
    if is_root() {
        output(Command::new("chown").arg(server::USER).arg(&dir))?;
    }
    Ok(format!("--tmpdir={}", dir.display()))
}

fn is_wanted(options: &Options, scene: &Scene, point: &Point) -> bool {
    options.at.is_none_or(|at| at == point.call.n) && options.share.has(&point.name(scene))
}

/// Opens all connections of a scene.
fn connect(server: &Server, scene: &Scene) -> Result<BTreeMap<char, Session>, String> {
    scene.sessions().into_iter().map(|name| Ok((name, Session::new(server)?))).collect()
}

/// Takes a step of a scene.
fn take(server: &Server, sessions: &mut BTreeMap<char, Session>, step: &Step) -> Result<Answer, String> {
    let none = || format!("there is no connection {}", step.session());
    match step {
        Step::Run(name, statement) => sessions.get_mut(name).ok_or_else(none)?.run(statement),
        Step::Leave(name) => {
            sessions.remove(name).ok_or_else(none)?.leave(server)?;
            let lives = sql(server, "DO 1").is_ok();
            Ok(if lives { Answer::Done } else { Answer::Ended { acknowledged: false } })
        }
    }
}

/// Removes all that scenes have made.
fn empty(server: &Server) -> Result<(), String> {
    for line in sql(server, "XA RECOVER FORMAT='SQL'")?.lines() {
        let name = line.splitn(4, '\t').nth(3).unwrap_or_default();
        sql(server, &format!("XA ROLLBACK {name}"))?;
    }
    let databases = picture::databases(server)?;
    let drops: String = databases.iter().map(|name| format!("DROP DATABASE `{name}`;")).collect();
    sql(server, &drops)?;
    let left = "SELECT COUNT(*) FROM information_schema.MILLPOND_TABLES WHERE table_schema <> 'mysql'";
    match sql(server, left)?.as_str() {
        "0" => Ok(()),
        some => Err(format!("the engine has {some} tables of no database")),
    }
}
