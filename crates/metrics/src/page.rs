//! The catalog as a page of documentation.

use crate::catalog::CATALOG;
use crate::labels::{FileKind, Force, Latency, SyncReason};
use std::fmt::Write;

/// Returns the catalog as a Markdown page: `docs/metrics.md`. A test keeps that file equal.
pub(crate) fn catalog_page() -> String {
    let mut out = String::from(
        "# Metrics\n\nThis page is generated from the catalog in `crates/metrics/src/catalog.rs`, by\n\
         `UPDATE_EXPECT=1 cargo test -p millpond-metrics`.\n\
         A counter only grows; a gauge is a level. `Snapshot::get` finds every name.\n\n\
         | name | unit | kind | meaning |\n| --- | --- | --- | --- |\n",
    );
    for e in CATALOG {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", e.name, e.unit.label(), e.kind.label(), e.help);
    }
    out.push_str(
        "\n## Syncs\n\n`fsyncs`, `fsync_us_total` and `fsync_waiters` count all syncs, their time, and the callers \
         that waited\nfor them. `fsyncs_by_file.F` and `fsyncs_by_reason.R` split them. Each pair of file and reason \
         has a\nlatency histogram of its own.\n\n| F | file |\n| --- | --- |\n",
    );
    for f in FileKind::ALL {
        let _ = writeln!(out, "| `{}` | {} |", f.label(), f.help());
    }
    out.push_str("\n| R | reason |\n| --- | --- |\n");
    for r in SyncReason::ALL {
        let _ = writeln!(out, "| `{}` | {} |", r.label(), r.help());
    }
    out.push_str(
        "\n## Page writes by force\n\n`pages_written_by_force.W` counts pages, `page_writes_io_by_force.W` the I/Os \
         that wrote them.\n\n| W | what forced the write |\n| --- | --- |\n",
    );
    for w in Force::ALL {
        let _ = writeln!(out, "| `{}` | {} |", w.label(), w.help());
    }
    out.push_str(
        "\n## Latencies\n\nEach has `.count`, `.mean`, `.p50`, `.p95`, `.p99` and `.max`, in microseconds. A quantile \
         is at most a\nquarter too high.\n\n| name | what took the time |\n| --- | --- |\n",
    );
    for l in Latency::ALL {
        let _ = writeln!(out, "| `{}` | {} |", l.label(), l.help());
    }
    out
}
