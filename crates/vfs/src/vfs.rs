//! [`Vfs`]: the disk and the clock that an engine uses. A disk can stand before another.

use crate::descriptor_cache::{CachedDirs, CachingDisk, OnSync};
use crate::ephemeral::EphemeralDisk;
use crate::fail_stop::FailStopDisk;
use crate::intercept::{InterceptedDisk, Interceptor};
use crate::os::{OsClock, OsDisk};
use crate::read_only::ReadOnlyDisk;
use crate::{Clock, Disk};
use std::sync::Arc;

/// Files, time and randomness. The engine gets it when it opens.
#[derive(Clone, Debug)]
pub struct Vfs {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}

impl Vfs {
    /// Returns the files and the clock of the operating system.
    #[must_use]
    pub fn os() -> Vfs {
        Vfs { disk: Arc::new(OsDisk::default()), clock: Arc::new(OsClock::default()) }
    }

    /// Returns an empty disk in memory, and the operating system's clock.
    #[must_use]
    pub fn in_memory() -> Vfs {
        Vfs { disk: Arc::new(EphemeralDisk::default()), clock: Arc::new(OsClock::default()) }
    }

    /// Returns a VFS with this clock, on which `interceptor` intercepts the calls to `disk`.
    pub fn intercepted(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, interceptor: Arc<dyn Interceptor>) -> Vfs {
        Vfs { disk: Arc::new(InterceptedDisk { disk, interceptor }), clock }
    }

    /// Returns a VFS with the same files, through which no file can be changed.
    #[must_use]
    pub fn read_only(&self) -> Vfs {
        self.through(ReadOnlyDisk(Arc::clone(&self.disk)))
    }

    /// Returns a VFS with the same files. After a failed write or sync of one file it changes none
    /// of them.
    #[must_use]
    pub fn fail_stop(&self) -> Vfs {
        self.through(FailStopDisk::new(Arc::clone(&self.disk)))
    }

    /// Returns a VFS with the same files, in which only a few files in `dirs` are open at the same
    /// time. If the disk has no limit of descriptors, returns the same VFS.
    #[must_use]
    pub fn with_descriptor_cache(&self, dirs: &CachedDirs, on_sync: OnSync) -> Vfs {
        let Some(limit) = self.disk.descriptors() else { return self.clone() };
        let (disk, clock) = (Arc::clone(&self.disk), Arc::clone(&self.clock));
        self.through(CachingDisk::new(disk, clock, dirs, limit, on_sync))
    }

    /// Returns a VFS with the same clock, whose calls go to `disk`, which stands before this one.
    fn through(&self, disk: impl Disk + 'static) -> Vfs {
        Vfs { disk: Arc::new(disk), clock: Arc::clone(&self.clock) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchIo;
    use crate::fault::FaultDisk;
    use std::path::Path;

    #[derive(Debug)]
    struct ChangesNothing;

    impl Interceptor for ChangesNothing {}

    /// The read-only disk forgot how many descriptors there are.
    #[test]
    fn a_disk_before_another_answers_as_the_one_beneath() {
        let Vfs { disk: os, clock } = Vfs::os();
        let before = |disk: &Arc<dyn Disk>| {
            let vfs = Vfs { disk: Arc::clone(disk), clock: Arc::clone(&clock) };
            let interceptor = Arc::new(ChangesNothing);
            let intercepted = Vfs::intercepted(Arc::clone(disk), Arc::clone(&clock), interceptor);
            let cached = vfs.with_descriptor_cache(&CachedDirs::default(), Box::new(|_| ()));
            [vfs.read_only().disk, vfs.fail_stop().disk, cached.disk, intercepted.disk]
        };
        let faults: Arc<dyn Disk> = Arc::new(FaultDisk::new(Arc::clone(&os)));
        for disk in before(&os) {
            assert_eq!(disk.batch_io(), os.batch_io(), "{disk:?}");
        }
        // It counts the operations of a batch one by one, and so do those before it.
        for disk in before(&faults) {
            assert_eq!(disk.batch_io(), BatchIo::OneByOne, "{disk:?}");
        }
        for disk in before(&os).into_iter().chain(before(&faults)).chain([faults]) {
            let (name, dir) = (Path::new("a"), std::env::temp_dir());
            assert_eq!(disk.absolute(name), os.absolute(name), "{disk:?}");
            assert!(disk.identity(&dir).unwrap().is_some(), "{disk:?}");
            assert!(disk.identity(&dir).unwrap() == os.identity(&dir).unwrap(), "{disk:?}");
            assert_eq!(disk.descriptors(), os.descriptors(), "{disk:?}");
            assert!(!disk.is_ephemeral(), "{disk:?}");
        }
        let memory: Arc<dyn Disk> = Arc::new(EphemeralDisk::default());
        assert!(before(&memory).iter().all(|disk| disk.is_ephemeral()));
    }
}
