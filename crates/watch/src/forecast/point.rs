//! What a forecast is made from: a few figures of one second.

use crate::sources::Sample;

/// The figures of one second. Positions are in bytes of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// The time, seconds.
    pub(crate) seconds: f64,
    /// The checkpoint age, bytes.
    pub(crate) age: f64,
    /// Its soft limit, bytes.
    pub(crate) soft: f64,
    /// Its limit, bytes.
    pub(crate) limit: f64,
    /// What tells how fast InnoDB can flush; `None` of Millpond, whose writers are delayed from the
    /// soft limit on, so that they do not come to the limit, and of servers that do not tell it.
    pub(crate) flushing: Option<Flushing>,
}

/// What tells how fast the flushing can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flushing {
    /// The end of the log.
    pub(crate) end: f64,
    /// Dirty pages.
    pub(crate) dirty: f64,
    /// Pages that were written, from some beginning on.
    pub(crate) written: f64,
    /// Pages a second that are written with full force: `innodb_io_capacity_max`.
    pub(crate) force: f64,
}

impl Point {
    /// Takes them from a sample; `None` if the target does not tell its age or its limits.
    pub(crate) fn of(sample: &Sample) -> Option<Point> {
        Point::from(sample.unix_us as f64 / 1e6, |name| sample.get(name))
    }

    /// Takes them from what gives the value of a figure.
    pub(super) fn from(seconds: f64, get: impl Fn(&str) -> Option<f64>) -> Option<Point> {
        let age = get("checkpoint_age_bytes")?;
        let limit = get("checkpoint_age_limit").filter(|limit| *limit > 0.0)?;
        let soft = get("checkpoint_age_soft").filter(|soft| *soft > 0.0 && *soft <= limit)?;
        let delays = get("throttled_us_total").is_some();
        let flushing = || {
            let (dirty, written) = (get("dirty_pages")?, get("pages_written")?);
            let force = get("io_capacity_max").filter(|force| *force > 0.0)?;
            Some(Flushing { end: get("current_lsn")?, dirty, written, force })
        };
        let flushing = if delays { None } else { flushing() };
        Some(Point { seconds, age, soft, limit, flushing })
    }
}
