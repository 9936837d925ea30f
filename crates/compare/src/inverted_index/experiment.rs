//! The code of the engine's example `inverted_index`, as it is there.

#[path = "../../../millpond/examples/inverted_index/experiment/mod.rs"]
mod of_example;

pub(super) use of_example::{Answer, Contestant, Data, Failure, Query, Setup, json, run, table};
