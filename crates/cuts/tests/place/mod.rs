//! Directories of tests, and what the file system promises in them.
#![allow(dead_code)] // Each test uses a part.
#![allow(unreachable_pub, missing_docs)]

use cuts::{Mounted, NewFiles, Policy, Syncs, unavailable};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

pub const KIND: Policy = Policy { new_files: NewFiles::HaveTheirName, syncs: Syncs::Kept };
pub const STRICT: Policy = Policy { new_files: NewFiles::NeedTheirDirectory, syncs: Syncs::Kept };

/// A backing directory and a place for the mount, removed at the end.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Option<Place> {
        if let Some(why) = unavailable() {
            println!("not run: {why}");
            return None;
        }
        let place = Place(std::env::temp_dir().join(format!("millpond-cuts-{}-{name}", std::process::id())));
        fs::create_dir_all(place.backing()).unwrap();
        fs::create_dir_all(place.at()).unwrap();
        Some(place)
    }

    pub fn backing(&self) -> PathBuf {
        self.0.join("backing")
    }

    pub fn at(&self) -> PathBuf {
        self.0.join("at")
    }

    pub fn mount(&self, policy: Policy) -> Mounted {
        Mounted::mount(&self.backing(), &self.at(), policy).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens or makes a file.
pub fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}
