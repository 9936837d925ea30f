//! One load on each side, and what was measured.

use super::private_server::Options;
use super::room::Room;
use super::sides::Sides;
use crate::own_command::{number, per_second};
use crate::steadiness::Steadiness;
use output::failure::Outcome;
use serde_json::Value;

pub(super) const MIB: u64 = 1 << 20;

/// What Millpond is opened with, in the process and in a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pond {
    /// Bytes of its pool.
    pub(super) pool: u64,
    /// Bytes of its redo log; `None` leaves that to the recovery target.
    pub(super) redo: Option<u64>,
    pub(super) doublewrite: bool,
}

impl Pond {
    /// Returns flags of `millpond run`.
    pub(super) fn flags(self) -> Vec<String> {
        let mut flags = vec!["--pool".to_owned(), self.pool.to_string()];
        if let Some(redo) = self.redo {
            flags.extend(["--redo-capacity".to_owned(), redo.to_string()]);
        }
        if !self.doublewrite {
            flags.push("--unsafe-no-doublewrite".to_owned());
        }
        flags
    }

    /// Returns options of the plugin.
    pub(super) fn options(self) -> Vec<String> {
        let mut options = vec![format!("--millpond-buffer-pool-size={}", self.pool)];
        options.extend(self.redo.map(|redo| format!("--millpond-redo-capacity={redo}")));
        options.extend((!self.doublewrite).then(|| "--millpond-doublewrite=OFF".to_owned()));
        options
    }
}

/// What each side is started with.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Options of InnoDB.
    pub(super) innodb: Vec<String>,
    /// Options of both servers.
    pub(super) server: Vec<String>,
    pub(super) pond: Pond,
}

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

    /// Returns the flags of `millpond run`, and some more.
    pub(super) fn flags_and(&self, more: &[&str]) -> Vec<String> {
        let (warmup, seconds) = (self.warmup.to_string(), self.seconds.to_string());
        let length = ["--warmup", &warmup, "--seconds", &seconds];
        let more = length.into_iter().chain(more.iter().copied()).map(str::to_owned);
        self.flags.iter().cloned().chain(more).collect()
    }

    /// Returns the command, with a directory for its report.
    fn args(&self, report: &str) -> Vec<String> {
        let flags = self.flags_and(&["--report", report]);
        std::iter::once("run".to_owned()).chain(flags).collect()
    }

    /// Runs it on each side. The files of the results are named by `id`, the side, and `name`.
    pub(super) fn on_each(
        &self,
        room: &Room<'_>,
        (id, name): (&str, &str),
        setting: &Setting,
    ) -> Outcome<Sides<Measured>> {
        Ok(Sides {
            innodb: self.on_innodb(room, (id, name), setting)?,
            millpond: self.on_millpond(room, &format!("{id}-millpond-{name}"), &setting.pond.flags())?,
            in_server: self.in_server(room, (id, name), setting)?,
        })
    }

    /// Runs it on InnoDB in a new server.
    pub(super) fn on_innodb(
        &self,
        room: &Room<'_>,
        (id, name): (&str, &str),
        setting: &Setting,
    ) -> Outcome<Measured> {
        let settings = [&setting.server[..], &setting.innodb].concat();
        let options = Options { settings, ..Options::default() };
        self.on_server(room, &format!("{id}-innodb-{name}"), &options, "InnoDB")
    }

    /// Runs it on Millpond in a new server, if there is a plugin.
    pub(super) fn in_server(
        &self,
        room: &Room<'_>,
        (id, name): (&str, &str),
        setting: &Setting,
    ) -> Outcome<Option<Measured>> {
        let options = Options {
            settings: setting.server.clone(),
            plugin: Some(setting.pond.options()),
            ..Options::default()
        };
        let name = format!("{id}-server-{name}");
        room.has_plugin().then(|| self.on_server(room, &name, &options, "Millpond")).transpose()
    }

    fn on_server(&self, room: &Room<'_>, name: &str, options: &Options, engine: &str) -> Outcome<Measured> {
        let server = room.server(name, options)?;
        let mut args = self.args(&room.report(name).display().to_string());
        args.extend(["--target".to_owned(), server.url(), "--engine".to_owned(), engine.to_owned()]);
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
#[derive(Debug)]
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

/// Returns the rates of the steps of a ramp.
pub(super) fn steps(result: &Value) -> Vec<f64> {
    let steps = result.get("ramp").and_then(Value::as_array);
    steps.into_iter().flatten().filter_map(|step| number(step, "/tps")).collect()
}

/// Returns the best rate of a ramp.
pub(super) fn best(result: &Value) -> Option<f64> {
    steps(result).into_iter().max_by(f64::total_cmp)
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
