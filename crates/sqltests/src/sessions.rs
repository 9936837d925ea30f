//! Tests with several connections: scripts `mariadb/tests/NAME.sessions`.
//!
//! A line `a: STATEMENT` runs the statement in session `a` and prints what it answers. `a&
//! STATEMENT` starts a statement that has to wait for a lock: the script goes on when the engine
//! says that this connection waits, so nothing depends on time. `a? STATEMENT` starts a statement
//! that may have to wait: the script goes on when it is answered or waits. Where the session waits
//! already, the statement comes after. `a! STATEMENT` starts a statement that runs until it is
//! killed: the script goes on when it runs. `a.` waits for the answers of all started statements,
//! and prints them. `kill a` cancels the statement that session `a` runs. Other lines are comments.
//!
//! How often a script runs, its [`Variant`]s, say the comments above its first action.

use super::output;
use super::server::Server;
use super::variants::Variant;
use std::collections::{BTreeMap, VecDeque};
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
    /// The engine of tables that name none.
    engine: String,
    /// Statements that were started and not answered to the script, in order.
    started: Vec<Started>,
    /// Answers that are whole.
    answers: VecDeque<String>,
    /// The lines of the answer that is under way.
    partial: String,
}

/// A statement that was started.
struct Started {
    statement: String,
    /// It might have been answered at once, and had to wait for a lock: the answer says so.
    waited: bool,
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
    Try { session: &'a str, statement: &'a str },
    Endless { session: &'a str, statement: &'a str },
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
        let start = || statement("& ").map(|statement| Action::Start { session, statement });
        let tried = || statement("? ").map(|statement| Action::Try { session, statement });
        let endless = || statement("! ").map(|statement| Action::Endless { session, statement });
        run.or_else(start).or_else(tried).or_else(endless)
    }

    fn session(&self) -> &'a str {
        match self {
            Action::Run { session, .. }
            | Action::Start { session, .. }
            | Action::Try { session, .. }
            | Action::Endless { session, .. }
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
                if !session.start(server, statement)? {
                    return Err("it does not wait for a lock".into());
                }
                Ok(String::new())
            }
            Action::Try { statement, .. } => {
                let waited = session.start(server, statement)?;
                session
                    .started
                    .iter_mut()
                    .next_back()
                    .into_iter()
                    .for_each(|started| started.waited = waited);
                Ok(String::new())
            }
            Action::Endless { statement, .. } => {
                session.start_endless(server, statement).map(|()| String::new())
            }
            Action::Answer { .. } => session.answers(),
            Action::Kill { .. } => {
                let kill = format!("KILL QUERY {}", session.number);
                output(server.client().args(["--execute", &kill])).map(|_| String::new())
            }
        }
    }
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
        let mut session = Session {
            client,
            input,
            lines,
            number: String::new(),
            engine: variant.engine.to_owned(),
            started: Vec::new(),
            answers: VecDeque::new(),
            partial: String::new(),
        };
        let Variant { engine, begin, .. } = variant;
        session.send(&format!("SET default_storage_engine = {engine}; {begin}; SELECT CONNECTION_ID()"))?;
        let number = session.answer()?;
        if number.contains("ERROR") {
            return Err(format!("a session cannot begin with `{begin}`: {number}"));
        }
        session.number = number.trim().to_owned();
        Ok(session)
    }

    fn send(&mut self, statement: &str) -> Result<(), String> {
        let text = format!("{statement};\nSELECT '{END}';\n");
        self.input.write_all(text.as_bytes()).map_err(|e| format!("the client has ended: {e}"))
    }

    /// Starts a statement, and returns when it is answered or waits for a lock: whether it waits.
    /// Behind a statement that waits it does not begin.
    fn start(&mut self, server: &Server, statement: &str) -> Result<bool, String> {
        let behind = self.started.len() > self.answered();
        self.send(statement)?;
        self.started.push(Started { statement: statement.to_owned(), waited: false });
        let began = Instant::now();
        while !behind && self.started.len() > self.answered() {
            if began.elapsed() > PATIENCE {
                return Err("it neither ends nor waits for a lock".into());
            }
            // A short statement is answered before the server is asked.
            std::thread::sleep(Duration::from_millis(5));
            if self.started.len() > self.answered() && self.waits(server)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Starts a statement, and returns when it reads rows.
    fn start_endless(&mut self, server: &Server, statement: &str) -> Result<(), String> {
        self.send(statement)?;
        self.started.push(Started { statement: statement.to_owned(), waited: false });
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
             WHERE ID = {} AND COMMAND = 'Query' AND STATE = 'Sending data'",
            self.number
        );
        let began = Instant::now();
        while output(server.client().args(["--skip-column-names", "--execute", &query]))?.trim() == "0" {
            if began.elapsed() > PATIENCE || self.answered() > 0 {
                return Err("it does not run until it is killed".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns whether it waits for a lock.
    fn waits(&self, server: &Server) -> Result<bool, String> {
        let found = match self.engine.as_str() {
            "InnoDB" => {
                // It keeps its last answer as long as somebody asks more often than this.
                std::thread::sleep(Duration::from_millis(110));
                "INNODB_TRX WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id"
            }
            _ => "MILLPOND_TRX WHERE STATE = 'LOCK WAIT' AND CONNECTION_ID",
        };
        let query = format!("SELECT COUNT(*) FROM information_schema.{found} = {}", self.number);
        Ok(output(server.client().args(["--skip-column-names", "--execute", &query]))?.trim() != "0")
    }

    /// Returns how many started statements are answered.
    fn answered(&mut self) -> usize {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
        self.answers.len()
    }

    /// Returns the answers of all started statements, those of several behind the statement.
    fn answers(&mut self) -> Result<String, String> {
        let started = std::mem::take(&mut self.started);
        let mut answers = String::new();
        for Started { statement, waited } in &started {
            let answer = self.answer()?;
            if started.len() > 1 {
                let _ = writeln!(answers, "  {statement}");
            }
            if *waited && !answer.contains("ERROR 1213") {
                let _ = writeln!(answers, "  (has waited)");
            }
            answers.push_str(&answer);
        }
        Ok(answers)
    }

    /// Returns the lines of one answer.
    fn answer(&mut self) -> Result<String, String> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            let line = self.lines.recv_timeout(PATIENCE).map_err(|_| "there is no answer".to_owned())?;
            self.take(&line);
        }
    }

    /// Takes a line that the client has printed. Places of errors in its input are left out.
    fn take(&mut self, line: &str) {
        if line == END {
            self.answers.push_back(std::mem::take(&mut self.partial));
            return;
        }
        let plain = line.strip_prefix("ERROR ").and_then(|rest| {
            let (code, text) = rest.split_once(" at line ")?;
            Some(format!("ERROR {code}: {}", text.split_once(": ")?.1))
        });
        if !line.is_empty() && !line.starts_with("--------------") {
            let _ = writeln!(self.partial, "  {}", plain.as_deref().unwrap_or(line));
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
    fn a_line_is_an_action_of_a_session_or_a_comment() {
        let kind = |line| match Action::of(line) {
            Some(Action::Run { session, statement }) => format!("run {session} {statement}"),
            Some(Action::Start { session, statement }) => format!("start {session} {statement}"),
            Some(Action::Try { session, statement }) => format!("try {session} {statement}"),
            Some(Action::Endless { session, statement }) => format!("endless {session} {statement}"),
            Some(Action::Answer { session }) => format!("answer {session}"),
            Some(Action::Kill { session }) => format!("kill {session}"),
            None => "comment".to_owned(),
        };
        let wanted = [
            ("a: SELECT 1", "run a SELECT 1"),
            ("b& UPDATE t", "start b UPDATE t"),
            ("b? UPDATE t", "try b UPDATE t"),
            ("b! SELECT 1", "endless b SELECT 1"),
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
