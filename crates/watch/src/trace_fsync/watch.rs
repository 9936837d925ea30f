//! Traces a process by the kernel's tracepoints of system calls.

use super::line::{CALLS, Call, parse};
use super::pairing::Pairing;
use super::process::{Names, Process};
use super::result::{Tally, Trace};
use super::tracefs::Instance;
use output::failure::{Failure, Outcome};
use output::stop;
use std::time::{Duration, Instant};

/// How long the trace rests between two looks at the events.
const REST: Duration = Duration::from_millis(10);
/// How often the descriptors are looked through for new ones whose writes are durable.
const LOOK_THROUGH: Duration = Duration::from_secs(2);

/// Traces `process` for `length`, or until it ends or the user stops it.
pub(crate) fn trace(process: Process, length: Duration, step_us: Option<u64>) -> Outcome<Trace> {
    let ponds = process.ponds();
    let instance = Instance::new()?;
    instance.follow(&process.threads())?;
    let mut seen = 0;
    for (name, call) in CALLS {
        if call != Call::Write && instance.enable(name, None)? {
            seen += 1;
        }
    }
    if seen == 0 {
        return Err(Failure::failed(
            "this kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS); --strace needs none",
        ));
    }
    let mut watch = Watch {
        process,
        instance,
        names: Names::default(),
        pairing: Pairing::default(),
        durable: Vec::new(),
    };
    let (tally, seconds) = watch.run(length)?;
    let mut trace = tally.result(seconds, &ponds, step_us);
    trace.way = "tracepoints";
    trace.how = "by the kernel's tracepoints of system calls".to_owned();
    trace.notes = watch.notes(seconds, length);
    Ok(trace)
}

struct Watch {
    process: Process,
    instance: Instance,
    names: Names,
    pairing: Pairing,
    /// Descriptors whose writes are durable, as the filter has them.
    durable: Vec<u32>,
}

impl Watch {
    /// Counts until the end. Returns the counts and the seconds.
    fn run(&mut self, length: Duration) -> Outcome<(Tally, f64)> {
        let mut pipe = self.instance.pipe()?;
        let begin = Instant::now();
        let mut tally = Tally::new(now_us(), length.as_micros() as u64);
        let mut looked_through: Option<Instant> = None;
        let seconds = loop {
            let past = begin.elapsed();
            let ended = past >= length || stop::asked() || !self.process.runs();
            if looked_through.is_none_or(|then| then.elapsed() >= LOOK_THROUGH) {
                self.follow_durable_writes()?;
                looked_through = Some(Instant::now());
            }
            for line in pipe.lines()?.iter().filter_map(|line| parse(line)) {
                if let Some(sync) = self.pairing.take(line, &mut |tid, fd| self.names.name(tid, fd)) {
                    tally.add(sync);
                }
            }
            if ended {
                break past.min(length).as_secs_f64();
            }
            std::thread::sleep(REST.min(length.saturating_sub(past)));
        };
        Ok((tally, seconds))
    }

    /// Traces writes to files that were opened with `O_DSYNC` or `O_SYNC`, if there are such files.
    fn follow_durable_writes(&mut self) -> Outcome {
        let durable = self.process.synchronous();
        if durable.is_empty() || durable == self.durable {
            return Ok(());
        }
        let filter = durable.iter().map(|fd| format!("fd == {fd}")).collect::<Vec<_>>().join(" || ");
        for (name, _) in CALLS.iter().filter(|(_, call)| *call == Call::Write) {
            self.instance.enable(name, Some(&filter))?;
        }
        self.durable = durable;
        Ok(())
    }

    /// Returns what a reader has to know about the trace.
    fn notes(&self, seconds: f64, length: Duration) -> Vec<String> {
        let mut notes = Vec::new();
        if seconds + 0.001 < length.as_secs_f64() {
            let why = if stop::asked() { "it was stopped" } else { "the process ended" };
            notes.push(format!("the trace ended early: {why}"));
        }
        if self.pairing.lost > 0 {
            let lost = self.pairing.lost;
            notes.push(format!("the kernel had no room for {lost} events, so some syncs are missing"));
        }
        if self.pairing.under_way() > 0 {
            let count = self.pairing.under_way();
            notes.push(format!(
                "{count} calls had begun and not ended when the trace ended; they are not counted"
            ));
        }
        notes.push(
            "writes and syncs through io_uring and libaio are no system calls of their own and not seen"
                .to_owned(),
        );
        notes
    }
}

/// Returns the time on the clock of the trace.
fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}
