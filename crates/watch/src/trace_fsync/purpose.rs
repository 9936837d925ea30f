//! What a file is for, by its path: the reason for a sync, as far as it can be seen from outside.

use std::path::{Path, PathBuf};

/// Returns what a file is for. `ponds` are the directories of Millpond's databases.
pub(crate) fn purpose(path: &Path, ponds: &[PathBuf]) -> &'static str {
    if let Some(inside) = ponds.iter().find_map(|pond| path.strip_prefix(pond).ok()) {
        return of_millpond(inside);
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let parent = |name: &str| path.components().any(|part| part.as_os_str() == name);
    let ends = |end: &str| name.ends_with(end);
    if parent("pg_wal") {
        return "WAL";
    }
    if name.starts_with("ib_logfile") || name.starts_with("#ib_redo") {
        "redo log"
    } else if name.starts_with("#ib_") && ends(".dblwr") {
        "doublewrite"
    } else if name.starts_with("ibdata") {
        "system tablespace, with the doublewrite in MariaDB"
    } else if name.starts_with("ibtmp") || parent("#innodb_temp") {
        "temporary tables"
    } else if name.starts_with("undo") {
        "undo"
    } else if name.starts_with("aria_log") {
        "Aria's log"
    } else if ends(".ibd") {
        "a table"
    } else if ends(".MAD") || ends(".MAI") || ends(".MYD") || ends(".MYI") {
        "a table of Aria or MyISAM"
    } else if name.contains("relay") {
        "relay log"
    } else if is_binlog(&name) {
        "binary log"
    } else if name == "tc.log" {
        "two-phase commit"
    } else if ends(".frm") || name.starts_with("ddl_") || ends(".par") {
        "DDL"
    } else if ends("-wal") || ends("-journal") {
        "SQLite's log"
    } else {
        ""
    }
}

/// A binary log is a name with a number, or its index.
fn is_binlog(name: &str) -> bool {
    let Some((stem, end)) = name.rsplit_once('.') else { return false };
    let numbered = end.len() >= 6 && end.bytes().all(|b| b.is_ascii_digit());
    let index = ["index", "state", "~rec~", "ibb"].contains(&end);
    (numbered || index) && (stem.contains("bin") || stem.contains("log"))
}

fn of_millpond(inside: &Path) -> &'static str {
    let first = inside.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    match first.as_deref() {
        Some("redo") => "redo log",
        Some("pages") => "pages",
        Some("doublewrite") => "doublewrite",
        Some("undo") => "undo",
        Some("root") => "checkpoint",
        Some("recorder") => "flight recorder",
        Some("LOCK") => "lock file",
        None => "directory",
        Some(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_servers_and_of_millpond() {
        let ponds = [PathBuf::from("/var/lib/mysql/#millpond")];
        for (path, expected) in [
            ("/var/lib/mysql/ib_logfile0", "redo log"),
            ("/var/lib/mysql/#innodb_redo/#ib_redo12", "redo log"),
            ("/var/lib/mysql/#ib_16384_0.dblwr", "doublewrite"),
            ("/var/lib/mysql/ibdata1", "system tablespace, with the doublewrite in MariaDB"),
            ("/var/lib/mysql/undo_001", "undo"),
            ("/var/lib/mysql/undo001", "undo"),
            ("/var/lib/mysql/ibtmp1", "temporary tables"),
            ("/var/lib/mysql/shop/products.ibd", "a table"),
            ("/var/lib/mysql/mysql.ibd", "a table"),
            ("/var/lib/mysql/mysql/db.MAI", "a table of Aria or MyISAM"),
            ("/var/lib/mysql/aria_log.00000001", "Aria's log"),
            ("/var/lib/mysql/binlog.000007", "binary log"),
            ("/var/lib/mysql/mysql-bin.index", "binary log"),
            ("/var/lib/mysql/host-relay-bin.000002", "relay log"),
            ("/var/lib/mysql/tc.log", "two-phase commit"),
            ("/var/lib/mysql/shop/t.frm", "DDL"),
            ("/var/lib/mysql/#millpond/redo/00000012", "redo log"),
            ("/var/lib/mysql/#millpond/pages", "pages"),
            ("/var/lib/mysql/#millpond/doublewrite/0", "doublewrite"),
            ("/var/lib/mysql/#millpond/undo/3", "undo"),
            ("/var/lib/mysql/#millpond/root", "checkpoint"),
            ("/var/lib/mysql/#millpond", "directory"),
            ("/var/lib/mysql/#millpond/other", ""),
            ("/var/lib/postgresql/16/main/pg_wal/000000010000000000000001", "WAL"),
            ("/srv/app.db-wal", "SQLite's log"),
            ("/srv/pages", ""),
            ("/srv/report.123", ""),
            ("", ""),
        ] {
            assert_eq!(purpose(Path::new(path), &ponds), expected, "{path}");
        }
    }
}
