//! InnoDB's law of flushing, as MariaDB 10.11 and MySQL 8 have it, to compare it with Millpond's
//! law on the same engine (Fl8).
//!
//! # The law
//! Once a second InnoDB decides how many pages it writes: from the share of dirty pages, from the
//! checkpoint age, and from averages of the last half minute ([`adaptive`]). Between two seconds
//! nothing is decided. Writers are never slowed. At the async point of the checkpoint age MariaDB
//! writes without a pause, and at the sync point writers stop until the checkpoint has moved
//! ([`points`]). Free frames come from the end of the LRU list, in numbers that the user sets
//! ([`lru`]). Most numbers count from two settings, `io_capacity` and `io_capacity_max`. If they do
//! not fit the device, the age reaches the sync point, and the rate of commits falls to nothing for
//! seconds.
//!
//! [`cleaner`] joins all of it. It answers the same questions as [`crate::governor`].
//!
//! # What differs from InnoDB
//! The engine around it is Millpond's: no caller's thread writes a page, and whole runs go through
//! the doublewrite in large batches. So the law looks better here than in InnoDB, not worse.

pub mod adaptive;
pub mod cleaner;
pub mod lru;
pub mod points;

/// The server whose formulas are used, where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// MariaDB 10.11.
    MariaDb1011,
    /// MySQL 8.
    MySql8,
}

/// Which dirty pages are written with a page that is written (`innodb_flush_neighbors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// None (0).
    Off,
    /// Those that follow each other around it in its MiB of the file (1).
    Contiguous,
    /// All in its MiB of the file (2).
    All,
}

/// InnoDB's settings, by the names of its variables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Whose formulas.
    pub server: Server,
    /// Pages a second that may be written in the background.
    pub io_capacity: u64,
    /// Pages a second if writing has fallen behind.
    pub io_capacity_max: u64,
    /// The percentage of dirty pages that is never to be exceeded.
    pub max_dirty_pages_pct: f64,
    /// The percentage of dirty pages from which on they are written gradually; 0 is off.
    pub max_dirty_pages_pct_lwm: f64,
    /// Whether the checkpoint age decides how much is written.
    pub adaptive_flushing: bool,
    /// The percentage of the log from which on it does.
    pub adaptive_flushing_lwm: f64,
    /// Averages are renewed after so many seconds.
    pub flushing_avg_loops: u64,
    /// Free frames that are kept ready.
    pub lru_scan_depth: u64,
    /// As in MariaDB 10.5 and 10.6: frames are freed only when a thread finds none, so many in one
    /// batch, whatever `io_capacity` says. `None` is the law of 10.11.
    pub lru_flush_size: Option<u64>,
    /// Neighbours.
    pub flush_neighbors: Neighbours,
}

/// The least `io_capacity`.
pub const IO_CAPACITY_MIN: u64 = 100;
/// The least default of `io_capacity_max`.
const IO_CAPACITY_MAX_MIN: u64 = 2000;
/// The least `lru_scan_depth`.
const LRU_SCAN_DEPTH_MIN: u64 = 100;
/// The greatest `adaptive_flushing_lwm`.
const ADAPTIVE_LWM_MAX: f64 = 70.0;

impl Settings {
    /// The defaults of MariaDB 10.11.
    #[must_use]
    pub fn mariadb() -> Settings {
        Settings {
            server: Server::MariaDb1011,
            io_capacity: 200,
            io_capacity_max: 2000,
            max_dirty_pages_pct: 90.0,
            max_dirty_pages_pct_lwm: 0.0,
            adaptive_flushing: true,
            adaptive_flushing_lwm: 10.0,
            flushing_avg_loops: 30,
            lru_scan_depth: 1536,
            lru_flush_size: None,
            flush_neighbors: Neighbours::Contiguous,
        }
    }

    /// The defaults of MySQL 8.0.
    #[must_use]
    pub fn mysql() -> Settings {
        Settings {
            server: Server::MySql8,
            max_dirty_pages_pct_lwm: 10.0,
            lru_scan_depth: 1024,
            flush_neighbors: Neighbours::Off,
            ..Settings::mariadb()
        }
    }

    /// Sets `io_capacity`, and with it `io_capacity_max`, as a server does that is started with the
    /// one and without the other.
    #[must_use]
    pub fn with_io_capacity(self, io_capacity: u64) -> Settings {
        let io_capacity_max = io_capacity.saturating_mul(2).max(IO_CAPACITY_MAX_MIN);
        Settings { io_capacity, io_capacity_max, ..self }
    }

    /// Returns what is wrong with the settings, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Settings { io_capacity: io, io_capacity_max: max, .. } = *self;
        let (pct, lwm) = (self.max_dirty_pages_pct, self.max_dirty_pages_pct_lwm);
        let depth = self.lru_scan_depth;
        if io < IO_CAPACITY_MIN {
            Some(format!("an io_capacity of {io}: at least {IO_CAPACITY_MIN} is needed"))
        } else if max < io {
            Some(format!("an io_capacity_max of {max}: io_capacity is {io}, and it may not be less"))
        } else if !(0.0..100.0).contains(&pct) {
            Some(format!("a max_dirty_pages_pct of {pct}: it is from 0 to below 100"))
        } else if !(0.0..=pct).contains(&lwm) {
            Some(format!("a max_dirty_pages_pct_lwm of {lwm}: it is from 0 to max_dirty_pages_pct, {pct}"))
        } else if !(0.0..=ADAPTIVE_LWM_MAX).contains(&self.adaptive_flushing_lwm) {
            let lwm = self.adaptive_flushing_lwm;
            Some(format!("an adaptive_flushing_lwm of {lwm}: it is from 0 to {ADAPTIVE_LWM_MAX}"))
        } else if !(1..=1000).contains(&self.flushing_avg_loops) {
            Some(format!("{} flushing_avg_loops: it is from 1 to 1000", self.flushing_avg_loops))
        } else if depth < LRU_SCAN_DEPTH_MIN {
            Some(format!("an lru_scan_depth of {depth}: at least {LRU_SCAN_DEPTH_MIN} is needed"))
        } else {
            let size = self.lru_flush_size.filter(|size| !(1..depth).contains(size))?;
            Some(format!("an lru_flush_size of {size}: it is from 1 to below lru_scan_depth, {depth}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_default_of_io_capacity_max_is_twice_io_capacity_and_at_least_2000() {
        let max = |io| Settings::mariadb().with_io_capacity(io).io_capacity_max;
        assert_eq!([200, 1000, 5000, 20_000].map(max), [2000, 2000, 10_000, 40_000]);
        assert_eq!(max(u64::MAX), u64::MAX);
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let good = Settings::mariadb();
        assert_eq!((good.problem(), Settings::mysql().problem()), (None, None));
        let bad = [
            Settings { io_capacity: 99, ..good },
            Settings { io_capacity: 3000, ..good },
            Settings { max_dirty_pages_pct: 100.0, ..good },
            Settings { max_dirty_pages_pct: f64::NAN, ..good },
            Settings { max_dirty_pages_pct: 50.0, max_dirty_pages_pct_lwm: 51.0, ..good },
            Settings { adaptive_flushing_lwm: 71.0, ..good },
            Settings { flushing_avg_loops: 0, ..good },
            Settings { lru_scan_depth: 10, ..good },
            Settings { lru_scan_depth: 1024, lru_flush_size: Some(1024), ..good },
            Settings { lru_flush_size: Some(0), ..good },
        ];
        let said: Vec<String> = bad.iter().map(|s| s.problem().unwrap()).collect();
        expect![[r#"
            an io_capacity of 99: at least 100 is needed
            an io_capacity_max of 2000: io_capacity is 3000, and it may not be less
            a max_dirty_pages_pct of 100: it is from 0 to below 100
            a max_dirty_pages_pct of NaN: it is from 0 to below 100
            a max_dirty_pages_pct_lwm of 51: it is from 0 to max_dirty_pages_pct, 50
            an adaptive_flushing_lwm of 71: it is from 0 to 70
            0 flushing_avg_loops: it is from 1 to 1000
            an lru_scan_depth of 10: at least 100 is needed
            an lru_flush_size of 1024: it is from 1 to below lru_scan_depth, 1024
            an lru_flush_size of 0: it is from 1 to below lru_scan_depth, 1536
        "#]]
        .assert_eq(&(said.join("\n") + "\n"));
    }
}
