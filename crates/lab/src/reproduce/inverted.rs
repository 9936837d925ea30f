//! AND and OR of two lists of document ids: the experiment of the example `inverted_index`.

#[expect(dead_code, reason = "its own program and the comparison use more of it")]
#[cfg_attr(not(test), expect(unused_imports, reason = "the same"))]
#[path = "../../../millpond/examples/inverted_index/experiment/mod.rs"]
mod experiment;

use super::finding::{Finding, Row};
use super::room::Room;
use crate::own_command::number;
use output::failure::{Failure, Outcome};
use serde_json::Value;
use std::fs;
use std::time::Instant;

/// The article's queries, and what it computes and found for Lucene, ms.
const QUERIES: [(&str, &str); 5] = [
    ("AND, counted", "2.4; Lucene 45"),
    ("OR, counted", "2.4; Lucene 100"),
    ("AND, ids written", "2.4"),
    ("OR, ids written", "2.4"),
    ("AND, newest 100", "120"),
];

/// Asks the queries.
pub(super) fn queries(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let failed = |failure: experiment::Failure| Failure::failed(format!("the inverted index: {failure}"));
    let dir = room.scratch.join("D2.B28-millpond");
    let report = experiment::run(&experiment::Setup::default(), &dir, |_| Ok(Vec::new()));
    let report = report.map_err(failed)?;
    room.remove(&dir)?;
    let json = experiment::json(&report);
    let file = room.out.join("D2.B28.json");
    let cannot = |why: String| Failure::failed(format!("cannot write {}: {why}", file.display()));
    fs::write(&file, &json).map_err(|e| cannot(e.to_string()))?;
    let result: Value = serde_json::from_str(&json).map_err(|e| cannot(e.to_string()))?;
    let rows = rows(&result);
    Ok(Finding {
        holds: verdict(&rows),
        rows,
        scaled: "Nothing is smaller: 2 and 1 million ids. InnoDB has no such index. Millpond reads its lists from its buffer pool; the bound is one pass over the same bytes.".to_owned(),
        // Each answer was compared with that of two loops over sorted arrays.
        check: "ok".to_owned(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn rows(result: &Value) -> Vec<Row> {
    let queries = result.get("queries").and_then(Value::as_array);
    let queries: Vec<&Value> = queries.into_iter().flatten().collect();
    // The last column is Millpond from its pool.
    let columns = result.get("columns").and_then(Value::as_array);
    let pool = columns.and_then(|all| all.last()?.get("name")?.as_str()).unwrap_or_default();
    let row = |(name, published): &(&str, &str)| {
        let query = queries.iter().find(|query| query.get("query").and_then(Value::as_str) == Some(*name))?;
        let millpond = query.get("ms")?.get(pool).and_then(|times| number(times, "/median"));
        let bound = number(query, "/bound_ms/median");
        Some(Row { bound, ..Row::new(name, Some(published), None, millpond, "ms") })
    };
    QUERIES.iter().filter_map(row).collect()
}

/// Says whether the computed times can be reached.
fn verdict(rows: &[Row]) -> String {
    let Some(slowest) = rows.iter().take(2).filter_map(|row| row.millpond).max_by(f64::total_cmp) else {
        return "Nothing can be said: no query was answered.".to_owned();
    };
    let holds = if slowest <= 2.4 { "It holds" } else { "It does not show here" };
    format!(
        "{holds}: Millpond answers AND and OR in {slowest:.2} ms or less, where the article computes 2.4 ms and found Lucene to need 45 and 100."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_column_is_the_pool() {
        let query = |name: &str, ms: f64| {
            json!({"query": name, "ms": {"arrays": {"median": 9.0}, "pool": {"median": ms}},
                   "bound_ms": {"median": 0.1}})
        };
        let result = json!({
            "columns": [{"name": "arrays"}, {"name": "pool"}],
            "queries": [query("AND, counted", 0.2), query("OR, counted", 0.4)],
        });
        let rows = rows(&result);
        assert_eq!((rows.len(), rows[1].millpond, rows[1].bound), (2, Some(0.4), Some(0.1)));
        assert!(verdict(&rows).starts_with("It holds: Millpond answers AND and OR in 0.40 ms"));
        assert!(verdict(&[]).starts_with("Nothing"));
    }
}
