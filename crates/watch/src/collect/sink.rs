//! Where samples and events go.

use output::failure::Outcome;
use output::samples::Values;

/// Takes samples and events in the order of time.
pub(crate) trait Sink {
    /// Takes a sample; `late_ms` if it was complete later than it should be. Of values with the
    /// same name the first counts.
    fn sample(&mut self, unix_us: u64, late_ms: Option<u64>, values: Values) -> Outcome;
    /// Takes what happened to the target, and why.
    fn event(&mut self, unix_us: u64, event: &str, why: &str) -> Outcome;
}
