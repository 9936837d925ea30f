//! When a committer starts another flush of the log (Co2, Co6).
//!
//! Several flushes in flight multiply what the device syncs a second, but each costs 15 to 19 µs of processor time.
//! So a second flush starts while a core would idle anyway; with all cores busy the waiters are better served
//! by the next flush, which takes them all together. A flush that takes unusually long is not waited for.

/// What the decision looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushView {
    /// Flushes under way.
    pub in_flight: u32,
    /// Most flushes that may be under way.
    pub depth_max: u32,
    /// Committers whose redo is published and covered by no flush under way.
    pub waiting: u32,
    /// Processor cores.
    pub cores: u32,
    /// Threads inside a transaction that wait for nothing: they want a core.
    pub busy_committers: u32,
    /// How long the oldest flush under way has taken so far.
    pub elapsed_of_running_us: u64,
    /// How long a flush usually takes.
    pub usual_us: u64,
}

/// A flush is slow when it takes this many times the usual.
const SLOW_FACTOR: u64 = 3;

/// Whether a flush may start now.
#[must_use]
pub fn may_start(v: &FlushView) -> bool {
    if v.waiting == 0 || v.in_flight >= v.depth_max {
        return false;
    }
    if v.in_flight == 0 {
        return true;
    }
    let core_idle = v.busy_committers < v.cores;
    let slow = v.usual_us > 0 && v.elapsed_of_running_us > v.usual_us.saturating_mul(SLOW_FACTOR);
    core_idle || slow
}

/// Whether a flush that starts now has to move the reservation point to the next block first: a flush under way may
/// still write the tail block, and no two flushes write one block (Co3, Co4). With none under way the partial
/// block is rewritten later with a superset of its bytes, and nothing is padded.
#[must_use]
pub fn should_seal(in_flight: u32) -> bool {
    in_flight > 0
}

/// How long a flush usually takes: an average that follows within some dozens of flushes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usual {
    us: f64,
}

impl Usual {
    /// A flush took so long. One slow flush counts at most as four usual ones, so that a hiccup does not
    /// become the usual.
    pub fn observe(&mut self, took_us: u64) {
        let took = took_us as f64;
        self.us =
            if self.us == 0.0 { took } else { self.us + (took.min(self.us * 4.0 + 1.0) - self.us) / 32.0 };
    }

    /// The usual duration in microseconds; 0 before the first flush.
    #[must_use]
    pub fn us(&self) -> u64 {
        self.us as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn table() {
        let mut out = String::new();
        let mut row = |note: &str, in_flight, waiting, busy_committers, elapsed_of_running_us| {
            let v = FlushView {
                in_flight,
                depth_max: 4,
                waiting,
                cores: 2,
                busy_committers,
                elapsed_of_running_us,
                usual_us: 90,
            };
            let verdict = match (may_start(&v), should_seal(in_flight)) {
                (false, _) => "wait",
                (true, false) => "start",
                (true, true) => "seal and start",
            };
            out += &format!("{note}: {verdict}\n");
        };
        row("nobody waits", 0, 0, 0, 0);
        row("first committer", 0, 1, 2, 0);
        row("second committer, a core idle", 1, 1, 1, 30);
        row("second committer, cores busy", 1, 1, 2, 30);
        row("64 committers, cores busy", 1, 40, 20, 80);
        row("64 committers, all wait", 1, 63, 0, 80);
        row("cores busy, the running one is slow", 1, 10, 5, 271);
        row("at full depth", 4, 30, 0, 900);
        expect![[r#"
            nobody waits: wait
            first committer: start
            second committer, a core idle: seal and start
            second committer, cores busy: wait
            64 committers, cores busy: wait
            64 committers, all wait: seal and start
            cores busy, the running one is slow: seal and start
            at full depth: wait
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_hiccup_does_not_become_the_usual() {
        let mut usual = Usual::default();
        (0..100).for_each(|_| usual.observe(90));
        usual.observe(1_000_000);
        assert!(usual.us() < 100, "{}", usual.us());
        (0..200).for_each(|_| usual.observe(400));
        assert!((390..=400).contains(&usual.us()), "{}", usual.us());
    }
}
