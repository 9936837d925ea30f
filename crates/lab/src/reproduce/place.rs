//! Which files of a server or a database are in memory, and which on the disk.

use super::private_server::Options;
use super::room::Room;
use output::failure::{Failure, Outcome};
use std::path::Path;

/// Where files are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) data: &'a Path,
    pub(super) log: &'a Path,
    temporary: &'a Path,
}

impl<'a> Place<'a> {
    /// Says for the data, the redo log and the temporary files whether they are in memory.
    pub(super) fn of(room: &'a Room<'_>, in_memory: [bool; 3]) -> Outcome<Place<'a>> {
        let memory = room.memory.ok_or_else(|| {
            Failure::failed("this experiment needs /dev/shm, a file system in memory, and it cannot be used")
        })?;
        let [data, log, temporary] =
            in_memory.map(|memory_too| if memory_too { memory } else { room.scratch });
        Ok(Place { data, log, temporary })
    }

    /// Returns the options of a server with InnoDB.
    pub(super) fn innodb(&self, name: &str) -> Options {
        let log = self.log.join(format!("{name}-log"));
        let temporary = self.temporary.join(format!("{name}-tmp"));
        Options {
            settings: vec![
                format!("--innodb-log-group-home-dir={}", log.display()),
                format!("--tmpdir={}", temporary.display()),
            ],
            dirs: vec![log, temporary],
            plugin: None,
        }
    }

    /// Returns the options of a server with the plugin; its redo log is the one that moves.
    pub(super) fn plugin(&self, name: &str) -> Options {
        let log = self.log.join(format!("{name}-log"));
        let temporary = self.temporary.join(format!("{name}-tmp"));
        Options {
            settings: vec![format!("--tmpdir={}", temporary.display())],
            plugin: Some(vec![format!("--millpond-redo-dir={}", log.display())]),
            dirs: vec![log, temporary],
        }
    }
}
