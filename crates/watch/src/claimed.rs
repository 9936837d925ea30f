//! A directory that one process writes for one target: a file in it names the target, and is locked
//! as long as the process runs.

use output::failure::{Failure, Outcome};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// What such a directory holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The command that writes it.
    pub(crate) command: &'static str,
    /// What it holds, such as `recording`.
    pub(crate) what: &'static str,
    /// The file that makes a directory one of this kind.
    pub(crate) mark: &'static str,
    /// The first line of that file.
    pub(crate) format: &'static str,
}

/// A directory that this process may write.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) dir: PathBuf,
    /// Locked as long as it is open.
    _mark: File,
}

/// Takes a directory for a target, and makes it if it is not there. One that holds anything else,
/// one of another target, or one that another process writes, is refused.
pub(crate) fn claim(dir: &Path, target: &str, kind: Kind) -> Outcome<Claimed> {
    let (name, Kind { command, what, .. }) = (dir.display(), kind);
    let cannot = |e: std::io::Error| Failure::misuse(format!("cannot {command} to {name}: {e}"));
    fs::create_dir_all(dir).map_err(cannot)?;
    let path = dir.join(kind.mark);
    let empty = fs::read_dir(dir).map_err(cannot)?.next().is_none();
    let mut options = File::options();
    let mut mark = match options.read(true).write(true).create(empty).open(&path) {
        Ok(mark) => mark,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let why = format!("{name} is not empty and holds no {what}; --dir names another directory");
            return Err(Failure::misuse(why));
        }
        Err(e) => return Err(cannot(e)),
    };
    // Where a file system has no locks, there is no protection.
    if flock(&mark, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(Failure::misuse(format!("another `millpond {command}` writes to {name} now")));
    }
    let mut found = String::new();
    mark.read_to_string(&mut found).map_err(cannot)?;
    let own = format!("{}\n{target}\n", kind.format);
    if found.is_empty() {
        mark.rewind().and_then(|()| mark.write_all(own.as_bytes())).map_err(cannot)?;
    } else if found != own {
        let other = found.lines().nth(1).unwrap_or("another format");
        return Err(Failure::misuse(format!(
            "{name} holds the {what} of {other}; --dir names another directory"
        )));
    }
    Ok(Claimed { dir: dir.to_owned(), _mark: mark })
}
