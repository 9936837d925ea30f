//! Metrics: every figure of the catalog, one by one.

use crate::bytes::{Buffer, Bytes, exclusive, shared};
use crate::db::Db;
use crate::guard::guard_ok;
use crate::rc::misuse;
use ::metrics::{FileKind, Force, Latency, M, MetricKind, SyncReason};
use std::ffi::{c_int, c_void};

/// Gets one figure: its name, its value, whether it is a counter (else a level), and its meaning;
/// of a figure of a family, that of its label. A result other than 0 ends the list.
pub type MetricFn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        name: Bytes,
        value: f64,
        is_counter: u32,
        help: Bytes,
    ) -> c_int,
>;

/// The parts of a latency that are levels.
const LEVELS: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];

/// Returns whether a figure that is not in the catalog is a counter, and the meaning of its label.
fn of_family(name: &str) -> (bool, &'static str) {
    let Some((family, label)) = name.split_once('.') else { return (true, "") };
    let help = match family {
        "fsyncs_by_file" => FileKind::ALL.iter().find(|file| file.label() == label).map(|file| file.help()),
        "fsyncs_by_reason" => SyncReason::ALL.iter().find(|why| why.label() == label).map(|why| why.help()),
        "pages_written_by_force" | "page_writes_io_by_force" => {
            Force::ALL.iter().find(|force| force.label() == label).map(|force| force.help())
        }
        _ => Latency::ALL.iter().find(|what| what.label() == family).map(|what| what.help()),
    };
    (!LEVELS.contains(&label), help.unwrap_or_default())
}

/// Shows every figure. Works after closing too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_metrics(db: *const Db, show: MetricFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(|| misuse("no function to show the figures to"))?;
        // SAFETY: the handle is null or valid.
        let snapshot = unsafe { shared(db) }?.db.metrics();
        for (i, (name, value)) in snapshot.figures().into_iter().enumerate() {
            let (counter, help) = match M::ALL.get(i).map(|metric| metric.entry()) {
                Some(entry) => (entry.kind == MetricKind::Counter, entry.help),
                None => of_family(&name),
            };
            let (name, help) = (Bytes::of(name.as_bytes()), Bytes::of(help.as_bytes()));
            // SAFETY: the caller's function takes bytes that live during its call.
            if unsafe { show(context, name, value, counter.into(), help) } != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Puts all figures as JSON into `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_metrics_json(db: *const Db, out: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the buffer are null or valid.
        let (db, out) = unsafe { (shared(db)?, exclusive(out)?) };
        out.set(db.db.metrics().to_json().as_bytes())
    })
}

/// Puts all figures as text for people into `out`, a line each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_metrics_text(db: *const Db, out: *mut Buffer) -> c_int {
    guard_ok(|| {
        // SAFETY: the handle and the buffer are null or valid.
        let (db, out) = unsafe { (shared(db)?, exclusive(out)?) };
        out.set(db.db.metrics().to_text().as_bytes())
    })
}

/// Syncs of one kind of file for one reason.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fsync {
    /// Which kind of file.
    pub file: Bytes,
    /// Why it was synced.
    pub reason: Bytes,
    /// What the reason means, a sentence.
    pub help: Bytes,
    /// How many syncs there were.
    pub count: u64,
    /// Callers that waited, summed over the syncs.
    pub waiters: u64,
    /// The time that they took together, microseconds.
    pub us_total: u64,
    /// Half of them took no longer, microseconds; at most a quarter too high, as the next two.
    pub p50_us: u64,
    /// 95 of 100 took no longer.
    pub p95_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Gets the syncs of one kind of file for one reason. A result other than 0 ends the list.
pub type FsyncFn = Option<unsafe extern "C" fn(context: *mut c_void, fsync: *const Fsync) -> c_int>;

/// Shows the syncs since the database was opened, by file and reason; pairs that never occurred are
/// left out. Works after closing too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_fsyncs(db: *const Db, show: FsyncFn, context: *mut c_void) -> c_int {
    guard_ok(|| {
        let show = show.ok_or_else(|| misuse("no function to show the syncs to"))?;
        // SAFETY: the handle is null or valid.
        for row in unsafe { shared(db) }?.db.metrics().fsyncs() {
            let shown = Fsync {
                file: Bytes::of(row.file.label().as_bytes()),
                reason: Bytes::of(row.reason.label().as_bytes()),
                help: Bytes::of(row.reason.help().as_bytes()),
                count: row.took.count(),
                waiters: row.waiters,
                us_total: row.took.sum_us(),
                p50_us: row.took.quantile(0.50),
                p95_us: row.took.quantile(0.95),
                p99_us: row.took.quantile(0.99),
                max_us: row.took.max_us(),
            };
            // SAFETY: the caller's function takes what lives during its call.
            if unsafe { show(context, &raw const shown) } != 0 {
                break;
            }
        }
        Ok(())
    })
}
