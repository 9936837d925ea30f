//! A model of the device: what a write, a sync and a read cost, learnt from what they took.
//!
//! The cost of a request is the time of the device that it takes: of a batch of `n` writes that
//! took `t`, each costs `t / n`. So a cost falls as more requests are in flight, and each
//! [class of parallelism](Parallelism) has its own estimate. The cost of a write is a line: a fixed
//! part and a part for its bytes. The line is a least-squares fit in which old observations count
//! less and less.
//!
//! A single observation cannot move an estimate far, because a request may be slow for a reason
//! that has nothing to do with it. A device that stays slow is followed within a hundred or so.

/// How many requests are in flight at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// One.
    One,
    /// 2 to 4.
    Few,
    /// 5 to 16.
    Some,
    /// 17 and more.
    Many,
}

impl Parallelism {
    /// All classes, in order.
    pub const ALL: [Parallelism; 4] =
        [Parallelism::One, Parallelism::Few, Parallelism::Some, Parallelism::Many];

    /// Returns the class of so many requests in flight.
    #[must_use]
    pub fn of(in_flight: u64) -> Parallelism {
        match in_flight {
            0..=1 => Parallelism::One,
            2..=4 => Parallelism::Few,
            5..=16 => Parallelism::Some,
            _ => Parallelism::Many,
        }
    }
}

/// An observation counts e times less when so many others have followed.
const MEMORY: f64 = 32.0;
/// Until so many observations the estimate may be far off, so they are cut less.
const FIRST: u64 = 8;
/// What is this many times dearer or cheaper than expected counts as this many times only.
const CUT: f64 = 4.0;
/// The same for the first observations.
const CUT_FIRST: f64 = 64.0;
/// From this size on, errors count in relation to the size; a long write would else hide what a
/// short one costs.
const EVEN_BYTES: f64 = 65_536.0;
/// Sizes tell the fixed part from the part for bytes if their standard deviation is this part of
/// their mean.
const SPREAD: f64 = 0.1;
/// No request takes less, microseconds. So no estimate becomes 0 and stays there.
const LEAST_US: f64 = 0.1;
/// One MiB.
const MIB: f64 = 1_048_576.0;

/// The cost of a write: `fixed_us`, and `us_per_mib` for its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteLine {
    /// What a write costs whatever its length, microseconds.
    pub fixed_us: f64,
    /// What each MiB of it costs, microseconds.
    pub us_per_mib: f64,
}

impl WriteLine {
    /// A middling solid-state disk: assumed before the first observation.
    const GUESS: WriteLine = WriteLine { fixed_us: 100.0, us_per_mib: 1_000.0 };

    /// Returns the cost of a write of so many bytes, microseconds.
    #[must_use]
    pub fn us(self, bytes: u64) -> f64 {
        self.fixed_us + self.us_per_mib * bytes as f64 / MIB
    }
}

/// The sync's and the read's cost that is assumed before the first observation, microseconds.
const SYNC_GUESS_US: f64 = 1_000.0;
const READ_GUESS_US: f64 = 100.0;

/// Returns `us`, or the nearest value that one observation may have if `expected` was expected.
fn cut(us: f64, expected: f64, seen: u64) -> f64 {
    let most = if seen < FIRST { CUT_FIRST } else { CUT };
    us.max(LEAST_US).clamp(expected / most, expected * most)
}

/// The line of one class: sums over the observations, `x` in bytes and `y` in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    seen: u64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, x: f64, y: f64) {
        let keep = 1.0 - 1.0 / MEMORY;
        let root = 1.0 + x / EVEN_BYTES;
        let weight = 1.0 / (root * root);
        let step = |sum: &mut f64, term: f64| *sum = *sum * keep + term * weight;
        step(&mut self.weight, 1.0);
        step(&mut self.x, x);
        step(&mut self.y, y);
        step(&mut self.xx, x * x);
        step(&mut self.xy, x * y);
        self.seen += 1;
    }

    /// Returns the line that fits best. Sizes that hardly differ cannot tell its two parts apart:
    /// then it is `before`, made dearer or cheaper as a whole.
    fn fit(&self, before: WriteLine) -> WriteLine {
        let (x, y) = (self.x / self.weight, self.y / self.weight);
        let spread = self.xx / self.weight - x * x;
        if spread < SPREAD * SPREAD * x * x {
            let factor = y / before.us(x as u64).max(LEAST_US);
            return WriteLine { fixed_us: before.fixed_us * factor, us_per_mib: before.us_per_mib * factor };
        }
        let slope = (self.xy / self.weight - x * y) / spread;
        let (fixed_us, slope) = match y - slope * x {
            // Neither part is below 0. If one would be, it is 0 and the other one fits alone.
            _ if slope < 0.0 => (y, 0.0),
            fixed if fixed < 0.0 => (0.0, self.xy / self.xx),
            fixed => (fixed, slope),
        };
        WriteLine { fixed_us, us_per_mib: slope * MIB }
    }
}

/// A cost without a length.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    seen: u64,
    us: f64,
}

impl Mean {
    /// Takes an observation. `expected` is the estimate so far, or the guess.
    fn add(&mut self, us: f64, expected: f64) {
        let us = cut(us, expected, self.seen);
        self.seen += 1;
        // The first observations replace the guess.
        let part = (1.0 / self.seen as f64).max(1.0 / MEMORY);
        self.us += (us - self.us) * part;
    }
}

/// The model. It knows nothing of the device at first and has the guesses.
#[derive(Clone, Debug, Default)]
pub struct DeviceModel {
    writes: [(Sums, Option<WriteLine>); 4],
    syncs: [Mean; 4],
    reads: [Mean; 4],
    /// The classes of the newest observations.
    last_sync: Option<Parallelism>,
    last_read: Option<Parallelism>,
}

/// Returns the estimate of class `wanted`, or of the nearest class that has one, the one with
/// fewer requests in flight first.
fn nearest<T>(wanted: Parallelism, of: impl Fn(usize) -> Option<T>) -> Option<T> {
    let at = wanted as usize;
    (0..4).find_map(|far| {
        let below = at.checked_sub(far).and_then(&of);
        below.or_else(|| Some(at + far).filter(|at| *at < 4).and_then(&of))
    })
}

/// Returns the mean of a class, or of the nearest one.
fn nearest_mean(means: &[Mean; 4], wanted: Parallelism) -> Option<f64> {
    nearest(wanted, |at| Some(means[at]).filter(|mean| mean.seen > 0).map(|mean| mean.us))
}

impl DeviceModel {
    /// Makes the model of an unknown device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a measurement: `writes` writes of `bytes` together took `took_us`, up to `in_flight`
    /// at the same time.
    pub fn wrote(&mut self, writes: u64, bytes: u64, in_flight: u64, took_us: u64) {
        if writes == 0 {
            return;
        }
        let class = Parallelism::of(in_flight.min(writes));
        let before = self.write(class);
        let (sums, line) = &mut self.writes[class as usize];
        let mean_bytes = bytes as f64 / writes as f64;
        let us = cut(took_us as f64 / writes as f64, before.us(mean_bytes as u64), sums.seen);
        sums.add(mean_bytes, us);
        *line = Some(sums.fit(before));
    }

    /// Takes a measurement: syncs took `took_us` on average, `at_once` at the same time.
    pub fn synced(&mut self, at_once: u64, took_us: f64) {
        let class = Parallelism::of(at_once);
        let expected = self.sync_us(class);
        self.syncs[class as usize].add(took_us, expected);
        self.last_sync = Some(class);
    }

    /// Takes a measurement: `reads` reads took `took_us` of the clock together, `in_flight` at the
    /// same time.
    pub fn read(&mut self, reads: u64, in_flight: u64, took_us: u64) {
        if reads == 0 {
            return;
        }
        let class = Parallelism::of(in_flight);
        let expected = self.read_us(class);
        self.reads[class as usize].add(took_us as f64 / reads as f64, expected);
        self.last_read = Some(class);
    }

    /// Returns the cost of a write in this class.
    #[must_use]
    pub fn write(&self, class: Parallelism) -> WriteLine {
        nearest(class, |at| self.writes[at].1).unwrap_or(WriteLine::GUESS)
    }

    /// Returns what was learnt of writes in this class; `None` if nothing was.
    #[must_use]
    pub fn known_write(&self, class: Parallelism) -> Option<WriteLine> {
        self.writes[class as usize].1
    }

    /// Returns how long a sync takes in the class that was observed last; `None` if none was.
    #[must_use]
    pub fn known_sync_us(&self) -> Option<f64> {
        self.last_sync.map(|class| self.sync_us(class))
    }

    /// Returns the reads a second in the class that was observed last; `None` if none was.
    #[must_use]
    pub fn known_reads_per_s(&self) -> Option<f64> {
        self.last_read.map(|class| self.reads_per_s(class))
    }

    /// Returns how long a sync takes in this class, microseconds.
    #[must_use]
    pub fn sync_us(&self, class: Parallelism) -> f64 {
        nearest_mean(&self.syncs, class).unwrap_or(SYNC_GUESS_US)
    }

    /// Returns the device's time for a read in this class, microseconds.
    fn read_us(&self, class: Parallelism) -> f64 {
        nearest_mean(&self.reads, class).unwrap_or(READ_GUESS_US)
    }

    /// Returns how many reads a second the device makes in this class.
    #[must_use]
    pub fn reads_per_s(&self, class: Parallelism) -> f64 {
        1e6 / self.read_us(class).max(LEAST_US)
    }
}

/// Growing totals of requests and of the time that callers spent in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Requests given to the device.
    pub requests: u64,
    /// Calls that gave them; a call may give many at once.
    pub calls: u64,
    /// Microseconds that the calls took together.
    pub us: u64,
}

/// What happened to totals in a span of time, as the model takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Requests.
    pub requests: u64,
    /// How many were in flight at the same time, at least 1.
    pub in_flight: u64,
    /// The clock's time in which they were made, microseconds.
    pub took_us: u64,
    /// The mean time of a call, microseconds.
    pub us_per_call: f64,
}

impl Totals {
    /// Returns what happened since `earlier`, `elapsed_us` ago; `None` if nothing did. The mean
    /// number of calls at the same time is their time in the time that has passed (Little's law).
    /// If that is below one, the rest of the time nobody called.
    #[must_use]
    pub fn since(self, earlier: Totals, elapsed_us: u64) -> Option<Span> {
        let requests = self.requests.checked_sub(earlier.requests).filter(|n| *n > 0)?;
        let calls = self.calls.checked_sub(earlier.calls).filter(|n| *n > 0)?;
        let us = self.us.checked_sub(earlier.us)?;
        let at_once = (us as f64 / elapsed_us.max(1) as f64).max(1.0);
        let each = requests as f64 / calls as f64;
        Some(Span {
            requests,
            in_flight: (at_once * each + 0.5) as u64,
            took_us: us.min(elapsed_us),
            us_per_call: us as f64 / calls as f64,
        })
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
