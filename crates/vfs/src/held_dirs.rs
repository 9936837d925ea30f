//! Directories that the operating system's disk finds by a handle. A path leads elsewhere after the
//! process has changed its working or root directory, after a directory on the way was renamed or
//! replaced, and under a new mount. A handle leads to the same directory for ever.

use base::sync::Mutex;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directories by the paths by which they were found. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldDirs(Arc<Mutex<BTreeMap<PathBuf, Arc<OwnedFd>>>>);

/// Keeps a directory until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldDir {
    dirs: HeldDirs,
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

/// A place in the tree of files: a path that begins in a directory.
#[derive(Debug)]
pub(crate) struct At<'p> {
    /// `None`: the path is absolute, or begins in the working directory.
    held: Option<Arc<OwnedFd>>,
    path: &'p Path,
}

impl HeldDirs {
    /// Returns where `path` leads. Its longest beginning that is the path of a held directory means
    /// that directory.
    pub(crate) fn at<'p>(&self, path: &'p Path) -> At<'p> {
        let dirs = self.0.lock();
        for dir in path.ancestors() {
            if let Some(held) = dirs.get(dir)
                && let Ok(inside) = path.strip_prefix(dir)
            {
                return At { held: Some(Arc::clone(held)), path: inside };
            }
        }
        At { held: None, path }
    }

    /// Lets `path` mean the directory to which it leads now, until the result is dropped.
    pub(crate) fn hold(&self, path: &Path) -> rustix::io::Result<HeldDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Arc::new(self.at(path).open(flags)?);
        self.0.lock().insert(path.to_owned(), Arc::clone(&fd));
        Ok(HeldDir { dirs: self.clone(), path: path.to_owned(), fd })
    }
}

impl Drop for HeldDir {
    fn drop(&mut self) {
        let mut dirs = self.dirs.0.lock();
        // It may have been held again, by a later caller.
        if dirs.get(&self.path).is_some_and(|held| Arc::ptr_eq(held, &self.fd)) {
            dirs.remove(&self.path);
        }
    }
}

impl At<'_> {
    /// Returns the directory in which [`At::path`] begins, for calls like `openat`.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.held.as_ref().map_or(fs::CWD, |held| held.as_fd())
    }

    /// Returns the path from that directory.
    pub(crate) fn path(&self) -> &Path {
        if self.path.as_os_str().is_empty() { Path::new(".") } else { self.path }
    }

    /// Returns the held directory if this is one itself.
    pub(crate) fn held(&self) -> Option<&OwnedFd> {
        self.held.as_deref().filter(|_| self.path.as_os_str().is_empty())
    }

    /// Opens a file or a directory.
    pub(crate) fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        loop {
            match fs::openat(self.dir(), self.path(), flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }
}
