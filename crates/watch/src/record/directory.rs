//! The files of a recording.

use super::segments::Segment;
use output::failure::{Failure, Outcome};
use std::fs;
use std::path::Path;

/// The file that makes a directory a recording.
pub(crate) const MARK: &str = "recording.txt";

/// Returns the segments of a directory, the oldest first.
pub(super) fn segments(dir: &Path) -> Outcome<Vec<Segment>> {
    let cannot = |e: std::io::Error| Failure::misuse(format!("cannot read {}: {e}", dir.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(cannot)? {
        found.extend(Segment::parse(&entry.map_err(cannot)?.file_name().to_string_lossy()));
    }
    found.sort_unstable();
    Ok(found)
}
