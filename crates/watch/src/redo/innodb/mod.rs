//! The log of InnoDB, in the format of MariaDB 10.8 and later.
//!
//! `head` knows the head of the file and the ring behind it, `mtr` finds mini-transactions, and
//! `record` the records in them, with the numbers of `varint`. `page` knows whose a page is, from
//! its header, `undo` of which table an undo record is. `tally` counts. All of these are pure.
//! `logfile` and `files` read files, `follow` follows the log, `server` asks for names, `rows` uses
//! them.

mod files;
mod follow;
mod head;
mod logfile;
mod mtr;
mod page;
mod record;
mod rows;
mod server;
mod tally;
#[cfg(test)]
mod tests;
mod undo;
mod varint;

use super::table::Reading;
use client::LoginFlags;
use files::Files;
use follow::Follower;
use logfile::LogFile;
use output::existing::readable_directory;
use output::failure::Outcome;
use output::stop;
use server::{Names, Server};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often a server is asked for names that are not known yet.
const ASK: Duration = Duration::from_secs(1);
/// How long a server's log is followed if nothing else is asked for.
const FOLLOW: Duration = Duration::from_secs(10);

/// Reads the log of a server of this machine.
pub(super) fn of_server(target: &str, login: &LoginFlags, length: Option<Duration>) -> Outcome<Reading> {
    let (mut server, log) = Server::open(target, login)?;
    let mut files = server.files();
    let mut follower = Follower::new(log)?;
    let length = length.unwrap_or(FOLLOW);
    let seconds = read(&mut follower, &mut files, length, &mut |follower| {
        let unknown = follower.tally.indexes().any(|index| !server.names.indexes.contains_key(&index));
        if unknown { server.ask() } else { Ok(()) }
    })?;
    server.ask()?;
    let of = format!("{}, {}", server.name, server.version());
    let mut reading = reading(&follower, &server.names, &mut files, &of, seconds);
    reading.notes.extend(server.nameless.take());
    Ok(reading)
}

/// Reads the log in a data directory.
pub(super) fn of_directory(dir: &Path, length: Option<Duration>) -> Outcome<Reading> {
    readable_directory(dir)?;
    let log = LogFile::open(dir)?;
    let mut files = Files::new(dir, Files::usual_system(dir), dir.to_owned());
    let mut follower = Follower::new(log)?;
    let length = length.unwrap_or(Duration::ZERO);
    let seconds = read(&mut follower, &mut files, length, &mut |_| Ok(()))?;
    let of = format!("{}, log of {}", dir.display(), follower.creator());
    let mut reading = reading(&follower, &Names::default(), &mut files, &of, seconds);
    reading.notes.push("without the server, indexes have numbers instead of names".into());
    Ok(reading)
}

/// Reads from the last checkpoint to the end. Then, for a length of time, follows the log and
/// counts only what is new. Returns the seconds of that.
fn read(
    follower: &mut Follower,
    files: &mut Files,
    length: Duration,
    now_and_then: &mut dyn FnMut(&Follower) -> Outcome,
) -> Outcome<Option<f64>> {
    stop::install();
    follower.catch_up(files, &stop::asked)?;
    if length.is_zero() {
        return Ok(None);
    }
    follower.begin();
    let began = Instant::now();
    let mut asked = began;
    while began.elapsed() < length && !stop::asked() {
        std::thread::sleep(LOOK.min(length.saturating_sub(began.elapsed())));
        follower.catch_up(files, &|| began.elapsed() >= length || stop::asked())?;
        if asked.elapsed() >= ASK {
            now_and_then(follower)?;
            asked = Instant::now();
        }
    }
    Ok(Some(began.elapsed().as_secs_f64()))
}

fn reading(follower: &Follower, names: &Names, files: &mut Files, of: &str, seconds: Option<f64>) -> Reading {
    let rows = rows::rows(&follower.tally, names, |space| files.path(space));
    let how = match seconds {
        Some(seconds) => format!("followed for {seconds:.1} s"),
        None => "from the last checkpoint to the end of the log, as a recovery would apply it".to_owned(),
    };
    let mut notes = Vec::new();
    if follower.missed > 0 {
        notes.push(format!(
            "{} bytes were overwritten before they could be read: the log is short for its rate",
            follower.missed
        ));
    }
    if let Some(path) = &files.forbidden {
        notes.push(format!(
            "{} may not be read, so its pages have no index: run this command as root or as the server's user",
            path.display()
        ));
    }
    Reading {
        title: format!("{of}: {how}"),
        rows,
        from_lsn: follower.from_lsn,
        to_lsn: follower.lsn,
        missed: follower.missed,
        seconds,
        notes,
    }
}
