//! The limits on the scale of the checkpoint age, which InnoDB derives from the size of the log.
//!
//! ```text
//! 0 .... low-water mark ........ async ..... sync ........ size
//!   nothing  |  adaptive flushing  |  MariaDB   | writers stop,
//!            |  once a second      |  without   | pages are written
//!            |                     |  a pause   | until they may go on
//! ```

use super::{Server, Settings};
use crate::age_limits::AgeLimits;

/// InnoDB's usual page size. What it holds back counts in such pages.
const PAGE_BYTES: u64 = 16 << 10;

/// Limits on the scale of the checkpoint age, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPoints {
    /// The part of the log from which the low-water mark of adaptive flushing counts.
    pub capacity: u64,
    /// Adaptive flushing writes at full speed. The factor of the age is 100 here.
    pub async_age: u64,
    /// Writers stop.
    pub sync_age: u64,
}

/// Returns the limits for a log of `log_bytes` in all.
#[must_use]
pub fn log_points(server: Server, log_bytes: u64) -> LogPoints {
    match server {
        Server::MariaDb1011 => mariadb(log_bytes),
        Server::MySql8 => mysql(log_bytes),
    }
}

impl LogPoints {
    /// Returns the age from which on the redo rate decides how much is written.
    #[must_use]
    pub fn low_water(&self, settings: &Settings) -> u64 {
        (settings.adaptive_flushing_lwm * self.capacity as f64 / 100.0) as u64
    }
}

/// Returns the limits that this law puts in the place of Millpond's: nothing is delayed before
/// writers stop. They stop no later than Millpond's writers, because the redo above its hard limit
/// is needed by those that were admitted. `log_bytes` is the size of the log.
#[must_use]
pub fn limits(server: Server, own: AgeLimits, log_bytes: u64) -> AgeLimits {
    let points = log_points(server, log_bytes);
    let hard = points.sync_age.min(own.hard);
    AgeLimits { target: points.async_age.min(hard), soft: hard, hard, capacity: own.capacity }
}

/// A tenth is held back for safety, then 48 pages for ten threads in a change of a tree, then
/// another tenth. The async point is at seven eighths of the rest. A file has 12 KiB of header.
fn mariadb(log_bytes: u64) -> LogPoints {
    let redo = log_bytes.saturating_sub(12 << 10);
    let capacity = redo - redo / 10;
    // A log in which the pages take more than half does not start in InnoDB.
    let rest = capacity - (48 * PAGE_BYTES).min(capacity / 2);
    let sync_age = rest - rest / 10;
    LogPoints { capacity, async_age: sync_age - sync_age / 8, sync_age }
}

/// The log is 32 files, and two of them are never full at the same time. Headers, 128 KiB, a tenth
/// of a file and then a twentieth of all are held back.
fn mysql(log_bytes: u64) -> LogPoints {
    const FILES: u64 = 32;
    const BLOCK: u64 = 512;
    let whole_blocks = |bytes: u64| bytes / BLOCK * BLOCK;
    let file = log_bytes / FILES / PAGE_BYTES * PAGE_BYTES;
    let held_back = (FILES - 1) * 2048 + (128 << 10) + (file / 10).next_multiple_of(BLOCK);
    let hard = whole_blocks((log_bytes / FILES * (FILES - 2)).saturating_sub(held_back));
    let soft = whole_blocks(hard - hard.div_ceil(20));
    LogPoints {
        capacity: soft,
        async_age: whole_blocks(soft - soft.div_ceil(8)),
        sync_age: whole_blocks(soft - soft.div_ceil(16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    /// Published figures: MySQL 8.0.46 with 100 MiB has its sync point at 87,086,592 bytes. In an
    /// article about 4 GB of log on MySQL 5.7, 3.24 GB were usable.
    #[test]
    fn points_of_known_logs() {
        let mut out = String::new();
        for (name, mib) in [
            ("smallest", 4),
            ("MariaDB's default", 96),
            ("MySQL's default", 100),
            ("two files of 2 GB", 4096),
        ] {
            for server in [Server::MariaDb1011, Server::MySql8] {
                let bytes = mib << 20;
                let p = log_points(server, bytes);
                let part = |age: u64| age as f64 / bytes as f64;
                out += &format!(
                    "{name:<17} {mib:>4} MiB {server:?}: low water {:>9}, async {:>10} ({:.3}), sync {:>10} ({:.3})\n",
                    p.low_water(&Settings::mariadb()),
                    p.async_age,
                    part(p.async_age),
                    p.sync_age,
                    part(p.sync_age),
                );
            }
        }
        expect![[r#"
            smallest             4 MiB MariaDb1011: low water    376381, async    2344690 (0.559), sync    2679645 (0.639)
            smallest             4 MiB MySql8: low water    353792, async    3095552 (0.738), sync    3316736 (0.791)
            MariaDB's default   96 MiB MariaDb1011: low water   9058590, async   70717088 (0.703), sync   80819529 (0.803)
            MariaDB's default   96 MiB MySql8: low water   8916889, async   78022656 (0.775), sync   83595776 (0.830)
            MySQL's default    100 MiB MariaDb1011: low water   9436078, async   73689801 (0.703), sync   84216915 (0.803)
            MySQL's default    100 MiB MySql8: low water   9289267, async   81281024 (0.775), sync   87086592 (0.831)
            two files of 2 GB 4096 MiB MariaDb1011: low water 386545950, async 3043430048 (0.709), sync 3478205769 (0.810)
            two files of 2 GB 4096 MiB MySql8: low water 381226905, async 3335735296 (0.777), sync 3574002176 (0.832)
        "#]].assert_eq(&out);
    }

    #[test]
    fn no_limit_delays_before_one_stops_all() {
        let own = |threads| crate::age_limits::age_limits(96 << 20, threads);
        let mine = limits(Server::MariaDb1011, own(16), 96 << 20);
        assert_eq!((mine.target, mine.soft, mine.hard), (70_717_088, 80_819_529, 80_819_529));
        assert_eq!(mine.capacity, 96 << 20);
        // With a thousand threads a quarter of the log is held back. So it is while most of the
        // log's files do not exist yet.
        assert_eq!(limits(Server::MariaDb1011, own(1000), 96 << 20).hard, 72 << 20);
        assert_eq!(limits(Server::MySql8, own(16), 1 << 30).hard, own(16).hard);
    }

    #[test]
    fn the_points_are_in_order_for_any_log() {
        for kib in [0, 1, 12, 100, 1000, 2000, 4096, 10_000, 1 << 20, 1 << 30] {
            for server in [Server::MariaDb1011, Server::MySql8] {
                let p = log_points(server, kib << 10);
                assert!(p.async_age <= p.sync_age && p.sync_age <= p.capacity, "{p:?}");
                assert!(p.capacity <= kib << 10, "{p:?}");
            }
        }
    }
}
