//! Where the log and the doublewrite are, if they were moved while the database was open. The root
//! records it, so a crash during a move finds every file: the directory of now, and the directory
//! of before as long as a recovery may need a file in it (INV-32).
//!
//! ```text
//! four entries of 512 bytes: redo now, redo before, doublewrite now, doublewrite before
//! length u16 | path, UTF-8; length 0: no directory
//! ```
//! A path is absolute, or relative to the database's directory. So a database whose directories all
//! lie in its own can be moved as a whole.

use crate::error::{Error, Result};
use base::codec::fixed::{get_u16, set_u16};
use std::path::{Path, PathBuf};

/// Bytes of an entry.
const ENTRY_BYTES: usize = 512;
/// The longest path that an entry holds.
pub(crate) const PATH_BYTES_MAX: usize = 500;
/// Bytes of all entries.
pub(super) const DIRS_BYTES: usize = 4 * ENTRY_BYTES;

/// The directories of the log, or of the doublewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurposeDirs {
    /// Where files are made. `None`: it was never moved, so an option or the default says where it
    /// is.
    pub(crate) now: Option<PathBuf>,
    /// Where files may be that a recovery needs.
    pub(crate) before: Option<PathBuf>,
}

/// The directories that a root records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RootDirs {
    pub(crate) redo: PurposeDirs,
    pub(crate) doublewrite: PurposeDirs,
}

impl RootDirs {
    pub(super) fn encode(&self, out: &mut [u8]) {
        let all = [&self.redo.now, &self.redo.before, &self.doublewrite.now, &self.doublewrite.before];
        for (path, entry) in all.into_iter().zip(out.chunks_exact_mut(ENTRY_BYTES)) {
            let bytes = path.as_ref().and_then(|path| path.to_str()).unwrap_or_default().as_bytes();
            set_u16(entry, 0, bytes.len() as u16);
            entry[2..2 + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// `None` if these are no entries.
    pub(super) fn decode(bytes: &[u8]) -> Option<RootDirs> {
        let mut paths = bytes.chunks_exact(ENTRY_BYTES).map(|entry| {
            let len = usize::from(get_u16(entry, 0));
            let text = std::str::from_utf8(entry.get(2..2 + len)?).ok()?;
            (len <= PATH_BYTES_MAX).then(|| Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
        });
        let mut both = || Some(PurposeDirs { now: paths.next()??, before: paths.next()?? });
        let dirs = RootDirs { redo: both()?, doublewrite: both()? };
        // Only a move leaves a directory of before.
        let sound = |dirs: &PurposeDirs| dirs.now.is_some() || dirs.before.is_none();
        (sound(&dirs.redo) && sound(&dirs.doublewrite)).then_some(dirs)
    }
}

/// Returns how the root names `path`, for a database in `dir`.
pub(crate) fn recorded(dir: &Path, path: &Path) -> Result<PathBuf> {
    let misuse = |what: String| Err(Error::Misuse(format!("{}: {what}", path.display())));
    let named = match path.strip_prefix(dir) {
        Ok(inside) if inside.as_os_str().is_empty() => {
            return misuse("is the directory of the database itself".to_owned());
        }
        Ok(inside) => inside,
        Err(_) if path.is_absolute() => path,
        Err(_) => {
            let what = "a relative path may lead elsewhere after a restart: an absolute one is needed";
            return misuse(what.to_owned());
        }
    };
    match named.to_str() {
        None => misuse("the path is not UTF-8, so the root file cannot name it".to_owned()),
        Some(text) if text.len() > PATH_BYTES_MAX => {
            misuse(format!("the path has more than {PATH_BYTES_MAX} bytes, so the root file cannot name it"))
        }
        Some(text) => Ok(PathBuf::from(text)),
    }
}

/// Returns where the files are when a database in `dir` is opened: the directory of now, and that
/// of before. `option` is the directory that the caller names, `default` the one in the database's
/// own. `holds` says whether such files of this database are in a directory.
///
/// The root knows it better than an option that was not changed after a move. But files may also be
/// moved by hand while the database is closed, or belong to a copy of the database. Then they are
/// where the option says, and the root does not name that directory.
pub(crate) fn choose(
    dir: &Path,
    dirs: &PurposeDirs,
    option: Option<&Path>,
    default: &str,
    holds: impl Fn(&Path) -> Result<bool>,
) -> Result<(PathBuf, Option<PathBuf>)> {
    let Some(now) = &dirs.now else {
        return Ok((option.map_or_else(|| dir.join(default), Path::to_owned), None));
    };
    let (now, before) = (dir.join(now), dirs.before.as_ref().map(|before| dir.join(before)));
    if let Some(option) = option
        && option != now
        && Some(option) != before.as_deref()
        && holds(option)?
    {
        return Ok((option.to_owned(), None));
    }
    Ok((now, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    fn dirs(now: &str, before: &str) -> PurposeDirs {
        let path = |text: &str| Some(text).filter(|text| !text.is_empty()).map(PathBuf::from);
        PurposeDirs { now: path(now), before: path(before) }
    }

    #[test]
    fn the_root_knows_better_unless_the_files_were_moved_by_hand() {
        let mut out = String::new();
        for (now, before) in [("", ""), ("/new", ""), ("/new", "redo"), ("log", "/new")] {
            for option in [None, Some("/new"), Some("/old"), Some("/hand"), Some("/db/redo")] {
                let held = |path: &Path| Ok(path == Path::new("/hand"));
                let option_path = option.map(Path::new);
                let (is, was) =
                    choose(Path::new("/db"), &dirs(now, before), option_path, "redo", held).unwrap();
                let was = was.map_or_else(String::new, |was| format!(" and {}", was.display()));
                let told = option.unwrap_or("-");
                writeln!(out, "root {now:5}{before:5} option {told:9} {}{was}", is.display()).unwrap();
            }
        }
        expect![[r#"
            root            option -         /db/redo
            root            option /new      /new
            root            option /old      /old
            root            option /hand     /hand
            root            option /db/redo  /db/redo
            root /new       option -         /new
            root /new       option /new      /new
            root /new       option /old      /new
            root /new       option /hand     /hand
            root /new       option /db/redo  /new
            root /new redo  option -         /new and /db/redo
            root /new redo  option /new      /new and /db/redo
            root /new redo  option /old      /new and /db/redo
            root /new redo  option /hand     /hand
            root /new redo  option /db/redo  /new and /db/redo
            root log  /new  option -         /db/log and /new
            root log  /new  option /new      /db/log and /new
            root log  /new  option /old      /db/log and /new
            root log  /new  option /hand     /hand
            root log  /new  option /db/redo  /db/log and /new
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_path_is_recorded_or_refused() {
        let mut out = String::new();
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        for path in ["/db/log", "/db/log/", "/fast/log", "fast/log", "/db", "/database/log", &long] {
            let told = match recorded(Path::new("/db"), Path::new(path)) {
                Ok(named) => named.display().to_string(),
                Err(error) => error.to_string().replace(&long, "(501 bytes)"),
            };
            writeln!(out, "{:12} {told}", path.replace(&long, "(501 bytes)")).unwrap();
        }
        expect![[r#"
            /db/log      log
            /db/log/     log
            /fast/log    /fast/log
            fast/log     fast/log: a relative path may lead elsewhere after a restart: an absolute one is needed
            /db          /db: is the directory of the database itself
            /database/log /database/log
            (501 bytes)  (501 bytes): the path has more than 500 bytes, so the root file cannot name it
        "#]].assert_eq(&out);
    }

    #[test]
    fn directories_are_read_back_and_nonsense_is_not() {
        let dirs = RootDirs { redo: dirs("/fast/log", "redo"), doublewrite: dirs("areas", "") };
        let mut bytes = [0; DIRS_BYTES];
        dirs.encode(&mut bytes);
        assert_eq!(RootDirs::decode(&bytes), Some(dirs));
        assert_eq!(RootDirs::decode(&[0; DIRS_BYTES]), Some(RootDirs::default()));
        for (at, byte) in [(2, 0xff), (1, 0x02), (0, 0), (1, 0xff)] {
            let mut bytes = bytes;
            bytes[at] = byte;
            assert_eq!(RootDirs::decode(&bytes), None, "byte {at} is {byte}");
        }
    }
}
