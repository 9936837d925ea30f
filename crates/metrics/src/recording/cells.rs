//! The cells of a snapshot: all its numbers in a row, and the text that says what they are.
//!
//! A *part* is some cells that belong together, such as the buckets of one histogram. A line of the
//! text names a part by words, and ends with its number of cells: `plain commits 1`.

use crate::catalog::{CATALOG, M};
use crate::histogram::{BUCKETS, HistogramCounts};
use crate::labels::{FileKind, Force, Latency, SyncReason};
use crate::snapshot::{FsyncRow, LatencyRow, Snapshot};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Cells of a histogram: sum, maximum, buckets.
const HISTOGRAM_CELLS: usize = 2 + BUCKETS;

/// The parts of this program's snapshots.
static OWN: LazyLock<Schema> = LazyLock::new(|| Schema { parts: own_parts() });

fn own_parts() -> Vec<(String, usize)> {
    let plain = CATALOG.iter().map(|entry| (format!("plain {}", entry.name), 1));
    let forces = Force::ALL.iter().map(|force| (format!("page_writes {}", force.label()), 2));
    let syncs = FileKind::ALL.iter().flat_map(|file| {
        SyncReason::ALL
            .iter()
            .map(move |reason| (format!("fsync {} {}", file.label(), reason.label()), 1 + HISTOGRAM_CELLS))
    });
    let latencies = Latency::ALL.iter().map(|what| (format!("latency {}", what.label()), HISTOGRAM_CELLS));
    plain.chain(forces).chain(syncs).chain(latencies).collect()
}

/// What the cells of a recording are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schema {
    /// Name and number of cells of each part, in the order of the cells.
    parts: Vec<(String, usize)>,
}

impl Schema {
    /// The schema of this program's snapshots.
    pub(super) fn own() -> &'static Schema {
        &OWN
    }

    /// Returns the text of the schema.
    pub(super) fn text(&self) -> String {
        self.parts.iter().map(|(name, cells)| format!("{name} {cells}\n")).collect()
    }

    /// Reads a text; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Schema> {
        let part = |line: &str| {
            let (name, cells) = line.rsplit_once(' ')?;
            let cells = cells.parse().ok().filter(|cells| (1..=CELLS_MAX).contains(cells))?;
            Some((name.to_owned(), cells))
        };
        let parts: Vec<_> = text.lines().map(part).collect::<Option<_>>()?;
        let schema = Schema { parts };
        (schema.cells() <= CELLS_MAX).then_some(schema)
    }

    /// Returns the number of cells.
    pub(super) fn cells(&self) -> usize {
        self.parts.iter().map(|(_, cells)| cells).sum()
    }

    /// Returns where each part begins, and how many cells it has.
    fn places(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut at = 0;
        let mut places = BTreeMap::new();
        for (name, cells) in &self.parts {
            places.insert(name.as_str(), (at, *cells));
            at += cells;
        }
        places
    }
}

/// No recording has more cells. A damaged one cannot ask for more memory.
const CELLS_MAX: usize = 1 << 20;

/// How the cells of a recording become those of this program.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    /// From a cell, to a cell, so many.
    ranges: Vec<(usize, usize, usize)>,
    /// Names of this program's parts that the recording does not have.
    pub(super) missing: Vec<String>,
}

impl Translation {
    /// Returns how cells of `from` become this program's.
    pub(super) fn new(from: &Schema) -> Translation {
        let places = from.places();
        let (mut ranges, mut missing, mut at) = (Vec::new(), Vec::new(), 0);
        for (name, cells) in &Schema::own().parts {
            match places.get(name.as_str()) {
                Some(&(place, theirs)) => ranges.push((place, at, theirs.min(*cells))),
                None => missing.push(name.clone()),
            }
            at += cells;
        }
        Translation { ranges, missing }
    }

    /// Returns the snapshot that cells of a recording describe. What it lacks is 0.
    pub(super) fn snapshot(&self, cells: &[u64]) -> Snapshot {
        let mut own = vec![0; Schema::own().cells()];
        for &(from, to, count) in &self.ranges {
            own[to..to + count].copy_from_slice(&cells[from..from + count]);
        }
        snapshot_of(&own)
    }
}

/// Writes the cells of a snapshot to `cells`, which it replaces.
pub(super) fn flatten(snapshot: &Snapshot, cells: &mut Vec<u64>) {
    cells.clear();
    cells.extend(&snapshot.plain);
    for (pages, ios) in snapshot.pages_by_force.iter().zip(&snapshot.ios_by_force) {
        cells.extend([pages, ios]);
    }
    let mut rows = snapshot.fsyncs.iter().peekable();
    for &file in FileKind::ALL {
        for &reason in SyncReason::ALL {
            // The rows are in this order, and pairs that never occurred are left out.
            let row = rows.next_if(|row| (row.file, row.reason) == (file, reason));
            cells.push(row.map_or(0, |row| row.waiters));
            flatten_histogram(row.map(|row| &row.took), cells);
        }
    }
    for row in &snapshot.latencies {
        flatten_histogram(Some(&row.took), cells);
    }
    base::check!(cells.len() == Schema::own().cells(), "a snapshot of {} cells", cells.len());
}

fn flatten_histogram(counts: Option<&HistogramCounts>, cells: &mut Vec<u64>) {
    let end = cells.len() + HISTOGRAM_CELLS;
    if let Some(counts) = counts {
        cells.extend([counts.sum_us(), counts.max_us()]);
        cells.extend(counts.buckets());
    }
    cells.resize(end, 0);
}

/// Returns the snapshot of this program's cells.
fn snapshot_of(cells: &[u64]) -> Snapshot {
    let (plain, rest) = cells.split_at(M::COUNT);
    let (forces, rest) = rest.split_at(2 * Force::COUNT);
    let (syncs, latencies) = rest.split_at(FileKind::COUNT * SyncReason::COUNT * (1 + HISTOGRAM_CELLS));
    let pairs =
        FileKind::ALL.iter().flat_map(|&file| SyncReason::ALL.iter().map(move |&reason| (file, reason)));
    let fsyncs = pairs.zip(syncs.chunks_exact(1 + HISTOGRAM_CELLS)).map(|((file, reason), cells)| FsyncRow {
        file,
        reason,
        waiters: cells[0],
        took: histogram_of(&cells[1..]),
    });
    Snapshot {
        plain: plain.to_vec(),
        pages_by_force: forces.iter().copied().step_by(2).collect(),
        ios_by_force: forces.iter().copied().skip(1).step_by(2).collect(),
        fsyncs: fsyncs.filter(|row| row.took.count() > 0).collect(),
        latencies: Latency::ALL
            .iter()
            .zip(latencies.chunks_exact(HISTOGRAM_CELLS))
            .map(|(&what, cells)| LatencyRow { what, took: histogram_of(cells) })
            .collect(),
    }
}

fn histogram_of(cells: &[u64]) -> HistogramCounts {
    HistogramCounts::of(&cells[2..], cells[0], cells[1])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Metrics;

    /// A snapshot with something in every family.
    pub(in crate::recording) fn busy() -> Metrics {
        let metrics = Metrics::new();
        metrics.add(M::Commits, 7);
        metrics.set(M::DirtyPages, 12);
        metrics.page_writes(Force::Idle, 64, 3, false);
        metrics.fsync(FileKind::Log, SyncReason::Commit, 90, 5);
        metrics.fsync(FileKind::Root, SyncReason::Close, 1000, 0);
        metrics.time(Latency::PageRead, 70);
        metrics
    }

    #[test]
    fn a_snapshot_becomes_cells_and_again_the_same_snapshot() {
        let snapshot = busy().snapshot();
        let mut cells = vec![1; 3];
        flatten(&snapshot, &mut cells);
        assert_eq!(snapshot_of(&cells), snapshot);
        assert_eq!(Translation::new(Schema::own()).snapshot(&cells), snapshot);
    }

    #[test]
    fn the_text_names_every_part_once() {
        let own = Schema::own();
        assert_eq!(Schema::parse(&own.text()).as_ref(), Some(own));
        assert_eq!(own.places().len(), own.parts.len());
        for bad in
            ["plain commits", "plain commits x\n", "plain commits 0\n", "plain commits 9999999\n", "\n"]
        {
            assert_eq!(Schema::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn cells_of_another_version_keep_their_names() {
        let other = Schema::parse("plain gone 1\nlatency commit_us 3\nplain commits 1\n").unwrap();
        let translation = Translation::new(&other);
        let snapshot = translation.snapshot(&[5, 44, 9, 2, 7]);
        assert_eq!(snapshot.value(M::Commits), 7);
        let commit = &snapshot.latencies()[Latency::Commit as usize].took;
        assert_eq!((commit.sum_us(), commit.max_us(), commit.count()), (44, 9, 2));
        assert!(translation.missing.iter().any(|name| name == "plain dirty_pages"));
        assert!(!translation.missing.iter().any(|name| name == "plain commits"));
    }
}
