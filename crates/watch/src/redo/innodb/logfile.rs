//! The file of the log: its head again and again, and its bytes from an LSN on. It is only read.
//!
//! A server writes meanwhile, mostly past the page cache. Each read may see half of a write. So
//! what was read counts only by its checksum ([`super::mtr`]).

use super::head::{HEAD_BYTES, Head, Ring};
use output::failure::{Failure, Outcome};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a head is read again that is being written, or is being replaced.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(25);

/// The file of a log, open.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// The device's and the file's number, to see that it was replaced.
    identity: (u64, u64),
    pub(super) head: Head,
    pub(super) ring: Ring,
}

impl LogFile {
    /// Opens the log in a directory.
    pub(super) fn open(dir: &Path) -> Outcome<LogFile> {
        let path = dir.join("ib_logfile0");
        if !path.exists() {
            return Err(missing(dir));
        }
        let mut tries = 0;
        loop {
            match LogFile::try_open(&path) {
                Err(Failure::Failed(_)) if tries < TRIES => tries += 1,
                Err(Failure::Failed(why)) => return Err(Failure::misuse(why)),
                opened => return opened,
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Opens the log. A failure that is not of misuse may pass.
    fn try_open(path: &Path) -> Outcome<LogFile> {
        let cannot = |e: std::io::Error| cannot_read(path, &e);
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        // Reading ahead would read what the server overwrites soon.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let head = read_head(&file).map_err(cannot)?;
        let head = Head::read(&head).map_err(|why| {
            let text = format!("{}: {why}", path.display());
            if why.contains("checksum") { Failure::failed(text) } else { Failure::misuse(text) }
        })?;
        let Some(ring) = Ring::new(head.first_lsn, metadata.len()) else {
            return Err(Failure::misuse(format!("{}: there is no log behind its head", path.display())));
        };
        let identity = (metadata.dev(), metadata.ino());
        Ok(LogFile { path: path.to_owned(), file, identity, head, ring })
    }

    /// Reads the head again, and opens the file again if the server has replaced it, as it does to
    /// change its size.
    pub(super) fn refresh(&mut self) -> Outcome {
        let now = std::fs::metadata(&self.path).ok();
        let same = now.is_some_and(|now| {
            (now.dev(), now.ino()) == self.identity && now.len() == self.ring.capacity + HEAD_BYTES as u64
        });
        if !same {
            let dir = self.path.parent().unwrap_or(Path::new(".")).to_owned();
            *self = LogFile::open(&dir)?;
            return Ok(());
        }
        let bytes = read_head(&self.file).map_err(|e| cannot_read(&self.path, &e))?;
        match Head::read(&bytes) {
            // A checkpoint that is being written is the older one of the two: the other one counts.
            Ok(head) if head.checkpoint.is_some() => self.head = head,
            _ => {}
        }
        Ok(())
    }

    /// Reads `bytes` bytes from an LSN on into `buffer`. There may be fewer in the ring.
    pub(super) fn read(&self, lsn: u64, bytes: usize, buffer: &mut Vec<u8>) -> Outcome {
        buffer.clear();
        for (at, length) in self.ring.pieces(lsn, bytes) {
            let filled = buffer.len();
            buffer.resize(filled + length, 0);
            match self.file.read_exact_at(&mut buffer[filled..], at) {
                Ok(()) => {}
                // The file has become shorter: it is being replaced.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    buffer.truncate(filled);
                    return Ok(());
                }
                Err(e) => return Err(cannot_read(&self.path, &e)),
            }
        }
        Ok(())
    }
}

fn read_head(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < HEAD_BYTES {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Says which right is missing.
fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    if error.kind() == ErrorKind::PermissionDenied {
        return Failure::misuse(format!(
            "cannot read {path}: only its owner and group may; run this command as root or as the server's user"
        ));
    }
    Failure::misuse(format!("cannot read {path}: {error}"))
}

/// Says what a directory without a log of this format has instead.
fn missing(dir: &Path) -> Failure {
    let name = dir.display();
    if std::fs::read_dir(dir).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied) {
        return Failure::misuse(format!(
            "cannot read the directory {name}: run this command as root or as the server's user"
        ));
    }
    if dir.join("#innodb_redo").is_dir() {
        return Failure::misuse(format!(
            "{name} has the log of MySQL 8.0.30 or later (#innodb_redo), in blocks of 512 bytes with \
             logical records; the lengths of those follow from the definitions of indexes, and no \
             reader of them is built in: this command reads the format of MariaDB 10.8 and later"
        ));
    }
    Failure::misuse(format!(
        "{name} has no ib_logfile0: give the URL of a server of this machine, the directory with \
         its log, or a directory of a Millpond database"
    ))
}
