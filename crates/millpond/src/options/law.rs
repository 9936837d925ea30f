//! The law of flow control: how many pages are written when, and what happens to writers.

use pace::age_limits::AgeLimits;
use pace::innodb::cleaner::InnodbCleaner;
use pace::innodb::{Neighbours, Settings, lru, points};
use pace::law::{self, FlowLaw, Millpond, Planner};
use std::sync::Arc;

/// The rules by which pages are written and writers are slowed ([`Options::law`]).
///
/// [`Options::law`]: crate::Options::law
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Law {
    /// Millpond's: nothing to set, and writers are slowed smoothly.
    #[default]
    Millpond,
    /// InnoDB's, for comparisons: the user says how fast the device is, and writers stop at a point
    /// of the checkpoint age. What is durable, and when, does not depend on the law.
    Innodb(InnodbLaw),
}

/// InnoDB's settings of flushing, each by the name of its variable. They are checked when the
/// database is opened: what InnoDB would not accept is [`Error::Misuse`](crate::Error::Misuse).
///
/// A page is a page of this database (8 KiB by default; 16 KiB in InnoDB).
///
/// ```
/// use millpond::{InnodbLaw, Law, Options};
///
/// let law = Law::Innodb(InnodbLaw::mysql().io_capacity(5000).io_capacity_max(7500));
/// let db = Options::new().law(law).open_in_memory()?;
/// # db.close()?;
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InnodbLaw {
    settings: Settings,
    /// As it was given.
    flush_neighbors: Option<u8>,
}

impl InnodbLaw {
    fn new(settings: Settings) -> InnodbLaw {
        InnodbLaw { settings, flush_neighbors: None }
    }

    fn with(self, settings: Settings) -> InnodbLaw {
        InnodbLaw { settings, ..self }
    }

    /// The formulas and defaults of MariaDB 10.11.
    #[must_use]
    pub fn mariadb() -> InnodbLaw {
        InnodbLaw::new(Settings::mariadb())
    }

    /// The formulas and defaults of MySQL 8.0.
    #[must_use]
    pub fn mysql() -> InnodbLaw {
        InnodbLaw::new(Settings::mysql())
    }

    /// Pages that may be written in the background, a second. Sets
    /// [`InnodbLaw::io_capacity_max`] too, to twice as much and at least 2,000, as a server does.
    /// Default: 200.
    #[must_use]
    pub fn io_capacity(self, pages_per_s: u64) -> InnodbLaw {
        self.with(self.settings.with_io_capacity(pages_per_s))
    }

    /// Pages that may be written if writing has fallen behind, a second. Default: 2,000.
    #[must_use]
    pub fn io_capacity_max(self, pages_per_s: u64) -> InnodbLaw {
        self.with(Settings { io_capacity_max: pages_per_s, ..self.settings })
    }

    /// The percentage of dirty pages that is not to be exceeded. Default: 90.
    #[must_use]
    pub fn max_dirty_pages_pct(self, percent: f64) -> InnodbLaw {
        self.with(Settings { max_dirty_pages_pct: percent, ..self.settings })
    }

    /// The percentage of dirty pages from which on they are written gradually; 0 is off. Default: 0
    /// in MariaDB, 10 in MySQL.
    #[must_use]
    pub fn max_dirty_pages_pct_lwm(self, percent: f64) -> InnodbLaw {
        self.with(Settings { max_dirty_pages_pct_lwm: percent, ..self.settings })
    }

    /// Whether the checkpoint age decides how much is written. Default: true.
    #[must_use]
    pub fn adaptive_flushing(self, adaptive: bool) -> InnodbLaw {
        self.with(Settings { adaptive_flushing: adaptive, ..self.settings })
    }

    /// The percentage of the log from which on it does. Default: 10.
    #[must_use]
    pub fn adaptive_flushing_lwm(self, percent: f64) -> InnodbLaw {
        self.with(Settings { adaptive_flushing_lwm: percent, ..self.settings })
    }

    /// Free frames that are kept ready, at most a quarter of the pool. Default: 1,536 in MariaDB,
    /// 1,024 in MySQL.
    #[must_use]
    pub fn lru_scan_depth(self, frames: u64) -> InnodbLaw {
        self.with(Settings { lru_scan_depth: frames, ..self.settings })
    }

    /// Frees frames as MariaDB 10.5 and 10.6 did: only when there are none, so many at a time (32
    /// there). Default: as later versions.
    #[must_use]
    pub fn lru_flush_size(self, frames: u64) -> InnodbLaw {
        self.with(Settings { lru_flush_size: Some(frames), ..self.settings })
    }

    /// Which dirty pages are written with another: 0 none, 1 those that follow each other around it
    /// in its MiB of the file, 2 all in that MiB. Default: 1 in MariaDB, 0 in MySQL.
    #[must_use]
    pub fn flush_neighbors(self, how: u8) -> InnodbLaw {
        let flush_neighbors = match how {
            0 => Neighbours::Off,
            1 => Neighbours::Contiguous,
            _ => Neighbours::All,
        };
        InnodbLaw { flush_neighbors: Some(how), ..self.with(Settings { flush_neighbors, ..self.settings }) }
    }
}

impl Law {
    /// Returns what the engine asks.
    pub(super) fn flow_law(self) -> Arc<dyn FlowLaw> {
        match self {
            Law::Millpond => Arc::new(Millpond),
            Law::Innodb(law) => Arc::new(law),
        }
    }
}

impl FlowLaw for InnodbLaw {
    fn problem(&self) -> Option<String> {
        let neighbors = self.flush_neighbors.filter(|how| *how > 2);
        let neighbors = neighbors.map(|how| format!("a flush_neighbors of {how}: it is 0, 1 or 2"));
        neighbors.or_else(|| self.settings.problem())
    }

    fn planner(&self) -> Box<dyn Planner> {
        Box::new(InnodbCleaner::new(self.settings))
    }

    fn limits(&self, own: AgeLimits, log_bytes: u64) -> AgeLimits {
        points::limits(self.settings.server, own, log_bytes)
    }

    fn free_frames(&self, _: u64, frames: u64) -> u64 {
        lru::wanted_free(&self.settings, frames)
    }

    fn neighbours(&self) -> law::Neighbours {
        match self.settings.flush_neighbors {
            Neighbours::Off => law::Neighbours::Off,
            Neighbours::Contiguous => law::Neighbours::InArea,
            Neighbours::All => law::Neighbours::WholeArea,
        }
    }

    fn has_rounds(&self) -> bool {
        true
    }
}
