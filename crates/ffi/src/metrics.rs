//! Metrics: every figure of the catalog, one by one.

use crate::bytes::{Buffer, Bytes, exclusive, shared};
use crate::db::Db;
use crate::guard::guard_ok;
use crate::rc::misuse;
use ::metrics::{M, MetricKind};
use std::ffi::{c_int, c_void};

/// Gets one figure: its name, its value, whether it is a counter (else a level), and its meaning,
/// which is empty for a figure of a family. A result other than 0 ends the list.
pub type MetricFn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        name: Bytes,
        value: f64,
        is_counter: u32,
        help: Bytes,
    ) -> c_int,
>;

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
                None => (!name.contains('.') || name.ends_with(".count"), ""),
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
