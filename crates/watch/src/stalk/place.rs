//! The directory of `stalk`: a directory for each event, and how many there may be.

use crate::claimed::{self, Claimed, Kind};
use output::failure::{Failure, Outcome};
use output::units::show_date;
use std::fs;
use std::path::{Path, PathBuf};

const KIND: Kind = Kind { command: "stalk", what: "events", mark: "stalk.txt", format: "millpond stalk 1" };
/// The file that makes a directory one of an event; nothing else is ever removed.
pub(super) const EVENT: &str = "event.json";
/// The most letters of the cause in a name.
const WORD: usize = 40;

/// Takes the directory.
pub(super) fn claim(dir: &Path, target: &str) -> Outcome<Claimed> {
    claimed::claim(dir, target, KIND)
}

/// Makes the directory of an event.
pub(super) fn make(dir: &Path, at_us: u64, word: &str) -> Outcome<PathBuf> {
    let name = name(at_us, word);
    let number = |n: u32| if n == 1 { name.clone() } else { format!("{name}-{n}") };
    let path = (1..).map(|n| dir.join(number(n))).find(|path| !path.exists());
    let path = path.unwrap_or_else(|| dir.join(&name));
    let cannot = |e| Failure::failed(format!("cannot create {}: {e}", path.display()));
    fs::create_dir(&path).map_err(cannot)?;
    Ok(path)
}

/// Returns the name of an event: when it was, and why. Names are in the order of time.
fn name(at_us: u64, word: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let word: String = word.chars().take(WORD).map(plain).collect();
    format!("{}-{word}", show_date(at_us).replace(':', "-"))
}

/// Deletes the oldest events until all together have at most so many bytes. The newest stays.
pub(super) fn trim(dir: &Path, limit: u64) -> Outcome {
    let events = events(dir)?;
    let sizes: Vec<u64> = events.iter().map(|path| bytes(path)).collect();
    for path in &events[..too_many(&sizes, limit)] {
        fs::remove_dir_all(path)
            .map_err(|e| Failure::failed(format!("cannot remove {}: {e}", path.display())))?;
    }
    Ok(())
}

/// Returns the directories of events, the oldest first.
fn events(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let cannot = |e: std::io::Error| Failure::failed(format!("cannot read {}: {e}", dir.display()));
    let entries = fs::read_dir(dir).map_err(cannot)?.flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join(EVENT).is_file()).collect();
    found.sort();
    Ok(found)
}

fn bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Returns how many of the oldest are too many.
fn too_many(sizes: &[u64], limit: u64) -> usize {
    let mut all: u64 = sizes.iter().sum();
    let goes = |size: &&u64| {
        let goes = all > limit;
        all -= if goes { **size } else { 0 };
        goes
    };
    let but_the_newest = &sizes[..sizes.len().saturating_sub(1)];
    but_the_newest.iter().take_while(goes).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_name_tells_when_and_why() {
        let at = 1_764_000_000_000_000;
        assert_eq!(name(at, "threads_running"), "2025-11-24T16-00-00Z-threads_running");
        assert_eq!(name(at, "../a b"), "2025-11-24T16-00-00Z----a-b");
        assert!(name(at, "age") < name(at + 1_000_000, "age"));
    }

    #[test]
    fn the_oldest_go_and_the_newest_stays() {
        assert_eq!(too_many(&[10, 10, 10], 30), 0);
        assert_eq!(too_many(&[10, 10, 10], 29), 1);
        assert_eq!(too_many(&[10, 10, 10], 0), 2);
        assert_eq!(too_many(&[100], 1), 0);
        assert_eq!(too_many(&[], 0), 0);
    }

    #[test]
    fn only_events_are_removed() {
        let scratch = Scratch::new("stalk-place");
        let _held = claim(&scratch.0.join("d"), "mysql://db/").unwrap();
        let dir = scratch.0.join("d");
        let made: Vec<PathBuf> =
            (0..3).map(|n| make(&dir, 1_764_000_000_000_000 + n / 2, "tps").unwrap()).collect();
        assert!(made[2].ends_with("2025-11-24T16-00-00Z-tps-3"), "{made:?}");
        made.iter().for_each(|path| fs::write(path.join(EVENT), "0123456789").unwrap());
        fs::create_dir(dir.join("0-own")).unwrap();
        fs::write(dir.join("0-own").join("file"), "x").unwrap();
        trim(&dir, 15).unwrap();
        let left = [&made[0], &made[1], &made[2]].map(|path| path.exists());
        assert_eq!(left, [false, false, true]);
        assert!(dir.join("0-own").join("file").exists());
        assert!(claim(&dir, "mysql://db/").unwrap_err().to_string().contains("another `millpond stalk`"));
    }
}
