//! How a setting is changed: by which statement, or in the option file, in which version.

use super::facts::Facts;
use super::words::{option_bytes, statement_bytes};
use client::Version;

/// A change and the way back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// The exact statements, or the line of the option file.
    pub(super) action: String,
    /// The same with the old value.
    pub(super) undo: String,
    /// What it costs to change it: a restart, or a line in the option file so that it stays.
    pub(super) note: &'static str,
}

const ONLINE: &str = "online; after a restart it is gone unless it is in the option file too";
const RESTART: &str = "a restart of the server";
/// Before these, an old log of another size had to be moved away by hand.
const RESIZES_BY_ITSELF: (u32, u32, u32) = (5, 6, 8);
const BY_HAND: &str = "a restart of the server: a clean shutdown, and the old ib_logfile* moved away";

/// Changes settings while the server runs. Each has a name, the old value and the new one. One that
/// stays as it is is left out.
pub(super) fn online(changes: &[(&str, f64, f64)]) -> Change {
    let changes: Vec<_> = changes.iter().filter(|(_, old, new)| old != new).collect();
    let set = |name: &str, value: f64| format!("SET GLOBAL {name} = {value}");
    let action: Vec<String> = changes.iter().map(|(name, _, new)| set(name, *new)).collect();
    let undo: Vec<String> = changes.iter().rev().map(|(name, old, _)| set(name, *old)).collect();
    Change { action: action.join("; "), undo: undo.join("; "), note: ONLINE }
}

/// Changes a setting in the option file.
pub(super) fn at_start(name: &str, old: &str, new: &str) -> Change {
    let line = |value: &str| format!("{name} = {value} in the option file, and a restart");
    Change { action: line(new), undo: line(old), note: RESTART }
}

/// Changes the size of the redo log of the version from one to another, bytes of the whole log.
pub(super) fn log_size(facts: &Facts, version: Version, from: f64, to: f64) -> Change {
    let set = |name: &str| {
        let of = |bytes| format!("SET GLOBAL {name} = {}", statement_bytes(bytes));
        Change { action: of(to), undo: of(from), note: ONLINE }
    };
    if version.is_mariadb() && version.from((10, 9, 0)) {
        let change = set("innodb_log_file_size");
        // While it runs, MariaDB refuses a log that is shorter than its buffer.
        let buffer = facts.settings.number("innodb_log_buffer_size").unwrap_or(0.0);
        let undo = at_start("innodb_log_file_size", &option_bytes(from), &option_bytes(to)).undo;
        return if from < buffer { Change { undo, ..change } } else { change };
    }
    if !version.is_mariadb() && version.from((8, 0, 30)) {
        return set("innodb_redo_log_capacity");
    }
    let one_file = version.is_mariadb() && version.from((10, 5, 0));
    let files = facts.settings.number("innodb_log_files_in_group").filter(|_| !one_file).unwrap_or(1.0);
    let of = |bytes: f64| option_bytes((bytes / files.max(1.0)).ceil());
    let change = at_start("innodb_log_file_size", &of(from), &of(to));
    let by_hand = !version.is_mariadb() && !version.from(RESIZES_BY_ITSELF);
    if by_hand { Change { note: BY_HAND, ..change } } else { change }
}

/// Whether `innodb_lru_flush_size` has an effect.
pub(super) fn has_lru_flush_size(version: Version) -> bool {
    /// The first version of each series in which it has none.
    const WITHOUT: [(u32, u32, u32); 6] =
        [(10, 6, 18), (10, 11, 8), (11, 0, 6), (11, 1, 5), (11, 2, 4), (11, 4, 2)];
    if !version.is_mariadb() || !version.from((10, 5, 7)) {
        return false;
    }
    let (major, minor, _) = version.number;
    match WITHOUT.iter().find(|without| (without.0, without.1) == (major, minor)) {
        Some(without) => !version.from(*without),
        None => !version.from((11, 4, 0)),
    }
}

/// Whether neighbours are written only where the device rotates, whatever the setting says.
pub(super) fn asks_the_device(version: Version) -> bool {
    version.is_mariadb() && version.from((10, 4, 4))
}

/// Whether the doublewrite can have a directory of its own.
pub(super) fn has_doublewrite_dir(version: Version) -> bool {
    !version.is_mariadb() && version.from((8, 0, 20))
}

/// Whether the size of the log buffer changes while the server runs.
pub(super) fn log_buffer_is_online(version: Version) -> bool {
    !version.is_mariadb() && version.from((8, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn resize(version: &str) -> Change {
        let settings = [("innodb_log_files_in_group".to_owned(), "2".to_owned())];
        let facts = Facts { settings: Settings::new(settings), ..Facts::default() };
        log_size(&facts, Version::parse(version, ""), 96.0 * MIB, 512.0 * MIB)
    }

    #[test]
    fn each_version_changes_the_log_in_its_way() {
        let file = |size: &str| format!("innodb_log_file_size = {size} in the option file, and a restart");
        for version in ["10.9.0-MariaDB", "10.11.19-MariaDB", "11.8.3-MariaDB", "12.3.1-MariaDB"] {
            let change = resize(version);
            assert_eq!(change.action, "SET GLOBAL innodb_log_file_size = 512*1024*1024", "{version}");
            assert_eq!(change.undo, "SET GLOBAL innodb_log_file_size = 96*1024*1024", "{version}");
        }
        // One file, whatever the setting of before says.
        for version in ["10.5.0-MariaDB", "10.6.18-MariaDB", "10.8.8-MariaDB"] {
            assert_eq!((resize(version).action, resize(version).note), (file("512M"), RESTART), "{version}");
        }
        for version in ["10.4.34-MariaDB", "5.7.44", "8.0.29"] {
            let change = resize(version);
            assert_eq!((change.action, change.undo, change.note), (file("256M"), file("48M"), RESTART));
        }
        assert_eq!(resize("5.5.62").note, BY_HAND);
        for version in ["8.0.30", "8.4.1", "9.1.0", "26.1.0"] {
            let wanted = "SET GLOBAL innodb_redo_log_capacity = 512*1024*1024";
            assert_eq!(resize(version).action, wanted, "{version}");
        }
    }

    /// The undo of a change that a real server refused.
    #[test]
    fn a_log_that_is_shorter_than_its_buffer_comes_back_only_at_a_start() {
        let settings = [("innodb_log_buffer_size".to_owned(), "16777216".to_owned())];
        let facts = Facts { settings: Settings::new(settings), ..Facts::default() };
        let version = Version::parse("10.11.19-MariaDB", "");
        let undo = |from: f64| log_size(&facts, version, from * MIB, 256.0 * MIB).undo;
        assert_eq!(undo(8.0), "innodb_log_file_size = 8M in the option file, and a restart");
        assert_eq!(undo(16.0), "SET GLOBAL innodb_log_file_size = 16*1024*1024");
    }

    #[test]
    fn what_versions_have() {
        let of = |version: &str| Version::parse(version, "");
        for (version, has) in [
            ("10.5.6-MariaDB", false),
            ("10.5.7-MariaDB", true),
            ("10.6.17-MariaDB", true),
            ("10.6.18-MariaDB", false),
            ("10.11.7-MariaDB", true),
            ("10.11.19-MariaDB", false),
            ("11.3.2-MariaDB", true),
            ("11.4.1-MariaDB", true),
            ("11.4.2-MariaDB", false),
            ("11.8.1-MariaDB", false),
            ("8.0.36", false),
        ] {
            assert_eq!(has_lru_flush_size(of(version)), has, "{version}");
        }
        assert!(has_doublewrite_dir(of("26.1.0")) && has_doublewrite_dir(of("8.0.20")));
        assert!(!has_doublewrite_dir(of("8.0.19")) && !has_doublewrite_dir(of("11.8.1-MariaDB")));
        assert!(asks_the_device(of("10.11.1-MariaDB")) && !asks_the_device(of("8.4.0")));
        assert!(log_buffer_is_online(of("8.0.11")) && !log_buffer_is_online(of("10.11.1-MariaDB")));
    }

    #[test]
    fn statements_are_undone_in_the_reverse_order() {
        let change = online(&[("a_max", 1.0, 3.0), ("same", 7.0, 7.0), ("a", 0.5, 2.0)]);
        assert_eq!(change.action, "SET GLOBAL a_max = 3; SET GLOBAL a = 2");
        assert_eq!(change.undo, "SET GLOBAL a = 0.5; SET GLOBAL a_max = 1");
    }
}
