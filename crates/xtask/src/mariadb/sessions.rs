//! Tests with several connections: scripts `mariadb/tests/NAME.sessions`.
//!
//! A line `a: STATEMENT` runs the statement in session `a` and prints what it answers. `a&
//! STATEMENT` starts a statement that has to wait for a lock: the script goes on when the engine
//! has counted one more wait, so nothing depends on time. `a.` waits for the answer of such a
//! statement, and prints it. `kill a` cancels the statement that session `a` runs. Other lines are
//! comments.
//!
//! A script may run several times, and has to print the same each time. The comments above its
//! first action say how: `# engines: A B` runs it with each of these engines as that of tables that
//! name none, and of several lines `# each: STATEMENT` one run begins all its sessions with each.

use super::output;
use super::server::Server;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer may take before the script fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a client prints behind each answer.
const END: &str = "-- end of the answer";

/// A connection: a client that reads statements from its standard input.
struct Session {
    client: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// The server's number of the connection.
    number: String,
}

/// How a script is run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variant<'a> {
    /// The engine of tables that name none.
    pub(super) engine: &'a str,
    /// What each session begins with.
    begin: &'a str,
}

/// Returns how a script is run: at least once.
pub(super) fn variants(script: &str) -> Vec<Variant<'_>> {
    let head = || script.lines().take_while(|line| line.starts_with('#'));
    let engines: Vec<&str> = head()
        .find_map(|line| line.strip_prefix("# engines: "))
        .map_or_else(|| vec!["Millpond"], |engines| engines.split_whitespace().collect());
    let mut each: Vec<&str> = head().filter_map(|line| line.strip_prefix("# each: ")).collect();
    if each.is_empty() {
        each.push("DO 0");
    }
    let of = |engine| each.iter().map(move |&begin| Variant { engine, begin });
    engines.into_iter().flat_map(of).collect()
}

/// Runs a script, and returns what it prints.
pub(super) fn run(server: &Server, script: &str, variant: &Variant<'_>) -> Result<String, String> {
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    let mut printed = String::new();
    for line in script.lines() {
        let Some(action) = Action::of(line) else { continue };
        let name = action.session();
        if !sessions.contains_key(name) {
            sessions.insert(name.to_owned(), Session::new(server, variant)?);
        }
        let session = sessions.get_mut(name).ok_or("there is no such session")?;
        let _ = writeln!(printed, "{line}");
        let answer = action.run(server, session).map_err(|why| format!("`{line}`: {why}"))?;
        printed.push_str(&answer);
    }
    sessions.into_values().try_for_each(Session::end)?;
    Ok(printed)
}

/// A line of a script.
enum Action<'a> {
    Run { session: &'a str, statement: &'a str },
    Start { session: &'a str, statement: &'a str },
    Answer { session: &'a str },
    Kill { session: &'a str },
}

impl<'a> Action<'a> {
    fn of(line: &'a str) -> Option<Action<'a>> {
        let is_name = |name: &str| name.len() == 1 && name.chars().all(|c| c.is_ascii_lowercase());
        let (name, rest) = line.split_at_checked(1)?;
        if let Some(session) = line.strip_prefix("kill ").filter(|name| is_name(name)) {
            return Some(Action::Kill { session });
        }
        if !is_name(name) {
            return None;
        }
        let session = name;
        if rest == "." {
            return Some(Action::Answer { session });
        }
        let statement = |mark| rest.strip_prefix(mark).map(str::trim);
        let run = statement(": ").map(|statement| Action::Run { session, statement });
        run.or_else(|| statement("& ").map(|statement| Action::Start { session, statement }))
    }

    fn session(&self) -> &'a str {
        match self {
            Action::Run { session, .. }
            | Action::Start { session, .. }
            | Action::Answer { session }
            | Action::Kill { session } => session,
        }
    }

    fn run(&self, server: &Server, session: &mut Session) -> Result<String, String> {
        match self {
            Action::Run { statement, .. } => {
                session.send(statement)?;
                session.answer()
            }
            Action::Start { statement, .. } => {
                let before = lock_waits(server)?;
                session.send(statement)?;
                let began = Instant::now();
                while lock_waits(server)? == before {
                    if began.elapsed() > PATIENCE {
                        return Err("it does not wait for a lock".into());
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(String::new())
            }
            Action::Answer { .. } => session.answer(),
            Action::Kill { .. } => {
                let kill = format!("KILL QUERY {}", session.number);
                output(server.client().args(["--execute", &kill])).map(|_| String::new())
            }
        }
    }
}

/// Returns how many locks were not granted at once, of each engine.
fn lock_waits(server: &Server) -> Result<String, String> {
    let query = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Millpond_lock_waits', 'Innodb_row_lock_waits')";
    output(server.client().args(["--execute", query]))
}

impl Session {
    fn new(server: &Server, variant: &Variant<'_>) -> Result<Session, String> {
        let client = server.client();
        // The shell puts errors where they happen between the answers.
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(client.get_program()).args(client.get_args());
        command.args(["--batch", "--force", "--unbuffered", "--skip-column-names", "test"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
        let input = client.stdin.take().ok_or("the client has no input")?;
        let from = BufReader::new(client.stdout.take().ok_or("the client has no output")?);
        let (to, lines) = channel();
        // The thread ends with the client.
        std::thread::spawn(move || from.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        let mut session = Session { client, input, lines, number: String::new() };
        let Variant { engine, begin } = variant;
        session.send(&format!("SET default_storage_engine = {engine}; {begin}; SELECT CONNECTION_ID()"))?;
        session.number = session.answer()?.trim().to_owned();
        Ok(session)
    }

    fn send(&mut self, statement: &str) -> Result<(), String> {
        let text = format!("{statement};\nSELECT '{END}';\n");
        self.input.write_all(text.as_bytes()).map_err(|e| format!("the client has ended: {e}"))
    }

    /// Returns the lines of one answer. Their places in the client's input are left out.
    fn answer(&mut self) -> Result<String, String> {
        let mut answer = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|_| "there is no answer".to_owned())?;
            if line == END {
                return Ok(answer);
            }
            let plain = line.strip_prefix("ERROR ").and_then(|rest| {
                let (code, text) = rest.split_once(" at line ")?;
                Some(format!("ERROR {code}: {}", text.split_once(": ")?.1))
            });
            if line.is_empty() || line.starts_with("--------------") {
                continue;
            }
            let _ = writeln!(answer, "  {}", plain.unwrap_or(line));
        }
    }

    fn end(self) -> Result<(), String> {
        let Session { mut client, input, lines, .. } = self;
        drop(input);
        drop(lines);
        client.wait().map(drop).map_err(|e| format!("a client: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comments_above_may_name_engines_and_settings() {
        let of = |script| -> Vec<String> {
            variants(script).iter().map(|v| format!("{} {}", v.engine, v.begin)).collect()
        };
        assert_eq!(of("a: SELECT 1\n# engines: InnoDB"), ["Millpond DO 0"]);
        assert_eq!(of("# Words\n# engines: A B\na: SELECT 1"), ["A DO 0", "B DO 0"]);
        assert_eq!(
            of("# engines: A B\n# each: SET x\n# each: SET y\n"),
            ["A SET x", "A SET y", "B SET x", "B SET y"]
        );
    }

    #[test]
    fn a_line_is_an_action_of_a_session_or_a_comment() {
        let kind = |line| match Action::of(line) {
            Some(Action::Run { session, statement }) => format!("run {session} {statement}"),
            Some(Action::Start { session, statement }) => format!("start {session} {statement}"),
            Some(Action::Answer { session }) => format!("answer {session}"),
            Some(Action::Kill { session }) => format!("kill {session}"),
            None => "comment".to_owned(),
        };
        let wanted = [
            ("a: SELECT 1", "run a SELECT 1"),
            ("b& UPDATE t", "start b UPDATE t"),
            ("b.", "answer b"),
            ("kill c", "kill c"),
            ("", "comment"),
            ("# a: SELECT", "comment"),
            ("ab: SELECT", "comment"),
        ];
        for (line, action) in wanted {
            assert_eq!(kind(line), action, "{line}");
        }
    }
}
