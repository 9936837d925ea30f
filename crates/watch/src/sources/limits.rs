//! The two limits of InnoDB's checkpoint age, computed as each version computes them.
//!
//! Above the *soft* limit InnoDB flushes with full force beside the callers (the asynchronous
//! point). At the *limit* callers wait for the flushing (the synchronous point). No version shows
//! both as status variables, and what they are called has changed; the formulas are those of
//! `log_calc_max_ages` (5.7), `log_t::set_capacity` (MariaDB) and `Log_files_capacity` (8.0.30).

use client::Version;

/// What decides the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogSettings {
    /// Whose server, and which version.
    pub(crate) version: Version,
    /// `innodb_log_file_size` times `innodb_log_files_in_group`, or `innodb_redo_log_capacity`.
    pub(crate) log_bytes: u64,
    /// `innodb_log_files_in_group`; 1 where there is none.
    pub(crate) files: u64,
    /// `innodb_page_size`.
    pub(crate) page_bytes: u64,
    /// `innodb_thread_concurrency`.
    pub(crate) thread_concurrency: u64,
    /// `Innodb_checkpoint_max_age`, where the server has it.
    pub(crate) max_age: Option<u64>,
}

/// The limits, bytes, and how they were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The asynchronous point.
    pub(crate) soft: u64,
    /// The synchronous point.
    pub(crate) limit: u64,
    /// How.
    pub(crate) how: &'static str,
}

const BLOCK: u64 = 512;

/// Returns the limits.
pub(crate) fn limits(settings: &LogSettings) -> Limits {
    let version = settings.version;
    match settings.max_age {
        // Only MariaDB since 10.5 has no synchronous point below the greatest age.
        Some(max) if version.is_mariadb() && version.from((10, 5, 0)) => {
            Limits { soft: max - max / 8, limit: max, how: "Innodb_checkpoint_max_age, and 7/8 of it" }
        }
        Some(max) if version.is_mariadb() || !version.from((8, 0, 30)) => Limits {
            soft: max - max / 8,
            limit: max - max / 16,
            how: "7/8 and 15/16 of Innodb_checkpoint_max_age",
        },
        _ if version.is_mariadb() && version.from((10, 5, 0)) => {
            let max = classic(settings, 12_288, 0);
            Limits { soft: max - max / 8, limit: max, how: "MariaDB's formula from the log's size" }
        }
        _ if version.is_mariadb() || !version.from((8, 0, 0)) => {
            let max = classic(settings, settings.files.saturating_mul(2048), settings.thread_concurrency);
            let how = "the formula of MySQL 5.7 from the log's size";
            Limits { soft: max - max / 8, limit: max - max / 16, how }
        }
        _ if version.from((8, 0, 30)) => {
            let soft = soft_capacity(settings.log_bytes);
            let part = |of: u64| ((soft as f64 * (1.0 - 1.0 / of as f64)) as u64) / BLOCK * BLOCK;
            let how = "the formula of MySQL 8.0.30 from the log's size";
            Limits { soft: part(8), limit: part(16), how }
        }
        _ => {
            // Between, the margins depend on threads and on what is open. This is close.
            let max = classic(settings, settings.files.saturating_mul(2048), settings.thread_concurrency);
            let how = "an estimate: MySQL 8.0 before 8.0.30 does not tell";
            Limits { soft: max - max / 8, limit: max - max / 16, how }
        }
    }
}

/// The greatest checkpoint age of MySQL 5.7 and MariaDB.
fn classic(settings: &LogSettings, headers: u64, threads: u64) -> u64 {
    let tenth_off = |bytes: u64| bytes - bytes / 10;
    let capacity = tenth_off(settings.log_bytes.saturating_sub(headers));
    // Four pages for each of ten threads and of those that the setting lets in, and eight pages.
    let kept = settings.page_bytes.saturating_mul(threads.saturating_mul(4).saturating_add(48));
    tenth_off(capacity.saturating_sub(kept))
}

/// What threads of MySQL 8.0.30 may use of the log: its 32 files without two, headers, a reserve,
/// a tenth of a file, and a twentieth for the log writer.
fn soft_capacity(log_bytes: u64) -> u64 {
    const FILES: u64 = 32;
    let overhead = (FILES - 1) * 2048 + 2 * 65_536;
    let hard = (log_bytes / FILES * (FILES - 2)).saturating_sub(overhead + log_bytes / FILES / 10);
    (u128::from(hard / BLOCK * BLOCK) * 95 / 100) as u64 / BLOCK * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(version: &str, log_bytes: u64, files: u64, max_age: Option<u64>) -> LogSettings {
        let version = Version::parse(version, "");
        LogSettings { version, log_bytes, files, page_bytes: 16384, thread_concurrency: 0, max_age }
    }

    #[test]
    fn mariadb_10_11_as_measured() {
        // MariaDB 10.11.19 with innodb_log_file_size=32M shows this Innodb_checkpoint_max_age.
        let computed = limits(&settings("10.11.19-MariaDB", 32 << 20, 1, None));
        assert_eq!((computed.soft, computed.limit), (23_153_681, 26_461_349));
        let shown = limits(&settings("10.11.19-MariaDB", 32 << 20, 1, Some(26_461_349)));
        assert_eq!((shown.soft, shown.limit), (computed.soft, computed.limit));
    }

    #[test]
    fn mysql_8_0_as_reported() {
        // Users of 8.0.46 report 87,086,592 for 100 MiB. The tenth of a file in the formula was
        // found with this number, so it is no independent proof of that part.
        assert_eq!(limits(&settings("8.0.46", 104_857_600, 32, None)).limit, 87_086_592);
    }

    #[test]
    fn mysql_5_7_as_published() {
        // Four files of 4 GiB: published figures of a 5.7 server, before headers and pages are
        // rounded: 12.18 and 13.05 GB, 71 and 76 %.
        let found = limits(&settings("5.7.44", 4 << 32, 4, None));
        assert_eq!((found.soft / 10_000_000, found.limit / 10_000_000), (1217, 1304));
        let percona = limits(&settings("5.7.11-4-percona", 4 << 32, 4, Some(13_914_979_615)));
        assert_eq!((percona.soft, percona.limit), (12_175_607_164, 13_045_293_390));
    }

    #[test]
    fn no_setting_makes_it_panic() {
        let wild = LogSettings {
            files: u64::MAX,
            page_bytes: u64::MAX,
            thread_concurrency: u64::MAX,
            ..settings("5.7.1", 1, 1, None)
        };
        assert_eq!(limits(&wild).limit, 0);
        for version in ["5.7.1", "8.0.20", "8.0.30", "9.1.0", "10.3.1-MariaDB", "11.4.1-MariaDB", "0"] {
            for bytes in [0, 1, 4 << 20, u64::MAX] {
                let found = limits(&settings(version, bytes, 2, None));
                assert!(found.soft <= found.limit, "{version}: {found:?}");
            }
        }
    }
}
