//! How many rows a scan that locks ranges locks before they are asked for. Pure.
//!
//! A statement that wants a few rows locks no others, and a long scan pays little for each row.

/// A fetch locks this part of the rows that the scan has shown.
const PART: usize = 4;
/// The most rows that one fetch locks.
const MOST: usize = 64;
/// A scan that was asked to lock its rows locks them one by one before it has shown so many. The
/// locks of a plain read are for its transaction alone to know.
const SHOWN_LEAST: usize = 64;

/// How many rows a fetch of a scan locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchSize {
    /// Rows that the scan has shown.
    shown: usize,
    /// Rows of the fetch before.
    fetched: usize,
    /// It grows while all fetched rows are shown. A transaction that changes the rows that it reads
    /// reads them again after each change.
    most: usize,
}

impl Default for FetchSize {
    fn default() -> FetchSize {
        FetchSize { shown: 0, fetched: 0, most: MOST }
    }
}

impl FetchSize {
    /// Returns how many rows the next fetch locks. `asked`: the caller asked for locks.
    pub(super) fn rows(self, asked: bool) -> usize {
        let least = if asked { SHOWN_LEAST } else { 0 };
        if self.shown < least { 1 } else { (self.shown / PART).clamp(1, self.most) }
    }

    /// Notes that of the fetched rows so many were shown before the scan needs the next ones.
    pub(super) fn note_shown(&mut self, shown: usize) {
        self.shown = self.shown.saturating_add(shown);
        let all = shown >= self.fetched;
        self.most = if all { (self.most * 2).min(MOST) } else { 1 };
    }

    /// Notes that a fetch has brought so many rows.
    pub(super) fn note_fetched(&mut self, rows: usize) {
        self.fetched = rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows `shown` rows of each fetch, and returns how many rows the fetches locked.
    fn fetches(asked: bool, shown: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut size = FetchSize::default();
        let mut rows = Vec::new();
        for n in 0..400 {
            rows.push(size.rows(asked));
            size.note_fetched(rows[n]);
            size.note_shown(shown(rows[n]));
        }
        rows
    }

    #[test]
    fn a_short_scan_locks_what_it_shows_and_a_long_one_a_quarter_more() {
        let plain = fetches(false, |rows| rows);
        assert_eq!(&plain[..14], [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5]);
        let asked = fetches(true, |rows| rows);
        assert!(asked[..64].iter().all(|rows| *rows == 1));
        assert_eq!(asked[64..67], [16, 20, 25]);
        for rows in [plain, asked] {
            assert_eq!(rows[399], MOST);
            let mut shown = 0;
            for fetched in rows {
                assert!(fetched <= 1.max(shown / PART));
                shown += fetched;
            }
        }
    }

    /// A statement that changes each row that it reads locks at most two rows with each fetch.
    #[test]
    fn rows_that_are_read_again_are_locked_one_by_one() {
        assert!(fetches(true, |_| 1).iter().filter(|rows| **rows > 2).count() <= 1);
    }
}
