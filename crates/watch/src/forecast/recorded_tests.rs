//! The forecast of loads that were recorded: at least as good as `docs/forecast.md` says. The
//! constants were fitted to those in `fit`, and judged by those in `judge` and `usual`.

use super::replay::judge;
use std::path::{Path, PathBuf};

/// Judges all recordings of a set: foreseen events, those that could be foreseen, wrong forecasts.
fn counted(set: &str) -> (usize, usize, usize) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/forecast/recorded").join(set);
    let mut dirs: Vec<PathBuf> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.sort();
    let judged = judge(&dirs).unwrap();
    let all = judged.all();
    (all.foreseen(), all.events.len() - all.too_fast(), all.wrong.len())
}

#[test]
fn how_good_it_is_about_the_loads_that_it_was_fitted_to_and_about_others() {
    for (set, least_foreseen, events, most_wrong) in
        [("fit", 12, 26, 3), ("judge", 7, 10, 7), ("usual", 12, 12, 1)]
    {
        let (foreseen, found, wrong) = counted(set);
        assert_eq!(found, events, "{set}");
        assert!(foreseen >= least_foreseen && wrong <= most_wrong, "{set}: {foreseen}, {wrong}");
    }
}
