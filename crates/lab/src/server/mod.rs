//! The workloads of `millpond run` over SQL, on any engine of a server.
//!
//! `schema` is where a run works and what it may delete there, `load` fills it, `sysbench` has the
//! tables and statements of the OLTP family, `napkin`, `insert`, `bulk_load` and `schema_reload`
//! those of the other workloads; `tpcc` has its own load, statements and conditions. `workloads`
//! lists them. `observer` reads the server's figures, `figures` says what they were between two
//! readings, `sync_trace` which files were synced, `result` shows all, `check` asks at the end
//! whether the tables are whole. `plan` tells the statements and runs none. `worker` is a
//! connection whose errors are those of the driver.

mod bulk_load;
mod check;
mod figures;
mod insert;
mod load;
mod napkin;
mod observer;
mod plan;
mod result;
mod schema;
mod schema_reload;
mod sync_trace;
mod sysbench;
mod tpcc;
mod worker;
mod workloads;

pub(crate) use check::check;
pub(crate) use load::Filled;
pub(crate) use observer::ServerObserver;
pub(crate) use result::{Around, ServerRequest, ServerResult};
pub(crate) use schema::{Contents, Schema, ServerLoad, remove};
pub(crate) use sync_trace::SyncTrace;
pub(crate) use workloads::{ServerWorkload, build, default_schema, load_name};
