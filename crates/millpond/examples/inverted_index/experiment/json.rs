//! The report as one JSON object. It consists of numbers and of names without quotation marks, so a
//! library is not needed to write it.

use super::report::{Report, Row};
use super::timing::Timing;

/// Returns the object.
pub(crate) fn json(report: &Report) -> String {
    let setup = &report.setup;
    let columns = report.columns.iter().map(|column| {
        let bytes = column.list_bytes.map_or("null".into(), |bytes| bytes.to_string());
        format!("{{ \"name\": \"{}\", \"list_bytes\": {bytes} }}", column.name)
    });
    let rows = report.rows.iter().map(|row| json_of_row(report, row));
    format!(
        "{{\n  \"universe\": {},\n  \"sizes\": {:?},\n  \"seeds\": {:?},\n  \"runs\": {},\n  \
         \"bitmap_factor\": {},\n  \"bitmap_blocks\": {},\n  \"packed_blocks\": {},\n  \
         \"columns\": [\n    {}\n  ],\n  \"queries\": [\n    {}\n  ]\n}}\n",
        setup.universe,
        setup.sizes,
        setup.seeds,
        setup.runs,
        setup.bitmap_factor,
        report.blocks[0],
        report.blocks[1],
        columns.collect::<Vec<_>>().join(",\n    "),
        rows.collect::<Vec<_>>().join(",\n    "),
    )
}

fn json_of_row(report: &Report, row: &Row) -> String {
    let published = row.query.published();
    let timings = report.columns.iter().zip(&row.timings).map(|(column, timing)| {
        format!("\"{}\": {}", column.name, timing.as_ref().map_or("null".into(), times))
    });
    format!(
        "{{ \"query\": \"{}\", \"ids\": {}, \"published_computed_ms\": {}, \"published_lucene_ms\": {}, \
         \"ms\": {{ {} }}, \"read_bytes\": {}, \"written_bytes\": {}, \"bound_ms\": {} }}",
        row.query.name(),
        row.ids,
        published.computed_ms,
        published.lucene_ms.map_or("null".into(), |ms| ms.to_string()),
        timings.collect::<Vec<_>>().join(", "),
        row.read_bytes,
        row.written_bytes,
        times(&row.bound),
    )
}

fn times(Timing { median_ms, fastest_ms, slowest_ms }: &Timing) -> String {
    format!("{{ \"median\": {median_ms}, \"fastest\": {fastest_ms}, \"slowest\": {slowest_ms} }}")
}
