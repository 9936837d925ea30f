//! The binary log of a server, printed and run in another one.
//!
//! What XA has prepared stays with its connection. A later statement of the log may need another
//! connection, as it had one when it was logged. So the printed log is run in pieces, each in a
//! connection of its own, that end behind XA PREPARE.

use super::super::server::Server;
use super::super::steps::try_until_within;
use super::super::{output, sql};
use super::session::{LOOK, PATIENCE};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs the whole binary log of a server in another one.
pub(super) fn replay(from: &Server, to: &Server) -> Result<(), String> {
    let printed = printed(from)?;
    for piece in pieces(&printed) {
        run(to, &piece)?;
        let others = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE command <> 'Daemon'";
        try_until_within("the end of the last connection", PATIENCE, LOOK, || Ok(sql(to, others)? == "1"))?;
    }
    Ok(())
}

/// Prints the binary log.
pub(super) fn printed(from: &Server) -> Result<String, String> {
    let names = sql(from, "SHOW BINARY LOGS")?;
    let names = names.lines().filter_map(|line| line.split_whitespace().next());
    let files: Vec<PathBuf> = names.map(|name| from.data().join(name)).collect();
    output(Command::new("mariadb-binlog").arg("--no-defaults").args(&files))
}

/// Keeps the binary log in a directory.
pub(super) fn keep(from: &Server, dir: &Path) -> Result<(), String> {
    super::super::write(&dir.join("binlog.txt"), &printed(from)?)
}

/// Splits a printed log behind each XA PREPARE. Each piece begins with the settings that hold
/// there.
fn pieces(printed: &str) -> Vec<String> {
    const DELIMITER: &str = "/*!*/;";
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    let (mut settings, mut in_head, mut is_prepare) = (String::new(), true, false);
    for line in printed.lines() {
        let line = format!("{line}\n");
        piece += &line;
        // The head ends with the event that says how all others are read.
        let is_setting =
            ["SET @@session", "/*M!", "use ", "/*!\\C"].iter().any(|begin| line.starts_with(begin));
        if in_head || is_setting {
            settings += &line;
        }
        in_head &= line.trim_end() != format!("'{DELIMITER}");
        is_prepare |= line.starts_with("XA PREPARE ");
        if is_prepare && line.trim_end().ends_with(DELIMITER) {
            is_prepare = false;
            pieces.push(std::mem::replace(&mut piece, settings.clone()));
        }
    }
    pieces.push(piece);
    pieces
}

fn run(server: &Server, text: &str) -> Result<(), String> {
    let mut client = server.client();
    client.args(["--binary-mode", "--abort-source-on-error"]);
    client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = client.spawn().map_err(|e| format!("cannot start a client: {e}"))?;
    // If the client ends early, its error says why.
    let _ = client.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let done = client.wait_with_output().map_err(|e| format!("a client: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            Err(format!("the binary log cannot be run: {}", String::from_utf8_lossy(&done.stderr).trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_behind_each_prepared_transaction_and_settings_go_on() {
        let log = "DELIMITER /*!*/;\nBINLOG '\nabc\n'/*!*/;\nuse `one`/*!*/;\nSET TIMESTAMP=1/*!*/;\n\
                   XA START X'78',X'',1/*!*/;\nXA PREPARE X'78',X'',1\n/*!*/;\nXA COMMIT X'78',X'',1\n/*!*/;\n";
        let pieces = pieces(log);
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].ends_with("XA PREPARE X'78',X'',1\n/*!*/;\n"));
        let begins = "DELIMITER /*!*/;\nBINLOG '\nabc\n'/*!*/;\nuse `one`/*!*/;\n";
        assert_eq!(pieces[1], format!("{begins}XA COMMIT X'78',X'',1\n/*!*/;\n"));
    }
}
