//! The commands of the program `millpond` that watch servers and databases while they run, and show
//! what was seen.
//!
//! `cli` holds the commands. `sources` samples servers and databases; `collect` keeps the samples,
//! `record` the last days, and `stalk` the minutes around a stall; `claimed` is a directory that
//! one process writes. `top` shows samples in a terminal, `serve` in a browser, live or of the
//! `past`; `forecast` foretells when the log's limits are reached. `plot` reads what was kept, and
//! `report` draws it. `advise` says what to change. `redo` shows who writes the redo log,
//! `trace_fsync` the syncs of a process, `explain` what settings and figures mean.

mod advise;
mod claimed;
mod cli;
mod collect;
mod explain;
mod forecast;
mod past;
mod plot;
mod record;
mod redo;
mod report;
#[cfg(test)]
#[path = "../../output/src/scratch.rs"]
mod scratch;
mod serve;
mod sources;
mod stalk;
mod top;
mod trace_fsync;
mod wrap;

pub use cli::{Advise, Age, Collect, Explain, Forecast, Plot, Record, Redo, Serve, Stalk, Top, TraceFsync};
pub use plot::{Input, load};
pub use report::{Drawing, WatchedReport, views_of};
pub use sources::{About, RowChanges, Sample, Source, is_of_host, of_access};
