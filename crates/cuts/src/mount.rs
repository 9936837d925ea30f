//! The file system, mounted.

use crate::glue::{Glue, Shared};
use crate::model::{Left, Model, Policy};
use crate::power::Moment;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that answer the kernel.
const THREADS: usize = 4;
/// How long an unmount may take: the kernel may still close files of a program that has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns why there can be no cuts here, and what helps; `None` if there can.
#[must_use]
pub fn unavailable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("cutting the power needs a mount, and only root may mount: run this as root".to_owned());
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.err().map(|why| {
        format!(
            "cutting the power needs /dev/fuse ({why}): load the kernel's module `fuse` (modprobe fuse); \
             in a container, give it the device and the capability SYS_ADMIN"
        )
    })
}

/// A mounted file system. Its drop unmounts it; what was not synced is lost then.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Shows the directory `backing` in the directory `at`. Nobody else changes `backing`
    /// meanwhile.
    ///
    /// # Errors
    /// A sentence: what cannot be done, and why.
    pub fn mount(backing: &Path, at: &Path, policy: Policy) -> Result<Mounted, String> {
        if let Some(why) = unavailable() {
            return Err(why);
        }
        raise_descriptors();
        remove_dead(at);
        let model = Model::open(backing, policy)
            .map_err(|why| format!("cannot show {}: {why}", backing.display()))?;
        let shared = Arc::new(Shared::new(model));
        let glue = Glue { shared: Arc::clone(&shared), backing: backing.to_owned() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("cuts".into()), MountOption::DefaultPermissions];
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(glue, at, &config);
        let session = session.map_err(|why| format!("cannot mount on {}: {why}", at.display()))?;
        Ok(Mounted { at: at.to_owned(), shared, session: Some(session) })
    }

    /// Plans a cut.
    pub fn plan(&self, moment: Moment) {
        let _ = self.shared.with(|model| {
            model.power.plan(moment);
            Ok(())
        });
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        let _ = self.shared.with(|model| {
            model.power.cut();
            Ok(())
        });
    }

    /// Tells whether the power is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.wait_for_cut(Duration::ZERO)
    }

    /// Waits until the power is cut. Returns whether it is.
    #[must_use]
    pub fn wait_for_cut(&self, timeout: Duration) -> bool {
        self.shared.wait_for_cut(timeout)
    }

    /// Returns how many syncs were done.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.with(|model| Ok(model.power.syncs)).unwrap_or(0)
    }

    /// Unmounts the file system, and leaves in the backing directory what the disk has: after a cut
    /// what was synced and, by `seed`, a part of the rest, otherwise everything. The programs that
    /// used it have ended.
    ///
    /// # Errors
    /// A sentence: what cannot be done, and why.
    pub fn finish(mut self, seed: u64) -> Result<Left, String> {
        self.unmount()?;
        let model = self.shared.take().ok_or("the file system has ended already")?;
        model.finish(seed).map_err(|why| format!("cannot leave the disk as the cut found it: {why}"))
    }

    fn unmount(&mut self) -> Result<(), String> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let began = Instant::now();
        while let Err(why) = rustix::mount::unmount(&self.at, UnmountFlags::empty()) {
            if why != Errno::BUSY || began.elapsed() > PATIENCE {
                self.session = Some(session);
                return Err(format!("cannot unmount {}: {why}", self.at.display()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // A thread that takes a request while the unmount ends the connection reads ECONNABORTED
        // where it would otherwise read ENODEV: the same end. Such a request is the kernel's own
        // (the release of a closed file), nobody waits for it.
        match session.join() {
            Err(why) if why.raw_os_error() != Some(Errno::CONNABORTED.raw_os_error()) => {
                Err(format!("the file system ended with an error: {why}"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

/// Each file of the backing directory is open.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Removes what a killed process has left mounted here.
fn remove_dead(at: &Path) {
    let is_dead = std::fs::metadata(at).is_err_and(|e| e.raw_os_error() == Some(107));
    if is_dead {
        let mut umount = Command::new("umount");
        let _ = umount.arg("--lazy").arg(at).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
