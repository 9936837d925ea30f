//! Connections that run one statement after the other, and know which of them was acknowledged.

use super::super::server::Server;
use super::super::sql;
use super::super::steps::try_until_within;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long an answer may take, or the end of a connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// What a client prints behind each answer.
const END: &str = "-- end of the answer";
/// How often it is looked whether a connection has ended.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was acknowledged.
    Done,
    /// The server has ended. Whether it had acknowledged the statement.
    Ended { acknowledged: bool },
    /// It failed.
    Failed(String),
}

/// A connection.
pub(super) struct Session {
    client: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// The server's number of the connection.
    number: String,
    /// The system's number of the thread that serves it.
    pub(super) thread: String,
}

impl Session {
    pub(super) fn new(server: &Server) -> Result<Session, String> {
        let client = server.client();
        // The shell puts errors where they happen between the answers.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(client.get_program()).args(client.get_args());
        // So the client says of each statement that it was answered.
        command.args(["--batch", "--verbose", "--verbose", "--unbuffered", "--skip-column-names"]);
        command.arg("--skip-reconnect").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
        let input = client.stdin.take().ok_or("the client has no input")?;
        let from = BufReader::new(client.stdout.take().ok_or("the client has no output")?);
        let (to, lines) = channel();
        // The thread ends with the client.
        std::thread::spawn(move || from.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        let (number, thread) = (String::new(), String::new());
        let mut session = Session { client, input, lines, number, thread };
        let mut said = Vec::new();
        let ids = "SELECT CONCAT('ids ', id, ' ', tid) FROM information_schema.PROCESSLIST WHERE id = \
                   CONNECTION_ID()";
        session.answer(ids, |line| said.push(line.to_owned()))?;
        let ids = said.iter().find_map(|line| line.strip_prefix("ids ")?.split_once(' '));
        let (number, thread) = ids.ok_or_else(|| format!("a session does not begin: {said:?}"))?;
        (session.number, session.thread) = (number.to_owned(), thread.to_owned());
        Ok(session)
    }

    /// Runs a statement.
    pub(super) fn run(&mut self, statement: &str) -> Result<Answer, String> {
        self.answer(statement, |_| {})
    }

    fn answer(&mut self, statement: &str, mut see: impl FnMut(&str)) -> Result<Answer, String> {
        let text = format!("{statement};\nSELECT '{END}';\n");
        if self.input.write_all(text.as_bytes()).is_err() {
            return Ok(Answer::Ended { acknowledged: false });
        }
        let mut acknowledged = false;
        let (mut error, mut ended) = (None, false);
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("no answer to: {statement}"));
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            };
            // Behind this statement the mark and its own acknowledgement follow.
            ended |= line == END;
            if ended && is_acknowledgement(&line) {
                return Ok(Answer::Done);
            }
            acknowledged |= is_acknowledgement(&line);
            if line.starts_with("ERROR ") {
                error = Some(line);
            } else {
                see(&line);
            }
        }
        // The client ends with the first error.
        match error {
            Some(error) if !lost(&error) => Ok(Answer::Failed(format!("{statement}: {error}"))),
            _ => Ok(Answer::Ended { acknowledged }),
        }
    }

    /// Ends the connection, and waits until the server has noticed.
    pub(super) fn leave(self, server: &Server) -> Result<(), String> {
        let Session { mut client, input, lines, number, .. } = self;
        drop(input);
        drop(lines);
        client.wait().map_err(|e| format!("a client: {e}"))?;
        let there = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE id = {number}");
        // A server that was killed at this moment answers nothing.
        let gone = || Ok(sql(server, &there).map_or(true, |count| count == "0"));
        try_until_within(&format!("the end of connection {number}"), PATIENCE, LOOK, gone)
    }

    /// Ends the client. The server has ended.
    pub(super) fn end(mut self) {
        let _ = (self.client.kill(), self.client.wait());
    }
}

/// Tells whether a client says by a line that the server has answered.
fn is_acknowledgement(line: &str) -> bool {
    let set = line.split_once(' ').is_some_and(|(count, rest)| {
        count.parse::<u64>().is_ok() && (rest.starts_with("row in set") || rest.starts_with("rows in set"))
    });
    line.starts_with("Query OK") || line == "Empty set" || set
}

/// Tells whether an error says that the server has gone.
fn lost(error: &str) -> bool {
    ["ERROR 2006 ", "ERROR 2013 ", "ERROR 2026 "].iter().any(|code| error.starts_with(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_that_a_statement_was_answered() {
        for line in ["Query OK, 1 row affected", "Empty set", "1 row in set", "12 rows in set"] {
            assert!(is_acknowledgement(line), "{line}");
        }
        for line in ["--------------", "INSERT INTO one.t VALUES (1)", "1", ""] {
            assert!(!is_acknowledgement(line), "{line}");
        }
    }

    #[test]
    fn only_the_errors_of_a_lost_connection_mean_the_end() {
        assert!(lost("ERROR 2013 (HY000) at line 1: Lost connection to server during query"));
        assert!(!lost("ERROR 1062 (23000) at line 1: Duplicate entry"));
    }
}
