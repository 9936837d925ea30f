//! The result of the crash experiment: of each kill, and of all together.

use super::verify::Verdict;
use crate::result::TableLines;
use output::failure::{Failure, Outcome};
use output::units::{show_count, show_size};
use serde::Serialize;
use std::time::Duration;

/// One kill and the recovery after it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Kill {
    /// How long the victim ran.
    pub(super) seconds: f64,
    pub(super) redo_bytes: u64,
    pub(super) first_transaction_ms: f64,
    pub(super) full_recovery_ms: f64,
    pub(super) acknowledged: u64,
}

/// The result in the format of `--json`. After several kills the redo and the times are the
/// greatest.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CrashResult {
    pub(super) redo_bytes: u64,
    pub(super) first_transaction_ms: f64,
    pub(super) full_recovery_ms: f64,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    pub(super) extra: u64,
    pub(super) in_flight_committed: u64,
    pub(super) threads: u32,
    pub(super) tables: u32,
    pub(super) rows: u32,
    pub(super) seconds: f64,
    pub(super) durable_device: bool,
    pub(super) check: String,
    /// Kills whose whole recovery took longer than the recovery target, if there is one.
    pub(super) beyond_target: Option<u64>,
    pub(super) kills: Vec<Kill>,
}

impl CrashResult {
    /// Adds a kill, what was found after it, and the report of the check.
    pub(super) fn add(&mut self, kill: Kill, found: &Verdict, check: String, target: Option<Duration>) {
        self.redo_bytes = self.redo_bytes.max(kill.redo_bytes);
        self.first_transaction_ms = self.first_transaction_ms.max(kill.first_transaction_ms);
        self.full_recovery_ms = self.full_recovery_ms.max(kill.full_recovery_ms);
        self.acknowledged += kill.acknowledged;
        self.lost += found.lost;
        self.extra += found.extra;
        self.in_flight_committed += found.in_flight_committed.len() as u64;
        self.seconds += kill.seconds;
        self.check = check;
        if let Some(target) = target {
            let late = kill.full_recovery_ms > target.as_secs_f64() * 1000.0;
            *self.beyond_target.get_or_insert(0) += u64::from(late);
        }
        self.kills.push(kill);
    }

    /// Whether nothing was lost, nothing is extra, and the check found no damage.
    pub(super) fn is_right(&self) -> bool {
        self.lost == 0 && self.extra == 0 && self.check == "ok"
    }

    /// Returns the lines of the final table. `examples` describe what is wrong.
    pub(super) fn lines(&self, examples: &[String]) -> TableLines {
        let mut out = TableLines::default();
        for kill in &self.kills {
            let redo = show_size(kill.redo_bytes as f64);
            out.line("killed", format!("after {:.1} s with {redo} of redo", kill.seconds));
            if self.kills.len() > 1 {
                let (first, full) = (kill.first_transaction_ms, kill.full_recovery_ms);
                out.line("", format!("first commit after {first:.0} ms, recovered after {full:.0} ms"));
            }
        }
        if !self.durable_device {
            out.line("device", "a memory file system: nothing here survives a power cut".into());
        }
        let (first, full) = (self.first_transaction_ms, self.full_recovery_ms);
        let most = if self.kills.len() > 1 { "at most " } else { "" };
        out.line("first commit", format!("{most}{first:.0} ms after the new process started"));
        out.line("recovered", format!("{most}{full:.0} ms after the new process started"));
        if let Some(late) = self.beyond_target {
            out.line("beyond target", format!("{late} of {} recoveries", self.kills.len()));
        }
        out.line("acknowledged", format!("{} transactions", show_count(self.acknowledged as f64)));
        out.line("lost", format!("{}", self.lost));
        out.line("extra", format!("{}", self.extra));
        out.line("check", self.check.clone());
        for example in examples {
            out.line("", example.clone());
        }
        out
    }

    /// Fails if a transaction was lost, a value is extra, or the check found damage.
    pub(super) fn judge(&self) -> Outcome {
        if self.lost > 0 || self.extra > 0 {
            return Err(Failure::failed(format!(
                "after the kill {} acknowledged transactions were lost and {} values were extra",
                self.lost, self.extra
            )));
        }
        if self.check != "ok" {
            return Err(Failure::failed(format!("the check after the kill found damage: {}", self.check)));
        }
        Ok(())
    }
}
