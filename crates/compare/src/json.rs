//! All results as one JSON object.

use crate::measure::Measurement;
use crate::peers::version;
use crate::rounds::{Plan, Results};
use crate::summary::{PERCENTILES, Summary};
use serde_json::{Map, Value, json};

fn percentiles(values: impl IntoIterator<Item = f64>) -> Value {
    let names = PERCENTILES.iter().map(|(name, _)| (*name).to_owned());
    Value::Object(names.zip(values.into_iter().map(Value::from)).collect::<Map<_, _>>())
}

fn round(figures: &Measurement) -> Value {
    let at = |(_, percentile): (_, f64)| figures.latency.value_at_percentile(percentile) as f64 / 1000.0;
    json!({
        "rate": figures.rate,
        "latency_us": percentiles(PERCENTILES.map(at)),
        "per_second": figures.per_second,
        "worst_second": figures.worst_second(),
    })
}

fn entry(name: &str, summary: &Summary, rounds: &[Measurement]) -> Value {
    json!({
        "peer": name,
        "rate": summary.rate,
        "to_millpond": summary.to_millpond,
        "latency_us": percentiles(summary.latency_us),
        "worst_second": summary.worst_second,
        "rounds": rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

/// Returns the object.
pub fn json(plan: &Plan, results: &Results, in_memory: bool) -> Value {
    let peers = plan.kinds.iter().map(|kind| {
        json!({
            "name": kind.name,
            "version": version(kind.package),
            "settings": kind.settings,
            "promise": kind.promise,
        })
    });
    let cells = results.cells.iter().map(|cell| {
        let summaries = cell.summaries();
        let entries = summaries.iter().zip(&cell.by_peer);
        json!({
            "workload": cell.work.name(),
            "unit": cell.work.unit(),
            "threads": cell.threads,
            "peers": entries.map(|((name, sum), (_, all))| entry(name, sum, all)).collect::<Vec<_>>(),
        })
    });
    let sizes = results
        .sizes
        .iter()
        .map(|size| json!({ "peer": size.peer, "loaded_bytes": size.loaded, "churned_bytes": size.churned }));
    json!({
        "rows": plan.rows,
        "value_bytes": crate::random::VALUE_BYTES,
        "seconds": plan.time.as_secs_f64(),
        "churn_seconds": plan.churn.as_secs_f64(),
        "rounds": plan.rounds,
        "cache_bytes": plan.cache_bytes,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "durable_device": !in_memory,
        "peers": peers.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
        "sizes": sizes.collect::<Vec<_>>(),
    })
}
