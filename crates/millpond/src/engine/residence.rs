//! Where a directory of a database is, and to which database's directory it belongs. A `LOCK` says
//! both of its directory (`directory.rs`). A copy of a database has the same id and the same root.
//! If its log had been moved out of its directory, its root names the original's log, which it
//! would overwrite. Here it is seen: the log says that it belongs to another directory.
//!
//! ```text
//!  32       40      48       56         64         72      80       88        508    512
//!  +--------+-------+--------+----------+----------+-------+--------+---------+------+
//!  |number  |born   |volume  |home:     |home:     |home:  |length  |path,    |crc32c|
//!  |u64     |ns u64 |u64     |number u64|born u64  |volume |u16, 0 …|UTF-8, 0…|u32   |
//!  +--------+-------+--------+----------+----------+-------+--------+---------+------+
//! ```
//! A directory is known by its inode number, the time of its birth, and its volume where one device
//! has several. A rename leaves them as they are, and so do a restart and another mount. A copy has
//! others. A device number is not among them: the next start may give the device another one.

use super::purpose::Purpose;
use crate::error::{Error, Result};
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::crc;
use std::path::Path;
use vfs::{DirIdentity, Vfs};

/// Where the bytes begin, and where their checksum is: with the rest of `LOCK` in one sector.
const START: usize = 32;
const PATH: usize = 88;
const CRC: usize = 508;
/// A longer path is not written. It is only shown.
const PATH_BYTES_MAX: usize = 400;

/// What a `LOCK` says of its directory, or what is true of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Residence {
    /// The directory itself.
    here: DirIdentity,
    /// The directory of the database to which it belongs.
    home: DirIdentity,
    /// The path of that directory when this was written.
    home_path: String,
}

impl Residence {
    /// Returns what is true of a directory, for a database in `home`. `None` if the disk cannot
    /// tell directories apart.
    pub(super) fn of(vfs: &Vfs, dir: &Path, home: &Path) -> Result<Option<Residence>> {
        let identity = |dir: &Path| vfs.disk.identity(dir).map_err(|e| Error::io("look at", dir, e));
        let (Some(here), Some(home_identity)) = (identity(dir)?, identity(home)?) else { return Ok(None) };
        let path = home.to_str().filter(|path| path.len() <= PATH_BYTES_MAX).unwrap_or_default();
        Ok(Some(Residence { here, home: home_identity, home_path: path.to_owned() }))
    }

    /// Writes it into the first sector of a `LOCK`.
    pub(super) fn encode(&self, lock: &mut [u8]) {
        for (n, dir) in [self.here, self.home].into_iter().enumerate() {
            let at = START + 24 * n;
            set_u64(lock, at, dir.number);
            set_u64(lock, at + 8, dir.born_ns);
            set_u64(lock, at + 16, dir.volume);
        }
        set_u16(lock, PATH - 8, self.home_path.len() as u16);
        lock[PATH..PATH + self.home_path.len()].copy_from_slice(self.home_path.as_bytes());
        let crc = crc::crc32c(&lock[START..CRC]);
        set_u32(lock, CRC, crc);
    }

    /// Reads it from a `LOCK`. `None` if this one says nothing of it.
    pub(super) fn decode(lock: &[u8]) -> Option<Residence> {
        if get_u32(lock, CRC) != crc::crc32c(&lock[START..CRC]) {
            return None;
        }
        let dir = |at| DirIdentity {
            number: get_u64(lock, at),
            born_ns: get_u64(lock, at + 8),
            volume: get_u64(lock, at + 16),
        };
        let path = lock[PATH..CRC].get(..usize::from(get_u16(lock, PATH - 8)))?;
        let home_path = std::str::from_utf8(path).ok()?.to_owned();
        Some(Residence { here: dir(START), home: dir(START + 24), home_path })
    }
}

/// Whether a directory belongs to a database in another directory. `said` is what its `LOCK` says,
/// `is` what is true now. A directory that is a copy itself belongs to no database yet.
fn belongs_elsewhere(said: &Residence, is: &Residence) -> bool {
    said.here.may_be(is.here) && !said.home.may_be(is.home)
}

/// Fails if a directory of this database's id belongs to a database in another directory than
/// `home`, of which this one is then a copy.
pub(super) fn check_home(
    dir: &Path,
    purpose: Purpose,
    home: &Path,
    said: Option<&Residence>,
    is: Option<&Residence>,
) -> Result {
    let (Some(said), Some(is)) = (said, is) else { return Ok(()) };
    if !belongs_elsewhere(said, is) {
        return Ok(());
    }
    let place = if said.home_path.is_empty() { "another directory" } else { &said.home_path };
    let remedy = match purpose {
        Purpose::Redo => "to give it a log of its own, copy this directory and name the copy as redo_dir",
        Purpose::Doublewrite => {
            "to give it a doublewrite of its own, copy this directory and name the copy as doublewrite_dir"
        }
        Purpose::Database | Purpose::Undo => "put a copy of this directory in its place",
    };
    let (what, home) = (purpose.description(), home.display());
    let what = format!("is the {what} of the database in {place}, and {home} is a copy of that: {remedy}");
    Err(Error::Foreign { file: dir.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn dir(number: u64) -> DirIdentity {
        DirIdentity { number, born_ns: 1000 + number, volume: 0 }
    }

    fn residence(here: DirIdentity, home: DirIdentity) -> Residence {
        Residence { here, home, home_path: "/db".to_owned() }
    }

    #[test]
    fn a_copy_is_told_from_the_original() {
        let (log, db, other, unborn) = (dir(1), dir(2), dir(3), DirIdentity { born_ns: 0, ..dir(2) });
        let table = [
            ("as it was", log, db, false),
            ("the database is a copy, or was moved to another file system", log, other, true),
            ("the log is a copy", other, db, false),
            ("both are copies", dir(4), other, false),
            ("the number was given again", log, DirIdentity { born_ns: 77, ..db }, true),
            ("another volume of the device", log, DirIdentity { volume: 5, ..db }, true),
            ("a file system that knows no time of birth", log, unborn, false),
        ];
        let said = residence(log, db);
        for (what, here, home, refused) in table {
            assert_eq!(belongs_elsewhere(&said, &residence(here, home)), refused, "{what}");
        }
        let (said, is) = (Some(&said), residence(log, other));
        let check = |purpose, said, is| check_home(Path::new("/log"), purpose, Path::new("/copy"), said, is);
        check(Purpose::Redo, None, Some(&is)).unwrap();
        check(Purpose::Redo, said, None).unwrap();
        let error = check(Purpose::Redo, said, Some(&is)).unwrap_err().to_string();
        assert_eq!(
            error,
            "/log is the redo directory of the database in /db, and /copy is a copy of that: to give it a log \
             of its own, copy this directory and name the copy as redo_dir"
        );
    }

    #[test]
    fn it_is_read_back_and_nonsense_is_not() {
        let mut lock = vec![0; 4096];
        assert_eq!(Residence::decode(&lock), None, "a LOCK that says nothing of it");
        let said = residence(dir(1), DirIdentity { volume: 9, ..dir(2) });
        said.encode(&mut lock);
        assert_eq!(Residence::decode(&lock), Some(said));
        for at in [START, PATH - 8, PATH, CRC - 1, CRC] {
            let mut lock = lock.clone();
            lock[at] ^= 0x81;
            assert_eq!(Residence::decode(&lock), None, "byte {at}");
        }
    }
}
