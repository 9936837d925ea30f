//! A part of the past as samples, as a live target gives them.

use crate::plot::Input;
use crate::sources::Sample;
use output::samples::{Column, ColumnKind};

/// Returns the samples of an input from a moment on, seconds since 1970, oldest first.
pub(crate) fn samples(input: &Input, from: f64) -> impl Iterator<Item = Sample> + '_ {
    let (samples, began) = (&input.samples, input.began());
    let first = samples.seconds.partition_point(|second| began + second < from);
    samples.seconds.iter().enumerate().skip(first).map(move |(i, second)| {
        let value = |(name, column): (&String, &Column)| {
            Some((name.clone(), "", ColumnKind::Gauge, column.values.get(i).copied().flatten()?))
        };
        let values = samples.columns.iter().filter_map(value).collect();
        Sample::new(((began + second) * 1e6).round() as u64, values)
    })
}
