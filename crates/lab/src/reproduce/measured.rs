//! One load on one engine, and what was measured.

use super::room::Room;
use crate::own_command::{number, per_second};
use crate::steadiness::Steadiness;
use output::failure::Outcome;
use serde_json::Value;

pub(super) const MIB: u64 = 1 << 20;

/// A load that lasts so long.
pub(super) struct Load {
    /// The workload and its size, as flags of `millpond run`.
    pub(super) flags: Vec<String>,
    pub(super) warmup: u64,
    pub(super) seconds: u64,
}

impl Load {
    /// Makes a load of flags that are separated by blanks.
    pub(super) fn new(flags: &str, (warmup, seconds): (u64, u64)) -> Load {
        Load { flags: flags.split_whitespace().map(str::to_owned).collect(), warmup, seconds }
    }

    /// Returns the command, with a directory for its report.
    fn args(&self, report: &str) -> Vec<String> {
        let mut args = vec!["run".to_owned()];
        args.extend(self.flags.iter().cloned());
        let (warmup, seconds) = (self.warmup.to_string(), self.seconds.to_string());
        let more = ["--warmup", &warmup, "--seconds", &seconds, "--report", report];
        args.extend(more.map(str::to_owned));
        args
    }

    /// Runs it on a new server with these settings.
    pub(super) fn on_innodb(&self, room: &Room<'_>, name: &str, settings: &[String]) -> Outcome<Measured> {
        let server = room.server(name, settings)?;
        let mut args = self.args(&room.report(name).display().to_string());
        args.extend(["--target".to_owned(), server.url(), "--engine".to_owned(), "InnoDB".to_owned()]);
        let result = room.millpond(name, &args)?;
        server.end()?;
        Ok(Measured { result })
    }

    /// Runs it on a new database in the process, with these flags.
    pub(super) fn on_millpond(&self, room: &Room<'_>, name: &str, flags: &[String]) -> Outcome<Measured> {
        let db = room.scratch.join(name);
        let mut args = self.args(&room.report(name).display().to_string());
        args.extend(["--db".to_owned(), db.display().to_string()]);
        args.extend(flags.iter().cloned());
        let result = room.millpond(name, &args)?;
        room.remove(&db)?;
        Ok(Measured { result })
    }
}

/// What was measured.
pub(super) struct Measured {
    pub(super) result: Value,
}

impl Measured {
    pub(super) fn tps(&self) -> Option<f64> {
        number(&self.result, "/tps")
    }

    /// Returns how many seconds had no commit.
    pub(super) fn zero_seconds(&self) -> Option<f64> {
        Some(Steadiness::of(&per_second(&self.result))?.zero as f64)
    }

    /// Returns the worst second in percent of the median one.
    pub(super) fn worst(&self) -> Option<f64> {
        Steadiness::of(&per_second(&self.result))?.percent()
    }

    pub(super) fn p99_ms(&self) -> Option<f64> {
        number(&self.result, "/latency_us/p99").map(|us| us / 1000.0)
    }

    /// Returns the most redo that waited for the checkpoint.
    pub(super) fn most_redo_mib(&self) -> Option<f64> {
        number(&self.result, "/checkpoint_age_bytes/max").map(|bytes| bytes / MIB as f64)
    }

    /// Returns the bytes a second that went to the device.
    pub(super) fn device_mib_a_second(&self) -> Option<f64> {
        let bytes = number(&self.result, "/device_write_bytes")?;
        let seconds = number(&self.result, "/seconds").filter(|seconds| *seconds > 0.0)?;
        Some(bytes / seconds / MIB as f64)
    }
}

/// Divides what one run has by what another has.
pub(super) fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|whole| *whole > 0.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn seconds_are_counted() {
        let result = json!({"tps_per_second": [100, 0, 80, 100], "tps": 70.0});
        let measured = Measured { result };
        assert_eq!((measured.zero_seconds(), measured.worst()), (Some(1.0), Some(0.0)));
        assert_eq!(Measured { result: json!({}) }.zero_seconds(), None);
    }

    #[test]
    fn a_ratio_needs_both() {
        assert_eq!(ratio(Some(1.0), Some(2.0)), Some(0.5));
        assert_eq!((ratio(None, Some(2.0)), ratio(Some(1.0), Some(0.0))), (None, None));
    }
}
